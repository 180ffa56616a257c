//! A root finder, for the functions that the models invert.

/// Returns where `function` reaches `target`; infinity if it does not below 10^300. `function` must rise from 0 at 0,
/// roughly like a power. `guess` may be at any distance from the solution.
///
/// Regula falsi with the Illinois rule on the logarithms, where these functions are nearly straight. Takes about a
/// dozen evaluations and is accurate to 12 digits.
pub fn increasing_root(target: f64, guess: f64, function: impl Fn(f64) -> f64) -> f64 {
    if target.is_nan() || target <= 0.0 {
        return 0.0;
    }
    let excess = |x: f64| (function(x) / target).ln().max(-1e3);
    let Some((mut low, mut high)) = bracket(guess, &excess) else {
        return f64::INFINITY;
    };
    let mut side = 0;
    for _ in 0..200 {
        let (from, to) = (low.0.ln(), high.0.ln());
        if to - from < 1e-14 {
            break;
        }
        let straight = (from - low.1 * (to - from) / (high.1 - low.1)).exp();
        let x = if straight > low.0 && straight < high.0 { straight } else { (low.0 * high.0).sqrt() };
        let y = excess(x);
        if y.abs() < 1e-14 {
            return x;
        }
        if y < 0.0 {
            low = (x, y);
            high.1 /= if side < 0 { 2.0 } else { 1.0 };
            side = -1;
        } else {
            high = (x, y);
            low.1 /= if side > 0 { 2.0 } else { 1.0 };
            side = 1;
        }
    }
    (low.0 * high.0).sqrt()
}

type Point = (f64, f64);

/// Returns two points with the solution between them.
fn bracket(guess: f64, excess: &impl Fn(f64) -> f64) -> Option<(Point, Point)> {
    let first = if guess > 0.0 && guess.is_finite() { guess } else { 1.0 };
    let mut near = (first, excess(first));
    let rising = near.1 < 0.0;
    let mut factor: f64 = 1.5;
    while (1e-300..1e300).contains(&near.0) {
        let x = if rising { near.0 * factor } else { near.0 / factor };
        let far = (x, excess(x));
        match (rising, far.1 >= 0.0) {
            (true, true) => return Some((near, far)),
            (false, false) => return Some((far, near)),
            _ => near = far,
        }
        factor *= factor;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_found_from_any_guess() {
        for guess in [1e-9, 0.3, 1.0, 7.0, 1e12, f64::INFINITY] {
            let root = increasing_root(8.0, guess, |x| x * x * x);
            assert!((root - 2.0).abs() < 1e-12, "{root} from {guess}");
            let root = increasing_root(0.999, guess, |x| 1.0 - (-x).exp());
            assert!((root + 0.001f64.ln()).abs() < 1e-9, "{root} from {guess}");
        }
    }

    #[test]
    fn what_is_never_reached_takes_infinitely_long() {
        assert_eq!(increasing_root(2.0, 1.0, |x| 1.0 - (-x).exp()), f64::INFINITY);
        assert_eq!(increasing_root(0.0, 1.0, |x| x), 0.0);
    }

    #[test]
    fn few_evaluations_are_needed() {
        let evaluations = std::cell::Cell::new(0);
        increasing_root(0.7, 0.7, |x| {
            evaluations.set(evaluations.get() + 1);
            1.0 - (-x).exp()
        });
        assert!(evaluations.get() <= 15, "{}", evaluations.get());
    }
}

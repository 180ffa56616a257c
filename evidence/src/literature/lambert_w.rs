//! The Lambert W function, which gives the write amplification of a cleaned log (FlashKey, VI-C).

/// W₀, the principal branch: the solution w ≥ −1 of w · e^w = z. NaN below −1 / e. Accurate to 14 digits.
pub fn lambert_w(z: f64) -> f64 {
    let branch = (1.0 + z * std::f64::consts::E).max(0.0);
    if z.is_nan() || z < -(-1.0f64).exp() {
        return f64::NAN;
    }
    if z.is_infinite() {
        return z;
    }
    let mut w = if z < 0.0 {
        let root = (2.0 * branch).sqrt();
        -1.0 + root - root * root / 3.0 + 11.0 / 72.0 * root.powi(3)
    } else {
        z.ln_1p() * 0.8
    };
    // Halley's method.
    for _ in 0..50 {
        let power = w.exp();
        let excess = w * power - z;
        let slope = power * (w + 1.0);
        let step = excess / (slope - excess * (w + 2.0) / (2.0 * w + 2.0));
        if !step.is_finite() {
            break;
        }
        w -= step;
        if step.abs() <= 1e-16 * w.abs() {
            break;
        }
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_inverts_w_times_its_exponential() {
        for w in [-0.999, -0.84, -0.3, -1e-9, 0.0, 1e-6, 0.5, 1.0, 7.0, 200.0] {
            let found = lambert_w(w * f64::exp(w));
            assert!((found - w).abs() < 1e-9 * (1.0 + w.abs()), "{found} for {w}");
        }
        assert!((lambert_w(1.0) - 0.567_143_290_409_784).abs() < 1e-14);
        assert!(lambert_w(-0.4).is_nan());
    }
}

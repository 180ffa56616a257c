//! Whether what was measured is what the paper states.

use super::Point;
use crate::quantity::Better;
use serde::Serialize;

/// How an item is judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// A value that differs from the paper's by at most this share of it is the same.
    Within(f64),
    /// The same, but rates and times, which are of another machine, are not judged.
    CountsWithin(f64),
    /// The values depend on something that differs here, such as the drive.
    Not(&'static str),
}

/// The verdict on an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All values are the paper's, within the tolerance of the item.
    Reproduced,
    /// No value is worse than the paper's, and at least one is better.
    Better,
    /// At least one value is worse than the paper's.
    Worse,
    /// The paper's values cannot be compared with what was measured.
    NotComparable(&'static str),
}

impl Verdict {
    /// Returns the verdict as words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NotComparable(_) => "not comparable",
        }
    }
}

impl Judged {
    /// Returns the verdict on a point; `None` if the paper states no value of it, or it has none here.
    fn of_point(tolerance: f64, point: &Point) -> Option<Verdict> {
        let (paper, ours) = (point.paper?, point.ours()?);
        let tolerance = (tolerance + paper.error()) * paper.number().abs();
        let more = ours - paper.number();
        Some(match point.quantity.better {
            _ if more.abs() <= tolerance => Verdict::Reproduced,
            Better::Lower if more < 0.0 => Verdict::Better,
            Better::Higher if more > 0.0 => Verdict::Better,
            _ => Verdict::Worse,
        })
    }

    /// Returns the verdict on all points of an item.
    pub fn verdict(self, points: &[Point]) -> Verdict {
        let (tolerance, with_rates) = match self {
            Judged::Within(tolerance) => (tolerance, true),
            Judged::CountsWithin(tolerance) => (tolerance, false),
            Judged::Not(why) => return Verdict::NotComparable(why),
        };
        let judged = points.iter().filter(|point| with_rates || !point.is_rate());
        let of_points: Vec<_> = judged.filter_map(|point| Judged::of_point(tolerance, point)).collect();
        let has = |verdict| of_points.contains(&verdict);
        match of_points.is_empty() {
            true => Verdict::NotComparable("the paper states no value of it"),
            false if has(Verdict::Worse) => Verdict::Worse,
            false if has(Verdict::Better) => Verdict::Better,
            false => Verdict::Reproduced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::Reading;
    use crate::quantity::{BytesPerKey, Quantity, Quoted};

    const RAM: Quantity<BytesPerKey> = Quantity::lower("memory");
    const SAME: Quantity<BytesPerKey> = Quantity::equal("memory of the formula");

    fn ram(paper: f64, measured: f64) -> Point {
        RAM.of("a").paper(Quoted::text(paper)).is(Reading::count(measured))
    }

    #[test]
    fn the_worst_point_decides() {
        let verdict = |points: &[Point]| Judged::Within(0.05).verdict(points);
        assert_eq!(verdict(&[ram(1.0, 1.04)]), Verdict::Reproduced);
        assert_eq!(verdict(&[ram(1.0, 1.04), ram(1.0, 0.5)]), Verdict::Better);
        assert_eq!(verdict(&[ram(1.0, 1.06), ram(1.0, 0.5)]), Verdict::Worse);
        let less = SAME.of("a").paper(Quoted::text(1.0)).calculated(0.5);
        assert_eq!(verdict(&[less]), Verdict::Worse);
    }

    #[test]
    fn rates_are_not_judged_where_only_counts_are() {
        let slow = RAM.of("a").paper(Quoted::text(1.0)).is(Reading::time(9.0));
        let points = [ram(1.0, 1.0), slow];
        assert_eq!(Judged::CountsWithin(0.05).verdict(&points), Verdict::Reproduced);
        assert_eq!(Judged::Within(0.05).verdict(&points), Verdict::Worse);
    }

    #[test]
    fn the_error_of_reading_a_picture_is_tolerated() {
        let read = RAM.of("a").paper(Quoted::read(1.0, 0.1)).is(Reading::count(1.14));
        assert_eq!(Judged::Within(0.05).verdict(&[read]), Verdict::Reproduced);
    }

    #[test]
    fn without_a_value_of_the_paper_there_is_no_verdict() {
        let point = RAM.of("a").is(Reading::count(1.0));
        assert!(matches!(Judged::Within(0.05).verdict(&[point]), Verdict::NotComparable(_)));
        let other = Judged::Not("another drive").verdict(&[ram(1.0, 1.0)]);
        assert_eq!(other, Verdict::NotComparable("another drive"));
    }
}

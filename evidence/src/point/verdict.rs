//! Whether what was measured is what the paper states.

use super::Point;
use crate::quantity::Better;
use serde::{Serialize, Serializer};
use std::fmt;

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

/// Why a value of a paper is not compared with what was measured next to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// For this reason.
    Reason(&'static str),
    /// The value depends on the number of keys, and there are fewer than these.
    FewerKeys(u64),
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Reason(reason) => formatter.write_str(reason),
            Why::FewerKeys(least) => write!(formatter, "fewer than {least} keys"),
        }
    }
}

impl Serialize for Why {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
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
    NotComparable(Why),
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
    /// Returns the verdict on a point; `None` if the paper states no value of it, it is not judged, or it is no number.
    pub fn of_point(self, point: &Point) -> Option<Verdict> {
        let tolerance = match self {
            Judged::Within(tolerance) => tolerance,
            Judged::CountsWithin(tolerance) if !point.is_rate() => tolerance,
            Judged::CountsWithin(_) | Judged::Not(_) => return None,
        };
        let (paper, ours) = (point.paper?, point.ours()?);
        // An infinite value would be better than all others.
        if point.unjudged.is_some() || !ours.is_finite() {
            return None;
        }
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
        if let Judged::Not(reason) = self {
            return Verdict::NotComparable(Why::Reason(reason));
        }
        let of_points: Vec<_> = points.iter().filter_map(|point| self.of_point(point)).collect();
        let reasons = || points.iter().filter_map(|point| point.unjudged);
        let unjudged = reasons().find(|why| matches!(why, Why::FewerKeys(_))).or(reasons().next());
        let has = |verdict| of_points.contains(&verdict);
        match of_points.is_empty() {
            true => {
                Verdict::NotComparable(unjudged.unwrap_or(Why::Reason("the paper states no value of it")))
            }
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
    fn points_of_fewer_keys_than_the_least_are_not_judged() {
        let of = |keys| RAM.of("a").paper(Quoted::text(1.0)).from_keys(keys, 100).is(Reading::count(9.0));
        let verdict = |points: &[Point]| Judged::Within(0.05).verdict(points);
        assert_eq!(verdict(&[of(100)]), Verdict::Worse);
        assert_eq!(verdict(&[of(99)]), Verdict::NotComparable(Why::FewerKeys(100)));
        assert_eq!(verdict(&[of(99), ram(1.0, 1.0)]), Verdict::Reproduced);
    }

    #[test]
    fn without_a_value_of_the_paper_there_is_no_verdict() {
        let point = RAM.of("a").is(Reading::count(1.0));
        assert!(matches!(Judged::Within(0.05).verdict(&[point]), Verdict::NotComparable(_)));
        let other = Judged::Not("another drive").verdict(&[ram(1.0, 1.0)]);
        assert_eq!(other, Verdict::NotComparable(Why::Reason("another drive")));
    }

    #[test]
    fn what_is_no_finite_number_has_no_verdict() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Judged::Within(0.05).of_point(&ram(1.0, value)), None, "{value}");
        }
        let verdict = Judged::Within(0.05).verdict(&[ram(1.0, f64::NEG_INFINITY), ram(1.0, 2.0)]);
        assert_eq!(verdict, Verdict::Worse);
    }
}

//! The points of experiments, by item, and of several runs.

use super::{Point, Spread, Taken};
use crate::{Error, Result};

/// What a run of an experiment is for.
///
/// Counts are the same in each run without background threads, so they have one such run. Rates need threads, and
/// differ from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// One run without background threads.
    Counts,
    /// Several runs, each as a database runs by default.
    Rates,
}

impl Pass {
    fn takes(self, taken: Taken) -> bool {
        match taken {
            Taken::Counted | Taken::Settled => self == Pass::Counts,
            Taken::Sampled | Taken::Timed => self == Pass::Rates,
        }
    }
}

/// Takes the points of a run, each for an item. What the run is not for is dropped: counts of runs with threads, and
/// rates of runs without.
#[derive(Debug)]
pub struct Points {
    pass: Pass,
    taken: Vec<(&'static str, Point)>,
}

impl Points {
    /// Returns an empty list of a run.
    pub fn new(pass: Pass) -> Points {
        Points { pass, taken: Vec::new() }
    }

    /// Adds a point of an item. Points that were not measured belong to the run of counts.
    pub fn add(&mut self, item: &'static str, point: Point) {
        let takes =
            point.measured.map_or(self.pass == Pass::Counts, |measured| self.pass.takes(measured.taken));
        if takes {
            self.taken.push((item, point));
        }
    }

    /// Checks that no value is infinite or no number, such as the quotient of two counts of zero.
    ///
    /// # Errors
    /// One is.
    pub fn check(&self) -> Result<()> {
        for (item, Point { series, quantity, model, measured, .. }) in &self.taken {
            let measured = measured.map(|measured| measured.spread.median);
            if let Some(value) = [*model, measured].into_iter().flatten().find(|value| !value.is_finite()) {
                let name = quantity.name;
                return Err(Error::wrong_results(format!("{item}: {series}: {name} is {value}")));
            }
        }
        Ok(())
    }

    /// Returns the points in their order, each with its item.
    pub fn into_vec(self) -> Vec<(&'static str, Point)> {
        self.taken
    }
}

/// Merges the points of several runs: those of one item, series, place and quantity become one.
pub fn merged(points: impl IntoIterator<Item = (&'static str, Point)>) -> Vec<(&'static str, Point)> {
    let mut all: Vec<(&'static str, Point, Vec<f64>)> = Vec::new();
    for (item, point) in points {
        let values = point.measured.map(|measured| measured.spread.median);
        let is_same = |(other, first, _): &&mut (&'static str, Point, Vec<f64>)| {
            *other == item
                && first.series == point.series
                && first.x == point.x
                && first.quantity == point.quantity
        };
        match all.iter_mut().find(is_same) {
            Some((_, _, runs)) => runs.extend(values),
            None => all.push((item, point, Vec::from_iter(values))),
        }
    }
    let finished = |(item, mut point, runs): (&'static str, Point, Vec<f64>)| {
        if let (Some(measured), Some(spread)) = (&mut point.measured, Spread::of(&runs)) {
            measured.spread = spread;
        }
        (item, point)
    };
    all.into_iter().map(finished).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::Reading;
    use crate::quantity::{BytesPerByte, OperationsPerSecond, Quantity};

    const WRITES: Quantity<BytesPerByte> = Quantity::lower("write amplification");
    const RATE: Quantity<OperationsPerSecond> = Quantity::higher("gets");

    #[test]
    fn each_run_takes_only_what_it_is_for() {
        for (pass, expected) in
            [(Pass::Counts, vec!["count", "model"]), (Pass::Rates, vec!["time", "sample"])]
        {
            let mut points = Points::new(pass);
            points.add("a", WRITES.of("count").is(Reading::count(1.0)));
            points.add("a", RATE.of("time").is(Reading::time(1.0)));
            points.add("a", WRITES.of("sample").is(Reading::sample(1.0)));
            points.add("a", WRITES.of("model").calculated(1.0));
            let series: Vec<_> = points.into_vec().into_iter().map(|(_, point)| point.series).collect();
            assert_eq!(series, expected);
        }
    }

    #[test]
    fn values_that_are_no_finite_numbers_are_errors() {
        let of = |point: Point| {
            let mut points = Points::new(Pass::Counts);
            points.add("a", point);
            points.check().map_err(|error| error.to_string())
        };
        assert_eq!(of(WRITES.of("b").model(1.0).is(Reading::count(2.0))), Ok(()));
        let error = of(WRITES.of("b").model(1.0).is(Reading::count(f64::NAN))).unwrap_err();
        assert!(error.contains("a: b: write amplification is NaN"), "{error}");
        assert!(of(WRITES.of("b").calculated(f64::INFINITY)).is_err());
    }

    #[test]
    fn points_of_several_runs_become_one_with_their_spread() {
        let run = |rate| [("a", RATE.at("one", 2.0).is(Reading::time(rate)))];
        let all = merged([run(3.0), run(1.0), run(2.0)].into_iter().flatten());
        assert_eq!(all.len(), 1);
        let spread = all[0].1.measured.unwrap().spread;
        assert_eq!((spread.median, spread.lowest, spread.highest, spread.n), (2.0, 1.0, 3.0, 3));
    }
}

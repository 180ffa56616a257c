//! A point of a figure or a row of a table: the paper's value, that of a model, and what was measured.

mod points;
mod reading;
mod verdict;

pub use points::{Pass, Points, merged};
pub use reading::{Footprint, Reading, Settled, Settles, Spread, Taken};
pub use verdict::{Judged, Verdict, Why};

use crate::quantity::{Described, Quantity, Quoted, Unit, Value};
use serde::Serialize;
use std::marker::PhantomData;

/// A point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The line of a figure, or the row of a table.
    pub series: String,
    /// The place on the horizontal axis; 0 if there is none.
    pub x: f64,
    /// What it is a value of.
    pub quantity: Described,
    /// The paper's value, if it states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<Value>,
    /// Why the paper's value is not compared with what was measured, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<Why>,
    /// The value of a model, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<f64>,
    /// What was measured, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// What was measured, and how.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// The values of all runs.
    #[serde(flatten)]
    pub spread: Spread,
    /// How they were obtained.
    pub taken: Taken,
}

impl Point {
    /// Returns whether it is a rate or a time.
    pub fn is_rate(&self) -> bool {
        self.measured.is_some_and(|measured| measured.taken == Taken::Timed)
    }

    /// Returns the value of this project: what was measured, or else that of the model.
    pub fn ours(&self) -> Option<f64> {
        self.measured.map(|measured| measured.spread.median).or(self.model)
    }
}

/// A point of which values are known in part. The unit of all of them is `U`.
#[derive(Debug)]
pub struct Draft<U> {
    point: Point,
    unit: PhantomData<U>,
}

impl<U: Unit> Quantity<U> {
    /// Begins a point of a series at this place of the horizontal axis.
    pub fn at(&self, series: impl Into<String>, x: f64) -> Draft<U> {
        let (series, quantity) = (series.into(), self.described());
        let point = Point { series, x, quantity, paper: None, unjudged: None, model: None, measured: None };
        Draft { point, unit: PhantomData }
    }

    /// Begins a point of a series without a horizontal axis.
    pub fn of(&self, series: impl Into<String>) -> Draft<U> {
        self.at(series, 0.0)
    }
}

impl<U: Unit> Draft<U> {
    /// Adds the paper's value, if it states one.
    #[must_use]
    pub fn paper(mut self, quoted: impl Into<Option<Quoted<U>>>) -> Self {
        self.point.paper = quoted.into().map(Quoted::value);
        self
    }

    /// States the least number of keys from which on the value can be compared, and the number that there are.
    #[must_use]
    pub fn from_keys(mut self, keys: u64, least: u64) -> Self {
        self.point.unjudged = (keys < least).then_some(Why::FewerKeys(least));
        self
    }

    /// Shows the paper's value, but does not compare it, for this reason.
    #[must_use]
    pub fn unjudged(mut self, reason: &'static str) -> Self {
        self.point.unjudged = Some(Why::Reason(reason));
        self
    }

    /// Adds the value of a model, if there is one.
    #[must_use]
    pub fn model(mut self, value: impl Into<Option<f64>>) -> Self {
        self.point.model = value.into();
        self
    }

    /// Returns the point with what was measured.
    pub fn is(mut self, reading: Reading) -> Point {
        let Reading { value, taken } = reading;
        let spread = Spread { median: value, lowest: value, highest: value, n: 1 };
        self.point.measured = Some(Measured { spread, taken });
        self.point
    }

    /// Returns the point of a model alone.
    pub fn calculated(mut self, value: f64) -> Point {
        self.point.model = Some(value);
        self.point
    }
}

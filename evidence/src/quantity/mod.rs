//! What is measured: quantities with their units, and values that a paper states of them.
//!
//! ```text
//!   Quantity<U>  --at(series, x)-->  Draft<U>  --paper(Quoted<U>)-->  --is(Reading)-->  Point
//! ```
//!
//! The unit is a type, so a value of a paper can be put next to a measurement in the same unit only.

mod unit;
mod value;

pub use unit::{
    BitsPerKey, BytesPerByte, BytesPerGet, BytesPerKey, Keys, KeysPerSecond, Levels, MegabytesPerSecond,
    Microseconds, OperationsPerSecond, PerGet, PerPut, Seconds, Share, Times, Unit, Years,
};
pub use value::{Quoted, Value};

use serde::Serialize;
use std::marker::PhantomData;

/// Which of two values is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// That which is nearer to the paper's.
    Equal,
}

/// A quantity in a unit.
#[derive(Debug)]
pub struct Quantity<U> {
    name: &'static str,
    better: Better,
    unit: PhantomData<U>,
}

/// A quantity whose unit is a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Described {
    /// The name, such as "write amplification".
    pub name: &'static str,
    /// The unit, such as "bytes written per byte put".
    pub unit: &'static str,
    /// Which of two values is the better one.
    pub better: Better,
}

impl<U: Unit> Quantity<U> {
    /// A quantity of which less is better.
    pub const fn lower(name: &'static str) -> Self {
        Quantity { name, better: Better::Lower, unit: PhantomData }
    }

    /// A quantity of which more is better.
    pub const fn higher(name: &'static str) -> Self {
        Quantity { name, better: Better::Higher, unit: PhantomData }
    }

    /// A quantity that is to be the paper's.
    pub const fn equal(name: &'static str) -> Self {
        Quantity { name, better: Better::Equal, unit: PhantomData }
    }

    /// Returns the quantity with its unit as a text.
    pub fn described(&self) -> Described {
        Described { name: self.name, unit: U::NAME, better: self.better }
    }
}

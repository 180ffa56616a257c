//! Values that a paper states.

use serde::Serialize;
use std::marker::PhantomData;

/// A value of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// The text or a table states it.
    Text(f64),
    /// It was read off a picture: the value, and the error of reading, as a share of it.
    Read {
        /// The value.
        value: f64,
        /// The error of reading, as a share of the value.
        error: f64,
    },
    /// The paper states only how many times a value is another one.
    Ratio(f64),
}

impl Value {
    /// Returns the number.
    pub fn number(self) -> f64 {
        match self {
            Value::Text(value) | Value::Read { value, .. } | Value::Ratio(value) => value,
        }
    }

    /// Returns the error of reading, as a share of the value.
    pub fn error(self) -> f64 {
        match self {
            Value::Read { error, .. } => error,
            Value::Text(_) | Value::Ratio(_) => 0.0,
        }
    }
}

/// A value of a paper in a unit.
#[derive(Debug)]
pub struct Quoted<U> {
    value: Value,
    unit: PhantomData<U>,
}

impl<U> Clone for Quoted<U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U> Copy for Quoted<U> {}

impl<U> Quoted<U> {
    /// A value that the text or a table states.
    pub const fn text(value: f64) -> Self {
        Quoted { value: Value::Text(value), unit: PhantomData }
    }

    /// A value that was read off a picture, with the error of reading as a share of it.
    pub const fn read(value: f64, error: f64) -> Self {
        Quoted { value: Value::Read { value, error }, unit: PhantomData }
    }

    /// Returns the value without its unit.
    pub const fn value(self) -> Value {
        self.value
    }
}

impl Quoted<super::Times> {
    /// A quotient that the text states without its parts.
    pub const fn ratio(value: f64) -> Self {
        Quoted { value: Value::Ratio(value), unit: PhantomData }
    }
}

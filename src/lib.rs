//! Siltstone.

pub mod device;
mod error;
pub mod index;
pub mod key;
pub mod model;

pub use error::{Error, Result};

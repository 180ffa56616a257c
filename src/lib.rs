//! Siltstone.

pub mod batch;
pub mod device;
mod error;
pub mod index;
pub mod key;
pub mod model;
#[doc(hidden)]
pub mod testing;

pub use batch::{Batch, Durability};
pub use error::{Error, Result};

//! SILT's experiments.
//!
//! - [`trade_off`] has Figure 8, and the example of section 5.
//! - [`index`] has Table 5.
//! - [`memory`] has the memory of section 6.1.
//! - [`stores`] has Table 7.

pub mod index;
pub mod memory;
pub mod stores;
pub mod trade_off;

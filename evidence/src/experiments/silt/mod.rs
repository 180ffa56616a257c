//! SILT's experiments.
//!
//! - [`inlining`] has Figure 7.
//! - [`trade_off`] has Figure 8, and the example of section 5.
//! - [`index`] has Table 5.
//! - [`memory`] has the memory of section 6.1.
//! - [`chains`] has Figure 10.
//! - [`mixes`] has the rates of section 6.1, and Figure 9.
//! - [`stores`] has single kinds of stores: Tables 2, 6 and 7, Figure 11.

pub mod chains;
pub mod index;
pub mod inlining;
pub mod memory;
pub mod mixes;
pub mod stores;
pub mod trade_off;

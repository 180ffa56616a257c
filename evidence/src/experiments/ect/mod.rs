//! The experiments of entropy-coded tries.
//!
//! - [`index`] has sizes and times of the structure: Figures 3.6, 3.10 and 3.11, Table 3.1, 3.3.3.
//! - [`dictionary`] has construction and updates: Figures 3.7 to 3.9 and 3.12, Tables 3.3 and 3.5.
//! - [`single_trie`] has the expected size of one trie: Figure 3.3.
//!
//! Table 3.4 is measured with SILT's Table 7.

pub mod dictionary;
pub mod index;
pub mod single_trie;

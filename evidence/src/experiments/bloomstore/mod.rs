//! BloomStore's experiments.
//!
//! - [`traces`] has Table I.
//! - [`sweeps`] has Figures 6 to 8, Tables II and III, the lengths of chains and of filters (IV-B).
//! - [`compare`] has Figures 9 and 10, next to SkimpyStash and BufferHash (IV-B, IV-D).
//! - [`growth`] has memory, writes and reads while it grows.

pub mod compare;
mod driver;
pub mod growth;
pub mod sweeps;
pub mod traces;

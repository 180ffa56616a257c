//! Analytic models: what a store costs in memory, reads, writes, space and flash lifetime, computed before it is built.
//!
//! A [`Popularity`] gives the probability with which each key is put. Three primitives count the distinct keys among
//! requests: [`Popularity::unique`], [`Popularity::unique_inverse`] and [`Popularity::merge`]. The models are computed
//! from them. Each is a struct of parameters, with the values of its paper as defaults:
//!
//! - [`LevelDb`], with [`LevelDbSimulator`] to check it and [`LevelDb::optimize`] to choose the sizes of its levels;
//!   [`Cola`]; [`Samt`]: Lim's dissertation, chapter 4.
//! - [`Silt`]: Lim's dissertation, 2.4 and 4.5. [`SiltLayout`] derives its parameters from Siltstone's formats and
//!   settings.
//! - [`FlashKey`]: section VI-C of its paper. [`FlashStore`], [`BloomStore`] and [`Mica`]: what their papers state
//!   about memory and recycling. Three of them have a log that is cleaned from its oldest end: [`Cleaning`].
//!   [`FlashKeyLayout`] is Siltstone's engine, whose segments are cleaned by [`SegmentCleaning`]; [`Separation`] is the
//!   least that any cleaning can write. [`FlashStoreLayout`] is the other one with logs, of whose segments records
//!   leave: [`SegmentRecycling`].
//!
//! The [`planner`] chooses among the engines and their parameters. [`figures`] has the figures of the dissertation.
//!
//! Nothing in this crate does I/O, reads a clock, starts a thread or draws a random number without a seed.
//! `docs/MODELS.md` lists the assumptions of each model, where it fails, and how accurate it is.

mod bloomstore;
mod cleaning;
mod cola;
mod error;
pub mod figures;
mod flash;
mod flashkey;
mod flashstore;
mod key_stream;
mod lambert_w;
mod level_optimizer;
mod leveldb;
mod leveldb_simulator;
mod mica;
mod permutation;
pub mod planner;
mod popularity;
mod recycling;
mod root;
mod samt;
mod segments;
mod silt;
mod unique;

pub use bloomstore::{
    BloomStore, BloomStoreGrown, BloomStoreLayout, BloomStoreRam, BloomStoreSteady, BloomStoreWrites,
    LogStorePuts,
};
pub use cleaning::{Cleaning, Separation};
pub use cola::Cola;
pub use error::ModelError;
pub use flash::{Flash, YEAR_S};
pub use flashkey::{FlashKey, FlashKeyLayout, FlashKeyRam, FlashKeyStore, FlashKeyWrites};
pub use flashstore::{
    Below, FlashStore, FlashStoreLayout, FlashStoreRam, FlashStoreStore, FlashStoreWrites, Recycling,
};
pub use key_stream::KeyStream;
pub use lambert_w::lambert_w;
pub use level_optimizer::OptimizedLevels;
pub use leveldb::{LevelDb, LevelDbWrites};
pub use leveldb_simulator::{LevelDbSimulated, LevelDbSimulator, simulate_leveldb};
pub use mica::Mica;
pub use permutation::Permutation;
pub use popularity::{Group, Popularity};
pub use recycling::{Missed, Recycled, SegmentRecycling};
pub use samt::Samt;
pub use segments::SegmentCleaning;
pub use silt::{Silt, SiltLayout, SiltRam, SiltWrites};

//! Pure analysis: what a store will cost in memory, reads, writes, space and flash lifetime, before it is built.
//!
//! A [`Popularity`] says how often each key is put. Three primitives count the different keys among requests
//! ([`Popularity::unique`], [`Popularity::unique_inverse`], [`Popularity::merge`]), and on them stand the models, one
//! file a system, each a plain structure of parameters with the paper's values as defaults:
//!
//! - [`LevelDb`], with [`LevelDbSimulator`] as its judge and the search for its level sizes behind the cargo feature
//!   `optimizer`; [`Cola`]; [`Samt`]: Lim's dissertation, chapter 4.
//! - [`Silt`]: Lim's dissertation, 2.4 and 4.5.
//! - [`FlashKey`]: section VI-C of its paper. [`FlashStore`], [`BloomStore`] and [`Mica`]: what their papers say of
//!   memory and of recycling. A log that is cleaned from its oldest end, which three of them have, is [`Cleaning`].
//!
//! The [`planner`] chooses among the engines and their parameters. Nothing here does I/O, reads a clock, starts a
//! thread or draws an unseeded random number. What each model assumes, where it fails and how far off it was stands in
//! `docs/MODELS.md`.

mod bloomstore;
mod cleaning;
mod cola;
mod error;
#[cfg(feature = "optimizer")]
pub mod figures;
mod flash;
mod flashkey;
mod flashstore;
mod key_stream;
mod lambert_w;
#[cfg(feature = "optimizer")]
mod level_optimizer;
mod leveldb;
mod leveldb_simulator;
mod mica;
pub mod planner;
mod popularity;
mod root;
mod samt;
mod silt;
mod unique;

pub use bloomstore::BloomStore;
pub use cleaning::Cleaning;
pub use cola::Cola;
pub use error::ModelError;
pub use flash::{Flash, YEAR_S};
pub use flashkey::FlashKey;
pub use flashstore::{FlashStore, Recycling};
pub use key_stream::KeyStream;
pub use lambert_w::lambert_w;
#[cfg(feature = "optimizer")]
pub use level_optimizer::OptimizedLevels;
pub use leveldb::{LevelDb, LevelDbWrites};
pub use leveldb_simulator::{LevelDbSimulated, LevelDbSimulator, simulate_leveldb};
pub use mica::Mica;
pub use popularity::{Group, Popularity};
pub use samt::Samt;
pub use silt::{Silt, SiltLayout, SiltRam, SiltWrites};

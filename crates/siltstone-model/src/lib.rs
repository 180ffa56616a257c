//! Analytic models: what a store costs in memory, reads, writes, space and flash lifetime, computed before it is built.
//!
//! A [`Popularity`] gives the probability with which each key is put. Three primitives count the distinct keys among
//! requests: [`Popularity::unique`], [`Popularity::unique_inverse`] and [`Popularity::merge`]. The models are computed
//! from them. Each is a struct of parameters, with the values of its paper as defaults:
//!
//! - [`Silt`]: Lim's dissertation, 2.4 and 4.5. [`SiltLayout`] derives its parameters from Siltstone's formats and
//!   settings.
//! - [`FlashKeyLayout`]: the engine FlashKey, whose segments are cleaned by [`SegmentCleaning`]. [`FlashStoreLayout`]:
//!   the other engine with logs, of whose segments records leave: [`SegmentRecycling`].
//! - [`BloomStoreLayout`] and [`Mica`]: the engines of these names.
//! - [`DedupDemand`]: an index of chunks, which is two databases, and the time of its first run.
//!
//! The [`planner`] chooses among the engines and their parameters. The models of stores as papers describe them are in
//! `evidence/`.
//!
//! Nothing in this crate does I/O, reads a clock, starts a thread or draws a random number without a seed.
//! `docs/MODELS.md` lists the assumptions of each model, where it fails, and how accurate it is.

mod bloomstore;
mod dedup;
mod error;
mod flash;
mod flashkey;
mod flashstore;
mod key_stream;
mod mica;
mod permutation;
pub mod planner;
mod popularity;
mod recycling;
mod root;
mod segments;
mod silt;
mod unique;

pub use bloomstore::{
    BloomStoreGrown, BloomStoreLayout, BloomStoreRam, BloomStoreSteady, BloomStoreWrites, LogStorePuts,
};
pub use dedup::{DedupDemand, DedupPlan};
pub use error::{ModelError, fraction, positive};
pub use flash::{Flash, YEAR_S};
pub use flashkey::{FlashKeyLayout, FlashKeyRam, FlashKeyStore, FlashKeyWrites};
pub use flashstore::{Below, FlashStoreLayout, FlashStoreRam, FlashStoreStore, FlashStoreWrites};
pub use key_stream::KeyStream;
pub use mica::Mica;
pub use permutation::Permutation;
pub use popularity::{Group, Popularity};
pub use recycling::{Missed, Recycled, SegmentRecycling};
pub use root::increasing_root;
pub use segments::SegmentCleaning;
pub use silt::{Silt, SiltLayout, SiltRam, SiltWrites};

//! Pure analysis.
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
pub use leveldb_simulator::LevelDbSimulator;
pub use mica::Mica;
pub use popularity::{Group, Popularity};
pub use samt::Samt;
pub use silt::{Silt, SiltRam, SiltWrites};

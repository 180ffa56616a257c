//! Pure analysis.
mod cola;
mod error;
mod key_stream;
#[cfg(feature = "optimizer")]
mod level_optimizer;
mod leveldb;
mod leveldb_simulator;
mod popularity;
mod root;
mod samt;
mod silt;
mod unique;
pub use cola::Cola;
pub use error::ModelError;
pub use key_stream::KeyStream;
#[cfg(feature = "optimizer")]
pub use level_optimizer::OptimizedLevels;
pub use leveldb::{LevelDb, LevelDbWrites};
pub use leveldb_simulator::LevelDbSimulator;
pub use popularity::{Group, Popularity};
pub use samt::Samt;
pub use silt::{Silt, SiltRam, SiltWrites};

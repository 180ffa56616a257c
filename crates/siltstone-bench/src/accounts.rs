//! The statistics of a database as JSON, with the names that all reports share.

pub use siltstone::stats::json::*;
pub use siltstone::stats::number_as_text;

//! The constants of the engine's formats and of its policy from which a model computes what a database costs.
//!
//! `siltstone-model` reads them here, so that no number is written twice.

pub use super::memory_budget::{PARTITION_BYTES, STORE_BYTES};
pub use super::merge::PARTS as MERGE_PARTS;
pub use super::partition_settings::filter_bits;
pub use super::policy::{
    FROZEN_MAX_MIN, HASH_STORES_MAX, KEYS_PER_PIECE_BYTE, LOG_PART_OF_DATA, LOG_REACH, LOG_RECORD_BYTES,
    LOG_SLOTS_FACTOR_MAX, LOG_STORES_ADDED, LOG_STORES_MIN, OCCUPANCY, PARTITIONS_PER_FROZEN,
    PIECE_BYTES_MIN, POSITION_BITS_MAX, POSITION_BITS_MIN, REGIONS, RUNS_SHARE_MAX,
    SLOTS_PER_RECORD_OF_SMALL, TABLES_SLOTS_MIN,
};
pub use super::ranges::PAGE_BYTES as CHAIN_PAGE_BYTES;
pub use super::recovery::{LOG_SLOTS_MAX, MOST_DEVIATIONS, OCCUPANCY_DEVIATION};
pub use crate::engine::common::{BLOCK_BYTES_DEFAULT, PARTITIONS_DEFAULT};
pub use crate::engine::jobs::KEY_STRIPES_BYTES;
pub use crate::store::block::BLOCK_HEADER_BYTES;
pub use crate::store::chain::{BLOCK_BYTES as CHAIN_BLOCK_BYTES, OLD_COLUMNS};
pub use crate::store::file::{FILE_ALIGNMENT, FOOTER_BYTES, FOOTER_COPIES};
pub use crate::store::hash_store::RUN_FILTER_BITS_MAX;
pub use crate::store::log_format::FRAME_CRC_BYTES;
pub use crate::store::log_store::LOG_TABLES_MAX;
pub use crate::store::record::EXPIRY_BYTES;
pub use crate::store::table::{
    BUCKET_BYTES_MAX, BUCKET_RECORDS_MIN, FREED_PAYLOAD_MAX, PIECES_PER_BUCKET_MAX, PIECES_PER_BUCKET_MIN,
    UNUSED_SHARE,
};
pub use siltstone_index::fences::EXCEPTIONS_BYTES;
pub use siltstone_index::filter::KEYS_PER_RANGE;
pub use siltstone_index::perfect::BUCKET_KEYS;

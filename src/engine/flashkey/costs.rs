//! The constants of the formats and of the policy from which a model computes what a database costs.
//!
//! `siltstone-model` reads them, so that no number is written twice.

pub use super::background::{
    CHANGES_BYTES_MIN, CHANGES_BYTES_MIN_PER_SHARD, CHANGES_BYTES_PER_ENTRY, CHANGES_MAX, FLUSH_CHANGE_BYTES,
    FLUSH_LOG_BYTES, FLUSH_SEGMENTS, UNCONFIRMED_MAX, WAITING_SEGMENTS_MAX,
};
pub use super::clean::PIECE_BYTES as CLEAN_PIECE_BYTES;
pub use super::indexed_logs::CLEAN;
pub use super::memory::INDEX_SHARE;
pub use super::policy::{SegmentCounts, choose, choose_queue, class_of, excess_max, is_mostly_dead};
pub use super::recovery::unit_bytes;
pub use super::recycle::KEPT;
pub use super::unconfirmed::NOTE_BYTES;
pub use crate::engine::common::PARTITIONS_DEFAULT;
pub use crate::engine::jobs::KEY_STRIPES_BYTES;
pub use crate::store::data_logs::CLASSES;
pub use crate::store::file::{FILE_ALIGNMENT, FOOTER_BYTES, FOOTER_COPIES};
pub use crate::store::log::{BUFFER_BYTES_MAX, READ_BYTES_GUESS, SEGMENT_BYTES, segment_length};
pub use crate::store::log_format::{FRAME_CRC_BYTES, MARKER_BYTES, SEGMENT_HEADER_BYTES};
pub use crate::store::record::EXPIRY_BYTES;
pub use crate::store::unit_index::{
    FLASH_PAGE_BYTES, OPERATION_BYTES, REDO_HEADER_BYTES, SAVE_PIECE_BYTES, SAVED_BLOCK_BYTES,
    SAVED_PAGE_BYTES, SAVED_SHARD_BYTES, SHARD_BYTES,
};
pub use siltstone_index::hash_pages::{
    GROUPS_LOG2, GROWTH_WORDS, MARK_BITS, MARKS_BYTES, PAGE_BYTES, PAGE_ENTRIES, PAGE_HEADER_BYTES,
    PAGE_LINK_BYTES,
};

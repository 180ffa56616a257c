//! The targets. Each takes what it needs from the front of the fuzzer's bytes.

pub mod chain;
pub mod compression;
pub mod cuckoo_table;
pub mod data_logs;
pub mod database;
pub mod dictionary;
pub mod directory;
pub mod filters;
pub mod indexes;
pub mod key_run;
pub mod log;
pub mod log_frames;
pub mod log_index;
pub mod manifest;
pub mod memcached;
pub mod packet;
pub mod record;
pub mod resp;
pub mod simulation;
pub mod sorted_store;
pub mod trace;
pub mod transfer;
pub mod typed_value;
pub mod users;

//! What the library claims, by what can be called. One program, because linking one is faster than linking twenty, and
//! all its tests share the processors. What changes the state of the whole process is a program of its own.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_input;
mod beds;
mod change_feed;
mod compat;
mod compression;
mod conformance;
mod examples;
mod first_lines;
mod foreign_files;
mod formats;
mod full_disk;
mod length;
mod locks_taken;
mod missing_keys;
mod model;
mod observability;
mod settings;
mod truncate;

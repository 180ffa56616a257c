//! Stores and whole databases on devices that lose power, fail or return damaged bytes. What needs a process of its
//! own, or is built with other flags, is a program of its own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it found"
)]

mod append_log;
mod bloomstore;
mod data_logs;
mod database;
mod dictionary;
mod flashkey;
mod flashstore;
mod repairs;
mod silt;
mod simulation;

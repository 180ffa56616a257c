//! Messages of users, whose records are next to each other on flash: a scan reads all messages of one user at the cost
//! of a few blocks, without an index in key order.
//!
//! A database with `hashed_keys` places records by the first 8 bytes of their keys, which must be spread evenly. Here
//! these are the whole key: 4 bytes from the user, then 4 bytes from the message. The records of a user have
//! neighbouring positions, and `scan` returns a range of positions.
//!
//! ```text
//! position  0x0000_0000_0000_0000                                  0xffff_ffff_ffff_ffff
//!           |    user 3        |    user 1        |    user 2        |   ...       |
//!           |  its messages    |                  |                  |             |
//! ```
//!
//! This costs no more than evenly spread records as long as a user has far fewer records than a partition.
//!
//! Run with `cargo run --release --example neighbours`.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Database, Result};
use std::error::Error;
use std::path::Path;

/// Spreads numbers evenly; different numbers have different results, as the factor is odd.
fn spread(number: u32) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b1);
    (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b)
}

/// Returns the key of a message, which is also its position.
fn key(user: u32, message: u32) -> [u8; 8] {
    (u64::from(spread(user)) << 32 | u64::from(spread(message))).to_be_bytes()
}

/// Opens a database of messages, and creates it if it does not exist.
pub(crate) fn open(path: &Path) -> Result<Database> {
    Database::builder(path).hashed_keys().open()
}

/// Stores a message.
pub(crate) fn post(messages: &Database, user: u32, message: u32, text: &str) -> Result<()> {
    messages.put(key(user, message), text)
}

/// Returns all messages of a user.
pub(crate) fn of_user(messages: &Database, user: u32) -> Result<Vec<String>> {
    let first = u64::from(spread(user)) << 32;
    let (mut texts, mut next) = (Vec::new(), Some(first));
    while let Some(position) = next {
        let page = messages.scan(position..=first | u64::from(u32::MAX), 1_000)?;
        texts.extend(page.records.iter().map(|record| String::from_utf8_lossy(&record.value).into_owned()));
        next = page.next;
    }
    Ok(texts)
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let messages = open(&directory.path().join("messages"))?;
    for message in 0..20 {
        for user in 0..1_000 {
            post(&messages, user, message, &format!("message {message} of user {user}"))?;
        }
    }
    messages.compact()?;
    let reads = || messages.stats().io.total().reads;
    let before = reads();
    let texts = of_user(&messages, 17)?;
    assert!(texts.len() == 20 && texts.iter().all(|text| text.ends_with("of user 17")));
    println!("{} messages with {} reads of flash", texts.len(), reads() - before);
    messages.close()?;
    Ok(())
}

//! Sessions that expire, within a given amount of memory.
//!
//! A record with an expiry time is absent from that time on, and merges remove it. Each use of a session extends it.
//!
//! Run with `cargo run --example sessions`.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Bytes, Database, Result, WriteOptions};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// Opens a database of sessions that takes at most 16 MiB of memory, caches included.
fn open(path: &Path) -> Result<Database> {
    Database::builder(path).memory_budget(16 << 20).open()
}

/// Begins or extends a session.
fn keep(sessions: &Database, id: &str, user: &[u8]) -> Result<()> {
    sessions.put_with(id, user, WriteOptions::default().expires_in(LIFETIME))
}

/// Returns the user of a session and extends it, unless it has expired.
fn user(sessions: &Database, id: &str) -> Result<Option<Bytes>> {
    let user = sessions.get(id)?;
    if let Some(user) = &user {
        keep(sessions, id, user)?;
    }
    Ok(user)
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let sessions = open(&directory.path().join("sessions"))?;
    keep(&sessions, "c4f1", b"Ada")?;
    assert_eq!(user(&sessions, "c4f1")?.as_deref(), Some(&b"Ada"[..]));
    assert_eq!(user(&sessions, "unknown")?, None);
    sessions.put_with("old", "Grace", WriteOptions::default().expires_in(Duration::ZERO))?;
    assert_eq!(user(&sessions, "old")?, None);
    let found = sessions.get_found("c4f1")?;
    println!("the session expires at {:?}", found.and_then(|found| found.expires_at()));
    sessions.close()?;
    Ok(())
}

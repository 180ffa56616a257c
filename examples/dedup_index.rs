//! An index of chunks for deduplication: which chunks of a stream were stored before?
//!
//! Keys are BLAKE3 hashes, 32 bytes each, and values the position of the chunk in a pack file. Both have fixed lengths,
//! so a record takes 40 bytes on flash. The keys are uniform already, so they are not hashed again. Chunks are looked
//! up and inserted many at a time: the reads of a call overlap.
//!
//! Run with `cargo run --example dedup_index`.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Database, Result};
use std::error::Error;
use std::path::Path;

const CHUNK_BYTES: usize = 4096;
const CHUNKS_PER_CALL: usize = 256;

/// Adds the chunks of `data` to the index. Returns how many are new; these would be appended to the pack file.
pub(crate) fn add(index: &Database, data: &[u8], pack_position: &mut u64) -> Result<u64> {
    let mut new = 0;
    let chunks: Vec<&[u8]> = data.chunks(CHUNK_BYTES).collect();
    for chunks in chunks.chunks(CHUNKS_PER_CALL) {
        let mut records = Vec::with_capacity(chunks.len());
        let mut position = *pack_position;
        for chunk in chunks {
            records.push((*blake3::hash(chunk).as_bytes(), position.to_le_bytes()));
            position += chunk.len() as u64;
        }
        let inserted = index.insert_many_if_absent(&records)?;
        let count = inserted.iter().filter(|inserted| **inserted).count() as u64;
        // A real index appends the new chunks and records where they begin.
        *pack_position += count * CHUNK_BYTES as u64;
        new += count;
    }
    Ok(new)
}

/// Opens an index, and creates it if it does not exist.
pub(crate) fn open(path: &Path) -> Result<Database> {
    Database::builder(path).fixed(32, 8).hashed_keys().open()
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let index = open(&directory.path().join("chunks"))?;
    let monday: Vec<u8> = (0..4_000_000u32).map(|n| (n / 3000) as u8 ^ (n % 251) as u8).collect();
    let mut tuesday = monday.clone();
    tuesday[1_000_000..1_100_000].fill(7);
    let mut pack_position = 0;
    for (day, backup) in [("Monday", &monday), ("Tuesday", &tuesday)] {
        let new = add(&index, backup, &mut pack_position)?;
        let all = backup.len().div_ceil(CHUNK_BYTES);
        println!("{day}: {new} of {all} chunks are new");
    }
    println!("{} bytes of RAM", index.stats().ram.total_bytes());
    index.close()?;
    Ok(())
}

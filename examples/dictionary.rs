//! A dictionary: a file of records that is built once and that many processes read.
//!
//! It may be larger than memory while it is built and while it is read. Its index takes 0.3 bits to some bits per key.
//!
//! Run with `cargo run --example dictionary`.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Dictionary, Result};
use std::error::Error;
use std::path::Path;

/// Builds a dictionary of squares.
fn build(path: &Path, numbers: u64) -> Result<()> {
    let squares = (0..numbers).map(|n| (n.to_be_bytes(), (n * n).to_be_bytes()));
    Dictionary::builder().fixed(8, 8).build(path, squares)?;
    Ok(())
}

/// Returns the squares of numbers, all in one call.
fn squares(dictionary: &Dictionary, numbers: &[u64]) -> Result<Vec<Option<u64>>> {
    let keys: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_be_bytes()).collect();
    let decode = |value: siltstone::Bytes| value[..].try_into().ok().map(u64::from_be_bytes);
    Ok(dictionary.get_many(&keys)?.into_iter().map(|value| value.and_then(decode)).collect())
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("squares.dict");
    build(&path, 100_000)?;
    let dictionary = Dictionary::open(&path)?;
    assert_eq!(squares(&dictionary, &[7, 99_999, 100_000])?, [Some(49), Some(9_999_800_001), None]);
    let info = dictionary.info();
    println!("{} records, {:.2} bits of index per key", info.records, info.bits_per_key());
    Ok(())
}

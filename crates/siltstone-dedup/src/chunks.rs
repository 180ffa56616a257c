//! Splits files into chunks and hashes them.
//!
//! Files are split by FastCDC (2020) with normalization level 1: a chunk has at least a quarter of the average size and
//! at most four times the average size, except for the last one of a file. A cut depends on the last 64 bytes before
//! it, through a table of 256 numbers of 64 bits, so an insertion changes only the chunks around it.
//! `docs/formats/dedup.md` lists the parameters. An index finds a chunk again only if the cuts are the same:
//! `fixtures/dedup-cuts-v1.txt` pins them.

use anyhow::ensure;
use clap::ValueEnum;
use fastcdc::v2020::{FastCDC, Normalization};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::ops::RangeInclusive;

/// The longest hash used as a key, in bytes.
const HASH_BYTES_MAX: usize = 32;
/// The average number of chunks of a block, within the limits of its size in bytes.
const BLOCK_CHUNKS: usize = 256;
const BLOCK_BYTES: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// The hash functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashKind {
    /// BLAKE3 (faster)
    #[default]
    Blake3,
    /// SHA-256
    Sha256,
}

impl HashKind {
    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            HashKind::Blake3 => "blake3",
            HashKind::Sha256 => "sha256",
        }
    }

    fn hash(self, bytes: &[u8]) -> [u8; HASH_BYTES_MAX] {
        match self {
            HashKind::Blake3 => *blake3::hash(bytes).as_bytes(),
            HashKind::Sha256 => Sha256::digest(bytes).into(),
        }
    }
}

/// How files are split and chunks hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    /// The average size of a chunk, in bytes. Chunks have a quarter of it to four times as much.
    pub average_size: u32,
    /// The hash function.
    pub hash: HashKind,
    /// The number of bytes of the hash that are the key.
    pub hash_bytes: u8,
}

impl Default for Chunking {
    fn default() -> Self {
        Chunking { average_size: 4096, hash: HashKind::default(), hash_bytes: 32 }
    }
}

impl Chunking {
    /// Checks the limits.
    pub fn check(&self) -> anyhow::Result<()> {
        let size = self.average_size;
        ensure!(
            (256..=4 << 20).contains(&size) && size.is_multiple_of(8),
            "--average-size is {size}; it must be a multiple of 8 from 256 to 4,194,304 bytes"
        );
        ensure!(
            matches!(self.hash_bytes, 20 | 32),
            "--hash-bytes is {}; it must be 20 or 32",
            self.hash_bytes
        );
        Ok(())
    }

    /// Returns the maximum length of a chunk, in bytes.
    fn length_max(&self) -> usize {
        4 * self.average_size as usize
    }

    /// Returns the lengths of the chunks at the front of `bytes`: of all of them if these are the last bytes of a file,
    /// else of those that do not depend on what follows. A cut depends only on what follows the cut before it.
    fn cut(&self, bytes: &[u8], is_last: bool) -> Vec<u32> {
        let average = self.average_size as usize;
        let cutter =
            FastCDC::with_level(bytes, average / 4, average, self.length_max(), Normalization::Level1);
        let mut lengths = Vec::with_capacity(bytes.len() / average + 1);
        let mut start = 0;
        while start < bytes.len() && (is_last || bytes.len() - start >= self.length_max()) {
            let (_, end) = cutter.cut(start, bytes.len() - start);
            lengths.push((end - start) as u32);
            start = end;
        }
        lengths
    }
}

/// Consecutive chunks of a file.
pub struct Block {
    bytes: Vec<u8>,
    /// The lengths of the chunks, in bytes.
    pub lengths: Vec<u32>,
    /// Whether the file ends with them.
    pub is_last: bool,
}

impl Block {
    /// Returns the first bytes of the hashes of the chunks, concatenated.
    pub fn hashes(&self, chunking: &Chunking) -> Vec<u8> {
        let mut hashes = Vec::with_capacity(self.lengths.len() * usize::from(chunking.hash_bytes));
        for chunk in self.chunks() {
            hashes.extend(&chunking.hash.hash(chunk)[..chunking.hash_bytes.into()]);
        }
        hashes
    }

    /// [`hashes`](Block::hashes), on all threads of the current pool.
    pub fn hashes_by_all(&self, chunking: &Chunking) -> Vec<u8> {
        let chunks: Vec<&[u8]> = self.chunks().collect();
        let hashes: Vec<_> = chunks.into_par_iter().map(|chunk| chunking.hash.hash(chunk)).collect();
        hashes.iter().flat_map(|hash| &hash[..chunking.hash_bytes.into()]).copied().collect()
    }

    fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |&length| {
            let (chunk, after) = rest.split_at(length as usize);
            rest = after;
            chunk
        })
    }
}

/// Reads a file in blocks of chunks. Reading can begin at any cut.
pub struct Blocks<'a, R> {
    chunking: &'a Chunking,
    source: R,
    /// The bytes that the source has about, as far as they are not read.
    expected: u64,
    /// Bytes that were read, but are in no block yet.
    rest: Vec<u8>,
}

impl<'a, R: Read> Blocks<'a, R> {
    /// Reads from the current position of `source`, which has about `expected` bytes.
    pub fn new(chunking: &'a Chunking, source: R, expected: u64) -> Self {
        Blocks { chunking, source, expected, rest: Vec::new() }
    }

    /// Reads the next block: 256 chunks of the average size, from 64 KiB to 1 MiB; at least two of the maximum size.
    pub fn read_next(&mut self) -> io::Result<Block> {
        let size = BLOCK_CHUNKS * self.chunking.average_size as usize;
        let size = size.clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end()).max(2 * self.chunking.length_max());
        let mut bytes = std::mem::take(&mut self.rest);
        let wanted = size.saturating_sub(bytes.len()) as u64;
        // With a byte more than the file has, one call reads it and the next one finds its end.
        bytes.reserve_exact(wanted.min(self.expected.saturating_add(1)) as usize);
        let before = bytes.len();
        let is_last = (&mut self.source).take(wanted).read_to_end(&mut bytes)? < wanted as usize;
        self.expected = self.expected.saturating_sub((bytes.len() - before) as u64);
        let lengths = self.chunking.cut(&bytes, is_last);
        let cut = lengths.iter().map(|&length| length as usize).sum();
        self.rest = bytes.split_off(cut);
        Ok(Block { bytes, lengths, is_last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    /// Returns the hashes and the lengths of the chunks of `bytes`, read in blocks.
    fn chunks(chunking: &Chunking, bytes: &[u8]) -> Vec<(Vec<u8>, u32)> {
        let mut blocks = Blocks::new(chunking, bytes, 0);
        let mut chunks = Vec::new();
        loop {
            let block = blocks.read_next().unwrap();
            let hashes = block.hashes(chunking);
            assert_eq!(block.hashes_by_all(chunking), hashes);
            let hashes = hashes.chunks_exact(chunking.hash_bytes.into()).map(<[u8]>::to_vec);
            chunks.extend(hashes.zip(block.lengths));
            if block.is_last {
                return chunks;
            }
        }
    }

    fn cut(bytes: &[u8]) -> Vec<(Vec<u8>, u32)> {
        chunks(&Chunking::default(), bytes)
    }

    #[test]
    fn the_average_is_about_the_configured_size() {
        let chunks = cut(&noise(4 << 20));
        assert_eq!(chunks.iter().map(|(_, length)| u64::from(*length)).sum::<u64>(), 4 << 20);
        let average = (4 << 20) / chunks.len();
        assert!((3_000..6_000).contains(&average), "{average}");
    }

    /// The lengths of the chunks of the same mebibyte for several average sizes, one line each.
    const CUTS: &str = include_str!("../../../fixtures/dedup-cuts-v1.txt");

    #[test]
    fn the_cuts_are_those_of_existing_indexes() {
        let bytes = noise(1 << 20);
        let line = |average_size| {
            let chunking = Chunking { average_size, ..Chunking::default() };
            let lengths: Vec<_> =
                chunks(&chunking, &bytes).into_iter().map(|(_, length)| length.to_string()).collect();
            format!("{average_size}: {}\n", lengths.join(" "))
        };
        let cuts = [256, 1000, 4096, 65_536].map(line).concat();
        if std::env::var_os("SILTSTONE_BLESS").is_some() {
            std::fs::write("../../fixtures/dedup-cuts-v1.txt", &cuts).unwrap();
        }
        assert_eq!(cuts, CUTS);
    }

    #[test]
    fn reading_can_begin_at_any_cut() {
        let bytes = noise(200_000);
        let whole = cut(&bytes);
        let mut start = 0;
        for at in 0..whole.len() {
            assert_eq!(cut(&bytes[start..]), whole[at..], "chunk {at}");
            start += whole[at].1 as usize;
        }
    }

    #[test]
    fn blocks_do_not_move_cuts() {
        let bytes = noise(3 << 20);
        for average_size in [4096, 262_144] {
            let chunking = Chunking { average_size, ..Chunking::default() };
            let lengths: Vec<u32> = chunks(&chunking, &bytes).into_iter().map(|(_, length)| length).collect();
            assert_eq!(lengths, chunking.cut(&bytes, true));
        }
    }

    #[test]
    fn an_insertion_changes_only_the_chunks_around_it() {
        let bytes = noise(400_000);
        let before = cut(&bytes);
        let after = cut(&[&bytes[..150_000], b"inserted", &bytes[150_000..]].concat());
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!((1..=5).contains(&new), "{new} new chunks of {}", after.len());
    }

    #[test]
    fn hashes_are_cut_to_the_length_of_the_keys() {
        for (hash, first) in [(HashKind::Blake3, 0x64), (HashKind::Sha256, 0xba)] {
            let chunking = Chunking { hash, hash_bytes: 20, ..Chunking::default() };
            let (hash, length) = chunks(&chunking, b"abc").remove(0);
            assert_eq!((hash.len(), hash[0], length), (20, first, 3));
        }
        assert!(Chunking { average_size: 100, ..Chunking::default() }.check().is_err());
        assert!(Chunking { hash_bytes: 16, ..Chunking::default() }.check().is_err());
    }
}

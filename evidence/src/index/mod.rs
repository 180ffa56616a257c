//! The benchmarks of the index structures: bits per key, and the times of builds and lookups. Every structure is
//! queried with every key, and its results are verified.
//!
//! Keys are hashes from the start, and are sorted before timing starts if the structure needs that. Times are CPU
//! times, so other programs on the machine hardly affect them, except through shared caches.

mod chains;
mod filtered;
mod measure;
mod nway_cuckoo;
mod peer;
mod placed;
mod report;
mod sample;
mod structure;
mod subject;

pub use report::{Report, chart};
pub use sample::{Key, Sample};
pub use structure::{Options, Structure};
pub use subject::Inserts;

use crate::Result;
use clap::Parser;
use measure::Bench;
use siltstone_bench::named;
use siltstone_bench::quantity::{parse_whole, parse_within};
use siltstone_index::entropy_trie::{Coder, TrieSettings};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The settings of a measurement.
#[derive(Debug, Clone, Parser)]
pub struct Settings {
    /// Number of keys
    #[arg(long, default_value_t = 1_000_000, value_parser = parse_within(1u64, 1 << 32))]
    pub keys: u64,
    /// Number of rounds; the results are medians
    #[arg(long, default_value_t = 21, value_parser = parse_within(1usize, 65_535))]
    pub rounds: usize,
    /// Seed of the random keys
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    pub seed: u64,
    /// Ends the benchmark when it becomes true.
    #[arg(skip)]
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        named::defaults()
    }
}

/// Measures a structure built from the sample. The caller must check that all keys were located correctly, i.e. that
/// [`Report::verified_keys`] is the number of keys.
///
/// # Errors
/// See the variants of [`siltstone_bench::Error`].
pub fn run(structure: Structure, options: Options, sample: &Sample, settings: &Settings) -> Result<Report> {
    let options = structure.resolve(options)?;
    let items_per_block = options.items_per_block.unwrap_or_default();
    let bits = options.bits.unwrap_or_default();
    let trie = |coder| TrieSettings {
        coder,
        bucket_keys: options.bucket.unwrap_or_default(),
        huffman_max: options.huffman_max.unwrap_or_default(),
        records_per_block: items_per_block,
        expected_keys: sample.len(),
    };
    let placements = || sample.arrived().iter().map(|key| key.placement).collect::<Vec<u64>>();
    let bench = Bench { settings, structure, options, sample };
    match structure {
        Structure::EntropyTriePaper => bench.measure(|| placed::entropy_trie(sample, trie(Coder::Paper))),
        Structure::EntropyTrie => bench.measure(|| placed::entropy_trie(sample, trie(Coder::Fast))),
        Structure::SlotPerfect => bench.measure(|| placed::block_perfect(sample, 1)),
        Structure::BlockPerfect => bench.measure(|| placed::block_perfect(sample, items_per_block)),
        Structure::Fences => bench.measure(|| placed::fences(sample, items_per_block)),
        Structure::RibbonFilter => bench.measure(|| filtered::ribbon_filter(sample, bits)),
        Structure::CuckooFilter => bench.measure(|| filtered::TableFilter::new(sample, bits)),
        Structure::HashPages => bench.measure(|| filtered::ShardedPages::new(sample, bits)),
        Structure::PartialKeyCuckoo => bench.measure(|| filtered::CuckooTable::new(sample, bits)),
        Structure::NwayCuckoo => bench.measure(|| nway_cuckoo::Filled::new(sample, options)),
        Structure::BloomColumns => {
            let chain = chains::Chain::new(sample);
            bench.measure(|| chains::ChainPages::new(&chain, chains::BloomColumns::new(bits)))
        }
        Structure::Maplet => {
            let chain = chains::Chain::new(sample);
            bench.measure(|| chains::ChainPages::new(&chain, chains::Maplet::new(bits)))
        }
        Structure::PtrHash => {
            let placements = placements();
            bench.measure(|| peer::ptr_hash(&placements))
        }
        Structure::PtrHashCompact => {
            let placements = placements();
            bench.measure(|| peer::ptr_hash_compact(&placements))
        }
    }
}

/// Returns the useful structures and settings: the lines of the trade-off.
pub fn trade_off() -> Vec<(Structure, Options)> {
    use Structure::*;
    let none = Options::default();
    let bucket = |keys| Options { bucket: Some(keys), ..none };
    let block = |records| Options { items_per_block: Some(records), ..none };
    let both = |keys, records| Options { items_per_block: Some(records), ..bucket(keys) };
    let bits = |bits| Options { bits: Some(bits), ..none };
    let mut all = Vec::new();
    let mut add =
        |structure, options: &[Options]| all.extend(options.iter().map(|&options| (structure, options)));
    add(EntropyTriePaper, &[64, 128, 256].map(bucket));
    add(EntropyTrie, &[64, 128, 256, 512].map(bucket));
    add(EntropyTrie, &[4, 16, 64].map(|records| both(256, records)));
    add(SlotPerfect, &[none]);
    add(BlockPerfect, &[4, 8, 16, 64].map(block));
    add(Fences, &[4, 8, 16, 64].map(block));
    add(RibbonFilter, &[8, 12, 16].map(bits));
    add(CuckooFilter, &[12].map(bits));
    add(PartialKeyCuckoo, &[12].map(bits));
    add(HashPages, &[12].map(bits));
    add(NwayCuckoo, &[12].map(bits));
    add(BloomColumns, &[4, 5, 6].map(bits));
    add(Maplet, &[5, 6, 7].map(bits));
    add(PtrHash, &[none]);
    add(PtrHashCompact, &[none]);
    all
}

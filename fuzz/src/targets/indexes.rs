//! Indexes of arbitrary bytes: decoding, lookups, and encoding and decoding again.

use crate::input::Input;
use siltstone_index::PlacementIndex;
use siltstone_index::entropy_trie::EntropyTrie;
use siltstone_index::fences::Fences;
use siltstone_index::hash_pages::HashPage;
use siltstone_index::perfect::PerfectIndex;
use siltstone_index::run_columns::RunColumns;
use siltstone_index::run_fences::RunFences;

/// The maximum ratio of a decoded index's memory to its bytes.
const EXPANSION_MAX: usize = 64;

/// Looks up a placement of the input and all powers of two; no result may exceed `end`.
fn query(index: &impl PlacementIndex, end: u64, placement: u64, bytes: usize) {
    for placement in [placement, 0, u64::MAX].into_iter().chain((0..64).map(|bit| 1 << bit)) {
        let found = index.locate(placement);
        assert!(found.start <= found.end && found.end <= end, "{found:?} of {end}");
    }
    let heap_bytes = index.heap_bytes();
    assert!(heap_bytes <= EXPANSION_MAX * bytes + (1 << 20), "{heap_bytes} bytes of {bytes}");
}

/// An entropy-coded trie.
pub fn entropy_trie(data: &[u8]) {
    let mut input = Input(data);
    let placement = input.u64();
    let Ok(trie) = EntropyTrie::decode(input.0) else { return };
    query(&trie, trie.len(), placement, data.len());
    let mut again = Vec::new();
    trie.encode(&mut again);
    EntropyTrie::decode(&again).expect("what was encoded is decoded");
}

/// Fences, which are an Elias–Fano sequence.
pub fn fences(data: &[u8]) {
    let mut input = Input(data);
    let placement = input.u64();
    let Ok(fences) = Fences::decode(input.0) else { return };
    query(&fences, fences.blocks(), placement, data.len());
    let mut again = Vec::new();
    fences.encode(&mut again);
    Fences::decode(&again).expect("what was encoded is decoded");
}

/// The columns of a run.
pub fn run_columns(data: &[u8]) {
    let mut input = Input(data);
    let placement = input.u64();
    let Ok(columns) = RunColumns::decode(input.0) else { return };
    query(&columns, columns.blocks(), placement, data.len());
    assert!(columns.first_block_from(placement) <= columns.blocks());
    // Fences that do not ascend are damage.
    if let Some(fences) = RunFences::of(&columns) {
        query(&fences, columns.blocks(), placement, data.len());
    }
    let mut again = Vec::new();
    columns.encode(&mut again);
    assert_eq!(RunColumns::decode(&again).expect("what was encoded is decoded"), columns);
}

/// A block-perfect index.
pub fn block_perfect(data: &[u8]) {
    let mut input = Input(data);
    let placement = input.u64();
    let Ok(index) = PerfectIndex::decode(input.0) else { return };
    query(&index, index.outline().blocks(), placement, data.len());
    let mut again = Vec::new();
    index.encode(&mut again);
    PerfectIndex::decode(&again).expect("what was encoded is decoded");
}

/// A page of hash prefixes: its entries are found again by their tags, also after a change.
pub fn hash_page(data: &[u8]) {
    let mut input = Input(data);
    let number = input.u64();
    let Ok(mut page) = HashPage::decode(input.0) else { return };
    let tag = number >> (64 - page.tag_bits());
    for entry in page.entries().take(64) {
        assert!(page.candidates(entry.tag).any(|unit| unit == entry.unit), "{entry:?} is not found");
    }
    let before: Vec<_> = page.entries().collect();
    page.insert(tag, 1 << 30);
    assert_eq!(page.candidates(tag).next(), Some(1 << 30));
    assert!(page.remove(tag, 1 << 30));
    assert!(page.entries().eq(before), "an insertion and a removal change the other entries");
    let mut again = Vec::new();
    page.encode(&mut again);
    HashPage::decode(&again).expect("what was encoded is decoded");
}

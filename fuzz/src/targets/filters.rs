//! Filters of arbitrary bytes: decoding, lookups, and encoding and decoding again.

use crate::input::Input;
use siltstone_index::bloom::{BloomFilters, EncodedFilters};
use siltstone_index::filter::{CuckooFilter, Filter, RangedFilter, RibbonFilter};
use siltstone_index::prefilter::Prefilter;

const QUERIES: u64 = 64;

/// Asserts that a decoded filter takes little more memory than its bytes.
fn check_memory(filter: &impl Filter, bytes: usize) {
    assert!(filter.heap_bytes() <= 64 * bytes + (1 << 20), "{} bytes of {bytes}", filter.heap_bytes());
}

/// A cuckoo filter.
pub fn cuckoo(data: &[u8]) {
    let mut input = Input(data);
    let (placement, fingerprint) = (input.u64(), input.u64());
    let Ok(filter) = CuckooFilter::decode(input.0) else { return };
    for bit in 0..QUERIES {
        let (placement, fingerprint) = (placement.rotate_left(bit as u32), fingerprint.wrapping_add(bit));
        let mut candidates = filter.candidate_slots(placement, fingerprint).peekable();
        assert_eq!(filter.may_contain(placement, fingerprint), candidates.peek().is_some());
        assert!(candidates.all(|candidate| u64::from(candidate.rank) < filter.len()));
    }
    let ranks = (0..=filter.settings().regions.min(1000)).map(|region| filter.first_rank_of_region(region));
    assert!(ranks.is_sorted());
    check_memory(&filter, data.len());
    let mut again = Vec::new();
    filter.encode(&mut again);
    CuckooFilter::decode(&again).expect("what was encoded is decoded");
}

/// A ribbon filter.
pub fn ribbon(data: &[u8]) {
    let mut input = Input(data);
    let (placement, fingerprint) = (input.u64(), input.u64());
    let Ok(filter) = RibbonFilter::decode(input.0) else { return };
    for bit in 0..QUERIES {
        filter.may_contain(placement.rotate_left(bit as u32), fingerprint.wrapping_add(bit));
    }
    check_memory(&filter, data.len());
    let mut again = Vec::new();
    filter.encode(&mut again);
    RibbonFilter::decode(&again).expect("what was encoded is decoded");
}

/// Ribbon filters of successive ranges.
pub fn ranged(data: &[u8]) {
    let mut input = Input(data);
    let (placement, fingerprint) = (input.u64(), input.u64());
    let Ok(filter) = RangedFilter::decode(input.0) else { return };
    for bit in 0..QUERIES {
        filter.may_contain(placement.rotate_left(bit as u32), fingerprint.wrapping_add(bit));
    }
    check_memory(&filter, data.len());
    let mut again = Vec::new();
    filter.encode(&mut again);
    RangedFilter::decode(&again).expect("what was encoded is decoded");
}

/// Bloom filters side by side: their encoded form matches as they do, and filters remain when others are removed.
pub fn bloom(data: &[u8]) {
    let mut input = Input(data);
    let (hash, removed) = (input.u64(), u32::from(input.u8()));
    let Ok(filters) = BloomFilters::decode(input.0) else {
        assert!(EncodedFilters::new(input.0).is_err());
        return;
    };
    let encoded = EncodedFilters::new(input.0).expect("what is decoded is read in place");
    let mut newer = filters.clone();
    newer.remove_oldest(removed);
    assert_eq!(newer.columns(), filters.columns().saturating_sub(removed));
    for bit in 0..QUERIES {
        let hash = hash.rotate_left(bit as u32);
        let found: Vec<u32> = filters.matches(hash).collect();
        assert!(found.is_sorted_by(|one, other| one > other));
        assert!(found.iter().all(|column| *column < filters.columns()));
        assert!(encoded.matches(hash).eq(found.iter().copied()));
        let kept = found.into_iter().filter(|column| *column >= removed);
        assert!(newer.matches(hash).map(|column| column + removed).eq(kept));
    }
    assert!(filters.heap_bytes() <= 64 * data.len() + (1 << 20));
    let mut again = Vec::new();
    filters.encode(&mut again);
    assert_eq!(BloomFilters::decode(&again).as_ref(), Ok(&filters));
}

/// A prefilter.
pub fn prefilter(data: &[u8]) {
    let mut input = Input(data);
    let hash = input.u64();
    let Ok(prefilter) = Prefilter::decode(input.0) else { return };
    for bit in 0..QUERIES {
        prefilter.may_contain(hash.rotate_left(bit as u32));
    }
    assert!(prefilter.heap_bytes() <= 64 * data.len() + (1 << 20));
    let mut again = Vec::new();
    prefilter.encode(&mut again);
    assert_eq!(Prefilter::decode(&again).as_ref(), Ok(&prefilter));
    let merged = prefilter.merged(&prefilter).expect("the prefixes have one length");
    assert!((0..QUERIES).all(|bit| {
        let placement = hash.rotate_left(bit as u32);
        merged.may_contain(placement) == prefilter.may_contain(placement)
    }));
}

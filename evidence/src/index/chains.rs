//! What says on flash which runs of a chain may have a key (BloomStore, III-A): a page for each range of hashes, either
//! with Bloom filters side by side, one for each run, or with the first bits of each hash and the number of its run.
//! Runs are appended in batches, for which a page is decoded and encoded again, as flushes of a chain do. Lookups read
//! encoded pages.

use super::sample::{Key, Sample};
use super::subject::{Subject, Verified};
use crate::Result;
use siltstone_index::bloom::{
    BitSliced, BloomFilters, EncodedFilters, FUNCTIONS_MAX, false_positive_rate, functions_of,
};
use siltstone_index::hash_pages::{HashPage, PageEntry};

/// The runs of a chain, and those that are appended at once.
const RUNS: u64 = 96;
const BATCH_RUNS: u64 = 8;
/// The average number of keys of a page whose chain has all runs.
const PAGE_KEYS: u64 = 1_450;
/// The bits of a tag that [`HashPage`] supports.
const TAG_BITS: std::ops::RangeInclusive<u32> = 9..=41;

/// A key in a run. Runs are numbered from the oldest.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunKey {
    run: u32,
    /// The place of the key in the range of its page, as a fraction of 2^64.
    place: u64,
}

/// The keys of a sample, in the order of insertion, divided among runs and pages.
pub(super) struct Chain<'a> {
    arrived: &'a [Key],
    pages: u64,
    /// For each batch of runs, for each page its keys in the order of the runs.
    batches: Vec<Vec<Vec<RunKey>>>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(sample: &'a Sample) -> Self {
        let arrived = sample.arrived();
        let pages = sample.len().div_ceil(PAGE_KEYS);
        let mut batches = vec![vec![Vec::new(); pages as usize]; (RUNS / BATCH_RUNS) as usize];
        for (number, key) in arrived.iter().enumerate() {
            let run = run_of(number, arrived);
            let (page, place) = home(*key, pages);
            batches[(u64::from(run) / BATCH_RUNS) as usize][page].push(RunKey { run, place });
        }
        Chain { arrived, pages, batches }
    }
}

fn run_of(number: usize, arrived: &[Key]) -> u32 {
    (number as u64 * RUNS / arrived.len() as u64) as u32
}

/// Returns the page of a key and its place there.
#[inline]
fn home(key: Key, pages: u64) -> (usize, u64) {
    let product = u128::from(key.placement) * u128::from(pages);
    ((product >> 64) as usize, product as u64)
}

/// A kind of page.
pub(super) trait PageKind {
    /// Appends runs, and encodes the page again.
    fn append(&self, page: &mut Vec<u8>, keys: &[RunKey], runs: std::ops::Range<u32>) -> Result<()>;

    /// Visits the runs that may have a key, the newest first.
    fn visit(&self, page: &[u8], place: u64, visit: impl FnMut(u32));
}

/// Bloom filters side by side.
pub(super) struct BloomColumns {
    rows: u32,
    functions: u32,
}

impl BloomColumns {
    /// Chooses the smallest filters with 2^-`bits` wrong runs of a missing key.
    pub(super) fn new(bits: u8) -> Self {
        let keys = PAGE_KEYS as f64 / RUNS as f64;
        let rate = |rows: u32| false_positive_rate(rows, functions_of(rows, keys), keys) * RUNS as f64;
        let most = (f64::from(FUNCTIONS_MAX) * keys * 2.0) as u32;
        let rows = (1..most).find(|&rows| rate(rows) <= 0.5_f64.powi(bits.into())).unwrap_or(most);
        BloomColumns { rows, functions: functions_of(rows, keys) }
    }
}

impl PageKind for BloomColumns {
    fn append(&self, page: &mut Vec<u8>, keys: &[RunKey], runs: std::ops::Range<u32>) -> Result<()> {
        let mut filters = match page.is_empty() {
            true => BloomFilters::default(),
            false => BloomFilters::decode(page)?,
        };
        let mut batch = BitSliced::new(self.rows, self.functions)?;
        for run in runs {
            let hashes = keys.iter().filter(|key| key.run == run).map(|key| key.place);
            batch.add_column(hashes)?;
        }
        filters.append(&batch)?;
        page.clear();
        filters.encode(page);
        Ok(())
    }

    #[inline]
    fn visit(&self, page: &[u8], place: u64, visit: impl FnMut(u32)) {
        if let Ok(filters) = EncodedFilters::new(page) {
            filters.matches(place).for_each(visit);
        }
    }
}

/// Sorted hash prefixes with the numbers of runs.
pub(super) struct Maplet {
    tag_bits: u32,
}

impl Maplet {
    /// Chooses as many bits of tags as leave about 2^-`bits` wrong runs of a missing key.
    pub(super) fn new(bits: u8) -> Self {
        let tag_bits = PAGE_KEYS.ilog2() + u32::from(bits);
        Maplet { tag_bits: tag_bits.clamp(*TAG_BITS.start(), *TAG_BITS.end()) }
    }

    fn tag(&self, place: u64) -> u64 {
        place >> (64 - self.tag_bits)
    }
}

impl PageKind for Maplet {
    fn append(&self, page: &mut Vec<u8>, keys: &[RunKey], _runs: std::ops::Range<u32>) -> Result<()> {
        let mut newer: Vec<PageEntry> =
            keys.iter().map(|key| PageEntry { tag: self.tag(key.place), unit: key.run.into() }).collect();
        newer.sort_unstable_by_key(|entry| (entry.tag, std::cmp::Reverse(entry.unit)));
        let mut merged = Vec::new();
        let mut newer = newer.into_iter().peekable();
        if !page.is_empty() {
            let older = HashPage::decode_intact(page)?;
            for entry in older.entries() {
                merged.extend(std::iter::from_fn(|| newer.next_if(|other| other.tag <= entry.tag)));
                merged.push(entry);
            }
        }
        merged.extend(newer);
        page.clear();
        HashPage::of(self.tag_bits, &merged).encode(page);
        Ok(())
    }

    #[inline]
    fn visit(&self, page: &[u8], place: u64, mut visit: impl FnMut(u32)) {
        if let Ok(page) = HashPage::decode_intact(page) {
            page.candidates(self.tag(place)).for_each(|unit| visit(unit as u32));
        }
    }
}

/// The encoded pages of a chain.
pub(super) struct ChainPages<'a, K> {
    kind: K,
    pages: Vec<Vec<u8>>,
    arrived: &'a [Key],
}

impl<'a, K: PageKind> ChainPages<'a, K> {
    /// Appends all runs, in batches.
    pub(super) fn new(chain: &Chain<'a>, kind: K) -> Result<Self> {
        let mut pages = vec![Vec::new(); chain.pages as usize];
        for (runs, batch) in (0..).step_by(BATCH_RUNS as usize).zip(&chain.batches) {
            for (page, keys) in pages.iter_mut().zip(batch) {
                kind.append(page, keys, runs..runs + BATCH_RUNS as u32)?;
            }
        }
        Ok(ChainPages { kind, pages, arrived: chain.arrived })
    }

    #[inline]
    fn visit(&self, key: Key, visit: impl FnMut(u32)) {
        let (page, place) = home(key, self.pages.len() as u64);
        self.kind.visit(&self.pages[page], place, visit);
    }
}

impl<K: PageKind> Subject for ChainPages<'_, K> {
    /// The bytes on flash.
    fn heap_bytes(&self) -> usize {
        self.pages.iter().map(Vec::len).sum()
    }

    #[inline]
    fn look_up(&self, key: Key) -> u64 {
        let mut sum = 0;
        self.visit(key, |run| sum += u64::from(run));
        sum
    }

    /// Counts the runs that a lookup reads. The last one is right.
    fn verify(&self, _sorted: &[Key]) -> Verified {
        let mut verified = Verified::default();
        for (number, key) in self.arrived.iter().enumerate() {
            let right = run_of(number, self.arrived);
            let (mut newer, mut is_right) = (0, false);
            self.visit(*key, |run| {
                newer += u64::from(run > right);
                is_right |= run == right;
            });
            verified.add(is_right, newer + u64::from(is_right));
        }
        verified
    }

    fn may_contain(&self, key: Key) -> Option<bool> {
        let mut is_found = false;
        self.visit(key, |_| is_found = true);
        Some(is_found)
    }
}

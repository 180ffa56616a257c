//! BloomStore: memory (IV-B of the paper), length of the chains, false positives (II), and the cost of a lookup and of
//! an insertion (III).
//!
//! The paper measures throughput and has no formula for writes. This model counts: each full page of items is written
//! once; the chain of filters is rewritten after every `buffered_filters` pages (III-A, III-C); the log of pages is
//! cleaned from its oldest end (III-B), which [`Cleaning`] models.

use super::cleaning::Cleaning;
use siltstone_model::Popularity;
use siltstone_model::{ModelError, fraction, positive};

/// A filter's pointer to its page, in bytes (III-A).
const POINTER_BYTES: f64 = 4.0;
/// The longest chain. Longer ones are useless, and their sums take long.
const CHAIN_LENGTH_MAX: f64 = 1e6;

/// The parameters of a BloomStore.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct BloomStore {
    /// N: the keys of all instances.
    pub keys: f64,
    /// The bytes of a key and its value.
    pub item_bytes: f64,
    /// A page of flash, in bytes. The write buffer of an instance is one page.
    pub page_bytes: f64,
    /// H: the filters in the chain of an instance, one for each page of items.
    pub chain_length: f64,
    /// m: the bytes of a filter.
    pub filter_bytes: f64,
    /// The filters of each chain that are kept in memory, at least 1: the active one, and more with multi-BF buffering.
    pub buffered_filters: f64,
    /// The prefilter in memory, in bits per key; 0 for none.
    pub prefilter_bits: f64,
    /// The extra space for pages, as a fraction of the data: what garbage may take.
    pub over_provision: f64,
}

impl BloomStore {
    /// Returns the best store of the paper: H = 96, filters of 64 bytes, no prefilter.
    pub fn paper(keys: f64, item_bytes: f64, over_provision: f64) -> Self {
        BloomStore {
            keys,
            item_bytes,
            page_bytes: 4096.0,
            chain_length: 96.0,
            filter_bytes: 64.0,
            buffered_filters: 1.0,
            prefilter_bits: 0.0,
            over_provision,
        }
    }

    /// Checks that such a store is possible.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("keys", self.keys)?;
        positive("item bytes", self.item_bytes)?;
        if !(1.0..=CHAIN_LENGTH_MAX).contains(&self.chain_length) {
            return Err(ModelError {
                name: "chain length",
                got: self.chain_length,
                limit: "within 1 to 10^6",
            });
        }
        positive("filter bytes", self.filter_bytes)?;
        positive("buffered filters", self.buffered_filters)?;
        fraction("item bytes in a page", self.item_bytes / self.page_bytes)?;
        if !(self.over_provision >= 0.0 && self.prefilter_bits >= 0.0) {
            let got = self.over_provision.min(self.prefilter_bits);
            return Err(ModelError { name: "over-provision or prefilter bits", got, limit: "0 or more" });
        }
        Ok(())
    }

    /// n: the items in a page.
    pub fn page_items(&self) -> f64 {
        (self.page_bytes / self.item_bytes).floor().max(1.0)
    }

    /// Returns the number of instances: enough for all keys and their share of garbage in chains of length H.
    pub fn instances(&self) -> f64 {
        self.keys * (1.0 + self.over_provision) / (self.chain_length * self.page_items())
    }

    /// Returns the false positive rate of one filter: (1 − e^(−kn/m))^k with the best whole number k of hash functions
    /// (II).
    pub fn false_positives(&self) -> f64 {
        false_positives(8.0 * self.filter_bytes / self.page_items())
    }

    /// Returns the memory for write buffers, buffered filters and prefilter, in bytes (IV-B).
    pub fn ram_bytes(&self) -> f64 {
        let instance = self.page_bytes + self.buffered_filters * (self.filter_bytes + POINTER_BYTES) + 8.0;
        self.instances() * instance + self.keys * self.prefilter_bits / 8.0
    }

    /// Returns the memory of the write buffers alone, in bytes per key (Figure 6 of the paper).
    pub fn buffer_bytes_per_key(&self) -> f64 {
        self.instances() * self.page_bytes / self.keys
    }

    /// Returns the pages of the part of a chain that is on flash. It is read and written as a whole.
    pub fn chain_pages(&self) -> f64 {
        let filters = (self.chain_length - self.buffered_filters).max(0.0);
        (filters * (self.filter_bytes + POINTER_BYTES) / self.page_bytes).ceil()
    }

    /// Reads for a get of a missing key that the prefilter lets through: the chain, and a page for each false positive.
    pub fn reads_per_miss(&self) -> f64 {
        let passes = if self.prefilter_bits > 0.0 { false_positives(self.prefilter_bits) } else { 1.0 };
        passes * (self.chain_pages() + self.chain_length * self.false_positives())
    }

    /// Reads for a get of a key, where gets are distributed as puts are: its page, the pages of false positives in
    /// newer filters, and the chain unless the key's filter is buffered.
    pub fn reads_per_get(&self, popularity: &Popularity) -> Result<f64, ModelError> {
        let cleaning = self.cleaning(popularity)?;
        let entry = cleaning.puts_per_lap / self.chain_length;
        let deeper = |filters: f64| cleaning.older(popularity, filters * entry);
        let mut newer = 0.0;
        let mut filters = 1.0;
        while filters < self.chain_length {
            newer += deeper(filters);
            filters += 1.0;
        }
        // On average the write buffer is half full.
        Ok(deeper(0.5) + deeper(self.buffered_filters) * self.chain_pages() + newer * self.false_positives())
    }

    /// Bytes written per byte put.
    pub fn write_amplification(&self, popularity: &Popularity) -> Result<f64, ModelError> {
        let pages = 1.0 + self.chain_pages() / self.buffered_filters;
        let fill = self.page_items() * self.item_bytes / self.page_bytes;
        Ok(self.cleaning(popularity)?.appends_per_put * pages / fill)
    }

    /// Bytes on flash per byte of items: pages and chains. A new chain replaces the old one.
    pub fn space_amplification(&self) -> f64 {
        let instance = (self.chain_length + self.chain_pages()) * self.page_bytes;
        self.instances() * instance / (self.keys * self.item_bytes)
    }

    fn cleaning(&self, popularity: &Popularity) -> Result<Cleaning, ModelError> {
        self.check()?;
        // A lap of an instance fills its write buffer once for each filter of the chain.
        Cleaning::buffered(popularity, popularity.keys() * (1.0 + self.over_provision), self.chain_length)
    }
}

/// Returns the false positive rate of a Bloom filter with this many bits per key (II).
fn false_positives(bits_per_key: f64) -> f64 {
    let best = (std::f64::consts::LN_2 * bits_per_key).max(1.0);
    let of = |functions: f64| (1.0 - (-functions / bits_per_key).exp()).powf(functions);
    of(best.floor()).min(of(best.ceil()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_model::KeyStream;

    /// IV-B and Figure 6: 0.667 bytes per key with chains of 96, 0.5 with 128; a filter of 64 bytes adds 0.01.
    #[test]
    fn the_memory_is_that_of_the_paper() {
        let bloomstore = BloomStore::paper(1e9, 64.0, 0.0);
        assert_eq!(bloomstore.page_items(), 64.0);
        assert!((bloomstore.buffer_bytes_per_key() - 0.667).abs() < 0.001);
        assert!((bloomstore.ram_bytes() / 1e9 - 0.678).abs() < 0.002);
        let longer = BloomStore { chain_length: 128.0, ..bloomstore };
        assert!((longer.buffer_bytes_per_key() - 0.5).abs() < 0.001);
    }

    #[test]
    fn false_positives_are_near_the_optimum_of_the_formula() {
        for bits in [4.0, 8.0, 16.0] {
            let ratio = false_positives(bits) / 0.6185f64.powf(bits);
            assert!((0.999..1.1).contains(&ratio), "{bits}: {ratio}");
        }
    }

    /// III-C: a prefilter saves most reads for missing keys; buffered filters save reads and writes of chains.
    #[test]
    fn the_enhancements_save_reads_and_writes() {
        let popularity = Popularity::zipf(10_000_000, 0.99).unwrap();
        let base = BloomStore::paper(1e7, 64.0, 0.25);
        let prefiltered = BloomStore { prefilter_bits: 4.0, ..base.clone() };
        let buffered = BloomStore { buffered_filters: 24.0, ..base.clone() };
        assert!(prefiltered.reads_per_miss() < 0.2 * base.reads_per_miss());
        assert!(buffered.reads_per_get(&popularity).unwrap() < base.reads_per_get(&popularity).unwrap());
        let writes = |store: &BloomStore| store.write_amplification(&popularity).unwrap();
        assert!(writes(&buffered) < 0.4 * writes(&base));
        assert!(base.cleaning(&Popularity::uniform(10).unwrap()).is_ok());
        assert!(BloomStore { over_provision: 0.0, ..base }.write_amplification(&popularity).is_err());
    }

    /// Simulates a chain entry by entry under uniform puts: where is the newest copy of a key?
    #[test]
    fn newer_filters_are_queried_as_often_as_in_a_simulated_chain() {
        let popularity = Popularity::uniform(1_000_000).unwrap();
        let store = BloomStore { prefilter_bits: 0.0, ..BloomStore::paper(1e6, 64.0, 0.3) };
        let reads = store.reads_per_get(&popularity).unwrap();
        // A copy at depth x of the chain (0 to 1) is valid with probability e^−xy, where y solves y = 1.3 (1 − e^−y).
        let y = siltstone_model::increasing_root(1.3, 1.0, |y| y / (1.0 - f64::exp(-y)));
        let mean_depth = 1.0 / y - 1.0 / (f64::exp(y) - 1.0);
        let expected = 1.0 + store.chain_pages() + mean_depth * 96.0 * store.false_positives();
        assert!((reads - expected).abs() < 0.05, "{reads} for {expected}");
    }

    /// Simulates the instances: each has a buffer of keys and a chain of pages. When a page is written, the oldest page
    /// is cleaned into the buffer. Returns the items appended per put.
    fn simulate(store: &BloomStore, popularity: &Popularity) -> f64 {
        use std::collections::{HashSet, VecDeque};
        let (keys, page_items) = (popularity.keys() as usize, store.page_items() as usize);
        let mut instances: Vec<(HashSet<u32>, VecDeque<HashSet<u32>>)> =
            vec![Default::default(); store.instances().round() as usize];
        let mut newest_page = vec![0; keys];
        let stream = KeyStream::new(popularity, 3).unwrap();
        let load: Vec<u32> = stream.every_key().collect();
        let (mut pages, mut puts) = (0, 0);
        let warm = keys + 20 * keys;
        for (request, key) in load.into_iter().chain(stream).take(warm + 20 * keys).enumerate() {
            let number = key as usize % instances.len();
            let (buffer, chain) = &mut instances[number];
            buffer.insert(key);
            puts += usize::from(request > warm);
            while buffer.len() >= page_items {
                pages += usize::from(request > warm);
                for &key in buffer.iter() {
                    newest_page[key as usize] += 1;
                }
                chain.push_back(std::mem::take(buffer));
                if chain.len() as f64 >= store.chain_length {
                    // A key that is also in a newer page is garbage.
                    let oldest = chain.pop_front().unwrap();
                    let valid = oldest.into_iter().filter(|key| {
                        newest_page[*key as usize] -= 1;
                        newest_page[*key as usize] == 0
                    });
                    buffer.extend(valid);
                }
            }
        }
        (pages * page_items) as f64 / puts as f64
    }

    #[test]
    fn puts_that_meet_in_a_write_buffer_are_written_once_as_in_a_simulation() {
        // The model spreads the popular keys evenly over the instances: at high skew it writes up to 5 % too little.
        for (skew, over_provision) in [(0.0, 0.3), (0.8, 0.3), (0.8, 0.6), (1.1, 0.3), (1.3, 0.3)] {
            let popularity = Popularity::zipf(40_000, skew).unwrap();
            let store =
                BloomStore { chain_length: 48.0, ..BloomStore::paper(40_000.0, 256.0, over_provision) };
            let model = store.cleaning(&popularity).unwrap().appends_per_put;
            let simulated = simulate(&store, &popularity);
            let ratio = model / simulated;
            assert!((ratio - 1.0).abs() < 0.05, "skew {skew}, {over_provision}: {model} for {simulated}");
        }
    }
}

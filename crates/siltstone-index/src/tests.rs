//! What all structures with an encoded form have in common: their bytes stay as they are, are read back, and withstand
//! damage. `fuzz/` searches for damage at length.

use super::bloom::{self, BloomFilters, EncodedFilters};
use super::entropy_trie::{self, Coder, EntropyTrie, TrieSettings};
use super::fences::{self, Fences};
use super::filter::{CuckooFilter, Filter, RangedFilter, RibbonFilter, cuckoo, ranged};
use super::hash_pages::{self, HashPage};
use super::perfect::{self, PerfectIndex};
use super::prefilter::{self, Prefilter};
use super::run_columns::{self, RunColumns, RunColumnsSettings};
use super::testing::Numbers;
use super::{DecodeError, PlacementIndex, list_bytes};
use std::ops::RangeInclusive;
use std::path::Path;

/// A format with examples.
struct Format {
    /// The golden file, which has the first example.
    golden: &'static str,
    examples: Vec<Vec<u8>>,
    /// Decodes a structure, looks up keys in it, and encodes it again.
    read: fn(&[u8]) -> Result<Vec<u8>, DecodeError>,
    /// Returns the heap memory of a decoded structure.
    memory: fn(&[u8]) -> Result<usize, DecodeError>,
    /// How much more that is than the bytes.
    more_bytes: RangeInclusive<i64>,
}

fn encoded<T>(structure: &T, encode: impl Fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(structure, &mut bytes);
    bytes
}

/// Looks up placements, which must be located within the `units` of the index.
fn look_up<I: PlacementIndex>(index: &I, units: u64) {
    let random = Numbers(1).sorted_placements(30).into_iter();
    for placement in random.chain([0, 1, 1 << 63, u64::MAX]) {
        let found = index.locate(placement);
        assert!(found.end <= units && found.is_empty() == (units == 0), "{found:?} of {units}");
    }
}

fn read_filter<F: Filter>(filter: &F) -> Vec<u8> {
    let found = Numbers(1).keys(50).into_iter().filter(|&(p, f)| filter.may_contain(p, f)).count();
    assert!(found < 50);
    encoded(filter, F::encode)
}

fn entropy_trie(golden: &'static str, coder: Coder) -> Format {
    let settings = TrieSettings { coder, bucket_keys: 80, huffman_max: 32, ..TrieSettings::default() };
    let golden_settings = TrieSettings { expected_keys: 8_000, ..settings };
    let mut tries = vec![entropy_trie::tests::build(golden_settings, &entropy_trie::tests::of_every_code())];
    for (count, records_per_block, expected_keys) in
        [(0, 1, 0), (1, 1, 1), (1_500, 1, 1_500), (1_500, 1, 1), (1_500, 8, 1_500), (1_500, 1, 100)]
    {
        let settings = TrieSettings { coder, records_per_block, expected_keys, ..TrieSettings::default() };
        tries.push(entropy_trie::tests::build(settings, &Numbers(9).sorted_placements(count)));
    }
    Format {
        golden,
        examples: tries.iter().map(|trie| encoded(trie, EntropyTrie::encode)).collect(),
        read: |bytes| {
            let trie = EntropyTrie::decode(bytes)?;
            look_up(&trie, trie.len().div_ceil(trie.settings().records_per_block.into()));
            Ok(encoded(&trie, EntropyTrie::encode))
        },
        memory: |bytes| EntropyTrie::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: -48..=-36,
    }
}

fn fences() -> Format {
    let example = |(count, placements_seed, sizes_seed, size_max, block_bytes)| {
        let mut sizes = Numbers(sizes_seed);
        let placements = Numbers(placements_seed).sorted_placements(count);
        let records = fences::tests::packed(&placements, || 1 + sizes.next() % size_max, block_bytes);
        encoded(&fences::tests::built(&records, count as u64), Fences::encode)
    };
    let examples = [
        (100, 8, 7, 30, 50),
        (0, 5, 4, 1, 100),
        (1, 5, 4, 1, 100),
        (400, 5, 4, 40, 100),
        (400, 5, 4, 90, 100),
    ];
    Format {
        golden: "fences.bin",
        examples: examples.map(example).into(),
        read: |bytes| {
            let fences = Fences::decode(bytes)?;
            look_up(&fences, fences.blocks());
            Ok(encoded(&fences, Fences::encode))
        },
        memory: |bytes| Fences::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: -37..=83,
    }
}

fn perfect_index() -> Format {
    let examples = [(2_000, 16), (0, 4), (1, 4), (2, 2), (1_500, 1), (1_500, 7), (2_000, 256)];
    Format {
        golden: "block_perfect.bin",
        examples: examples
            .map(|(count, len)| encoded(&perfect::tests::built_in_blocks(count, len), PerfectIndex::encode))
            .into(),
        read: |bytes| {
            let index = PerfectIndex::decode(bytes)?;
            look_up(&index, index.outline().blocks());
            Ok(encoded(&index, PerfectIndex::encode))
        },
        memory: |bytes| PerfectIndex::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: 79..=79,
    }
}

fn hash_page() -> Format {
    Format {
        golden: "hash_page.bin",
        examples: hash_pages::tests::pages().map(|page| encoded(&page, HashPage::encode)).into(),
        read: |bytes| {
            let page = HashPage::decode(bytes)?;
            assert_eq!(page.entries().count(), page.len());
            for entry in page.entries().take(30) {
                assert!(page.candidates(entry.tag).any(|unit| unit == entry.unit));
            }
            Ok(encoded(&page, HashPage::encode))
        },
        memory: |bytes| HashPage::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: -12..=-12,
    }
}

fn cuckoo_filter() -> Format {
    let examples =
        [(3, 2, 15, 6, 40), (1, 0, 8, 5, 0), (1, 0, 9, 5, 1), (1, 0, 15, 5, 2), (5, 3, 11, 5, 100)];
    Format {
        golden: "cuckoo_filter.bin",
        examples: examples
            .map(|(regions, log2, tag_bits, seed, keys)| {
                let index = cuckoo::tests::indexed(regions, log2, tag_bits, &Numbers(seed).keys(keys));
                encoded(&CuckooFilter::from_index(&index), CuckooFilter::encode)
            })
            .into(),
        read: |bytes| {
            let filter = CuckooFilter::decode(bytes)?;
            for (placement, fingerprint) in Numbers(8).keys(30) {
                let mut candidates = filter.candidate_slots(placement, fingerprint);
                assert!(candidates.all(|found| u64::from(found.rank) < filter.len()));
            }
            Ok(encoded(&filter, CuckooFilter::encode))
        },
        memory: |bytes| CuckooFilter::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: 4..=4,
    }
}

fn ribbon_filter() -> Format {
    let examples = [(300, 8, 12), (0, 6, 7), (1, 6, 7), (12, 6, 7), (13, 6, 7), (100, 6, 7), (1_000, 6, 7)];
    let filter = |(count, seed, bits)| RibbonFilter::new(Numbers(seed).keys(count), bits).unwrap();
    Format {
        golden: "ribbon_filter.bin",
        examples: examples.map(|example| encoded(&filter(example), RibbonFilter::encode)).into(),
        read: |bytes| RibbonFilter::decode(bytes).map(|filter| read_filter(&filter)),
        memory: |bytes| RibbonFilter::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: -20..=20,
    }
}

fn ranged_filter() -> Format {
    let examples = [(600, 9_000), (0, 0), (1, 1), (900, 9_000)];
    let filter = |(count, expected)| ranged::tests::built(count, expected, 7).0;
    Format {
        golden: "ranged_filter.bin",
        examples: examples.map(|example| encoded(&filter(example), RangedFilter::encode)).into(),
        read: |bytes| RangedFilter::decode(bytes).map(|filter| read_filter(&filter)),
        memory: |bytes| RangedFilter::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: 48..=276,
    }
}

fn bloom_filters() -> Format {
    let examples: [&[usize]; 5] = [&[3, 40, 65], &[], &[1], &[64], &[1, 1, 1]];
    Format {
        golden: "bloom_filters.bin",
        examples: examples
            .map(|columns| encoded(&bloom::tests::filters(columns), BloomFilters::encode))
            .into(),
        read: |bytes| {
            let (filters, in_place) = (BloomFilters::decode(bytes)?, EncodedFilters::new(bytes)?);
            for (hash, _) in Numbers(1).keys(50) {
                assert_eq!(filters.matches(hash), in_place.matches(hash));
                assert!(filters.matches(hash).all(|column| column < filters.columns()));
            }
            Ok(encoded(&filters, BloomFilters::encode))
        },
        memory: |bytes| BloomFilters::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: -8..=144,
    }
}

fn run_columns() -> Format {
    let example = |(count, ranges, filter_bits, size_max)| {
        let settings = RunColumnsSettings { ranges, filter_bits };
        encoded(&run_columns::tests::built(settings, count, size_max, 512, 3).0, RunColumns::encode)
    };
    Format {
        golden: "run_columns.bin",
        examples: [(300, 20, 16, 100), (0, 3, 8, 1), (1, 1, 8, 1), (50, 7, 4, 3_000)].map(example).into(),
        read: |bytes| {
            let columns = RunColumns::decode(bytes)?;
            for (placement, _) in Numbers(3).keys(50) {
                assert!(columns.locate(placement).end <= columns.blocks());
                assert!(columns.first_block_from(placement) <= columns.blocks());
            }
            Ok(encoded(&columns, RunColumns::encode))
        },
        memory: |bytes| RunColumns::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: -20..=-20,
    }
}

fn prefilter() -> Format {
    Format {
        golden: "prefilter.bin",
        examples: [(300, 1_500), (0, 1), (0, 100), (1, 1), (50, 1_000_000), (300, 40)]
            .map(|(keys, prefixes)| encoded(&prefilter::tests::built(keys, prefixes, 3).0, Prefilter::encode))
            .into(),
        read: |bytes| {
            let prefilter = Prefilter::decode(bytes)?;
            let found = Numbers(1).keys(50).into_iter().filter(|key| prefilter.may_contain(key.0)).count();
            assert!(found <= 50 && prefilter.merged(&prefilter).is_some());
            Ok(encoded(&prefilter, Prefilter::encode))
        },
        memory: |bytes| Prefilter::decode(bytes).map(|decoded| decoded.heap_bytes()),
        more_bytes: -3..=5,
    }
}

fn formats() -> [Format; 11] {
    [
        entropy_trie("entropy_trie_paper.bin", Coder::Paper),
        entropy_trie("entropy_trie_fast.bin", Coder::Fast),
        fences(),
        perfect_index(),
        hash_page(),
        bloom_filters(),
        run_columns(),
        prefilter(),
        cuckoo_filter(),
        ribbon_filter(),
        ranged_filter(),
    ]
}

/// `SILTSTONE_BLESS=1` overwrites the golden files; only a new version of a format justifies that.
#[test]
fn bytes_are_the_golden_ones() {
    for Format { golden, examples, .. } in formats() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(golden);
        if std::env::var_os("SILTSTONE_BLESS").is_some() {
            std::fs::write(&path, &examples[0]).unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes == examples[0], "{golden} has {} other bytes", bytes.len());
    }
}

#[test]
fn what_was_encoded_is_decoded_and_nothing_shorter_or_longer() {
    for Format { golden, examples, read, .. } in formats() {
        for bytes in examples {
            assert!(read(&bytes).unwrap() == bytes, "{golden}");
            for end in (0..bytes.len()).filter(|end| *end < 200 || end % 17 == 0 || end + 1 == bytes.len()) {
                assert!(read(&bytes[..end]).is_err(), "{golden}: a prefix of {end} bytes");
            }
            assert!(read(&[&bytes[..], &[0]].concat()).is_err(), "{golden}: a byte too many");
        }
    }
}

#[test]
fn damaged_bytes_are_refused_or_harmless() {
    for Format { golden, examples, read, .. } in formats() {
        let mut decoded = 0;
        for bytes in examples {
            let stride = (bytes.len() / 100).max(1);
            for at in (0..bytes.len().min(128)).chain((128..bytes.len()).step_by(stride)) {
                for flip in [0x01, 0x10, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= flip;
                    decoded += u32::from(read(&damaged).is_ok());
                }
            }
        }
        assert!(decoded > 0, "{golden}: no damage goes unnoticed, so none was tested");
    }
}

#[test]
fn a_decoded_structure_takes_as_much_memory_as_its_bytes_without_headers_and_with_fields() {
    for Format { golden, examples, memory, more_bytes, .. } in formats() {
        for bytes in examples {
            let more = memory(&bytes).unwrap() as i64 - bytes.len() as i64;
            assert!(more_bytes.contains(&more), "{golden}: {more} more than {}", bytes.len());
        }
    }
}

#[test]
fn a_list_takes_the_memory_of_the_elements_that_it_has_space_for() {
    let list: Vec<u32> = Vec::with_capacity(1_000);
    assert_eq!(list_bytes(&list), 4_000);
}

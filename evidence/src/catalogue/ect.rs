//! Entropy-coded tries.

use super::{OTHER_DRIVE, OTHER_MACHINE};
use crate::experiments::{ect, silt};
use crate::point::Judged;
use crate::registry::{Item, Paper, Run};

/// Bits per key do not depend on the number of keys.
const SIZES: Judged = Judged::CountsWithin(0.03);
/// What the paper compares with, whose code is not published as a crate.
const EPH: &str = "external perfect hashing (EPH)";

const fn item(id: &'static str, place: &'static str, what: &'static str, judged: Judged, run: Run) -> Item {
    super::item(Paper::Ect, id, place, what, judged, run)
}

pub(super) static ITEMS: [Item; 13] = [
    item(
        "ect/figure-3.3",
        "Figure 3.3",
        "expected bits of one trie by its keys, next to its entropy",
        SIZES,
        Run::Model(&ect::single_trie::EXPERIMENT),
    )
    .over("keys of the trie"),
    item(
        "ect/figure-3.6",
        "Figure 3.6",
        "bits per key with sparse indexing",
        SIZES,
        Run::Measured(&ect::index::EXPERIMENT),
    )
    .over("records per block"),
    item(
        "ect/table-3.1",
        "Table 3.1",
        "bits per key and time of a lookup of hashing schemes",
        SIZES,
        Run::Measured(&ect::index::EXPERIMENT),
    )
    .lacking("EPH and MMPH; a perfect hash in memory is next to it"),
    item(
        "ect/figure-3.7",
        "Figure 3.7",
        "construction by the memory for sorting",
        OTHER_MACHINE,
        Run::Measured(&ect::dictionary::EXPERIMENT),
    )
    .over("memory for sorting, MiB")
    .lacking("several cores; EPH"),
    item(
        "ect/figure-3.8",
        "Figure 3.8",
        "construction by items",
        OTHER_MACHINE,
        Run::Measured(&ect::dictionary::EXPERIMENT),
    )
    .over("items")
    .lacking("several cores; EPH"),
    item(
        "ect/figure-3.9",
        "Figure 3.9",
        "updates compared with builds from scratch",
        Judged::Within(0.05),
        Run::Measured(&ect::dictionary::EXPERIMENT),
    )
    .over("updates")
    .lacking(EPH),
    item(
        "ect/table-3.3",
        "Table 3.3",
        "best construction, large items",
        OTHER_MACHINE,
        Run::Measured(&ect::dictionary::EXPERIMENT),
    )
    .lacking("4 cores; EPH: 1 of 6 rows"),
    item(
        "ect/table-3.4",
        "Table 3.4",
        "random lookups of 16 threads",
        OTHER_DRIVE,
        Run::Measured(&silt::stores::EXPERIMENT),
    )
    .lacking(EPH),
    item(
        "ect/section-3.3.3",
        "Section 3.3.3",
        "bits per key of many items",
        SIZES,
        Run::Measured(&ect::index::EXPERIMENT),
    ),
    item(
        "ect/figure-3.10",
        "Figure 3.10",
        "bits per key and time of a lookup by the keys of a bucket",
        SIZES,
        Run::Measured(&ect::index::EXPERIMENT),
    )
    .over("keys per bucket, g"),
    item(
        "ect/figure-3.11",
        "Figure 3.11",
        "bits per key and time of a lookup by the largest subtrie with a Huffman code",
        SIZES,
        Run::Measured(&ect::index::EXPERIMENT),
    )
    .over("largest subtrie, keys"),
    item(
        "ect/figure-3.12",
        "Figure 3.12",
        "construction by the memory for sorting, small items",
        OTHER_MACHINE,
        Run::Measured(&ect::dictionary::EXPERIMENT),
    )
    .over("memory for sorting, MiB")
    .lacking("several cores; EPH"),
    item(
        "ect/table-3.5",
        "Table 3.5",
        "best construction, small items",
        OTHER_MACHINE,
        Run::Measured(&ect::dictionary::EXPERIMENT),
    )
    .lacking("4 cores; EPH: 1 of 6 rows; the paper has a billion items"),
];

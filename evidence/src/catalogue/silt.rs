//! SILT. Numbers of tables and figures are those of the paper of 2011.

use super::{COUNTED, FORMULA, OTHER_DRIVE, OTHER_MACHINE};
use crate::experiments::{device, silt};
use crate::point::Judged;
use crate::registry::{Item, Paper, Run};

const fn item(id: &'static str, place: &'static str, what: &'static str, judged: Judged, run: Run) -> Item {
    super::item(Paper::Silt, id, place, what, judged, run)
}

const fn not_done(id: &'static str, place: &'static str, what: &'static str, reason: &'static str) -> Item {
    super::not_done(Paper::Silt, id, place, what, reason)
}

pub(super) static ITEMS: [Item; 13] = [
    item(
        "silt/table-2",
        "Table 2",
        "memory and flash reads by kind of store",
        COUNTED,
        Run::Measured(&silt::stores::EXPERIMENT),
    ),
    not_done(
        "silt/table-3",
        "Table 3",
        "the merge rule",
        "a rule without data; the tests of src/store/merge.rs check each of its cases",
    ),
    item(
        "silt/figure-7",
        "Figure 7",
        "read amplification over space with inlining",
        FORMULA,
        Run::Model(&silt::inlining::EXPERIMENT),
    )
    .over("flash, bytes per byte"),
    item(
        "silt/figure-8",
        "Figure 8, section 5",
        "write and read amplification over memory; the example of section 5",
        FORMULA,
        Run::Model(&silt::trade_off::EXPERIMENT),
    )
    .over("memory, bytes per key"),
    item("silt/section-6-drive", "Section 6", "the drive", OTHER_DRIVE, Run::Measured(&device::EXPERIMENT)),
    item(
        "silt/section-6.1-throughput",
        "Section 6.1",
        "gets and puts per second of mixes",
        OTHER_DRIVE,
        Run::Measured(&silt::mixes::EXPERIMENT),
    )
    .lacking("new keys during the gets: puts are of existing keys; limits of rates; LogStores on the drive"),
    item(
        "silt/figure-9",
        "Figure 9",
        "gets per second over time, with conversions and merges",
        OTHER_DRIVE,
        Run::Measured(&silt::mixes::EXPERIMENT),
    )
    .over("time, s")
    .lacking("50 minutes; new keys; gets alone: operations are nine gets per put"),
    item(
        "silt/section-6.1-memory",
        "Section 6.1",
        "memory of indexes per key, most",
        COUNTED,
        Run::Measured(&silt::memory::EXPERIMENT),
    )
    .lacking("gets during the puts; the paper's 100 million keys: it is compared from 5 million on")
    .because(
        "with the preset of the paper, LogStores of least size are a larger part than of 100 million keys",
    ),
    item(
        "silt/figure-10",
        "Figure 10",
        "memory while keys are added, of four chains of stores",
        COUNTED,
        Run::Measured(&silt::chains::EXPERIMENT),
    )
    .over("keys, as a share of all")
    .lacking("the time; records of 1 KiB; a chain in which LogStores wait for merges"),
    item(
        "silt/figure-11",
        "Figure 11",
        "latency of gets by the store that has the key",
        OTHER_DRIVE,
        Run::Measured(&silt::stores::EXPERIMENT),
    )
    .lacking("all kinds in one database; LogStores on the drive: the page cache has the log"),
    item(
        "silt/table-5",
        "Table 5",
        "insertion and lookup of the index structures, one core",
        OTHER_MACHINE,
        Run::Measured(&silt::index::EXPERIMENT),
    ),
    item(
        "silt/table-6",
        "Table 6",
        "construction of the kinds of stores",
        OTHER_DRIVE,
        Run::Measured(&silt::stores::EXPERIMENT),
    ),
    item(
        "silt/table-7",
        "Table 7",
        "gets of single kinds of stores",
        OTHER_DRIVE,
        Run::Measured(&silt::stores::EXPERIMENT),
    )
    .lacking("misses of HashStores, which SortedStores see too; LogStores on the drive: the page cache has the log"),
];

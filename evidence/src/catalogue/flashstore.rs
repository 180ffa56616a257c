//! FlashStore.

use super::{COUNTED, FORMULA, OTHER_DRIVE, OTHER_MACHINE};
use crate::experiments::{device, flashstore};
use crate::point::Judged;
use crate::registry::{Item, Paper, Run};

const fn item(id: &'static str, place: &'static str, what: &'static str, judged: Judged, run: Run) -> Item {
    super::item(Paper::Flashstore, id, place, what, judged, run)
}

const fn not_done(id: &'static str, place: &'static str, what: &'static str, reason: &'static str) -> Item {
    super::not_done(Paper::Flashstore, id, place, what, reason)
}

const TRACES: Run = Run::Measured(&flashstore::traces::EXPERIMENT);
const BERKELEYDB: &str = "BerkeleyDB in the same run, which evidence traces has";

pub(super) static ITEMS: [Item; 11] = [
    item(
        "flashstore/figure-2",
        "Figure 2",
        "the drive, four patterns",
        OTHER_DRIVE,
        Run::Measured(&device::EXPERIMENT),
    ),
    item("flashstore/table-3", "Table 3", "gets per set of the traces", COUNTED, TRACES)
        .lacking("the traces themselves, which are not public: a generator has their statistics"),
    item(
        "flashstore/section-4.4",
        "Section 4.4",
        "records in 4 GB of index",
        FORMULA,
        Run::Model(&flashstore::formulas::EXPERIMENT),
    ),
    item(
        "flashstore/section-5.5",
        "Section 5.5",
        "the hash table with 16 candidates at a load of 0.9",
        COUNTED,
        Run::Measured(&flashstore::table::EXPERIMENT),
    ),
    item("flashstore/figure-5", "Figure 5", "operations per second of the traces", OTHER_MACHINE, TRACES)
        .lacking(BERKELEYDB),
    not_done(
        "flashstore/figure-6",
        "Figure 6",
        "the same on a slower machine",
        "needs a machine of low power; a limit of processor time is not one",
    ),
    not_done(
        "flashstore/table-4",
        "Table 4",
        "operations per joule, and per second and dollar, trace xbox",
        "power is not measured here, and prices of 2010 cannot be compared",
    ),
    not_done(
        "flashstore/table-5",
        "Table 5",
        "the same, trace dedup",
        "power is not measured here, and prices of 2010 cannot be compared",
    ),
    item("flashstore/section-5.9", "Section 5.9", "bytes of chunks per second", OTHER_MACHINE, TRACES),
    item(
        "flashstore/figure-7",
        "Figure 7",
        "operations per second with less flash than records",
        OTHER_MACHINE,
        Run::Measured(&flashstore::traces::SHARES_EXPERIMENT),
    )
    .over("bytes of flash per byte of records")
    .lacking(BERKELEYDB),
    item(
        "flashstore/section-4.5",
        "Section 4.5",
        "recycling and a cache on flash, next to LRU and the paper's log",
        COUNTED,
        Run::Measured(&flashstore::recycling::EXPERIMENT),
    )
    .over("bytes of flash per byte of records"),
];

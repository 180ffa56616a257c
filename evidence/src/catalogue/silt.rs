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
    not_done(
        "silt/table-2",
        "Table 2",
        "memory and flash reads by kind of store",
        "a database does not count its memory and its reads by kind of store",
    ),
    not_done(
        "silt/table-3",
        "Table 3",
        "the merge rule",
        "a rule without data; the tests of src/store/merge.rs check each of its cases",
    ),
    not_done(
        "silt/figure-7",
        "Figure 7",
        "read amplification over space with inlining",
        "an analysis of a proposal; records are not split here, and there is no model of it",
    ),
    item(
        "silt/figure-8",
        "Figure 8, section 5",
        "write and read amplification over memory; the example of section 5",
        FORMULA,
        Run::Model(&silt::trade_off::EXPERIMENT),
    )
    .over("memory, bytes per key"),
    item("silt/section-6-drive", "Section 6", "the drive", OTHER_DRIVE, Run::Measured(&device::EXPERIMENT)),
    not_done(
        "silt/section-6.1-throughput",
        "Section 6.1",
        "gets and puts per second of mixes",
        "the benchmarks have no mix of 90 % gets and 10 % puts by 16 threads yet",
    ),
    not_done(
        "silt/figure-9",
        "Figure 9",
        "gets per second over time, with conversions and merges",
        "the benchmarks have no time series yet; the limits of rates exist",
    ),
    item(
        "silt/section-6.1-memory",
        "Section 6.1",
        "memory of indexes per key, most",
        COUNTED,
        Run::Measured(&silt::memory::EXPERIMENT),
    )
    .lacking("gets during the puts; the paper's 100 million keys: it is compared from 5 million on"),
    not_done(
        "silt/figure-10",
        "Figure 10",
        "memory over time of four chains of stores",
        "kinds of stores cannot be left out, and there are no time series yet",
    ),
    not_done(
        "silt/figure-11",
        "Figure 11",
        "latency of gets by the store that has the key",
        "a get does not return which kind of store had its key",
    ),
    item(
        "silt/table-5",
        "Table 5",
        "insertion and lookup of the index structures, one core",
        OTHER_MACHINE,
        Run::Measured(&silt::index::EXPERIMENT),
    ),
    not_done(
        "silt/table-6",
        "Table 6",
        "construction of the kinds of stores",
        "statistics count jobs and their bytes, but not their time",
    ),
    item(
        "silt/table-7",
        "Table 7",
        "gets of single kinds of stores",
        OTHER_DRIVE,
        Run::Measured(&silt::stores::EXPERIMENT),
    )
    .lacking("HashStore and LogStore alone"),
];

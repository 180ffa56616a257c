//! BloomStore.

use super::{COUNTED, FORMULA, OTHER_DRIVE, OTHER_MACHINE};
use crate::experiments::bloomstore::{compare, growth, sweeps, traces};
use crate::point::Judged;
use crate::registry::{Item, Paper, Run};

const fn item(id: &'static str, place: &'static str, what: &'static str, judged: Judged, run: Run) -> Item {
    super::item(Paper::Bloomstore, id, place, what, judged, run)
}

const COMPARE: Run = Run::Measured(&compare::EXPERIMENT);
const SAMPLED: &str = "most of the lookups: some, at equal distances, are sent";

pub(super) static ITEMS: [Item; 12] = [
    item("bloomstore/table-i", "Table I", "the traces", FORMULA, Run::Model(&traces::EXPERIMENT))
        .lacking("the traces themselves, which are not public: a generator has their statistics"),
    item("bloomstore/section-iv-b-memory", "Section IV-B", "memory of the other stores", COUNTED, COMPARE)
        .because("BufferHash has place for a tenth more keys, since its partitions do not have equally many"),
    item(
        "bloomstore/figure-6",
        "Figure 6",
        "memory by the length of chains",
        COUNTED,
        Run::Measured(&sweeps::RAM),
    )
    .over("filters per chain"),
    item(
        "bloomstore/section-iv-b-chains",
        "Section IV-B",
        "lookups by the lengths of chains and filters",
        COUNTED,
        Run::Measured(&sweeps::CHAINS),
    )
    .over("bits of a filter"),
    item(
        "bloomstore/table-ii",
        "Table II",
        "memory by items, trace linux",
        COUNTED,
        Run::Measured(&sweeps::BY_ITEMS),
    ),
    item(
        "bloomstore/table-iii",
        "Table III",
        "memory by items, trace vx",
        COUNTED,
        Run::Measured(&sweeps::BY_ITEMS),
    ),
    item(
        "bloomstore/figure-7",
        "Figure 7",
        "lookups with a prefilter, trace linux",
        COUNTED,
        Run::Measured(&sweeps::PREFILTER),
    )
    .over("bits of the prefilter per key")
    .lacking("reads of chains and of pages apart; the trace's millions of keys; most of the lookups"),
    item(
        "bloomstore/figure-8",
        "Figure 8",
        "lookups with a prefilter, trace vx",
        COUNTED,
        Run::Measured(&sweeps::PREFILTER),
    )
    .over("bits of the prefilter per key")
    .lacking("reads of chains and of pages apart; the trace's millions of keys; most of the lookups"),
    item("bloomstore/figure-9", "Figure 9", "lookups by memory, trace linux", OTHER_DRIVE, COMPARE)
        .over("the setting that is varied")
        .lacking(SAMPLED),
    item("bloomstore/figure-10", "Figure 10", "lookups by memory, trace vx", OTHER_DRIVE, COMPARE)
        .over("the setting that is varied")
        .lacking("the trace's 5.6 million keys, and most of the lookups: some, at equal distances, are sent"),
    item(
        "bloomstore/section-iv-d",
        "Section IV-D",
        "quotients of lookups and inserts",
        OTHER_MACHINE,
        COMPARE,
    ),
    item(
        "bloomstore/growth",
        "not in the paper",
        "memory, writes and reads while keys are added",
        COUNTED,
        Run::Measured(&growth::EXPERIMENT),
    ),
];

//! FlashKey.

use super::{COUNTED, FORMULA, OTHER_DRIVE, OTHER_MACHINE};
use crate::experiments::{device, flashkey};
use crate::point::Judged;
use crate::registry::{Item, Paper, Run};

const fn item(id: &'static str, place: &'static str, what: &'static str, judged: Judged, run: Run) -> Item {
    super::item(Paper::Flashkey, id, place, what, judged, run)
}

const PAPER_KEYS: &str = "the paper's 50 million keys: with fewer keys RocksDB and LevelDB have fewer levels";
const PAPER_KEYS_AND_LEVELDB: &str = "the paper's 50 million keys, with which RocksDB has more levels; reads of \
                                      LevelDB, which has no direct I/O: the page cache would serve them";

/// The workloads of Table II next to the stores of the paper.
const PEERS: Run = Run::Peers { needs: &flashkey::peers::STORES, experiment: &flashkey::peers::EXPERIMENT };

pub(super) static ITEMS: [Item; 12] = [
    item("flashkey/table-i", "Table I", "the drive", OTHER_DRIVE, Run::Measured(&device::EXPERIMENT))
        .lacking("a second drive and a disk"),
    item("flashkey/figure-3", "Figure 3", "write amplification at equal space", COUNTED, PEERS)
        .lacking(PAPER_KEYS),
    item("flashkey/figure-4", "Figure 4", "read amplification at equal space", COUNTED, PEERS)
        .lacking(PAPER_KEYS_AND_LEVELDB),
    item("flashkey/figure-5", "Figure 5", "mean latency at equal space", COUNTED, PEERS)
        .lacking(PAPER_KEYS_AND_LEVELDB),
    item("flashkey/figure-6", "Figure 6, Table V", "latency of reads, p50 and p99.999", COUNTED, PEERS)
        .lacking(PAPER_KEYS_AND_LEVELDB),
    item(
        "flashkey/figure-7",
        "Figure 7",
        "YCSB A to F",
        OTHER_MACHINE,
        Run::Measured(&flashkey::ycsb::EXPERIMENT),
    )
    .lacking("LevelDB and RocksDB in the same run, which evidence table ycsb has"),
    item(
        "flashkey/table-vi",
        "Table VI",
        "the hash table in memory and on flash",
        Judged::CountsWithin(0.1),
        Run::Measured(&flashkey::workloads::EXPERIMENT),
    )
    .lacking("RocksDB's column; times are of another drive")
    .because(
        "next to an unlimited writer, cleaning and the index on flash read as well, for more puts per get",
    ),
    item(
        "flashkey/section-vi-c",
        "Section VI-C",
        "the formulas and their example",
        FORMULA,
        Run::Model(&flashkey::formulas::EXPERIMENT),
    ),
    super::not_done(
        Paper::Flashkey,
        "flashkey/section-vi-b-7",
        "Section VI-B.7",
        "100 million records at a space of 1.57",
        "takes 163 GB of flash; evidence run flashkey/table-vi --scale 2500 has as many records",
    ),
    item(
        "flashkey/section-v-a-3",
        "Section V-A.3",
        "the space of the tree of keys",
        COUNTED,
        Run::Measured(&flashkey::ordered_keys::EXPERIMENT),
    ),
    item(
        "flashkey/section-v-a-1",
        "Section V-A.1",
        "collisions of the hash table",
        Judged::Not("the hash table of the engine has no nodes: it counts false reads"),
        Run::Measured(&flashkey::index::EXPERIMENT),
    ),
    item(
        "flashkey/cleaning",
        "not in the paper",
        "records appended per put by rule, skew and space",
        COUNTED,
        Run::Measured(&flashkey::cleaning::EXPERIMENT),
    )
    .over("bytes of the logs per byte of live records"),
];

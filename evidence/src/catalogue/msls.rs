//! Models of multi-stage log-structured designs.

use super::{FORMULA, OTHER_DRIVE};
use crate::experiments::msls;
use crate::point::Judged;
use crate::registry::{Item, Paper, Run};

const fn item(id: &'static str, place: &'static str, what: &'static str, run: Run) -> Item {
    super::item(Paper::Msls, id, place, what, FORMULA, run)
}

const fn not_done(id: &'static str, place: &'static str, what: &'static str, reason: &'static str) -> Item {
    super::not_done(Paper::Msls, id, place, what, reason)
}

const CURVES: Run = Run::Model(&msls::CURVES);
const PEERS: Run = Run::Peers { needs: &msls::peers::STORES, experiment: &msls::peers::EXPERIMENT };
const SIMULATED: Run = Run::Model(&msls::SIMULATED);

pub(super) static ITEMS: [Item; 14] = [
    Item {
        judged: OTHER_DRIVE,
        ..item(
            "msls/figure-4.3",
            "Figure 4.3",
            "inserts per second and write amplification of LevelDB",
            PEERS,
        )
    }
    .over("unique keys")
    .lacking("1 to 10 GB; synced writes"),
    item("msls/figure-4.4", "Figure 4.4", "unique keys of requests", CURVES).over("requests"),
    item("msls/figure-4.7", "Figure 4.7", "density of a level", CURVES).over("distance, keys"),
    item("msls/figure-4.9", "Figure 4.9", "write amplification by skew", CURVES).over("skew"),
    item("msls/figure-4.10", "Figure 4.10", "write amplification by unique keys", SIMULATED)
        .over("unique keys")
        .lacking("the real LevelDB, which evidence/leveldb_model counts"),
    item("msls/figure-4.11", "Figure 4.11", "write amplification by write buffer", SIMULATED)
        .over("write buffer, items")
        .lacking("the real LevelDB"),
    item(
        "msls/figure-4.12",
        "Figure 4.12",
        "write amplification by unique keys, optimized level sizes",
        SIMULATED,
    )
    .over("unique keys"),
    not_done(
        "msls/figure-4.13",
        "Figure 4.13",
        "the same, measured with LevelDB",
        "needs a LevelDB whose level sizes can be set, which is not published",
    ),
    item("msls/figure-4.14", "Figure 4.14", "optimized level sizes", CURVES).over("level"),
    item("msls/figure-4.15", "Figure 4.15", "write amplification by levels", CURVES).over("levels"),
    item(
        "msls/figure-4.16",
        "Figure 4.16",
        "write amplification by write buffer, optimized level sizes",
        SIMULATED,
    )
    .over("write buffer, items")
    .lacking("the measurement: the paper measures LevelDB, here are the model and the simulation"),
    Item {
        judged: Judged::Not("another version of RocksDB"),
        ..item("msls/figure-4.17", "Figure 4.17", "write amplification of LevelDB and RocksDB", PEERS)
    }
    .over("unique keys")
    .lacking("the modified RocksDB, which is not published; more keys"),
    Item {
        judged: Judged::Within(0.03),
        ..item("msls/table-4.1", "Table 4.1", "sources of write amplification", Run::Model(&msls::TABLE))
    },
    Item {
        // The times of the optimizer are of another machine.
        judged: Judged::CountsWithin(0.06),
        ..item(
            "msls/section-4.5",
            "Sections 4.2 to 4.6",
            "the numbers of the text: primitives, SILT under skew, the optimizer",
            Run::Model(&msls::numbers::EXPERIMENT),
        )
    },
];

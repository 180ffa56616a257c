//! Puts per second and write amplification of the real LevelDB and RocksDB, by volume and by popularity: Figures 4.3
//! and 4.17. Keys are overwritten twice, after each exists.

use super::WRITES;
use crate::compare::row::Row;
use crate::compare::table::{Choice, Table};
use crate::conditions::Conditions;
use crate::experiments::quantities::PUTS;
use crate::point::{Points, Reading};
use crate::registry::Experiment;
use crate::{Error, Result};

const FIGURE_4_3: &str = "msls/figure-4.3";
const FIGURE_4_17: &str = "msls/figure-4.17";

/// The numbers of keys at scale 1, each with 1,000 bytes; the paper has a million to ten million.
const KEYS: [u64; 3] = [50_000, 100_000, 200_000];
/// As much as LevelDB's own default: 4 MB buffers, and here a cache that is a small part of the data.
const CACHE_MB: u64 = 8;
/// The phases of overwriting, with the popularity of keys.
const PHASES: [(&str, &str); 2] = [("uniform", "overwrite2"), ("Zipf 0.99", "overwrite2-zipf")];

/// The stores: Figure 4.3 has the first.
pub const STORES: [&str; 2] = ["leveldb", "rocksdb"];

/// Figures 4.3 and 4.17.
pub static EXPERIMENT: Experiment =
    Experiment { name: "msls-peers", cost_s: 150, direct: false, counts: false, rates: true, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let place = conditions.place.directory();
    for keys in KEYS {
        conditions.check()?;
        let choice = Choice {
            keys: conditions.number(keys),
            cache_mb: CACHE_MB,
            peers: STORES.map(str::to_owned).into(),
            dir: place.join("stores"),
            out: place.join("rows.jsonl"),
            seed: conditions.seed,
            ..Choice::default()
        };
        let failed = |error: anyhow::Error| Error::wrong_results(format!("{error:#}"));
        let rows = Table::Overwriting.run(&choice).map_err(failed)?;
        for (popularity, phase) in PHASES {
            for store in STORES {
                let is_it = |row: &&Row| row.peer == store && row.phase == phase && row.failure.is_none();
                if let Some(row) = rows.iter().find(is_it) {
                    add(store, popularity, row, points);
                }
            }
        }
    }
    Ok(())
}

fn add(store: &str, popularity: &str, row: &Row, points: &mut Points) {
    let (Some(writes), Some(puts)) = (row.write_amplification, row.settled_ops_per_s) else { return };
    let series = format!("{store}, {popularity}");
    if store == STORES[0] {
        points.add(FIGURE_4_3, PUTS.at(&series, row.keys as f64).is(Reading::time(puts)));
        points.add(FIGURE_4_3, WRITES.at(&series, row.keys as f64).is(Reading::sample(writes)));
    }
    points.add(FIGURE_4_17, WRITES.at(&series, row.keys as f64).is(Reading::sample(writes)));
}

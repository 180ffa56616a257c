//! Table 5: insertion and lookup of the cuckoo table of LogStores and of the trie of SortedStores, on one core.

use crate::Result;
use crate::conditions::Conditions;
use crate::experiments::quantities::KEYS_PER_S;
use crate::index::{Options, Sample, Settings, Structure, run as measure};
use crate::point::{Points, Reading};
use crate::quantity::{KeysPerSecond, Quantity, Quoted};
use crate::registry::Experiment;

const ITEM: &str = "silt/table-5";
const KEYS: u64 = 1_000_000;
const ROUNDS: usize = 5;

const LOOKUPS: Quantity<KeysPerSecond> = Quantity::higher("lookups");

/// The index structures of SILT.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-index", cost_s: 10, direct: false, counts: false, rates: true, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let sample = Sample::new(conditions.number(KEYS), conditions.seed);
    let settings =
        Settings { rounds: conditions.rounds(ROUNDS), stop: conditions.stop.clone(), ..Settings::default() };
    for (structure, series, built, lookups) in [
        (Structure::PartialKeyCuckoo, "cuckoo hashing", 10_182e3, 1_840e3),
        (Structure::EntropyTriePaper, "trie, paper", 7_603e3, 208e3),
        (Structure::EntropyTrie, "trie, default", 7_603e3, 208e3),
    ] {
        let report = measure(structure, Options::default(), &sample, &settings)?;
        let rate = Reading::time(report.build_keys_per_s);
        points.add(ITEM, KEYS_PER_S.of(format!("{series}, insertion")).paper(Quoted::text(built)).is(rate));
        let rate = Reading::time(1e9 / report.lookup_ns);
        points.add(ITEM, LOOKUPS.of(series).paper(Quoted::text(lookups)).is(rate));
    }
    Ok(())
}

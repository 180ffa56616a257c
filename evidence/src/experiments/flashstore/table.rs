//! The hash table of 5.5: cuckoo hashing with 16 candidates at a load of 0.9, and the engine's index.

use crate::Result;
use crate::conditions::Conditions;
use crate::index::{Inserts, Options, Report, Sample, Settings, Structure, run as measure};
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerKey, PerPut, Quantity, Share};
use crate::registry::Experiment;

const ITEM: &str = "flashstore/section-5.5";
const KEYS: u64 = 500_000;
const ROUNDS: usize = 5;

const MEMORY: Quantity<BytesPerKey> = Quantity::lower("memory");
const FALSE_READS: Quantity<Share> = Quantity::lower("lookups of missing keys with a false read");
const RELOCATIONS: Quantity<PerPut> = Quantity::lower("keys relocated");

/// The paper's table and the engine's.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashstore-table", cost_s: 10, direct: false, counts: true, rates: false, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let sample = Sample::new(conditions.number(KEYS), conditions.seed);
    let settings =
        Settings { rounds: conditions.rounds(ROUNDS), stop: conditions.stop.clone(), ..Settings::default() };
    for structure in [Structure::NwayCuckoo, Structure::HashPages] {
        let report = measure(structure, Options::default(), &sample, &settings)?;
        add(&report, points);
    }
    Ok(())
}

fn add(report: &Report, points: &mut Points) {
    let series = report.structure;
    points.add(ITEM, MEMORY.of(series).is(Reading::count(report.bits_per_key / 8.0)));
    if let Some(rate) = report.false_positive_rate {
        points.add(ITEM, FALSE_READS.of(series).is(Reading::count(rate)));
    }
    if let Some(Inserts { relocations_per_insert, .. }) = report.inserts {
        points.add(ITEM, RELOCATIONS.of(series).is(Reading::count(relocations_per_insert)));
    }
}

//! The experiments of chapter 4: models of LevelDB, COLA, SAMT and SILT.
//!
//! - [`curves`] has what the figures draw.
//! - [`numbers`] has the numbers of the text (4.2 to 4.6).
//! - [`peers`] has the real LevelDB and RocksDB: Figures 4.3 and 4.17.

pub mod curves;
pub mod numbers;
pub mod peers;

use crate::Result;
use crate::conditions::Conditions;
use crate::experiments::quantities::WRITE_AMPLIFICATION;
use crate::literature::LevelDbWrites;
use crate::point::{Point, Points};
use crate::quantity::{BytesPerByte, Keys, Levels, Quantity, Quoted, Share};
use crate::registry::Experiment;
use curves::Curve;

/// The keys of Table 4.1.
const TABLE_KEYS: f64 = 1e8;
/// The most keys that are simulated at scale 1, in figures.
const SIMULATED_KEYS: u64 = 10_000_000;

const UNIQUE_KEYS: Quantity<Keys> = Quantity::equal("unique keys");
const DENSITY: Quantity<Share> = Quantity::equal("density");
const LEVEL_ITEMS: Quantity<Levels> = Quantity::equal("level size");
/// The write amplification of another store: nearer to the paper's is better.
const WRITES: Quantity<BytesPerByte> = Quantity::equal("write amplification");

/// The figures that are calculated.
pub static CURVES: Experiment =
    Experiment { name: "msls-curves", cost_s: 5, direct: false, counts: true, rates: false, run: run_curves };

/// The figures in which the model is compared with a simulation.
pub static SIMULATED: Experiment = Experiment {
    name: "msls-simulated",
    cost_s: 90,
    direct: false,
    counts: true,
    rates: false,
    run: run_simulated,
};

/// Table 4.1.
pub static TABLE: Experiment =
    Experiment { name: "msls-table", cost_s: 160, direct: false, counts: true, rates: false, run: run_table };

fn add<U: crate::quantity::Unit>(
    item: &'static str,
    quantity: &Quantity<U>,
    curves: Vec<Curve>,
    points: &mut Points,
) {
    for (name, curve) in curves {
        for (x, y) in curve {
            points.add(item, quantity.at(&name, x).calculated(y));
        }
    }
}

fn run_curves(conditions: &Conditions, points: &mut Points) -> Result<()> {
    add("msls/figure-4.4", &UNIQUE_KEYS, curves::unique_keys()?, points);
    add("msls/figure-4.7", &DENSITY, curves::density()?, points);
    add("msls/figure-4.9", &WRITE_AMPLIFICATION, curves::skew()?, points);
    conditions.check()?;
    add("msls/figure-4.14", &LEVEL_ITEMS, curves::optimized_level_sizes()?, points);
    conditions.check()?;
    add("msls/figure-4.15", &WRITE_AMPLIFICATION, curves::level_counts()?, points);
    Ok(())
}

fn run_simulated(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let keys = conditions.number(SIMULATED_KEYS).min(SIMULATED_KEYS);
    add("msls/figure-4.10", &WRITE_AMPLIFICATION, curves::unique_key_counts(keys)?, points);
    conditions.check()?;
    add("msls/figure-4.11", &WRITE_AMPLIFICATION, curves::write_buffers(keys)?, points);
    conditions.check()?;
    add("msls/figure-4.12", &WRITE_AMPLIFICATION, curves::optimized_unique_key_counts(keys)?, points);
    conditions.check()?;
    add("msls/figure-4.16", &WRITE_AMPLIFICATION, curves::optimized_write_buffers(keys)?, points);
    Ok(())
}

/// The rows of Table 4.1: analysis, optimized, simulation, optimized.
const TABLE_4_1: [[f64; 8]; 4] = [
    [1.0, 1.0, 1.62, 4.77, 6.22, 6.32, 4.89, 25.82],
    [1.0, 1.0, 3.85, 4.85, 4.82, 4.65, 3.50, 23.67],
    [1.0, 1.0, 1.60, 4.38, 6.04, 6.09, 5.20, 25.31],
    [1.0, 1.0, 3.75, 4.49, 4.66, 4.55, 3.81, 23.26],
];

fn run_table(conditions: &Conditions, points: &mut Points) -> Result<()> {
    // Fewer keys have other values than those of the table.
    let keys = (TABLE_KEYS * conditions.scale.min(1.0)).max(1e4);
    let whole = curves::write_sources(TABLE_KEYS as u64, false)?;
    let simulated = curves::write_sources(keys as u64, true)?;
    let columns = [
        ("analysis", Some(&whole.analysis), true),
        ("analysis, optimized", Some(&whole.analysis_optimized), true),
        ("simulation", simulated.simulation.as_ref(), keys == TABLE_KEYS),
        ("simulation, optimized", simulated.simulation_optimized.as_ref(), keys == TABLE_KEYS),
    ];
    for ((column, writes, is_whole), papers) in columns.into_iter().zip(TABLE_4_1) {
        let Some(writes) = writes else { continue };
        for (point, paper) in rows(column, writes).into_iter().zip(papers) {
            let paper = is_whole.then(|| Quoted::<BytesPerByte>::text(paper).value());
            points.add("msls/table-4.1", Point { paper, ..point });
        }
    }
    Ok(())
}

fn rows(column: &str, writes: &LevelDbWrites) -> Vec<Point> {
    let levels = writes.levels.iter().enumerate();
    let levels = levels.map(|(level, &value)| (format!("level-{level} to {}", level + 1), value));
    let first = [("mem to log".to_owned(), writes.log), ("mem to level-0".to_owned(), writes.level0)];
    let all = first.into_iter().chain(levels).chain([("total".to_owned(), writes.total())]);
    all.map(|(row, value)| WRITES.of(format!("{row}, {column}")).calculated(value)).collect()
}

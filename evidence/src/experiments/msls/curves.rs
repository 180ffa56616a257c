//! The curves of Lim's dissertation that its models produce: Figures 2.8, 4.4, 4.7, 4.9 to 4.12 and 4.14 to 4.16; and
//! Table 4.1.
//!
//! Items have 1 kB. Where the text does not state which values were drawn, the function documents the choice.

use crate::literature::{GROWTH_FACTOR, LevelDb, LevelDbWrites, simulate_leveldb};
use siltstone_model::{ModelError, Popularity, Silt};

/// 1 kB, the size of items throughout chapter 4.
pub const ITEM_BYTES: f64 = 1000.0;
/// The skews drawn as "uniform" and "Zipf".
const SKEWS: [(f64, &str); 2] = [(0.0, "uniform"), (0.99, "Zipf 0.99")];

/// A line of a figure: its name, and its points by ascending x.
pub type Curve = (String, Vec<(f64, f64)>);

/// Points from `first` to `last`, evenly spread over the logarithm.
fn geometric(first: f64, last: f64, points: u32) -> impl Iterator<Item = f64> {
    let step = (last / first).ln() / f64::from(points - 1);
    (0..points).map(move |point| first * (step * f64::from(point)).exp())
}

/// Figure 2.8: the write and read amplification of SILT over its memory, for d from 0.3 to 30 M keys.
pub fn silt_trade_off() -> Vec<Curve> {
    let stores: Vec<Silt> = geometric(0.3e6, 30e6, 60).map(|d| Silt::paper(1e8, 1024.0, 4.0, d)).collect();
    let line = |name: &str, y: &dyn Fn(&Silt) -> f64| -> Curve {
        (name.to_owned(), stores.iter().map(|silt| (silt.ram_bytes_per_key(), y(silt))).collect())
    };
    vec![line("WA", &|silt| silt.writes_at_worst().total()), line("RA", &Silt::reads_per_get_at_worst)]
}

/// Figure 4.4: unique keys over requests, for seven skews.
pub fn unique_keys() -> Result<Vec<Curve>, ModelError> {
    let mut series = Vec::new();
    for skew in [0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2] {
        let popularity = Popularity::zipf(100_000_000, skew)?;
        let points =
            geometric(1e6, 1e10, 81).map(|requests| (requests, popularity.unique(requests))).collect();
        series.push((format!("s = {skew}"), points));
    }
    Ok(series)
}

/// Figure 4.7: the density of a level of 10 Mi keys, for seven skews.
pub fn density() -> Result<Vec<Curve>, ModelError> {
    let mut series = Vec::new();
    for skew in [0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2] {
        let popularity = Popularity::zipf(100_000_000, skew)?;
        let interval = popularity.density_interval(10.0 * f64::from(1 << 20));
        let distances = (0..=50).map(|point| f64::from(point) / 50.0);
        let points = distances.map(|d| (d * popularity.keys(), popularity.density(interval, d))).collect();
        series.push((format!("s = {skew}"), points));
    }
    Ok(series)
}

/// Figure 4.9: write amplification over skew.
pub fn skew() -> Result<Vec<Curve>, ModelError> {
    let leveldb = LevelDb::standard(1e8, ITEM_BYTES)?;
    let (mut model, mut worst) = (Vec::new(), Vec::new());
    for point in 0..=30 {
        let skew = f64::from(point) / 20.0;
        model.push((skew, leveldb.writes(&Popularity::zipf(100_000_000, skew)?).total()));
        worst.push((skew, leveldb.writes_at_worst().total()));
    }
    Ok(vec![("worst-case analysis".to_owned(), worst), ("LevelDB-ana".to_owned(), model)])
}

/// One case of a comparison: its position on the horizontal axis, and the store with its load.
struct Case {
    x: f64,
    leveldb: LevelDb,
    popularity: Popularity,
}

/// Returns the lines of the model, and of simulations with up to this many keys.
fn compared(name: &str, cases: &[Case], simulated_keys_max: u64) -> Result<Vec<Curve>, ModelError> {
    let model = cases.iter().map(|case| (case.x, case.leveldb.writes(&case.popularity).total()));
    let mut series = vec![(format!("LevelDB-ana{name}"), model.collect())];
    let mut points = Vec::new();
    for case in cases.iter().filter(|case| case.popularity.keys() <= simulated_keys_max as f64) {
        let simulated = simulate_leveldb(&case.leveldb, ITEM_BYTES, &case.popularity)?;
        points.push((case.x, simulated.writes.total()));
    }
    if !points.is_empty() {
        series.push((format!("LevelDB-sim{name}"), points));
    }
    Ok(series)
}

fn optimized(cases: &[Case]) -> Vec<Case> {
    let better = |case: &Case| Case {
        x: case.x,
        leveldb: case.leveldb.optimize(&case.popularity).leveldb,
        popularity: case.popularity.clone(),
    };
    cases.iter().map(better).collect()
}

/// 1 M to 10 G keys, at steps of about the square root of 10.
fn unique_key_cases(skew: f64) -> Result<Vec<Case>, ModelError> {
    let case = |keys: u64| {
        let leveldb = LevelDb::standard(keys as f64, ITEM_BYTES)?;
        Ok(Case { x: keys as f64, leveldb, popularity: Popularity::zipf(keys, skew)? })
    };
    let millions = [1, 3, 10, 33, 100, 330, 1_000, 3_300, 10_000];
    millions.into_iter().map(|millions| case(millions * 1_000_000)).collect()
}

/// Figure 4.10: write amplification over the number of unique keys.
pub fn unique_key_counts(simulated_keys_max: u64) -> Result<Vec<Curve>, ModelError> {
    let worst =
        unique_key_cases(0.0)?.into_iter().map(|case| (case.x, case.leveldb.writes_at_worst().total()));
    let mut series = vec![("worst-case analysis".to_owned(), worst.collect())];
    for (skew, name) in SKEWS {
        series.extend(compared(&format!(" {name}"), &unique_key_cases(skew)?, simulated_keys_max)?);
    }
    Ok(series)
}

/// Figure 4.12: Figure 4.10 with optimized level sizes.
pub fn optimized_unique_key_counts(simulated_keys_max: u64) -> Result<Vec<Curve>, ModelError> {
    let mut series = Vec::new();
    for (skew, name) in SKEWS {
        let cases = unique_key_cases(skew)?;
        series.extend(compared(&format!(" {name}"), &cases, 0)?);
        series.extend(compared(&format!("-opt {name}"), &optimized(&cases), simulated_keys_max)?);
    }
    Ok(series)
}

/// From 4 MiB to 10 % of the last level of 10 M keys.
fn write_buffer_cases(skew: f64) -> Result<Vec<Case>, ModelError> {
    let popularity = Popularity::zipf(10_000_000, skew)?;
    let case = |items: f64| {
        let leveldb = LevelDb::with_growth(1e7, ITEM_BYTES, items * ITEM_BYTES, GROWTH_FACTOR)?;
        Ok(Case { x: items, leveldb, popularity: popularity.clone() })
    };
    [4_194.304, 10e3, 33e3, 100e3, 330e3, 1e6].into_iter().map(case).collect()
}

/// Figure 4.11: write amplification over the size of the write buffer.
pub fn write_buffers(simulated_keys_max: u64) -> Result<Vec<Curve>, ModelError> {
    let mut series = Vec::new();
    for (skew, name) in SKEWS {
        series.extend(compared(&format!(" {name}"), &write_buffer_cases(skew)?, simulated_keys_max)?);
    }
    Ok(series)
}

/// Figure 4.16, which measures an implementation, by the model and the simulation: Figure 4.11 with optimized level
/// sizes.
pub fn optimized_write_buffers(simulated_keys_max: u64) -> Result<Vec<Curve>, ModelError> {
    let mut series = Vec::new();
    for (skew, name) in SKEWS {
        let cases = write_buffer_cases(skew)?;
        series.extend(compared(&format!(" {name}"), &cases, 0)?);
        series.extend(compared(&format!("-opt {name}"), &optimized(&cases), simulated_keys_max)?);
    }
    Ok(series)
}

/// Figure 4.14: the original and the optimized level sizes, for 100 M keys and seven skews.
pub fn optimized_level_sizes() -> Result<Vec<Curve>, ModelError> {
    let leveldb = LevelDb::standard(1e8, ITEM_BYTES)?;
    let line = |name: String, sizes: &[f64]| -> Curve {
        (name, sizes.iter().enumerate().map(|(level, &size)| (level as f64 + 1.0, size)).collect())
    };
    let mut series = vec![line("no opt".to_owned(), &leveldb.level_items)];
    for skew in [0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2] {
        let found = leveldb.optimize(&Popularity::zipf(100_000_000, skew)?);
        series.push(line(format!("s = {skew}"), &found.leveldb.level_items));
    }
    Ok(series)
}

/// Figure 4.15: write amplification over the number of levels, 2 to 8.
pub fn level_counts() -> Result<Vec<Curve>, ModelError> {
    let mut series = Vec::new();
    for (skew, name) in SKEWS {
        let popularity = Popularity::zipf(100_000_000, skew)?;
        let (mut fixed, mut optimized) = (Vec::new(), Vec::new());
        for levels in 2..=8 {
            let leveldb = LevelDb::with_levels(1e8, ITEM_BYTES, levels)?;
            fixed.push((levels.into(), leveldb.writes(&popularity).total()));
            optimized.push((levels.into(), leveldb.optimize(&popularity).writes.total()));
        }
        series.push((format!("LevelDB-ana {name}"), fixed));
        series.push((format!("LevelDB-ana-opt {name}"), optimized));
    }
    Ok(series)
}

/// Table 4.1: the sources of write amplification under a uniform load. Simulated only on request.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteSources {
    /// LevelDB's level sizes by the model.
    pub analysis: LevelDbWrites,
    /// Optimized level sizes by the model.
    pub analysis_optimized: LevelDbWrites,
    /// LevelDB's level sizes, simulated.
    pub simulation: Option<LevelDbWrites>,
    /// Optimized level sizes, simulated.
    pub simulation_optimized: Option<LevelDbWrites>,
}

/// Table 4.1 for this many keys: 100 M in the dissertation, which take about two minutes to simulate.
pub fn write_sources(keys: u64, simulated: bool) -> Result<WriteSources, ModelError> {
    let popularity = Popularity::uniform(keys)?;
    let leveldb = LevelDb::standard(keys as f64, ITEM_BYTES)?;
    let optimized = leveldb.optimize(&popularity);
    let simulation = |leveldb: &LevelDb| match simulated {
        true => simulate_leveldb(leveldb, ITEM_BYTES, &popularity).map(|counted| Some(counted.writes)),
        false => Ok(None),
    };
    Ok(WriteSources {
        analysis: leveldb.writes(&popularity),
        simulation: simulation(&leveldb)?,
        simulation_optimized: simulation(&optimized.leveldb)?,
        analysis_optimized: optimized.writes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(curves: Vec<Curve>, name: &str) -> Vec<(f64, f64)> {
        curves.into_iter().find(|(other, _)| other == name).unwrap().1
    }

    /// 4.6.3: at most 9.4 % over the range of unique keys.
    #[test]
    fn optimized_levels_save_up_to_a_tenth_of_the_writes() {
        let curves = optimized_unique_key_counts(0).unwrap();
        let fixed = curve(curves.clone(), "LevelDB-ana uniform");
        let optimized = curve(curves, "LevelDB-ana-opt uniform");
        let saved = fixed.iter().zip(optimized).map(|(a, b)| 1.0 - b.1 / a.1).fold(0.0, f64::max);
        assert!((0.08..0.12).contains(&saved), "{saved}");
    }

    /// 4.6.3: with few levels, optimized sizes save almost the writes of one level.
    #[test]
    fn three_optimized_levels_write_hardly_more_than_four_others() {
        let curves = level_counts().unwrap();
        let at =
            |name, levels: f64| curve(curves.clone(), name).iter().find(|point| point.0 == levels).unwrap().1;
        assert!(at("LevelDB-ana-opt uniform", 3.0) < 1.2 * at("LevelDB-ana uniform", 4.0));
    }

    #[test]
    fn a_small_table_4_1_is_simulated() {
        let table = write_sources(1_000_000, true).unwrap();
        let ratio = table.analysis.total() / table.simulation.unwrap().total();
        assert!((ratio - 1.0).abs() < 0.04, "{ratio}");
        let ratio = table.analysis_optimized.total() / table.simulation_optimized.unwrap().total();
        assert!((ratio - 1.0).abs() < 0.04, "{ratio}");
    }
}

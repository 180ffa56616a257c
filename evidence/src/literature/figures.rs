//! The figures and the table of Lim's dissertation that its models produce, as data: Figures 2.8, 4.4, 4.7, 4.9 to 4.12
//! and 4.14 to 4.16, and Table 4.1. The caller draws them.
//!
//! Items have 1 kB. Where the text does not state which values were drawn, the function documents the choice.

use super::leveldb::{GROWTH_FACTOR, LevelDb, LevelDbWrites};
use super::leveldb_simulator::simulate_leveldb;
use siltstone_model::ModelError;
use siltstone_model::Popularity;
use siltstone_model::Silt;

/// 1 kB, the size of items throughout chapter 4.
pub const ITEM_BYTES: f64 = 1000.0;
/// The skews drawn as "uniform" and "Zipf".
const SKEWS: [(f64, &str); 2] = [(0.0, "uniform"), (0.99, "Zipf 0.99")];

/// A figure: lines over common axes.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Figure {
    /// The number in the dissertation, as "4.10".
    pub number: &'static str,
    /// The title.
    pub title: &'static str,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Axis {
    /// What it measures, and the unit.
    pub label: &'static str,
    /// Whether it is logarithmic.
    pub logarithmic: bool,
}

/// A line.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, by ascending x.
    pub points: Vec<(f64, f64)>,
}

impl Figure {
    /// Returns the figure as comma-separated values, one point per line: series, x, y.
    pub fn to_csv(&self) -> String {
        let mut lines = String::from("series,x,y\n");
        for series in &self.series {
            for (x, y) in &series.points {
                lines.push_str(&format!("{},{x},{y}\n", series.name));
            }
        }
        lines
    }
}

const fn linear(label: &'static str) -> Axis {
    Axis { label, logarithmic: false }
}

const fn logarithmic(label: &'static str) -> Axis {
    Axis { label, logarithmic: true }
}

const AMPLIFICATION: Axis = linear("write amplification");

/// Returns all figures, by number. Simulations are run for up to this many keys: with 0 there are none, and the figures
/// take less than a minute; 10^7 keys take some minutes, 10^8 half an hour.
pub fn all(simulated_keys_max: u64) -> Result<Vec<Figure>, ModelError> {
    Ok(vec![
        silt_trade_off(),
        unique_keys()?,
        density()?,
        skew()?,
        unique_key_counts(simulated_keys_max)?,
        write_buffers(simulated_keys_max)?,
        optimized_unique_key_counts(simulated_keys_max)?,
        optimized_level_sizes()?,
        level_counts()?,
        optimized_write_buffers(simulated_keys_max)?,
    ])
}

/// Points from `first` to `last`, evenly spread over the logarithm.
fn geometric(first: f64, last: f64, points: u32) -> impl Iterator<Item = f64> {
    let step = (last / first).ln() / f64::from(points - 1);
    (0..points).map(move |point| first * (step * f64::from(point)).exp())
}

/// Figure 2.8: the write and read amplification of SILT over its memory, for d from 0.3 to 30 M keys.
pub fn silt_trade_off() -> Figure {
    let stores: Vec<Silt> = geometric(0.3e6, 30e6, 60).map(|d| Silt::paper(1e8, 1024.0, 4.0, d)).collect();
    let line = |name: &str, y: &dyn Fn(&Silt) -> f64| Series {
        name: name.into(),
        points: stores.iter().map(|silt| (silt.ram_bytes_per_key(), y(silt))).collect(),
    };
    Figure {
        number: "2.8",
        title: "SILT: amplification over memory, 100 M keys, 4 partitions, 15-bit tags",
        x: linear("memory overhead, bytes per key"),
        y: logarithmic("amplification"),
        series: vec![
            line("WA", &|silt| silt.writes_at_worst().total()),
            line("RA", &Silt::reads_per_get_at_worst),
        ],
    }
}

/// Figure 4.4: unique keys over requests, for seven skews.
pub fn unique_keys() -> Result<Figure, ModelError> {
    let mut series = Vec::new();
    for skew in [0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2] {
        let popularity = Popularity::zipf(100_000_000, skew)?;
        let points =
            geometric(1e6, 1e10, 81).map(|requests| (requests, popularity.unique(requests))).collect();
        series.push(Series { name: format!("s = {skew}"), points });
    }
    Ok(Figure {
        number: "4.4",
        title: "Unique keys of requests, 100 M keys",
        x: logarithmic("requests"),
        y: linear("unique keys"),
        series,
    })
}

/// Figure 4.7: the density of a level of 10 Mi keys, for seven skews.
pub fn density() -> Result<Figure, ModelError> {
    let mut series = Vec::new();
    for skew in [0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2] {
        let popularity = Popularity::zipf(100_000_000, skew)?;
        let interval = popularity.density_interval(10.0 * f64::from(1 << 20));
        let distances = (0..=50).map(|point| f64::from(point) / 50.0);
        let points = distances.map(|d| (d * popularity.keys(), popularity.density(interval, d))).collect();
        series.push(Series { name: format!("s = {skew}"), points });
    }
    Ok(Figure {
        number: "4.7",
        title: "Density over the distance from the last compacted key, level of 10 Mi of 100 M keys",
        x: linear("distance, keys"),
        y: linear("density"),
        series,
    })
}

/// Figure 4.9: write amplification over skew.
pub fn skew() -> Result<Figure, ModelError> {
    let leveldb = LevelDb::standard(1e8, ITEM_BYTES)?;
    let (mut model, mut worst) = (Vec::new(), Vec::new());
    for point in 0..=30 {
        let skew = f64::from(point) / 20.0;
        model.push((skew, leveldb.writes(&Popularity::zipf(100_000_000, skew)?).total()));
        worst.push((skew, leveldb.writes_at_worst().total()));
    }
    Ok(Figure {
        number: "4.9",
        title: "LevelDB: write amplification over skew, 100 M keys of 1 kB",
        x: linear("Zipf skewness"),
        y: AMPLIFICATION,
        series: vec![
            Series { name: "worst-case analysis".into(), points: worst },
            Series { name: "LevelDB-ana".into(), points: model },
        ],
    })
}

/// One case of a comparison: its position on the horizontal axis, and the store with its load.
struct Case {
    x: f64,
    leveldb: LevelDb,
    popularity: Popularity,
}

/// Returns the lines of the model, and of simulations with up to this many keys.
fn compared(name: &str, cases: &[Case], simulated_keys_max: u64) -> Result<Vec<Series>, ModelError> {
    let model = cases.iter().map(|case| (case.x, case.leveldb.writes(&case.popularity).total()));
    let mut series = vec![Series { name: format!("LevelDB-ana{name}"), points: model.collect() }];
    let mut points = Vec::new();
    for case in cases.iter().filter(|case| case.popularity.keys() <= simulated_keys_max as f64) {
        let simulated = simulate_leveldb(&case.leveldb, ITEM_BYTES, &case.popularity)?;
        points.push((case.x, simulated.writes.total()));
    }
    if !points.is_empty() {
        series.push(Series { name: format!("LevelDB-sim{name}"), points });
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
pub fn unique_key_counts(simulated_keys_max: u64) -> Result<Figure, ModelError> {
    let worst =
        unique_key_cases(0.0)?.into_iter().map(|case| (case.x, case.leveldb.writes_at_worst().total()));
    let mut series = vec![Series { name: "worst-case analysis".into(), points: worst.collect() }];
    for (skew, name) in SKEWS {
        series.extend(compared(&format!(" {name}"), &unique_key_cases(skew)?, simulated_keys_max)?);
    }
    Ok(Figure {
        number: "4.10",
        title: "LevelDB: write amplification over unique keys, 1 kB items",
        x: logarithmic("unique keys"),
        y: AMPLIFICATION,
        series,
    })
}

/// Figure 4.12: Figure 4.10 with optimized level sizes.
pub fn optimized_unique_key_counts(simulated_keys_max: u64) -> Result<Figure, ModelError> {
    let mut series = Vec::new();
    for (skew, name) in SKEWS {
        let cases = unique_key_cases(skew)?;
        series.extend(compared(&format!(" {name}"), &cases, 0)?);
        series.extend(compared(&format!("-opt {name}"), &optimized(&cases), simulated_keys_max)?);
    }
    Ok(Figure {
        number: "4.12",
        title: "LevelDB: write amplification with optimized level sizes, 1 kB items",
        x: logarithmic("unique keys"),
        y: AMPLIFICATION,
        series,
    })
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
pub fn write_buffers(simulated_keys_max: u64) -> Result<Figure, ModelError> {
    let mut series = Vec::new();
    for (skew, name) in SKEWS {
        series.extend(compared(&format!(" {name}"), &write_buffer_cases(skew)?, simulated_keys_max)?);
    }
    Ok(Figure {
        number: "4.11",
        title: "LevelDB: write amplification over the write buffer, 10 M keys of 1 kB",
        x: logarithmic("write buffer, items"),
        y: AMPLIFICATION,
        series,
    })
}

/// Figure 4.16, which measures an implementation, by the model and the simulation: Figure 4.11 with optimized level
/// sizes.
pub fn optimized_write_buffers(simulated_keys_max: u64) -> Result<Figure, ModelError> {
    let mut series = Vec::new();
    for (skew, name) in SKEWS {
        let cases = write_buffer_cases(skew)?;
        series.extend(compared(&format!(" {name}"), &cases, 0)?);
        series.extend(compared(&format!("-opt {name}"), &optimized(&cases), simulated_keys_max)?);
    }
    Ok(Figure {
        number: "4.16",
        title: "LevelDB, optimized levels, by the model (the dissertation measures them)",
        x: logarithmic("write buffer, items"),
        y: AMPLIFICATION,
        series,
    })
}

/// Figure 4.14: the original and the optimized level sizes, for 100 M keys and seven skews.
pub fn optimized_level_sizes() -> Result<Figure, ModelError> {
    let leveldb = LevelDb::standard(1e8, ITEM_BYTES)?;
    let line = |name: String, sizes: &[f64]| Series {
        name,
        points: sizes.iter().enumerate().map(|(level, &size)| (level as f64 + 1.0, size)).collect(),
    };
    let mut series = vec![line("no opt".into(), &leveldb.level_items)];
    for skew in [0.0, 0.2, 0.4, 0.6, 0.8, 0.99, 1.2] {
        let found = leveldb.optimize(&Popularity::zipf(100_000_000, skew)?);
        series.push(line(format!("s = {skew}"), &found.leveldb.level_items));
    }
    Ok(Figure {
        number: "4.14",
        title: "LevelDB: optimized level sizes, 100 M keys of 1 kB",
        x: linear("level"),
        y: logarithmic("level size, items"),
        series,
    })
}

/// Figure 4.15: write amplification over the number of levels, 2 to 8.
pub fn level_counts() -> Result<Figure, ModelError> {
    let mut series = Vec::new();
    for (skew, name) in SKEWS {
        let popularity = Popularity::zipf(100_000_000, skew)?;
        let (mut fixed, mut optimized) = (Vec::new(), Vec::new());
        for levels in 2..=8 {
            let leveldb = LevelDb::with_levels(1e8, ITEM_BYTES, levels)?;
            fixed.push((levels.into(), leveldb.writes(&popularity).total()));
            optimized.push((levels.into(), leveldb.optimize(&popularity).writes.total()));
        }
        series.push(Series { name: format!("LevelDB-ana {name}"), points: fixed });
        series.push(Series { name: format!("LevelDB-ana-opt {name}"), points: optimized });
    }
    Ok(Figure {
        number: "4.15",
        title: "LevelDB: write amplification over the number of levels, 100 M keys of 1 kB",
        x: linear("levels"),
        y: logarithmic(AMPLIFICATION.label),
        series,
    })
}

/// Table 4.1: the sources of write amplification under a uniform load. Simulated only on request.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
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
    use std::sync::LazyLock;

    static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| all(0).unwrap());

    fn series(number: &str, name: &str) -> &'static [(f64, f64)] {
        let figure = FIGURES.iter().find(|figure| figure.number == number).unwrap();
        &figure.series.iter().find(|series| series.name == name).unwrap().points
    }

    #[test]
    fn every_figure_has_lines_of_finite_points() {
        assert_eq!(FIGURES.len(), 10);
        for figure in FIGURES.iter() {
            assert!(!figure.series.is_empty());
            for series in &figure.series {
                assert!(series.points.len() > 1, "{} {}", figure.number, series.name);
                assert!(series.points.iter().all(|(x, y)| x.is_finite() && y.is_finite()));
                assert!(series.points.is_sorted_by(|a, b| a.0 < b.0), "{} {}", figure.number, series.name);
            }
            assert!(figure.to_csv().lines().count() > figure.series.len());
        }
    }

    /// 4.6.3: at most 9.4 % over the range of unique keys.
    #[test]
    fn optimized_levels_save_up_to_a_tenth_of_the_writes() {
        let fixed = series("4.12", "LevelDB-ana uniform");
        let optimized = series("4.12", "LevelDB-ana-opt uniform");
        let saved = fixed.iter().zip(optimized).map(|(a, b)| 1.0 - b.1 / a.1).fold(0.0, f64::max);
        assert!((0.08..0.12).contains(&saved), "{saved}");
    }

    /// 4.6.3: with few levels, optimized sizes save almost the writes of one level.
    #[test]
    fn three_optimized_levels_write_hardly_more_than_four_others() {
        let at = |name, levels: f64| series("4.15", name).iter().find(|point| point.0 == levels).unwrap().1;
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

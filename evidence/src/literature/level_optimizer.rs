//! The search for the level sizes with which LevelDB writes least (Lim's dissertation, 4.6.2).
//!
//! L-BFGS with a line search on the logarithms of the sizes. Gradients are central differences.

use argmin::core::{CostFunction, Error, Executor, Gradient, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;

use super::leveldb::{LevelDb, LevelDbWrites};
use siltstone_model::Popularity;

/// Half the distance between the two points of a central difference, in the logarithm of a size.
const DIFFERENCE: f64 = 1e-4;
/// The maximum number of steps. A search typically takes about 20.
const STEPS_MAX: u64 = 200;
/// The number of gradients that L-BFGS keeps.
const HISTORY: usize = 10;

/// The result of the search.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct OptimizedLevels {
    /// The store with the optimized level sizes.
    pub leveldb: LevelDb,
    /// Its write amplification.
    pub writes: LevelDbWrites,
    /// The number of evaluations of the model.
    pub evaluations: u64,
}

impl LevelDb {
    /// Returns the sizes of the levels before the last that minimize writes, with the same number of levels and all
    /// else unchanged.
    ///
    /// The search runs in a primal form, over Size(l), and in a dual form, over Unique⁻¹(Size(l)); the better result is
    /// returned (4.6.2, note 7). It is never worse than the initial sizes. It takes milliseconds for a uniform load,
    /// seconds for a skewed load of 10^8 keys.
    pub fn optimize(&self, popularity: &Popularity) -> OptimizedLevels {
        let mut best =
            OptimizedLevels { leveldb: self.clone(), writes: self.writes(popularity), evaluations: 1 };
        for form in [Form::Primal, Form::Dual] {
            let search = Search { leveldb: self, popularity, form, evaluations: Default::default() };
            if let Some(leveldb) = search.run() {
                let writes = leveldb.writes(popularity);
                if writes.total() < best.writes.total() {
                    best = OptimizedLevels { leveldb, writes, ..best };
                }
            }
            best.evaluations += search.evaluations.get() + 1;
        }
        best
    }
}

/// The quantity whose logarithm is searched.
#[derive(Clone, Copy)]
enum Form {
    /// The odds of a key being in the level: Size(l) / (N − Size(l)). Its logarithm has no bounds.
    Primal,
    /// Unique⁻¹(Size(l)).
    Dual,
}

struct Search<'a> {
    leveldb: &'a LevelDb,
    popularity: &'a Popularity,
    form: Form,
    evaluations: std::cell::Cell<u64>,
}

impl Search<'_> {
    fn run(&self) -> Option<LevelDb> {
        let keys = self.popularity.keys();
        let (_, sizes) = self.leveldb.level_items.split_last()?;
        let start: Vec<f64> = sizes
            .iter()
            .map(|&size| match self.form {
                Form::Primal => (size / (keys - size)).ln(),
                Form::Dual => self.popularity.unique_inverse(size).ln(),
            })
            .collect();
        if start.is_empty() || !start.iter().all(|x| x.is_finite()) {
            return None;
        }
        let solver = LBFGS::new(MoreThuenteLineSearch::new(), HISTORY).with_tolerance_cost(1e-7).ok()?;
        let executor = Executor::new(self, solver);
        let found =
            executor.configure(|state| state.param(start).max_iters(STEPS_MAX)).timer(false).run().ok()?;
        found.state().get_best_param().map(|point| self.leveldb_of(point))
    }

    fn leveldb_of(&self, point: &[f64]) -> LevelDb {
        let keys = self.popularity.keys();
        let size = |&x: &f64| match self.form {
            Form::Primal => keys / (1.0 + (-x).exp()),
            Form::Dual => self.popularity.unique(x.exp()),
        };
        let level_items = point.iter().map(size).chain([keys]).collect();
        LevelDb { level_items, ..self.leveldb.clone() }
    }

    fn total(&self, point: &[f64]) -> f64 {
        self.evaluations.set(self.evaluations.get() + 1);
        self.leveldb_of(point).writes(self.popularity).total()
    }
}

impl CostFunction for &Search<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, point: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.total(point))
    }
}

impl Gradient for &Search<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, point: &Vec<f64>) -> Result<Vec<f64>, Error> {
        let slope = |index: usize| {
            let at = |distance: f64| {
                let mut moved = point.clone();
                moved[index] += distance;
                self.total(&moved)
            };
            (at(DIFFERENCE) - at(-DIFFERENCE)) / (2.0 * DIFFERENCE)
        };
        Ok((0..point.len()).map(slope).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 4.1, "Analysis, opt": 10^8 keys of 1 kB, uniform.
    #[test]
    fn every_optimized_row_of_table_4_1_is_reached() {
        let leveldb = LevelDb::standard(1e8, 1000.0).unwrap();
        let found = leveldb.optimize(&Popularity::uniform(100_000_000).unwrap());
        for (row, expected) in found.writes.levels.iter().zip([3.85, 4.85, 4.82, 4.65, 3.50]) {
            assert!((row / expected - 1.0).abs() < 0.01, "{row} for {expected}");
        }
        assert!((found.writes.total() / 23.67 - 1.0).abs() < 0.001, "{}", found.writes.total());
    }

    #[test]
    fn no_size_nearby_writes_less() {
        for skew in [0.0, 0.99, 1.4] {
            let popularity = Popularity::zipf(3_000_000, skew).unwrap();
            let found = LevelDb::standard(3e6, 1000.0).unwrap().optimize(&popularity);
            for index in 0..found.leveldb.level_items.len() - 1 {
                for factor in [0.5, 0.9, 0.99, 1.01, 1.1, 2.0] {
                    let mut other = found.leveldb.clone();
                    other.level_items[index] *= factor;
                    let total = other.writes(&popularity).total();
                    assert!(
                        total >= found.writes.total() - 1e-9,
                        "skew {skew}, level {index}, times {factor}"
                    );
                }
            }
        }
    }

    /// 4.6.3 and Figure 4.14.
    #[test]
    fn low_skew_wants_larger_low_levels_than_high_skew() {
        let first = |skew| {
            let popularity = Popularity::zipf(10_000_000, skew).unwrap();
            let leveldb = LevelDb::standard(1e7, 1000.0).unwrap();
            leveldb.optimize(&popularity).leveldb.level_items[0]
        };
        assert!(first(0.0) > first(0.99) && first(0.99) > first(1.4));
    }

    #[test]
    fn a_store_of_one_level_has_nothing_to_optimize() {
        let leveldb = LevelDb::standard(100.0, 1000.0).unwrap();
        assert_eq!(leveldb.optimize(&Popularity::uniform(100).unwrap()).leveldb, leveldb);
    }
}

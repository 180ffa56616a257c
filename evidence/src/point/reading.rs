//! How a value was obtained, and the spread of several runs.

use serde::Serialize;
use siltstone::Database;
use siltstone_bench::costs::Costs;

/// How a value was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// Counted in a run without background threads: each run has the same value.
    Counted,
    /// Read when no background work was left, in a run without background threads: memory and space.
    Settled,
    /// Counted in a run whose threads run at their own pace: the median of several runs.
    Sampled,
    /// A rate or a time: the median of several runs.
    Timed,
}

/// One value of one run.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub(super) value: f64,
    pub(super) taken: Taken,
}

impl Reading {
    /// Returns the value.
    pub fn value(self) -> f64 {
        self.value
    }

    /// A number of events, or a quotient of such numbers.
    pub fn count(value: f64) -> Reading {
        Reading { value, taken: Taken::Counted }
    }

    /// A number of events that depends on the pace of threads.
    pub fn sample(value: f64) -> Reading {
        Reading { value, taken: Taken::Sampled }
    }

    /// A rate, or a time.
    pub fn time(value: f64) -> Reading {
        Reading { value, taken: Taken::Timed }
    }
}

/// The bytes that a store takes.
#[derive(Debug, Clone, Copy)]
pub struct Footprint {
    /// Of memory.
    pub ram_bytes: u64,
    /// Of all files, if the store knows.
    pub disk_bytes: Option<u64>,
}

/// The memory and the space of a store, read when no background work was left.
#[derive(Debug, Clone, Copy)]
pub struct Settled(Footprint);

/// A store whose memory and space can be read when it has settled.
pub trait Settles {
    /// Blocks until no background work is left, and returns the bytes of memory and of all files.
    ///
    /// # Errors
    /// Those of the store.
    fn settled_bytes(&mut self) -> crate::Result<Footprint>;
}

impl Settles for Database {
    fn settled_bytes(&mut self) -> crate::Result<Footprint> {
        self.settle()?;
        let stats = self.stats();
        Ok(Footprint { ram_bytes: stats.ram.total_bytes(), disk_bytes: Some(stats.disk_bytes) })
    }
}

impl Settled {
    /// Waits until no background work is left, and reads the memory and the space.
    ///
    /// # Errors
    /// Those of the store.
    pub fn of(store: &mut dyn Settles) -> crate::Result<Settled> {
        Ok(Settled(store.settled_bytes()?))
    }

    /// Returns what a benchmark of `siltstone_bench` has read: all of them settle before they read it.
    pub fn of_costs(costs: &Costs) -> Settled {
        Settled(Footprint { ram_bytes: costs.ram_bytes, disk_bytes: Some(costs.disk_bytes) })
    }

    /// Returns the memory per key.
    pub fn memory_per_key(self, keys: u64) -> Reading {
        Settled::reading(self.0.ram_bytes as f64 / keys.max(1) as f64)
    }

    /// Returns the bytes of all files per byte of the records, if the store knows.
    pub fn space_per_byte(self, data_bytes: u64) -> Option<Reading> {
        Some(Settled::reading(self.0.disk_bytes? as f64 / data_bytes.max(1) as f64))
    }

    /// Returns a part of the memory per key; the part was read after this.
    pub fn part_of_memory(self, bytes: u64, keys: u64) -> Reading {
        Settled::reading(bytes.min(self.0.ram_bytes) as f64 / keys.max(1) as f64)
    }

    fn reading(value: f64) -> Reading {
        Reading { value, taken: Taken::Settled }
    }
}

/// The values of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
    /// The number of runs.
    pub n: usize,
}

impl Spread {
    /// Returns the spread of some values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&lowest, &highest) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len().is_multiple_of(2) {
            true => (sorted[middle - 1] + sorted[middle]) / 2.0,
            false => sorted[middle],
        };
        Some(Spread { median, lowest, highest, n: sorted.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_has_the_median_of_odd_and_of_even_numbers_of_runs() {
        let of =
            |values: &[f64]| Spread::of(values).map(|spread| (spread.median, spread.lowest, spread.highest));
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(of(&[4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(of(&[]), None);
    }
}

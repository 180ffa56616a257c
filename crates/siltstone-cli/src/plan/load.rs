//! The load of a store as it was counted: by a database, or in a trace.

use siltstone::Usage;

/// A shorter time says nothing of rates, in seconds.
const SECONDS_MIN: f64 = 1.0;

/// What was asked of a store, and for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Keys that were looked up.
    pub gets: f64,
    /// Those of them that were not there.
    pub misses: f64,
    /// Records that were put and keys that were deleted.
    pub writes: f64,
    /// For how long, in seconds.
    pub seconds: f64,
}

impl From<Usage> for Load {
    fn from(usage: Usage) -> Load {
        Load {
            gets: usage.gets as f64,
            misses: usage.misses as f64,
            writes: usage.puts as f64 + usage.deletes as f64,
            seconds: usage.open_ms as f64 / 1e3,
        }
    }
}

impl Load {
    fn per_s(&self, count: f64) -> Option<f64> {
        (self.seconds >= SECONDS_MIN).then(|| count / self.seconds)
    }

    /// Writes in a second, if it lasted long enough to tell.
    pub fn writes_per_s(&self) -> Option<f64> {
        self.per_s(self.writes)
    }

    /// Gets in a second beside so many writes; if it did not last long enough to tell, then as many for each write as
    /// there were.
    pub fn gets_per_s(&self, writes_per_s: f64) -> f64 {
        self.per_s(self.gets).unwrap_or_else(|| writes_per_s * self.gets / self.writes.max(1.0))
    }

    /// The share of gets whose key was not there.
    pub fn missing(&self) -> f64 {
        self.misses / self.gets.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_time_and_else_those_of_the_writes() {
        let load = Load { gets: 100.0, misses: 25.0, writes: 50.0, seconds: 10.0 };
        assert_eq!((load.writes_per_s(), load.gets_per_s(7.0), load.missing()), (Some(5.0), 10.0, 0.25));
        let short = Load { seconds: 0.5, ..load };
        assert_eq!((short.writes_per_s(), short.gets_per_s(7.0)), (None, 14.0));
        assert_eq!(Load::default().missing(), 0.0);
    }
}

//! The load of a store, as counted by a database or in a trace.

use siltstone::Usage;

/// The shortest time that gives a meaningful rate, in seconds.
const SECONDS_MIN: f64 = 1.0;

/// The operations on a store, and their duration.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Keys that were looked up.
    pub gets: f64,
    /// Lookups of missing keys.
    pub misses: f64,
    /// Records put and keys deleted.
    pub writes: f64,
    /// The duration, in seconds.
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

    /// Returns the writes per second, if the load lasted long enough.
    pub fn writes_per_s(&self) -> Option<f64> {
        self.per_s(self.writes)
    }

    /// Returns the gets per second, if the load lasted long enough.
    pub fn counted_gets_per_s(&self) -> Option<f64> {
        self.per_s(self.gets)
    }

    /// Returns the gets per second. If the load did not last long enough, scales `writes_per_s` by the ratio of gets to
    /// writes.
    pub fn gets_per_s(&self, writes_per_s: f64) -> f64 {
        self.counted_gets_per_s().unwrap_or_else(|| writes_per_s * self.gets / self.writes.max(1.0))
    }

    /// Returns the share of gets of missing keys.
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

//! Statistics for `serde`: lists of names and values are maps.

use super::{Latency, RamAccount};
use crate::device::{IoSnapshot, Purpose};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Serializes pairs as a map.
pub(super) fn as_map<V: Serialize, S: Serializer>(
    pairs: &[(&'static str, V)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Serializes the counts of the purposes for which there was an operation.
pub(super) fn io<S: Serializer>(io: &IoSnapshot, to: S) -> Result<S::Ok, S::Error> {
    let counts = Purpose::ALL.map(|purpose| (purpose.name(), io.of(purpose)));
    to.collect_map(counts.into_iter().filter(|(_, count)| *count != Default::default()))
}

impl Serialize for RamAccount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        as_map(self.items(), to)
    }
}

/// The count, the sum and some quantiles.
impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("operation", self.operation())?;
        map.serialize_entry("count", &self.count())?;
        map.serialize_entry("sum_ns", &self.sum_ns())?;
        for (name, share) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999), ("max_ns", 1.0)] {
            map.serialize_entry(name, &self.quantile_ns(share))?;
        }
        map.end()
    }
}

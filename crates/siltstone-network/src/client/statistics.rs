//! The statistics of a client.

use hdrhistogram::Histogram;
use std::time::Duration;

/// The counters of a client, since it connected.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientStatistics {
    /// Requests with a response.
    pub answered_requests: u64,
    /// Requests that were given up at their time limit.
    pub timed_out_requests: u64,
    /// Packets that were sent for the first time.
    pub sent_packets: u64,
    /// Packets that were retransmitted.
    pub retransmitted_packets: u64,
    /// Packets received, responses and others.
    pub received_packets: u64,
    /// Packets that no request waits for: late, duplicate, damaged or foreign ones.
    pub unexpected_packets: u64,
    /// Gets that were repeated because the value was longer than the reserved bytes.
    pub repeated_gets: u64,
    /// The round trips of packets that were sent once, in nanoseconds, with two digits.
    pub round_trip_ns: Histogram<u64>,
}

/// The longest round trip that is distinguished from longer ones.
const ROUND_TRIP_NS_MAX: u64 = 60_000_000_000;

impl ClientStatistics {
    pub(super) fn new() -> Option<Self> {
        Some(ClientStatistics {
            answered_requests: 0,
            timed_out_requests: 0,
            sent_packets: 0,
            retransmitted_packets: 0,
            received_packets: 0,
            unexpected_packets: 0,
            repeated_gets: 0,
            round_trip_ns: Histogram::new_with_bounds(1, ROUND_TRIP_NS_MAX, 2).ok()?,
        })
    }
}

/// When to retransmit (RFC 6298, with a shorter minimum).
#[derive(Debug, Clone)]
pub(super) struct Pace {
    smoothed: Option<(Duration, Duration)>,
    first: Duration,
}

/// The minimum time before a retransmission, longer than the delays within a system.
const RETRANSMIT_AFTER_MIN: Duration = Duration::from_millis(2);

impl Pace {
    pub fn new(first: Duration) -> Pace {
        Pace { smoothed: None, first }
    }

    /// Records a round trip.
    pub fn learn(&mut self, took: Duration) {
        self.smoothed = Some(match self.smoothed {
            None => (took, took / 2),
            Some((mean, deviation)) => ((mean * 7 + took) / 8, (deviation * 3 + mean.abs_diff(took)) / 4),
        });
    }

    /// Returns how long to wait for the response to a packet that was sent `tries` times.
    pub fn patience(&self, tries: u32) -> Duration {
        let once = self
            .smoothed
            .map_or(self.first, |(mean, deviation)| (mean + deviation * 4).max(RETRANSMIT_AFTER_MIN));
        once * (1 << tries.saturating_sub(1).min(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_the_round_trips_and_doubles_with_each_try() {
        let mut pace = Pace::new(Duration::from_millis(20));
        assert_eq!(pace.patience(1), Duration::from_millis(20));
        assert_eq!(pace.patience(3), Duration::from_millis(80));
        (0..100).for_each(|_| pace.learn(Duration::from_millis(10)));
        let once = pace.patience(1);
        assert!(once >= Duration::from_millis(10) && once < Duration::from_millis(11), "{once:?}");
        (0..100).for_each(|_| pace.learn(Duration::from_micros(10)));
        assert_eq!(pace.patience(1), RETRANSMIT_AFTER_MIN);
    }
}

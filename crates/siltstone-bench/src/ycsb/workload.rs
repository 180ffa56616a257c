//! The workloads by name: what share of the requests does what.

use super::Distribution;
use std::fmt;

/// A core workload of YCSB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// 95 % reads of what came last, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts; for engines that keep an order.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Reads a record with all its fields.
    Read,
    /// Writes one field of a record, or all.
    Update,
    /// Adds a record.
    Insert,
    /// Reads records in the order of their keys.
    Scan,
    /// Reads a record and writes one field of it, or all.
    ReadModifyWrite,
}

impl Request {
    /// All of them.
    pub const ALL: [Request; 5] =
        [Request::Read, Request::Update, Request::Insert, Request::Scan, Request::ReadModifyWrite];

    /// The name, as YCSB prints it.
    pub fn name(self) -> &'static str {
        match self {
            Request::Read => "READ",
            Request::Update => "UPDATE",
            Request::Insert => "INSERT",
            Request::Scan => "SCAN",
            Request::ReadModifyWrite => "READ-MODIFY-WRITE",
        }
    }
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 6] =
        [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F];

    /// The name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Workload::A => "a",
            Workload::B => "b",
            Workload::C => "c",
            Workload::D => "d",
            Workload::E => "e",
            Workload::F => "f",
        }
    }

    /// What its requests do, with their shares, which add up to 1.
    pub fn mix(self) -> &'static [(f64, Request)] {
        match self {
            Workload::A => &[(0.5, Request::Read), (0.5, Request::Update)],
            Workload::B => &[(0.95, Request::Read), (0.05, Request::Update)],
            Workload::C => &[(1.0, Request::Read)],
            Workload::D => &[(0.95, Request::Read), (0.05, Request::Insert)],
            Workload::E => &[(0.95, Request::Scan), (0.05, Request::Insert)],
            Workload::F => &[(0.5, Request::Read), (0.5, Request::ReadModifyWrite)],
        }
    }

    /// How its requests are distributed, unless something else is asked for.
    pub fn distribution(self) -> Distribution {
        if self == Workload::D { Distribution::Latest } else { Distribution::Zipfian }
    }

    /// What the request does that belongs to a number from 0 to 1 (excluded).
    pub fn request(self, uniform: f64) -> Request {
        let mut left = uniform;
        let mix = self.mix();
        for (share, request) in mix {
            if left < *share {
                return *request;
            }
            left -= share;
        }
        // The shares add up to 1, up to a rounding.
        mix[0].1
    }

    /// The share of the requests that do this.
    pub fn share(self, request: Request) -> f64 {
        self.mix().iter().filter(|(_, other)| *other == request).map(|(share, _)| share).sum()
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_in_their_shares() {
        for workload in Workload::ALL {
            let count = 1000;
            for request in Request::ALL {
                let at = |step: u32| (f64::from(step) + 0.5) / f64::from(count);
                let got = (0..count).filter(|step| workload.request(at(*step)) == request).count();
                assert_eq!(got as f64 / f64::from(count), workload.share(request), "{workload} {request:?}");
            }
            assert_eq!(workload.mix().iter().map(|(share, _)| share).sum::<f64>(), 1.0);
        }
    }
}

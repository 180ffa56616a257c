//! The workloads by name, with the mix of their requests.

use super::Distribution;
use crate::named;
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
    /// 95 % reads of the latest records, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts; for engines with key order.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

named!(Workload);

/// The kind of a request.
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
    /// All kinds.
    pub const ALL: [Request; 5] =
        [Request::Read, Request::Update, Request::Insert, Request::Scan, Request::ReadModifyWrite];

    /// Returns the name, as in YCSB.
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
    /// All workloads.
    pub const ALL: [Workload; 6] =
        [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F];

    /// Returns the name on the command line.
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

    /// Returns the kinds of requests with their shares, which add up to 1.
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

    /// Returns the default distribution of its requests.
    pub fn distribution(self) -> Distribution {
        if self == Workload::D { Distribution::Latest } else { Distribution::Zipfian }
    }

    /// Maps a number from 0 to 1 (exclusive) to a kind of request.
    pub fn request(self, uniform: f64) -> Request {
        let mut left = uniform;
        let mix = self.mix();
        for (share, request) in mix {
            if left < *share {
                return *request;
            }
            left -= share;
        }
        // The shares add up to 1, except for rounding.
        mix[0].1
    }

    /// Returns the share of this kind of requests.
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

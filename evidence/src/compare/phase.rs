//! The phases that a store goes through.

use anyhow::{Error, bail};
use serde::{Deserialize, Serialize};
use siltstone_bench::ycsb::{Request, Workload};
use std::fmt;
use std::str::FromStr;

/// The number of keys per `multiget`.
pub const MULTIGET_KEYS: usize = 32;

/// The most records per scan.
pub const SCAN_RECORDS_MAX: usize = 100;

/// The work of the threads of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Puts every key once, in random order.
    Load,
    /// Gets random existing keys.
    Read,
    /// Gets random existing keys, many per call.
    MultiGet,
    /// Gets random absent keys.
    Miss,
    /// Puts random keys, this many times as many as there are keys.
    Overwrite(u8),
    /// Gets and puts random existing keys, with this percentage of gets.
    Mixed(u8),
    /// Gets random existing keys, while one more thread puts this many MB (10^6 bytes) of records per second, or as
    /// many as it can.
    ReadWhileWriting(Option<u32>),
    /// Sends the requests of a workload of YCSB. An update writes the whole record.
    Ycsb(Workload),
    /// Reads random blocks of the store's files directly.
    Raw,
}

/// A phase: its work, the popularity of keys and its number of threads. Written as `read-zipf:16`; the defaults are
/// keys of equal popularity and one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Phase {
    /// The work of every thread.
    pub work: Work,
    /// Whether the popularity of keys is YCSB's Zipf distribution.
    pub zipf: bool,
    /// The number of threads.
    pub threads: usize,
}

impl Phase {
    /// Returns whether the phase writes.
    pub fn writes(&self) -> bool {
        match self.work {
            Work::Load | Work::Overwrite(_) | Work::Mixed(_) | Work::ReadWhileWriting(_) => true,
            Work::Ycsb(workload) => workload.share(Request::Read) < 1.0,
            Work::Read | Work::MultiGet | Work::Miss | Work::Raw => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Work::Load => formatter.write_str("load"),
            Work::Read => formatter.write_str("read"),
            Work::MultiGet => formatter.write_str("multiget"),
            Work::Miss => formatter.write_str("miss"),
            Work::Overwrite(1) => formatter.write_str("overwrite"),
            Work::Overwrite(laps) => write!(formatter, "overwrite{laps}"),
            Work::Mixed(gets) => write!(formatter, "mixed{gets}"),
            Work::ReadWhileWriting(None) => formatter.write_str("readwhilewriting"),
            Work::ReadWhileWriting(Some(mb)) => write!(formatter, "readwhilewriting{mb}"),
            Work::Ycsb(workload) => write!(formatter, "ycsb-{workload}"),
            Work::Raw => formatter.write_str("raw"),
        }?;
        if self.zipf {
            formatter.write_str("-zipf")?;
        }
        if self.threads == 1 { Ok(()) } else { write!(formatter, ":{}", self.threads) }
    }
}

impl FromStr for Phase {
    type Err = Error;

    fn from_str(text: &str) -> Result<Phase, Error> {
        let (name, threads) = match text.split_once(':') {
            Some((name, threads)) => (name, threads.parse()?),
            None => (text, 1),
        };
        let (name, zipf) = match name.strip_suffix("-zipf") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let work = match name {
            "load" => Work::Load,
            "read" => Work::Read,
            "multiget" => Work::MultiGet,
            "miss" => Work::Miss,
            "overwrite" => Work::Overwrite(1),
            "raw" => Work::Raw,
            "readwhilewriting" => Work::ReadWhileWriting(None),
            _ => match with_parameter(name) {
                Some(work) => work,
                None => bail!("there is no phase {name}"),
            },
        };
        if threads == 0 || (threads > 1 && matches!(work, Work::Load | Work::Overwrite(_))) {
            bail!("{name} is not done by {threads} threads");
        }
        if zipf && matches!(work, Work::Load | Work::Miss | Work::Ycsb(_) | Work::Raw) {
            bail!("{name} has no popularity of its own");
        }
        Ok(Phase { work, zipf, threads })
    }
}

/// Returns the work of a name that ends with a parameter.
fn with_parameter(name: &str) -> Option<Work> {
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
    if let Some(name) = name.strip_prefix("ycsb-") {
        return Workload::ALL.into_iter().find(|workload| workload.name() == name).map(Work::Ycsb);
    }
    if let Some(mb) = number("readwhilewriting") {
        return (mb > 0).then_some(Work::ReadWhileWriting(Some(mb)));
    }
    if let Some(laps) = number("overwrite") {
        return u8::try_from(laps).ok().filter(|laps| *laps > 1).map(Work::Overwrite);
    }
    u8::try_from(number("mixed")?).ok().filter(|gets| *gets <= 100).map(Work::Mixed)
}

impl From<Phase> for String {
    fn from(phase: Phase) -> String {
        phase.to_string()
    }
}

impl TryFrom<String> for Phase {
    type Error = Error;

    fn try_from(text: String) -> Result<Phase, Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_read_as_they_are_written() {
        for text in
            ["load", "read", "read:16", "multiget", "miss:16", "overwrite", "mixed90:16", "mixed50", "raw:16"]
                .into_iter()
                .chain([
                    "readwhilewriting",
                    "readwhilewriting20:2",
                    "overwrite2-zipf",
                    "read-zipf:16",
                    "ycsb-d:16",
                    "ycsb-e",
                ])
        {
            assert_eq!(text.parse::<Phase>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "reed",
            "read:0",
            "load:2",
            "mixed101",
            "read:x",
            "readwhilewriting0",
            "overwrite1",
            "load-zipf",
            "ycsb-g",
        ] {
            assert!(text.parse::<Phase>().is_err(), "{text}");
        }
    }
}

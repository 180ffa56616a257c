//! The phases that a store goes through.

use anyhow::{Error, bail};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The number of keys per `multiget`.
pub const MULTIGET_KEYS: usize = 32;

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
    /// Puts random keys, as many times as there are keys.
    Overwrite,
    /// Gets and puts random existing keys, with this percentage of gets.
    Mixed(u8),
    /// Gets random existing keys, while one more thread puts this many MB (10^6 bytes) of records per second, or as
    /// many as it can.
    ReadWhileWriting(Option<u32>),
    /// Reads random blocks of the store's files directly.
    Raw,
}

/// A phase: its work and its number of threads. Written as `read:16`; the default is one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Phase {
    /// The work of every thread.
    pub work: Work,
    /// The number of threads.
    pub threads: usize,
}

impl Phase {
    /// Returns whether the phase writes.
    pub fn writes(&self) -> bool {
        matches!(self.work, Work::Load | Work::Overwrite | Work::Mixed(_) | Work::ReadWhileWriting(_))
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Work::Load => formatter.write_str("load"),
            Work::Read => formatter.write_str("read"),
            Work::MultiGet => formatter.write_str("multiget"),
            Work::Miss => formatter.write_str("miss"),
            Work::Overwrite => formatter.write_str("overwrite"),
            Work::Mixed(gets) => write!(formatter, "mixed{gets}"),
            Work::ReadWhileWriting(None) => formatter.write_str("readwhilewriting"),
            Work::ReadWhileWriting(Some(mb)) => write!(formatter, "readwhilewriting{mb}"),
            Work::Raw => formatter.write_str("raw"),
        }?;
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
        let work = match name {
            "load" => Work::Load,
            "read" => Work::Read,
            "multiget" => Work::MultiGet,
            "miss" => Work::Miss,
            "overwrite" => Work::Overwrite,
            "raw" => Work::Raw,
            "readwhilewriting" => Work::ReadWhileWriting(None),
            _ => match (name.strip_prefix("mixed"), name.strip_prefix("readwhilewriting")) {
                (Some(gets), _) if gets.parse().is_ok_and(|gets: u8| gets <= 100) => {
                    Work::Mixed(gets.parse()?)
                }
                (_, Some(mb)) if mb.parse().is_ok_and(|mb: u32| mb > 0) => {
                    Work::ReadWhileWriting(Some(mb.parse()?))
                }
                _ => bail!("there is no phase {name}"),
            },
        };
        if threads == 0 || (threads > 1 && matches!(work, Work::Load | Work::Overwrite)) {
            bail!("{name} is not done by {threads} threads");
        }
        Ok(Phase { work, threads })
    }
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
                .chain(["readwhilewriting", "readwhilewriting20:2"])
        {
            assert_eq!(text.parse::<Phase>().unwrap().to_string(), text);
        }
        for text in ["", "reed", "read:0", "load:2", "mixed101", "read:x", "readwhilewriting0"] {
            assert!(text.parse::<Phase>().is_err(), "{text}");
        }
    }
}

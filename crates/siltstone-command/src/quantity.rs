//! Parses the popularity of keys.

pub use siltstone_bench::quantity::*;

use siltstone_model::{ModelError, Popularity};

/// The share of YCSB's "latest" requests that insert a new key.
const NEW_KEYS: f64 = 0.05;

/// The popularity of keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// All keys are equally popular.
    Uniform,
    /// Zipf's law with this exponent.
    Zipf(f64),
    /// The newest keys are the most popular, by Zipf's law.
    Latest(f64),
}

impl Skew {
    /// Returns the popularity for this many keys.
    pub fn popularity(self, keys: f64) -> Result<Popularity, ModelError> {
        let keys = keys.round() as u64;
        match self {
            Skew::Uniform => Popularity::uniform(keys),
            Skew::Zipf(exponent) => Popularity::zipf(keys, exponent),
            Skew::Latest(exponent) => Popularity::latest(keys, exponent, NEW_KEYS),
        }
    }
}

/// Parses the number of queues of FlashStore, 1 or 2.
pub fn parse_queues(text: &str) -> Result<u8, String> {
    match parse_whole::<u8>(text)? {
        queues @ 1..=2 => Ok(queues),
        queues => Err(format!("{queues} is not 1 or 2")),
    }
}

/// Parses `uniform`, `zipf:0.99` or `latest:0.99`.
pub fn parse_skew(text: &str) -> Result<Skew, String> {
    let (name, exponent) = text.split_once(':').unwrap_or((text, "0.99"));
    let exponent = exponent.parse::<f64>().map_err(|_| format!("{exponent} is not an exponent"));
    match name {
        "uniform" => Ok(Skew::Uniform),
        "zipf" => Ok(Skew::Zipf(exponent?)),
        "latest" => Ok(Skew::Latest(exponent?)),
        _ => Err(format!("unknown skew {name}; use uniform, zipf:0.99 or latest:0.99")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularities_are_read_by_name() {
        assert_eq!(parse_skew("zipf:0.7"), Ok(Skew::Zipf(0.7)));
        assert_eq!(parse_skew("uniform"), Ok(Skew::Uniform));
        assert!(parse_skew("zipf:x").is_err());
    }
}

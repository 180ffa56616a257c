//! The dissertation's experiments as rows of settings: one thing is varied, the rest is as the dissertation states.

use super::{Interface, Settings};
use siltstone_bench::named;
use siltstone_mica::AccessMode;

/// What an experiment varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// The number of threads: 1, 2, 4 and so on up to the settings' (Figure 5.14).
    Scaling,
    /// The skew, with the share of each thread (Figure 5.11).
    Skew,
    /// Tiny, small and large items, uniform and skewed, with half or nearly all requests gets (Figure 5.12).
    Sizes,
    /// The access mode of partitions (Figure 5.16).
    Modes,
    /// What the requests go through, uniform and skewed: handles, a database, a bare hash map. Not in the dissertation.
    Interfaces,
}

named!(Table);

/// The skew of the dissertation's workloads.
const SKEW: f64 = 0.99;
/// Lengths of keys and values in bytes, and the number of items per 24 tiny ones.
const SIZES: [(&str, usize, usize, u64); 3] =
    [("tiny", 8, 8, 24), ("small", 16, 64, 16), ("large", 128, 1_024, 1)];

impl Table {
    /// All experiments.
    pub const ALL: [Table; 5] = [Table::Scaling, Table::Skew, Table::Sizes, Table::Modes, Table::Interfaces];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Table::Scaling => "scaling",
            Table::Skew => "skew",
            Table::Sizes => "sizes",
            Table::Modes => "modes",
            Table::Interfaces => "interfaces",
        }
    }

    /// Returns the rows: a name, and the settings.
    pub fn rows(self, settings: &Settings) -> Vec<(String, Settings)> {
        let shares = [0.5, 0.95];
        let skews = [0.0, SKEW];
        let row = |name: &str, row: Settings| {
            let Settings { get, zipf, threads, .. } = row;
            let skew = if zipf == 0.0 { "uniform" } else { "skewed" };
            (format!("{name}{skew}, {:.0}% get, threads {threads}", get * 100.0), row)
        };
        let mut rows = Vec::new();
        match self {
            Table::Scaling => {
                for get in shares {
                    let mut threads = 1;
                    while threads <= settings.threads {
                        rows.push(row("", Settings { get, threads, zipf: SKEW, ..settings.clone() }));
                        threads *= 2;
                    }
                }
            }
            Table::Skew => {
                for zipf in skews {
                    rows.push(row("", Settings { get: 0.5, zipf, ..settings.clone() }));
                }
            }
            Table::Sizes => {
                for (name, key_size, value_size, share) in SIZES {
                    let items = (settings.items * share / 24).max(1);
                    for (zipf, get) in skews.into_iter().flat_map(|zipf| shares.map(|get| (zipf, get))) {
                        let sizes = Settings { items, key_size, value_size, zipf, get, ..settings.clone() };
                        rows.push(row(&format!("{name}, "), sizes));
                    }
                }
            }
            Table::Modes => {
                for (zipf, get) in skews.into_iter().flat_map(|zipf| shares.map(|get| (zipf, get))) {
                    for mode in AccessMode::ALL {
                        let name = format!("{mode:?}, ").to_uppercase();
                        rows.push(row(&name, Settings { mode, zipf, get, ..settings.clone() }));
                    }
                }
            }
            Table::Interfaces => {
                for (zipf, interface) in
                    skews.into_iter().flat_map(|zipf| Interface::ALL.map(|interface| (zipf, interface)))
                {
                    let name = format!("{}, ", interface.name());
                    rows.push(row(&name, Settings { interface, zipf, threads: 1, ..settings.clone() }));
                }
            }
        }
        rows
    }
}

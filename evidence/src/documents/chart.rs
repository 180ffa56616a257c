//! The chart of the README: gets from the drive within little memory, of Siltstone and of others. It is drawn from the
//! recorded runs of the set `limited`, whose commands are in `docs/COMPARISON.md`.

use super::{Figure, Runs};
use anyhow::{Context, Result};
use siltstone_bench::chart::{Bar, BarChart};

/// The file of the chart, in the directory of the documents.
pub const CHART: &str = "plots/peers.svg";
const SET: &str = "limited";
const BUDGETS: [&str; 3] = ["0.5", "2", "16"];
/// The names in the runs, and for readers.
const STORES: [(&str, &str); 3] =
    [("siltstone-fixed", "Siltstone"), ("rocksdb-lowram", "RocksDB"), ("fjall", "Fjall")];

/// Draws the chart as SVG.
///
/// # Errors
/// A run is missing, or the chart cannot be drawn.
pub fn chart(runs: &Runs) -> Result<String> {
    let mut bars = Vec::new();
    let mut keys = 0;
    for budget in BUDGETS {
        for (column, store) in STORES {
            let row = format!("{budget} B per key/read");
            let figure =
                Figure { set: SET.into(), keys: None, column: column.into(), row, field: "ops_per_s".into() };
            let found = runs.value(&figure);
            let (line, value) = found.with_context(|| format!("no run of {SET} has {figure:?}"))?;
            keys = line.keys;
            bars.push(Bar {
                name: format!("{budget} B: {store}"),
                value,
                text: super::shown(value),
                highlighted: column == STORES[0].0,
            });
        }
    }
    let millions = keys / 1_000_000;
    let title =
        format!("Gets per second from flash with 0.5, 2 and 16 B of RAM per key ({millions} million keys)");
    let svg = BarChart { title, bars, reference: None }.to_svg()?;
    svg.context("no store has a rate")
}

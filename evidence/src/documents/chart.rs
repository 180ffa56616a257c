//! The charts that are drawn from recorded runs.
//!
//! - That of the README: gets from the drive within little memory, of Siltstone and of others. The commands of its set,
//!   `limited`, are in `docs/COMPARISON.md`.
//! - That of `docs/PERFORMANCE.md`: memory and puts per second of the engines by the number of keys, set `growth`.

use super::{Figure, Runs};
use anyhow::{Context, Result};
use siltstone_bench::chart::{Axis, Bar, BarChart, Chart, Series, Style, to_svg};

const SET: &str = "limited";
const BUDGETS: [&str; 3] = ["0.5", "2", "16"];
/// The names in the runs, and for readers.
const STORES: [(&str, &str); 3] =
    [("siltstone-fixed", "Siltstone"), ("rocksdb-lowram", "RocksDB"), ("fjall", "Fjall")];

const GROWTH: &str = "growth";
const ENGINES: [&str; 3] = ["silt", "bloomstore", "flashkey"];

/// Returns the charts as SVG, with the names of their files in the directory of the documents.
///
/// # Errors
/// A run of the README's chart is missing, or a chart cannot be drawn.
pub fn charts(runs: &Runs) -> Result<[(&'static str, String); 2]> {
    Ok([("plots/peers.svg", peers(runs)?), ("plots/growth.svg", growth(runs)?)])
}

/// Returns memory per key and puts per second over the number of keys, with a line per engine.
fn growth(runs: &Runs) -> Result<String> {
    let chart = |title: &str, label: &str, field: &str, logarithmic| {
        let series = |engine: &str| {
            let figure = |keys| Figure {
                set: GROWTH.into(),
                keys: Some(keys),
                column: engine.into(),
                row: "filluniquerandom".into(),
                field: field.into(),
            };
            let point = |keys: u64| Some((keys as f64, runs.value(&figure(keys))?.1));
            let points = runs.keys_of(GROWTH).into_iter().filter_map(point).collect();
            Series { name: engine.into(), points, style: Style::Line }
        };
        Chart {
            title: title.to_owned(),
            x: Axis { label: "keys".into(), logarithmic: true },
            y: Axis { label: label.to_owned(), logarithmic },
            series: ENGINES.into_iter().map(series).collect(),
        }
    };
    let charts = [
        chart("Memory while loading, most", "bytes of memory per key", "ram_bytes_per_key_max", true),
        chart("Loading, background work included", "puts per second", "settled_ops_per_s", false),
    ];
    Ok(to_svg(&charts)?)
}

fn peers(runs: &Runs) -> Result<String> {
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

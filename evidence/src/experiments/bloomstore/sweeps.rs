//! BloomStore at several values of a setting, on the paper's traces: Figures 6 to 8, Tables II and III, and the lengths
//! of chains and filters that the paper tries.

use super::super::{Figure, OnFigure, Settings, report};
use super::driver::{Costs, Engine, partitions, send};
use crate::synthetic::Synthetic;
use crate::{Error, Result};
use siltstone::{EngineKind, RamAccount};
use siltstone_bench::chart::{Axis, Chart, Series, Style};
use siltstone_bench::place::Place;
use siltstone_model::{BloomStoreLayout, ModelError};

/// The lengths of chains: the paper's, and some around them (Figure 6).
const CHAIN_LENGTHS: [u32; 6] = [16, 32, 64, 96, 128, 192];
const CHAIN_LENGTHS_OF_PAPER: [u32; 3] = [64, 96, 128];
const FILTER_BITS: [u32; 4] = [8, 12, 16, 20];
const PREFILTER_BITS: [u32; 5] = [0, 2, 4, 6, 8];
/// Without a prefilter, with the paper's, and with it instead of most filters of chains.
const MEMORY_CASES: [(u32, u32); 3] = [(0, 8), (4, 8), (4, 1)];
/// A write buffer of the paper is a page of this many bytes, for as many records of 64 bytes (IV-B).
const PAGE_BYTES: f64 = 4096.0;
const PAGE_RECORDS: f64 = 64.0;

/// Tables II and III: KB of prefilter, buffered filters and data buffers, without and with a prefilter.
const TABLE_II: [[f64; 3]; 2] = [[0.0, 1302.0, 1648.0], [495.0, 807.0, 1648.0]];
const TABLE_III: [[f64; 3]; 2] = [[0.0, 3066.0, 3840.0], [2880.0, 186.0, 3840.0]];

const MEMORY: &str = "memory, B per key";
const READS: &str = "reads per lookup";
const LOOKUPS: &str = "lookups per second";

/// What is reported of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    /// The memory, with the model's.
    Memory,
    /// The memory by items.
    Items,
    /// Lookups per second and reads.
    Lookups,
}

/// The engine with some values of its settings.
struct Case {
    values: Vec<(&'static str, u32)>,
    /// The paper's memory: in total or by items, in bytes per key.
    paper: Vec<f64>,
}

impl Case {
    /// Returns the values as text: the first setting, then the others.
    fn name(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|(name, value)| format!("{name} {value}")).collect();
        values.join(", ")
    }

    fn create(&self, settings: &Settings, place: &Place, trace: Synthetic) -> Result<Engine> {
        let values = self.values.iter().map(|(name, value)| (*name, value.to_string()));
        let named: Vec<_> = values.chain([("expected_keys", settings.num.to_string())]).collect();
        Engine::create(settings, place, trace, EngineKind::BloomStore, &named)
    }

    /// Returns the memory by the model, in bytes per key.
    fn model(&self, settings: &Settings, trace: Synthetic) -> Result<f64> {
        let (key_bytes, value_bytes) = trace.lengths();
        let keys = settings.num as f64;
        let own = BloomStoreLayout::new(f64::from(key_bytes), f64::from(value_bytes));
        let mut layout = BloomStoreLayout { expected_keys: keys, ..own };
        layout.records.partitions = partitions(settings.num).into();
        for &(name, value) in &self.values {
            let place = match name {
                "chain_length" => &mut layout.chain_length,
                "filter_bits" => &mut layout.filter_bits,
                "prefilter_bits" => &mut layout.prefilter_bits,
                _ => &mut layout.buffered_filters,
            };
            *place = value.into();
        }
        let model = |error: ModelError| Error::settings(error.to_string());
        Ok(layout.grown(keys).map_err(model)?.ram.total() / keys)
    }
}

/// Figure 6: the memory by the length of chains.
pub(in super::super) fn ram(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    let of_length = |length: u32| Case {
        values: vec![("chain_length", length)],
        paper: vec![PAGE_BYTES / (PAGE_RECORDS * f64::from(length))],
    };
    let cases: Vec<Case> = CHAIN_LENGTHS.map(of_length).into();
    run(settings, place, &[Synthetic::Linux], |_| &cases, Report::Memory, on_figure)
}

/// The lengths of chains by the bits of filters.
pub(in super::super) fn chains(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    let mut cases = Vec::new();
    for length in CHAIN_LENGTHS_OF_PAPER {
        cases.extend(FILTER_BITS.map(|bits| Case {
            values: vec![("filter_bits", bits), ("chain_length", length)],
            paper: Vec::new(),
        }));
    }
    run(settings, place, &[Synthetic::Linux], |_| &cases, Report::Lookups, on_figure)
}

/// Tables II and III: the memory by items.
pub(in super::super) fn memory(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    let cases = |table: [[f64; 3]; 2], trace: Synthetic| {
        let keys = trace.keys(1.0) as f64;
        MEMORY_CASES.map(|(prefilter_bits, buffered_filters)| Case {
            values: vec![("prefilter_bits", prefilter_bits), ("buffered_filters", buffered_filters)],
            paper: table[usize::from(prefilter_bits > 0)].map(|kilobytes| kilobytes * 1024.0 / keys).to_vec(),
        })
    };
    let (linux, vx) = (cases(TABLE_II, Synthetic::Linux), cases(TABLE_III, Synthetic::Vx));
    let of_trace = |trace| if trace == Synthetic::Vx { &vx[..] } else { &linux };
    run(settings, place, &[Synthetic::Linux, Synthetic::Vx], of_trace, Report::Items, on_figure)
}

/// Figures 7 and 8: lookups by the bits of the prefilter.
pub(in super::super) fn prefilter(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    let of_bits = |bits| Case { values: vec![("prefilter_bits", bits)], paper: Vec::new() };
    let cases: Vec<Case> = PREFILTER_BITS.map(of_bits).into();
    let traces = [Synthetic::Linux, Synthetic::Vx];
    run(settings, place, &traces, |_| &cases, Report::Lookups, on_figure)
}

fn run<'c>(
    settings: &Settings,
    place: &Place,
    traces: &[Synthetic],
    cases: impl Fn(Synthetic) -> &'c [Case],
    what: Report,
    on_figure: OnFigure<'_>,
) -> Result<()> {
    for &trace in settings.traces(traces) {
        for case in cases(trace) {
            let mut engine = case.create(settings, place, trace)?;
            let costs = send(settings, trace, &mut engine)?;
            let ram = engine.ram();
            drop(engine);
            place.clear()?;
            let mut print = |measure: &str, paper, theory, measured| {
                let what = format!("{}: {measure}", case.name());
                report(on_figure, &Figure { source: trace.name(), what, paper, theory, measured })
            };
            let keys = costs.inserts.max(1) as f64;
            match what {
                Report::Memory => {
                    let model = case.model(settings, trace)?;
                    print(MEMORY, case.paper.first().copied(), Some(model), indexes_of(&ram, &[]) / keys)?;
                }
                Report::Items => {
                    for (place, (measure, items)) in ITEMS.iter().enumerate() {
                        print(measure, case.paper.get(place).copied(), None, indexes_of(&ram, items) / keys)?;
                    }
                    print(MEMORY, Some(case.paper.iter().sum()), Some(case.model(settings, trace)?), {
                        indexes_of(&ram, &[]) / keys
                    })?;
                }
                Report::Lookups => print_lookups(&costs, &mut print)?,
            }
        }
    }
    Ok(())
}

type Print<'a> = &'a mut dyn FnMut(&str, Option<f64>, Option<f64>, f64) -> Result<()>;

fn print_lookups(costs: &Costs, print: Print<'_>) -> Result<()> {
    let lookups = costs.lookups.max(1) as f64;
    print(READS, None, None, costs.lookup_reads as f64 / lookups)?;
    print(LOOKUPS, None, None, lookups / costs.lookup_time.as_secs_f64().max(1e-9))?;
    print(MEMORY, None, None, costs.ram_bytes as f64 / costs.inserts.max(1) as f64)
}

/// The paper's items, and what of the engine's memory is for the same purpose.
const ITEMS: [(&str, &[&str]); 3] = [
    ("prefilter, B per key", &["prefilter"]),
    ("filters of chains, B per key", &["hash_filter", "hash_index", "sorted_index", "chain_directory"]),
    ("records that are not on flash yet, B per key", &["log_index", "frozen_log_index"]),
];
/// Buffers, whose size does not depend on the number of keys.
const BUFFERS: [&str; 6] =
    ["log_buffer", "convert_buffers", "merge_buffers", "chain_buffers", "read_buffers", "record_cache"];

/// Returns the memory of these items, or of all but buffers, in bytes.
fn indexes_of(ram: &RamAccount, items: &[&str]) -> f64 {
    let is_one = |name: &str| if items.is_empty() { !BUFFERS.contains(&name) } else { items.contains(&name) };
    ram.items().iter().filter(|(name, _)| is_one(name)).map(|(_, bytes)| bytes).sum::<u64>() as f64
}

/// Draws what is measured over the first setting: a chart of each measure, with a line for each trace and each value of
/// the other settings, and faint lines of the paper and the model.
pub fn charts(figures: &[Figure]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for figure in figures {
        let Some((case, measure)) = figure.what.split_once(": ") else { continue };
        let (first, others) = case.split_once(", ").unwrap_or((case, ""));
        let Some((setting, x)) = first.rsplit_once(' ') else { continue };
        let x: f64 = x.parse().unwrap_or_default();
        let at = match charts.iter().position(|chart| chart.y.label == measure) {
            Some(at) => at,
            None => {
                let axis = |label: &str| Axis { label: label.to_owned(), logarithmic: false };
                let title = format!("BloomStore: {measure}");
                charts.push(Chart { title, x: axis(setting), y: axis(measure), series: Vec::new() });
                charts.len() - 1
            }
        };
        let name = [figure.source, others].join(" ");
        let mut add = |name: String, style: Style, y: f64| match charts[at]
            .series
            .iter_mut()
            .find(|series| series.name == name)
        {
            Some(series) => series.points.push((x, y)),
            None => charts[at].series.push(Series { name, points: vec![(x, y)], style }),
        };
        add(name.trim().to_owned(), Style::Line, figure.measured);
        for (of, value) in [("paper", figure.paper), ("model", figure.theory)] {
            if let Some(value) = value {
                add(format!("{}, {of}", name.trim()), Style::FaintLine, value);
            }
        }
    }
    charts
}

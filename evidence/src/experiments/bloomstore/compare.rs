//! Lookups per second by memory per key, of BloomStore and the stores with which its paper compares it (IV-D, Figures 9
//! and 10), on the paper's traces.

use super::super::{Figure, OnFigure, Settings, report};
use super::driver::{Costs, Engine, send};
use crate::stores::{
    BufferHash, BufferHashSettings, Eviction, Lengths, Peer, SkimpyStash, SkimpyStashSettings,
};
use crate::synthetic::Synthetic;
use crate::{Error, Result};
use siltstone::EngineKind;
use siltstone_bench::chart::{Axis, Chart, Series, Style};
use siltstone_bench::place::Place;
use siltstone_device::Directory;

/// The average records of SkimpyStash's buckets: 2.8 to 1.2 bytes per key.
const BUCKET_RECORDS: [f64; 6] = [2.2, 3.3, 5.0, 7.5, 10.0, 20.0];
/// SkimpyStash with compaction appends a bucket's list again after as many insertions.
const COMPACT_RECORDS: u32 = 5;
/// BufferHash's tables and bits of filters: 10 to 1.5 bytes per key.
const TABLES: [(u32, u32); 4] = [(16, 16), (64, 12), (128, 8), (256, 8)];
/// A table of BufferHash has about as many keys.
const TABLE_PAGES_MAX: u32 = 16;
/// BufferHash gets space for more keys than there are, because partitions do not have equally many.
const SPARE: f64 = 1.1;
/// Numbers of BloomStore's filters per chain that stay in memory.
const BUFFERED_FILTERS: [u32; 5] = [2, 4, 8, 24, 64];
/// Bits of BloomStore's prefilter; the rest of the settings is the engine's default.
const PREFILTER_BITS: [u32; 2] = [4, 8];

/// The paper's lookups per second of BloomStore by bytes per key (IV-D), trace `linux`, SSD at PCIe.
const PAPER: [(f64, f64); 2] = [(0.72, 78_879.0), (1.44, 101_779.0)];
/// The paper's factor by which SkimpyStash is slower at 1.2 than at 1.8 bytes per key, trace `linux`.
const PAPER_SKIMPYSTASH: f64 = 2.9;

const MEMORY: &str = "memory, B per key";
const LOOKUPS: &str = "lookups per second";
const READS: &str = "reads per lookup";

/// Creates a store for a trace.
type Open = dyn Fn(&Settings, &Place, Synthetic) -> Result<Box<dyn Peer>>;

/// A store with its settings.
struct Case {
    system: &'static str,
    settings: String,
    open: Box<Open>,
}

/// Measures each system at each of its points.
pub(in super::super) fn run(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    for &trace in settings.traces(&[Synthetic::Linux, Synthetic::Vx]) {
        let mut of_lists = Vec::new();
        for case in cases(settings)? {
            let mut peer = (case.open)(settings, place, trace)?;
            let costs = send(settings, trace, &mut *peer)?;
            drop(peer);
            place.clear()?;
            if case.system == "skimpystash" {
                of_lists.push(costs);
            }
            print(trace, &case, &costs, on_figure)?;
        }
        if let Some([at_1_8, .., at_1_2]) = of_lists.get(2..) {
            let paper = (trace == Synthetic::Linux).then_some(PAPER_SKIMPYSTASH);
            let measured = lookups_per_s(at_1_8) / lookups_per_s(at_1_2);
            let what = "skimpystash: lookups per second at 1.8 B per key by those at 1.2".to_owned();
            report(on_figure, &Figure { source: trace.name(), what, paper, theory: None, measured })?;
        }
    }
    Ok(())
}

fn cases(settings: &Settings) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for system in &settings.systems {
        match system.as_str() {
            "skimpystash" => {
                all.extend(BUCKET_RECORDS.map(|records| skimpystash("skimpystash", records, None)));
            }
            "skimpystash_compacted" => all.extend(
                BUCKET_RECORDS
                    .map(|records| skimpystash("skimpystash_compacted", records, Some(COMPACT_RECORDS))),
            ),
            "bufferhash" => all.extend(TABLES.map(|(tables, bits)| bufferhash(tables, bits))),
            "bloomstore" => {
                let kind = engine("bloomstore")?;
                all.extend(BUFFERED_FILTERS.map(|filters| database(kind, "buffered_filters", filters)));
                all.extend(PREFILTER_BITS.map(|bits| database(kind, "prefilter_bits", bits)));
            }
            other => {
                let kind = engine(other)?;
                all.push(Case {
                    system: kind.name(),
                    settings: "default".to_owned(),
                    open: Box::new(move |settings, place, trace| {
                        Ok(Box::new(Engine::create(settings, place, trace, kind, &[])?))
                    }),
                });
            }
        }
    }
    Ok(all)
}

fn engine(name: &str) -> Result<EngineKind> {
    let found = EngineKind::ALL.iter().copied().find(|kind| kind.name() == name);
    found.ok_or_else(|| Error::settings(format!("there is no system {name}")))
}

fn lengths(trace: Synthetic) -> Lengths {
    let (key, value) = trace.lengths();
    Lengths { key: key.into(), value: value as usize }
}

fn directory(settings: &Settings, place: &Place) -> Result<Directory> {
    Ok(Directory::create_system(place.directory(), settings.access)?)
}

fn skimpystash(system: &'static str, bucket_records: f64, compact_records: Option<u32>) -> Case {
    let open = move |settings: &Settings, place: &Place, trace: Synthetic| {
        let skimpystash = SkimpyStashSettings {
            lengths: lengths(trace),
            expected_keys: settings.num,
            bucket_records,
            filter_bits: 8.0,
            compact_records,
        };
        let peer = SkimpyStash::create(directory(settings, place)?, skimpystash)?;
        Ok(Box::new(peer) as Box<dyn Peer>)
    };
    Case { system, settings: format!("{bucket_records} records per bucket"), open: Box::new(open) }
}

fn bufferhash(tables: u32, filter_bits: u32) -> Case {
    let open = move |settings: &Settings, place: &Place, trace: Synthetic| {
        let expected_keys = (settings.num as f64 * SPARE) as u64;
        // A page has half as many keys as slots. Few keys have small tables, so that there are some partitions.
        let page_keys = 31;
        let pages = expected_keys / (u64::from(tables) * page_keys * 8);
        let bufferhash = BufferHashSettings {
            lengths: lengths(trace),
            expected_keys,
            table_pages: (pages as u32).clamp(1, TABLE_PAGES_MAX),
            tables,
            filter_bits,
            eviction: Eviction::Fifo,
        };
        let peer = BufferHash::create(directory(settings, place)?, bufferhash)?;
        Ok(Box::new(peer) as Box<dyn Peer>)
    };
    let settings = format!("{tables} tables, filters of {filter_bits} bits");
    Case { system: "bufferhash", settings, open: Box::new(open) }
}

fn database(kind: EngineKind, name: &'static str, value: u32) -> Case {
    let open = move |settings: &Settings, place: &Place, trace: Synthetic| {
        let named = [(name, value.to_string()), ("expected_keys", settings.num.to_string())];
        Ok(Box::new(Engine::create(settings, place, trace, kind, &named)?) as Box<dyn Peer>)
    };
    Case { system: kind.name(), settings: format!("{name} {value}"), open: Box::new(open) }
}

fn lookups_per_s(costs: &Costs) -> f64 {
    costs.lookups as f64 / costs.lookup_time.as_secs_f64().max(1e-9)
}

fn print(trace: Synthetic, case: &Case, costs: &Costs, on_figure: OnFigure<'_>) -> Result<()> {
    let keys = costs.inserts.max(1) as f64;
    let memory = costs.ram_bytes as f64 / keys;
    let mut figure = |what: &str, paper, measured| {
        let what = format!("{}, {}: {what}", case.system, case.settings);
        report(on_figure, &Figure { source: trace.name(), what, paper, theory: None, measured })
    };
    figure(MEMORY, None, memory)?;
    let is_ours = case.system == "bloomstore" && trace == Synthetic::Linux;
    // The paper's point of at most as much memory.
    let paper = PAPER.iter().rev().find(|(bytes, _)| is_ours && *bytes <= memory).map(|(_, rate)| *rate);
    figure(LOOKUPS, paper, lookups_per_s(costs))?;
    figure(READS, None, costs.lookup_reads as f64 / costs.lookups.max(1) as f64)?;
    figure("inserts per second", None, keys / costs.insert_time.as_secs_f64().max(1e-9))?;
    let bytes_per_key = trace.lengths().0 as f64 + trace.lengths().1 as f64;
    figure("bytes written per byte inserted", None, costs.written_bytes as f64 / keys / bytes_per_key)?;
    let lost = (costs.lookups - costs.inserts).saturating_sub(costs.found);
    if lost > 0 {
        figure("share of the repeated chunks that are lost", None, lost as f64 / costs.lookups as f64)?;
    }
    Ok(())
}

/// Draws the lookups per second, and the reads per lookup, over the memory per key: a chart of each for each trace.
pub fn charts(figures: &[Figure]) -> Vec<Chart> {
    let mut traces: Vec<&str> = Vec::new();
    for figure in figures {
        if !traces.contains(&figure.source) {
            traces.push(figure.source);
        }
    }
    let of_trace = |trace: &&str| {
        [LOOKUPS, READS].map(|what| Chart {
            title: format!("{trace}: {what}"),
            x: Axis { label: MEMORY.to_owned(), logarithmic: true },
            y: Axis { label: what.to_owned(), logarithmic: what == LOOKUPS },
            series: series(figures, trace, what),
        })
    };
    traces.iter().flat_map(of_trace).collect()
}

/// Returns a series for each system, and the paper's points.
fn series(figures: &[Figure], trace: &str, what: &str) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let mut memory = 0.0;
    for figure in figures.iter().filter(|figure| figure.source == trace) {
        let Some((case, measure)) = figure.what.split_once(": ") else { continue };
        let (system, _) = case.split_once(", ").unwrap_or((case, ""));
        if measure == MEMORY {
            memory = figure.measured;
        } else if measure == what {
            let point = (memory, figure.measured);
            match all.iter_mut().find(|series| series.name == system) {
                Some(series) => series.points.push(point),
                None => {
                    all.push(Series { name: system.to_owned(), points: vec![point], style: Style::Line });
                }
            }
        }
    }
    all.iter_mut().for_each(|series| series.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    if trace == Synthetic::Linux.name() && what == LOOKUPS {
        let points = PAPER.to_vec();
        all.push(Series { name: "bloomstore, paper".to_owned(), points, style: Style::FaintLine });
    }
    all
}

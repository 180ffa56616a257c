//! The traces of the paper with all records on flash (Table 3, Figure 5, 5.9), in FlashKey with as many bits of hashes
//! and unconfirmed overwrites as FlashStore has, and in SILT; and with less flash than records over a disk (Figure 7).
//!
//! The model of a rate is that of raw random reads of the same files in the same minute, divided by the reads per
//! operation.

use super::{FRAME_BYTES, KEYS_MIN, SHARES, disk, segment_bytes};
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{MB_PER_S, MEMORY, OPERATIONS, OPERATIONS_SETTLED, WRITE_AMPLIFICATION};
use crate::point::{Pass, Points, Reading, Settled};
use crate::quantity::{OperationsPerSecond, PerGet, Quantity, Quoted, Times};
use crate::registry::Experiment;
use crate::synthetic::Synthetic;
use crate::{Error, Result};
use siltstone::{EngineKind, FlashStoreSettings};
use siltstone_bench::device;
use siltstone_bench::place::Place;
use siltstone_bench::trace::replay;
use std::time::Duration;

const TABLE_3: &str = "flashstore/table-3";
const FIGURE_5: &str = "flashstore/figure-5";
const FIGURE_7: &str = "flashstore/figure-7";
const SECTION_5_9: &str = "flashstore/section-5.9";

/// The keys of a trace at scale 1: with all records on flash, and with less flash.
const KEYS: u64 = 60_000;
const KEYS_OVER_DISK: u64 = 20_000;
/// The bytes of a chunk of the trace `dedup`.
const CHUNK_BYTES: f64 = 4096.0;
/// How long the raw reads are measured.
const RAW_TIME: Duration = Duration::from_secs(1);
/// The share of keys that may have an unconfirmed overwrite in FlashStore.
const UNCONFIRMED_MAX: f64 = 0.25;
/// Threads that send the operations of a trace, or read the drive, to measure rates.
const THREADS: usize = 16;
/// The unit of direct reads, in bytes.
const SECTOR_BYTES: f64 = 512.0;

const GETS_PER_SET: Quantity<Times> = Quantity::equal("gets per set");
const READS_PER_HIT: Quantity<PerGet> = Quantity::lower("reads of a key that exists");

/// The traces with all records on flash.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashstore-traces", cost_s: 60, direct: false, counts: true, rates: true, run };

/// The traces with less flash over a disk.
pub static SHARES_EXPERIMENT: Experiment = Experiment {
    name: "flashstore-shares",
    cost_s: 120,
    direct: false,
    counts: true,
    rates: true,
    run: run_shares,
};

/// A trace, and what the paper has of it with all records on flash.
struct OfPaper {
    trace: Synthetic,
    rate: Quoted<OperationsPerSecond>,
    gets_per_set: Quoted<Times>,
}

const TRACES: [OfPaper; 2] = [
    OfPaper { trace: Synthetic::Xbox, rate: Quoted::text(42_527.0), gets_per_set: Quoted::text(7.5) },
    OfPaper { trace: Synthetic::Dedup, rate: Quoted::text(57_271.0), gets_per_set: Quoted::text(2.2) },
];

/// A database to which a trace is sent.
struct System<'a> {
    series: String,
    place: &'a Place,
    engine: EngineKind,
    preset: Preset,
    settings: Vec<(&'static str, String)>,
}

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for OfPaper { trace, rate, gets_per_set } in TRACES {
        let keys = conditions.number(KEYS);
        let own = [
            ("hash_bits", FlashStoreSettings::default().hash_bits.to_string()),
            ("unconfirmed_max", UNCONFIRMED_MAX.to_string()),
            ("segment_bytes", segment_bytes(data_bytes(trace, keys)).to_string()),
        ];
        for (engine, settings) in [(EngineKind::FlashKey, own.to_vec()), (EngineKind::Silt, Vec::new())] {
            for preset in Preset::ALL {
                let series = format!("{}, {}, {}", trace.name(), engine.name(), preset.name());
                let place = &conditions.place;
                let system = System { series, place, engine, preset, settings: settings.clone() };
                let sent = system.send(conditions, trace, keys)?;
                if engine == EngineKind::FlashKey && preset == Preset::Default {
                    let point = GETS_PER_SET.of(trace.name()).paper(gets_per_set);
                    points.add(TABLE_3, point.is(Reading::count(sent.gets / sent.sets.max(1.0))));
                }
                // The paper's rates are of FlashStore.
                let paper = (engine == EngineKind::FlashKey).then_some(rate);
                sent.add(FIGURE_5, &system.series, 0.0, paper, points);
                if trace == Synthetic::Dedup {
                    let mb_per_s = sent.ops_per_s * sent.gets / (sent.gets + sent.sets) * CHUNK_BYTES / 1e6;
                    let paper = (engine == EngineKind::FlashKey).then_some(Quoted::text(155.0));
                    let point = MB_PER_S.of(&system.series).paper(paper).is(Reading::time(mb_per_s));
                    points.add(SECTION_5_9, point);
                }
            }
        }
    }
    Ok(())
}

/// Runs the traces with flash for a share of the records over a disk, and on SILT on the disk. The paper's curves have
/// no numbers.
fn run_shares(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let on_disk = conditions.place.directory().join(disk(conditions));
    let alone = Place::prepare(Some(&on_disk))?;
    let keys = conditions.number_from(KEYS_OVER_DISK, KEYS_MIN);
    for OfPaper { trace, .. } in TRACES {
        for share in conditions.sweep(&SHARES) {
            let flash_bytes = (share * data_bytes(trace, keys) as f64) as u64;
            let settings = [
                ("flash_bytes", flash_bytes.to_string()),
                ("segment_bytes", segment_bytes(flash_bytes).to_string()),
                ("disk", on_disk.display().to_string()),
            ];
            for preset in Preset::ALL {
                let series = format!("{}, {}", trace.name(), preset.name());
                let (engine, place, settings) =
                    (EngineKind::FlashStore, &conditions.place, settings.to_vec());
                let system = System { series, place, engine, preset, settings };
                system.send(conditions, trace, keys)?.add(FIGURE_7, &system.series, share, None, points);
                alone.clear()?;
            }
        }
        let series = format!("{}, silt on the disk", trace.name());
        let (engine, preset) = (EngineKind::Silt, Preset::Default);
        let system = System { series, place: &alone, engine, preset, settings: Vec::new() };
        system.send(conditions, trace, keys)?.add(FIGURE_7, &system.series, 1.0, None, points);
    }
    Ok(())
}

fn data_bytes(trace: Synthetic, keys: u64) -> u64 {
    let (key_bytes, value_bytes) = trace.lengths();
    keys * (u64::from(key_bytes) + u64::from(value_bytes) + FRAME_BYTES)
}

/// What a trace cost.
struct Sent {
    gets: f64,
    sets: f64,
    ops_per_s: f64,
    settled_ops_per_s: f64,
    /// What raw reads of the same files would allow.
    raw_ops_per_s: Option<f64>,
    reads_per_hit: f64,
    writes: Option<f64>,
    settled: Settled,
    keys: u64,
}

impl Sent {
    fn add(
        &self,
        item: &'static str,
        series: &str,
        x: f64,
        paper: Option<Quoted<OperationsPerSecond>>,
        points: &mut Points,
    ) {
        let mut add = |point| points.add(item, point);
        let rate = OPERATIONS.at(series, x).paper(paper).model(self.raw_ops_per_s);
        add(rate.is(Reading::time(self.ops_per_s)));
        add(OPERATIONS_SETTLED.at(series, x).is(Reading::time(self.settled_ops_per_s)));
        add(READS_PER_HIT.at(series, x).is(Reading::count(self.reads_per_hit)));
        if let Some(writes) = self.writes {
            add(WRITE_AMPLIFICATION.at(series, x).is(Reading::count(writes)));
        }
        add(MEMORY.at(series, x).is(self.settled.memory_per_key(self.keys)));
    }
}

impl System<'_> {
    /// Sends a trace to the database, measures raw reads of its files, and removes it.
    fn send(&self, conditions: &Conditions, trace: Synthetic, keys: u64) -> Result<Sent> {
        conditions.check()?;
        let settings = replay::Settings {
            name: trace.name().to_owned(),
            threads: if conditions.pass == Pass::Rates { THREADS } else { 1 },
            fixed: true,
            tuning: conditions.tuning(self.engine, self.preset, &self.settings),
            stop: conditions.stop.clone(),
            ..replay::Settings::default()
        };
        let scale = keys as f64 / trace.keys(1.0) as f64;
        let done = replay::run(&settings, self.place, trace.open(scale, conditions.seed)?)?;
        let raw = self.raw_reads(conditions, done.costs.read_bytes_per_get)?;
        self.place.clear()?;
        let of_kind =
            |kind: &str| done.rates.by_operation.get(kind).map_or(0.0, |kind| kind.operations as f64);
        let (gets, sets) = (of_kind("get"), of_kind("set"));
        let reads = done.costs.reads_per_get.unwrap_or_default() * gets;
        Ok(Sent {
            gets,
            sets,
            ops_per_s: done.rates.ops_per_s,
            settled_ops_per_s: done.rates.settled_ops_per_s.unwrap_or(done.rates.ops_per_s),
            raw_ops_per_s: raw.filter(|_| reads > 0.0).map(|raw| raw / (reads / (gets + sets))),
            reads_per_hit: reads / done.found.max(1) as f64,
            writes: done.costs.write_amplification,
            settled: Settled::of_costs(&done.costs),
            keys: done.costs.keys,
        })
    }

    /// Measures random reads of the database's files, of the length that a get read.
    fn raw_reads(&self, conditions: &Conditions, bytes_per_get: Option<f64>) -> Result<Option<f64>> {
        let sectors = (bytes_per_get.unwrap_or_default() / SECTOR_BYTES).ceil().max(1.0);
        let raw = device::Settings {
            db: self.place.directory().to_owned(),
            block_size: (sectors * SECTOR_BYTES) as usize,
            depth: 1,
            threads: THREADS,
            duration: conditions.duration(RAW_TIME),
            direct: false,
            buffered: !conditions.access.is_direct(),
            seed: conditions.seed,
            stop: conditions.stop.clone(),
        };
        match device::run(&raw) {
            Ok(report) => Ok(Some(report.ops_per_s)),
            // The files are shorter than a block.
            Err(siltstone_bench::Error::Database(siltstone::Error::Setting { .. })) => Ok(None),
            Err(error) => Err(Error::from(error)),
        }
    }
}

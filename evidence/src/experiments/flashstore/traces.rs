//! The traces of the paper with all data on flash (5.6 to 5.9), in FlashKey with as many bits of hashes and unconfirmed
//! overwrites as FlashStore has, and with less flash than data over a disk (5.10). Energy is not measured: operations
//! are divided by the processor's time and by the time in which the drive was busy, which the paper does not have. Its
//! rates are of all data on flash; those of the shares are curves without numbers.

use super::super::{Figure, OnFigure, Settings, report};
use super::{FRAME_BYTES, disk, segment_bytes};
use crate::Result;
use crate::synthetic::Synthetic;
use siltstone::{EngineKind, FlashStoreSettings};
use siltstone_bench::accounts::number_as_text;
use siltstone_bench::clock::process_time;
use siltstone_bench::device;
use siltstone_bench::place::Place;
use siltstone_bench::trace::replay;
use siltstone_bench::tuning::{SettingArgs, Tuning};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The traces of the paper.
const TRACES: [Synthetic; 2] = [Synthetic::Xbox, Synthetic::Dedup];
/// The bytes of a chunk of the trace `dedup`.
const CHUNK_BYTES: f64 = 4096.0;
/// How long the raw reads are measured.
const RAW_TIME: Duration = Duration::from_secs(2);
/// The share of keys that may have an unconfirmed overwrite in FlashStore.
const UNCONFIRMED_MAX: f64 = 0.25;
/// The unit of direct reads, in bytes.
const SECTOR_BYTES: f64 = 512.0;

/// What the paper has of a trace: operations per second on its faster machine with all data on flash, and gets per set.
struct Paper {
    ops_per_s: f64,
    gets_per_set: f64,
}

/// Returns what the paper has of a trace, if it is one of its own.
fn paper(trace: Synthetic) -> Option<Paper> {
    match trace {
        Synthetic::Xbox => Some(Paper { ops_per_s: 42_527.0, gets_per_set: 7.5 }),
        Synthetic::Dedup => Some(Paper { ops_per_s: 57_271.0, gets_per_set: 2.2 }),
        Synthetic::Linux | Synthetic::Vx => None,
    }
}

/// The paper's chunks of 4 KiB per second, in MB per second (5.9).
const PAPER_DEDUP_MB_PER_S: f64 = 155.0;

/// A database to which a trace is sent.
struct System<'a> {
    name: String,
    place: &'a Place,
    engine: EngineKind,
    settings: Vec<(String, String)>,
    /// Whether it has all records on flash, as in the paper's 5.6 to 5.9.
    is_all_on_flash: bool,
}

/// Runs the traces with all records on flash, and on SILT.
pub(in super::super) fn traces(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    for &trace in settings.traces(&TRACES) {
        let segment = segment_bytes(data_bytes(trace, settings.num));
        let own = [
            ("hash_bits", FlashStoreSettings::default().hash_bits.to_string()),
            ("unconfirmed_max", UNCONFIRMED_MAX.to_string()),
            ("segment_bytes", segment.to_string()),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value)).into();
        for (engine, own) in [(EngineKind::FlashKey, own), (EngineKind::Silt, Vec::new())] {
            let (name, is_all_on_flash) = (engine.name().to_owned(), engine == EngineKind::FlashKey);
            let system = System { name, place, engine, settings: own, is_all_on_flash };
            run(settings, trace, &system, on_figure)?;
        }
    }
    Ok(())
}

/// Runs the traces with flash for a share of the records over a disk, and on SILT on the disk.
pub(in super::super) fn shares(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    let on_disk = place.directory().join(disk(settings));
    let alone = Place::prepare(Some(&on_disk))?;
    for &trace in settings.traces(&TRACES) {
        for &share in &settings.share {
            for &queues in &settings.queues {
                let flash_bytes = (share * data_bytes(trace, settings.num) as f64) as u64;
                let own = [
                    ("flash_bytes", flash_bytes.to_string()),
                    ("segment_bytes", segment_bytes(flash_bytes).to_string()),
                    ("queues", queues.to_string()),
                    ("disk", on_disk.display().to_string()),
                ];
                let own = own.map(|(name, value)| (name.to_owned(), value)).into();
                let name = format!("flash {} %, queues {queues}", share * 100.0);
                run(
                    settings,
                    trace,
                    &System {
                        name,
                        place,
                        engine: EngineKind::FlashStore,
                        settings: own,
                        is_all_on_flash: false,
                    },
                    on_figure,
                )?;
                alone.clear()?;
            }
        }
        let name = "silt on the disk".to_owned();
        run(
            settings,
            trace,
            &System {
                name,
                place: &alone,
                engine: EngineKind::Silt,
                settings: vec![],
                is_all_on_flash: false,
            },
            on_figure,
        )?;
    }
    Ok(())
}

fn data_bytes(trace: Synthetic, keys: u64) -> u64 {
    let (key_bytes, value_bytes) = trace.lengths();
    keys * (u64::from(key_bytes) + u64::from(value_bytes) + FRAME_BYTES)
}

/// Sends a trace to a database, and reports what it cost.
fn run(settings: &Settings, trace: Synthetic, system: &System<'_>, on_figure: OnFigure<'_>) -> Result<()> {
    if settings.stop.load(Relaxed) {
        return Ok(());
    }
    let mut named = system.settings.clone();
    if system.engine != EngineKind::Silt {
        named.extend(settings.more.settings.iter().cloned());
    }
    let replayed = replay::Settings {
        name: trace.name().to_owned(),
        threads: settings.threads,
        fixed: true,
        tuning: Tuning {
            engine: system.engine,
            settings: SettingArgs { settings: named },
            access: settings.access,
            ..Tuning::default()
        },
        stop: settings.stop.clone(),
        ..replay::Settings::default()
    };
    let scale = settings.num as f64 / trace.keys(1.0) as f64;
    let operations = trace.open(scale, settings.seed)?;
    let (cpu, busy) = (process_time(), busy_s(system.place.directory()));
    let done = replay::run(&replayed, system.place, operations)?;
    let cpu_s = (process_time() - cpu).as_secs_f64();
    let busy_s = busy_s(system.place.directory()).zip(busy).map(|(end, begin)| end - begin);
    let raw = raw_reads(settings, system, done.costs.read_bytes_per_get)?;
    system.place.clear()?;

    let of_kind = |kind: &str| done.rates.by_operation.get(kind).map_or(0.0, |kind| kind.operations as f64);
    let (gets, sets) = (of_kind("get"), of_kind("set"));
    let (all, found) = (gets + sets, done.found.max(1) as f64);
    let reads = done.costs.reads_per_get.unwrap_or_default() * gets;
    let paper = paper(trace);
    let mut figure = |what: &str, paper: Option<f64>, theory: Option<f64>, measured: f64| {
        let what = format!("{}: {what}", system.name);
        report(on_figure, &Figure { source: trace.name(), what, paper, theory, measured })
    };
    let of_paper = |value: fn(&Paper) -> f64| paper.as_ref().filter(|_| system.is_all_on_flash).map(value);
    figure(
        "gets per set (Table 3)",
        paper.as_ref().map(|paper| paper.gets_per_set),
        None,
        gets / sets.max(1.0),
    )?;
    figure(
        &format!(
            "operations per second; the drive's {} per read of it",
            number_as_text(raw.unwrap_or_default().round())
        ),
        of_paper(|paper| paper.ops_per_s),
        raw.filter(|_| reads > 0.0).map(|raw| raw / (reads / all)),
        done.rates.ops_per_s,
    )?;
    let settled = done.rates.settled_ops_per_s.unwrap_or_default();
    figure("operations per second, settled", None, None, settled)?;
    figure("operations per second of CPU time", None, None, all / cpu_s)?;
    if let Some(busy_s) = busy_s.filter(|busy_s| *busy_s > 0.0) {
        figure("operations per second of a busy drive", None, None, all / busy_s)?;
    }
    figure("reads of the drive of the database per get that found its key", None, None, reads / found)?;
    figure("memory, B per key", None, None, done.costs.ram_bytes_per_key)?;
    if let Some(written) = done.costs.write_amplification {
        figure("bytes written per byte put", None, None, written)?;
    }
    if trace == Synthetic::Dedup {
        let mb_per_s = done.rates.ops_per_s * gets / all * CHUNK_BYTES / 1e6;
        figure("MB of chunks per second (5.9)", of_paper(|_| PAPER_DEDUP_MB_PER_S), None, mb_per_s)?;
    }
    Ok(())
}

/// Measures random reads of the database's files, of the length that a get read.
fn raw_reads(settings: &Settings, system: &System<'_>, bytes_per_get: Option<f64>) -> Result<Option<f64>> {
    let sectors = (bytes_per_get.unwrap_or_default() / SECTOR_BYTES).ceil().max(1.0);
    let raw = device::Settings {
        db: system.place.directory().to_owned(),
        block_size: (sectors * SECTOR_BYTES) as usize,
        depth: 1,
        threads: settings.threads,
        duration: RAW_TIME,
        direct: false,
        buffered: !settings.access.is_direct(),
        seed: settings.seed,
        stop: settings.stop.clone(),
    };
    match device::run(&raw) {
        Ok(report) => Ok(Some(report.ops_per_s)),
        // The files are shorter than a block.
        Err(siltstone_bench::Error::Database(siltstone::Error::Setting { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the time in which the drive of a directory was busy, in seconds, if the system counts it.
fn busy_s(directory: &Path) -> Option<f64> {
    let device = directory.ancestors().find_map(|path| path.metadata().ok())?.dev();
    let major = (device >> 32 & 0xffff_f000) | (device >> 8 & 0xfff);
    let minor = (device >> 12 & 0xffff_ff00) | (device & 0xff);
    let counts = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let busy_ms: f64 = counts.split_whitespace().nth(9)?.parse().ok()?;
    Some(busy_ms / 1e3)
}

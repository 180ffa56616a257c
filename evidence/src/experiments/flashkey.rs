//! FlashKey's workloads: those of db_bench, and those of YCSB.

use super::{Figure, OnFigure, Settings, report};
use crate::{Error, Result};
use siltstone::EngineKind;
use siltstone_bench::db::{self, Benchmark};
use siltstone_bench::place::Place;
use siltstone_bench::tuning::{SettingArgs, Tuning};
use siltstone_bench::ycsb::{self, Workload};
use std::sync::atomic::Ordering::Relaxed;

/// The space amplification of RocksDB in the paper, to which it aligns FlashKey's.
const SPACE: f64 = 1.7;
/// That of FlashKey under YCSB.
const SPACE_YCSB: f64 = 1.23;
const VALUE_BYTES: usize = 1024;
const VALUE_BYTES_YCSB: usize = 1000;
/// The data have at least this many segments, so that open ones are a small part of the space.
const SEGMENTS_MIN: u64 = 128;
const SEGMENT_BYTES: [u64; 2] = [4 << 10, 32 << 20];
/// The share of gets whose latency is the tail in Figure 6.
const TAIL: f64 = 0.99999;

/// The setting that moves the index to flash.
const INDEX_IN_MEMORY: &str = "index_in_memory";

/// A workload of Table II.
struct PaperWorkload {
    source: &'static str,
    benchmarks: &'static [Benchmark],
    threads: usize,
    /// The figures of Table VI with the hash table in memory, and with it on flash.
    memory: TableSix,
    flash: TableSix,
}

/// The figures of a workload in Table VI.
struct TableSix {
    mean_us: Option<f64>,
    write_amplification: Option<f64>,
    read_amplification: Option<f64>,
}

impl TableSix {
    const NONE: TableSix = TableSix { mean_us: None, write_amplification: None, read_amplification: None };

    const fn gets(mean_us: f64, read_amplification: f64) -> TableSix {
        TableSix { mean_us: Some(mean_us), read_amplification: Some(read_amplification), ..TableSix::NONE }
    }

    const fn puts(mean_us: f64, write_amplification: f64) -> TableSix {
        TableSix { mean_us: Some(mean_us), write_amplification: Some(write_amplification), ..TableSix::NONE }
    }

    const fn both(mean_us: f64, write_amplification: f64, read_amplification: f64) -> TableSix {
        TableSix {
            mean_us: Some(mean_us),
            write_amplification: Some(write_amplification),
            read_amplification: Some(read_amplification),
        }
    }
}

/// Each overwrites or reads as many records as there are keys; the paper's third one overwrites twice as many.
const WORKLOADS: [PaperWorkload; 5] = [
    PaperWorkload {
        source: "W1, fillseq",
        benchmarks: &[Benchmark::FillSeq],
        threads: 1,
        memory: TableSix::NONE,
        flash: TableSix::NONE,
    },
    PaperWorkload {
        source: "W2, read",
        benchmarks: &[Benchmark::ReadRandom],
        threads: 1,
        memory: TableSix::gets(90.0, 2.7),
        flash: TableSix::gets(133.0, 4.6),
    },
    PaperWorkload {
        source: "W3, overwrite",
        benchmarks: &[Benchmark::Overwrite, Benchmark::Overwrite],
        threads: 1,
        memory: TableSix::puts(183.0, 1.5),
        flash: TableSix::puts(250.0, 3.8),
    },
    PaperWorkload {
        source: "W4, 1:1",
        benchmarks: &[Benchmark::ReadWhileWriting],
        threads: 1,
        memory: TableSix::NONE,
        flash: TableSix::NONE,
    },
    PaperWorkload {
        source: "W5, 3:1",
        benchmarks: &[Benchmark::ReadWhileWriting],
        threads: 3,
        memory: TableSix::both(537.0, 1.3, 4.0),
        flash: TableSix::both(597.0, 4.9, 3.7),
    },
];

/// Returns the settings of a database of `data_bytes` bytes.
pub(super) fn tuning(settings: &Settings, data_bytes: u64, engine: &[(&str, String)]) -> Tuning {
    let [least, most] = SEGMENT_BYTES;
    let segment_bytes = (data_bytes / SEGMENTS_MIN).next_power_of_two().clamp(least, most);
    let mut named = vec![("segment_bytes".to_owned(), segment_bytes.to_string())];
    named.extend(engine.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    named.extend(settings.more.settings.iter().cloned());
    Tuning {
        engine: EngineKind::FlashKey,
        settings: SettingArgs { settings: named },
        access: settings.access,
        ..Tuning::default()
    }
}

/// Returns whether a setting moves the whole index to flash.
fn index_is_on_flash(settings: &Settings) -> bool {
    let given = settings.more.settings.iter().rev().find(|(name, _)| name == INDEX_IN_MEMORY);
    given.is_some_and(|(_, share)| share.parse() == Ok(0.0))
}

fn one_space(settings: &Settings, usual: f64) -> Result<f64> {
    match settings.space[..] {
        [] => Ok(usual),
        [space] => Ok(space),
        _ => Err(Error::settings("this experiment has one space")),
    }
}

/// Runs the workloads of Table II.
pub(super) fn workloads(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    let value_size = settings.value_size.unwrap_or(VALUE_BYTES);
    let data_bytes = settings.num * (settings.key_size + value_size) as u64;
    let space = one_space(settings, SPACE)?;
    for (number, workload) in WORKLOADS.iter().enumerate() {
        if settings.stop.load(Relaxed) {
            break;
        }
        let db_settings = db::Settings {
            benchmarks: workload.benchmarks.to_vec(),
            num: settings.num,
            threads: workload.threads,
            key_size: settings.key_size,
            value_size,
            use_existing_db: number > 0,
            // Values are made with the seed as well.
            seed: settings.seed,
            duration: settings.duration,
            tuning: tuning(settings, data_bytes, &[("space", space.to_string())]),
            stop: settings.stop.clone(),
            ..db::Settings::default()
        };
        let mut reports = Vec::new();
        db::run(&db_settings, place, &mut |report| {
            // Opening an existing database has a report as well.
            if report.benchmark == workload.benchmarks[0].name() {
                reports.push(report.clone());
            }
            Ok(())
        })?;
        figures(workload, index_is_on_flash(settings), &reports, on_figure)?;
    }
    Ok(())
}

/// Reports the figures of a workload. A second run of the same benchmark is nearer to the steady state, but the paper's
/// are of both.
fn figures(
    workload: &PaperWorkload,
    on_flash: bool,
    reports: &[db::Report],
    on_figure: OnFigure<'_>,
) -> Result<()> {
    let paper = if on_flash { &workload.flash } else { &workload.memory };
    let mean =
        |of: &dyn Fn(&db::Report) -> f64| reports.iter().map(of).sum::<f64>() / reports.len().max(1) as f64;
    let mut figure = |what: &str, paper: Option<f64>, measured: f64| {
        let what = what.to_owned();
        report(on_figure, &Figure { source: workload.source, what, paper, theory: None, measured })
    };
    let gets = workload.benchmarks[0].looks_up();
    let settled = |report: &db::Report| 1e6 / report.settled_ops_per_s.unwrap_or(report.ops_per_s);
    if gets {
        figure("mean latency of a get, µs", paper.mean_us, mean(&|report| report.micros_per_op))?;
        figure("p50 of gets, µs", None, mean(&|report| report.p50_us))?;
        figure("p99.9 of gets, µs", None, mean(&|report| report.p999_us))?;
        figure("p99.999 of gets, µs", None, mean(&|report| report.latencies.quantile_us(TAIL)))?;
        figure("read amplification", paper.read_amplification, mean(&read_amplification))?;
        figure("reads per get", None, mean(&|report| report.costs.reads_per_get.unwrap_or(0.0)))?;
    } else {
        figure("mean time of a put, settled, µs", paper.mean_us, mean(&settled))?;
    }
    if reports.iter().any(|report| report.costs.write_amplification.is_some()) {
        let written = |report: &db::Report| report.costs.write_amplification.unwrap_or(0.0);
        figure("write amplification", paper.write_amplification, mean(&written))?;
        figure("space amplification, all files", None, mean(&|report| report.costs.space_amplification))?;
    }
    if let Some(last) = reports.last() {
        figure("memory, B per key", None, last.costs.ram_bytes_per_key)?;
    }
    Ok(())
}

/// Returns the bytes read by all purposes per byte that gets returned.
fn read_amplification(report: &db::Report) -> f64 {
    let of_purpose = |counts: &serde_json::Value| counts["read_bytes"].as_u64().unwrap_or(0);
    let purposes = report.costs.io.as_object();
    let bytes: u64 = purposes.map_or(0, |purposes| purposes.values().map(of_purpose).sum());
    let record_bytes = report.settings.key_size + report.settings.value_size;
    bytes as f64 / (report.operations.max(1) * record_bytes as u64) as f64
}

/// The workloads of Figure 7. E scans, so it has a database of its own, with the keys in order.
const YCSB: [(Workload, &str); 6] = [
    (Workload::A, "Figure 7, A"),
    (Workload::B, "Figure 7, B"),
    (Workload::C, "Figure 7, C"),
    (Workload::F, "Figure 7, F"),
    (Workload::D, "Figure 7, D"),
    (Workload::E, "Figure 7, E"),
];

/// Runs the workloads of YCSB, all but the last on one database.
pub(super) fn ycsb(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    for (number, (workload, source)) in YCSB.into_iter().enumerate() {
        if settings.stop.load(Relaxed) {
            break;
        }
        if workload == Workload::E {
            place.clear()?;
        }
        ycsb::run(&ycsb_settings(settings, place, number, workload)?, place, &mut |run| {
            let mut figure = |what: &str, measured| {
                let what = format!("{}{what}", if run.phase == "load" { "load: " } else { "" });
                on_figure(&Figure { source, what, paper: None, theory: None, measured })
            };
            figure(
                "operations per second, settled",
                run.rates.settled_ops_per_s.unwrap_or(run.rates.ops_per_s),
            )?;
            match run.costs.write_amplification {
                Some(written) => figure("write amplification", written),
                None => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// Returns the settings of a workload. All but the first and E continue with the database of the one before.
fn ycsb_settings(
    settings: &Settings,
    place: &Place,
    number: usize,
    workload: Workload,
) -> Result<ycsb::Settings> {
    let usual = ycsb::Settings::default();
    let value_size = settings.value_size.unwrap_or(VALUE_BYTES_YCSB);
    let field_length = (value_size / usual.field_count).max(1);
    let record_bytes = ycsb::Records::KEY_BYTES_MAX + field_length * usual.field_count;
    let scans = workload == Workload::E;
    let continues = number > 0 && !scans;
    let engine = [("space", one_space(settings, SPACE_YCSB)?.to_string()), ("ordered", scans.to_string())];
    Ok(ycsb::Settings {
        workload,
        records: settings.num,
        operations: settings.num,
        field_length,
        write_all_fields: true,
        use_existing_db: continues,
        db: continues.then(|| place.directory().to_owned()),
        seed: settings.seed + number as u64,
        duration: settings.duration,
        tuning: tuning(settings, settings.num * record_bytes as u64, &engine),
        stop: settings.stop.clone(),
        ..usual
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_on_flash_has_the_figures_of_the_table_on_flash() {
        let with = |share: &str| {
            let settings = vec![(INDEX_IN_MEMORY.to_owned(), share.to_owned())];
            index_is_on_flash(&Settings { more: SettingArgs { settings }, ..Settings::default() })
        };
        assert!(with("0") && with("0.0") && !with("0.5"));
        assert!(!index_is_on_flash(&Settings::default()));
        assert_eq!(WORKLOADS[1].flash.mean_us, Some(133.0));
    }
}

//! The workloads of Table II, which are those of db_bench, with the index in memory and on flash: Table VI.

use super::{KEY_BYTES, VALUE_BYTES, tuning};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{
    GET_TIME, MEMORY, PUT_TIME, READ_AMPLIFICATION, READS_PER_GET, SPACE_AMPLIFICATION, SPACE_MOST,
    WRITE_AMPLIFICATION,
};
use crate::point::{Points, Reading, Settled};
use crate::quantity::{BytesPerByte, Microseconds, Quoted};
use crate::registry::Experiment;
use siltstone_bench::db::{self, Benchmark, Report};

const ITEM: &str = "flashkey/table-vi";
const KEYS: u64 = 40_000;
/// With fewer reads, a writer next to the readers may not have put anything.
const KEYS_MIN: u64 = 2_000;
/// The space amplification of RocksDB in the paper, to which it aligns FlashKey's.
const SPACE: f64 = 1.7;

/// The workloads of Table II.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashkey-workloads", cost_s: 80, direct: false, counts: true, rates: true, run };

/// The values of Table VI of a workload.
#[derive(Clone, Copy)]
struct TableSix {
    time: Option<Quoted<Microseconds>>,
    writes: Option<Quoted<BytesPerByte>>,
    reads: Option<Quoted<BytesPerByte>>,
}

const NONE: TableSix = TableSix { time: None, writes: None, reads: None };

const fn gets(time: f64, reads: f64) -> TableSix {
    TableSix { time: Some(Quoted::text(time)), reads: Some(Quoted::text(reads)), ..NONE }
}

const fn puts(time: f64, writes: f64) -> TableSix {
    TableSix { time: Some(Quoted::text(time)), writes: Some(Quoted::text(writes)), ..NONE }
}

const fn both(time: f64, writes: f64, reads: f64) -> TableSix {
    TableSix { writes: Some(Quoted::text(writes)), ..gets(time, reads) }
}

/// A workload of Table II.
struct Workload {
    name: &'static str,
    /// Each overwrites or reads as many records as there are keys.
    benchmarks: &'static [Benchmark],
    threads: usize,
    /// With the hash table in memory, and with it on flash.
    memory: TableSix,
    flash: TableSix,
}

impl Workload {
    const fn new(name: &'static str, benchmarks: &'static [Benchmark]) -> Workload {
        Workload { name, benchmarks, threads: 1, memory: NONE, flash: NONE }
    }

    /// Whether readers and a writer run at their own pace.
    fn is_mixed(&self) -> bool {
        self.benchmarks[0] == Benchmark::ReadWhileWriting
    }
}

const WORKLOADS: [Workload; 5] = [
    Workload::new("W1, fill", &[Benchmark::FillSeq]),
    Workload {
        memory: gets(90.0, 2.7),
        flash: gets(133.0, 4.6),
        ..Workload::new("W2, read", &[Benchmark::ReadRandom])
    },
    Workload {
        memory: puts(183.0, 1.5),
        flash: puts(250.0, 3.8),
        ..Workload::new("W3, overwrite", &[Benchmark::Overwrite, Benchmark::Overwrite])
    },
    Workload::new("W4, 1 reader", &[Benchmark::ReadWhileWriting]),
    Workload {
        threads: 3,
        memory: both(537.0, 1.3, 4.0),
        flash: both(597.0, 4.9, 3.7),
        ..Workload::new("W5, 3 readers", &[Benchmark::ReadWhileWriting])
    },
];

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for preset in Preset::ALL {
        for on_flash in [false, true] {
            for (number, workload) in WORKLOADS.iter().enumerate() {
                conditions.check()?;
                let reports = reports(conditions, preset, on_flash, workload, number > 0)?;
                let index = if on_flash { "index on flash" } else { "index in memory" };
                let series = format!("{}, {index}, {}", workload.name, preset.name());
                add(&series, workload, on_flash, &reports, points);
            }
            conditions.place.clear()?;
        }
    }
    Ok(())
}

/// Runs the benchmarks of a workload. All but the first continue with the database of the one before.
fn reports(
    conditions: &Conditions,
    preset: Preset,
    on_flash: bool,
    workload: &Workload,
    continues: bool,
) -> Result<Vec<Report>> {
    let num = conditions.number_from(KEYS, KEYS_MIN);
    let data_bytes = num * (KEY_BYTES + VALUE_BYTES) as u64;
    let index = on_flash.then(|| ("index_in_memory", "0".to_owned()));
    let settings = db::Settings {
        benchmarks: workload.benchmarks.to_vec(),
        num,
        threads: workload.threads,
        key_size: KEY_BYTES,
        value_size: VALUE_BYTES,
        use_existing_db: continues,
        // Values are made with the seed as well.
        seed: conditions.seed,
        tuning: tuning(conditions, preset, data_bytes, SPACE, index.as_slice()),
        stop: conditions.stop.clone(),
        ..db::Settings::default()
    };
    let mut reports = Vec::new();
    db::run(&settings, &conditions.place, &mut |report| {
        // Opening an existing database has a report as well.
        if report.benchmark == workload.benchmarks[0].name() {
            reports.push(report.clone());
        }
        Ok(())
    })?;
    Ok(reports)
}

/// Adds the points of a workload. A second run of the same benchmark is nearer to the steady state, but the paper's
/// values are of both.
fn add(series: &str, workload: &Workload, on_flash: bool, reports: &[Report], points: &mut Points) {
    let paper = if on_flash { &workload.flash } else { &workload.memory };
    let mean =
        |of: &dyn Fn(&Report) -> f64| reports.iter().map(of).sum::<f64>() / reports.len().max(1) as f64;
    // The number of puts per get depends on the pace of the threads.
    let counted = if workload.is_mixed() { Reading::sample } else { Reading::count };
    if workload.benchmarks[0].looks_up() {
        let time = Reading::time(mean(&|report| report.micros_per_op));
        points.add(ITEM, GET_TIME.of(series).paper(paper.time).is(time));
        let reads = READ_AMPLIFICATION.of(series).paper(paper.reads);
        points.add(ITEM, reads.is(counted(mean(&read_amplification))));
        let reads = mean(&|report| report.costs.reads_per_get.unwrap_or(0.0));
        points.add(ITEM, READS_PER_GET.of(series).is(counted(reads)));
    } else {
        let time = mean(&|report| 1e6 / report.settled_ops_per_s.unwrap_or(report.ops_per_s));
        points.add(ITEM, PUT_TIME.of(series).paper(paper.time).is(Reading::time(time)));
    }
    if reports.iter().any(|report| report.costs.write_amplification.is_some()) {
        let writes = mean(&|report| report.costs.write_amplification.unwrap_or(0.0));
        points.add(ITEM, WRITE_AMPLIFICATION.of(series).paper(paper.writes).is(counted(writes)));
    }
    if let Some(last) = reports.last().filter(|_| !workload.is_mixed()) {
        let settled = Settled::of_costs(&last.costs);
        let data_bytes = last.costs.keys * (KEY_BYTES + VALUE_BYTES) as u64;
        if let Some(space) = settled.space_per_byte(data_bytes) {
            points.add(ITEM, SPACE_AMPLIFICATION.of(series).is(space));
        }
        if let Some(most) = last.space_amplification_max {
            points.add(ITEM, SPACE_MOST.of(series).is(Reading::count(most)));
        }
        points.add(ITEM, MEMORY.of(series).is(settled.memory_per_key(last.costs.keys)));
    }
}

/// Returns the bytes read by all purposes per byte that gets returned.
fn read_amplification(report: &Report) -> f64 {
    let of_purpose = |counts: &serde_json::Value| counts["read_bytes"].as_u64().unwrap_or(0);
    let purposes = report.costs.io.as_object();
    let bytes: u64 = purposes.map_or(0, |purposes| purposes.values().map(of_purpose).sum());
    let record_bytes = report.settings.key_size + report.settings.value_size;
    bytes as f64 / (report.operations.max(1) * record_bytes as u64) as f64
}

//! Bits per key and the time of a lookup: by records per block (Figure 3.6), by keys per bucket (Figure 3.10), by the
//! largest subtrie with a Huffman code (Figure 3.11), next to a perfect hash (Table 3.1), and of many keys (3.3.3).
//!
//! The series `paper` has the paper's coder, `default` the faster one of the engine.

use crate::Result;
use crate::conditions::Conditions;
use crate::index::{Options, Report, Sample, Settings, Structure, run as measure};
use crate::point::{Points, Reading};
use crate::quantity::{BitsPerKey, Microseconds, Quantity, Quoted};
use crate::registry::Experiment;

const KEYS: u64 = 400_000;
const KEYS_OF_SECTION: u64 = 4_000_000;
const ROUNDS: usize = 3;
const RECORDS_PER_BLOCK: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const BUCKETS: [u32; 5] = [64, 128, 256, 512, 1024];
const HUFFMAN_MAX: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const CODERS: [(Structure, &str); 2] =
    [(Structure::EntropyTriePaper, "paper"), (Structure::EntropyTrie, "default")];

const SIZE: Quantity<BitsPerKey> = Quantity::lower("memory of the index");
const LOOKUP: Quantity<Microseconds> = Quantity::lower("time of a lookup");

/// The trie by its settings.
pub static EXPERIMENT: Experiment =
    Experiment { name: "ect-index", cost_s: 120, direct: false, counts: true, rates: true, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let sample = Sample::new(conditions.number(KEYS), conditions.seed);
    let none = Options::default();
    for (structure, series) in CODERS {
        for records in conditions.sweep(&RECORDS_PER_BLOCK) {
            let options = Options { items_per_block: Some(records), ..none };
            let report = measured(conditions, structure, options, &sample)?;
            add("ect/figure-3.6", series, records, None, &report, points);
        }
        for keys in conditions.sweep(&BUCKETS) {
            let report = measured(conditions, structure, Options { bucket: Some(keys), ..none }, &sample)?;
            let paper = (keys == 256).then_some((Quoted::text(2.5), Quoted::text(7.0)));
            add("ect/figure-3.10", series, keys, paper, &report, points);
        }
        for keys in conditions.sweep(&HUFFMAN_MAX) {
            let options = Options { huffman_max: Some(keys), ..none };
            let report = measured(conditions, structure, options, &sample)?;
            add("ect/figure-3.11", series, keys, None, &report, points);
        }
    }
    table_3_1(conditions, &sample, points)?;
    section_3_3_3(conditions, points)
}

fn table_3_1(conditions: &Conditions, sample: &Sample, points: &mut Points) -> Result<()> {
    let ect = Some((Quoted::text(2.5), Quoted::text(7.0)));
    for (structure, series, paper) in [
        (Structure::EntropyTriePaper, "ECT, paper", ect),
        (Structure::EntropyTrie, "ECT, default", ect),
        (Structure::PtrHash, "a perfect hash, ptr_hash", None),
        (Structure::PtrHashCompact, "a perfect hash, ptr_hash, compact", None),
    ] {
        let report = measured(conditions, structure, Options::default(), sample)?;
        add("ect/table-3.1", series, 0, paper, &report, points);
    }
    Ok(())
}

fn section_3_3_3(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let sample = Sample::new(conditions.number(KEYS_OF_SECTION), conditions.seed);
    for (structure, series) in CODERS {
        let report = measured(conditions, structure, Options::default(), &sample)?;
        let size = Reading::count(report.bits_per_key);
        points.add("ect/section-3.3.3", SIZE.of(series).paper(Quoted::text(2.51)).is(size));
    }
    Ok(())
}

fn measured(
    conditions: &Conditions,
    structure: Structure,
    options: Options,
    sample: &Sample,
) -> Result<Report> {
    let settings =
        Settings { rounds: conditions.rounds(ROUNDS), stop: conditions.stop.clone(), ..Settings::default() };
    measure(structure, options, sample, &settings)
}

fn add(
    item: &'static str,
    series: &str,
    x: u32,
    paper: Option<(Quoted<BitsPerKey>, Quoted<Microseconds>)>,
    report: &Report,
    points: &mut Points,
) {
    let (size, time) = paper.unzip();
    points.add(item, SIZE.at(series, x.into()).paper(size).is(Reading::count(report.bits_per_key)));
    points.add(item, LOOKUP.at(series, x.into()).paper(time).is(Reading::time(report.lookup_ns / 1e3)));
}

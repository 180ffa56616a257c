//! Lookups per second by memory per key, of BloomStore and the stores with which its paper compares it (IV-B, IV-D,
//! Figures 9 and 10), on the paper's traces.

use super::driver::{Costs, Engine, send};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{GETS, MEMORY, READS_PER_GET, WRITE_AMPLIFICATION};
use crate::point::{Points, Reading};
use crate::quantity::{OperationsPerSecond, Quantity, Quoted, Share, Times};
use crate::registry::Experiment;
use crate::stores::{
    BufferHash, BufferHashSettings, Eviction, Lengths, Peer, SkimpyStash, SkimpyStashSettings,
};
use crate::synthetic::Synthetic;
use siltstone::EngineKind;
use siltstone_device::Directory;

/// The keys of the traces at scale 1: all of `linux`, and a part of the 5.6 million of `vx`.
const KEYS: [(&str, Synthetic, u64); 2] = [
    ("bloomstore/figure-9", Synthetic::Linux, 2_427_697),
    ("bloomstore/figure-10", Synthetic::Vx, 1_200_000),
];
/// From as many keys on, memory is compared: with fewer, buffers of one size are a larger part of it.
const KEYS_MIN: u64 = 2_000_000;
const LOOKUPS: u64 = 150_000;
/// The average records of SkimpyStash's buckets: 2.8, 1.8 and 1.2 bytes per key.
const BUCKET_RECORDS: [f64; 3] = [2.2, 5.0, 20.0];
/// Those of 1.8 and of 1.2 bytes per key.
const AT_1_8: f64 = 5.0;
const AT_1_2: f64 = 20.0;
/// SkimpyStash with compaction appends a bucket's list again after as many insertions.
const COMPACT_RECORDS: u32 = 5;
/// BufferHash's tables and bits of filters: 10 and some 2 bytes per key. The first are the paper's.
const TABLES: [(u32, u32); 2] = [(16, 16), (128, 8)];
/// A table of BufferHash has about as many keys.
const TABLE_PAGES_MAX: u32 = 16;
/// BufferHash gets space for more keys than there are, because partitions do not have equally many.
const SPARE: f64 = 1.1;
/// Numbers of BloomStore's filters per chain that stay in memory.
const BUFFERED_FILTERS: [u32; 2] = [8, 64];
/// Bits of BloomStore's prefilter; the rest of the settings is that of the preset.
const PREFILTER_BITS: [u32; 1] = [4];

/// The paper's lookups per second of BloomStore by bytes per key, trace `linux`, drive at PCIe. 101,779 follows from
/// "only 22.5% lower".
const PAPER: [(f64, Quoted<OperationsPerSecond>); 2] =
    [(0.72, Quoted::text(78_879.0)), (1.44, Quoted::text(101_779.0))];

const RATE_AT_MEMORY: Quantity<OperationsPerSecond> = Quantity::higher("gets with at most this memory");
const SLOWDOWN: Quantity<Times> = Quantity::equal("lookups at 1.8 B per key by those at 1.2");
const INSERTS: Quantity<Times> = Quantity::higher("inserts of bloomstore by those of skimpystash");
const LOST: Quantity<Share> = Quantity::lower("repeated chunks that are lost");

/// BloomStore and other stores.
pub static EXPERIMENT: Experiment =
    Experiment { name: "bloomstore-compare", cost_s: 440, direct: false, counts: true, rates: true, run };

const IV_B: &str = "bloomstore/section-iv-b-memory";
const IV_D: &str = "bloomstore/section-iv-d";

/// Creates a store for a trace of as many keys.
type Open = dyn Fn(&Conditions, (Synthetic, u64)) -> Result<Box<dyn Peer>>;

/// A store with its settings.
struct Case {
    series: String,
    /// What is varied.
    value: f64,
    open: Box<Open>,
}

/// What a case of a trace cost.
struct Sent {
    series: String,
    value: f64,
    costs: Costs,
}

impl Sent {
    fn memory(&self) -> Reading {
        self.costs.settled.memory_per_key(self.costs.inserts)
    }

    /// Returns whether the memory is at most this, in bytes per key.
    fn fits(&self, bytes_per_key: f64) -> bool {
        self.memory().value() <= bytes_per_key
    }

    fn lookups_per_s(&self) -> f64 {
        self.costs.lookups as f64 / self.costs.lookup_time.as_secs_f64().max(1e-9)
    }

    fn inserts_per_s(&self) -> f64 {
        self.costs.inserts as f64 / self.costs.insert_time.as_secs_f64().max(1e-9)
    }
}

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for (item, trace, keys) in KEYS {
        let keys = conditions.number(keys).min(trace.keys(1.0));
        let mut all = Vec::new();
        for case in cases() {
            let mut peer = (case.open)(conditions, (trace, keys))?;
            let costs = send(conditions, (trace, keys), conditions.number(LOOKUPS), &mut *peer)?;
            drop(peer);
            conditions.place.clear()?;
            all.push(Sent { series: case.series, value: case.value, costs });
        }
        all.iter().for_each(|sent| add(item, trace, sent, points));
        of_text(trace, &all, points);
    }
    Ok(())
}

/// Adds the points of a store at one memory, which is its place on the axis in both passes: that of the setting.
fn add(item: &'static str, trace: Synthetic, sent: &Sent, points: &mut Points) {
    let Sent { series, value, costs } = sent;
    let mut add = |point| points.add(item, point);
    add(MEMORY.at(series, *value).is(sent.memory()));
    add(GETS.at(series, *value).is(Reading::time(sent.lookups_per_s())));
    let reads = costs.lookup_reads as f64 / costs.lookups.max(1) as f64;
    add(READS_PER_GET.at(series, *value).is(Reading::count(reads)));
    let record_bytes = f64::from(trace.lengths().0) + f64::from(trace.lengths().1);
    let written = costs.written_bytes as f64 / costs.inserts.max(1) as f64 / record_bytes;
    add(WRITE_AMPLIFICATION.at(series, *value).is(Reading::count(written)));
    if costs.lost > 0 {
        add(LOST.at(series, *value).is(Reading::count(costs.lost as f64 / costs.lookups as f64)));
    }
}

/// Adds the values that the text states: memory of the other stores (IV-B), quotients and rates (IV-D).
fn of_text(trace: Synthetic, all: &[Sent], points: &mut Points) {
    let of = |series: &str, value: f64| all.iter().find(|sent| sent.series == series && sent.value == value);
    let slow = (of("skimpystash", AT_1_8), of("skimpystash", AT_1_2));
    if let (Some(at_1_8), Some(at_1_2)) = slow {
        let paper = (trace == Synthetic::Linux).then_some(Quoted::ratio(2.9));
        let quotient = Reading::time(at_1_8.lookups_per_s() / at_1_2.lookups_per_s());
        points.add(IV_D, SLOWDOWN.of(format!("{}, skimpystash", trace.name())).paper(paper).is(quotient));
    }
    if let (Some(bloomstore), Some(skimpystash)) =
        (of("bloomstore, default, buffered_filters", 8.0), of("skimpystash", AT_1_8))
    {
        // 1.5 % and 1.4 % lower.
        let paper = Quoted::ratio(if trace == Synthetic::Linux { 0.985 } else { 0.986 });
        let quotient = Reading::time(bloomstore.inserts_per_s() / skimpystash.inserts_per_s());
        points.add(IV_D, INSERTS.of(trace.name()).paper(paper).is(quotient));
    }
    if trace == Synthetic::Vx {
        return;
    }
    let (first_tables, _) = TABLES[0];
    for (series, value, paper) in
        [("bufferhash", f64::from(first_tables), Some(10.0)), ("skimpystash", AT_1_2, Some(1.2))]
    {
        if let Some(sent) = of(series, value) {
            let point = MEMORY.of(format!("{series}, {value}")).paper(paper.map(Quoted::text));
            points.add(IV_B, point.from_keys(sent.costs.inserts, KEYS_MIN).is(sent.memory()));
        }
    }
    for (memory, rate) in PAPER {
        let within = |sent: &&Sent| sent.series.starts_with("bloomstore") && sent.fits(memory);
        let best = all.iter().filter(within).map(Sent::lookups_per_s).fold(0.0, f64::max);
        if best > 0.0 {
            let point = RATE_AT_MEMORY.at("bloomstore", memory).paper(rate);
            points.add("bloomstore/figure-9", point.is(Reading::time(best)));
        }
    }
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(BUCKET_RECORDS.map(|records| skimpystash("skimpystash", records, None)));
    let compacted = |records| skimpystash("skimpystash, compacted", records, Some(COMPACT_RECORDS));
    all.extend(BUCKET_RECORDS.map(compacted));
    all.extend(TABLES.map(|(tables, bits)| bufferhash(tables, bits)));
    for preset in Preset::ALL {
        let setting = |name, value| database(EngineKind::BloomStore, preset, Some((name, value)));
        all.extend(BUFFERED_FILTERS.map(|filters| setting("buffered_filters", filters)));
        all.extend(PREFILTER_BITS.map(|bits| setting("prefilter_bits", bits)));
        all.push(database(EngineKind::Silt, preset, None));
    }
    all
}

fn lengths(trace: Synthetic) -> Lengths {
    let (key, value) = trace.lengths();
    Lengths { key: key.into(), value: value as usize }
}

fn directory(conditions: &Conditions) -> Result<Directory> {
    Ok(Directory::create_system(conditions.place.directory(), conditions.access)?)
}

fn skimpystash(series: &str, bucket_records: f64, compact_records: Option<u32>) -> Case {
    let open = move |conditions: &Conditions, (trace, keys)| {
        let settings = SkimpyStashSettings {
            lengths: lengths(trace),
            expected_keys: keys,
            bucket_records,
            filter_bits: 8.0,
            compact_records,
        };
        Ok(Box::new(SkimpyStash::create(directory(conditions)?, settings)?) as Box<dyn Peer>)
    };
    Case { series: series.to_owned(), value: bucket_records, open: Box::new(open) }
}

fn bufferhash(tables: u32, filter_bits: u32) -> Case {
    let open = move |conditions: &Conditions, (trace, keys)| {
        let expected_keys = (keys as f64 * SPARE) as u64;
        // A page has half as many keys as slots. Few keys have small tables, so that there are some partitions.
        let page_keys = 31;
        let pages = expected_keys / (u64::from(tables) * page_keys * 8);
        let settings = BufferHashSettings {
            lengths: lengths(trace),
            expected_keys,
            table_pages: (pages as u32).clamp(1, TABLE_PAGES_MAX),
            tables,
            filter_bits,
            eviction: Eviction::Fifo,
        };
        Ok(Box::new(BufferHash::create(directory(conditions)?, settings)?) as Box<dyn Peer>)
    };
    Case { series: "bufferhash".to_owned(), value: tables.into(), open: Box::new(open) }
}

fn database(kind: EngineKind, preset: Preset, setting: Option<(&'static str, u32)>) -> Case {
    let open = move |conditions: &Conditions, (trace, keys): (Synthetic, u64)| {
        let settings =
            setting.map(|(name, value)| [(name, value.to_string()), ("expected_keys", keys.to_string())]);
        let settings = settings.as_ref().map_or(&[][..], |settings| settings);
        let engine = Engine::create(conditions, preset, (trace, keys), kind, settings)?;
        Ok(Box::new(engine) as Box<dyn Peer>)
    };
    let (name, value) = setting.map_or((String::new(), 0), |(name, value)| (format!(", {name}"), value));
    let series = format!("{}, {}{name}", kind.name(), preset.name());
    Case { series, value: value.into(), open: Box::new(open) }
}

//! MICA's experiments: throughput of stores in memory without a network (Figures 5.11, 5.12, 5.14, 5.16), and over UDP
//! on one machine (Figures 5.10 and 5.13, Table 5.1).
//!
//! Rates are per second of processor time of one core, so those of a client on the same processors do not count.

use crate::Result;
use crate::conditions::Conditions;
use crate::mica::{Settings, Table, run as measure};
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerKey, Microseconds, OperationsPerSecond, Quantity, Quoted, Times};
use crate::registry::Experiment;
use crate::udp::{self, Direction};

const ITEMS: u64 = 1 << 20;
const OPERATIONS: u64 = 2 << 20;
const UDP_ITEMS: u64 = 1 << 18;
const PACKETS: u64 = 30_000;
const THREADS: usize = 2;
const SKEW: f64 = 0.99;

const PER_CORE: Quantity<OperationsPerSecond> = Quantity::higher("operations of a core");
const WALL: Quantity<OperationsPerSecond> = Quantity::higher("operations of all cores");
const MEMORY: Quantity<BytesPerKey> = Quantity::lower("memory");
const RESPONSE: Quantity<Microseconds> = Quantity::lower("mean time of a response");
const RESPONSE_P5: Quantity<Microseconds> = Quantity::lower("time of a response, 5th percentile");
const RESPONSE_P95: Quantity<Microseconds> = Quantity::lower("time of a response, 95th percentile");
const OF_UNIFORM: Quantity<Times> = Quantity::higher("skewed by uniform");
const OF_ASSISTED: Quantity<Times> = Quantity::equal("software direction by client-assisted");

/// Stores in memory.
pub static LOCAL: Experiment =
    Experiment { name: "mica-local", cost_s: 60, direct: false, counts: true, rates: true, run: local };

/// Stores over UDP.
pub static UDP: Experiment =
    Experiment { name: "mica-udp", cost_s: 50, direct: false, counts: false, rates: true, run: over_udp };

fn local(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let settings = Settings {
        items: conditions.number(ITEMS),
        operations: conditions.number(OPERATIONS),
        threads: THREADS,
        rounds: 1,
        seed: conditions.seed,
        stop: conditions.stop.clone(),
        ..Settings::default()
    };
    for (item, table) in [
        ("mica/figure-5.11", Table::Skew),
        ("mica/figure-5.12", Table::Sizes),
        ("mica/figure-5.14", Table::Scaling),
        ("mica/figure-5.16", Table::Modes),
    ] {
        let mut rates = Vec::new();
        for (series, settings) in table.rows(&settings) {
            conditions.check()?;
            let report = measure(&settings)?;
            let threads = settings.threads as f64;
            let rate = report.thread_ops_per_s.iter().sum::<f64>() / threads;
            points.add(item, PER_CORE.at(&series, threads).is(Reading::time(rate)));
            points.add(item, WALL.at(&series, threads).is(Reading::time(report.wall_ops_per_s)));
            points.add(item, MEMORY.at(&series, threads).is(Reading::count(report.ram_bytes_per_key)));
            rates.push(rate);
        }
        if let (Table::Skew, [uniform, skewed]) = (table, &rates[..]) {
            // 70.4 and 76.9 million operations per second end to end (5.4.2).
            let paper = Quoted::ratio(70.4 / 76.9);
            points.add(item, OF_UNIFORM.of("50% get").paper(paper).is(Reading::time(skewed / uniform)));
        }
    }
    Ok(())
}

fn over_udp(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let settings = udp::Settings {
        items: conditions.number(UDP_ITEMS),
        packets: conditions.number(PACKETS).max(200),
        rounds: 1,
        seed: conditions.seed,
        stop: conditions.stop.clone(),
        ..udp::Settings::default()
    };
    for zipf in [0.0, SKEW] {
        let skew = if zipf == 0.0 { "uniform" } else { "skewed" };
        for get in [0.5, 0.95] {
            for requests_per_packet in [1, 32] {
                conditions.check()?;
                let report = udp::run(&udp::Settings { zipf, get, requests_per_packet, ..settings.clone() })?;
                let series =
                    format!("{skew}, {:.0}% get, {requests_per_packet} requests per packet", get * 100.0);
                let mut add = |point| points.add("mica/figure-5.10", point);
                add(PER_CORE.of(&series).is(Reading::time(report.ops_per_s)));
                add(WALL.of(&series).is(Reading::time(report.wall_ops_per_s)));
            }
        }
        directions(conditions, &settings, (skew, zipf), points)?;
    }
    latencies(conditions, &settings, points)
}

/// Figure 5.13: uniform keys, half of the requests are gets. The number of packets in flight sets the rate, where the
/// paper's clients set it directly.
fn latencies(conditions: &Conditions, settings: &udp::Settings, points: &mut Points) -> Result<()> {
    for requests_per_packet in [1, 32] {
        for window in [1, 4, 16, 64, 256] {
            conditions.check()?;
            let report = udp::run(&udp::Settings {
                zipf: 0.0,
                get: 0.5,
                requests_per_packet,
                window,
                burst: window.min(settings.burst),
                ..settings.clone()
            })?;
            let series = format!("{requests_per_packet} requests per packet, {window} packets in flight");
            let mut add = |point| points.add("mica/figure-5.13", point);
            add(WALL.of(&series).is(Reading::time(report.wall_ops_per_s)));
            add(RESPONSE.of(&series).is(Reading::time(report.response_us)));
            add(RESPONSE_P5.of(&series).is(Reading::time(report.response_p5_us)));
            add(RESPONSE_P95.of(&series).is(Reading::time(report.response_p95_us)));
        }
    }
    Ok(())
}

/// Table 5.1: half of the requests are gets, one per packet; two cores.
fn directions(
    conditions: &Conditions,
    settings: &udp::Settings,
    (skew, zipf): (&str, f64),
    points: &mut Points,
) -> Result<()> {
    let mut rates = Vec::new();
    for direction in Direction::ALL {
        conditions.check()?;
        let settings = udp::Settings {
            zipf,
            get: 0.5,
            cores: THREADS,
            partitions: THREADS as u32,
            direction,
            ..settings.clone()
        };
        let rate = udp::run(&settings)?.ops_per_s;
        let series = format!("{skew}, {}", direction.name());
        points.add("mica/table-5.1", PER_CORE.of(series).is(Reading::time(rate)));
        rates.push(rate);
    }
    if let [assisted, software] = rates[..] {
        let paper = Quoted::ratio(if zipf == 0.0 { 33.9 / 76.9 } else { 28.1 / 70.4 });
        let point = OF_ASSISTED.of(skew).paper(paper);
        points.add("mica/table-5.1", point.is(Reading::time(software / assisted)));
    }
    Ok(())
}

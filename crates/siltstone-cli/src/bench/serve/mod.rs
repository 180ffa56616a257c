//! `siltstone bench serve`: the server next to a real Redis and a real memcached.
//!
//! Each round starts every server on an empty directory, loads it, reads it and ends it, in turn, so that all sides
//! have the same minutes of the machine. The figures are medians of the rounds; what counts is the ratio to the
//! original.
//!
//! | file | contents |
//! |---|---|
//! | `server` | the servers as processes |
//! | `load` | a load generator, for what redis-benchmark does not measure |
//! | `measures` | what is measured of a server |

mod load;
mod measures;
mod server;

use super::Session;
use crate::outcome::{Result, complain, help, wrong_usage};
use crate::quantity::parse_whole;
use clap::Args;
use serde::Serialize;
use server::Side;
use siltstone_bench::place::{Place, directory};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const EXAMPLES: &str = "
  siltstone bench serve
  siltstone bench serve --rounds 3 --keys 1e5 --json
  siltstone bench serve --rounds 1 --dictionary-keys 1e8";

/// Measure the server next to a real Redis and a real memcached
///
/// Needs redis-server and redis-benchmark (Debian's packages redis-server and redis-tools); memcached is left out where
/// it is not installed. Values have 8 bytes in memory, and 1,000 from flash, which is read without the page cache where
/// that is possible.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ServeArgs {
    /// Number of different keys
    #[arg(long, default_value = "1e6", value_parser = parse_whole::<usize>)]
    keys: usize,
    /// Requests of a measurement without pipelines; there are five times as many with them
    #[arg(long, default_value = "2e5", value_parser = parse_whole::<usize>)]
    requests: usize,
    /// Rounds, of which each figure is the median
    #[arg(long, default_value_t = 5, value_parser = parse_whole::<usize>)]
    rounds: usize,
    /// Records of the database whose server is killed and started again, once; 0 for none
    #[arg(long, default_value = "1e6", value_parser = parse_whole::<u64>)]
    restart_keys: u64,
    /// Records of the dictionary that is replaced while it is read, once; 0 for none
    #[arg(long, default_value = "1e6", value_parser = parse_whole::<u64>)]
    dictionary_keys: u64,
    /// Directory of the databases [default: a temporary directory]
    #[arg(long, value_name = "DIR", value_parser = directory())]
    db: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// A figure of each side.
#[derive(Serialize)]
struct Row {
    what: String,
    unit: &'static str,
    redis: Option<f64>,
    memcached: Option<f64>,
    mica: Option<f64>,
    silt: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    keys: usize,
    rounds: usize,
    rows: Vec<Row>,
}

/// One figure of one round.
struct Figure {
    what: String,
    unit: &'static str,
    side: Side,
    value: f64,
}

/// The figures of all rounds.
#[derive(Default)]
struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, what: String, unit: &'static str, side: Side, value: f64) {
        self.0.push(Figure { what, unit, side, value });
    }

    /// Returns a row for each kind of figure, with the medians.
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for Figure { what, unit, .. } in &self.0 {
            if rows.iter().any(|row| row.what == *what) {
                continue;
            }
            let of = |side: Side| {
                let same = self.0.iter().filter(|other| other.what == *what && other.side == side);
                let mut values: Vec<f64> = same.map(|figure| figure.value).collect();
                values.sort_by(f64::total_cmp);
                values.get(values.len() / 2).copied()
            };
            let (redis, memcached) = (of(Side::Redis), of(Side::Memcached));
            let (mica, silt) = (of(Side::Mica), of(Side::Silt));
            rows.push(Row { what: what.clone(), unit, redis, memcached, mica, silt });
        }
        rows
    }
}

/// Returns whether a program is installed.
fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

pub fn run(args: ServeArgs) -> Result {
    for program in ["redis-server", "redis-benchmark"] {
        if !is_there(program) {
            return Err(wrong_usage(format_args!(
                "{program} is not there; install redis-server and redis-tools"
            )));
        }
    }
    let has_memcached = is_there("memcached");
    if !has_memcached {
        complain(format_args!("memcached is not there, so its rows have no ratio"));
    }
    let session = Session::begin(Place::prepare(args.db.as_deref())?, args.json, "a server")?;
    let (mut figures, rounds) = (Figures::default(), args.rounds.max(1));
    for round in 0..rounds {
        for side in Side::ALL.into_iter().filter(|side| has_memcached || *side != Side::Memcached) {
            let directory = session.place.directory().join(format!("{}-{round}", side.name()));
            if side != Side::Memcached {
                for measure in [ServeArgs::measure_redis, ServeArgs::measure_memory] {
                    measure(&args, side, &directory, &mut figures)?;
                    let _ = std::fs::remove_dir_all(&directory);
                }
            }
            if side != Side::Redis {
                args.measure_memcached(side, &directory, &mut figures)?;
                let _ = std::fs::remove_dir_all(&directory);
            }
            if side == Side::Silt {
                args.measure_flash(&directory, &mut figures)?;
                let _ = std::fs::remove_dir_all(&directory);
            }
            if session.interrupt.is_raised() {
                return Ok(session.end());
            }
        }
    }
    for (keys, measure) in [
        (args.restart_keys, ServeArgs::measure_restart as fn(&_, &_, &mut _) -> _),
        (args.dictionary_keys, ServeArgs::measure_dictionary),
    ] {
        let directory = session.place.directory().join("once");
        if keys > 0 && !session.interrupt.is_raised() {
            measure(&args, &directory, &mut figures)?;
            let _ = std::fs::remove_dir_all(&directory);
        }
    }
    let report = Report { keys: args.keys, rounds, rows: figures.rows() };
    session.print(&report, || report.text())?;
    Ok(session.end())
}

impl Report {
    fn text(&self) -> String {
        let mut text =
            format!("{:<68} {:>10} {:>10} {:>18} {:>18}\n", "", "redis", "memcached", "mica", "silt");
        for Row { what, unit, redis, memcached, mica, silt } in &self.rows {
            let shown = |value: Option<f64>| {
                value.map_or_else(String::new, |value| match value {
                    value if value >= 1000.0 => format!("{value:.0}"),
                    value => format!("{value:.2}"),
                })
            };
            let beside = |value: Option<f64>| match value.zip(redis.or(*memcached)) {
                Some((value, original)) => format!("{} ({:.2})", shown(Some(value)), value / original),
                None => shown(value),
            };
            let _ = writeln!(
                text,
                "{:<68} {:>10} {:>10} {:>18} {:>18}",
                format!("{what}, {unit}"),
                shown(*redis),
                shown(*memcached),
                beside(*mica),
                beside(*silt)
            );
        }
        text
    }
}

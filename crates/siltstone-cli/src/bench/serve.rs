//! `siltstone bench serve`: the server next to a real Redis, with Redis's own load generator.
//!
//! Each round starts every server on an empty directory, loads it, reads it and ends it, in turn, so that all sides
//! have the same minutes of the machine. The figures are medians of the rounds; what counts is the ratio to Redis.

use super::Session;
use crate::outcome::{Outcome, Result, help, wrong_usage};
use crate::quantity::parse_whole;
use anyhow::{Context, anyhow};
use clap::Args;
use serde::Serialize;
use siltstone_bench::place::Place;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "
  siltstone bench serve
  siltstone bench serve --rounds 3 --keys 1e5 --json";

/// The requests of a client that are in flight at once, by row.
const PIPELINES: [usize; 2] = [1, 16];

/// The connections of the load generator.
const CONNECTIONS: usize = 50;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Measure the server next to a real Redis
///
/// Needs redis-server and redis-benchmark (Debian's packages redis-server and redis-tools). Values have 8 bytes in
/// memory, and 1,000 from flash, which is read without the page cache where that is possible.
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
    /// Directory of the databases [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// A server to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Side {
    Redis,
    Mica,
    Silt,
}

impl Side {
    const ALL: [Side; 3] = [Side::Redis, Side::Mica, Side::Silt];

    fn name(self) -> &'static str {
        match self {
            Side::Redis => "redis",
            Side::Mica => "mica",
            Side::Silt => "silt",
        }
    }
}

/// A figure of each side.
#[derive(Serialize)]
struct Row {
    what: String,
    unit: &'static str,
    redis: Option<f64>,
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

pub fn run(args: ServeArgs) -> Result {
    for program in ["redis-server", "redis-benchmark"] {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        if found.is_err() {
            return Err(wrong_usage(format_args!(
                "{program} is not there; install redis-server and redis-tools"
            )));
        }
    }
    let session = Session::begin(Place::prepare(args.db.as_deref())?, args.json, "a server")?;
    let mut figures = Vec::new();
    for round in 0..args.rounds.max(1) {
        for side in Side::ALL {
            let directory = session.place.directory().join(format!("{}-{round}", side.name()));
            args.measure(side, &directory, &mut figures)?;
            let _ = std::fs::remove_dir_all(&directory);
            if session.interrupt.is_raised() {
                return Ok(session.end());
            }
        }
    }
    let report = Report { keys: args.keys, rounds: args.rounds.max(1), rows: rows(&figures) };
    session.print(&report, || report.text())?;
    Ok(Outcome::Done)
}

impl ServeArgs {
    /// Measures a side on an empty directory.
    fn measure(&self, side: Side, directory: &Path, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
        let server = Running::start(side, directory, &[])?;
        let before = server.resident_bytes();
        for pipeline in PIPELINES {
            for (test, rate) in self.benchmark(&server, "set,get", 8, CONNECTIONS, pipeline)? {
                let what = format!("{test}, 8 B, {pipeline} at once");
                figures.push(Figure { what, unit: "per second", side, value: rate.per_second });
            }
        }
        let items = server.ask("DBSIZE")?.trim_start_matches(':').trim().parse::<f64>().unwrap_or(1.0);
        let counted = server.ask("INFO memory")?;
        let counted = counted.lines().find_map(|line| line.strip_prefix("used_memory:"));
        let counted = counted.and_then(|bytes| bytes.trim().parse::<f64>().ok()).unwrap_or(f64::NAN);
        let grown = server.resident_bytes().saturating_sub(before) as f64;
        for (what, bytes) in [("memory of an item, counted", counted), ("memory of an item, resident", grown)]
        {
            figures.push(Figure { what: what.to_owned(), unit: "bytes", side, value: bytes / items });
        }
        drop(server);
        if side == Side::Silt {
            self.measure_flash(&directory.with_extension("flash"), figures)?;
        }
        Ok(())
    }

    /// Measures gets from flash.
    fn measure_flash(&self, directory: &Path, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
        let direct = ["--access", "direct-or-buffered"];
        let server = Running::start(Side::Silt, directory, &direct)?;
        self.benchmark(&server, "set", 1000, CONNECTIONS, 16)?;
        for (connections, pipeline) in [(CONNECTIONS, 1), (CONNECTIONS, 16), (1, 1)] {
            for (test, rate) in self.benchmark(&server, "get", 1000, connections, pipeline)? {
                let what =
                    format!("{test}, 1,000 B from flash, {connections} connections, {pipeline} at once");
                let figure = |what: String, unit, value| Figure { what, unit, side: Side::Silt, value };
                figures.push(figure(what.clone(), "per second", rate.per_second));
                figures.push(figure(format!("{what}: median"), "ms", rate.median_ms));
                figures.push(figure(format!("{what}: 99th percentile"), "ms", rate.p99_ms));
            }
        }
        drop(server);
        let _ = std::fs::remove_dir_all(directory);
        Ok(())
    }

    /// Runs the load generator. Returns the tests with their rates.
    fn benchmark(
        &self,
        server: &Running,
        tests: &str,
        value_bytes: usize,
        connections: usize,
        pipeline: usize,
    ) -> anyhow::Result<Vec<(String, Rate)>> {
        let requests = if pipeline > 1 { 5 * self.requests } else { self.requests };
        // One connection has a fiftieth of the rate.
        let requests = if connections == 1 { requests / 10 } else { requests };
        let output = Command::new("redis-benchmark")
            .args(["--csv", "-t", tests, "-p", &server.port.to_string()])
            .args(["-d", &value_bytes.to_string(), "-c", &connections.to_string()])
            .args(["-n", &requests.to_string(), "-r", &self.keys.to_string(), "-P", &pipeline.to_string()])
            .output()
            .context("cannot run redis-benchmark")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rates: Vec<_> = text.lines().filter_map(Rate::parse).collect();
        match rates.is_empty() {
            true => {
                Err(anyhow!("redis-benchmark printed no rates: {}", String::from_utf8_lossy(&output.stderr)))
            }
            false => Ok(rates),
        }
    }
}

/// What the load generator prints of a test.
struct Rate {
    per_second: f64,
    median_ms: f64,
    p99_ms: f64,
}

impl Rate {
    /// Parses a line: the test, requests per second, and latencies: mean, minimum, p50, p95, p99, most.
    fn parse(line: &str) -> Option<(String, Rate)> {
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim_matches('"')).collect();
        let number = |at: usize| cells.get(at)?.parse::<f64>().ok();
        let rate = Rate { per_second: number(1)?, median_ms: number(4)?, p99_ms: number(6)? };
        Some((cells[0].to_owned(), rate))
    }
}

/// A server that is ended when it is dropped.
struct Running {
    child: Child,
    port: u16,
}

impl Running {
    fn start(side: Side, directory: &Path, options: &[&str]) -> anyhow::Result<Running> {
        std::fs::create_dir_all(directory).context("cannot create a directory")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = match side {
            Side::Redis => {
                let mut command = Command::new("redis-server");
                command.args(["--port", &port.to_string(), "--save", "", "--dir"]).arg(directory);
                command
            }
            Side::Mica | Side::Silt => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["serve", "data"]).arg(directory.join("databases"));
                command.args(["--engine", side.name(), "--databases", "1"]);
                if side == Side::Mica {
                    // Keys of 16 bytes, values of 8, and the byte of the type.
                    command.args(["--set", "record_bytes=25"]);
                }
                command.args(["--redis", &format!("127.0.0.1:{port}")]).args(options);
                command
            }
        };
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Running { child: child.context("cannot start a server")?, port };
        let start = Instant::now();
        while server.ask("PING").is_err() {
            if start.elapsed() > PATIENCE {
                return Err(anyhow!("{} does not reply at port {port}", side.name()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Returns the reply to an inline command, without the line of its length.
    fn ask(&self, command: &str) -> anyhow::Result<String> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(format!("{command}\r\n").as_bytes())?;
        let mut input = BufReader::new(socket);
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some(length) = line.strip_prefix('$').and_then(|length| length.trim().parse::<usize>().ok())
        else {
            return Ok(line);
        };
        let mut text = vec![0; length];
        input.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the resident memory of the process without the pages of files, which the system takes back.
    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What it has written is removed; it need not end cleanly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the medians of the figures.
fn rows(figures: &[Figure]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for figure in figures {
        if rows.iter().any(|row| row.what == figure.what) {
            continue;
        }
        let of = |side: Side| {
            let same = figures.iter().filter(|other| other.what == figure.what && other.side == side);
            let mut values: Vec<f64> = same.map(|figure| figure.value).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        let (redis, mica, silt) = (of(Side::Redis), of(Side::Mica), of(Side::Silt));
        rows.push(Row { what: figure.what.clone(), unit: figure.unit, redis, mica, silt });
    }
    rows
}

impl Report {
    fn text(&self) -> String {
        let mut text = format!("{:<62} {:>10} {:>18} {:>18}\n", "", "redis", "mica", "silt");
        for Row { what, unit, redis, mica, silt } in &self.rows {
            let shown = |value: Option<f64>| {
                value.map_or_else(String::new, |value| match value {
                    value if value >= 1000.0 => format!("{value:.0}"),
                    value => format!("{value:.2}"),
                })
            };
            let beside = |value: Option<f64>| match value.zip(*redis) {
                Some((value, redis)) => format!("{} ({:.2})", shown(Some(value)), value / redis),
                None => shown(value),
            };
            let _ = writeln!(
                text,
                "{:<62} {:>10} {:>18} {:>18}",
                format!("{what}, {unit}"),
                shown(*redis),
                beside(*mica),
                beside(*silt)
            );
        }
        text
    }
}

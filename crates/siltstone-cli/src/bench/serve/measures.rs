//! What is measured of a server: one function for each group of rows.

use super::load::{self, Load};
use super::server::{Running, Side};
use super::{Figures, ServeArgs};
use anyhow::{Context, anyhow};
use siltstone::{Batch, Database, Dictionary};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The requests of a client that are in flight at once, by row.
const PIPELINES: [usize; 2] = [1, 16];

/// The time between two replacements of a dictionary.
const RELOAD_INTERVAL: Duration = Duration::from_millis(100);

/// The memory of an item of 8 + 8 bytes with `mica`.
const MICA_ITEM_BYTES: u64 = 37;
const MICA_SPARE_BYTES: u64 = 1 << 19;

/// The connections of the load generator.
const CONNECTIONS: usize = 50;

/// The option that reads flash without the page cache where that is possible.
const DIRECT: [&str; 2] = ["--access", "direct-or-buffered"];

impl ServeArgs {
    /// Measures commands of Redis over values of 8 bytes in memory.
    pub(super) fn measure_redis(
        &self,
        side: Side,
        directory: &Path,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        let server = Running::start(side, directory, &[])?;
        for pipeline in PIPELINES {
            for (test, rate) in self.benchmark(&server, "set,get", 8, CONNECTIONS, pipeline)? {
                figures.add(format!("{test}, 8 B, {pipeline} at once"), "per second", side, rate.per_second);
            }
        }
        Ok(())
    }

    /// Measures the memory of an item with a key and a value of 8 bytes. `mica` is given what the items should take:
    /// it is an error if they do not fit.
    pub(super) fn measure_memory(
        &self,
        side: Side,
        directory: &Path,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        let items = self.keys.max(1) as u64;
        // An eighth of the limit is for buffers. Of few items the partitions have parts that differ more.
        let memory = ((items * MICA_ITEM_BYTES + MICA_SPARE_BYTES) * 8 / 7).to_string();
        // The value has a byte for its type.
        let options = match side {
            Side::Mica => &["--set", "record_bytes=17", "--memory", &memory][..],
            _ => &[],
        };
        let server = Running::start(side, directory, options)?;
        let address = server.redis.context("there is no Redis")?;
        let before = server.resident_bytes();
        let request =
            |number: u64| format!("*3\r\n$3\r\nSET\r\n$8\r\n{number:08x}\r\n$8\r\nxxxxxxxx\r\n").into_bytes();
        let ends = |line: &[u8]| line.starts_with(b"+") || line.starts_with(b"-");
        load::run(address, &Load { request: &request, ends, connections: 4, pipeline: 64, requests: items })?;
        let kept = server.ask("DBSIZE")?.trim_start_matches(':').trim().parse::<f64>().unwrap_or(0.0);
        // Databases of files count many records within 0.6 %.
        if kept < 0.99 * items as f64 || (side == Side::Mica && kept != items as f64) {
            return Err(anyhow!("{} has {kept} of {items} items", side.name()));
        }
        let counted = server.info("memory", "used_memory")?;
        let grown = server.resident_bytes().saturating_sub(before) as f64;
        figures.add("memory of an item of 8 + 8 B, counted".to_owned(), "bytes", side, counted / kept);
        figures.add("memory of an item of 8 + 8 B, resident".to_owned(), "bytes", side, grown / kept);
        Ok(())
    }

    /// Measures commands of memcached's text protocol over values of 8 bytes in memory.
    pub(super) fn measure_memcached(
        &self,
        side: Side,
        directory: &Path,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        let server = Running::start(side, directory, &[])?;
        let address = server.memcached.context("there is no memcached")?;
        let key = |number: u64| format!("key:{:012}", scattered(number) % self.keys.max(1) as u64);
        let set = |number: u64| format!("set {} 0 0 8\r\nxxxxxxxx\r\n", key(number)).into_bytes();
        let get = |number: u64| format!("get {}\r\n", key(number)).into_bytes();
        for pipeline in PIPELINES {
            let requests = self.requests_of(pipeline) as u64;
            for (test, request) in [("set", &set as &dyn Fn(u64) -> Vec<u8>), ("get", &get)] {
                let ends = |line: &[u8]| [&b"STORED"[..], b"END"].contains(&line);
                let load = Load { request, ends, connections: CONNECTIONS, pipeline, requests };
                let times = load::run(address, &load)?;
                let what = format!("memcached's {test}, 8 B, {pipeline} at once");
                figures.add(what, "per second", side, times.per_second);
            }
        }
        Ok(())
    }

    /// Measures gets from flash, and what they cost a get that needs no flash.
    pub(super) fn measure_flash(&self, directory: &Path, figures: &mut Figures) -> anyhow::Result<()> {
        let server = Running::start(Side::Silt, directory, &DIRECT)?;
        self.benchmark(&server, "set", 1000, CONNECTIONS, 16)?;
        for (connections, pipeline) in [(CONNECTIONS, 1), (CONNECTIONS, 16), (1, 1)] {
            for (test, rate) in self.benchmark(&server, "get", 1000, connections, pipeline)? {
                let what =
                    format!("{test}, 1,000 B from flash, {connections} connections, {pipeline} at once");
                figures.add(what.clone(), "per second", Side::Silt, rate.per_second);
                figures.add(format!("{what}: median"), "ms", Side::Silt, rate.median_ms);
                figures.add(format!("{what}: 99th percentile"), "ms", Side::Silt, rate.p99_ms);
            }
        }
        let address = server.redis.context("there is no Redis")?;
        server.ask("SET young value")?;
        let young = |_: u64| b"GET young\r\n".to_vec();
        let one = Load { request: &young, ends: ends_get, connections: 1, pipeline: 1, requests: 10_000 };
        let alone = load::run(address, &one)?.quantile_ms(0.99);
        let key = |number: u64| {
            let key = format!("key:{:012}", scattered(number) % self.keys.max(1) as u64);
            format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n").into_bytes()
        };
        let requests = self.requests as u64;
        let others = Load { request: &key, ends: ends_get, connections: CONNECTIONS, pipeline: 1, requests };
        let beside = beside(address, &others, &one)?.quantile_ms(0.99);
        let what = "GET of a young record, 99th percentile";
        figures.add(format!("{what}, alone"), "ms", Side::Silt, alone);
        figures.add(format!("{what}, while others read flash"), "ms", Side::Silt, beside);
        Ok(())
    }

    /// Measures the time from kill -9 to the first reply.
    pub(super) fn measure_restart(&self, directory: &Path, figures: &mut Figures) -> anyhow::Result<()> {
        let path = directory.join("0");
        std::fs::create_dir_all(directory)?;
        let database = Database::builder(&path).open()?;
        for first in (0..self.restart_keys).step_by(1024) {
            let mut batch = Batch::new();
            for number in first..(first + 1024).min(self.restart_keys) {
                batch.put(format!("key:{number:012}"), b"xxxxxxxx")?;
            }
            database.write(&batch)?;
        }
        database.close()?;
        let places = [directory.to_str().context("the directory is no text")?];
        let server = Running::serve(&places, &["--databases", "1"])?;
        self.benchmark(&server, "set", 8, CONNECTIONS, 16)?;
        server.ask("SET last value")?;
        drop(server);
        let start = Instant::now();
        let server = Running::serve(&places, &["--databases", "1"])?;
        let reply = server.ask("GET last")?;
        let seconds = start.elapsed().as_secs_f64();
        if reply.trim() != "value" {
            return Err(anyhow!("a record was lost: its GET replied {reply:?}"));
        }
        let what = format!("first reply after kill -9, {} records", self.restart_keys);
        figures.add(what, "s", Side::Silt, seconds);
        Ok(())
    }

    /// Measures a dictionary: its memory, and the longest time of a get while it is replaced.
    pub(super) fn measure_dictionary(&self, directory: &Path, figures: &mut Figures) -> anyhow::Result<()> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join("served.dict");
        let key = |number: u64| format!("{:016x}", scattered(number));
        let records = (0..self.dictionary_keys).map(|number| (key(number), "xxxxxxxxxxxxxxxx"));
        Dictionary::builder().build(&path, records)?;
        let mount = format!("0={}", path.display());
        let server = Running::serve(&["--mount", &mount], &[])?;
        let address = server.redis.context("there is no Redis")?;
        let counted = server.info("memory", "used_memory_dataset")?;
        let what = format!("memory of a record of a dictionary, {} records", self.dictionary_keys);
        figures.add(what, "bytes", Side::Silt, counted / self.dictionary_keys.max(1) as f64);
        let request = |number: u64| {
            let key = key(number % self.dictionary_keys.max(1));
            format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n").into_bytes()
        };
        let requests = self.requests as u64;
        let load = Load { request: &request, ends: ends_get, connections: 10, pipeline: 1, requests };
        let is_done = AtomicBool::new(false);
        let times = thread::scope(|scope| {
            let reloading = scope.spawn(|| -> anyhow::Result<u64> {
                let mut reloads = 0;
                while !is_done.load(Relaxed) {
                    let reply = server.ask("SILTSTONE RELOAD")?;
                    if reply.trim() != ":1" {
                        return Err(anyhow!("the dictionary was not replaced: {reply}"));
                    }
                    reloads += 1;
                    thread::sleep(RELOAD_INTERVAL);
                }
                Ok(reloads)
            });
            let times = load::run(address, &load);
            is_done.store(true, Relaxed);
            reloading.join().map_err(|_| anyhow!("a thread has panicked"))??;
            times
        })?;
        let what = "GET of a dictionary that is replaced ten times per second";
        figures.add(format!("{what}, 99.9th percentile"), "ms", Side::Silt, times.quantile_ms(0.999));
        figures.add(format!("{what}, longest"), "ms", Side::Silt, times.quantile_ms(1.0));
        Ok(())
    }

    fn requests_of(&self, pipeline: usize) -> usize {
        if pipeline > 1 { 5 * self.requests } else { self.requests }
    }

    /// Runs redis-benchmark. Returns the tests with their rates.
    fn benchmark(
        &self,
        server: &Running,
        tests: &str,
        value_bytes: usize,
        connections: usize,
        pipeline: usize,
    ) -> anyhow::Result<Vec<(String, Rate)>> {
        let requests = self.requests_of(pipeline);
        // One connection has a fiftieth of the rate.
        let requests = if connections == 1 { requests / 10 } else { requests };
        let port = server.redis.context("there is no Redis")?.port();
        let output = Command::new("redis-benchmark")
            .args(["--csv", "-t", tests, "-p", &port.to_string()])
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

/// Returns the times of one load, repeated while another one runs.
fn beside(address: SocketAddr, others: &Load<'_>, one: &Load<'_>) -> anyhow::Result<load::Times> {
    // The functions of a load need not be shared between threads: each thread makes its own load.
    thread::scope(|scope| {
        let (connections, requests) = (others.connections, others.requests);
        let keys = others.request;
        let all: Vec<Vec<u8>> = (0..requests.min(100_000)).map(keys).collect();
        let running = scope.spawn(move || {
            let request = |number: u64| all[number as usize % all.len()].clone();
            load::run(
                address,
                &Load { request: &request, ends: ends_get, connections, pipeline: 1, requests },
            )
        });
        let times = load::run(address, one);
        running.join().map_err(|_| anyhow!("a thread has panicked"))??;
        times
    })
}

/// Returns whether a line ends the reply to a GET whose value has no line ends.
fn ends_get(line: &[u8]) -> bool {
    !line.starts_with(b"$") || line == b"$-1"
}

/// Returns a number that is spread over all 64 bits: the finaliser of splitmix64.
fn scattered(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// What redis-benchmark prints of a test.
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

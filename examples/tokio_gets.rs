//! Measures gets of concurrent asynchronous tasks: each in a blocking thread, or collected as in `tokio.rs`.
//!
//! Run with `cargo run --release --example tokio_gets [KEYS] [SECONDS]`. The database is in the current directory, so
//! that it is on a drive, and is read with direct I/O where the file system supports it.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]
#![allow(dead_code, reason = "a test measures only a moment, and an example uses only a part of the other")]

#[path = "tokio.rs"]
pub(crate) mod example;

use example::Gets;
use siltstone::{Access, Database, Result};
use std::env::{self, current_dir};
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, spawn_blocking};

/// A number that looks random.
fn scattered(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Returns the gets per second of `tasks` tasks.
async fn rate<F, G>(tasks: u64, keys: u64, time: Duration, get: G) -> io::Result<f64>
where
    F: Future<Output = io::Result<bool>> + Send,
    G: Fn([u8; 8]) -> F + Clone + Send + 'static,
{
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let get = get.clone();
        running.spawn(async move {
            let mut gets = 0u64;
            while begin.elapsed() < time {
                let number = scattered(task << 40 | gets) % keys;
                if !get(number.to_be_bytes()).await? {
                    return Err(io::Error::other("a key is missing"));
                }
                gets += 1;
            }
            Ok::<u64, io::Error>(gets)
        });
    }
    let mut gets = 0;
    while let Some(done) = running.join_next().await {
        gets += done??;
    }
    Ok(gets as f64 / begin.elapsed().as_secs_f64())
}

/// Fills a database, measures each number of tasks, and returns how many numbers it has measured.
async fn measure(keys: u64, time: Duration, tasks: &[u64]) -> io::Result<usize> {
    let directory = tempfile::tempdir_in(current_dir()?)?;
    let path = directory.path().join("db");
    let fill = move || -> Result<Database> {
        let database = Database::builder(path).access(Access::DirectOrBuffered).fixed(8, 92).open()?;
        let mut loader = database.bulk_loader();
        (0..keys).try_for_each(|number| loader.put(number.to_be_bytes(), [7; 92]))?;
        loader.finish()?;
        Ok(database)
    };
    let database = spawn_blocking(fill).await??;
    println!("{keys} records of 100 B, {} bytes on the drive", database.stats().disk_bytes);
    println!("{:>5} {:>22} {:>16}", "tasks", "spawn_blocking, gets/s", "collected, gets/s");
    for &tasks in tasks {
        let blocking = database.clone();
        let one_by_one = move |key: [u8; 8]| {
            let database = blocking.clone();
            async move { Ok(spawn_blocking(move || database.get(key)).await??.is_some()) }
        };
        let gets = Gets::of(database.clone());
        let collected = move |key: [u8; 8]| {
            let gets = gets.clone();
            async move { Ok(gets.get(key).await?.is_some()) }
        };
        let [one_by_one, collected] =
            [rate(tasks, keys, time, one_by_one).await?, rate(tasks, keys, time, collected).await?];
        println!("{tasks:>5} {one_by_one:>22.0} {collected:>16.0}");
    }
    spawn_blocking(move || database.close()).await??;
    Ok(tasks.len())
}

/// Measures a small database for a moment.
#[tokio::main]
pub(crate) async fn measure_few() -> io::Result<usize> {
    measure(1000, Duration::from_millis(2), &[1, 2, 4, 64]).await
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1).map(|number| number.parse::<u64>().map_err(io::Error::other));
    let keys = arguments.next().transpose()?.unwrap_or(4_000_000);
    let seconds = arguments.next().transpose()?.unwrap_or(4);
    measure(keys, Duration::from_secs(seconds), &[1, 4, 16, 64, 256]).await?;
    Ok(())
}

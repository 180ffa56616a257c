//! `siltstone-testing linearize`: checks what threads see that use a database at the same time.

use super::{Arguments, print, print_error};
use serde_json::json;
use siltstone::{Access, Database};
use siltstone_device::Directory;
use siltstone_device::memory::MemoryDirectory;
use siltstone_testing::TestEngine;
use siltstone_testing::linearizability::{Counts, Load};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long each database is used.
const DATABASE: Duration = Duration::from_secs(5);
/// The length of values of a fixed size, in bytes.
const VALUE_BYTES: usize = 24;

/// Where a database is.
#[derive(Debug, Clone, Copy)]
enum Place {
    Memory,
    Buffered,
    Direct,
}

pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
    let seconds = arguments.number("--seconds")?.unwrap_or(30);
    let threads = arguments.number("--threads")?.unwrap_or(4) as usize;
    let seed = arguments.number("--seed")?.unwrap_or(1);
    let directory = arguments.text("--dir")?;
    let engine = arguments.engine()?;
    let json = arguments.flag("--json");
    arguments.end()?;
    if !(1..=48).contains(&threads) {
        return Err(format!("--threads: {threads} is not between 1 and 48"));
    }
    let (begin, limit) = (Instant::now(), Duration::from_secs(seconds));
    let (mut counts, mut databases) = (Counts::default(), 0u64);
    while begin.elapsed() < limit {
        let place = [Place::Memory, Place::Buffered, Place::Direct][databases as usize % 3];
        let fixed = databases / 3 % 2 == 1;
        let load = Load {
            threads,
            operations: 5000,
            hot_keys: [2, 16, 100][databases as usize % 3],
            keys: 2000,
            value_length: fixed.then_some(VALUE_BYTES),
            seed: seed ^ databases << 48,
        };
        let until = limit.min(begin.elapsed() + DATABASE);
        let root = match &directory {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        };
        let root = root.map_err(|error| error.to_string())?;
        let database = open(&engine, place, fixed, root.path()).map_err(|error| error.to_string())?;
        let outcome = load.run(&database, |_| begin.elapsed() < until);
        counts += outcome.map_err(|found| format!("{place:?}, {load:?}: {found}"))?;
        database.close().map_err(|error| error.to_string())?;
        databases += 1;
        print_error(&format!("{databases} databases, {} operations", counts.operations));
    }
    let Counts { operations, overlapping, snapshots } = counts;
    print(&if json {
        json!({
            "databases": databases,
            "threads": threads,
            "operations": operations,
            "overlapping_operations": overlapping,
            "snapshots": snapshots,
            "not_linearizable": 0,
        })
        .to_string()
    } else {
        format!(
            "{databases} databases, {operations} operations of {threads} threads, all linearizable; {overlapping} \
             overlapped another on their key, {snapshots} were snapshots"
        )
    });
    Ok(ExitCode::SUCCESS)
}

/// Opens a database with four background threads, and with settings so small that these are always busy.
fn open(engine: &TestEngine, place: Place, fixed: bool, path: &Path) -> siltstone::Result<Database> {
    let fixed = fixed.then_some((Load::KEY_BYTES, VALUE_BYTES));
    let builder = engine.builder(path, fixed).background_threads(4);
    match place {
        Place::Memory => builder.open_in(Directory::new(MemoryDirectory::default(), Access::Buffered)),
        Place::Buffered => builder.access(Access::Buffered).open(),
        Place::Direct => builder.access(Access::DirectOrBuffered).open(),
    }
}

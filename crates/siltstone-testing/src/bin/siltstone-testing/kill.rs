//! `siltstone-testing kill`: kills a process that writes, hundreds of times, on a real file system.

use super::{Arguments, print, print_error};
use serde_json::json;
use siltstone::Access;
use siltstone_testing::{TestEngine, Victim};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The number of kills per database. Databases grow, and each kill is followed by a check of all records.
const KILLS_PER_DATABASE: u64 = 25;
/// The maximum number of steps between two kills.
const STEPS_MAX: u64 = 1500;
/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

const ACCESSES: [(Access, &str); 2] = [(Access::Buffered, "buffered"), (Access::DirectOrBuffered, "direct")];

pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
    let times = arguments.number("--times")?.unwrap_or(500);
    let seed = arguments.number("--seed")?.unwrap_or(1);
    let directory = arguments.text("--dir")?;
    let engine = arguments.engine()?;
    let json = arguments.flag("--json");
    arguments.end()?;
    let place = match &directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let place = place.map_err(|error| error.to_string())?;
    let (begin, mut printed_at, mut steps) = (Instant::now(), Instant::now(), 0);
    for number in 0..times.div_ceil(KILLS_PER_DATABASE) {
        let kills = KILLS_PER_DATABASE.min(times - number * KILLS_PER_DATABASE);
        let path = place.path().join(number.to_string());
        steps += kill_again_and_again(&engine, &path, number, kills, seed)?;
        std::fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
        if printed_at.elapsed() >= PROGRESS {
            printed_at = Instant::now();
            print_error(&format!("{} of {times} kills", number * KILLS_PER_DATABASE + kills));
        }
    }
    let elapsed_s = begin.elapsed().as_secs_f64();
    print(&if json {
        json!({ "kills": times, "lost": 0, "acknowledged_steps": steps, "elapsed_s": elapsed_s }).to_string()
    } else {
        format!("{times} kills, nothing lost of {steps} acknowledged steps; {elapsed_s:.0} s")
    });
    Ok(ExitCode::SUCCESS)
}

/// Returns how many steps were acknowledged.
fn kill_again_and_again(
    engine: &TestEngine,
    path: &Path,
    number: u64,
    kills: u64,
    seed: u64,
) -> Result<u64, String> {
    let shape = number as usize % Victim::SHAPES;
    let access = number as usize / Victim::SHAPES % ACCESSES.len();
    let victim =
        Victim { engine: engine.clone(), directory: path.to_owned(), shape, access: ACCESSES[access].0 };
    let mut random = fastrand::Rng::with_seed(seed ^ number << 32);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut start = 0;
    for kill in 0..kills {
        let mut child = Command::new(&program);
        child.args(["victim", "--engine", engine.info.name]).arg(path);
        child.args([shape.to_string(), access.to_string(), start.to_string()]);
        let describe = |problem| {
            let (access, kept) = (ACCESSES[access].1, path.display());
            format!("{access}, shape {shape}, kill {kill} from step {start} on, in {kept}: {problem}")
        };
        let acknowledged = Victim::kill(&mut child, start, random.u64(1..STEPS_MAX)).map_err(describe)?;
        victim.check(acknowledged).map_err(describe)?;
        start = acknowledged + 1;
    }
    Ok(start)
}

/// Runs the process that is killed: `victim --engine NAME DIRECTORY SHAPE ACCESS START`.
pub fn be_killed(mut arguments: Arguments) -> Result<ExitCode, String> {
    let engine = arguments.engine()?;
    let arguments = arguments.rest();
    let [directory, numbers @ ..] = &arguments[..] else {
        return Err("victim: the directory is missing".into());
    };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|number| number.parse()).collect();
    let Ok([shape, access, start]) = numbers.as_deref() else {
        return Err("victim: three numbers are required".into());
    };
    let (access, _) = ACCESSES[*access as usize % ACCESSES.len()];
    let victim = Victim { engine, directory: directory.into(), shape: *shape as usize, access };
    victim.write(*start, &mut std::io::stdout().lock()).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

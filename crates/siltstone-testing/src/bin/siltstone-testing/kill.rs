//! `siltstone-testing kill`: a process that writes is killed, hundreds of times, on a real file system.

use super::{Arguments, complain, tell};
use serde_json::json;
use siltstone::Access;
use siltstone_testing::Victim;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// So many times a database is written to and killed before the next one begins: they grow, and all is checked.
const KILLS_PER_DATABASE: u64 = 25;
/// The most steps between two kills.
const STEPS_MAX: u64 = 1500;
/// How often it tells how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

const ACCESSES: [(Access, &str); 2] = [(Access::Buffered, "buffered"), (Access::DirectOrBuffered, "direct")];

pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
    let times = arguments.number("--times")?.unwrap_or(500);
    let seed = arguments.number("--seed")?.unwrap_or(1);
    let directory = arguments.text("--dir")?;
    let json = arguments.flag("--json");
    arguments.end()?;
    let place = match &directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let place = place.map_err(|error| error.to_string())?;
    let (begin, mut told, mut steps) = (Instant::now(), Instant::now(), 0);
    for number in 0..times.div_ceil(KILLS_PER_DATABASE) {
        let kills = KILLS_PER_DATABASE.min(times - number * KILLS_PER_DATABASE);
        let path = place.path().join(number.to_string());
        steps += kill_again_and_again(&path, number, kills, seed)?;
        std::fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            complain(&format!("{} of {times} kills", number * KILLS_PER_DATABASE + kills));
        }
    }
    let elapsed_s = begin.elapsed().as_secs_f64();
    tell(&if json {
        json!({ "kills": times, "lost": 0, "acknowledged_steps": steps, "elapsed_s": elapsed_s }).to_string()
    } else {
        format!("{times} kills, nothing lost of {steps} acknowledged steps; {elapsed_s:.0} s")
    });
    Ok(ExitCode::SUCCESS)
}

/// Answers how many steps were acknowledged.
fn kill_again_and_again(path: &Path, number: u64, kills: u64, seed: u64) -> Result<u64, String> {
    let shape = number as usize % Victim::SHAPES;
    let access = number as usize / Victim::SHAPES % ACCESSES.len();
    let victim = Victim { directory: path.to_owned(), shape, access: ACCESSES[access].0 };
    let mut random = fastrand::Rng::with_seed(seed ^ number << 32);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut start = 0;
    for kill in 0..kills {
        let mut child = Command::new(&program);
        child.arg("victim").arg(path).args([shape.to_string(), access.to_string(), start.to_string()]);
        let told = |problem| {
            let (access, kept) = (ACCESSES[access].1, path.display());
            format!("{access}, shape {shape}, kill {kill} from step {start} on, in {kept}: {problem}")
        };
        let acknowledged = Victim::kill(&mut child, start, random.u64(1..STEPS_MAX)).map_err(told)?;
        victim.check(acknowledged).map_err(told)?;
        start = acknowledged + 1;
    }
    Ok(start)
}

/// What the process that is killed does: `victim DIRECTORY SHAPE ACCESS START`.
pub fn be_killed(arguments: &[String]) -> Result<ExitCode, String> {
    let [directory, numbers @ ..] = arguments else { return Err("victim: a directory is missing".into()) };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|number| number.parse()).collect();
    let Ok([shape, access, start]) = numbers.as_deref() else { return Err("victim: three numbers".into()) };
    let (access, _) = ACCESSES[*access as usize % ACCESSES.len()];
    let victim = Victim { directory: directory.into(), shape: *shape as usize, access };
    victim.write(*start, &mut std::io::stdout().lock()).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

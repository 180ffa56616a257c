//! `siltstone-testing simulate --threads`: runs databases that several threads use while the device fails, seed after
//! seed. Shuttle schedules the threads, which needs a build with `--cfg shuttle`.

#[cfg(not(shuttle))]
pub fn run(_: super::Arguments) -> Result<std::process::ExitCode, String> {
    Err("simulate --threads needs a build with Shuttle:\n\
         RUSTFLAGS='--cfg shuttle' cargo run --release --target-dir target/shuttle -p siltstone-testing -- \
         simulate --threads"
        .to_owned())
}

#[cfg(shuttle)]
pub use scheduled::run;

#[cfg(shuttle)]
mod scheduled {
    use super::super::{Arguments, print, print_error};
    use serde_json::json;
    use siltstone_testing::TestEngine;
    use siltstone_testing::concurrent::{Counts, Plan, command, simulate};
    use std::process::ExitCode;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    use std::sync::{Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// The number of seeds that a thread takes at a time.
    const SEEDS_PER_TURN: u64 = 1024;
    /// How often the progress is printed.
    const PROGRESS: Duration = Duration::from_secs(10);

    /// The seeds to run, with a thread per core.
    struct Seeds {
        engine: TestEngine,
        next: AtomicU64,
        end: u64,
        keep_going: bool,
        stopped: AtomicBool,
        found: Mutex<(Counts, u64, Instant)>,
    }

    impl Seeds {
        fn run(&self) {
            loop {
                let start = self.next.fetch_add(SEEDS_PER_TURN, Relaxed);
                if start >= self.end || self.stopped.load(Relaxed) {
                    return;
                }
                simulate(&self.engine, start..self.end.min(start + SEEDS_PER_TURN), |seed, outcome| {
                    self.note(seed, outcome);
                    !self.stopped.load(Relaxed)
                });
            }
        }

        fn note(&self, seed: u64, outcome: Result<Counts, String>) {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(counts) => found.0.add(&counts),
                Err(violation) => {
                    found.1 += 1;
                    print(&format!("seed {seed}: {violation}\n{}", command(&self.engine, seed)));
                    if !self.keep_going {
                        print(&Plan::from_seed(&self.engine, seed).describe());
                        self.stopped.store(true, Relaxed);
                    }
                }
            }
            if found.2.elapsed() >= PROGRESS {
                found.2 = Instant::now();
                print_error(&format!("{} seeds", found.0.runs + found.1));
            }
        }
    }

    pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
        let engine = arguments.engine()?;
        let count = arguments.number("--seeds")?.unwrap_or(1000);
        let first = arguments.number("--first")?.unwrap_or(0);
        let keep_going = arguments.flag("--keep-going");
        let json = arguments.flag("--json");
        arguments.end()?;
        let began = Instant::now();
        let seeds = Seeds {
            engine,
            next: AtomicU64::new(first),
            end: first.saturating_add(count),
            keep_going,
            stopped: AtomicBool::new(false),
            found: Mutex::new((Counts::default(), 0, began)),
        };
        std::thread::scope(|scope| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            (0..cores).for_each(|_| drop(scope.spawn(|| seeds.run())));
        });
        let (counts, broken, _) = seeds.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        print(&report(&counts, broken, began.elapsed().as_secs_f64(), json));
        Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn report(counts: &Counts, broken: u64, elapsed_s: f64, json: bool) -> String {
        let Counts { runs, failed_calls, power_losses, operations, jobs } = counts;
        let seeds_per_s = (runs + broken) as f64 / elapsed_s;
        if json {
            let line = json!({
                "seeds": runs + broken,
                "seeds_with_broken_promise": broken,
                "seeds_with_failed_call": failed_calls,
                "seeds_with_power_loss": power_losses,
                "operations": operations,
                "jobs": jobs,
                "seeds_per_s": seeds_per_s,
            });
            return line.to_string();
        }
        let jobs: String = jobs.iter().map(|(name, count)| format!("{count} {name}, ")).collect();
        format!(
            "{runs} seeds kept every guarantee, {broken} did not; in {failed_calls} of them a call of the device failed, \
             in {power_losses} the power was lost at work\n\
             {operations} operations acknowledged, {jobs}{seeds_per_s:.0} seeds/s"
        )
    }
}

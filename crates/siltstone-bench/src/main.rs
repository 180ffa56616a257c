//! `siltstone-bench`: long runs that are no benchmarks of a database (those are `siltstone bench`).

mod simulate;

use std::process::ExitCode;

const USAGE: &str = "usage: siltstone-bench simulate [--seeds N] [--first SEED] [--json]";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match arguments.next().as_deref() {
        Some("simulate") => simulate::run(arguments),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(code) => code,
        Err(problem) => {
            complain(&problem);
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stderr, reason = "a command line complains there")]
fn complain(problem: &str) {
    eprintln!("{problem}");
}

//! `siltstone-testing`: long runs of the simulations and of the other tests that take a seed or a number of
//! repetitions.

mod arguments;
mod flips;
mod kill;
mod linearize;
mod simulate;
mod simulate_threads;

use arguments::Arguments;
use std::process::ExitCode;

const USAGE: &str = "\
usage: siltstone-testing simulate [--threads] [--engine NAME | --cleaning] [--seeds N] [--first SEED]
                                  [--keep-going] [--json]
       siltstone-testing linearize [--engine NAME] [--seconds N] [--threads N] [--seed N] [--dir DIR] [--json]
       siltstone-testing kill [--engine NAME] [--times N] [--seed N] [--dir DIR] [--json]
       siltstone-testing flips [--samples N] [--seed SEED] [--json]";

fn main() -> ExitCode {
    let mut typed = std::env::args().skip(1);
    let command = typed.next();
    let arguments = Arguments::new(typed);
    let outcome = match command.as_deref() {
        Some("simulate") => simulate::run(arguments),
        Some("linearize") => linearize::run(arguments),
        Some("kill") => kill::run(arguments),
        Some("victim") => kill::be_killed(arguments),
        Some("flips") => flips::run(arguments),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(code) => code,
        Err(problem) => {
            print_error(&problem);
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stdout, reason = "the output of a command")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "the errors and the progress of a command")]
fn print_error(problem: &str) {
    eprintln!("{problem}");
}

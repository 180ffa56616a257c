//! `siltstone model`: evaluates single models, and prints their figures.

mod primitives;
mod systems;

use crate::outcome::{Result, help, wrong_usage};
use clap::{Args, Subcommand};
use siltstone_bench::accounts;
use siltstone_model::ModelError;

const EXAMPLES: &str = "
  siltstone model wa --system silt --keys 1e9 --skew zipf:0.99
  siltstone model ram --system silt --keys 1e9";

/// Evaluate the analytic models of the engines
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ModelArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write amplification and its parts
    #[command(after_help = crate::outcome::help(systems::WA_EXAMPLES))]
    Wa(Box<systems::SystemArgs>),
    /// Reads per get, and per get of a missing key
    #[command(after_help = crate::outcome::help(systems::RA_EXAMPLES))]
    Ra(Box<systems::SystemArgs>),
    /// Memory
    #[command(after_help = crate::outcome::help(systems::RAM_EXAMPLES))]
    Ram(Box<systems::SystemArgs>),
    /// Space amplification
    #[command(after_help = crate::outcome::help(systems::SA_EXAMPLES))]
    Sa(Box<systems::SystemArgs>),
    Lifetime(primitives::LifetimeArgs),
    Keys(primitives::KeysArgs),
}

pub fn run(args: ModelArgs) -> Result {
    use systems::Measure;
    as_usage(match args.what {
        What::Wa(args) => systems::run(*args, Measure::Writes),
        What::Ra(args) => systems::run(*args, Measure::Reads),
        What::Ram(args) => systems::run(*args, Measure::Memory),
        What::Sa(args) => systems::run(*args, Measure::Space),
        What::Lifetime(args) => primitives::lifetime(&args),
        What::Keys(args) => primitives::keys(&args),
    })
}

/// Makes what a model refuses wrong usage: it was stated on the command line.
pub fn as_usage(result: Result) -> Result {
    result.map_err(|error| match error.chain().any(|cause| cause.is::<ModelError>()) {
        true => wrong_usage(format_args!("{error:#}")),
        false => error,
    })
}

/// Prints named values, as lines or as one JSON object.
fn print(values: &[(String, f64)], json: bool) -> Result<()> {
    use std::io::{Write, stdout};
    // Each number is in its range, but what is computed of them may be infinity divided by infinity.
    if let Some((name, _)) = values.iter().find(|(_, value)| value.is_nan()) {
        return Err(wrong_usage(format_args!("{name} has no value: a number is too large or too small")));
    }
    let mut out = stdout().lock();
    if json {
        let object = values.iter().map(|(name, value)| (name.clone(), accounts::number(*value)));
        writeln!(out, "{}", serde_json::Value::Object(object.collect()))?;
    } else {
        for (name, value) in values {
            writeln!(out, "{name:<28} {:>16}", accounts::number_as_text(*value))?;
        }
    }
    Ok(out.flush()?)
}

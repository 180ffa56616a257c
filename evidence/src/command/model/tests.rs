//! The models on the command line.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ModelArgs,
}

fn values(flags: &str) -> Result<Values> {
    let args = Line::parse_from(std::iter::once("model").chain(flags.split(' '))).args;
    args.values(&args.skew.popularity(args.keys).unwrap())
}

fn first(flags: &str) -> f64 {
    values(flags).unwrap()[0].1
}

#[test]
fn the_figures_of_the_papers_are_reached_from_the_command_line() {
    let near =
        |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 0.006, "{got} for {expected}");
    near(first("wa --system leveldb --keys 1e8 --value-size 984"), 25.82);
    near(first("wa --system leveldb --keys 1e8 --value-size 984 --optimize"), 23.67);
    near(first("wa --system silt --keys 1e8 --value-size 1008 --merge-keys 7.5e6"), 5.4);
    near(first("wa --system flashkey --keys 1e9 --key-size 20 --value-size 800"), 3.68);
    near(first("ram --system bloomstore --keys 1e9 --value-size 48 --over-provision 0") / 1e9, 0.678);
}

#[test]
fn every_system_gives_a_result_or_says_that_it_has_none() {
    for system in SystemArg::value_variants() {
        let name = system.to_possible_value().unwrap();
        for measure in ["wa", "ra", "ram", "sa"] {
            let line = format!("{measure} --system {} --keys 1e6 --flash-bytes 60MB", name.get_name());
            let only_in_memory = *system == SystemArg::Mica;
            let has_no_space = only_in_memory || matches!(system, SystemArg::Cola | SystemArg::Samt);
            let has_none = match measure {
                "ram" => false,
                "sa" => has_no_space,
                _ => only_in_memory,
            };
            // FlashKey needs no memory for its data.
            let is_result = |value: f64| value.is_finite() && (value > 0.0 || measure == "ram");
            match values(&line) {
                Ok(values) => assert!(!has_none && is_result(values[0].1), "{line}: {values:?}"),
                Err(error) => assert!(has_none, "{line}: {error}"),
            }
        }
    }
}

#[test]
fn leveldb_is_simulated_along_with_its_model() {
    let flags = "--system leveldb --keys 2e4 --value-size 9984 --write-buffer 1MiB --simulate";
    for (measure, simulated) in [("wa", "simulated"), ("ra", "tables_per_get_simulated")] {
        let values = values(&format!("{measure} {flags}")).unwrap();
        let (_, simulated) = values.iter().find(|(name, _)| name == simulated).unwrap();
        assert!((values[0].1 / simulated - 1.0).abs() < 0.06, "{measure}: {values:?}");
    }
}

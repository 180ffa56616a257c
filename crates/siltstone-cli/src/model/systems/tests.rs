//! The models on the command line.

use super::*;
use clap::Parser;
use siltstone::{BloomStoreSettings, FlashKeySettings, FlashStoreSettings, SiltSettings};
use siltstone_model::BloomStoreLayout;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: SystemArgs,
}

fn first(measure: Measure, flags: &str) -> f64 {
    let args = Line::parse_from(std::iter::once("model").chain(flags.split(' '))).args;
    let popularity = args.skew.popularity(args.keys).unwrap();
    args.values(measure, &popularity).unwrap()[0].1
}

/// Each option that some systems do not have, with a value and the systems that have it.
const OPTIONS: [(&str, &str, &[&str]); 15] = [
    ("--partitions", "4", &["silt", "bloomstore"]),
    ("--merge-ratio", "0.5", &["silt"]),
    ("--filter-bits", "8", &["silt", "bloomstore"]),
    ("--log-slots-min", "1024", &["silt", "bloomstore"]),
    ("--filter-last-store", "8", &["silt"]),
    ("--block-bytes", "8192", &["silt", "bloomstore"]),
    ("--space", "1.5", &["flashkey", "bloomstore"]),
    ("--segment-bytes", "1MB", &["flashkey", "flashstore"]),
    ("--flash-bytes", "600MB", &["flashstore"]),
    ("--queues", "1", &["flashstore"]),
    ("--gets-per-put", "2", &["flashstore"]),
    ("--chain-length", "40", &["bloomstore"]),
    ("--expected-keys", "1e7", &["bloomstore"]),
    ("--buffered-filters", "4", &["bloomstore"]),
    ("--prefilter-bits", "4", &["bloomstore"]),
];

#[test]
fn an_option_is_taken_by_the_systems_that_have_it_alone() {
    for (option, value, systems) in OPTIONS {
        for system in SystemArg::value_variants() {
            let name = system.name();
            let mut line = format!("model --system {name} --keys 1e7 {option} {value}");
            if name == "flashstore" && option != "--flash-bytes" {
                line += " --flash-bytes 600MB";
            }
            let args = Line::parse_from(line.split(' ')).args;
            if systems.contains(&name.as_str()) {
                args.check().unwrap();
                let popularity = args.skew.popularity(args.keys).unwrap();
                assert!(args.values(Measure::Memory, &popularity).is_ok(), "{line}");
            } else {
                let refused = args.check().unwrap_err().to_string();
                assert!(refused.contains(option) && refused.contains(&name), "{line}: {refused}");
            }
        }
    }
}

#[test]
fn no_parameter_is_negative_or_infinite_or_no_number() {
    for (option, _, _) in OPTIONS {
        for number in ["-1", "nan", "inf"] {
            let argument = format!("{option}={number}");
            let line = ["model", "--system", "silt", "--keys", "1e6", argument.as_str()];
            assert!(Line::try_parse_from(line).is_err(), "{argument}");
        }
    }
}

#[test]
fn every_default_is_that_of_the_engine() {
    let line = |system: &str, more: &str| {
        let line = format!("model --system {system} --keys 1e6 {more}");
        Line::parse_from(line.split_whitespace()).args
    };
    assert_eq!(line("silt", "").layout(), SiltLayout::new(16.0, 100.0));
    assert_eq!(line("flashkey", "").flashkey_layout(), FlashKeyLayout::new(16.0, 100.0));
    let flashstore = line("flashstore", "--flash-bytes 1e9").flashstore_layout().unwrap();
    assert_eq!(flashstore, FlashStoreLayout::new(16.0, 100.0, 1e9));
    assert_eq!(line("bloomstore", "").bloomstore_layout(), BloomStoreLayout::new(16.0, 100.0));
    // What the layouts have by default is what the settings of the engines have.
    let (silt, flashkey) = (SiltSettings::default(), FlashKeySettings::default());
    let (flashstore_now, bloomstore) = (FlashStoreSettings::default(), BloomStoreSettings::default());
    let layout = line("silt", "").layout();
    assert_eq!(layout.log_slots_min, f64::from(silt.log_slots_min));
    assert_eq!((layout.merge_ratio, layout.filter_bits), (silt.merge_ratio, silt.filter_bits.into()));
    assert_eq!(line("flashkey", "").flashkey_layout().space, flashkey.space);
    assert_eq!((flashstore.queues, flashstore.usage), (flashstore_now.queues, flashstore_now.usage));
    let layout = line("bloomstore", "").bloomstore_layout();
    assert_eq!((layout.chain_length, layout.space), (bloomstore.chain_length.into(), bloomstore.space));
    assert_eq!(layout.buffered_filters, f64::from(bloomstore.buffered_filters));
}

#[test]
fn the_model_of_bloomstore_is_that_of_the_engine() {
    // Measured with these keys: 2.86, 1.955, 1.014 and 0.29 B.
    let engine = "--system bloomstore --keys 4e6 --key-size 20 --value-size 44";
    assert!((2.5..3.2).contains(&first(Measure::Writes, engine)), "{}", first(Measure::Writes, engine));
    assert!((1.9..2.0).contains(&first(Measure::Reads, engine)), "{}", first(Measure::Reads, engine));
    let per_key = first(Measure::Memory, engine) / 4e6;
    assert!((0.25..0.4).contains(&per_key), "{per_key}");
}

#[test]
fn every_system_gives_a_result_or_says_that_it_has_none() {
    for system in SystemArg::value_variants() {
        let name = system.to_possible_value().unwrap();
        let mut line = format!("model --system {} --keys 1e6", name.get_name());
        if matches!(system, SystemArg::Flashstore) {
            // The engine needs 16 segments.
            line += " --flash-bytes 60MB --segment-bytes 1MB";
        }
        let args = Line::parse_from(line.split(' ')).args;
        args.check().unwrap();
        let popularity = args.skew.popularity(args.keys).unwrap();
        for measure in [Measure::Writes, Measure::Reads, Measure::Memory, Measure::Space] {
            let has_none = matches!(system, SystemArg::Mica) && measure != Measure::Memory;
            let is_result = |(_, value): &(String, f64)| value.is_finite() && *value > 0.0;
            match args.values(measure, &popularity) {
                Ok(values) => {
                    assert!(!has_none && is_result(&values[0]), "{name:?}, {measure:?}: {values:?}")
                }
                Err(error) => assert!(has_none, "{name:?}, {measure:?}: {error}"),
            }
        }
    }
}

#[test]
fn a_model_of_flashstore_needs_the_bytes_of_flash() {
    let args = Line::parse_from(["model", "--system", "flashstore", "--keys", "1e6"]).args;
    let refused = args.values(Measure::Memory, &args.skew.popularity(args.keys).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("--flash-bytes"), "{refused}");
}

//! `siltstone model`: what is wrong usage.

use crate::runner::{ends_with, ok};

/// Runs a command that must be wrong usage, and returns its standard error.
fn refused(line: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    ends_with(2, directory.path(), &line.split(' ').collect::<Vec<_>>())
}

/// Runs a command that must succeed, and returns its standard output.
fn printed(line: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    ok(directory.path(), &line.split(' ').collect::<Vec<_>>())
}

#[test]
fn an_option_of_another_system_is_wrong_usage() {
    for (system, wrong, right) in [
        ("silt", "--space", "--merge-ratio 0.5"),
        ("flashkey", "--partitions", "--space 1.5"),
        ("flashstore --flash-bytes 600MB", "--merge-ratio", "--queues 1"),
        ("bloomstore", "--segment-bytes", "--chain-length 40"),
        ("mica", "--flash-bytes", "--variable"),
    ] {
        let line = format!("model ram --system {system} --keys 1e7");
        let message = refused(&format!("{line} {wrong} 2"));
        assert!(message.contains(&format!("{wrong} is for ")), "{system}: {message}");
        assert!(printed(&format!("{line} {right}")).contains("ram_bytes"), "{system}");
    }
    refused("model wa --system silt --keys 1e9 --space 1.5 --flash-bytes 20GB");
}

#[test]
fn a_lifetime_that_is_no_number_or_negative_is_wrong_usage() {
    let lifetime = "model lifetime --flash 1TB --item-size 100";
    for wa in ["=-5", " nan", " inf", " 0"] {
        refused(&format!("{lifetime} --updates 5000/s --wa{wa}"));
    }
    for line in [
        "model lifetime --flash 0 --updates 0 --item-size 100 --wa 2",
        "model lifetime --flash 1TB --endurance 0 --updates 0 --item-size 100 --wa 2",
        "model lifetime --flash 1TB --updates 0 --item-size 0 --wa 2",
        "model lifetime --flash 1e200 --endurance 1e200 --updates 1e200 --item-size 1e200 --wa 1",
    ] {
        refused(line);
    }
    printed(&format!("{lifetime} --updates 5000/s --wa 2"));
    printed(&format!("{lifetime} --updates 0 --wa 2"));
}

#[test]
fn parameters_that_no_system_can_have_are_wrong_usage() {
    for line in [
        "model ra --system silt --keys 1e6 --merge-ratio nan",
        "model sa --system silt --keys 1e6 --block-bytes 8",
        "model ram --system flashstore --keys 1e7 --flash-bytes 600MB --gets-per-put inf",
        "model wa --system bloomstore --keys 1e6 --chain-length 0.5",
        "model wa --system bloomstore --keys 1e6 --partitions 1e12",
    ] {
        refused(line);
    }
}

#[test]
fn a_model_that_lacks_an_option_or_a_result_is_wrong_usage() {
    for (line, wanted) in [
        ("model keys --keys 1e8", "--unique"),
        ("model keys --keys 1e8 --merge 1,2,3", "two tables"),
        ("model ram --system flashstore --keys 1e6", "--flash-bytes"),
        ("model wa --system mica --keys 1e6", "use ram"),
    ] {
        let message = refused(line);
        assert!(message.contains(wanted), "{line}: {message}");
    }
}

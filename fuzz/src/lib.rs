//! Hostile bytes for everything that Siltstone reads: no panic, no unbounded memory, no endless loop.
//!
//! A target is a plain function of bytes. `make fuzz` lets libFuzzer search for bytes that break it; `make test` runs
//! it over its corpus and over simple mutations of it. The corpus of a target is the folder of its name in `corpus/`:
//! golden bytes, inputs that reach new code, and inputs that once broke it.

#[expect(dead_code, unused_imports, reason = "of these sources only the decoders are of use here")]
mod cli;
mod input;
mod limit;
mod seal;
mod targets;

// The sources of the command line name its modules from the root of their crate.
use cli::{notation, stream};

/// A function that passes bytes to Siltstone.
pub struct Target {
    /// The name of the target and of its corpus.
    pub name: &'static str,
    /// The formats that it reads, by their pages in `docs/formats`.
    pub formats: &'static [&'static str],
    /// Takes any bytes, and panics if a guarantee is broken.
    pub run: fn(&[u8]),
}

const fn reads(name: &'static str, formats: &'static [&'static str], run: fn(&[u8])) -> Target {
    Target { name, formats, run }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    reads("record", &["record"], targets::record::run),
    reads("usage", &["usage"], targets::record::counts),
    reads("changes", &["changes"], targets::record::changes),
    reads("compression", &["compression"], targets::compression::run),
    reads("log_frames", &["log"], targets::log_frames::run),
    reads("log", &["log"], targets::log::run),
    reads("redo", &["redo"], targets::log_index::redo),
    reads("saved_index", &["saved_index", "hash_page", "store_file"], targets::log_index::saved),
    reads("key_run", &["key_run", "store_file", "block"], targets::key_run::run),
    reads("data_logs", &["log"], targets::data_logs::run),
    reads("manifest", &["manifest"], targets::manifest::run),
    reads("entropy_trie", &["entropy_trie"], targets::indexes::entropy_trie),
    reads("fences", &["fences"], targets::indexes::fences),
    reads("hash_page", &["hash_page"], targets::indexes::hash_page),
    reads("run_columns", &["run_columns"], targets::indexes::run_columns),
    reads("chain", &["chain", "run_columns", "bloom_filters"], targets::chain::run),
    reads("bloom", &["bloom_filters"], targets::filters::bloom),
    reads("prefilter", &["prefilter"], targets::filters::prefilter),
    reads("block_perfect", &["perfect_index"], targets::indexes::block_perfect),
    reads("cuckoo_filter", &["cuckoo_filter"], targets::filters::cuckoo),
    reads("ribbon_filter", &["ribbon_filter"], targets::filters::ribbon),
    reads("ranged_filter", &["ranged_filter"], targets::filters::ranged),
    reads(
        "sorted_store",
        &["sorted_store", "store_file", "block", "checked_slots"],
        targets::sorted_store::run,
    ),
    reads("cuckoo_table", &["cuckoo_table", "store_file", "checked_slots"], targets::cuckoo_table::run),
    reads("dictionary", &["dictionary"], targets::dictionary::run),
    reads("directory", &["README"], targets::directory::run),
    reads("database", &["README"], targets::database::run),
    reads("repair", &["README"], targets::database::repair),
    reads("simulation", &[], targets::simulation::run),
    reads("export", &["export"], targets::transfer::export),
    reads("jsonl", &[], targets::transfer::jsonl),
    reads("tables", &[], targets::transfer::tables),
    reads("dedup", &["dedup"], targets::transfer::dedup),
    reads("packet", &["packet"], targets::packet::run),
    reads("memcached", &[], targets::memcached::run),
    reads("resp", &[], targets::resp::run),
    reads("typed_value", &["typed_value"], targets::typed_value::run),
    reads("dump", &[], targets::typed_value::dump),
    reads("users", &[], targets::users::run),
    reads("trace", &["trace"], targets::trace::binary),
    reads("trace_csv", &[], targets::trace::csv),
];

/// Returns the target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

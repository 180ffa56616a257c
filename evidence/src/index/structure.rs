//! The names and the settings of the structures.

use crate::{Error, Result};
use clap::Args;
use serde::Serialize;
use siltstone_bench::named;
use siltstone_bench::quantity::parse_whole;
use std::fmt;

macro_rules! structures {
    ($($variant:ident, $name:literal, $about:literal;)*) => {
        /// A measured structure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Structure {
            $(#[doc = $about] $variant,)*
        }

        impl Structure {
            /// All structures, in the order of their description.
            pub const ALL: &[Structure] = &[$(Structure::$variant,)*];

            /// Returns the name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Structure::$variant => $name,)* }
            }

            /// Returns a one-line description.
            pub fn about(self) -> &'static str {
                match self { $(Structure::$variant => $about,)* }
            }
        }
    };
}

structures! {
    EntropyTriePaper, "entropy_trie_paper", "slot or block, records in hash order: entropy-coded trie, paper's coder";
    EntropyTrie, "entropy_trie", "the same, the fast coder";
    SlotPerfect, "slot_perfect", "slot, any order within a bucket: minimal perfect hash";
    BlockPerfect, "block_perfect", "block, any order within a bucket, full blocks: perfect hash to blocks";
    Fences, "fences", "block of records in hash order: Elias-Fano code of the block boundaries";
    RibbonFilter, "ribbon_filter", "membership: bumped ribbon filter";
    CuckooFilter, "cuckoo_filter", "membership and slot: the tags of a partial-key cuckoo table";
    PartialKeyCuckoo, "partial_key_cuckoo", "membership and 32-bit position, of keys in any order";
    HashPages, "hash_pages", "the same, growing with its keys: sorted pages of hash prefixes, units of up to 40 bits";
    NwayCuckoo, "nway_cuckoo", "the index of FlashStore's paper: N candidate slots, signatures of 2 bytes";
    BloomColumns, "bloom_columns", "runs that may have a key, encoded: BloomStore's filters side by side, of 96 runs";
    Maplet, "maplet", "the same: hash prefixes with the numbers of runs, in pages of 1,450 keys";
    PtrHash, "ptr_hash", "a peer: the ptr_hash crate's minimal perfect hash, at its defaults";
    PtrHashCompact, "ptr_hash_compact", "the same, its compact form";
}

named!(Structure);

impl fmt::Display for Structure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The settings of a structure. `None` means that the structure does not have it, or its default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args, Serialize)]
pub struct Options {
    /// Average number of keys per virtual bucket of a trie [default: 256]
    #[arg(long, value_name = "G", value_parser = parse_whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<u32>,
    /// Number of records per block [default: 16; for tries 1, which is dense]
    #[arg(long, value_name = "B", value_parser = parse_whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_per_block: Option<u32>,
    /// Largest subtrie with a Huffman code, in keys, 1 to 64 [default: 64]
    #[arg(long, value_name = "H", value_parser = parse_whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huffman_max: Option<u32>,
    /// Bits of a filter, with a false-positive rate of 2^-F [default: 12]
    #[arg(long, value_name = "F", value_parser = parse_whole::<u8>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<u8>,
    /// Number of candidate slots of a key in the n-way table, 1 to 64 [default: 16]
    #[arg(long, value_name = "N", value_parser = parse_whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u32>,
    /// Keys per slot of the n-way table, above 0 [default: 0.9]
    #[arg(long, value_name = "SHARE", value_parser = parse_load)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
}

fn parse_load(text: &str) -> std::result::Result<f64, String> {
    let load = text.parse().ok().filter(|load| (0.01..=2.0).contains(load));
    load.ok_or_else(|| format!("{text} is no load; use one from 0.01 to 2"))
}

impl Structure {
    /// Returns the structure's settings with their defaults.
    pub fn defaults(self) -> Options {
        use Structure::*;
        let none = Options::default();
        match self {
            EntropyTrie | EntropyTriePaper => {
                Options { bucket: Some(256), items_per_block: Some(1), huffman_max: Some(64), ..none }
            }
            BlockPerfect | Fences => Options { items_per_block: Some(16), ..none },
            RibbonFilter | CuckooFilter | PartialKeyCuckoo | HashPages => Options { bits: Some(12), ..none },
            NwayCuckoo => Options { candidates: Some(16), load: Some(0.9), bits: Some(12), ..none },
            BloomColumns => Options { bits: Some(5), ..none },
            Maplet => Options { bits: Some(6), ..none },
            SlotPerfect | PtrHash | PtrHashCompact => none,
        }
    }

    /// Returns the chosen settings, with defaults for the rest.
    ///
    /// # Errors
    /// [`Error::Settings`] if a chosen setting does not exist for the structure.
    pub(super) fn resolve(self, chosen: Options) -> Result<Options> {
        fn one<T>(
            structure: Structure,
            setting: &'static str,
            default: Option<T>,
            chosen: Option<T>,
        ) -> Result<Option<T>> {
            match (default, chosen) {
                (None, Some(_)) => Err(Error::settings(format!("{structure} has no setting {setting}"))),
                (default, chosen) => Ok(chosen.or(default)),
            }
        }
        let defaults = self.defaults();
        Ok(Options {
            bucket: one(self, "bucket", defaults.bucket, chosen.bucket)?,
            items_per_block: one(self, "items_per_block", defaults.items_per_block, chosen.items_per_block)?,
            huffman_max: one(self, "huffman_max", defaults.huffman_max, chosen.huffman_max)?,
            bits: one(self, "bits", defaults.bits, chosen.bits)?,
            candidates: one(self, "candidates", defaults.candidates, chosen.candidates)?,
            load: one(self, "load", defaults.load, chosen.load)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_a_structure_does_not_have_is_refused() {
        let chosen = Options { bits: Some(8), ..Options::default() };
        assert_eq!(Structure::RibbonFilter.resolve(chosen).unwrap().bits, Some(8));
        let error = Structure::Fences.resolve(chosen).unwrap_err();
        assert_eq!(error.to_string(), "fences has no setting bits");
    }
}

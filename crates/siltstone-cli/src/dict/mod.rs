//! `siltstone dict`: dictionaries, which are written once and then only read.

mod build;
mod export;
mod get;
mod info;
mod reindex;
mod source;
mod update;
mod verify;

use crate::interrupt::Interrupt;
use crate::outcome::{Result, help};
use crate::progress::show_bytes;
use crate::quantity::parse_whole;
use anyhow::{bail, ensure};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::json;
use siltstone::{Dictionary, DictionaryBuilder, DictionaryInfo};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "
  siltstone dict build words.dict words.csv
  siltstone dict get words.dict house tree
  siltstone dict update words.dict new-words.csv";

/// Build, read and update dictionaries: single files of records that many processes can share
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DictArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Build(build::BuildArgs),
    Get(get::GetArgs),
    Update(update::UpdateArgs),
    Reindex(reindex::ReindexArgs),
    Info(info::InfoArgs),
    Verify(verify::VerifyArgs),
    Export(export::ExportArgs),
}

pub fn run(args: DictArgs) -> Result {
    match args.what {
        What::Build(args) => build::run(args),
        What::Get(args) => get::run(&args),
        What::Update(args) => update::run(args),
        What::Reindex(args) => reindex::run(args),
        What::Info(args) => info::run(args),
        What::Verify(args) => verify::run(args),
        What::Export(args) => export::run(&args),
    }
}

/// The help of `--index`.
const INDEX_HELP: &str = "\
Kind of index: fences between blocks, smallest and fastest, for records of any size (fences); an entropy-coded trie, \
pruned to blocks (sparse-trie) or with one leaf per record (dense-trie), for records of a fixed size that is smaller \
than a block; or none, where a lookup searches with a few reads";

/// How records are sorted.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sorting")]
struct SortArgs {
    /// Memory limit for sorting, such as 512MiB; 64KiB or more
    #[arg(long, value_name = "BYTES", value_parser = parse_whole::<usize>, default_value = "256MiB")]
    memory: usize,
    /// Directory for records that do not fit into memory [default: that of the dictionary]
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// Fail if a key occurs twice; by default the last record wins
    #[arg(long)]
    refuse_duplicates: bool,
}

impl SortArgs {
    fn apply(&self, mut builder: DictionaryBuilder) -> DictionaryBuilder {
        builder = builder.memory_bytes(self.memory);
        if let Some(path) = &self.temporary {
            builder = builder.temporary_directory(path);
        }
        if self.refuse_duplicates { builder.refuse_duplicates() } else { builder }
    }
}

/// Shows the progress of building a dictionary: reading, then merging. `interrupt` ends it.
fn with_progress(builder: DictionaryBuilder, bar: &ProgressBar, interrupt: &Interrupt) -> DictionaryBuilder {
    let (bar, interrupt) = (bar.clone(), interrupt.clone());
    builder.progress(move |done, all| {
        if all > 0 {
            bar.set_message("merging");
            show_bytes(&bar, done, all);
        }
        !interrupt.is_raised()
    })
}

/// Refuses to overwrite a file that is not a dictionary, or, without `force`, one that exists.
fn check_target(path: &Path, force: bool) -> anyhow::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let shown = path.display();
    ensure!(force, "{shown}: the file exists; use --force to replace it, or `dict update`");
    if let Err(error) = Dictionary::options().without_index().open(path) {
        bail!("{shown}: the file exists and is not a dictionary; remove it first ({error})");
    }
    Ok(())
}

fn open(path: &Path, without_index: bool) -> anyhow::Result<Dictionary> {
    let options = Dictionary::options();
    let options = if without_index { options.without_index() } else { options };
    Ok(options.open(path)?)
}

/// Prints the properties of a dictionary, as lines or as JSON.
fn print_info(path: &Path, info: &DictionaryInfo, json: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let fixed = info.fixed.map(|(key_length, value_length)| [key_length, value_length]);
    if json {
        let line = json!({
            "path": path.to_string_lossy(),
            "version": info.version,
            "records": info.records,
            "key_bytes": info.key_bytes,
            "value_bytes": info.value_bytes,
            "fixed": fixed,
            "hashed_keys": info.hashed_keys,
            "block_bytes": info.block_bytes,
            "blocks": info.blocks,
            "file_bytes": info.file_bytes,
            "index": info.index.name(),
            "index_bytes": info.index_bytes,
            "bits_per_key": info.bits_per_key(),
            "has_damaged_end": info.has_damaged_end,
        });
        writeln!(out, "{line}")?;
    } else {
        let shape = match fixed {
            Some([key_length, value_length]) => format!("fixed, {key_length} + {value_length} bytes"),
            None => "of any size".to_owned(),
        };
        let hashed = if info.hashed_keys { ", keys are hashes" } else { "" };
        writeln!(out, "path     {}", path.display())?;
        writeln!(out, "format   version {}, {} bytes", info.version, info.file_bytes)?;
        writeln!(out, "records  {}, {shape}{hashed}", info.records)?;
        writeln!(out, "data     {} bytes of keys, {} of values", info.key_bytes, info.value_bytes)?;
        writeln!(out, "blocks   {} of {} bytes", info.blocks, info.block_bytes)?;
        let (index, bytes, bits) = (info.index.name(), info.index_bytes, info.bits_per_key());
        writeln!(out, "index    {index}, {bytes} bytes in memory, {bits:.3} bits per key")?;
        if info.has_damaged_end {
            writeln!(out, "         a change of the index was interrupted; run `dict reindex` to repeat it")?;
        }
    }
    Ok(out.flush()?)
}

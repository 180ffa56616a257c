//! `evidence documents` and `evidence figures`: the tables of figures in the documents.

use super::provenance;
use anyhow::{Context, Result, bail};
use clap::Args;
use siltstone_bench::place::Place;
use siltstone_bench::quantity::parse_whole;
use siltstone_command::interrupt::{Interrupt, RemovedAtExit};
use siltstone_evidence::documents::{self, Run, Runs, Sources};
use std::path::PathBuf;

const DOCUMENTS_EXAMPLES: &str = "
  evidence documents
  evidence documents --check";
const FIGURES_EXAMPLES: &str = "
  evidence figures engines --keys 1e6,1e7
  evidence figures large --keys 2e6 --dir DIR";

/// Fill the tables of figures in the documents from docs/EVIDENCE.md and docs/figures.jsonl
#[derive(Args)]
#[command(after_help = super::help(DOCUMENTS_EXAMPLES))]
pub struct DocumentsArgs {
    /// Change nothing, and fail if a figure differs
    #[arg(long)]
    check: bool,
    /// The directory of the documents
    #[arg(long, value_name = "DIR", default_value = "docs")]
    docs: PathBuf,
}

pub fn fill(args: &DocumentsArgs) -> Result<()> {
    let sources = Sources::read(&args.docs)?;
    let mut stale = Vec::new();
    let mut files = Vec::new();
    for (path, text) in documents::all(&args.docs)? {
        let filled = documents::filled(&text, &sources).with_context(|| path.display().to_string())?;
        files.push((path, text, filled));
    }
    for (name, chart) in documents::charts(&sources.runs)? {
        let path = args.docs.join(name);
        let drawn = std::fs::read_to_string(&path).unwrap_or_default();
        files.push((path, drawn, chart));
    }
    for (path, text, filled) in files {
        if filled == text {
            continue;
        }
        stale.push(path.display().to_string());
        if !args.check {
            std::fs::write(&path, filled).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    match stale.is_empty() || !args.check {
        true => Ok(()),
        false => bail!("figures differ from their sources in {}: run evidence documents", stale.join(", ")),
    }
}

/// Run the commands of a set of figures, record what they print in docs/figures.jsonl, and fill the documents
///
/// The commands are in the document that has the figures. They run one after the other, once for each number of keys.
#[derive(Args)]
#[command(after_help = super::help(FIGURES_EXAMPLES))]
pub struct FiguresArgs {
    /// The set: the name in the marker `commands of` of a document
    set: String,
    /// The numbers of keys
    #[arg(long, required = true, value_delimiter = ',', value_parser = parse_whole::<u64>)]
    keys: Vec<u64>,
    /// The program that the commands name siltstone
    #[arg(long, value_name = "FILE", default_value = "target/release/siltstone")]
    program: PathBuf,
    /// An empty directory for databases [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The directory of the documents
    #[arg(long, value_name = "DIR", default_value = "docs")]
    docs: PathBuf,
}

pub fn measure(args: &FiguresArgs) -> Result<()> {
    let documents = documents::all(&args.docs)?;
    let commands = documents::commands_of(&args.set, &documents)?;
    // Rates of a machine with other work are those of that work.
    let load =
        provenance::load_average().map_or(String::new(), |load| format!(", load average before {load}"));
    let run = Run {
        date: provenance::date().context("the date is not known")?,
        commit: provenance::commit().unwrap_or_default(),
        machine: provenance::machine() + &load,
    };
    let mut runs = Runs::read(&args.docs)?;
    let interrupt = Interrupt::listen()?;
    for keys in &args.keys {
        let place = Place::prepare(args.dir.as_deref())?;
        place.check_empty()?;
        let _removed = place.removed_at_end().map(RemovedAtExit::new);
        std::fs::create_dir_all(place.directory())?;
        let (printed, outcome) = documents::run_commands(commands, *keys, place.directory(), &args.program);
        if interrupt.is_raised() {
            bail!("interrupted: nothing of the run with {keys} keys is recorded");
        }
        let mut lines = documents::lines_of(&args.set, *keys, &run, &printed)?;
        // A store whose command failed may have stopped in the middle of a benchmark.
        if outcome.is_err()
            && let Some(last) = lines.last().map(|line| line.column.clone())
        {
            lines.retain(|line| line.column != last);
        }
        lines.into_iter().for_each(|line| runs.record(line));
        runs.write(&args.docs)?;
        outcome?;
        place.clear()?;
    }
    fill(&DocumentsArgs { check: false, docs: args.docs.clone() })
}

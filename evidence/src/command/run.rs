//! `evidence run` and `evidence list`: the items of the registry.

use super::{check_writable, provenance, write_charts};
use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use siltstone::Access;
use siltstone_bench::named::by_name;
use siltstone_bench::quantity::{counted, parse_time};
use siltstone_command::interrupt::{Interrupt, RemovedAtExit};
use siltstone_evidence::conditions::Conditions;
use siltstone_evidence::output;
use siltstone_evidence::registry::{self, Item, Outcome, Paper, Progress, Settings, State};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIST_EXAMPLES: &str = "
  evidence list
  evidence list --paper silt --json";
const RUN_EXAMPLES: &str = "
  evidence run silt/figure-8 flashkey/section-vi-c
  evidence run flashstore/section-4.5 --db /dev/shm/recycling
  evidence run bloomstore --scale 0.1 --access direct-or-buffered --plot charts
  evidence run all --budget 60min --json > evidence.jsonl";

/// How often the progress is drawn.
const TICK: Duration = Duration::from_millis(200);

/// List the tables and figures of the papers
#[derive(Args)]
#[command(after_help = super::help(LIST_EXAMPLES))]
pub struct ListArgs {
    /// Only those of this paper: silt, ect, msls, mica, flashkey, flashstore or bloomstore
    #[arg(long, value_name = "NAME")]
    paper: Option<String>,
    /// Print one line of JSON per item
    #[arg(long)]
    json: bool,
}

/// An item as JSON.
#[derive(Serialize)]
struct Listed {
    id: &'static str,
    paper: Paper,
    place: &'static str,
    what: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_s: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    lacks: &'static str,
}

pub fn list(args: &ListArgs) -> Result<()> {
    let chosen = args.paper.clone().unwrap_or_else(|| "all".to_owned());
    for item in registry::find(&[chosen])? {
        let Item { id, paper, place, what, lacks, .. } = *item;
        let cost_s = item.experiment().map(|experiment| experiment.cost_s);
        let listed = Listed { id, paper, place, what, state: item.state(), cost_s, lacks };
        super::print(&listed, args.json, || output::list(item))?;
    }
    Ok(())
}

/// Run tables and figures of the papers, and print the papers' values next to what is measured
///
/// Counts are of one run without background threads; rates are medians of three runs. Experiments that several items
/// share run once.
#[derive(Args)]
#[command(after_help = super::help(RUN_EXAMPLES))]
pub struct RunArgs {
    /// Items, such as silt/figure-8; the name of a paper; or all
    #[arg(required = true)]
    ids: Vec<String>,
    /// The size of experiments: at 1 all of them together take up to an hour
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Print one line of JSON per item
    #[arg(long)]
    json: bool,
    /// Draw the items that have an axis into this directory, one SVG file per item
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Write the page of all outcomes to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Directory of files, which must be empty [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Directory of the slow disk below flash [default: a directory in that of files]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// How files are read and written
    #[arg(long, default_value = Access::default().name(), value_parser = by_name::<Access>())]
    access: Access,
    /// Begin no experiment that would end later than this, such as 60min
    #[arg(long, value_parser = parse_time)]
    budget: Option<Duration>,
    /// Seed of the random keys, orders and values
    #[arg(long, default_value_t = 301)]
    seed: u64,
}

pub fn run(args: &RunArgs) -> Result<()> {
    let items = registry::find(&args.ids)?;
    if let Some(directory) = &args.plot {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    args.page.as_deref().map_or(Ok(()), check_writable)?;
    let interrupt = Interrupt::listen()?;
    let mut conditions = Conditions::new(args.scale, args.db.as_deref())?;
    conditions.disk = args.disk.clone();
    conditions.access = args.access;
    conditions.seed = args.seed;
    conditions.stop = interrupt.flag();
    let _removed = conditions.place.removed_at_end().map(RemovedAtExit::new);
    let settings = Settings { conditions, budget: args.budget };
    let bar = progress_bar();
    let outcomes = registry::run(&items, &settings, &mut |progress| match progress {
        Progress::Begins(experiment, number, of) => {
            let cost = f64::from(experiment.cost_s) * args.scale;
            bar.set_message(format!("{}, run {number} of {of}, about {cost:.0} s in all", experiment.name));
            Ok(())
        }
        Progress::Ended(outcome) => {
            bar.suspend(|| ended(outcome, args)).map_err(|error| std::io::Error::other(error).into())
        }
    });
    bar.finish_and_clear();
    let outcomes = outcomes?;
    if let Some(path) = &args.page {
        let text = output::page(&outcomes, &described(args, path));
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    check_none_failed(&outcomes)
}

/// Returns an error that names the items whose experiments failed, if there are some.
fn check_none_failed(outcomes: &[Outcome]) -> Result<()> {
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.state, State::Failed(_)));
    let failed: Vec<&str> = failed.map(|outcome| outcome.item.id).collect();
    ensure!(failed.is_empty(), "{} failed: {}", counted(failed.len() as u64, "item"), failed.join(", "));
    Ok(())
}

/// Prints an outcome, and draws it if it is complete: a chart of an earlier run is not replaced by one of a part.
fn ended(outcome: &Outcome, args: &RunArgs) -> Result<()> {
    super::print(outcome, args.json, || output::lines(outcome) + "\n")?;
    let Some(directory) = args.plot.as_ref().filter(|_| outcome.state == State::Done) else { return Ok(()) };
    let charts = output::charts(outcome);
    if charts.is_empty() {
        return Ok(());
    }
    let name = output::chart_name(outcome.item);
    write_charts(&directory.join(name), outcome.item.id, "", &charts)?;
    Ok(stdout().flush()?)
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    bar
}

/// Describes the run for the page at `path`.
fn described(args: &RunArgs, path: &Path) -> output::Run {
    let command = std::iter::once("evidence".to_owned()).chain(std::env::args().skip(1));
    let command: Vec<String> = command.collect();
    let commit = provenance::commit().map(|commit| format!("commit {commit}"));
    let when: Vec<String> = provenance::date().into_iter().chain(commit).collect();
    let beside = path.parent().unwrap_or(Path::new(""));
    let charts = args.plot.as_ref().map(|plot| plot.strip_prefix(beside).unwrap_or(plot));
    output::Run {
        command: command.join(" "),
        machine: provenance::machine(),
        when: when.join(", "),
        scale: args.scale,
        charts: charts.map(|charts| charts.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        run: RunArgs,
    }

    fn outcome(id: &str, state: State) -> Outcome {
        let item = registry::find(&[id.to_owned()]).unwrap()[0];
        Outcome { item, state, verdict: None, points: Vec::new(), served_by: String::new(), seconds: 0.0 }
    }

    #[test]
    fn a_failed_experiment_is_an_error_that_names_its_items() {
        let done = outcome("silt/figure-8", State::Done);
        let not_done = outcome("silt/table-3", State::NotDone("a rule"));
        check_none_failed(&[done, not_done]).unwrap();
        let failed = outcome("silt/figure-7", State::Failed("no space".to_owned()));
        let error = check_none_failed(&[failed]).unwrap_err().to_string();
        assert_eq!(error, "1 item failed: silt/figure-7");
    }

    #[test]
    fn only_complete_outcomes_are_drawn() {
        use siltstone_evidence::experiments::quantities::MEMORY;

        let directory = tempfile::tempdir().unwrap();
        let plot = directory.path().to_str().unwrap();
        let Arguments { run } = Arguments::parse_from(["run", "--plot", plot, "silt/figure-8"]);
        let is_drawn = |state| {
            let mut outcome = outcome("silt/figure-8", state);
            outcome.points = vec![MEMORY.at("a", 1.0).calculated(1.0), MEMORY.at("a", 2.0).calculated(3.0)];
            ended(&outcome, &run).unwrap();
            std::fs::read_dir(plot).unwrap().count() == 1
        };
        assert!(!is_drawn(State::Failed("no space".to_owned())) && is_drawn(State::Done));
    }
}

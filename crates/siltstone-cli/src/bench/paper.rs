//! `siltstone bench paper`: the experiments of papers.

use super::Session;
use crate::outcome::{Result, help};
use crate::output::deliver_charts;
use anyhow::bail;
use clap::Args;
use siltstone_bench::chart;
use siltstone_bench::named::by_name;
use siltstone_bench::papers::{self, Experiment, Figure, Settings};
use siltstone_bench::place::Place;
use std::path::PathBuf;

const EXAMPLES: &str = "
  siltstone bench paper flashkey-workloads --access direct-or-buffered
  siltstone bench paper flashkey-workloads --num 50e6 --db DIR --space 1.24
  siltstone bench paper flashkey-cleaning --db /dev/shm/cleaning --num 1e6
  siltstone bench paper flashstore-recycling --db /dev/shm/recycling --gets-per-put 19
  siltstone bench paper flashstore-shares --num 1e6 --db DIR --disk SLOW --access direct-or-buffered
  siltstone bench paper bloomstore-prefilter --num 1e6 --access direct-or-buffered --plot prefilter.svg
  siltstone bench paper bloomstore-compare --trace linux --num 1e6 --access direct-or-buffered --plot compare.svg
  siltstone bench paper flashkey-cleaning --skew 0,0.99 --space 1.11,1.18,1.25,1.43,1.67 --plot cleaning.svg";

/// Run the experiments of papers, with the papers' figures next to what is measured
///
/// The defaults are small and take a minute or two. Cleaning is counted, not timed, so a directory in memory gives the
/// same figures sooner. The charts of papers that compare stores are drawn by bench-compare.
#[derive(Args)]
#[command(after_help = help_with_experiments())]
pub struct PaperArgs {
    /// Experiment
    #[arg(value_parser = by_name::<Experiment>(), hide_possible_values = true)]
    experiment: Experiment,
    /// Draw the appends per put of cleaning over the space, the lookups of stores over the memory, or what BloomStore
    /// costs over its settings, into this file
    #[arg(long, value_name = "FILE.svg|html", value_parser = chart::parse_path)]
    plot: Option<PathBuf>,
    /// Print one line of JSON per figure
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

fn help_with_experiments() -> String {
    let line = |experiment: &Experiment| {
        format!("  {:<22}{}\n", experiment.name().replace('_', "-"), experiment.about())
    };
    let names: String = Experiment::ALL.iter().map(line).collect();
    format!("Experiments:\n{names}\n{}", help(EXAMPLES))
}

pub fn run(args: PaperArgs) -> Result {
    let PaperArgs { experiment, plot, json, mut settings } = args;
    let is_of_bloomstore = experiment.name().starts_with("bloomstore");
    if plot.is_some() && experiment != Experiment::FlashkeyCleaning && !is_of_bloomstore {
        bail!("only flashkey-cleaning and the experiments of BloomStore have charts of their own");
    }
    let place = Place::prepare(settings.db.as_deref())?;
    let session = Session::begin(place, json, &format!("{} records", settings.num))?;
    settings.stop = session.interrupt.flag();
    let mut measured: Vec<Figure> = Vec::new();
    papers::run(experiment, &settings, &session.place, &mut |figure| {
        let header = if measured.is_empty() { Figure::header() + "\n" } else { String::new() };
        measured.push(figure.clone());
        session.print(figure, || header + &figure.line() + "\n")
    })?;
    if let Some(path) = &plot
        && experiment == Experiment::BloomstoreCompare
    {
        deliver_charts(path, "BloomStore and other stores", "", &papers::compare_charts(&measured))?;
    } else if let Some(path) = plot.as_ref().filter(|_| is_of_bloomstore) {
        deliver_charts(path, "BloomStore", "", &papers::sweep_charts(&measured))?;
    } else if let Some(path) = &plot {
        let of_cases: Vec<_> = papers::cases(&settings).into_iter().zip(measured).collect();
        deliver_charts(path, "Cleaning of FlashKey's logs", "", &[papers::chart(&of_cases)])?;
    }
    Ok(session.end())
}

//! `evidence paper`: the experiments of papers.

use super::print;
use super::write_charts;
use anyhow::Result;
use anyhow::bail;
use clap::Args;
use siltstone_bench::chart;
use siltstone_bench::named::by_name;
use siltstone_bench::place::Place;
use siltstone_command::interrupt::Interrupt;
use siltstone_evidence::experiments::{self as papers, Experiment, Figure, Settings};
use std::path::PathBuf;

const EXAMPLES: &str = "
  evidence paper flashkey-workloads --access direct-or-buffered
  evidence paper flashkey-workloads --num 50e6 --db DIR --space 1.24
  evidence paper flashkey-cleaning --db /dev/shm/cleaning --num 1e6
  evidence paper flashstore-recycling --db /dev/shm/recycling --gets-per-put 19
  evidence paper flashstore-shares --num 1e6 --db DIR --disk SLOW --access direct-or-buffered
  evidence paper bloomstore-prefilter --num 1e6 --access direct-or-buffered --plot prefilter.svg
  evidence paper bloomstore-compare --trace linux --num 1e6 --access direct-or-buffered --plot compare.svg
  evidence paper flashkey-cleaning --skew 0,0.99 --space 1.11,1.18,1.25,1.43,1.67 --plot cleaning.svg";

/// Run the experiments of papers, with the papers' figures next to what is measured
///
/// The defaults are small and take a minute or two. Cleaning is counted, not timed, so a directory in memory gives the
/// same figures sooner.
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
    format!("Experiments:\n{names}\n{}", super::help(EXAMPLES))
}

pub fn run(args: PaperArgs) -> Result<()> {
    let PaperArgs { experiment, plot, json, mut settings } = args;
    let is_of_bloomstore = experiment.name().starts_with("bloomstore");
    if plot.is_some() && experiment != Experiment::FlashkeyCleaning && !is_of_bloomstore {
        bail!("only flashkey-cleaning and the experiments of BloomStore have charts of their own");
    }
    let place = Place::prepare(settings.db.as_deref())?;
    settings.stop = Interrupt::listen()?.flag();
    let mut measured: Vec<Figure> = Vec::new();
    papers::run(experiment, &settings, &place, &mut |figure| {
        let header = if measured.is_empty() { Figure::header() + "\n" } else { String::new() };
        measured.push(figure.clone());
        print(figure, json, || header + &figure.line() + "\n").map_err(std::io::Error::other)
    })?;
    if let Some(path) = &plot
        && experiment == Experiment::BloomstoreCompare
    {
        write_charts(path, "BloomStore and other stores", "", &papers::compare_charts(&measured))?;
    } else if let Some(path) = plot.as_ref().filter(|_| is_of_bloomstore) {
        write_charts(path, "BloomStore", "", &papers::sweep_charts(&measured))?;
    } else if let Some(path) = &plot {
        let of_cases: Vec<_> = papers::cases(&settings).into_iter().zip(measured).collect();
        write_charts(path, "Cleaning of FlashKey's logs", "", &[papers::chart(&of_cases)])?;
    }
    Ok(())
}

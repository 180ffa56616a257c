//! The page `docs/EVIDENCE.md`.
//!
//! ```text
//!   machine, drive, date, commit, scale, command
//!   table of verdicts; the worse values, with reasons; how to refute the page
//!   for each paper: a section for each item that was run, with the rows that have a value of the paper
//!   a table of the items that were not run, with reasons
//! ```

use super::number;
use crate::point::{Point, Verdict};
use crate::registry::{Item, Outcome, Paper, State};
use std::fmt::Write;

/// An item with more points than this shows only those with a value of the paper.
const ROWS_MAX: usize = 40;
/// The most points of an item without any value of the paper.
const WITHOUT_PAPER_MAX: usize = 12;

/// What was run, and on what.
#[derive(Debug)]
pub struct Run {
    /// The command, as it was typed.
    pub command: String,
    /// The processors and the system.
    pub machine: String,
    /// The date and the commit, if they are known.
    pub when: String,
    /// The size of experiments.
    pub scale: f64,
    /// The directory of charts, relative to the page, if they are drawn.
    pub charts: Option<String>,
}

/// Returns the page of all outcomes.
pub fn page(outcomes: &[Outcome], run: &Run) -> String {
    let mut text =
        "# Evidence\n\nThe tables and figures of the papers that Siltstone implements, next to what is \
                    measured here, each value next to the\nsame quantity in the same unit.\n\n"
            .to_owned();
    head(&mut text, outcomes, run);
    summary(&mut text, outcomes);
    worse(&mut text, outcomes);
    text.push_str(REFUTE);
    for paper in Paper::ALL {
        let is_shown = |outcome: &&Outcome| outcome.item.paper == paper && outcome.state == State::Done;
        let shown: Vec<&Outcome> = outcomes.iter().filter(is_shown).collect();
        if !shown.is_empty() {
            let _ = writeln!(text, "## {}\n", paper.title());
            shown.iter().for_each(|outcome| section(&mut text, outcome, run));
        }
    }
    not_done(&mut text, outcomes);
    text
}

/// Commands whose counts are the same on every machine.
const REFUTE: &str = "\
## How to refute this

Counts do not depend on the speed of a machine, and these are the same in each run. `evidence` is
`cargo run --release --manifest-path evidence/Cargo.toml --`. Each command takes less than a minute, once it is built;
the values to compare are in the sections of the items below.

1. Reads of flash per get, and memory per key, of FlashKey's hash table: `evidence run flashkey/section-v-a-1`.
2. Memory, writes and reads of BloomStore while keys are added: `evidence run bloomstore/growth`.
3. Formulas: `evidence run silt/figure-8 flashkey/section-vi-c ect/figure-3.3`.

";

fn head(text: &mut String, outcomes: &[Outcome], run: &Run) {
    let Run { command, machine, when, scale, .. } = run;
    let scale = number(*scale);
    let _ = writeln!(text, "| | |\n|---|---|");
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "| {name} | {value} |");
    };
    row("command", format!("`{command}`, scale {scale}"));
    row("date, commit", when.clone());
    row("machine", machine.clone());
    if let Some(drive) = drive(outcomes) {
        row("drive", drive);
    }
    let serving: Vec<&str> = outcomes.iter().filter(|outcome| has_rates(outcome)).map(served_by).collect();
    let mut kinds = serving.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let share = |kind: &str| serving.iter().filter(|other| **other == kind).count();
    let served: Vec<String> =
        kinds.iter().map(|kind| format!("by {kind} in {} of the items with rates", share(kind))).collect();
    if !served.is_empty() {
        row("gets are served", format!("{}; each item says it", served.join(", ")));
    }
    text.push_str(
        "\nCounts are of a run without background threads, and the same in each run. Memory and space are read when no \
         background\nwork is left. Rates are medians of three runs, with their range; those of gets that the page \
         cache serves are of the\ncode and the processors, not of the drive.\n\n",
    );
}

fn has_rates(outcome: &Outcome) -> bool {
    outcome.points.iter().any(Point::is_rate)
}

fn served_by(outcome: &Outcome) -> &str {
    &outcome.served_by
}

/// The item with the raw rates of the drive.
const DRIVE: &str = "flashstore/figure-2";

/// Returns the raw rates of the drive, if they were measured.
fn drive(outcomes: &[Outcome]) -> Option<String> {
    let outcome = outcomes.iter().find(|outcome| outcome.item.id == DRIVE && outcome.state == State::Done)?;
    let rate = |point: &Point| {
        let rate = point.measured?.spread.median;
        point.series.contains(" of ").then(|| format!("{} {}", number(rate), point.series))
    };
    let rates: Vec<String> = outcome.points.iter().filter_map(rate).collect();
    let direct = match outcome.served_by.as_str() {
        "the drive" => "with direct I/O".to_owned(),
        other => format!("served by {other}"),
    };
    Some(format!("per second, 64 in flight, {direct}: {}", rates.join(", ")))
}

/// The columns of the table of verdicts.
const COLUMNS: [&str; 5] = ["worse", "reproduced", "better", "not comparable", "not done"];

fn column_of(outcome: &Outcome) -> &'static str {
    outcome.verdict.map_or("not done", Verdict::name)
}

fn summary(text: &mut String, outcomes: &[Outcome]) {
    let _ = writeln!(text, "| paper | {} |\n|---|{}", COLUMNS.join(" | "), "---:|".repeat(COLUMNS.len()));
    let mut row = |title: &str, is_of_it: &dyn Fn(&Outcome) -> bool| {
        let count = |column: &&str| {
            let of_it = |outcome: &&Outcome| is_of_it(outcome) && column_of(outcome) == *column;
            outcomes.iter().filter(of_it).count().to_string()
        };
        let counts: Vec<String> = COLUMNS.iter().map(count).collect();
        let _ = writeln!(text, "| {title} | {} |", counts.join(" | "));
    };
    for paper in Paper::ALL {
        if outcomes.iter().any(|outcome| outcome.item.paper == paper) {
            row(paper.title(), &|outcome| outcome.item.paper == paper);
        }
    }
    row("all", &|_| true);
    text.push('\n');
}

fn worse(text: &mut String, outcomes: &[Outcome]) {
    let line = |outcome: &Outcome| {
        let Item { id, what, worse, .. } = outcome.item;
        let reason = if worse.is_empty() { String::new() } else { format!(": {worse}") };
        format!("- `{id}`, {what}{reason}.")
    };
    let is_worse = |outcome: &&Outcome| outcome.verdict == Some(Verdict::Worse);
    let worse: Vec<String> = outcomes.iter().filter(is_worse).map(line).collect();
    if !worse.is_empty() {
        let _ = writeln!(text, "Worse than the paper, in at least one value:\n\n{}\n", worse.join("\n"));
    }
}

fn section(text: &mut String, outcome: &Outcome, run: &Run) {
    let Outcome { item, verdict, .. } = outcome;
    let _ = writeln!(text, "### {}: {}\n", item.place, item.what);
    let verdict = match verdict {
        Some(Verdict::NotComparable(why)) => format!("not comparable: {why}"),
        Some(verdict) => verdict.name().to_owned(),
        None => String::new(),
    };
    let _ = write!(text, "`evidence run {}`: {verdict}", item.id);
    if has_rates(outcome) {
        let _ = write!(text, "; gets are served by {}", outcome.served_by);
    }
    if !item.lacks.is_empty() {
        let _ = write!(text, ". Without: {}", item.lacks);
    }
    text.push_str(".\n\n");
    table(text, outcome, run);
}

/// Returns the rows to show: those with a value of the paper, else some if there are few.
fn shown(points: &[Point]) -> Vec<&Point> {
    let with_paper: Vec<&Point> = points.iter().filter(|point| point.paper.is_some()).collect();
    match with_paper.is_empty() {
        false => with_paper,
        true if points.len() <= ROWS_MAX => points.iter().take(WITHOUT_PAPER_MAX).collect(),
        true => Vec::new(),
    }
}

fn table(text: &mut String, outcome: &Outcome, run: &Run) {
    let shown = shown(&outcome.points);
    if !shown.is_empty() {
        text.push_str(
            "| series | quantity | paper | model | here | range | |\n|---|---|---:|---:|---:|---|---|\n",
        );
        shown.iter().for_each(|point| row(text, outcome.item, point));
        text.push('\n');
    }
    let further = outcome.points.len() - shown.len();
    if further == 0 {
        return;
    }
    let chart = match &run.charts {
        Some(charts) if !super::charts(outcome).is_empty() => {
            format!(", and [drawn]({charts}/{})", super::chart_name(outcome.item))
        }
        _ => String::new(),
    };
    let word = if shown.is_empty() { "" } else { " further" };
    let _ = writeln!(text, "{further}{word} points are printed by the command{chart}.\n");
}

fn row(text: &mut String, item: &Item, point: &Point) {
    let Point { series, x, quantity, paper, model, measured, .. } = point;
    let at = if *x == 0.0 { String::new() } else { format!(" at {}", number(*x)) };
    let cell = |value: Option<f64>| value.map_or(String::new(), number);
    let spread = measured.map(|measured| measured.spread);
    let range = spread
        .filter(|spread| spread.n > 1)
        .map_or(String::new(), |spread| format!("{} to {}", number(spread.lowest), number(spread.highest)));
    let _ = writeln!(
        text,
        "| {series}{at} | {}, {} | {} | {} | {} | {range} | {} |",
        quantity.name,
        quantity.unit,
        cell(paper.map(|paper| paper.number())),
        cell(*model),
        cell(spread.map(|spread| spread.median)),
        super::verdict(item, point),
    );
}

fn not_done(text: &mut String, outcomes: &[Outcome]) {
    let reason = |state: &State| match state {
        State::Done => None,
        State::NotDone(reason) => Some((*reason).to_owned()),
        State::NeedsPeers(stores) => Some(format!("not run: it needs {stores}")),
        State::OverBudget => Some("not run: it would have ended after the budget of time".to_owned()),
        State::Failed(error) => Some(format!("it failed: {error}")),
    };
    let line = |outcome: &Outcome| {
        let Item { id, place, what, .. } = outcome.item;
        reason(&outcome.state).map(|reason| format!("| `{id}` | {place}: {what} | {reason} |\n"))
    };
    let lines: String = outcomes.iter().filter_map(line).collect();
    if !lines.is_empty() {
        let _ = write!(text, "## Not done\n\n| id | what | reason |\n|---|---|---|\n{lines}");
    }
}

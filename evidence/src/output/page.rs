//! The page `docs/EVIDENCE.md`: verdicts, the worse first, and a table for each paper.

use super::number;
use crate::point::{Point, Verdict};
use crate::registry::{Outcome, Paper, State};
use std::fmt::Write;

/// The most points of an item in its table; others are in its chart.
const POINTS_MAX: usize = 12;

/// Returns the page of all outcomes. `command` is what was run, `machine` what it ran on.
pub fn page(outcomes: &[Outcome], command: &str, machine: &str) -> String {
    let mut text = format!(
        "# Evidence\n\nThe tables and figures of the papers that Siltstone implements, next to what is measured here. \
         This page is the output of\n`{command}`, {machine}. The paper's value is next to the same quantity in the \
         same unit.\nCounts are of a run without background threads, and the same in each run; memory and space are \
         read when no background work is\nleft; rates are medians of several runs, with their range.\n\n"
    );
    summary(&mut text, outcomes);
    worse(&mut text, outcomes);
    for paper in Paper::ALL {
        let of_paper: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.item.paper == paper).collect();
        if !of_paper.is_empty() {
            let _ = writeln!(text, "## {}\n", paper.title());
            of_paper.iter().for_each(|outcome| section(&mut text, outcome));
        }
    }
    text
}

/// The columns of the table of verdicts.
const COLUMNS: [&str; 5] = ["worse", "reproduced", "better", "not comparable", "not done"];

fn column_of(outcome: &Outcome) -> &'static str {
    outcome.verdict.map_or("not done", Verdict::name)
}

fn summary(text: &mut String, outcomes: &[Outcome]) {
    let _ = writeln!(text, "| paper | {} |\n|---|{}", COLUMNS.join(" | "), "---:|".repeat(COLUMNS.len()));
    for paper in Paper::ALL {
        let count = |column: &&str| {
            let of_it = |outcome: &&Outcome| outcome.item.paper == paper && column_of(outcome) == *column;
            outcomes.iter().filter(of_it).count().to_string()
        };
        let counts: Vec<String> = COLUMNS.iter().map(count).collect();
        let _ = writeln!(text, "| {} | {} |", paper.title(), counts.join(" | "));
    }
    text.push('\n');
}

fn worse(text: &mut String, outcomes: &[Outcome]) {
    let worse: Vec<String> = outcomes
        .iter()
        .filter(|outcome| outcome.verdict == Some(Verdict::Worse))
        .map(|outcome| format!("- `{}`: {}", outcome.item.id, outcome.item.what))
        .collect();
    if !worse.is_empty() {
        let _ = writeln!(text, "Worse than the paper, in at least one value:\n\n{}\n", worse.join("\n"));
    }
}

fn section(text: &mut String, outcome: &Outcome) {
    let Outcome { item, state, verdict, points, served_by, .. } = outcome;
    let _ = writeln!(text, "### {}: {}\n", item.place, item.what);
    match state {
        State::Done => {
            let verdict = match verdict {
                Some(Verdict::NotComparable(why)) => format!("not comparable: {why}"),
                Some(verdict) => verdict.name().to_owned(),
                None => String::new(),
            };
            let _ = write!(text, "`evidence run {}`: {verdict}", item.id);
            if points.iter().any(Point::is_rate) {
                let _ = write!(text, "; gets are served by {served_by}");
            }
            if !item.lacks.is_empty() {
                let _ = write!(text, ". Without: {}", item.lacks);
            }
            text.push_str(".\n\n");
            table(text, points);
        }
        State::NotDone(reason) => {
            let _ = writeln!(text, "Not done: {reason}.\n");
        }
        State::NeedsPeers(stores) => {
            let _ = writeln!(text, "Not run: it needs {stores}.\n");
        }
        State::OverBudget => text.push_str("Not run: it would have ended after the budget of time.\n\n"),
        State::Failed(error) => {
            let _ = writeln!(text, "It failed: {error}.\n");
        }
    }
}

/// Writes the points with a value of the paper, or the first ones if there are none.
fn table(text: &mut String, points: &[Point]) {
    let with_paper: Vec<&Point> = points.iter().filter(|point| point.paper.is_some()).collect();
    let shown = if with_paper.is_empty() { points.iter().take(POINTS_MAX).collect() } else { with_paper };
    if shown.is_empty() {
        return;
    }
    text.push_str("| series | quantity | paper | model | here | range |\n|---|---|---:|---:|---:|---|\n");
    for point in &shown {
        let Point { series, x, quantity, paper, model, measured } = point;
        let at = if *x == 0.0 { String::new() } else { format!(" at {}", number(*x)) };
        let cell = |value: Option<f64>| value.map_or(String::new(), number);
        let spread = measured.map(|measured| measured.spread);
        let range = spread.filter(|spread| spread.n > 1).map_or(String::new(), |spread| {
            format!("{} to {}", number(spread.lowest), number(spread.highest))
        });
        let _ = writeln!(
            text,
            "| {series}{at} | {}, {} | {} | {} | {} | {range} |",
            quantity.name,
            quantity.unit,
            cell(paper.map(|paper| paper.number())),
            cell(*model),
            cell(spread.map(|spread| spread.median)),
        );
    }
    text.push('\n');
    if shown.len() < points.len() {
        let _ = writeln!(text, "{} further points are printed by the command.\n", points.len() - shown.len());
    }
}

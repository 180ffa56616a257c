//! Outcomes as lines of text.

use super::number;
use crate::point::{Point, Verdict};
use crate::quantity::Value;
use crate::registry::{Item, Outcome, Run, State};

/// Returns a line for an item: its name, state, seconds at scale 1, and what it shows.
pub fn list(item: &Item) -> String {
    let cost = item.experiment().map_or(String::new(), |experiment| format!("{} s", experiment.cost_s));
    let mut line = format!("{:32} {:9} {cost:>6}  {}: {}", item.id, item.state(), item.place, item.what);
    if let Run::NotDone(reason) = item.run {
        line += &format!(" (not done: {reason})");
    } else if !item.lacks.is_empty() {
        line += &format!(" (without: {})", item.lacks);
    }
    line + "\n"
}

/// Returns the lines of an outcome: its verdict, and a line for each point.
pub fn lines(outcome: &Outcome) -> String {
    let Outcome { item, state, verdict, points, .. } = outcome;
    let verdict = match state {
        State::Done => match verdict {
            Some(Verdict::NotComparable(why)) => format!("not comparable: {why}"),
            verdict => verdict.map_or("", Verdict::name).to_owned(),
        },
        State::NotDone(reason) => format!("not done: {reason}"),
        State::NeedsPeers(stores) => {
            format!("needs {stores}: run evidence/setup, and build with the feature peers")
        }
        State::OverBudget => "not run: it would end after the budget of time".to_owned(),
        State::Failed(error) => format!("failed: {error}"),
    };
    let mut text = format!("{}, {}: {}: {verdict}\n", item.id, item.place, item.what);
    if !points.is_empty() {
        text += &format!(
            "  {:44} {:>9} {:40} {:>10} {:>10} {:>10}\n",
            "series", "x", "quantity", "paper", "model", "measured"
        );
    }
    points.iter().for_each(|point| text += &line(item, point));
    text
}

fn line(item: &Item, point: &Point) -> String {
    let Point { series, x, quantity, paper, model, measured, .. } = point;
    let x = if *x == 0.0 { String::new() } else { number(*x) };
    let quantity = format!("{}, {}", quantity.name, quantity.unit);
    let paper = paper.map_or(String::new(), shown);
    let model = model.map_or(String::new(), number);
    let spread = measured.map(|measured| measured.spread);
    let median = spread.map_or(String::new(), |spread| number(spread.median));
    let range = spread.filter(|spread| spread.n > 1).map_or(String::new(), |spread| {
        format!("  {} to {}, {} runs", number(spread.lowest), number(spread.highest), spread.n)
    });
    let verdict = match super::verdict(item, point) {
        none if none.is_empty() => none,
        verdict => format!("  {verdict}"),
    };
    format!("  {series:44} {x:>9} {quantity:40} {paper:>10} {model:>10} {median:>10}{range}{verdict}\n")
}

/// Formats a value of a paper; one that was read off a picture with its error.
fn shown(value: Value) -> String {
    match value {
        Value::Read { value, error } => format!("{} ± {:.0} %", number(value), error * 100.0),
        Value::Text(value) | Value::Ratio(value) => number(value),
    }
}

//! The outcomes of items as text, as charts, and as a page.

mod charts;
mod page;
mod text;

pub use charts::charts;
pub use page::{Run, page};
pub use text::{lines, list};

use crate::point::Point;
use crate::registry::Item;

/// Returns the name of the file of an item's charts.
pub fn chart_name(item: &Item) -> String {
    format!("{}.svg", item.id.replace('/', "-"))
}

/// Returns the verdict on a point as words, or why there is none; nothing if the paper states no value.
fn verdict(item: &Item, point: &Point) -> String {
    match (item.judged.of_point(point), point.unjudged) {
        (Some(verdict), _) => verdict.name().to_owned(),
        (None, Some(why)) if point.paper.is_some() => format!("not compared: {why}"),
        (None, _) => String::new(),
    }
}

/// Formats a number with four significant digits, and large ones without a fraction.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 1e6 => format!("{value:.3e}"),
        large if large >= 1e3 => format!("{value:.0}"),
        large if large >= 100.0 => format!("{value:.1}"),
        large if large >= 1.0 => format!("{value:.3}"),
        large if large >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

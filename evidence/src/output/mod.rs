//! The outcomes of items as text, as charts, and as a page.

mod charts;
mod page;
mod text;

pub use charts::charts;
pub use page::page;
pub use text::{lines, list};

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

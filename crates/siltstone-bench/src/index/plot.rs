//! The trade-off as a chart: bits per key over nanoseconds per lookup, both on logarithmic scales.

use super::Report;
use crate::{Error, Result};
use plotters::prelude::*;
use std::ops::Range;

/// The size of the picture, in pixels.
const SIZE: (u32, u32) = (960, 640);
const FONT: &str = "sans-serif";

/// A colour for each structure, distinguishable with colour blindness (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(120, 120, 120),
];

/// Draws the reports as an SVG document, with a point for each and a colour for each structure.
///
/// # Errors
/// [`Error::WrongResults`] if there is nothing to draw.
/// [`Error::WrongResults`] if there is nothing to draw.
pub fn plot(reports: &[Report]) -> Result<String> {
    if reports.is_empty() {
        return Err(Error::WrongResults("cannot draw: there are no measurements".to_owned()));
    }
    let mut picture = String::new();
    draw(reports, &mut picture).map_err(|error| Error::WrongResults(format!("cannot draw: {error}")))?;
    Ok(picture)
}

fn draw(reports: &[Report], picture: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(picture, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let keys = reports.iter().map(|report| report.keys).max().unwrap_or_default();
    let nanoseconds = reports.iter().map(|report| report.lookup_ns);
    let bits = reports.iter().map(|report| report.bits_per_key);
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{} keys: memory and time of a lookup", grouped(keys)), (FONT, 20))
        .margin(12)
        .margin_right(28)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(around(nanoseconds).log_scale(), around(bits).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("nanoseconds per lookup (random keys, independent)")
        .y_desc("bits per key")
        .x_label_formatter(&f64::to_string)
        .y_label_formatter(&f64::to_string)
        .label_style((FONT, 13))
        .light_line_style(BLACK.mix(0.06))
        .bold_line_style(BLACK.mix(0.18))
        .draw()?;
    for (number, name) in names(reports).into_iter().enumerate() {
        // Rings follow discs when the colours are used up.
        let colour = COLOURS[number % COLOURS.len()];
        let style = if number < COLOURS.len() { colour.filled() } else { colour.stroke_width(2) };
        let of_it = || reports.iter().filter(|report| report.structure == name);
        let at = |report: &Report| (report.lookup_ns, report.bits_per_key);
        chart
            .draw_series(of_it().map(|report| Circle::new(at(report), 4, style)))?
            .label(name)
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, style));
        chart.draw_series(of_it().map(|report| {
            EmptyElement::at(at(report))
                + Text::new(report.settings(), (7, -6), (FONT, 11).into_font().color(&colour))
        }))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, 13))
        .draw()?;
    area.present()?;
    Ok(())
}

/// Returns the distinct names of the structures, in order.
fn names(reports: &[Report]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for report in reports {
        if !names.contains(&report.structure) {
            names.push(report.structure);
        }
    }
    names
}

/// Returns the smallest range that contains all values and ends at powers of ten, or at two or five times one.
fn around(figures: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = figures
        .filter(|figure| figure.is_finite() && *figure > 0.0)
        .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), figure| (figure.min(low), figure.max(high)));
    let low = low.min(high);
    let round = |figure: f64| {
        let decade = 10f64.powf(figure.log10().floor());
        [1.0, 2.0, 5.0, 10.0].map(|step| step * decade)
    };
    let start = round(low).into_iter().rfind(|step| *step < low).unwrap_or(low / 2.0);
    let end = round(high).into_iter().find(|step| *step > high).unwrap_or(high * 2.0);
    start..end
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_hold_all_figures() {
        assert_eq!(around([0.14, 2.5, 16.1].into_iter()), 0.1..20.0);
        assert_eq!(around([10.0].into_iter()), 5.0..20.0);
        let of_nothing = around([f64::NAN, 0.0].into_iter());
        assert!(of_nothing.start < of_nothing.end);
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([999, 1000, 16_000_000].map(grouped), ["999", "1,000", "16,000,000"]);
    }
}

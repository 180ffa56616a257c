//! Line charts, drawn as SVG.

use crate::output::deliver;
use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;
use std::path::{Path, PathBuf};

const PANEL: (u32, u32) = (980, 520);
/// The width of the legend, at the right of each panel.
const LEGEND_WIDTH: u32 = 230;
const LEGEND_TOP: i32 = 48;
const LEGEND_LINE_HEIGHT: i32 = 20;
/// The exponents of floating-point numbers span no more decades.
const MOST_DECADES: i32 = 700;
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(150, 120, 0),
];

/// Lines on common axes.
pub struct Chart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

/// An axis.
pub struct Axis {
    pub label: String,
    pub logarithmic: bool,
}

/// A named line. A line of a single point is drawn as a dot.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Whether it is drawn lighter than the others.
    pub faint: bool,
}

impl Axis {
    /// Returns the position of a value on the axis: its logarithm if the axis is logarithmic. `None` if it has none.
    fn place(&self, value: f64) -> Option<f64> {
        let place = if self.logarithmic { value.log10() } else { value };
        place.is_finite().then_some(place)
    }

    fn label(&self, place: f64) -> String {
        let value = if self.logarithmic { 10f64.powf(place) } else { place };
        crate::quantity::show_count(value)
    }
}

/// The range of positions of an axis.
struct Scale {
    places: Range<f64>,
    logarithmic: bool,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        let share = (place - self.places.start) / (self.places.end - self.places.start);
        limit.0 + (f64::from(limit.1 - limit.0) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.logarithmic {
            true => round_logarithms(&self.places, hint.max_num_points()),
            false => RangedCoordf64::from(self.places.clone()).key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        self.places.clone()
    }
}

/// Returns the logarithms of round numbers in a range: of all digits, of 1, 2 and 5, or of powers of ten, whichever
/// gives the most ticks without exceeding `most`.
fn round_logarithms(places: &Range<f64>, most: usize) -> Vec<f64> {
    let decades = places.start.floor() as i32..=places.end.floor() as i32;
    let of_digits = |digits: &[f64], step: i32| -> Vec<f64> {
        let decades = decades.clone().filter(|decade| decade % step == 0);
        let ticks =
            decades.flat_map(|decade| digits.iter().map(move |digit| f64::from(decade) + digit.log10()));
        ticks.filter(|tick| places.contains(tick)).collect()
    };
    let all_digits: Vec<f64> = (1..=9).map(f64::from).collect();
    let finer = [of_digits(&all_digits, 1), of_digits(&[1.0, 2.0, 5.0], 1)].into_iter();
    let coarser = (1..=MOST_DECADES).map(|step| of_digits(&[1.0], step));
    finer.chain(coarser).find(|ticks| ticks.len() <= most).unwrap_or_default()
}

impl Chart {
    fn placed(&self, line: &Line) -> Vec<(f64, f64)> {
        let points = line.points.iter();
        points.filter_map(|&(x, y)| Some((self.x.place(x)?, self.y.place(y)?))).collect()
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> anyhow::Result<()> {
        let all: Vec<(f64, f64)> = self.lines.iter().flat_map(|line| self.placed(line)).collect();
        let scale = |axis: &Axis, places: Range<f64>| Scale { places, logarithmic: axis.logarithmic };
        let x = scale(&self.x, range(all.iter().map(|point| point.0), self.x.logarithmic));
        let y = scale(&self.y, range(all.iter().map(|point| point.1), self.y.logarithmic));
        let failed = |error: DrawingAreaErrorKind<_>| anyhow!("cannot draw {}: {error}", self.title);
        let (plot, legend) = area.split_horizontally(area.dim_in_pixel().0 - LEGEND_WIDTH);
        let mut chart = ChartBuilder::on(&plot)
            .margin(12)
            .caption(&self.title, ("sans-serif", 15))
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|place| self.x.label(*place))
            .y_label_formatter(&|place| self.y.label(*place))
            .draw()
            .map_err(failed)?;
        for (number, (line, colour)) in self.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let style =
                colour.mix(if line.faint { 0.7 } else { 1.0 }).stroke_width(if line.faint { 1 } else { 2 });
            let points = self.placed(line);
            match points.as_slice() {
                &[point] => chart.draw_series([Circle::new(point, 4, style.filled())]).map_err(failed)?,
                _ => chart.draw_series(LineSeries::new(points, style)).map_err(failed)?,
            };
            // The legend is to the right of the plot, where it covers no line.
            let height = LEGEND_TOP + number as i32 * LEGEND_LINE_HEIGHT;
            match line.points.len() {
                1 => legend.draw(&Circle::new((13, height), 4, style.filled())).map_err(failed)?,
                _ => legend.draw(&PathElement::new([(4, height), (22, height)], style)).map_err(failed)?,
            }
            let name = Text::new(line.name.as_str(), (28, height - 6), ("sans-serif", 12).into_font());
            legend.draw(&name).map_err(failed)?;
        }
        Ok(())
    }
}

fn range(values: impl Iterator<Item = f64>, logarithmic: bool) -> Range<f64> {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return 0.0..1.0;
    }
    let low = if logarithmic { low } else { low.min(0.0) };
    let margin = ((high - low) * 0.04).max(1e-6);
    (if low == 0.0 { 0.0 } else { low - margin })..high + margin
}

/// Draws the charts side by side, as SVG.
pub fn to_svg(charts: &[Chart]) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let count = charts.len().max(1);
        let root = SVGBackend::with_string(&mut svg, (PANEL.0 * count as u32, PANEL.1)).into_drawing_area();
        root.fill(&WHITE).map_err(|error| anyhow!("cannot draw: {error}"))?;
        for (area, chart) in root.split_evenly((1, count)).iter().zip(charts) {
            chart.draw(area)?;
        }
        root.present().map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    Ok(svg)
}

/// Checks the name of a chart file: its extension gives the format.
pub fn parse_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg" | "html" | "htm") => Ok(path),
        _ => Err("charts are SVG or HTML; use a file name that ends in .svg or .html".to_owned()),
    }
}

/// Writes the charts to a file: an HTML page if its name ends in html, SVG otherwise.
pub fn write(path: &Path, title: &str, charts: &[Chart]) -> anyhow::Result<()> {
    let svg = to_svg(charts)?;
    let is_page = path.extension().is_some_and(|extension| extension == "html" || extension == "htm");
    let text = match is_page {
        true => format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
             <body style=\"font-family:sans-serif\">\n<h1>{title}</h1>\n{svg}\n</body></html>\n"
        ),
        false => svg,
    };
    deliver(Some(path), false, |out| Ok(out.write_all(text.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(logarithmic: bool) -> Chart {
        let axis = |label: &str| Axis { label: label.to_owned(), logarithmic };
        let line = |name: &str, points: &[(f64, f64)]| Line {
            name: name.to_owned(),
            points: points.to_vec(),
            faint: false,
        };
        Chart {
            title: "amplification".to_owned(),
            x: axis("memory"),
            y: axis("writes"),
            lines: vec![
                line("silt", &[(1.0, 9.0), (2.0, 5.0), (f64::INFINITY, 1.0)]),
                line("chosen", &[(2.0, 5.0)]),
                line("nothing", &[]),
            ],
        }
    }

    #[test]
    fn every_line_is_drawn_and_named() {
        for logarithmic in [false, true] {
            let svg = to_svg(&[chart(logarithmic), chart(logarithmic)]).unwrap();
            for wanted in [
                "<svg",
                "amplification",
                "memory",
                "writes",
                "silt",
                "chosen",
                "nothing",
                "<polyline",
                "<circle",
            ] {
                assert!(svg.contains(wanted), "{wanted}");
            }
        }
    }

    #[test]
    fn logarithmic_axes_have_round_ticks() {
        let ticks = |low: f64, high: f64| -> Vec<f64> {
            let ticks = round_logarithms(&(low.log10()..high.log10()), 8);
            ticks.into_iter().map(|tick| (10f64.powf(tick) * 1e6).round() / 1e6).collect()
        };
        assert_eq!(ticks(0.9, 12.0), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(0.5, 1100.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(17.0, 44.0), [20.0, 30.0, 40.0]);
        assert_eq!(ticks(0.9, 2e12), [1.0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12]);
    }

    #[test]
    fn a_file_with_the_extension_html_is_a_page() {
        let directory = tempfile::tempdir().unwrap();
        for (name, start) in [("a.html", "<!DOCTYPE html>"), ("a.svg", "<svg")] {
            let path = directory.path().join(name);
            write(&path, "plan", &[chart(true)]).unwrap();
            assert!(std::fs::read_to_string(path).unwrap().starts_with(start), "{name}");
        }
    }
}

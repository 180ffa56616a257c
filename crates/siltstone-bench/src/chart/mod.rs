//! Charts, drawn as SVG: series of points on two axes ([`Chart`]), and bars ([`BarChart`]).

mod bars;

pub use bars::{Bar, BarChart};

use crate::quantity::show_count;
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The width and the height of a chart, in pixels.
const PANEL: (u32, u32) = (980, 520);
/// The width of the legend, at the right of each panel.
const LEGEND_WIDTH: u32 = 230;
const LEGEND_TOP: i32 = 48;
const LEGEND_LINE_HEIGHT: i32 = 20;
/// The exponents of floating-point numbers span no more decades.
const MOST_DECADES: i32 = 700;
const FONT: &str = "sans-serif";
/// The part of the horizontal axis where texts are to the left of their dots.
const TEXTS_LEFT: f64 = 0.8;
/// Colours that are distinguishable with colour blindness (Okabe and Ito, 2008).
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

/// The same colours on a dark ground, lighter where they need it.
const DARK_COLOURS: [RGBColor; 8] = [
    RGBColor(62, 150, 226),
    RGBColor(255, 127, 42),
    RGBColor(38, 191, 148),
    RGBColor(222, 140, 184),
    RGBColor(230, 159, 0),
    RGBColor(142, 214, 255),
    RGBColor(160, 160, 160),
    RGBColor(200, 170, 50),
];
const DARK_GROUND: RGBColor = RGBColor(22, 27, 34);
const DARK_INK: RGBColor = RGBColor(230, 237, 243);

/// Series on common axes.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The text above the chart.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// Whether its scale is logarithmic.
    pub logarithmic: bool,
}

/// A named series of points.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points. Those without a position on a logarithmic axis are omitted.
    pub points: Vec<(f64, f64)>,
    /// How the points are drawn.
    pub style: Style,
}

/// How a series is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Style {
    /// A line; a dot if there is only one point.
    Line,
    /// A line with a vertical bar at each point, between these two values.
    Ranges(Vec<(f64, f64)>),
    /// A line that is thinner and lighter, in the colour of the series before it.
    FaintLine,
    /// A ring per point, in the colour of the series before it.
    Rings,
    /// A dot per point, with one of these texts next to it.
    Dots(Vec<String>),
}

impl Axis {
    /// Returns the position of a value on the axis: its logarithm if the axis is logarithmic. `None` if it has none.
    fn place(&self, value: f64) -> Option<f64> {
        let place = if self.logarithmic { value.log10() } else { value };
        place.is_finite().then_some(place)
    }

    fn label(&self, place: f64) -> String {
        let value = if self.logarithmic { 10f64.powf(place) } else { place };
        show_count(value)
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

impl Series {
    /// Returns whether its points are drawn as dots.
    fn is_dots(&self) -> bool {
        self.points.len() == 1 || matches!(self.style, Style::Dots(_) | Style::Rings)
    }

    /// Returns whether it has the colour of the series before it.
    fn is_companion(&self) -> bool {
        matches!(self.style, Style::FaintLine | Style::Rings)
    }

    fn line_style(&self, colour: RGBColor) -> ShapeStyle {
        match self.style {
            Style::FaintLine => colour.mix(0.7).stroke_width(1),
            Style::Line | Style::Ranges(_) | Style::Dots(_) | Style::Rings => colour.stroke_width(2),
        }
    }

    /// Draws its row of the legend, which is to the right of the plot, where it covers no line.
    fn draw_name(&self, legend: &Area<'_>, number: usize, colour: RGBColor, dot: ShapeStyle) -> Result<()> {
        let height = LEGEND_TOP + number as i32 * LEGEND_LINE_HEIGHT;
        match self.is_dots() {
            true => legend.draw(&Circle::new((13, height), 4, dot)).map_err(failed)?,
            false => {
                let line = PathElement::new([(4, height), (22, height)], self.line_style(colour));
                legend.draw(&line).map_err(failed)?;
            }
        }
        let name = Text::new(self.name.as_str(), (28, height - 6), (FONT, 12).into_font());
        legend.draw(&name).map_err(failed)
    }
}

impl Chart {
    /// Returns the points of a series on the chart's scales, with their indexes in the series.
    fn placed<'s>(&self, series: &'s Series) -> impl Iterator<Item = (usize, (f64, f64))> + use<'_, 's> {
        let points = series.points.iter().enumerate();
        points.filter_map(|(number, &(x, y))| Some((number, (self.x.place(x)?, self.y.place(y)?))))
    }

    fn draw(&self, area: &Area<'_>) -> Result<()> {
        let all: Vec<(f64, f64)> =
            self.series.iter().flat_map(|series| self.placed(series)).map(|(_, point)| point).collect();
        let scale = |axis: &Axis, places: Range<f64>| Scale { places, logarithmic: axis.logarithmic };
        let x_range = range(all.iter().map(|point| point.0), self.x.logarithmic);
        let texts_left = x_range.start + (x_range.end - x_range.start) * TEXTS_LEFT;
        let x = scale(&self.x, x_range);
        let ranges = self.series.iter().flat_map(|series| match &series.style {
            Style::Ranges(ranges) => ranges.as_slice(),
            _ => &[],
        });
        let ends = ranges.flat_map(|(low, high)| [*low, *high]).filter_map(|value| self.y.place(value));
        let y = scale(&self.y, range(all.iter().map(|point| point.1).chain(ends), self.y.logarithmic));
        let (plot, legend) = area.split_horizontally(area.dim_in_pixel().0.saturating_sub(LEGEND_WIDTH));
        let mut chart = ChartBuilder::on(&plot)
            .margin(12)
            .caption(&self.title, (FONT, 15))
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|place| self.x.label(*place))
            .y_label_formatter(&|place| self.y.label(*place))
            .draw()
            .map_err(failed)?;
        let mut colours = 0;
        for (number, series) in self.series.iter().enumerate() {
            if colours == 0 || !series.is_companion() {
                colours += 1;
            }
            let colour = COLOURS[(colours - 1) % COLOURS.len()];
            // Rings follow discs when the colours are used up.
            let is_ring = series.style == Style::Rings || colours > COLOURS.len();
            let dot = if is_ring { colour.stroke_width(2) } else { colour.filled() };
            if series.is_dots() {
                let dots = self.placed(series).map(|(_, point)| Circle::new(point, 4, dot));
                chart.draw_series(dots).map_err(failed)?;
            } else {
                let line = self.placed(series).map(|(_, point)| point);
                chart.draw_series(LineSeries::new(line, series.line_style(colour))).map_err(failed)?;
            }
            if let Style::Ranges(ranges) = &series.style {
                let bar = |(number, (x, _)): (usize, (f64, f64))| {
                    let (low, high) = ranges.get(number)?;
                    let ends = [(x, self.y.place(*low)?), (x, self.y.place(*high)?)];
                    Some(PathElement::new(ends, colour.stroke_width(1)))
                };
                chart.draw_series(self.placed(series).filter_map(bar)).map_err(failed)?;
            }
            if let Style::Dots(texts) = &series.style {
                let text = |(number, point): (usize, (f64, f64))| {
                    let (side, shift) =
                        if point.0 < texts_left { (HPos::Left, 7) } else { (HPos::Right, -7) };
                    let style = (FONT, 11).into_font().color(&colour).pos(Pos::new(side, VPos::Center));
                    let text = texts.get(number).cloned().unwrap_or_default();
                    EmptyElement::at(point) + Text::new(text, (shift, 0), style)
                };
                chart.draw_series(self.placed(series).map(text)).map_err(failed)?;
            }
            series.draw_name(&legend, number, colour, dot)?;
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

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Converts an error of plotters, which borrows the drawing, to its message.
fn failed(error: impl std::fmt::Display) -> Error {
    Error::Drawing(error.to_string())
}

/// Returns the styles with which a viewer that prefers dark colours draws the document.
fn dark_style() -> String {
    let colour = |RGBColor(red, green, blue)| format!("#{red:02X}{green:02X}{blue:02X}");
    let ground_and_ink = [(WHITE, DARK_GROUND), (BLACK, DARK_INK)];
    let rules =
        ground_and_ink.into_iter().chain(COLOURS.into_iter().zip(DARK_COLOURS)).map(|(light, dark)| {
            let (light, dark) = (colour(light), colour(dark));
            format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}\n")
        });
    let rules: String = rules.collect();
    format!("<style>\n@media (prefers-color-scheme: dark) {{\n{rules}}}\n</style>\n")
}

/// Returns the SVG document that `draw` draws on an area of this size: white, or dark if the viewer prefers that.
fn svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        draw(&root)?;
        root.present().map_err(failed)?;
    }
    let start = svg.find("\n").map_or(0, |end| end + 1);
    svg.insert_str(start, &dark_style());
    Ok(svg)
}

/// Draws the charts below one another, as SVG.
///
/// # Errors
/// [`Error::Drawing`] if a chart cannot be drawn.
pub fn to_svg(charts: &[Chart]) -> Result<String> {
    let count = charts.len().max(1);
    svg((PANEL.0, PANEL.1 * count as u32), |root| {
        let areas = root.split_evenly((count, 1));
        areas.iter().zip(charts).try_for_each(|(area, chart)| chart.draw(area))
    })
}

/// Checks the name of a chart file: its extension gives the format.
///
/// # Errors
/// A message if the extension is neither `svg` nor `html`.
pub fn parse_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg" | "html" | "htm") => Ok(path),
        _ => Err("charts are SVG or HTML; use a file name that ends in .svg or .html".to_owned()),
    }
}

/// Returns the contents of a chart file: an HTML page with `text` above the charts if its name ends in html, SVG
/// otherwise.
///
/// # Errors
/// [`Error::Drawing`] if a chart cannot be drawn.
pub fn document(path: &Path, title: &str, text: &str, charts: &[Chart]) -> Result<String> {
    let svg = to_svg(charts)?;
    let is_page = path.extension().is_some_and(|extension| extension == "html" || extension == "htm");
    if !is_page {
        return Ok(svg);
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text = if text.is_empty() { text } else { format!("<pre>\n{text}</pre>\n") };
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>:root {{ color-scheme: light dark }} body {{ font-family: sans-serif }} \
         pre {{ overflow-x: auto }} svg {{ max-width: 100%; height: auto }}</style>\n\
         <body>\n<h1>{title}</h1>\n{text}{svg}\n</body></html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(logarithmic: bool) -> Chart {
        let axis = |label: &str| Axis { label: label.to_owned(), logarithmic };
        let series = |name: &str, points: &[(f64, f64)], style: Style| Series {
            name: name.to_owned(),
            points: points.to_vec(),
            style,
        };
        let texts = ["left out", "g=64", "g=128"].map(str::to_owned).to_vec();
        Chart {
            title: "amplification".to_owned(),
            x: axis("memory"),
            y: axis("writes"),
            series: vec![
                series("silt", &[(1.0, 9.0), (2.0, 5.0), (f64::INFINITY, 1.0)], Style::Line),
                series("model", &[(1.0, 8.0), (2.0, 5.0)], Style::FaintLine),
                series("paper", &[(1.0, 7.0), (2.0, 5.0)], Style::Rings),
                series("spread", &[(1.0, 7.0), (2.0, 4.0)], Style::Ranges(vec![(6.0, 8.0), (3.0, 5.0)])),
                series("chosen", &[(2.0, 5.0)], Style::Line),
                series("nothing", &[], Style::Line),
                series("measured", &[(f64::NAN, 2.0), (1.0, 3.0), (2.0, 4.0)], Style::Dots(texts)),
            ],
        }
    }

    #[test]
    fn every_series_is_drawn_and_named() {
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
                "measured",
                "g=64",
                "g=128",
                "<polyline",
                "<circle",
            ] {
                assert!(svg.contains(wanted), "{wanted}");
            }
            assert!(!svg.contains("left out"), "the text of a point that has no position");
        }
    }

    #[test]
    fn every_colour_of_a_chart_has_one_for_a_dark_ground() {
        let svg = to_svg(&[chart(false)]).unwrap();
        let (style, drawing) = svg.split_once("</style>").unwrap();
        assert!(style.contains("prefers-color-scheme: dark"));
        for attribute in ["fill=\"#", "stroke=\"#"] {
            let colours: Vec<&str> = drawing.split(attribute).skip(1).map(|rest| &rest[..6]).collect();
            assert!(colours.len() > 10);
            let missing: Vec<_> = colours
                .iter()
                .filter(|colour| !style.contains(&format!("[{attribute}{colour}\"]")))
                .collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    }

    #[test]
    fn companions_have_the_colour_of_their_series_and_ranges_are_bars() {
        let svg = to_svg(&[chart(false)]).unwrap();
        let drawing = svg.split_once("</style>").unwrap().1;
        let [first, second] = [0, 1].map(|number| {
            let RGBColor(red, green, blue) = COLOURS[number];
            format!("#{red:02X}{green:02X}{blue:02X}")
        });
        let lines = |colour: &str, what: &str| {
            drawing
                .lines()
                .filter(|line| line.contains(what) && line.contains(&format!("\"{colour}\"")))
                .count()
        };
        // Two lines and two rings with their rows of the legend; a line with its row, and a bar per point.
        assert_eq!((lines(&first, "<polyline"), lines(&first, "<circle")), (4, 3), "{svg}");
        assert_eq!((lines(&second, "<polyline"), lines(&second, "<circle")), (4, 0), "{svg}");
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
        for (name, start) in [("a.html", "<!DOCTYPE html>"), ("a.svg", "<svg")] {
            let text = document(Path::new(name), "plan", "a < b", &[chart(true)]).unwrap();
            assert!(text.starts_with(start), "{name}");
            assert_eq!(text.contains("<pre>\na &lt; b</pre>"), name.ends_with("html"), "{name}");
        }
    }
}

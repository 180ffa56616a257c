//! Horizontal bars, one per name.

use super::{COLOURS, FONT, failed, svg};
use crate::Result;
use crate::quantity::show_count;
use plotters::prelude::*;

const WIDTH: u32 = 900;
const BAR_HEIGHT: u32 = 34;
const MARGINS_HEIGHT: u32 = 110;
const NAMES_WIDTH: u32 = 180;
const HIGHLIGHTED: RGBColor = COLOURS[0];
const OTHERS: RGBColor = RGBColor(150, 150, 150);

/// Bars on a common axis, which begins at 0.
#[derive(Debug, Clone)]
pub struct BarChart {
    /// The text above the chart.
    pub title: String,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
    /// A value that is drawn as a line across all bars, and its name.
    pub reference: Option<(String, f64)>,
}

/// A bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// The text to its left.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// The text to its right: the formatted value.
    pub text: String,
    /// Whether it has a colour; other bars are grey.
    pub highlighted: bool,
}

impl BarChart {
    /// Draws the chart as SVG. Returns `None` if no value is positive.
    ///
    /// # Errors
    /// [`Drawing`](crate::Error::Drawing) if it cannot be drawn.
    pub fn to_svg(&self) -> Result<Option<String>> {
        let reference = self.reference.iter().map(|(_, value)| *value);
        let most = self.bars.iter().map(|bar| bar.value).chain(reference).fold(0.0, f64::max);
        if most <= 0.0 {
            return Ok(None);
        }
        let count = self.bars.len();
        let drawing = svg((WIDTH, BAR_HEIGHT * count as u32 + MARGINS_HEIGHT), |root| {
            let mut chart = ChartBuilder::on(root)
                .caption(&self.title, (FONT, 20))
                .margin(12)
                .margin_right(40)
                .x_label_area_size(30)
                .y_label_area_size(NAMES_WIDTH)
                .build_cartesian_2d(0.0..most * 1.15, 0.0..count as f64)
                .map_err(failed)?;
            let mut mesh = chart.configure_mesh();
            mesh.disable_y_mesh().disable_y_axis().x_label_formatter(&|value| show_count(*value)).x_labels(6);
            mesh.draw().map_err(failed)?;
            let style = (FONT, 14).into_font().color(&BLACK);
            for (low, bar) in self.bars.iter().rev().enumerate() {
                let low = low as f64;
                let colour = if bar.highlighted { HIGHLIGHTED } else { OTHERS };
                let rectangle = Rectangle::new([(0.0, low + 0.18), (bar.value, low + 0.82)], colour.filled());
                chart.draw_series([rectangle]).map_err(failed)?;
                let text_at = (bar.value + most * 0.01, low + 0.66);
                chart.draw_series([Text::new(bar.text.clone(), text_at, style.clone())]).map_err(failed)?;
                let (_, middle) = chart.backend_coord(&(0.0, low + 0.66));
                root.draw(&Text::new(bar.name.as_str(), (14, middle), style.clone())).map_err(failed)?;
            }
            if let Some((name, value)) = &self.reference {
                let line =
                    PathElement::new([(*value, 0.0), (*value, count as f64)], HIGHLIGHTED.stroke_width(2));
                chart.draw_series([line]).map_err(failed)?;
                let style = (FONT, 13).into_font().color(&HIGHLIGHTED);
                let label = Text::new(name.clone(), (*value + most * 0.005, 0.12), style);
                chart.draw_series([label]).map_err(failed)?;
            }
            Ok(())
        })?;
        Ok(Some(drawing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(value: f64) -> BarChart {
        let bar = |name: &str, value: f64| Bar {
            name: name.to_owned(),
            value,
            text: format!("{value:.2} M"),
            highlighted: name == "silt",
        };
        BarChart {
            title: "gets".to_owned(),
            bars: vec![bar("silt", value), bar("other", value / 2.0)],
            reference: Some(("device".to_owned(), value * 2.0)),
        }
    }

    #[test]
    fn every_bar_is_drawn_and_named() {
        let svg = chart(3.0).to_svg().unwrap().unwrap();
        for wanted in ["gets", "silt", "other", "3.00 M", "1.50 M", "device", "#0072B2", "#969696"] {
            assert!(svg.contains(wanted), "{wanted}");
        }
    }

    #[test]
    fn without_a_positive_value_there_is_no_chart() {
        assert_eq!(chart(0.0).to_svg().unwrap(), None);
    }
}

//! Charts of the points of an item: one for each quantity, over the axis of the item.

use crate::point::Point;
use crate::registry::{Item, Outcome};
use siltstone_bench::chart::{Axis, Chart, Series, Style};

/// Values that differ by this factor have a logarithmic axis.
const LOGARITHMIC_FROM: f64 = 30.0;

/// Returns the charts of an outcome; none if the item has no horizontal axis.
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let Outcome { item, points, .. } = outcome;
    if item.x.is_empty() {
        return Vec::new();
    }
    let mut quantities = Vec::new();
    for point in points {
        if !quantities.contains(&point.quantity) {
            quantities.push(point.quantity);
        }
    }
    let chart = |quantity: &crate::quantity::Described| {
        let of_it: Vec<&Point> = points.iter().filter(|point| point.quantity == *quantity).collect();
        let label = format!("{}, {}", quantity.name, quantity.unit);
        chart_of(item, &label, &of_it)
    };
    let charts = quantities.iter().map(chart);
    charts.filter(|chart| chart.series.iter().any(|series| series.points.len() > 1)).collect()
}

fn chart_of(item: &Item, label: &str, points: &[&Point]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let mut add = |name: String, style: Style, at: (f64, f64)| match series
        .iter_mut()
        .find(|series| series.name == name)
    {
        Some(series) => series.points.push(at),
        None => series.push(Series { name, points: vec![at], style }),
    };
    for point in points {
        let Point { series: name, x, paper, model, measured, .. } = point;
        match (measured, model) {
            (Some(measured), _) => add(name.clone(), Style::Line, (*x, measured.spread.median)),
            (None, Some(model)) => add(name.clone(), Style::Line, (*x, *model)),
            (None, None) => {}
        }
        if let (Some(_), Some(model)) = (measured, model) {
            add(format!("{name}, model"), Style::FaintLine, (*x, *model));
        }
        if let Some(paper) = paper {
            add(format!("{name}, paper"), Style::FaintLine, (*x, paper.number()));
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    let all = || series.iter().flat_map(|series| series.points.iter());
    Chart {
        title: format!("{}: {}", item.place, item.what),
        x: axis(item.x, all().map(|point| point.0)),
        y: axis(label, all().map(|point| point.1)),
        series,
    }
}

/// Returns an axis that is logarithmic if all values are above 0 and differ much.
fn axis(label: &str, values: impl Iterator<Item = f64> + Clone) -> Axis {
    let (least, most) =
        values.fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    Axis { label: label.to_owned(), logarithmic: least > 0.0 && most > LOGARITHMIC_FROM * least }
}

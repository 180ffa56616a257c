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
    let mut names: Vec<&str> = Vec::new();
    for point in points {
        if !names.contains(&point.series.as_str()) {
            names.push(&point.series);
        }
    }
    let of_name = |name: &str| {
        let mut of_it: Vec<&Point> = points.iter().copied().filter(|point| point.series == name).collect();
        of_it.sort_by(|one, other| one.x.total_cmp(&other.x));
        lines(name, &of_it)
    };
    let series: Vec<Series> = names.into_iter().flat_map(of_name).collect();
    let all = || series.iter().flat_map(|series| series.points.iter());
    Chart {
        title: format!("{}: {}", item.place, item.what),
        x: axis(item.x, all().map(|point| point.0)),
        y: axis(label, all().map(|point| point.1)),
        series,
    }
}

/// Returns the lines of a series: what was measured with its spread, or else the model; the model next to what was
/// measured; and the paper's values as rings. What there are no points of is left out.
fn lines(name: &str, points: &[&Point]) -> Vec<Series> {
    let of = |suffix: &str, style: Style, value: &dyn Fn(&Point) -> Option<f64>| Series {
        name: format!("{name}{suffix}"),
        points: points.iter().filter_map(|point| Some((point.x, value(point)?))).collect(),
        style,
    };
    let spread = |point: &&Point| {
        let spread = point.measured.map(|measured| measured.spread);
        point.ours().map(|ours| spread.map_or((ours, ours), |spread| (spread.lowest, spread.highest)))
    };
    let ours = of("", Style::Ranges(points.iter().filter_map(spread).collect()), &Point::ours);
    let model = of(", model", Style::FaintLine, &|point| point.measured.and(point.model));
    let paper = of(", paper", Style::Rings, &|point| point.paper.map(|paper| paper.number()));
    [ours, model, paper].into_iter().filter(|series| !series.points.is_empty()).collect()
}

/// Returns an axis that is logarithmic if all values are above 0 and differ much.
fn axis(label: &str, values: impl Iterator<Item = f64> + Clone) -> Axis {
    let (least, most) =
        values.fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    Axis { label: label.to_owned(), logarithmic: least > 0.0 && most > LOGARITHMIC_FROM * least }
}

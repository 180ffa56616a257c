//! Plots as SVG: bars per store, and gets over the available memory.

use super::Section;
use super::metrics::{Metric, OPS_PER_S, SETTLED, WRITE_AMPLIFICATION, whole};
use crate::peer;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

const WIDTH: u32 = 900;
const BAR_HEIGHT: u32 = 34;
const MARGINS_HEIGHT: u32 = 110;
const LINES_HEIGHT: u32 = 480;
const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0x8b);
const THEIRS: RGBColor = RGBColor(0xa9, 0xa9, 0xa9);
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x1f, 0x6f, 0x8b),
    RGBColor(0x4c, 0xb0, 0xc9),
    RGBColor(0xc0, 0x39, 0x2b),
    RGBColor(0xe6, 0x7e, 0x22),
    RGBColor(0x7d, 0x3c, 0x98),
    RGBColor(0x27, 0xae, 0x60),
    RGBColor(0x7f, 0x8c, 0x8d),
    RGBColor(0x2c, 0x3e, 0x50),
];

/// Bar charts: the group, the phase, the metric, the file name and the title.
const BARS: [(&str, &str, &Metric, &str, &str); 6] = [
    ("load", "load", &SETTLED, "load", "Puts per second in random order, settled"),
    ("load", "load", &WRITE_AMPLIFICATION, "load-writes", "Bytes written per byte put, in random order"),
    ("device", "read:16", &OPS_PER_S, "gets", "Gets per second from the device, 16 threads"),
    ("device", "miss:16", &OPS_PER_S, "misses", "Gets per second of absent keys, 16 threads"),
    ("overwrite", "overwrite", &SETTLED, "overwrite", "Overwrites per second, settled"),
    (
        "overwrite",
        "overwrite",
        &WRITE_AMPLIFICATION,
        "overwrite-writes",
        "Bytes written per byte overwritten",
    ),
];

/// Writes all plots that have results.
pub fn write(sections: &[Section], out: &Path) -> Result<()> {
    for section in sections {
        for (group, phase, metric, name, title) in BARS {
            if section.group == group {
                let path = out.join(format!("{}-{name}.svg", section.table));
                let title = format!("{title} ({} B values)", section.value_size);
                bars(section, phase, metric, &title, &path)?;
            }
        }
    }
    let limited: Vec<&Section> = sections.iter().filter(|section| bytes_per_key(section).is_some()).collect();
    if limited.len() > 1 { lines(&limited, &out.join("limited-gets.svg")) } else { Ok(()) }
}

/// Returns the memory of a section of a limited table, in bytes per key.
fn bytes_per_key(section: &Section) -> Option<f64> {
    section.group.strip_suffix(" B per key")?.parse().ok()
}

fn title_of(name: &str) -> &str {
    peer::by_name(name).map_or(name, |kind| kind.title)
}

/// Converts errors of plotters, which hold the drawing, to their messages.
fn drawing<T, E: std::fmt::Display>(outcome: Result<T, E>) -> Result<T> {
    outcome.map_err(|error| anyhow!("cannot draw: {error}"))
}

fn bars(section: &Section, phase: &str, metric: &Metric, title: &str, path: &Path) -> Result<()> {
    let value = |peer| Some((peer, section.median(peer, phase, metric)?));
    let values: Vec<(&str, f64)> = section.peers().into_iter().filter_map(value).collect();
    let raw = if metric.name == OPS_PER_S.name { section.raw_ops_per_s(phase) } else { None };
    let raw = raw.filter(|_| !phase.starts_with("miss"));
    let most = values.iter().map(|(_, value)| *value).chain(raw).fold(0.0, f64::max);
    if most <= 0.0 {
        return Ok(());
    }
    let count = values.len();
    let root = SVGBackend::new(path, (WIDTH, BAR_HEIGHT * count as u32 + MARGINS_HEIGHT)).into_drawing_area();
    drawing(root.fill(&WHITE))?;
    let mut chart = drawing(
        ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 20))
            .margin(12)
            .margin_right(40)
            .x_label_area_size(30)
            .y_label_area_size(180)
            .build_cartesian_2d(0.0..most * 1.15, 0.0..count as f64),
    )?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh().disable_y_axis().x_label_formatter(&|value| whole_or_short(*value)).x_labels(6);
    drawing(mesh.draw())?;
    for (at, (peer, value)) in values.iter().enumerate() {
        let low = (count - 1 - at) as f64;
        let colour = if peer.starts_with("siltstone") { OURS } else { THEIRS };
        let bar = Rectangle::new([(0.0, low + 0.18), (*value, low + 0.82)], colour.filled());
        drawing(chart.draw_series(std::iter::once(bar)))?;
        let style = ("sans-serif", 14).into_font().color(&BLACK);
        let number = Text::new((metric.show)(*value), (*value + most * 0.01, low + 0.66), style.clone());
        drawing(chart.draw_series(std::iter::once(number)))?;
        let (_, middle) = chart.backend_coord(&(0.0, low + 0.66));
        drawing(root.draw(&Text::new(title_of(peer), (14, middle), style)))?;
    }
    if let Some(raw) = raw {
        let line = PathElement::new([(raw, 0.0), (raw, count as f64)], OURS.stroke_width(2));
        drawing(chart.draw_series(std::iter::once(line)))?;
        let style = ("sans-serif", 13).into_font().color(&OURS);
        let label = Text::new("raw device", (raw + most * 0.005, 0.12), style);
        drawing(chart.draw_series(std::iter::once(label)))?;
    }
    drawing(root.present())
}

fn whole_or_short(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.1} M", value / 1e6)
    } else if value >= 1e4 {
        format!("{:.0} k", value / 1e3)
    } else {
        whole(value)
    }
}

/// Plots gets from the device over the memory per key, with a line per store.
fn lines(sections: &[&Section], path: &Path) -> Result<()> {
    let phase = "read:16";
    let points = |peer: &str| -> Vec<(f64, f64)> {
        let point =
            |section: &&Section| Some((bytes_per_key(section)?, section.median(peer, phase, &OPS_PER_S)?));
        sections.iter().filter_map(point).collect()
    };
    let peers = sections[0].peers();
    let raw: Vec<(f64, f64)> = sections
        .iter()
        .filter_map(|section| Some((bytes_per_key(section)?, section.raw_ops_per_s(phase)?)))
        .collect();
    let all: Vec<(f64, f64)> =
        peers.iter().flat_map(|peer| points(peer)).chain(raw.iter().copied()).collect();
    let most = all.iter().map(|point| point.1).fold(1.0, f64::max);
    let least_bytes = all.iter().map(|point| point.0).fold(f64::MAX, f64::min);
    let most_bytes = all.iter().map(|point| point.0).fold(0.0, f64::max);
    let root = SVGBackend::new(path, (WIDTH, LINES_HEIGHT)).into_drawing_area();
    drawing(root.fill(&WHITE))?;
    let bytes = (least_bytes * 0.8..most_bytes * 1.25).log_scale();
    let mut chart = drawing(
        ChartBuilder::on(&root)
            .caption("Gets per second from the device, 16 threads", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(45)
            .y_label_area_size(80)
            .build_cartesian_2d(bytes, 0.0..most * 1.1),
    )?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("bytes of memory per key").y_label_formatter(&|value| whole_or_short(*value));
    drawing(mesh.draw())?;
    for (at, name) in peers.iter().copied().chain(std::iter::once("raw")).enumerate() {
        let colour = if name == "raw" { BLACK } else { COLOURS[at % COLOURS.len()] };
        let series = if name == "raw" { raw.clone() } else { points(name) };
        let line = LineSeries::new(series, colour.stroke_width(2)).point_size(4);
        let label = if name == "raw" { "the device itself" } else { title_of(name) };
        drawing(chart.draw_series(line))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let mut legend = chart.configure_series_labels();
    legend.background_style(WHITE.mix(0.8)).border_style(THEIRS).position(SeriesLabelPosition::UpperLeft);
    drawing(legend.draw())?;
    drawing(root.present())
}

//! Plots as SVG: bars per store, and gets over the available memory.

use super::Section;
use super::metrics::{Metric, OPS_PER_S, SETTLED, WRITE_AMPLIFICATION};
use anyhow::Result;
use siltstone_bench::chart::{self, Axis, Bar, BarChart, Chart, Series, Style};
use std::fs;
use std::path::Path;

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
                if let Some(svg) = bars(section, phase, metric, title).to_svg()? {
                    fs::write(path, svg)?;
                }
            }
        }
    }
    let limited: Vec<&Section> = sections.iter().filter(|section| bytes_per_key(section).is_some()).collect();
    if limited.len() > 1 {
        let svg = chart::to_svg(&[gets_over_memory(&limited)])?;
        fs::write(out.join("limited-gets.svg"), svg)?;
    }
    Ok(())
}

/// Returns the memory of a section of a limited table, in bytes per key.
fn bytes_per_key(section: &Section) -> Option<f64> {
    section.group.strip_suffix(" B per key")?.parse().ok()
}

/// Returns a bar per store. Gets are compared with the reads of the device itself.
fn bars(section: &Section, phase: &str, metric: &Metric, title: String) -> BarChart {
    let bar = |peer| {
        let value = section.median(peer, phase, metric)?;
        Some(Bar {
            name: super::title(peer).to_owned(),
            value,
            text: (metric.show)(value),
            highlighted: peer.starts_with("siltstone") || peer == "flashkey",
        })
    };
    let is_of_gets = metric.name == OPS_PER_S.name && !phase.starts_with("miss");
    let raw = if is_of_gets { section.raw_ops_per_s(phase) } else { None };
    BarChart {
        title,
        bars: section.peers().into_iter().filter_map(bar).collect(),
        reference: raw.map(|raw| ("raw device".to_owned(), raw)),
    }
}

/// Returns the gets from the device over the memory per key, with a line per store.
fn gets_over_memory(sections: &[&Section]) -> Chart {
    let phase = "read:16";
    let series = |name: &str, value: &dyn Fn(&Section) -> Option<f64>| {
        let point = |section: &&Section| Some((bytes_per_key(section)?, value(section)?));
        Series {
            name: name.to_owned(),
            points: sections.iter().filter_map(point).collect(),
            style: Style::Line,
        }
    };
    let peers = sections[0].peers().into_iter();
    let mut all: Vec<Series> = peers
        .map(|peer| series(super::title(peer), &|section| section.median(peer, phase, &OPS_PER_S)))
        .collect();
    all.push(series("the device itself", &|section| section.raw_ops_per_s(phase)));
    let axis = |label: &str, logarithmic| Axis { label: label.to_owned(), logarithmic };
    Chart {
        title: "Gets per second from the device, 16 threads".to_owned(),
        x: axis("bytes of memory per key", true),
        y: axis("gets per second", false),
        series: all,
    }
}

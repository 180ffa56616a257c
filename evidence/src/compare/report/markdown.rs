//! Tables as Markdown: one per phase, with a line per store.

use super::metrics::{self, whole};
use super::{Section, title};
use std::fmt::Write;

/// Returns all tables.
pub fn write(sections: &[Section]) -> String {
    let mut text = String::new();
    let mut table = "";
    for section in sections {
        if section.table != table {
            table = &section.table;
            let _ = writeln!(text, "## {table}\n");
            options(&mut text, section);
        }
        heading(&mut text, section);
        for phase in section.phases() {
            phase_table(&mut text, section, phase);
        }
    }
    text
}

fn options(text: &mut String, section: &Section) {
    for peer in section.peers() {
        if let Some(row) = section.any(peer) {
            let _ = writeln!(text, "- {}: {}", title(peer), row.options);
        }
    }
    text.push('\n');
}

fn heading(text: &mut String, section: &Section) {
    let Section { table, group, keys, key_size, value_size, .. } = section;
    let keys = whole(*keys as f64);
    let _ = write!(text, "### {table}: {group}\n\n{keys} records of {key_size} + {value_size} B");
    let row = section.peers().first().and_then(|peer| section.any(peer));
    if let Some(row) = row {
        let _ = write!(text, ", caches of {} B", whole(row.cache_bytes as f64));
        if let Some(limit) = row.limit_bytes {
            let _ = write!(text, ", a process within {} B, page cache included", whole(limit as f64));
        }
    }
    text.push_str(".\n\n");
}

fn phase_table(text: &mut String, section: &Section, phase: &str) {
    let raw = section.raw_ops_per_s(phase);
    let metrics = metrics::of(phase, raw.is_some());
    let mut names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
    if raw.is_some() {
        names.insert(1, "of the device");
    }
    let _ = writeln!(text, "| {phase} | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
    if let Some(raw) = raw {
        let _ =
            writeln!(text, "| the device itself | {} | 100 % |{}", whole(raw), " |".repeat(names.len() - 2));
    }
    for peer in section.peers() {
        let mut cells: Vec<String> = Vec::new();
        for metric in &metrics {
            let value = section.median(peer, phase, metric);
            cells.push(value.map_or(String::new(), metric.show));
            if let (1, Some(raw)) = (cells.len(), raw) {
                cells.push(value.map_or(String::new(), |value| format!("{:.0} %", 100.0 * value / raw)));
            }
        }
        if cells[0].is_empty() {
            cells[0] = section.failure(peer, phase).unwrap_or("not run").to_owned();
        }
        let _ = writeln!(text, "| {} | {} |", title(peer), cells.join(" | "));
    }
    text.push('\n');
}

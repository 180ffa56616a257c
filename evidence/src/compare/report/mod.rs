//! Tables and plots of results: medians of equal runs.

mod markdown;
mod metrics;
mod plots;

use crate::compare::peer;
use crate::compare::row::Row;
use anyhow::{Context, Result};
use metrics::Metric;
pub(crate) use metrics::whole;
use std::path::{Path, PathBuf};

/// Results under the same conditions with records of one size.
pub(crate) struct Section {
    pub table: String,
    pub group: String,
    pub key_size: usize,
    pub value_size: usize,
    pub keys: u64,
    rows: Vec<Row>,
}

/// Reads lines of JSON, and writes `tables.md` and the plots to a directory.
pub fn write(files: &[PathBuf], out: &Path) -> Result<()> {
    let mut rows = Vec::new();
    for file in files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let parsed: Result<Vec<Row>, _> = text.lines().map(serde_json::from_str).collect();
        rows.extend(parsed.with_context(|| format!("{} has other lines than rows", file.display()))?);
    }
    let sections = sections(rows);
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let path = out.join("tables.md");
    std::fs::write(&path, markdown::write(&sections))
        .with_context(|| format!("cannot write {}", path.display()))?;
    plots::write(&sections, out)
}

fn sections(rows: Vec<Row>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for row in rows {
        let fits = |section: &&mut Section| {
            (&section.table, &section.group, section.keys) == (&row.table, &row.group, row.keys)
        };
        if let Some(section) = sections.iter_mut().find(fits) {
            section.rows.push(row);
        } else {
            let (table, group) = (row.table.clone(), row.group.clone());
            let Row { key_size, value_size, keys, .. } = row;
            sections.push(Section { table, group, key_size, value_size, keys, rows: vec![row] });
        }
    }
    sections
}

impl Section {
    /// Returns the phases in the order in which they ran, without those of the raw device.
    pub fn phases(&self) -> Vec<&str> {
        distinct(self.rows.iter().filter(|row| row.peer != "raw").map(|row| row.phase.as_str()))
    }

    /// Returns the stores in the order in which they ran.
    pub fn peers(&self) -> Vec<&str> {
        distinct(self.rows.iter().filter(|row| row.peer != "raw").map(|row| row.peer.as_str()))
    }

    /// Returns the runs of a phase of a store.
    fn runs(&self, peer: &str, phase: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.peer == peer && row.phase == phase)
    }

    /// Returns any run of a store.
    pub fn any(&self, peer: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.peer == peer)
    }

    /// Returns the median of a metric over all runs that finished.
    pub fn median(&self, peer: &str, phase: &str, metric: &Metric) -> Option<f64> {
        let ended = self.runs(peer, phase).filter(|row| row.failure.is_none());
        let mut values: Vec<f64> = ended.filter_map(|row| (metric.of)(row)).collect();
        values.sort_by(f64::total_cmp);
        match values.len() {
            0 => None,
            length if length % 2 == 1 => Some(values[length / 2]),
            length => Some((values[length / 2 - 1] + values[length / 2]) / 2.0),
        }
    }

    /// Returns why a phase of a store has no results.
    pub fn failure(&self, peer: &str, phase: &str) -> Option<&str> {
        self.runs(peer, phase).find_map(|row| row.failure.as_deref())
    }

    /// Returns the reads per second of the raw device, with as many threads as the phase has.
    pub fn raw_ops_per_s(&self, phase: &str) -> Option<f64> {
        let raw = phase.split_once(':').map_or("raw".to_owned(), |(_, threads)| format!("raw:{threads}"));
        self.median("raw", &raw, &metrics::OPS_PER_S)
    }
}

/// Returns the title of a store.
fn title(name: &str) -> &str {
    peer::by_name(name).map_or(name, |kind| kind.title)
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(peer: &str, phase: &str, ops_per_s: f64) -> Row {
        let (peer, phase) = (peer.to_owned(), phase.to_owned());
        Row { peer, phase, ops_per_s, ..Row::default() }
    }

    #[test]
    fn medians_omit_failed_runs() {
        let mut failed = row("a", "read:16", 0.0);
        failed.failure = Some("killed".to_owned());
        let rows =
            vec![row("raw", "raw:16", 9.0), row("a", "read:16", 1.0), failed, row("a", "read:16", 3.0)];
        let sections = sections(rows);
        let [section] = &sections[..] else { panic!("one section") };
        assert_eq!(section.median("a", "read:16", &metrics::OPS_PER_S), Some(2.0));
        assert_eq!(section.raw_ops_per_s("read:16"), Some(9.0));
        assert_eq!((section.peers(), section.phases()), (vec!["a"], vec!["read:16"]));
        assert_eq!(section.failure("a", "read:16"), Some("killed"));
    }
}

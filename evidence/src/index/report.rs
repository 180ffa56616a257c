//! The measurements of a structure: a JSON object, and a row of a table.

use super::Options;
use super::subject::Inserts;
use serde::Serialize;
use siltstone_bench::chart::{Axis, Chart, Series, Style};
use siltstone_bench::quantity::show_count;

/// The measurements of a structure. Serialises to the JSON object of the benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The structure's name.
    pub structure: &'static str,
    /// The number of keys it was built from.
    pub keys: u64,
    /// Its settings.
    #[serde(flatten)]
    pub options: Options,
    /// All its memory on the heap, including the index of the buckets, per key. Tables shared by all structures of a
    /// kind in the process are not included: the decoding tables of tries, about 100 KB.
    pub bits_per_key: f64,
    /// All its memory on the heap, in bytes.
    pub heap_bytes: u64,
    /// Keys per second of building, with hashes computed and sorted before; the median of several builds.
    pub build_keys_per_s: f64,
    /// The time of a lookup of a random existing key, independent of other lookups, in nanoseconds.
    pub lookup_ns: f64,
    /// The same, with each lookup depending on the result of the one before.
    pub lookup_chained_ns: f64,
    /// The time of an independent lookup of a missing key, for structures that know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup_absent_ns: Option<f64>,
    /// Keys that were located correctly: all of them, unless the structure has a bug.
    pub verified_keys: u64,
    /// The average number of slots or blocks that a lookup returns, for structures that locate records: 1, and the
    /// false reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units_per_lookup: Option<f64>,
    /// What inserting cost, for tables with a fixed number of slots.
    #[serde(flatten)]
    pub inserts: Option<Inserts>,
    /// The share of the blocks' space that records fill, if it depends on the structure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_used: Option<f64>,
    /// The share of missing keys that are reported as present, for filters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub false_positive_rate: Option<f64>,
}

impl Report {
    /// Returns the header of the table.
    pub fn header() -> String {
        format!(
            "{:<18}  {:<14}  {:>9}  {:>9}  {:>10}  {:>9}  {:>11}  {}",
            "structure",
            "settings",
            "bits/key",
            "lookup ns",
            "chained ns",
            "M built/s",
            "verified",
            "remarks"
        )
    }

    /// Returns the row of the table.
    pub fn row(&self) -> String {
        let row = format!(
            "{:<18}  {:<14}  {:>9.3}  {:>9.1}  {:>10.1}  {:>9.2}  {:>11}  {}",
            self.structure,
            self.settings(),
            self.bits_per_key,
            self.lookup_ns,
            self.lookup_chained_ns,
            self.build_keys_per_s / 1e6,
            self.verified_keys,
            self.remarks()
        );
        row.trim_end().to_owned()
    }

    /// Formats the settings with the papers' letters: g keys per bucket, B records per block, h the largest subtrie
    /// with a Huffman code, n candidates, the load, and the false-positive rate.
    pub fn settings(&self) -> String {
        let Options { bucket, items_per_block, huffman_max, bits, candidates, load } = self.options;
        let mut settings = Vec::new();
        settings.extend(bucket.map(|keys| format!("g={keys}")));
        settings
            .extend(items_per_block.filter(|&records| records != 1).map(|records| format!("B={records}")));
        settings.extend(huffman_max.filter(|&keys| keys != 64).map(|keys| format!("h={keys}")));
        settings.extend(candidates.map(|candidates| format!("n={candidates}")));
        settings.extend(load.map(|load| format!("{load}")));
        settings.extend(bits.map(|bits| format!("2^-{bits}")));
        settings.join(" ")
    }

    fn remarks(&self) -> String {
        let mut remarks = Vec::new();
        if let Some(units) = self.units_per_lookup.filter(|units| *units != 1.0) {
            remarks.push(format!("{units:.4} places per lookup"));
        }
        if let Some(Inserts { load, relocations_per_insert, load_at_first_failure, auxiliary_keys }) =
            self.inserts
        {
            remarks.push(format!("load {load:.4}, {relocations_per_insert:.4} relocations per insert"));
            if let Some(load) = load_at_first_failure {
                remarks.push(format!("first failure at {load:.4}, {auxiliary_keys} auxiliary keys"));
            }
        }
        if let Some(share) = self.space_used {
            remarks.push(format!("{:.1} % of the space used", share * 100.0));
        }
        if let Some(rate) = self.false_positive_rate {
            remarks.push(format!("2^{:.2} false positives", rate.log2()));
        }
        if let Some(nanoseconds) = self.lookup_absent_ns {
            remarks.push(format!("absent {nanoseconds:.1} ns"));
        }
        remarks.join("; ")
    }
}

/// Returns the trade-off of memory and time: bits per key over nanoseconds per lookup, with a series per structure.
pub fn chart(reports: &[Report]) -> Chart {
    let mut names: Vec<&str> = Vec::new();
    for report in reports {
        if !names.contains(&report.structure) {
            names.push(report.structure);
        }
    }
    let series = |name: &str| {
        let reports = || reports.iter().filter(|report| report.structure == name);
        Series {
            name: name.to_owned(),
            points: reports().map(|report| (report.lookup_ns, report.bits_per_key)).collect(),
            style: Style::Dots(reports().map(Report::settings).collect()),
        }
    };
    let axis = |label: &str| Axis { label: label.to_owned(), logarithmic: true };
    let keys = reports.iter().map(|report| report.keys).max().unwrap_or_default();
    Chart {
        title: format!("{} keys: memory and time of a lookup", show_count(keys as f64)),
        x: axis("nanoseconds per lookup (random keys, independent)"),
        y: axis("bits per key"),
        series: names.into_iter().map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            structure: "ribbon_filter",
            keys: 1000,
            options: Options { bits: Some(12), ..Options::default() },
            bits_per_key: 12.04,
            heap_bytes: 1505,
            build_keys_per_s: 9e6,
            lookup_ns: 30.04,
            lookup_chained_ns: 50.0,
            lookup_absent_ns: Some(20.0),
            verified_keys: 1000,
            units_per_lookup: None,
            inserts: None,
            space_used: None,
            false_positive_rate: Some(1.0 / 4096.0),
        }
    }

    #[test]
    fn rows_are_aligned_with_the_header() {
        let (header, row) = (Report::header(), report().row());
        for (title, figure) in [("bits/key", "12.040"), ("lookup ns", "30.0"), ("verified", "1000")] {
            let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
            assert_eq!(end(&header, title), end(&row, figure), "{header}\n{row}");
        }
        assert!(row.ends_with("2^-12.00 false positives; absent 20.0 ns"), "{row}");
    }

    #[test]
    fn the_object_holds_the_settings_that_there_are() {
        let object = serde_json::to_value(report()).unwrap();
        assert_eq!(object["bits"], 12);
        assert!(object.get("bucket").is_none() && object.get("units_per_lookup").is_none());
        for field in
            ["structure", "keys", "bits_per_key", "build_keys_per_s", "lookup_ns", "lookup_chained_ns"]
        {
            assert!(object.get(field).is_some(), "{field}");
        }
    }
}

//! The recorded runs of benchmarks: `docs/figures.jsonl`, a line of JSON for each report of an engine or a store.

use super::Figure;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

const FILE: &str = "figures.jsonl";
/// The objects of a report whose numbers are recorded too, as `gets.p999`.
const NESTED: [&str; 2] = ["gets", "puts_us"];
/// The name under which random reads of the drive are reported, their rate, and the share of it that a store has.
const RAW: &str = "raw";
const RATE: &str = "ops_per_s";
const SHARE: &str = "share_of_raw_reads";

/// When and where something was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The date.
    pub date: String,
    /// The commit, if it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// The processors and the system.
    pub machine: String,
}

impl fmt::Display for Run {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "on {}", self.date)?;
        if !self.commit.is_empty() {
            write!(to, " with the commit {}", self.commit)?;
        }
        write!(to, ", {}", self.machine)
    }
}

/// A report, as far as it is recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// The set of commands that printed it.
    pub set: String,
    /// The number of keys with which they were run.
    pub keys: u64,
    /// The engine or the store.
    pub column: String,
    /// The benchmark, or the group and the phase.
    pub row: String,
    /// When and where it was measured.
    pub run: Run,
    /// The numbers.
    pub figures: BTreeMap<String, f64>,
}

/// All recorded runs.
#[derive(Debug, Default)]
pub struct Runs {
    lines: Vec<Line>,
}

impl Runs {
    /// Reads the runs in the directory of the documents.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not one of a run.
    pub fn read(docs: &Path) -> Result<Runs> {
        Runs::parse(&super::read(&docs.join(FILE))?)
    }

    /// Reads runs.
    ///
    /// # Errors
    /// A line is not one of a run.
    pub fn parse(text: &str) -> Result<Runs> {
        let lines = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        Ok(Runs { lines: lines.with_context(|| format!("a line of {FILE} is not one of a run"))? })
    }

    /// Writes the runs to the directory of the documents.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, docs: &Path) -> Result<()> {
        let lines: Vec<String> = self.lines.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let path = docs.join(FILE);
        std::fs::write(&path, lines.join("\n") + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Adds a report as the latest. It replaces an earlier one of the same benchmark of the same store.
    pub fn record(&mut self, line: Line) {
        let is_other = |other: &Line| {
            (&other.set, other.keys, &other.column, &other.row)
                != (&line.set, line.keys, &line.column, &line.row)
        };
        self.lines.retain(is_other);
        self.lines.push(line);
    }

    /// Returns the numbers of keys of a set, in ascending order.
    pub(super) fn keys_of(&self, set: &str) -> BTreeSet<u64> {
        self.lines.iter().filter(|line| line.set == set).map(|line| line.keys).collect()
    }

    /// Returns a figure with its line. Without a number of keys, that of the set's latest run is taken, so that a table
    /// does not mix several.
    pub(super) fn value(&self, figure: &Figure) -> Option<(&Line, f64)> {
        let Figure { set, keys, column, row, field } = figure;
        let latest = || self.lines.iter().rev().find(|line| line.set == *set).map(|line| line.keys);
        let keys = keys.or_else(latest)?;
        let is_it =
            |line: &&Line| (&line.set, line.keys, &line.column, &line.row) == (set, keys, column, row);
        let line = self.lines.iter().rev().find(is_it)?;
        Some((line, *line.figures.get(field)?))
    }
}

/// Reads what the commands of a set have printed. Lines that are no JSON objects are passed over.
///
/// # Errors
/// An object names no engine or store, or no benchmark or phase.
pub fn lines_of(set: &str, keys: u64, run: &Run, printed: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for text in printed.lines().filter(|line| line.starts_with('{')) {
        let report: Map<String, Value> = serde_json::from_str(text)?;
        let name = |name: &str| report.get(name).and_then(Value::as_str);
        let phase = || Some(format!("{}/{}", name("group")?, name("phase")?));
        let row = name("benchmark").map(str::to_owned).or_else(phase);
        let (Some(column), Some(row)) = (name("engine").or(name("peer")), row) else {
            bail!("this report names no store or no benchmark: {text}");
        };
        // A store that failed, and a benchmark that was skipped, has no figures.
        let is_void =
            ["failure", "skipped"].iter().any(|name| report.get(*name).is_some_and(Value::is_string));
        let figures = if is_void { BTreeMap::new() } else { numbers(&report) };
        let (set, column, run) = (set.to_owned(), column.to_owned(), run.clone());
        lines.push(Line { set, keys, column, row, run, figures });
    }
    add_shares(&mut lines);
    Ok(lines)
}

/// Adds to gets from the drive their share of the raw reads of as many threads in the same group.
fn add_shares(lines: &mut [Line]) {
    let rate = |line: &Line| line.figures.get(RATE).copied();
    let raw = lines.iter().filter(|line| line.column == RAW);
    let raw: BTreeMap<String, f64> =
        raw.filter_map(|line| Some((line.row.replace("/raw", "/read"), rate(line)?))).collect();
    for line in lines {
        let share = raw.get(&line.row).and_then(|raw| Some((SHARE.to_owned(), rate(line)? / raw)));
        line.figures.extend(share);
    }
}

fn numbers(report: &Map<String, Value>) -> BTreeMap<String, f64> {
    let mut numbers = BTreeMap::new();
    let mut add = |name: String, value: &Value| {
        // Six digits are more than a run has in common with the next.
        let rounded = value.as_f64().and_then(|value| format!("{value:.5e}").parse().ok());
        numbers.extend(rounded.map(|value| (name, value)));
    };
    for (name, value) in report {
        add(name.clone(), value);
        let nested = value.as_object().filter(|_| NESTED.contains(&&**name));
        nested.into_iter().flatten().for_each(|(inner, value)| add(format!("{name}.{inner}"), value));
    }
    numbers
}

/// Runs shell commands with `N` as the number of keys and `DIR` as an empty directory, and returns what they print. The
/// shell shows each command on standard error.
///
/// `siltstone` is the program at `program`, and `evidence` this program. If a command fails, what was printed before is
/// returned with the error.
pub fn run_commands(commands: &str, keys: u64, directory: &Path, program: &Path) -> (String, Result<()>) {
    let output = || -> Result<_> {
        let program = program.canonicalize().with_context(|| format!("there is no {}", program.display()))?;
        let own = std::env::current_exe()?;
        let mut path = OsString::new();
        for folder in [program.parent(), own.parent()].into_iter().flatten() {
            path.push(folder);
            path.push(":");
        }
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-euxc", commands]).env("N", keys.to_string()).env("DIR", directory).env("PATH", path);
        Ok(shell.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?)
    };
    match output() {
        Ok(output) => {
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let failed = || anyhow::anyhow!("a command ended with {}", output.status);
            (printed, output.status.success().then_some(()).ok_or_else(failed))
        }
        Err(error) => (String::new(), Err(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"a note
{"engine":"silt","benchmark":"overwrite","ops_per_s":123456.7,"write_amplification":null,"io":{"reads":3}}
{"peer":"raw","group":"device","phase":"raw:16","ops_per_s":200.0}
{"peer":"lmdb","group":"device","phase":"read:16","ops_per_s":50.0,"gets":{"p999":7.0}}
{"peer":"redb","group":"device","phase":"read:16","ops_per_s":0.0,"failure":"signal: 9"}"#;

    #[test]
    fn numbers_of_reports_are_recorded_and_replace_earlier_ones() {
        let run = Run { date: "2026-11-28".into(), commit: String::new(), machine: "2 processors".into() };
        let mut runs = Runs::default();
        for printed in [PRINTED.replace("50.0", "40.0"), PRINTED.to_owned()] {
            for line in lines_of("s", 10, &run, &printed).unwrap() {
                runs.record(line);
            }
        }
        assert_eq!(runs.lines.len(), 4);
        let figure = |keys: u64, column: &str, row: &str, field: &str| {
            let [set, column, row, field] = ["s", column, row, field].map(str::to_owned);
            Figure { set, keys: Some(keys), column, row, field }
        };
        let value = |column: &str, row: &str, field: &str| {
            runs.value(&figure(10, column, row, field)).map(|(_, value)| value)
        };
        assert_eq!(value("silt", "overwrite", "ops_per_s"), Some(123_457.0));
        assert_eq!(value("silt", "overwrite", "write_amplification"), None);
        assert_eq!(value("silt", "overwrite", "io.reads"), None);
        assert_eq!(value("lmdb", "device/read:16", "gets.p999"), Some(7.0));
        assert_eq!(value("lmdb", "device/read:16", SHARE), Some(0.25));
        assert_eq!(value("redb", "device/read:16", "ops_per_s"), None);
        assert!(runs.value(&figure(11, "silt", "overwrite", "ops_per_s")).is_none());
    }

    #[test]
    fn figures_of_no_number_of_keys_are_of_the_latest_run() {
        let run = Run { date: "2026-11-28".into(), commit: String::new(), machine: "2 processors".into() };
        let mut runs = Runs::default();
        let mut record = |keys: u64, printed: &str| {
            let lines = lines_of("s", keys, &run, printed).unwrap();
            lines.into_iter().for_each(|line| runs.record(line));
            let value = |column: &str| {
                let [set, column, row, field] = ["s", column, "fill", "ops_per_s"].map(str::to_owned);
                runs.value(&Figure { set, keys: None, column, row, field }).map(|(_, value)| value)
            };
            (value("silt"), value("mica"))
        };
        let line = |engine: &str, rate: u64| {
            format!("{{\"engine\":\"{engine}\",\"benchmark\":\"fill\",\"ops_per_s\":{rate}}}\n")
        };
        assert_eq!(record(10, &(line("silt", 1) + &line("mica", 2))), (Some(1.0), Some(2.0)));
        assert_eq!(record(20, &line("silt", 3)), (Some(3.0), None), "not that of mica with other keys");
        assert_eq!(record(10, &line("silt", 4)), (Some(4.0), Some(2.0)));
    }
}

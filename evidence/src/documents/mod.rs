//! The figures in the documents: tables between markers, whose cells are copied from a source.
//!
//! ```text
//!   <!-- figures of EVIDENCE -->                      rows of docs/EVIDENCE.md, which `evidence run` writes
//!   | | paper | here |
//!   |---|---:|---:|
//!   | write amplification <!-- silt/figure-8; SERIES; QUANTITY --> | 5.400 | 5.409 |
//!   <!-- end of figures -->
//!
//!   <!-- figures of engines -->                       docs/figures.jsonl, which `evidence figures engines` writes
//!   | | `silt` | `flashkey` |
//!   |---|---:|---:|
//!   | reads per get <!-- 10^6 readrandom reads_per_get --> | 1.002 | 1.000 |
//!
//!   Measured on ...                                   from the same lines
//!   <!-- end of figures -->
//! ```
//!
//! The comment in the first cell names what a row shows: an item, a series and a quantity of the page; or a number of
//! keys, which is that of the set's latest run if it is left out, a benchmark, and a field of its JSON object. The
//! header names columns of the page, or engines and stores in backticks; other columns are kept. A marker that begins
//! with a command in backticks is not filled: such figures are written by hand.

mod chart;
mod page;
mod runs;

pub use chart::charts;
pub use page::Page;
pub use runs::{Line, Run, Runs, lines_of, run_commands};

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- figures of ";
const BEGIN_ENDS: &str = " -->\n";
const END: &str = "<!-- end of figures -->";
const KEY: (&str, &str) = ("<!-- ", " -->");
/// The marker of tables that are filled from the page of evidence.
const OF_PAGE: &str = "EVIDENCE";

/// What tables are filled from.
#[derive(Debug)]
pub struct Sources {
    /// `EVIDENCE.md`.
    pub page: Page,
    /// `figures.jsonl`.
    pub runs: Runs,
}

impl Sources {
    /// Reads the sources in the directory of the documents.
    ///
    /// # Errors
    /// A source cannot be read.
    pub fn read(docs: &Path) -> Result<Sources> {
        let page = read(&docs.join("EVIDENCE.md"))?;
        Ok(Sources { page: Page::parse(&page), runs: Runs::read(docs)? })
    }
}

/// A figure in a table that is filled from runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The set of commands that print it.
    pub set: String,
    /// The number of keys, if the table has several; else that of the set's latest run.
    pub keys: Option<u64>,
    /// The engine or the store.
    pub column: String,
    /// The benchmark, or the group and the phase.
    pub row: String,
    /// The field of the JSON object.
    pub field: String,
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns the documents in `docs` and the `README.md` next to it, with their texts.
///
/// # Errors
/// A document cannot be read.
pub fn all(docs: &Path) -> Result<Vec<(PathBuf, String)>> {
    let entries = std::fs::read_dir(docs).with_context(|| format!("cannot read {}", docs.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.push(docs.join("../README.md"));
    paths.sort();
    paths.into_iter().map(|path| read(&path).map(|text| (path, text))).collect()
}

/// Returns the commands of a set: the shell commands after its marker in one of the documents.
///
/// # Errors
/// No document has them.
pub fn commands_of<'a>(set: &str, documents: &'a [(PathBuf, String)]) -> Result<&'a str> {
    let marker = format!("<!-- commands of {set} -->\n```sh\n");
    let after = documents.iter().find_map(|(_, text)| text.split_once(&marker));
    let (_, after) = after.with_context(|| format!("no document has the commands of {set}"))?;
    after.split_once("```").map(|(commands, _)| commands).context("a block of commands has no end")
}

/// Returns the text of a document with the figures of the sources.
///
/// # Errors
/// A marker has no end, a row has no key, or the page has no such row.
pub fn filled(text: &str, sources: &Sources) -> Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, marker, table, after)) = next_table(rest)? {
        filled += before;
        filled += &format!("{BEGIN}{marker}{BEGIN_ENDS}");
        filled += &block(marker, table, sources)?;
        filled += END;
        rest = after;
    }
    Ok(filled + rest)
}

/// Returns the figures of a document that are filled from runs.
///
/// # Errors
/// A marker has no end, or a row has no key.
pub fn figures(text: &str) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut rest = text;
    while let Some((_, set, table, after)) = next_table(rest)? {
        rest = after;
        if set == OF_PAGE || set.starts_with('`') {
            continue;
        }
        let lines: Vec<&str> = rows(table).collect();
        let header = cells(lines.first().context("a table has no header")?);
        for line in lines.iter().skip(2) {
            let key = key_of(line)?;
            for column in header.iter().filter_map(|name| name_of(name)) {
                figures.push(figure(set, key, column)?);
            }
        }
    }
    Ok(figures)
}

/// Splits a text at its first table between markers: what is before it, what the marker names, the lines between the
/// markers, and what is after them.
fn next_table(text: &str) -> Result<Option<(&str, &str, &str, &str)>> {
    let Some((before, rest)) = text.split_once(BEGIN) else { return Ok(None) };
    let (marker, rest) = rest.split_once(BEGIN_ENDS).context("a marker of figures has no end")?;
    let (table, after) = rest.split_once(END).with_context(|| format!("{BEGIN}{marker} has no {END}"))?;
    Ok(Some((before, marker, table, after)))
}

fn rows(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| line.starts_with('|'))
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    line.strip_suffix('|').unwrap_or(line).split('|').map(str::trim).collect()
}

/// Returns what the comment in a row names.
fn key_of(line: &str) -> Result<&str> {
    let key = line.split_once(KEY.0).and_then(|(_, rest)| rest.split_once(KEY.1));
    key.map(|(key, _)| key).with_context(|| format!("the row has no comment that names its figure: {line}"))
}

/// Returns the figure that a key names, of an engine or a store.
fn figure(set: &str, key: &str, column: &str) -> Result<Figure> {
    let power = |text: &str| 10u64.checked_pow(text.strip_prefix("10^")?.parse().ok()?);
    let keys = key.split_once(' ').and_then(|(first, rest)| Some((power(first)?, rest)));
    let (keys, rest) = keys.map_or((None, key), |(keys, rest)| (Some(keys), rest));
    let (row, field) =
        rest.rsplit_once(' ').with_context(|| format!("{key} is not a benchmark and a field"))?;
    let [set, column, row, field] = [set, column, row, field].map(str::to_owned);
    Ok(Figure { set, keys, column, row, field })
}

/// Returns the name of the engine or store in the header of a column, if it has one.
fn name_of(header: &str) -> Option<&str> {
    header.split('`').nth(1)
}

/// Returns the lines between the markers, with the cells of the source.
fn block(marker: &str, table: &str, sources: &Sources) -> Result<String> {
    if marker.starts_with('`') {
        return Ok(table.to_owned());
    }
    let lines: Vec<&str> = rows(table).collect();
    let header = cells(lines.first().with_context(|| format!("{BEGIN}{marker} has no table"))?);
    let mut text = format!("{}\n{}\n", lines[0], lines.get(1).copied().unwrap_or_default());
    let mut measured = BTreeSet::new();
    for line in lines.iter().skip(2) {
        let (old, key) = (cells(line), key_of(line)?);
        let mut row = vec![old[0].to_owned()];
        for (at, name) in header.iter().enumerate().skip(1) {
            row.push(match name_of(name) {
                None if marker == OF_PAGE => sources.page.cell(key, name)?.to_owned(),
                None => old.get(at).copied().unwrap_or_default().to_owned(),
                Some(column) => {
                    let found = sources.runs.value(&figure(marker, key, column)?);
                    measured.extend(found.map(|(line, _)| line.run.to_string()));
                    found.map_or(String::new(), |(_, value)| shown(value))
                }
            });
        }
        text += &format!("| {} |\n", row.join(" | "));
    }
    for run in measured {
        text += &format!("\nMeasured {run}.\n");
    }
    Ok(text)
}

/// Formats a number: up to three decimals below 10, and three digits, with commas, above 1,000.
fn shown(value: f64) -> String {
    let trimmed = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    match value {
        small if small < 10.0 => trimmed(format!("{small:.3}")),
        small if small < 100.0 => trimmed(format!("{small:.1}")),
        small if small < 1e3 => format!("{small:.0}"),
        large => {
            let unit = 10f64.powf(large.log10().floor() - 2.0);
            crate::compare::report::whole((large / unit).round() * unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "### Figure 8: memory\n\n`evidence run silt/figure-8`: reproduced.\n\n\
                        | series | quantity | paper | model |\n|---|---|---:|---:|\n\
                        | section 5 | writes, per put | 5.400 | 5.409 |\n";

    fn sources() -> Sources {
        let line = r#"{"set":"engines","keys":1000000,"column":"silt","row":"readrandom",
            "run":{"date":"2026-11-28","commit":"abc","machine":"2 processors"},
            "figures":{"reads_per_get":1.0024,"ops_per_s":541234.0}}"#;
        Sources { page: Page::parse(PAGE), runs: Runs::parse(&line.replace('\n', "")).unwrap() }
    }

    #[test]
    fn cells_are_those_of_the_page_and_of_runs() {
        let text = "a\n<!-- figures of EVIDENCE -->\n| | model | paper |\n|---|---:|---:|\n\
                    | w <!-- silt/figure-8; section 5; writes, per put --> | 1 | |\n<!-- end of figures -->\nb\n\
                    <!-- figures of engines -->\n| | unit | `silt` | `mica` |\n|---|---|---:|---:|\n\
                    | r <!-- 10^6 readrandom reads_per_get --> | 1 | 7 | |\n\
                    | o <!-- readrandom ops_per_s --> | 1/s | | |\n\
                    | o <!-- 10^7 readrandom ops_per_s --> | 1/s | 3 | |\n<!-- end of figures -->\n\
                    <!-- figures of `a command` -->\n| 5 |\n<!-- end of figures -->\n";
        let once = filled(text, &sources()).unwrap();
        assert!(once.contains("per put --> | 5.409 | 5.400 |\n"), "{once}");
        assert!(once.contains("reads_per_get --> | 1 | 1.002 |  |\n"), "{once}");
        assert!(once.contains("| 1/s | 541,000 |  |\n") && once.contains("| 1/s |  |  |\n"), "{once}");
        assert!(once.contains("\nMeasured on 2026-11-28 with the commit abc, 2 processors.\n"), "{once}");
        assert!(once.starts_with("a\n") && once.contains("\nb\n") && once.contains("| 5 |"), "{once}");
        assert_eq!(filled(&once, &sources()).unwrap(), once);
        let figures = figures(text).unwrap();
        let Figure { keys, column, field, .. } = &figures[1];
        assert_eq!(
            (figures.len(), *keys, &**column, &**field),
            (6, Some(1_000_000), "mica", "reads_per_get")
        );
    }

    #[test]
    fn rows_that_the_page_does_not_have_are_errors() {
        let row = |key: &str| {
            format!(
                "<!-- figures of EVIDENCE -->\n| | paper |\n|---|---:|\n| w {key} | 1 |\n<!-- end of figures -->"
            )
        };
        for (key, expected) in [
            ("<!-- silt/figure-8; section 6; writes, per put -->", "section 6"),
            ("<!-- silt/figure-9; section 5; writes, per put -->", "silt/figure-9"),
            ("", "no comment"),
        ] {
            let error = format!("{:#}", filled(&row(key), &sources()).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn numbers_have_three_digits_or_decimals() {
        for (value, text) in [
            (0.34567, "0.346"),
            (4.98, "4.98"),
            (1.0, "1"),
            (23.46, "23.5"),
            (200.0, "200"),
            (1999.0, "2,000"),
        ] {
            assert_eq!(shown(value), text);
        }
    }
}

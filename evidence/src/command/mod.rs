//! The subcommands of `evidence`, one file each.

pub mod documents;
pub mod index;
pub mod mica;
pub mod model;
mod provenance;
pub mod run;
pub mod udp;

use anyhow::{Context, Result};
use serde::Serialize;
use siltstone_bench::chart::{self, Chart};
use std::io::{Write, stdout};
use std::path::Path;

/// Returns the text after the flags in a command's `--help`.
fn help(examples: &str) -> String {
    format!("Examples:{examples}")
}

/// Prints a report, as a line of JSON or as `text`.
fn print<R: Serialize>(report: &R, json: bool, text: impl FnOnce() -> String) -> Result<()> {
    let mut out = stdout().lock();
    if json {
        serde_json::to_writer(&mut out, report)?;
        writeln!(out)?;
    } else {
        out.write_all(text().as_bytes())?;
    }
    Ok(out.flush()?)
}

/// Fails now, and not after the experiments, if a file cannot be written. What it has stays.
fn check_writable(path: &Path) -> Result<()> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes charts to a file, as an HTML page with the text or as SVG, whichever its name says.
fn write_charts(path: &Path, title: &str, text: &str, charts: &[Chart]) -> Result<()> {
    let document = chart::document(path, title, text, charts)?;
    std::fs::write(path, document).with_context(|| format!("cannot write {}", path.display()))
}

//! The sources of a dictionary's records: files of several formats, read one after the other.

use super::columns::{self, Column, Columns, Table};
use crate::input;
use crate::interrupt::Interrupt;
use crate::notation::NotationArgs;
use crate::outcome::complain;
use crate::quantity::counted;
use crate::transfer::{self, RecordSource};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use siltstone::DictionaryWriter;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of records between two checks for an interrupt.
const RECORDS_PER_LOOK: u64 = 1024;

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Siltstone's export format (docs/formats/export.md)
    Binary,
    /// JSON, one record per line
    Jsonl,
    /// Comma-separated values, with quotes if needed
    Csv,
    /// Tab-separated values, without quotes
    Tsv,
}

impl Format {
    /// Returns the format of a file's extension, if it has a known one.
    fn of_name(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "csv" => Some(Format::Csv),
            "tsv" | "tab" => Some(Format::Tsv),
            _ => None,
        }
    }
}

/// The options that select records.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Format [default: detected from the file name or the first byte]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// CSV, TSV: column of the key, by its number from 1 or by its name
    #[arg(long, value_name = "COLUMN", default_value = "1")]
    key_column: Column,
    /// CSV, TSV: column of the value; several columns are joined to one row
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', default_value = "2")]
    value_column: Vec<Column>,
    /// CSV, TSV: the first row contains column names; implied if a column is given by name
    #[arg(long)]
    header: bool,
    #[command(flatten)]
    pub notation: NotationArgs,
    /// Files; `-` is standard input, which is also the default
    #[arg(value_name = "INPUT")]
    inputs: Vec<PathBuf>,
}

/// What happened to the records that were read.
#[derive(Default)]
pub struct Taken {
    pub records: u64,
    expiring: u64,
    expired: u64,
}

impl Taken {
    /// Prints what a dictionary could not store.
    pub fn print(&self) {
        if self.expiring > 0 {
            let (expiring, expired) = (self.expiring, self.expired);
            complain(format_args!(
                "{} had an expiry time, which dictionaries do not keep; {expired} of them had expired and were skipped",
                counted(expiring, "record")
            ));
        }
    }
}

impl SourceArgs {
    /// Returns whether a file, or standard input, is named.
    pub fn is_named(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// Puts all records into the dictionary. Returns [`siltstone::Error::Interrupted`] if the user interrupts.
    pub fn put_all(
        &self,
        writer: &mut DictionaryWriter,
        bar: &ProgressBar,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Taken> {
        bar.set_length(self.bytes());
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let mut taken = Taken::default();
        let standard_input = [PathBuf::from("-")];
        let inputs = if self.inputs.is_empty() { &standard_input[..] } else { &self.inputs };
        for input in inputs {
            let records = self.records(input, bar, interrupt).with_context(|| input.display().to_string())?;
            for record in records {
                if taken.records.is_multiple_of(RECORDS_PER_LOOK) && interrupt.is_raised() {
                    return Err(siltstone::Error::Interrupted.into());
                }
                let record = match record {
                    // An interrupted read is also an error of the format.
                    Err(_) if interrupt.is_raised() => return Err(siltstone::Error::Interrupted.into()),
                    record => record.with_context(|| input.display().to_string())?,
                };
                taken.records += 1;
                let expires = record.expires_at_ms != siltstone::batch::NEVER;
                taken.expiring += u64::from(expires);
                if expires && record.expires_at_ms <= now_ms {
                    taken.expired += 1;
                    continue;
                }
                match writer.put(&record.key, &record.value) {
                    Err(error @ siltstone::Error::Interrupted) => return Err(error.into()),
                    Err(error) => bail!("{}: record {}: {error}", input.display(), taken.records),
                    Ok(()) => {}
                }
            }
        }
        Ok(taken)
    }

    /// Returns the total length of the files whose length is known, in bytes.
    fn bytes(&self) -> u64 {
        let length = |path: &PathBuf| std::fs::metadata(path).ok().filter(|data| data.is_file());
        self.inputs.iter().filter_map(length).map(|data| data.len()).sum()
    }

    fn records(
        &self,
        input: &Path,
        bar: &ProgressBar,
        interrupt: &Interrupt,
    ) -> anyhow::Result<RecordSource<'static>> {
        let source = input::open(input, interrupt)?;
        let source = BufReader::with_capacity(1 << 20, bar.wrap_read(source));
        self.parse(self.format.or(Format::of_name(input)), source)
    }

    fn parse(
        &self,
        format: Option<Format>,
        source: impl BufRead + 'static,
    ) -> anyhow::Result<RecordSource<'static>> {
        let columns = Columns {
            key: self.key_column.clone(),
            values: self.value_column.clone(),
            has_header: self.header,
            notation: self.notation.typed(),
        };
        Ok(match format {
            None => transfer::Format::source(None, source)?,
            Some(Format::Binary) => transfer::Format::source(Some(transfer::Format::Binary), source)?,
            Some(Format::Jsonl) => transfer::Format::source(Some(transfer::Format::Jsonl), source)?,
            Some(Format::Csv) => Box::new(columns::Reader::new(Table::Csv, &columns, source)?),
            Some(Format::Tsv) => Box::new(columns::Reader::new(Table::Tsv, &columns, source)?),
        })
    }
}

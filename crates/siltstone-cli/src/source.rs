//! The inputs of a command that takes records: files of several formats, also compressed, read one after the other.

use crate::input;
use crate::interrupt::Interrupt;
use crate::notation::NotationArgs;
use crate::outcome::complain;
use crate::transfer::table::{Column, Columns};
use crate::transfer::{Format, RecordSource, parquet};
use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use siltstone::Record;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The number of records between two checks for an interrupt.
const RECORDS_PER_LOOK: u64 = 1024;

/// Keys of a first row that has probably the names of the columns.
const KEY_NAMES: [&[u8]; 2] = [b"key", b"id"];

/// The options that select records.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Format [default: detected from the file name or the first byte]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// CSV, TSV, Parquet: column of the key, by its number from 1 or by its name
    #[arg(long, value_name = "COLUMN", default_value = "1")]
    key_column: Column,
    /// CSV, TSV, Parquet: column of the value; several columns are joined to one row, those of Parquet to a JSON object
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', default_value = "2")]
    value_column: Vec<Column>,
    /// CSV, TSV: the first row contains column names; implied if a column is given by name
    #[arg(long)]
    header: bool,
    #[command(flatten)]
    pub notation: NotationArgs,
    /// Files, which may be compressed with gzip or zstd; `-` is standard input, which is also the default
    #[arg(value_name = "INPUT")]
    inputs: Vec<PathBuf>,
}

/// What a command takes of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Records,
    /// Values may be missing.
    Keys,
}

impl SourceArgs {
    /// Returns whether a file, or standard input, is named.
    pub fn is_named(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// Returns an error if an input does not exist, begins as no records do, or has a format that is not part of this
    /// build. To be called before a database is created for the records.
    pub fn check(&self, wanted: Wanted, interrupt: &Interrupt) -> anyhow::Result<()> {
        for input in self.inputs.iter().filter(|input| input.as_os_str() != "-") {
            let named = || input.display().to_string();
            // What is not a plain file can be read only once.
            if fs::metadata(input).with_context(named)?.is_file() {
                drop(self.records(input, wanted, &ProgressBar::hidden(), interrupt).with_context(named)?);
            }
        }
        match self.format {
            Some(Format::Parquet) => parquet::check_built(),
            _ => Ok(()),
        }
    }

    /// Calls `take` with the number and the contents of each record. The bar shows the bytes that are read.
    ///
    /// # Errors
    /// [`siltstone::Error::Interrupted`] if the user interrupts; otherwise errors name the input.
    pub fn for_each(
        &self,
        wanted: Wanted,
        bar: &ProgressBar,
        interrupt: &Interrupt,
        mut take: impl FnMut(u64, Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        bar.set_length(self.bytes());
        let standard_input = [PathBuf::from("-")];
        let inputs = if self.inputs.is_empty() { &standard_input[..] } else { &self.inputs };
        let mut number = 0;
        for input in inputs {
            let named = || input.display().to_string();
            let records = match self.records(input, wanted, bar, interrupt) {
                Err(_) if interrupt.is_raised() => return Err(siltstone::Error::Interrupted.into()),
                records => records.with_context(named)?,
            };
            for (row, record) in records.enumerate() {
                if let (0, Ok(first)) = (row, &record) {
                    self.note_names(input, first);
                }
                if number % RECORDS_PER_LOOK == 0 && interrupt.is_raised() {
                    return Err(siltstone::Error::Interrupted.into());
                }
                number += 1;
                match record.and_then(|record| take(number, record)) {
                    // An interrupted read is also an error of the format.
                    Err(_) if interrupt.is_raised() => return Err(siltstone::Error::Interrupted.into()),
                    taken => taken.with_context(named)?,
                }
            }
        }
        Ok(())
    }

    /// Notes that the first row of a table has probably the names of its columns, if it is taken as a record.
    fn note_names(&self, input: &Path, first: &Record) {
        let is_table = matches!(self.format.or(Format::of_name(input)), Some(Format::Csv | Format::Tsv));
        let has_names = self.header || matches!(self.key_column, Column::Name(_));
        if is_table && !has_names && KEY_NAMES.iter().any(|name| first.key.eq_ignore_ascii_case(name)) {
            let key = String::from_utf8_lossy(&first.key);
            complain(format_args!("the first row is a record with the key {key}; --header skips it"));
        }
    }

    /// Returns the total length of the files whose length is known, in bytes.
    fn bytes(&self) -> u64 {
        let length = |path: &PathBuf| fs::metadata(path).ok().filter(|data| data.is_file());
        self.inputs.iter().filter_map(length).map(|data| data.len()).sum()
    }

    fn records(
        &self,
        input: &Path,
        wanted: Wanted,
        bar: &ProgressBar,
        interrupt: &Interrupt,
    ) -> anyhow::Result<RecordSource<'static>> {
        let columns = Columns {
            key: self.key_column.clone(),
            values: if wanted == Wanted::Keys { Vec::new() } else { self.value_column.clone() },
            has_header: self.header,
            notation: self.notation.typed(),
        };
        let format = self.format.or(Format::of_name(input));
        if matches!(format, None | Some(Format::Parquet))
            && let Some(file) = parquet::plain_file(input)
        {
            return parquet::source(file, &columns, bar.clone());
        }
        let source = bar.wrap_read(input::open(input, interrupt)?);
        let source = BufReader::with_capacity(1 << 20, input::decompressed(source)?);
        Format::source(format, &columns, source)
    }
}

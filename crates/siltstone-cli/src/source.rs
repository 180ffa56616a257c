//! The inputs of a command that takes records: files of several formats, also compressed, read one after the other.

use crate::interrupt::Interrupt;
use crate::notation::NotationArgs;
use crate::outcome::{complain, wrong_usage};
use crate::quantity::{counted, parse_whole};
use crate::stream;
use crate::transfer::columns::{Column, ColumnList, Columns};
use crate::transfer::{Fault, Format, RecordSource, parquet, parse_delimiter};
use anyhow::{Context, anyhow};
use clap::Args;
use indicatif::ProgressBar;
use siltstone::Record;
use siltstone_command::patient;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The number of records between two checks for an interrupt.
const RECORDS_PER_LOOK: u64 = 1024;

/// Keys of a first row that has probably the names of the columns.
const KEY_NAMES: [&[u8]; 2] = [b"key", b"id"];

/// The number of bad records whose errors are printed.
const BAD_TOLD_MAX: u64 = 20;

/// The options that select records.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Format [default: detected from the file name or the first byte]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// CSV, TSV, Parquet: column of the key, by its number from 1 or by its name; JSON lines: field of the key. A
    /// number that no column has is a name; name:2020 and number:2 say which is meant [default: 1; JSON lines: key]
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<Column>,
    /// CSV, TSV, Parquet, JSON lines: column of the value. Several columns are joined to one row, as they are in the
    /// file, those of Parquet and JSON lines to a JSON object. A name with a comma is quoted, as in CSV [default: 2;
    /// JSON lines: value]
    #[arg(long, value_name = "COLUMN,…")]
    value_column: Vec<ColumnList>,
    /// Read keys alone; their values are empty
    #[arg(long, conflicts_with = "value_column")]
    no_values: bool,
    /// CSV, TSV: the first row contains column names; implied if a column is given by name, and by the names that
    /// exports have
    #[arg(long)]
    header: bool,
    /// CSV: the character between the fields; `tab` for a tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = parse_delimiter)]
    delimiter: u8,
    /// CSV, TSV: take rows with more or fewer fields than the first row
    #[arg(long)]
    ragged: bool,
    /// Parquet, JSON lines: store this text for a single column that is null [default: null is an error]
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// Skip up to this number of records that are invalid: with an empty or too long key, a wrong number of fields, no
    /// JSON. Their places are printed, and their number at the end
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_whole::<u64>)]
    skip_bad: u64,
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
        if self.format.is_some() {
            self.check_options(self.format)?;
        }
        match self.format {
            Some(Format::Parquet) => parquet::check_built(),
            _ => Ok(()),
        }
    }

    /// Calls `take` with each record. The bar shows the bytes that are read.
    ///
    /// # Errors [`siltstone::Error::Interrupted`] if the user interrupts; otherwise errors name the input, and the
    /// place of a record that is invalid, or that `take` refuses.
    pub fn for_each(
        &self,
        wanted: Wanted,
        bar: &ProgressBar,
        interrupt: &Interrupt,
        mut take: impl FnMut(Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        bar.set_length(self.bytes());
        let standard_input = [PathBuf::from("-")];
        let inputs = if self.inputs.is_empty() { &standard_input[..] } else { &self.inputs };
        let mut bad = 0;
        let read = inputs.iter().try_for_each(|input| {
            let read = self
                .records(input, wanted, bar, interrupt)
                .and_then(|records| self.each(input, records, interrupt, &mut bad, &mut take));
            match read {
                // An interrupted read is also an error of the format.
                Err(_) if interrupt.is_raised() => Err(siltstone::Error::Interrupted.into()),
                read => read.with_context(|| input.display().to_string()),
            }
        });
        if bad > 0 {
            bar.suspend(|| complain(format_args!("{} skipped", counted(bad, "invalid record"))));
        }
        read
    }

    /// Calls `take` with each record of an input.
    fn each(
        &self,
        input: &Path,
        mut records: RecordSource<'_>,
        interrupt: &Interrupt,
        bad: &mut u64,
        mut take: impl FnMut(Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for number in 0u64.. {
            if number % RECORDS_PER_LOOK == 0 && interrupt.is_raised() {
                return Err(siltstone::Error::Interrupted.into());
            }
            let refused = match records.next() {
                Ok(None) => break,
                Err(Fault::Fatal(error)) => return Err(error.context(records.place())),
                Err(Fault::Bad(error)) => error,
                Ok(Some(record)) => {
                    if number == 0 {
                        self.note_names(input, &record);
                    }
                    match take(record) {
                        Ok(()) => continue,
                        Err(error) if is_refused(&error) => error,
                        Err(error) => return Err(error),
                    }
                }
            };
            if *bad >= self.skip_bad {
                let more = if self.skip_bad == 0 { "; --skip-bad N skips such records" } else { "" };
                return Err(anyhow!("{}: {refused:#}{more}", records.place()));
            }
            *bad += 1;
            if *bad <= BAD_TOLD_MAX {
                complain(format_args!("{}: {}: {refused:#}; skipped", input.display(), records.place()));
            }
        }
        Ok(())
    }

    /// Notes that the first row of a table has probably the names of its columns, if it is taken as a record.
    fn note_names(&self, input: &Path, first: &Record) {
        let is_table = matches!(self.format.or(Format::of_name(input)), Some(Format::Csv | Format::Tsv));
        let has_names = self.header || matches!(self.key_column, Some(Column::Name(_)));
        if is_table && !has_names && KEY_NAMES.iter().any(|name| first.key.eq_ignore_ascii_case(name)) {
            let key = String::from_utf8_lossy(&first.key);
            complain(format_args!("the first row is a record with the key {key}; --header skips it"));
        }
    }

    /// Returns an error if an option has no effect on inputs of this format.
    fn check_options(&self, format: Option<Format>) -> anyhow::Result<()> {
        let has_columns = self.key_column.is_some() || !self.value_column.is_empty();
        let is_for_tables = self.header || self.ragged;
        let problem = match format {
            Some(Format::Csv | Format::Tsv) if self.null.is_some() => {
                "--null is for Parquet and lines of JSON"
            }
            Some(Format::Lines | Format::Binary) if has_columns || self.null.is_some() => {
                "this format has no columns: --key-column, --value-column and --null have no effect"
            }
            Some(Format::Lines | Format::Binary | Format::Jsonl | Format::Parquet) if is_for_tables => {
                "--header and --ragged are for CSV and TSV"
            }
            format if self.delimiter != b',' && format != Some(Format::Csv) => {
                "--delimiter is for CSV, which --format csv states"
            }
            _ => return Ok(()),
        };
        Err(wrong_usage(problem))
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
        let chosen: Vec<_> = self.value_column.iter().flat_map(|list| list.0.clone()).collect();
        let columns = Columns {
            key: self.key_column.clone(),
            values: match wanted {
                Wanted::Records if !self.no_values => (!self.value_column.is_empty()).then_some(chosen),
                _ => Some(Vec::new()),
            },
            has_header: self.header,
            is_ragged: self.ragged,
            delimiter: self.delimiter,
            notation: self.notation.typed(),
            null: self.null.clone(),
        };
        let format = self.format.or(Format::of_name(input));
        self.check_options(format)?;
        if matches!(format, None | Some(Format::Parquet))
            && let Some(file) = parquet::plain_file(input)
        {
            return parquet::source(file, &columns, bar.clone());
        }
        let source = bar.wrap_read(patient::open(input, interrupt)?);
        let source = BufReader::with_capacity(1 << 20, stream::decompressed(source)?);
        Format::source(format, &columns, source)
    }
}

/// Returns whether a database or a dictionary refuses the record, and takes others.
fn is_refused(error: &anyhow::Error) -> bool {
    use siltstone::Error::{ExpiryUnsupported, HashLength, KeyLength, RecordSize, ValueLength};
    matches!(
        error.downcast_ref(),
        Some(
            KeyLength { .. } | ValueLength { .. } | RecordSize { .. } | HashLength { .. } | ExpiryUnsupported
        )
    )
}

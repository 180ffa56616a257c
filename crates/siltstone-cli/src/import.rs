//! `siltstone import`: puts the records of files.

use crate::delete::delete_found;
use crate::import_redis;
use crate::interrupt::Interrupt;
use crate::open::{Creation, Location};
use crate::outcome::{Outcome, Result, complain, help};
use crate::progress::{Stopwatch, byte_bar, show_bytes};
use crate::quantity::counted;
use crate::source::{SourceArgs, Wanted};
use crate::values::Values;
use clap::Args;
use siltstone::key::{HASH_LENGTH_MIN, RecordLayout};
use siltstone::{Batch, Change, Database, Error, NEVER, Record, Shape, WriteOptions};
use siltstone_command::database::expiry_after;
use std::collections::HashSet;
use std::time::Duration;

const EXAMPLES: &str = "
  siltstone import --db DIR all.export
  siltstone import --db DIR all.jsonl.gz
  siltstone import --db DIR --key-column url --value-column title pages.csv
  siltstone import --db DIR --key-column id --value-column name,age people.parquet
  siltstone import --db DIR --delete gone.csv
  siltstone import --db DIR --format lines words.txt.gz
  siltstone import --db DIR --delimiter ';' --skip-bad 10 rows.csv
  siltstone import --db NEW --bulk all.export
  siltstone import --db NEW/0 --redis localhost:6379
  siltstone export --db OLD | siltstone import --db NEW --fixed 32,44 --hashed-keys";

/// The number of records or bytes at which a batch is written.
const BATCH_RECORDS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Put exported records, lines of JSON, rows of CSV, TSV or Parquet, or lines that are keys
///
/// Creates the database if it does not exist. Replaces the values of existing keys, unless --skip-existing is given. In
/// a database of `siltstone serve data` all values become strings.
/// Detects the format, and gzip and zstd. Lines of JSON have the form {"key":"k","value":"v"}; key_hex, key_base64,
/// value_hex and value_base64 are for other bytes. The field or column expires_at_ms is an expiry time, in milliseconds
/// since 1970. Text is UTF-8, or any bytes without a mark of another encoding.
///
/// What cannot be read is an error with its file and line: a quote that is never closed, a row with another number of
/// fields than the first one, a row longer than a key and a value (256 MiB). After an error or an interruption, the
/// records before it are kept.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct ImportArgs {
    #[command(flatten)]
    location: Location,
    #[command(flatten)]
    source: SourceArgs,
    /// Keep the records of keys that exist. Of two records with one key, the first is put
    #[arg(long)]
    skip_existing: bool,
    /// Delete the keys of the input instead of putting records. Values are ignored and may be missing
    #[arg(long, conflicts_with = "skip_existing")]
    delete: bool,
    /// Sort all records first and load them at once, which writes each about once. Best for a new database or one with
    /// few records. After an error or an interruption, nothing or only whole partitions are imported
    #[arg(long, conflicts_with_all = ["skip_existing", "delete"])]
    bulk: bool,
    /// Copy the strings and hashes of a running Redis, with their expiry times: HOST:PORT, or a URL such as
    /// redis://USER:PASSWORD@HOST:PORT/DATABASE. A new database has values with types, as `siltstone serve data` needs
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["skip_existing", "delete", "bulk", "inputs"])]
    redis: Option<String>,
    #[command(flatten)]
    creation: Creation,
}

pub fn run(args: ImportArgs) -> Result {
    let interrupt = Interrupt::listen()?;
    if let Some(address) = &args.redis {
        let source = import_redis::Source::connect(address)?;
        let database = args.location.open_or_create_typed("import", &args.creation)?;
        return source.copy(&database, args.location.values()?, &interrupt);
    }
    let wanted = if args.delete { Wanted::Keys } else { Wanted::Records };
    args.source.check(wanted, &interrupt)?;
    let values = args.location.values()?;
    let database = match args.delete {
        true => args.location.open_single("import")?,
        false => args.location.open_or_create("import", &args.creation)?,
    };
    if args.bulk {
        return load(&args.source, &database, values, &interrupt);
    }
    let watch = Stopwatch::start();
    let mode = match (args.delete, args.skip_existing) {
        (true, _) => Mode::Delete,
        (_, true) => Mode::SkipExisting,
        _ => Mode::Put,
    };
    let mut import = Import {
        database: &database,
        shape: database.stats().shape,
        values,
        mode,
        expired: Expired::now()?,
        batch: Vec::new(),
        batch_bytes: 0,
        read: 0,
        done: 0,
    };
    let bar = byte_bar("importing");
    let taken = args.source.for_each(wanted, &bar, &interrupt, |record| import.take(record));
    bar.finish_and_clear();
    // The records before an error are kept.
    let flushed = import.flush();
    let (summary, expired) = (import.summary(), import.expired);
    database.close()?;
    complain(format_args!("{summary}{watch}"));
    expired.print();
    taken.and(flushed.map_err(Into::into)).map(|()| Outcome::Done)
}

/// Loads the records of the input at once.
fn load(source: &SourceArgs, database: &Database, values: Values, interrupt: &Interrupt) -> Result {
    let watch = Stopwatch::start();
    let (reading, loading) = (byte_bar("reading"), byte_bar("loading"));
    let mut loader = database.bulk_loader().progress(|done, all| {
        // While records are read, the total is unknown, and the other bar is shown.
        (all == 0 || show_bytes(&loading, done, all)) && !interrupt.is_raised()
    });
    let mut expired = Expired::now()?;
    source.for_each(Wanted::Records, &reading, interrupt, |record| {
        expired.see(&record);
        Ok(loader.put_until(&record.key, values.stored(record.value), record.expires_at_ms)?)
    })?;
    reading.finish_and_clear();
    let records = loader.finish()?;
    loading.finish_and_clear();
    database.close()?;
    complain(format_args!("{} imported{watch}", counted(records, "record")));
    expired.print();
    Ok(Outcome::Done)
}

/// The records that had expired before they were imported.
struct Expired {
    now_ms: u64,
    records: u64,
}

impl Expired {
    fn now() -> anyhow::Result<Expired> {
        Ok(Expired { now_ms: expiry_after(Duration::ZERO)?, records: 0 })
    }

    fn see(&mut self, record: &Record) {
        self.records += u64::from(record.expires_at_ms != NEVER && record.expires_at_ms <= self.now_ms);
    }

    fn print(&self) {
        if self.records > 0 {
            complain(format_args!(
                "{} had already expired and cannot be read; expires_at_ms is in milliseconds since 1970",
                counted(self.records, "record")
            ));
        }
    }
}

/// Returns an error if a database cannot hold a record.
fn check_record(shape: &Shape, record: &Record) -> siltstone::Result<()> {
    check_key_of(shape, &record.key)?;
    layout(shape).check_value(&record.value, record.expires_at_ms != NEVER)
}

/// Returns an error if a database cannot hold a key.
fn check_key_of(shape: &Shape, key: &[u8]) -> siltstone::Result<()> {
    layout(shape).check_key(key)?;
    match key.len() {
        got if shape.hashed_keys && got < HASH_LENGTH_MIN => Err(Error::HashLength { got }),
        _ => Ok(()),
    }
}

fn layout(shape: &Shape) -> RecordLayout {
    RecordLayout { fixed: shape.fixed, expiring: shape.expiring }
}

/// What happens to the keys of the input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Put,
    SkipExisting,
    Delete,
}

/// Records on their way into the database.
struct Import<'a> {
    database: &'a Database,
    shape: Shape,
    values: Values,
    mode: Mode,
    expired: Expired,
    batch: Vec<Record>,
    batch_bytes: usize,
    /// The records that were read, and those that were put or deleted.
    read: u64,
    done: u64,
}

impl Import<'_> {
    fn take(&mut self, mut record: Record) -> anyhow::Result<()> {
        // Refused here, so that the records before it are put.
        match self.mode {
            Mode::Delete => check_key_of(&self.shape, &record.key)?,
            _ => {
                record.value = self.values.stored(record.value);
                check_record(&self.shape, &record)?;
                self.expired.see(&record);
            }
        }
        self.batch_bytes += record.key.len() + record.value.len();
        self.batch.push(record);
        if self.batch.len() >= BATCH_RECORDS_MAX || self.batch_bytes >= BATCH_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> siltstone::Result<()> {
        let records = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let keys = || records.iter().map(|record| &record.key[..]).collect::<Vec<_>>();
        self.done += match self.mode {
            Mode::Put => {
                let mut batch = Batch::new();
                records.iter().try_for_each(|record| {
                    batch.put_until(&record.key, &record.value, record.expires_at_ms).map(drop)
                })?;
                self.database.write(&batch)?;
                records.len() as u64
            }
            Mode::SkipExisting => put_absent(self.database, &keys(), &records)?,
            Mode::Delete => {
                // A key that occurs twice is deleted once.
                let keys: HashSet<&[u8]> = keys().into_iter().collect();
                let keys: Vec<&[u8]> = keys.into_iter().collect();
                delete_found(self.database, &keys, WriteOptions::default())?
            }
        };
        self.read += records.len() as u64;
        Ok(())
    }

    fn summary(&self) -> String {
        let (done, rest) = (counted(self.done, "record"), self.read - self.done);
        match self.mode {
            Mode::Put => format!("{done} imported"),
            Mode::SkipExisting => format!("{done} imported, {rest} skipped"),
            Mode::Delete => format!("{} deleted, {rest} not found", counted(self.done, "key")),
        }
    }
}

/// Puts the records whose keys are absent, and returns how many.
fn put_absent(database: &Database, keys: &[&[u8]], records: &[Record]) -> siltstone::Result<u64> {
    let mut put = 0;
    database.transact(keys, |found, changes| {
        let mut seen = HashSet::new();
        put = 0;
        for ((record, found), change) in records.iter().zip(found).zip(changes) {
            if found.is_none() && seen.insert(&record.key) {
                let (value, expires_at_ms) = (record.value.clone(), record.expires_at_ms);
                *change = Change::Put { value, expires_at_ms };
                put += 1;
            }
        }
        Ok(())
    })?;
    Ok(put)
}

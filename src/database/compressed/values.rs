//! The values of a database with compression: their coding, the training of their dictionary, and what is counted.

use super::training::{SAMPLE_BYTES, Training};
use super::{CodingContext, file, needs_dictionary};
use crate::batch::BEFORE_ALL_EXPIRY;
use crate::compression::codec::{Codec, VALUE_LENGTH_COMPRESSED_MAX, raw_value, train};
use crate::compression::{Compression, dictionary_of};
use crate::damage::VerifyReport;
use crate::engine::{Engine, Found, GoOn, Record, ScanLimit, Shown, ShownValue};
use crate::error::{Error, Result};
use crate::names::COMPRESSION_NAMES;
use crate::stats::Stats;
use bytes::Bytes;
use siltstone_device::Directory;
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use siltstone_index::coding::checksum::Secret;
use std::path::PathBuf;

/// The maximum number of records that are read at an open, for samples and to see whether the dictionary was lost, and
/// then in each step before one is trained.
const OPEN_RECORDS: usize = 20_000;
const STEP_RECORDS: usize = 1_000;

/// What the values of one database share.
pub struct Values {
    codec: Codec,
    compression: Compression,
    training: Training,
    /// Held while the dictionary is trained and written, and during a checkpoint. The position from which on stored
    /// values may have a dictionary, which was lost; `None` if all were looked at.
    dictionary: Mutex<Option<u64>>,
    /// Whether that is a position. Read without the lock.
    must_scan: AtomicBool,
    /// The directory of the dictionary; `None` for an engine without files.
    directory: Option<Directory>,
    /// The secret of the database.
    owner: Secret,
    path: PathBuf,
    value_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    /// The bytes of the files of the dictionary.
    file_bytes: AtomicU64,
}

/// The bytes of values before and after compression.
#[derive(Default, Clone, Copy)]
pub struct Sizes {
    value_bytes: u64,
    stored_bytes: u64,
}

impl Values {
    /// Reads the dictionary of a database, if there is one, and otherwise begins to collect samples: the records that
    /// the database has, and those that are put.
    pub fn open(engine: &dyn Engine, place: CodingContext) -> Result<Values> {
        let CodingContext { compression, sample_bytes, directory, path, .. } = place;
        let codec = Codec::new(compression);
        let owner = directory.as_ref().map_or(Ok(Secret::new(0)), file::owner_of)?;
        let is_read_only = directory.as_ref().is_some_and(Directory::is_read_only);
        // A read-only database gets no values, and could not write a dictionary.
        let mut collects = compression.has_dictionary() && !is_read_only;
        if let Some(directory) = directory.as_ref().filter(|_| collects) {
            file::tidy(directory)?;
        }
        if let Some(directory) = directory.as_ref().filter(|_| compression.has_dictionary())
            && let Some(dictionary) = file::read(directory, owner)?
        {
            if !is_read_only {
                // While one copy is intact: without any, values are lost.
                file::complete(directory, owner, &dictionary)?;
            }
            if !codec.set_dictionary(dictionary) {
                return Err(Error::Corrupt {
                    file: directory.path_of(COMPRESSION_NAMES[0]),
                    offset: 0,
                    expected: "a dictionary of Zstandard".into(),
                    got: "other bytes".into(),
                });
            }
            collects = false;
        }
        let values = Values {
            codec,
            owner,
            compression,
            training: Training::new(collects.then_some(sample_bytes.unwrap_or(SAMPLE_BYTES))),
            dictionary: Mutex::default(),
            must_scan: AtomicBool::new(false),
            directory,
            path,
            value_bytes: AtomicU64::new(0),
            stored_bytes: AtomicU64::new(0),
            file_bytes: AtomicU64::new(0),
        };
        values.count_files();
        if collects {
            // Errors are left to later reads.
            let next = values.look_at_stored(engine, 0, OPEN_RECORDS).unwrap_or(Some(0));
            values.must_scan.store(next.is_some(), Relaxed);
            *values.dictionary.lock() = next;
        }
        Ok(values)
    }

    /// Reads some records from a position on, and takes samples if these are wanted. Returns where the next ones are.
    /// If a value was compressed with a dictionary, it was lost, and a new one would be taken for it: none is trained.
    fn look_at_stored(&self, engine: &dyn Engine, from: u64, records: usize) -> Result<Option<u64>> {
        let limit = ScanLimit { bytes: SAMPLE_BYTES, ..ScanLimit::from(records) };
        let page = engine.scan(from..=u64::MAX, limit, BEFORE_ALL_EXPIRY)?;
        for record in page.records {
            if dictionary_of(&record.value).is_some() {
                self.training.end();
                return Ok(None);
            }
            let mut value = Vec::new();
            if self.training.is_collecting() && self.codec.decode(&record.value, &mut value).is_ok() {
                self.training.add(&value);
            }
        }
        Ok(page.next)
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Appends the stored form of a value.
    ///
    /// # Errors
    /// [`Error::Setting`] if the value is too long.
    pub fn encode(&self, value: &[u8], sizes: &mut Sizes, out: &mut Vec<u8>) -> Result<()> {
        if value.len() > VALUE_LENGTH_COMPRESSED_MAX {
            let problem = format!(
                "the value has {} bytes; with compression the maximum is {VALUE_LENGTH_COMPRESSED_MAX} bytes; split it \
                 over several keys",
                value.len()
            );
            return Err(Error::Setting { name: "compression", problem });
        }
        let start = out.len();
        self.codec.encode(value, out);
        self.training.add(value);
        sizes.value_bytes += value.len() as u64;
        sizes.stored_bytes += (out.len() - start) as u64;
        Ok(())
    }

    /// Counts values that were written.
    pub fn count(&self, sizes: Sizes) {
        self.value_bytes.fetch_add(sizes.value_bytes, Relaxed);
        self.stored_bytes.fetch_add(sizes.stored_bytes, Relaxed);
    }

    /// Appends the value of its stored form.
    pub fn decode_into(&self, key: &[u8], stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.codec.decode(stored, out).map_err(|got| {
            // A key may have 64 KiB. Its beginning is enough in an error.
            let key = key[..key.len().min(64)].escape_ascii();
            let expected = format!("the compressed value of the key \"{key}\"");
            Error::Corrupt { file: self.path.clone(), offset: 0, expected, got }
        })
    }

    fn decode(&self, key: &[u8], stored: &Bytes) -> Result<Bytes> {
        if raw_value(stored).is_some() {
            return Ok(stored.slice(1..));
        }
        let mut value = Vec::new();
        self.decode_into(key, stored, &mut value)?;
        Ok(value.into())
    }

    pub fn found(&self, key: &[u8], found: Option<&Found>) -> Result<Option<Found>> {
        let decoded = |found: &Found| {
            Ok(Found { value: self.decode(key, &found.value)?, expires_at_ms: found.expires_at_ms })
        };
        found.map(decoded).transpose()
    }

    /// Returns the value of a stored form that a lookup has shown.
    pub fn shown<'a>(&self, key: &[u8], stored: Shown<'a>) -> Result<Shown<'a>> {
        let Shown { value, expires_at_ms } = stored;
        let value = match value {
            ShownValue::Owned(stored) => ShownValue::Owned(self.decode(key, &stored)?),
            ShownValue::Borrowed(stored) => match raw_value(stored) {
                Some(value) => ShownValue::Borrowed(value),
                None => {
                    let mut value = Vec::new();
                    self.decode_into(key, stored, &mut value)?;
                    ShownValue::Owned(value.into())
                }
            },
        };
        Ok(Shown { value, expires_at_ms })
    }

    pub fn record(&self, record: Record) -> Result<Record> {
        Ok(Record { value: self.decode(&record.key, &record.value)?, ..record })
    }

    /// Counts the bytes of the files of the dictionary.
    fn count_files(&self) {
        let directory = self.directory.as_ref().filter(|_| self.compression.has_dictionary());
        self.file_bytes.store(directory.map_or(0, file::bytes), Relaxed);
    }

    /// Returns whether there are samples to train the dictionary on.
    pub fn wants_training(&self) -> bool {
        self.training.is_full()
    }

    /// Returns whether stored records are read before the dictionary is trained.
    pub fn must_scan(&self) -> bool {
        self.wants_training() && self.must_scan.load(Relaxed)
    }

    /// Trains the dictionary and writes it durably, if there are enough samples and all records were looked at;
    /// otherwise looks at some of them. Returns whether it did either. As after any change of the directory that fails,
    /// the engine accepts no more writes if a write fails.
    pub fn train(&self, engine: &dyn Engine) -> Result<bool> {
        // Never waits: a checkpoint holds the lock while it takes those of the engine.
        let Some(mut next) = self.dictionary.try_lock() else { return Ok(false) };
        // Another thread may have trained it since this one asked.
        if !self.training.is_full() {
            return Ok(false);
        }
        if let Some(from) = *next {
            match self.look_at_stored(engine, from, STEP_RECORDS) {
                Ok(found) => *next = found,
                // The others may have a dictionary. The next open tries again.
                Err(_) => drop(self.training.end()),
            }
            self.must_scan.store(next.is_some(), Relaxed);
            return Ok(true);
        }
        // Taken in any case: samples that make no dictionary are not tried again.
        let samples = self.training.end();
        if let Some(dictionary) = train(&samples.bytes, &samples.lengths) {
            if let Some(directory) = &self.directory {
                // Before any value needs it. After a failure half of it may be there, so nothing is written any more.
                let written = file::complete(directory, self.owner, &dictionary);
                self.count_files();
                written.inspect_err(|error| engine.poison(&error.to_string()))?;
            }
            // Only now, when both copies are durable: from here on values are coded with it.
            self.codec.set_dictionary(dictionary);
        }
        Ok(true)
    }

    /// Calls `checkpoint` after the dictionary is in its target. No dictionary comes into use meanwhile.
    pub fn checkpoint(&self, target: &Directory, checkpoint: impl FnOnce() -> Result<()>) -> Result<()> {
        let _locked = self.dictionary.lock();
        if let Some(dictionary) = self.codec.dictionary() {
            // Before the engine's files: with its manifest the copy is a database, whose values may need the
            // dictionary.
            file::complete(target, self.owner, dictionary)?;
        }
        checkpoint()
    }

    /// Adds the damage of the dictionary to a report. If there is no dictionary and no other damage, reads the records.
    pub fn examine(
        &self,
        engine: &dyn Engine,
        report: &mut VerifyReport,
        go_on: &mut GoOn<'_>,
    ) -> Result<()> {
        let Some(directory) = self.directory.as_ref().filter(|_| self.compression.has_dictionary()) else {
            return Ok(());
        };
        file::examine(directory, report)?;
        let has_none = || self.codec.dictionary().is_none();
        // Again afterwards: the value may be of one that was trained meanwhile.
        if report.damage.is_empty() && has_none() && needs_dictionary(engine, go_on)? && has_none() {
            report.damage.push(file::lost(directory));
        }
        Ok(())
    }

    /// Adds what is counted here. The user's bytes are those of values before compression.
    pub fn add_to(&self, stats: &mut Stats) {
        let (value_bytes, stored_bytes) = (self.value_bytes.load(Relaxed), self.stored_bytes.load(Relaxed));
        let dictionary_bytes = self.codec.dictionary().map_or(0, <[u8]>::len);
        stats.shape.compression = self.compression;
        stats.user_bytes = (stats.user_bytes + value_bytes).saturating_sub(stored_bytes);
        let heap_bytes = (self.codec.heap_bytes() + self.training.heap_bytes()) as u64;
        stats.ram.add("compression", heap_bytes);
        stats.ram_peak.add("compression", heap_bytes);
        stats.details.push(("value_bytes", value_bytes as f64));
        stats.details.push(("stored_value_bytes", stored_bytes as f64));
        stats.details.push(("dictionary_bytes", dictionary_bytes as f64));
        stats.disk_bytes += self.file_bytes.load(Relaxed);
    }
}

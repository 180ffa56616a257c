//! Writing what is sound of a damaged file to a new one.

use super::super::SiltSettings;
use super::super::live::{Role, StoreEntry};
use super::super::merge::sorted_settings;
use super::survey::{DamagedStore, Survey};
use crate::device::{Directory, Purpose};
use crate::engine::settings::SettingsTable;
use crate::index::filter::RibbonFilter;
use crate::key::{Placing, random_number};
use crate::store::StoreFilter;
use crate::store::examine::{Advance, OpenedStore};
use crate::store::merge::{Cursor, Entry};
use crate::store::names::{FileName, list_files};
use crate::store::ordered::{BlockForm, IndexKind, OrderedTableSettings, OrderedTableWriter};
use crate::store::record::RecordShape;
use crate::store::sort::{Duplicates, ExternalSort, FAN_IN_MAX, SortSettings, SortedRecords};
use crate::{Error, Result};

/// The memory that records are sorted in, in bytes.
const SORT_MEMORY_BYTES: usize = 32 << 20;
/// New files are written in pieces of this size, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// New files under way.
pub(super) struct Rewriting<'a> {
    directory: &'a Directory,
    survey: &'a Survey,
    settings: SiltSettings,
    next_number: u64,
    /// The names of the files written so far.
    pub new_files: Vec<String>,
    /// How many records they hold.
    pub kept_records: u64,
}

impl<'a> Rewriting<'a> {
    /// No file so far. New stores get numbers that no file has.
    pub fn new(directory: &'a Directory, survey: &'a Survey, settings: &SiltSettings) -> Result<Self> {
        let mut settings = settings.clone();
        settings.adopt(&survey.settings)?;
        let numbers = list_files(directory)?.into_iter().filter_map(FileName::store_number);
        let after = numbers.map(|number| number.saturating_add(1)).max();
        let next_number = survey.next_number.max(after.unwrap_or(0));
        Ok(Rewriting { directory, survey, settings, next_number, new_files: Vec::new(), kept_records: 0 })
    }

    /// Writes the sound records of a store to a new one; `None` if there are none.
    pub fn store(&mut self, damaged: &DamagedStore, advance: &mut Advance<'_>) -> Result<Option<StoreEntry>> {
        let to_open = self.survey.to_open(damaged.partition, &damaged.entry, &damaged.name);
        let opened = match OpenedStore::open(self.directory, &to_open) {
            Ok(Ok(opened)) => opened,
            Ok(Err(_)) => return Ok(None),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut sort = self.sort(to_open.belonging.shape.placing)?;
        opened.examine(advance, &mut |record| sort.push(record, &mut |_, _| true))?;
        let mut sorted = sort.finish(&mut |_, _| true)?;
        if sorted.records_max() == 0 {
            return Ok(None);
        }
        let mut new =
            NewStore::create(self, damaged.entry.role, sorted.records_max(), sorted.record_bytes())?;
        while sorted.advance()? {
            let Some(entry) = sorted.entry() else { break };
            new.push(&entry)?;
        }
        new.finish(self).map(Some)
    }

    /// Writes the sound records of the log that stand in no store to new HashStores, each with its partition.
    pub fn log(&mut self, advance: &mut Advance<'_>) -> Result<Vec<(usize, StoreEntry)>> {
        let bits = self.survey.shape.partitions_log2;
        let mut sorted = self.sorted_log(advance)?;
        let expected = |all: u64| (all >> bits) + 1;
        let (records, bytes) = (expected(sorted.records_max()), expected(sorted.record_bytes()));
        let mut stores = Vec::new();
        let mut current: Option<(usize, NewStore)> = None;
        while sorted.advance()? {
            // In the order of whole hashes partition follows partition, each in its own order.
            let Some(Entry { hash, record }) = sorted.entry() else { break };
            let partition = hash.partition(bits);
            if let Some((done, store)) = current.take_if(|(number, _)| *number != partition) {
                stores.push((done, store.finish(self)?));
            }
            let (_, store) = match &mut current {
                Some(current) => current,
                None => {
                    let new = NewStore::create(self, Role::HashOrdered, records, bytes)?;
                    current.insert((partition, new))
                }
            };
            store.push(&Entry { hash: hash.within_partition(bits), record })?;
        }
        if let Some((done, store)) = current {
            stores.push((done, store.finish(self)?));
        }
        Ok(stores)
    }

    fn sorted_log(&self, advance: &mut Advance<'_>) -> Result<SortedRecords> {
        let Survey { shape, partitions, to_examine, log, .. } = self.survey;
        let mut sort = self.sort(Placing { hasher: shape.hasher, partitions_log2: 0 })?;
        to_examine.records(self.directory, log.end, advance, &mut |position, record| {
            let partition = shape.hasher.hash(record.key).partition(shape.partitions_log2);
            if position < partitions[partition].converted_to {
                return Ok(());
            }
            sort.push(record, &mut |_, _| true)
        })?;
        sort.finish(&mut |_, _| true)
    }

    fn sort(&self, placing: Placing) -> Result<ExternalSort> {
        let settings = SortSettings {
            shape: RecordShape { layout: self.survey.shape.layout, placing },
            memory_bytes: SORT_MEMORY_BYTES,
            fan_in_max: FAN_IN_MAX,
            duplicates: Duplicates::LastWins,
        };
        ExternalSort::new(self.directory.clone(), settings)
    }
}

/// A store that is being written in the place of a damaged one.
struct NewStore {
    entry: StoreEntry,
    writer: OrderedTableWriter,
    /// The hashes of all records, for the filter of a HashStore.
    hashes: Option<Vec<(u64, u64)>>,
}

impl NewStore {
    fn create(rewriting: &mut Rewriting<'_>, role: Role, records: u64, bytes: u64) -> Result<NewStore> {
        let (number, tag) = (rewriting.next_number, random_number()?);
        rewriting.next_number += 1;
        let shape = &rewriting.survey.shape;
        let index = rewriting.settings.index_kind();
        let sorted = sorted_settings(shape, index, tag, Purpose::Maintain, PIECE_BYTES);
        let sorted = OrderedTableSettings { expected_records: records, expected_bytes: bytes, ..sorted };
        let (role, name, settings) = match role {
            Role::Sorted => (role, FileName::SortedStore(number).to_string(), sorted),
            // Where a record stood in a cuckoo table says its filter alone, and that of a part of them there is not.
            Role::CuckooTable | Role::HashOrdered => {
                let (form, index) = (BlockForm::Stream, Some(IndexKind::Fences));
                (
                    Role::HashOrdered,
                    FileName::HashStore(number).to_string(),
                    OrderedTableSettings { form, index, ..sorted },
                )
            }
        };
        let hashes = (role == Role::HashOrdered).then(Vec::new);
        rewriting.new_files.push(name.clone());
        let writer = OrderedTableWriter::create(rewriting.directory, &name, settings)?;
        Ok(NewStore { entry: StoreEntry { number, tag, role }, writer, hashes })
    }

    fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        if let Some(hashes) = &mut self.hashes {
            hashes.push((entry.hash.placement, entry.hash.fingerprint));
        }
        self.writer.push(entry)
    }

    /// Ends the store, durably once the directory is synced.
    fn finish(self, rewriting: &mut Rewriting<'_>) -> Result<StoreEntry> {
        let bits = rewriting.settings.filter_bits;
        let filter = self.hashes.map(|hashes| RibbonFilter::new(hashes, bits)).transpose()?;
        rewriting.kept_records += self.writer.records();
        self.writer.finish(filter.map(StoreFilter::from))?.file().sync(Purpose::Maintain)?;
        Ok(self.entry)
    }
}

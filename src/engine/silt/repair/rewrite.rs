//! Writes the intact records of damaged files to new files.

use super::super::live::{Role, StoreEntry};
use super::super::merge::{run_form, sorted_form};
use super::super::partition_settings::PartitionSettings;
use super::super::ranges::ranges;
use super::survey::{DamagedStore, Survey};
use crate::engine::jobs::free_number;
use crate::error::Result;
use crate::key::PartitionHasher;
use crate::names::FileName;
use crate::store::examine::{Advance, OpenedStore};
use crate::store::hash_store::{HashStoreFormat, HashStoreWriter};
use crate::store::list_files;
use crate::store::merge::{Cursor, PlacedRecord};
use crate::store::record::RecordShape;
use crate::store::sort::{Duplicates, ExternalSort, FAN_IN_MAX, SortSettings, SortedRecords};
use crate::store::table::{OrderedTableSettings, OrderedTableWriter};
use siltstone_device::{Directory, Purpose, random_number};
use siltstone_index::run_columns::RunColumnsSettings;
use std::collections::HashSet;

/// The memory for sorting records, in bytes.
const SORT_MEMORY_BYTES: usize = 32 << 20;
/// The size of writes to new files, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// The new files of a repair.
pub(super) struct Rewriting<'a> {
    directory: &'a Directory,
    survey: &'a Survey,
    settings: PartitionSettings,
    /// The numbers of stores are from this one on, without those that files have.
    next_number: u64,
    taken: HashSet<u64>,
    /// The names of the files written so far.
    pub new_files: Vec<String>,
    /// The number of records in them.
    pub kept_records: u64,
}

impl<'a> Rewriting<'a> {
    /// Starts without files. New stores get numbers that no existing file has.
    pub fn new(directory: &'a Directory, survey: &'a Survey, settings: PartitionSettings) -> Result<Self> {
        let taken = list_files(directory)?.into_iter().filter_map(FileName::store_number).collect();
        let next_number = survey.manifest.next_number();
        let new_files = Vec::new();
        Ok(Rewriting { directory, survey, settings, next_number, taken, new_files, kept_records: 0 })
    }

    /// Writes the intact records of a store to a new one; returns `None` if there are none.
    pub fn store(&mut self, damaged: &DamagedStore, advance: &mut Advance<'_>) -> Result<Option<StoreEntry>> {
        let to_open = self.survey.to_open(damaged.partition, &damaged.entry, &damaged.name);
        let Ok(opened) = OpenedStore::open(self.directory, &to_open)? else { return Ok(None) };
        let mut sort = self.sort(to_open.scope.shape.hasher)?;
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

    /// Writes the intact log records that are in no store to new HashStores, and returns them with their partitions.
    pub fn log(&mut self, advance: &mut Advance<'_>) -> Result<Vec<(usize, StoreEntry)>> {
        let bits = self.survey.manifest.header().partitions_log2;
        let mut sorted = self.sorted_log(advance)?;
        let expected = |all: u64| (all >> bits) + 1;
        let (records, bytes) = (expected(sorted.records_max()), expected(sorted.record_bytes()));
        let mut stores = Vec::new();
        let mut current: Option<(usize, NewStore)> = None;
        while sorted.advance()? {
            // In the order of whole hashes, partitions follow each other, and each is in its own order.
            let Some(PlacedRecord { hash, record }) = sorted.entry() else { break };
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
            store.push(&PlacedRecord { hash: hash.within_partition(bits), record })?;
        }
        if let Some((done, store)) = current {
            stores.push((done, store.finish(self)?));
        }
        Ok(stores)
    }

    fn sorted_log(&self, advance: &mut Advance<'_>) -> Result<SortedRecords> {
        let Survey { manifest, to_examine, log, .. } = self.survey;
        let (header, partitions) = (manifest.header(), manifest.partitions());
        let mut sort = self.sort(PartitionHasher { key_hasher: header.hasher, partitions_log2: 0 })?;
        to_examine.records(self.directory, log.end, advance, &mut |position, record| {
            let partition = header.hasher.hash(record.key).partition(header.partitions_log2);
            // It is in a store. As a record of the newest store it could bring back what a lost one has replaced.
            if position < partitions[partition].converted_to {
                return Ok(());
            }
            sort.push(record, &mut |_, _| true)
        })?;
        sort.finish(&mut |_, _| true)
    }

    fn sort(&self, hasher: PartitionHasher) -> Result<ExternalSort> {
        let settings = SortSettings {
            shape: RecordShape { layout: self.survey.manifest.header().layout, hasher },
            memory_bytes: SORT_MEMORY_BYTES,
            fan_in_max: FAN_IN_MAX,
            duplicates: Duplicates::LastWins,
        };
        ExternalSort::new(self.directory.clone(), settings)
    }
}

/// The store that replaces a damaged one.
struct NewStore {
    number: u64,
    tag: u64,
    writer: NewStoreWriter,
}

enum NewStoreWriter {
    Hash(Box<HashStoreWriter>),
    Sorted(Box<OrderedTableWriter>),
}

impl NewStore {
    fn create(rewriting: &mut Rewriting<'_>, role: Role, records: u64, bytes: u64) -> Result<NewStore> {
        let number = free_number(rewriting.directory, rewriting.next_number, &rewriting.taken)?;
        let tag = random_number()?;
        rewriting.next_number = number + 1;
        let (header, settings) = (rewriting.survey.manifest.header(), &rewriting.settings);
        let name = role.file_name(number);
        rewriting.new_files.push(name.clone());
        let table = OrderedTableSettings {
            tag,
            shape: header.records(),
            block_bytes: header.block_bytes,
            expected_records: records,
            expected_bytes: bytes,
            purpose: Purpose::Maintain,
            piece_bytes: PIECE_BYTES,
        };
        let directory = rewriting.directory;
        // A later merge cuts all runs of the partition into the same ranges.
        let ranges = |chain| ranges(settings, chain, 1 << header.partitions_log2, records, 0);
        let writer = match role {
            Role::Sorted => {
                let form = match &settings.chain {
                    Some(chain) => run_form(chain, ranges(chain)),
                    None => sorted_form(header, settings.index),
                };
                let writer = OrderedTableWriter::create(directory, &name, form, table)?;
                NewStoreWriter::Sorted(Box::new(writer))
            }
            _ => {
                let format = match &settings.chain {
                    Some(chain) => HashStoreFormat::Run(RunColumnsSettings {
                        ranges: ranges(chain),
                        filter_bits: chain.filter_bits,
                    }),
                    // The LogStore no longer exists, nor its tags and slot order.
                    None => HashStoreFormat::Ribbon(settings.filter_bits),
                };
                let writer = HashStoreWriter::create(directory, &name, format, table)?;
                NewStoreWriter::Hash(Box::new(writer))
            }
        };
        Ok(NewStore { number, tag, writer })
    }

    fn push(&mut self, entry: &PlacedRecord<'_>) -> Result<()> {
        match &mut self.writer {
            NewStoreWriter::Hash(writer) => writer.push(entry),
            NewStoreWriter::Sorted(writer) => writer.push(entry),
        }
    }

    /// Writes the rest of the store and syncs it. It is durable once the directory is synced.
    fn finish(self, rewriting: &mut Rewriting<'_>) -> Result<StoreEntry> {
        let (role, store) = match self.writer {
            NewStoreWriter::Hash(writer) => (Role::HashOrdered, writer.finish(&[])?),
            NewStoreWriter::Sorted(writer) => (Role::Sorted, writer.finish(None)?),
        };
        rewriting.kept_records += store.records();
        store.file().sync(Purpose::Maintain)?;
        Ok(StoreEntry { number: self.number, tag: self.tag, role })
    }
}

//! BufferHash (Anand, Muthukrishnan, Kappes, Akella, Nath: "Cheap and Large CAMs for High Performance Data-Intensive
//! Networked Systems", NSDI 2010): partitions, each with a hash table in memory that is written to flash when it is
//! full.
//!
//! ```text
//!              partition 0                          partition 1 ...
//! memory       buffer (cuckoo table, half full)     filters of its incarnations, side by side
//! flash        incarnation 3, 2, 1                  tables as they were in memory
//! ```
//!
//! A lookup reads the tables whose filters have the key, the newest first: the page of one of its two slots, then
//! that of the other. When a partition has all its incarnations, the oldest one leaves: with its records (FIFO), or
//! those that are the newest of their keys are inserted again.

use super::{Lengths, PAGE_BYTES, Peer, below, hash};
use crate::point::{Footprint, Settles};
use crate::{Error, Result};
use siltstone_bench::random::{self, Rng};
use siltstone_device::{AlignedBuffer, Directory, File, IoSnapshot, Purpose};
use siltstone_index::bloom::{BitSliced, functions_of};

/// The share of the slots that are taken when a table is written.
const LOAD: f64 = 0.5;
/// An insertion that moves more records than this ends a table early.
const RELOCATIONS_MAX: u32 = 500;
/// The byte before a record in a slot that has one.
const TAKEN: u8 = 1;

/// What becomes of the oldest incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// It leaves with its records.
    Fifo,
    /// Its records that were not overwritten are inserted again.
    Reinsert,
}

/// The settings of BufferHash.
#[derive(Debug, Clone, Copy)]
pub struct BufferHashSettings {
    /// The lengths of keys and values.
    pub lengths: Lengths,
    /// The number of keys for which there are partitions.
    pub expected_keys: u64,
    /// The pages of a table.
    pub table_pages: u32,
    /// The tables of a partition, with the one in memory; the paper has 16.
    pub tables: u32,
    /// Bits of the filters per key; the paper has 16.
    pub filter_bits: u32,
    /// What becomes of the oldest table.
    pub eviction: Eviction,
}

/// The store.
pub struct BufferHash {
    settings: BufferHashSettings,
    directory: Directory,
    file: File,
    partitions: Vec<Partition>,
    page_slots: usize,
    read: AlignedBuffer,
    random: Rng,
}

struct Partition {
    /// The table in memory, in the form of flash.
    buffer: AlignedBuffer,
    len: usize,
    /// The filters of the incarnations.
    filters: BitSliced,
    /// The incarnations that were written so far.
    written: u64,
}

impl BufferHash {
    /// Creates an empty store in a directory.
    ///
    /// # Errors
    /// Those of the device; settings without sense.
    pub fn create(directory: Directory, settings: BufferHashSettings) -> Result<Self> {
        let page_slots = PAGE_BYTES / (1 + settings.lengths.record());
        let has_sense = page_slots > 0 && settings.table_pages > 0 && (2..=256).contains(&settings.tables);
        if !has_sense {
            return Err(Error::settings("a table has a page, a page a slot, a partition 2 to 256 tables"));
        }
        let table_keys = (settings.table_pages as usize * page_slots) as f64 * LOAD;
        let partitions = (settings.expected_keys as f64 / (table_keys * f64::from(settings.tables))).ceil();
        let file = directory.create("bufferhash", directory.access())?;
        let filters = BitSliced::new(
            (table_keys as u32 * settings.filter_bits).max(1),
            functions_of((table_keys as u32 * settings.filter_bits).max(1), table_keys),
        )?;
        let partition = || {
            let mut buffer = AlignedBuffer::with_capacity(0);
            buffer.resize(settings.table_pages as usize * PAGE_BYTES);
            Partition { buffer, len: 0, filters: filters.clone(), written: 0 }
        };
        Ok(BufferHash {
            settings,
            directory,
            file,
            partitions: (0..partitions.max(1.0) as usize).map(|_| partition()).collect(),
            page_slots,
            read: AlignedBuffer::with_capacity(PAGE_BYTES),
            random: random::stream(7, 0),
        })
    }

    fn partition_of(&self, key: &[u8]) -> usize {
        below(hash(key, 0), self.partitions.len())
    }

    /// Returns the two slots of a key.
    fn slots(&self, key: &[u8]) -> [usize; 2] {
        let slots = self.settings.table_pages as usize * self.page_slots;
        [1, 2].map(|function| below(hash(key, function), slots))
    }

    /// Returns the bytes of a slot in a table, or in its page.
    fn slot_range(&self, slot: usize) -> std::ops::Range<usize> {
        let length = 1 + self.settings.lengths.record();
        let start = slot / self.page_slots * PAGE_BYTES + slot % self.page_slots * length;
        start..start + length
    }

    /// Returns the value of a key in the bytes of a slot.
    fn value(slot: &[u8], key: &[u8]) -> Option<Vec<u8>> {
        let (taken, record) = slot.split_first()?;
        (*taken == TAKEN && record.starts_with(key)).then(|| record[key.len()..].to_vec())
    }

    fn in_buffer(&self, partition: usize, key: &[u8]) -> Option<Vec<u8>> {
        let buffer = &self.partitions[partition].buffer;
        self.slots(key).into_iter().find_map(|slot| Self::value(&buffer[self.slot_range(slot)], key))
    }

    /// Puts a record into the table in memory. Returns a record for which there is no slot, which may be another one.
    fn put(&mut self, partition: usize, record: Vec<u8>) -> Option<Vec<u8>> {
        let key_bytes = self.settings.lengths.key;
        let slots = self.slots(&record[..key_bytes]).map(|slot| self.slot_range(slot));
        let Partition { buffer, len, .. } = &mut self.partitions[partition];
        for slot in slots {
            if Self::value(&buffer[slot.clone()], &record[..key_bytes]).is_some() {
                buffer[slot.start + 1..slot.end].copy_from_slice(&record);
                return None;
            }
        }
        *len += 1;
        let mut homeless = record;
        for _ in 0..RELOCATIONS_MAX {
            let slots = self.slots(&homeless[..key_bytes]).map(|slot| self.slot_range(slot));
            let buffer = &mut self.partitions[partition].buffer;
            let free = slots.iter().find(|slot| buffer[slot.start] != TAKEN);
            let chosen = free.unwrap_or(&slots[self.random.usize(..2)]).clone();
            let is_free = free.is_some();
            buffer[chosen.start] = TAKEN;
            let moved = &mut buffer[chosen.start + 1..chosen.end];
            moved.swap_with_slice(&mut homeless);
            if is_free {
                return None;
            }
        }
        self.partitions[partition].len -= 1;
        Some(homeless)
    }

    /// Returns the offset of a page of an incarnation.
    fn offset(&self, partition: usize, incarnation: u64, page: usize) -> u64 {
        let tables = u64::from(self.settings.tables) - 1;
        let table = partition as u64 * tables + incarnation % tables;
        (table * u64::from(self.settings.table_pages) + page as u64) * PAGE_BYTES as u64
    }

    /// Returns the value of a key in the incarnations from `first` on, which are numbered from 0.
    fn on_flash(
        &mut self,
        partition: usize,
        key: &[u8],
        first: u64,
        purpose: Purpose,
    ) -> Result<Option<Vec<u8>>> {
        let Partition { filters, written, .. } = &self.partitions[partition];
        let oldest = written - u64::from(filters.columns());
        let incarnations: Vec<u64> =
            filters.matches(hash(key, 3)).map(|column| oldest + u64::from(column)).collect();
        for incarnation in incarnations.into_iter().take_while(|incarnation| *incarnation >= first) {
            let mut page_read = None;
            for slot in self.slots(key) {
                let page = slot / self.page_slots;
                if page_read != Some(page) {
                    let offset = self.offset(partition, incarnation, page);
                    self.file.read(purpose, offset, PAGE_BYTES, &mut self.read)?;
                    page_read = Some(page);
                }
                if let Some(value) = Self::value(&self.read[self.slot_range(slot % self.page_slots)], key) {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }

    /// Writes the table in memory as the newest incarnation. Returns the records of the oldest one that are inserted
    /// again.
    fn flush(&mut self, partition: usize) -> Result<Vec<Vec<u8>>> {
        let is_full = self.partitions[partition].filters.columns() + 1 == self.settings.tables;
        let live = match self.settings.eviction {
            Eviction::Reinsert if is_full => self.live_of_oldest(partition)?,
            _ => Vec::new(),
        };
        let key_bytes = self.settings.lengths.key;
        let records = self.records(&self.partitions[partition].buffer);
        let hashes: Vec<u64> = records.iter().map(|record| hash(&record[..key_bytes], 3)).collect();
        let offset = self.offset(partition, self.partitions[partition].written, 0);
        let Partition { buffer, len, filters, written } = &mut self.partitions[partition];
        if is_full {
            filters.remove_oldest(1);
        }
        self.file.write(Purpose::Log, offset, buffer)?;
        filters.add_column(hashes)?;
        *written += 1;
        *len = 0;
        buffer.fill(0);
        Ok(live)
    }

    fn records(&self, table: &[u8]) -> Vec<Vec<u8>> {
        let slots = 0..table.len() / PAGE_BYTES * self.page_slots;
        let taken = slots.map(|slot| &table[self.slot_range(slot)]).filter(|slot| slot[0] == TAKEN);
        taken.map(|slot| slot[1..].to_vec()).collect()
    }

    /// Returns the records of the oldest incarnation that are the newest of their keys.
    fn live_of_oldest(&mut self, partition: usize) -> Result<Vec<Vec<u8>>> {
        let Partition { filters, written, .. } = &self.partitions[partition];
        let oldest = written - u64::from(filters.columns());
        let mut table = AlignedBuffer::with_capacity(0);
        let bytes = self.settings.table_pages as usize * PAGE_BYTES;
        self.file.read(Purpose::Collect, self.offset(partition, oldest, 0), bytes, &mut table)?;
        let mut live = Vec::new();
        for record in self.records(&table) {
            let key = &record[..self.settings.lengths.key];
            let is_newest = self.in_buffer(partition, key).is_none()
                && self.on_flash(partition, key, oldest + 1, Purpose::Collect)?.is_none();
            if is_newest {
                live.push(record);
            }
        }
        Ok(live)
    }
}

impl BufferHash {
    /// Returns the memory of all structures, in bytes.
    pub fn ram_bytes(&self) -> u64 {
        let of = |partition: &Partition| partition.buffer.heap_bytes() + partition.filters.heap_bytes();
        let partitions: usize = self.partitions.iter().map(of).sum();
        (partitions + size_of::<Partition>() * self.partitions.len() + self.read.heap_bytes()) as u64
    }
}

impl Settles for BufferHash {
    /// There is no background work.
    fn settled_bytes(&mut self) -> Result<Footprint> {
        Ok(Footprint { ram_bytes: self.ram_bytes(), disk_bytes: None })
    }
}

impl Peer for BufferHash {
    /// With [`Eviction::Reinsert`], refuses a record if the oldest table is full of live ones.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.settings.lengths.check(key, Some(value))?;
        let partition = self.partition_of(key);
        let table_keys = (self.settings.table_pages as usize * self.page_slots) as f64 * LOAD;
        let mut to_put = vec![[key, value].concat()];
        let mut flushes = 0;
        while let Some(record) = to_put.pop() {
            let is_full = self.partitions[partition].len as f64 >= table_keys;
            let homeless = if is_full { Some(record) } else { self.put(partition, record) };
            let Some(homeless) = homeless else { continue };
            if flushes > self.settings.tables {
                return Err(Error::settings("all records of the oldest table are live"));
            }
            flushes += 1;
            to_put.push(homeless);
            to_put.extend(self.flush(partition)?);
        }
        Ok(())
    }

    fn lookup(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.settings.lengths.check(key, None)?;
        let partition = self.partition_of(key);
        match self.in_buffer(partition, key) {
            Some(value) => Ok(Some(value)),
            None => self.on_flash(partition, key, 0, Purpose::Get),
        }
    }

    fn io(&self) -> IoSnapshot {
        self.directory.io()
    }
}

//! The state of a simulated device: files, directory entries, faults, and the moment at which the power fails.

use super::content::Content;
use super::{Call, FailingCall, Faults, SECTOR_BYTES};
use siltstone_device::FileState;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Error, ErrorKind};

/// The number of a file, independent of its names.
pub(super) type Inode = u64;

/// The time of an operation, in nanoseconds, as on a fast drive.
const READ_NS: u64 = 80_000;
const CHANGE_NS: u64 = 20_000;
const SYNC_NS: u64 = 500_000;
const SLOW_FACTOR: u64 = 1000;

/// An unsynced change of the directory.
#[derive(Clone)]
pub(super) enum EntryChange {
    Link { name: String, inode: Inode },
    Unlink { name: String },
    Rename { from: String, to: String, inode: Inode },
}

impl EntryChange {
    fn name(&self) -> &str {
        match self {
            EntryChange::Link { name, .. } | EntryChange::Unlink { name } => name,
            EntryChange::Rename { to, .. } => to,
        }
    }

    pub fn apply(&self, entries: &mut BTreeMap<String, Inode>) {
        match self {
            EntryChange::Link { name, inode } => drop(entries.insert(name.clone(), *inode)),
            EntryChange::Unlink { name } => drop(entries.remove(name)),
            EntryChange::Rename { from, to, inode } => {
                entries.remove(from);
                entries.insert(to.clone(), *inode);
            }
        }
    }
}

#[derive(Clone)]
pub(super) struct Disk {
    pub files: BTreeMap<Inode, Content>,
    pub entries: BTreeMap<String, Inode>,
    pub durable_entries: BTreeMap<String, Inode>,
    pub pending_entries: Vec<(u64, EntryChange)>,
    pub faults: Faults,
    pub failing_call: Option<FailingCall>,
    random: fastrand::Rng,
    /// A number that every loss of power changes.
    run: u64,
    next_inode: Inode,
    changes: u64,
    power_off_at: u64,
    off: bool,
    fault_count: u64,
    failed_syncs: u64,
    failed_changes: u64,
    elapsed_ns: u64,
}

/// The unit in which space is reserved for files that are appended to, in bytes.
const RESERVED_BYTES: usize = 8 * SECTOR_BYTES;

impl Disk {
    pub fn new(seed: u64) -> Disk {
        Disk {
            files: BTreeMap::new(),
            entries: BTreeMap::new(),
            durable_entries: BTreeMap::new(),
            pending_entries: Vec::new(),
            faults: Faults::default(),
            failing_call: None,
            random: fastrand::Rng::with_seed(seed),
            run: seed,
            next_inode: 0,
            changes: 0,
            power_off_at: u64::MAX,
            off: false,
            fault_count: 0,
            failed_syncs: 0,
            failed_changes: 0,
            elapsed_ns: 0,
        }
    }

    /// Returns the same state as another process finds it: nothing is open, and no fault is set.
    pub fn restarted(&self, seed: u64) -> Disk {
        let mut disk = self.clone();
        disk.files.values_mut().for_each(|content| content.handles = 0);
        disk.forget_unreachable();
        (disk.faults, disk.failing_call) = (Faults::default(), None);
        disk.random = fastrand::Rng::with_seed(seed);
        (disk.off, disk.power_off_at) = (false, u64::MAX);
        disk
    }

    /// Returns a seed for what is not a part of the disk, without a draw from its random numbers.
    pub fn seed(&self) -> u64 {
        self.random.get_seed()
    }

    pub fn run(&self) -> u64 {
        self.run
    }

    pub fn power_off_after(&mut self, operations: u64) {
        self.power_off_at = self.changes.saturating_add(operations);
    }

    pub fn switch_off(&mut self) {
        self.off = true;
    }

    pub fn is_off(&self) -> bool {
        self.off
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn fault_count(&self) -> u64 {
        self.fault_count
    }

    pub fn failed_syncs(&self) -> u64 {
        self.failed_syncs
    }

    pub fn failed_changes(&self) -> u64 {
        self.failed_changes
    }

    /// Returns the sum of the lengths of all files that have a name, in bytes.
    pub fn named_bytes(&self) -> u64 {
        let length = |inode| self.files.get(inode).map_or(0, |content| content.written.len() as u64);
        self.entries.values().map(length).sum()
    }

    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// Adds a new file without a name.
    pub fn add(&mut self, content: Content) -> Inode {
        self.next_inode += 1;
        self.files.insert(self.next_inode, content);
        self.next_inode
    }

    fn happens(&mut self, fault: impl Fn(&Faults) -> f64) -> bool {
        let chance = fault(&self.faults);
        let happens = chance > 0.0 && self.random.f64() < chance;
        self.fault_count += u64::from(happens);
        happens
    }

    /// Returns whether a call fails: because it was chosen, or at random. `name` is called only if the name matters.
    fn fails(&mut self, call: Call, name: impl Fn(&Disk) -> bool, chance: impl Fn(&Faults) -> f64) -> bool {
        self.is_chosen(call, name) || self.happens(chance)
    }

    fn is_chosen(&mut self, call: Call, concerns: impl Fn(&Disk) -> bool) -> bool {
        let Some(failing) = self.failing_call else { return false };
        if failing.call.is_some_and(|chosen| chosen != call) || !concerns(self) {
            return false;
        }
        if failing.after > 0 {
            self.failing_call = Some(FailingCall { after: failing.after - 1, ..failing });
            return false;
        }
        if !failing.for_ever {
            self.failing_call = None;
        }
        self.fault_count += 1;
        true
    }

    /// Returns whether the chosen call is a call on this file.
    fn concerns_name(&self, name: &str) -> bool {
        self.failing_call.is_some_and(|failing| name.contains(failing.name_part))
    }

    fn concerns(&self, inode: Inode) -> bool {
        let part = self.failing_call.map_or("", |failing| failing.name_part);
        part.is_empty() || self.entries.iter().any(|(name, named)| *named == inode && name.contains(part))
    }

    fn change_failed(&mut self, error: Error) -> Error {
        self.failed_changes += 1;
        error
    }

    fn spend(&mut self, ns: u64) {
        let factor = if self.happens(|faults| faults.slow) { SLOW_FACTOR } else { 1 };
        self.elapsed_ns += ns * factor;
    }

    /// Begins a change. Returns `Ok(true)` if the power fails during it.
    fn begin_change(&mut self, ns: u64) -> io::Result<bool> {
        self.check_power()?;
        self.spend(ns);
        self.changes += 1;
        self.off = self.changes >= self.power_off_at;
        Ok(self.off)
    }

    pub fn check_power(&self) -> io::Result<()> {
        if self.off { Err(power_lost()) } else { Ok(()) }
    }

    pub fn content(&mut self, inode: Inode) -> io::Result<&mut Content> {
        self.files.get_mut(&inode).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub fn find(&self, name: &str) -> io::Result<Inode> {
        self.entries.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Changes the directory. If the power fails during the change, it takes effect or not, at random.
    fn change_entries(&mut self, call: Call, change: EntryChange) -> io::Result<()> {
        let interrupted = self.begin_change(CHANGE_NS)?;
        let lost = interrupted && self.random.bool();
        let concerns = |disk: &Disk| disk.concerns_name(change.name());
        if !lost && self.fails(call, concerns, |faults| faults.directory_error) {
            return Err(self.change_failed(input_output_error()));
        }
        if !lost {
            change.apply(&mut self.entries);
            self.pending_entries.push((self.changes, change));
        }
        if interrupted { Err(power_lost()) } else { Ok(()) }
    }

    pub fn create(&mut self, name: &str) -> io::Result<Inode> {
        self.check_power()?;
        if self.entries.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let inode = self.add(Content::default());
        self.change_entries(Call::Create, EntryChange::Link { name: name.to_owned(), inode })?;
        self.content(inode)?.handles += 1;
        Ok(inode)
    }

    pub fn open(&mut self, name: &str) -> io::Result<Inode> {
        self.check_power()?;
        let inode = self.find(name)?;
        self.content(inode)?.handles += 1;
        Ok(inode)
    }

    pub fn close(&mut self, inode: Inode) {
        let Some(content) = self.files.get_mut(&inode) else { return };
        content.handles -= 1;
        if content.handles == 0 && !self.entries.values().any(|named| *named == inode) {
            self.forget_unreachable();
        }
    }

    pub fn list(&self) -> io::Result<Vec<String>> {
        self.check_power()?;
        Ok(self.entries.keys().cloned().collect())
    }

    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        self.check_power()?;
        self.find(name)?;
        self.change_entries(Call::Remove, EntryChange::Unlink { name: name.to_owned() })
    }

    pub fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.check_power()?;
        let inode = self.find(from)?;
        // A file that has a reader keeps its name: a retired one is written over under its new name.
        self.check_unread(inode)?;
        let change = EntryChange::Rename { from: from.to_owned(), to: to.to_owned(), inode };
        self.change_entries(Call::Rename, change)
    }

    pub fn sync_directory(&mut self) -> io::Result<()> {
        if self.begin_change(SYNC_NS)? {
            return Err(power_lost());
        }
        if self.fails(Call::SyncDirectory, |_| true, |faults| faults.directory_error) {
            return Err(self.change_failed(input_output_error()));
        }
        self.durable_entries.clone_from(&self.entries);
        self.pending_entries.clear();
        self.forget_unreachable();
        Ok(())
    }

    pub fn read(&mut self, inode: Inode, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.check_power()?;
        self.spend(READ_NS);
        if self.fails(Call::Read, |disk| disk.concerns(inode), |faults| faults.read_error) {
            return Err(input_output_error());
        }
        let bytes = &self.content(inode)?.written;
        let from = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        if count > 0 && self.happens(|faults| faults.read_flip) {
            let bit = self.random.usize(..count * 8);
            buffer[bit / 8] ^= 1 << (bit % 8);
        }
        if count > 0 && self.happens(|faults| faults.short_read) {
            return Ok(self.random.usize(..count));
        }
        Ok(count)
    }

    pub fn write(&mut self, inode: Inode, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(|_| ErrorKind::FileTooLarge)?;
        offset.checked_add(bytes.len()).ok_or(ErrorKind::FileTooLarge)?;
        let interrupted = self.begin_change(CHANGE_NS)?;
        let failure = if interrupted {
            Some(power_lost())
        } else if self.fails(Call::Write, |disk| disk.concerns(inode), |faults| faults.write_error) {
            Some(input_output_error())
        } else {
            None
        };
        let part = if failure.is_some() { self.some_sectors(offset, bytes) } else { bytes };
        let fitting = self.fitting(inode, offset, part)?;
        let moment = self.changes;
        if !fitting.is_empty() {
            self.content(inode)?.write(moment, offset, fitting);
        }
        if fitting.len() < part.len() {
            self.fault_count += 1;
            return Err(self.change_failed(ErrorKind::StorageFull.into()));
        }
        failure.map_or(Ok(()), |error| Err(self.change_failed(error)))
    }

    /// Reserves space for an append that does not fit into what is reserved, if there is enough.
    pub fn reserve(&mut self, inode: Inode, offset: u64, length: usize) -> io::Result<()> {
        let end = (offset as usize).saturating_add(length);
        let written = self.content(inode)?.written.len();
        let zeros = vec![0; end.next_multiple_of(RESERVED_BYTES).saturating_sub(written)];
        if end > written && self.fitting(inode, written, &zeros)?.len() == zeros.len() {
            let moment = self.changes;
            self.content(inode)?.write(moment, written, &zeros);
        }
        Ok(())
    }

    /// Returns the leading bytes of a failing write that are written.
    fn some_sectors<'a>(&mut self, offset: usize, bytes: &'a [u8]) -> &'a [u8] {
        let sectors = super::content::sectors(offset, bytes.len());
        let end = self.random.usize(sectors.start..=sectors.end) * SECTOR_BYTES;
        &bytes[..end.saturating_sub(offset).min(bytes.len())]
    }

    /// Returns the bytes that are free, if the device states them.
    pub fn free_bytes(&self) -> Option<u64> {
        let capacity = self.faults.capacity_bytes.filter(|_| self.faults.states_free_bytes)?;
        let used: usize = self.files.values().map(|content| content.written.len()).sum();
        Some(capacity.saturating_sub(used as u64))
    }

    /// Returns the leading bytes of a write for which there is space.
    fn fitting<'a>(&mut self, inode: Inode, offset: usize, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        let Some(capacity) = self.faults.capacity_bytes else { return Ok(bytes) };
        let used: usize = self.files.values().map(|content| content.written.len()).sum();
        let room = usize::try_from(capacity).unwrap_or(usize::MAX).saturating_sub(used);
        let length = self.content(inode)?.written.len();
        let growth = (offset + bytes.len()).saturating_sub(length);
        if growth <= room {
            return Ok(bytes);
        }
        let end = (length + room) / SECTOR_BYTES * SECTOR_BYTES;
        Ok(&bytes[..end.saturating_sub(offset).min(bytes.len())])
    }

    pub fn truncate(&mut self, inode: Inode, length: u64) -> io::Result<()> {
        if self.names(inode) == 0 {
            // The space of a removed file is freed when nothing reads it any more.
            self.check_unread(inode)?;
        }
        let interrupted = self.begin_change(CHANGE_NS)?;
        let lost = interrupted && self.random.bool();
        let concerns = |disk: &Disk| disk.concerns(inode);
        if !lost && self.fails(Call::Truncate, concerns, |faults| faults.write_error) {
            return Err(self.change_failed(input_output_error()));
        }
        let moment = self.changes;
        if !lost {
            self.content(inode)?.truncate(moment, usize::try_from(length).unwrap_or(usize::MAX));
        }
        if interrupted { Err(power_lost()) } else { Ok(()) }
    }

    /// Returns an error if the file is open more than once.
    fn check_unread(&mut self, inode: Inode) -> io::Result<()> {
        if self.content(inode)?.handles > 1 { Err(ErrorKind::ResourceBusy.into()) } else { Ok(()) }
    }

    fn names(&self, inode: Inode) -> u64 {
        self.entries.values().filter(|named| **named == inode).count() as u64
    }

    pub fn sync(&mut self, inode: Inode) -> io::Result<()> {
        if self.begin_change(SYNC_NS)? {
            return Err(power_lost());
        }
        if self.fails(Call::Sync, |disk| disk.concerns(inode), |faults| faults.sync_error) {
            self.failed_syncs += 1;
            let (dropped, mut random) = (self.random.bool(), self.random.fork());
            self.content(inode)?.fail_sync(dropped, |_| random.bool());
            return Err(self.change_failed(input_output_error()));
        }
        self.content(inode)?.sync();
        Ok(())
    }

    pub fn drop_cache(&mut self, inode: Inode) {
        if let Some(content) = self.files.get_mut(&inode) {
            content.drop_cache();
        }
    }

    pub fn state(&mut self, inode: Inode) -> io::Result<FileState> {
        self.check_power()?;
        let names = Some(self.names(inode));
        Ok(FileState { length: self.content(inode)?.written.len() as u64, names })
    }

    /// Removes the files that are not open and that no directory entry can name, whichever entries survive.
    fn forget_unreachable(&mut self) {
        let pending = self.pending_entries.iter().filter_map(|(_, change)| match change {
            EntryChange::Link { inode, .. } | EntryChange::Rename { inode, .. } => Some(inode),
            EntryChange::Unlink { .. } => None,
        });
        let named = self.entries.values().chain(self.durable_entries.values()).chain(pending);
        let reachable: HashSet<Inode> = named.copied().collect();
        self.files.retain(|inode, content| content.handles > 0 || reachable.contains(inode));
    }
}

fn power_lost() -> Error {
    Error::other("the simulated device has lost its power")
}

fn input_output_error() -> Error {
    Error::from_raw_os_error(5)
}

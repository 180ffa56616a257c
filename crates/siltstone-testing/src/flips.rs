//! Single bits that flip at rest, in each kind of file, one at a time: each is detected, or harmless. No call returns a
//! wrong value, and a repair keeps every record that the bit does not affect.

use crate::engines::{FileKind, TestEngine};
use siltstone::engine::CommonSettings;
use siltstone::{Builder, Bytes, Database, Error};
use siltstone::{RepairReport, VerifyReport};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use std::collections::BTreeMap;

/// Returns the kinds of files of all engines.
pub fn file_kinds() -> impl Iterator<Item = FileKind> {
    TestEngine::all().into_iter().flat_map(|engine| engine.file_kinds.iter().copied())
}

/// Returns the kind of file with this name.
pub(super) fn file_kind(name: &str) -> Result<FileKind, String> {
    file_kinds().find(|kind| kind.name == name).ok_or_else(|| format!("unknown kind of file: {name}"))
}

const KEYS: u64 = 240;
pub(super) const SEED: [u64; 2] = [3, 5];

/// The outcomes of the flipped bits in one kind of file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of flipped bits.
    pub flips: u64,
    /// The database was not opened.
    pub refused: u64,
    /// It was opened, and a get or an iteration reported the damage.
    pub found_by_reading: u64,
    /// All values were right, and verify reported the damage.
    pub found_by_verifying: u64,
    /// All values were right, and verify found no damage: the bit has no meaning, or was never guaranteed.
    pub harmless: u64,
    /// Of the detected ones, those after which a repair kept every record.
    pub repaired_whole: u64,
}

/// Returns the names of all kinds of file.
pub fn subjects() -> impl Iterator<Item = &'static str> {
    file_kinds().map(|kind| kind.name)
}

/// Flips `samples` bits of the files of one kind, one at a time.
///
/// # Errors
/// The broken guarantee, and the file and bit that broke it.
pub fn run(subject: &str, samples: u64, seed: u64) -> Result<Counts, String> {
    let kind = file_kind(subject)?;
    let (prefix, suffix) = kind.affixes;
    let bed = TestBed::new(kind, SEED).map_err(|error| error.to_string())?;
    let files: Vec<_> =
        bed.files.iter().filter(|(name, _)| name.starts_with(prefix) && name.ends_with(suffix)).collect();
    let bits: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64 * 8).sum();
    if bits == 0 {
        return Err(format!("no file of this kind: {subject}"));
    }
    let (mut random, mut counts) = (fastrand::Rng::with_seed(seed), Counts::default());
    for _ in 0..samples {
        let mut bit = random.u64(..bits);
        for (name, bytes) in &files {
            if bit < bytes.len() as u64 * 8 {
                bed.flip(name, bit, &mut counts).map_err(|broken| format!("{name}, bit {bit}: {broken}"))?;
                break;
            }
            bit -= bytes.len() as u64 * 8;
        }
    }
    Ok(counts)
}

/// A closed database with SortedStores, HashStores and a log.
pub(super) struct TestBed {
    kind: FileKind,
    seed: [u64; 2],
    pub files: Files,
    /// The files after the database was closed for the first time.
    pub older: Files,
    /// All values that each key had, the last one at the end; `None` is a tombstone.
    history: BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>,
}

/// The bytes of files, by name.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// The directory of the disk of a database, within that of the database. The names of its files begin with it.
pub(super) const DISK: &str = "disk";

/// Returns these files in a directory, and those of the disk in another one.
pub(super) fn memory(files: &Files) -> siltstone::Result<Directory> {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    for (name, bytes) in files {
        let (directory, name) = match name.split_once('/') {
            Some((path, name)) => (directory.other(path.as_ref(), true)?, name),
            None => (directory.clone(), &name[..]),
        };
        directory.create(name, Access::Buffered)?.write(Purpose::Log, 0, bytes)?;
    }
    Ok(directory)
}

/// Returns all files of a directory, and of the disk.
pub(super) fn read_files(directory: &Directory) -> siltstone::Result<Files> {
    let mut files = Files::new();
    for name in directory.list()? {
        let file = directory.open(&name, Access::Buffered)?;
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Get, 0, file.length()? as usize, &mut buffer)?.to_vec();
        files.insert(name, bytes);
    }
    if let Ok(disk) = directory.other(DISK.as_ref(), false) {
        files.extend(read_files(&disk)?.into_iter().map(|(name, bytes)| (format!("{DISK}/{name}"), bytes)));
    }
    Ok(files)
}

impl TestBed {
    /// Creates a database with this kind of file. With another seed it has other values in files of the same names.
    pub fn new(kind: FileKind, seed: [u64; 2]) -> siltstone::Result<TestBed> {
        let (files, older) = (Files::new(), Files::new());
        let mut bed = TestBed { kind, seed, files, older, history: BTreeMap::new() };
        let directory = memory(&bed.files)?;
        let database = bed.builder().open_in(directory.clone())?;
        bed.write(&database, 0)?;
        database.compact()?;
        for round in 1..3 {
            bed.write(&database, round)?;
        }
        database.settle()?;
        database.close()?;
        drop(database);
        bed.older = read_files(&directory)?;
        let (name, value) = kind.in_log;
        let database = bed.builder().set(name, value).open_in(directory.clone())?;
        (3..6).try_for_each(|round| bed.write(&database, round))?;
        database.close()?;
        drop(database);
        bed.files = read_files(&directory)?;
        Ok(bed)
    }

    pub fn builder(&self) -> Builder {
        let common = CommonSettings {
            fixed: self.kind.is_fixed.then_some((8, 12)),
            partitions: Some(2),
            block_bytes: self.kind.block_bytes,
            ..CommonSettings::default()
        };
        let builder = Database::builder("memory").engine((self.kind.settings)(&common)).common(common);
        builder.background_threads(0).seed(self.seed)
    }

    fn write(&mut self, database: &Database, round: u64) -> siltstone::Result<()> {
        for number in (0..KEYS).filter(|number| round == 0 || (number + round).is_multiple_of(2 * round)) {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
            let length = if self.kind.is_fixed { 12 } else { 1 + number * 7 % 50 };
            let value: Vec<u8> =
                (0..length).map(|at| (number * 31 + round * 7 + at + self.seed[0]) as u8).collect();
            let value = ((number + round) % 9 != 4).then_some(value);
            match &value {
                Some(value) => database.put(&key, value)?,
                None => database.delete(&key)?,
            }
            self.history.entry(key).or_default().push(value);
            if number % 20 == 0 {
                database.step()?;
            }
        }
        Ok(())
    }

    fn flip(&self, name: &str, bit: u64, counts: &mut Counts) -> Result<(), String> {
        let mut files = self.files.clone();
        let Some(byte) = files.get_mut(name).and_then(|bytes| bytes.get_mut(bit as usize / 8)) else {
            return Err("the file has no such bit".into());
        };
        *byte ^= 1 << (bit % 8);
        counts.flips += 1;
        self.check(&files, counts)
    }

    /// Checks that opening, reading, verifying and repairing these files keep every guarantee.
    pub fn check(&self, files: &Files, counts: &mut Counts) -> Result<(), String> {
        let broken = |error: Error| error.to_string();
        let directory = memory(files).map_err(broken)?;
        let verified = match Database::verify_closed_in(&directory, &mut |_, _| true) {
            Ok(report) => report,
            Err(_) if self.has_lost_both_manifests(files) => {
                let opened = self.builder().create(false).open_in(directory.clone());
                let repaired = Database::repair_in(&directory, &mut |_, _| true);
                counts.refused += 1;
                return match (opened, repaired) {
                    (Err(_), Err(_)) => Ok(()),
                    _ => Err("verify returns an error, but opening or repair does not".into()),
                };
            }
            Err(error) => return Err(broken(error)),
        };
        let told = !verified.damage.is_empty();
        let is_whole = match self.builder().create(false).open_in(directory) {
            Ok(database) => self.read_all(&database)?,
            Err(Error::Corrupt { .. } | Error::Version { .. }) if told => {
                counts.refused += 1;
                return self.repair(files, counts);
            }
            Err(other) => return Err(format!("opening failed: {other}")),
        };
        match (is_whole, told) {
            (true, true) => counts.found_by_verifying += 1,
            (false, true) => counts.found_by_reading += 1,
            (true, false) => counts.harmless += 1,
            (false, false) => return Err("reading reports damage, but verify does not".into()),
        }
        if told { self.repair(files, counts) } else { Ok(()) }
    }

    /// Returns whether both manifests are lost: without one the files have no meaning.
    fn has_lost_both_manifests(&self, files: &Files) -> bool {
        let is_lost = |name: &str| files.get(name) != self.files.get(name);
        let of_disk = format!("{DISK}/");
        ["", &of_disk]
            .iter()
            .any(|of| ["MANIFEST", "MANIFEST.mirror"].iter().all(|name| is_lost(&format!("{of}{name}"))))
    }

    /// Reads every key. Returns `Ok(false)` if some cannot be read, but no value was wrong.
    pub fn read_all(&self, database: &Database) -> Result<bool, String> {
        let mut whole = true;
        for (key, values) in &self.history {
            match database.get(key) {
                Ok(found) if Some(found.as_deref()) == values.last().map(Option::as_deref) => {}
                Ok(found) => return Err(format!("the key {key:?} has another value: {found:?}")),
                Err(Error::Corrupt { .. }) => whole = false,
                Err(other) => return Err(other.to_string()),
            }
        }
        let records = database.iter().map_err(|error| error.to_string())?;
        for record in records {
            match record {
                Ok(record) => {
                    let last = self.history.get(&record.key[..]).and_then(|values| values.last());
                    if last.map(Option::as_deref) != Some(Some(&record.value[..])) {
                        return Err(format!("an iteration yields another value of the key {:?}", record.key));
                    }
                }
                Err(Error::Corrupt { .. }) => whole = false,
                Err(other) => return Err(other.to_string()),
            }
        }
        let present = self.history.iter().filter(|(_, values)| matches!(values.last(), Some(Some(_))));
        match keys_in_order(database) {
            Ok(None) => Ok(whole),
            Ok(Some(keys)) if keys.iter().eq(present.map(|(key, _)| key)) => Ok(whole),
            Ok(Some(_)) => Err("a range yields other keys".into()),
            Err(Error::Corrupt { .. }) => Ok(false),
            Err(other) => Err(other.to_string()),
        }
    }

    /// Checks that after a repair the database is intact, with all records that are not reported as affected.
    fn repair(&self, files: &Files, counts: &mut Counts) -> Result<(), String> {
        let failed = |error: Error| format!("repairing: {error}");
        let directory = memory(files).map_err(failed)?;
        let report = Database::repair_in(&directory, &mut |_, _| true).map_err(failed)?;
        let database = self.builder().create(false).open_in(directory).map_err(failed)?;
        let again: VerifyReport = database.verify().map_err(failed)?;
        if let Some(damage) = again.damage.first() {
            return Err(format!("damage after a repair: {damage}"));
        }
        let in_order = keys_in_order(&database).map_err(failed)?;
        let (mut missing, mut present) = (0, Vec::new());
        for (key, values) in &self.history {
            let found = database.get(key).map_err(failed)?.map(|value| value.to_vec());
            present.extend(found.is_some().then(|| Bytes::copy_from_slice(key)));
            if values.last() != Some(&found) {
                missing += 1;
                check_excuse(&report, self.seed, key, &found, values)?;
            }
        }
        if in_order.is_some_and(|keys| keys != present) {
            return Err("after a repair, a range yields other keys than gets".into());
        }
        counts.repaired_whole += u64::from(missing == 0);
        Ok(())
    }
}

/// Returns the keys in order, if the database keeps it.
fn keys_in_order(database: &Database) -> siltstone::Result<Option<Vec<Bytes>>> {
    let Some(ordered) = database.ordered() else { return Ok(None) };
    ordered.range_keys(..)?.collect::<siltstone::Result<_>>().map(Some)
}

/// Checks a key that does not have its last value after a repair: it must be reported as affected, and if it has an
/// older value, as possibly older.
fn check_excuse(
    report: &RepairReport,
    seed: [u64; 2],
    key: &[u8],
    found: &Option<Vec<u8>>,
    values: &[Option<Vec<u8>>],
) -> Result<(), String> {
    if !report.found.may_affect(key) {
        return Err(format!("the repair lost the key {key:?} and does not report it"));
    }
    let placement = siltstone::key::KeyHasher::Keyed(seed).hash(key).placement;
    let may_be_older = report.found.may_be_older().iter().any(|range| range.contains(placement));
    match found {
        None => Ok(()),
        Some(_) if may_be_older && values.contains(found) => Ok(()),
        Some(_) => Err(format!("the repair restored an old value of the key {key:?} and does not report it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_in_any_file_is_detected_or_harmless_and_repaired() {
        for subject in subjects() {
            let counts = run(subject, 60, 1).unwrap();
            println!("{subject}: {counts:?}");
            assert!(counts.flips == 60 && counts.harmless < 60, "{subject}: {counts:?}");
        }
    }
}

//! The manifest: which files are live. Every change of state is one commit, appended and synced before it is acted on;
//! what it names was written and synced before. It stands in two files: the mirror follows the manifest, and is only
//! looked at to find out damage, and to repair it.

mod format;

pub use format::{Edit, MANIFEST_VERSION, Role, Shape, StoreEntry};

use crate::device::{Access, AlignedBuffer, Directory, File, Purpose};
use crate::store::examine::RangeChecksums;
use crate::store::log::format::POSITION_MAX;
use crate::store::names::{FileName, MANIFEST_NAME, MIRROR_NAME};
use crate::{Error, Result};
use format::{CommitClaim, MANIFEST_HEADER_BYTES, decode_commit, encode_commit};
use std::collections::HashSet;

/// No manifest is longer, in bytes: it is read whole. That is enough for 200,000 live stores.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// How many commits behind a damaged one are looked for.
const LATER_COMMITS: u64 = 64;
/// A manifest longer than this is written anew when it has doubled, in bytes.
const REWRITE_BYTES: u64 = 256 << 10;

/// The live state of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionEntry {
    /// All records before this position of the log stand in stores.
    pub converted_to: u64,
    /// The stores, the oldest first.
    pub stores: Vec<StoreEntry>,
}

impl StoreEntry {
    /// The name of its file.
    pub fn file_name(&self) -> String {
        self.role.file_name(self.number)
    }
}

impl Role {
    /// The name of the file of a store with this number.
    pub fn file_name(self, number: u64) -> String {
        match self {
            Role::CuckooTable | Role::HashOrdered => FileName::HashStore(number).to_string(),
            Role::Sorted => FileName::SortedStore(number).to_string(),
        }
    }
}

/// What the commits of a manifest add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    partitions: Vec<PartitionEntry>,
    /// The log was synced up to this position.
    log_synced: u64,
}

impl State {
    /// Whether another state is a later one. Positions never decrease, also when a manifest is rewritten.
    fn is_behind(&self, other: &State) -> bool {
        let mut pairs = self.partitions.iter().zip(&other.partitions);
        other.log_synced > self.log_synced || pairs.any(|(own, other)| other.converted_to > own.converted_to)
    }
}

/// The open manifest of a database.
pub struct Manifest {
    directory: Directory,
    /// The manifest and, once it was made durable, its mirror.
    files: Vec<File>,
    shape: Shape,
    state: State,
    /// What a commit that failed would have made of it: whether that is written is not known.
    attempted: Option<State>,
    length: u64,
    /// Longer than this it is written anew.
    rewrite_bytes: u64,
    sequence: u64,
    next_number: u64,
}

impl Manifest {
    /// Whether there is one in the directory, or what is left of one.
    pub fn stands_in(directory: &Directory) -> Result<bool> {
        Ok(directory.list()?.iter().any(|name| name == MANIFEST_NAME || name == MIRROR_NAME))
    }

    /// Creates the manifest of an empty database, durably.
    pub fn create(directory: &Directory, shape: &Shape) -> Result<()> {
        Manifest::replace(directory, shape, &vec![PartitionEntry::default(); 1 << shape.partitions_log2], 0)
    }

    /// How long the manifest of an empty database is, in bytes.
    pub fn empty_length() -> u64 {
        let mut commit = Vec::new();
        encode_commit(0, 0, &[], &mut commit);
        (MANIFEST_HEADER_BYTES + commit.len()) as u64
    }

    /// Puts the manifest of another state in the place of the present one, atomically and durably.
    pub fn replace(
        directory: &Directory,
        shape: &Shape,
        partitions: &[PartitionEntry],
        log_synced: u64,
    ) -> Result<()> {
        write_new(directory, shape, &State { partitions: partitions.to_vec(), log_synced }).map(drop)
    }

    /// Reads the manifest of a database, and changes nothing. A commit that was being written when the system went
    /// down is left out: nothing was done about it.
    pub fn open(directory: &Directory) -> Result<Manifest> {
        let names = directory.list()?;
        if names.binary_search_by(|name| (**name).cmp(MANIFEST_NAME)).is_err() {
            return Err(Error::Corrupt {
                file: directory.path_of(MANIFEST_NAME),
                offset: 0,
                expected: "the manifest of a database".into(),
                got: "no such file".into(),
            });
        }
        let manifest = Manifest::read(directory, MANIFEST_NAME)?;
        if names.binary_search_by(|name| (**name).cmp(MIRROR_NAME)).is_ok() {
            manifest.refuse_loss_of_mirrored(directory)?;
        }
        Ok(manifest)
    }

    /// An error if the mirror is ahead of the manifest: it is written after the manifest was synced.
    fn refuse_loss_of_mirrored(&self, directory: &Directory) -> Result<()> {
        let Ok(mirror) = Manifest::read(directory, MIRROR_NAME) else { return Ok(()) };
        if mirror.shape == self.shape && self.state.is_behind(&mirror.state) {
            let expected = format!(
                "a state as recent as the mirror's, with the log synced up to {}",
                mirror.log_synced()
            );
            return Err(self.files[0].corrupt(self.length, expected, "an older state"));
        }
        if mirror.length <= self.length {
            return Ok(());
        }
        let (mut one, mut other) = (AlignedBuffer::default(), AlignedBuffer::default());
        let read = |manifest: &Manifest, buffer: &mut AlignedBuffer| {
            manifest.files[0].read(Purpose::Recover, 0, self.length as usize, buffer).map(drop)
        };
        read(self, &mut one)?;
        read(&mirror, &mut other)?;
        if one[..] != other[..] {
            return Ok(());
        }
        let expected = format!("commit {} of the manifest, as in its mirror", self.sequence);
        Err(self.files[0].corrupt(self.length, expected, "the end of the manifest, or other bytes"))
    }

    /// Reads the manifest from a file of this name, by itself.
    pub fn read(directory: &Directory, name: &str) -> Result<Manifest> {
        let file = directory.open(name, Access::Buffered)?;
        // After a sync that failed the page cache may show what never reached the device.
        file.drop_cache();
        let length = file.length()?;
        if length > MANIFEST_BYTES_MAX {
            let expected = format!("a manifest of at most {MANIFEST_BYTES_MAX} bytes");
            return Err(file.corrupt(MANIFEST_BYTES_MAX, expected, format!("{length} bytes")));
        }
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Recover, 0, length as usize, &mut buffer)?;
        let header = bytes.get(..MANIFEST_HEADER_BYTES).and_then(Shape::decode);
        let shape = match header {
            Some((MANIFEST_VERSION, Some(shape))) => shape,
            Some((found, _)) if found != MANIFEST_VERSION => {
                let file = file.path().to_owned();
                return Err(Error::Version { file, found, supported: MANIFEST_VERSION });
            }
            _ => return Err(file.corrupt(0, "the header of a manifest", "other bytes")),
        };
        let partitions = vec![PartitionEntry::default(); 1 << shape.partitions_log2];
        let mut state = State { partitions, log_synced: 0 };
        let (mut at, mut sequence, mut next_number) = (MANIFEST_HEADER_BYTES, 0, 1);
        while let Some((log_synced, edits, taken)) = decode_commit(sequence, &bytes[at..]) {
            if log_synced > POSITION_MAX {
                return Err(file.corrupt(
                    at as u64,
                    "a position of the log up to 2^60",
                    log_synced.to_string(),
                ));
            }
            state.log_synced = state.log_synced.max(log_synced);
            for edit in edits {
                let after = |store: &StoreEntry| store.number.saturating_add(1);
                next_number = edit.added.iter().map(after).fold(next_number, u64::max);
                apply(&mut state.partitions, &edit).ok_or_else(|| {
                    file.corrupt(at as u64, "an edit of live stores and positions", format!("{edit:?}"))
                })?;
            }
            at += taken;
            sequence += 1;
        }
        refuse_loss(&file, bytes, at, sequence)?;
        if at < bytes.len() {
            file.confirm(0, bytes)?;
        }
        Ok(Manifest {
            directory: directory.clone(),
            files: vec![file],
            shape,
            state,
            attempted: None,
            length: at as u64,
            rewrite_bytes: REWRITE_BYTES,
            sequence,
            next_number,
        })
    }

    /// Makes what was read durable, and cuts off a commit that was not whole. Before that nothing may be done about
    /// what the manifest says: a process that was killed may have left it written and not synced.
    pub fn make_durable(&mut self) -> Result<()> {
        let Some(file) = self.files.first() else { return Ok(()) };
        file.truncate(self.length)?;
        file.sync(Purpose::Recover)?;
        if self.directory.list()?.iter().any(|name| name == MIRROR_NAME) {
            self.mirror()?;
        }
        self.directory.sync(Purpose::Recover)
    }

    /// Makes the mirror say what the manifest does, durably. Where there is none it is not made before everything else
    /// of the database is known to be readable: a database of another version is to be left as it is.
    pub fn mirror(&mut self) -> Result<()> {
        let Some(file) = self.files.first().filter(|_| self.files.len() == 1) else { return Ok(()) };
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Recover, 0, self.length as usize, &mut buffer)?;
        let mirror = match open_mirror(&self.directory, bytes)? {
            Some(mirror) => mirror,
            None => write_whole(&self.directory, MIRROR_NAME, bytes)?,
        };
        mirror.sync(Purpose::Recover)?;
        self.files.push(mirror);
        self.directory.sync(Purpose::Recover)
    }

    /// Writes it anew when it is longer than this, in bytes, instead of 256 KiB.
    pub fn rewrite_beyond(mut self, bytes: u64) -> Manifest {
        self.rewrite_bytes = bytes;
        self
    }

    /// What is fixed of the database.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The live state of each partition.
    pub fn partitions(&self) -> &[PartitionEntry] {
        &self.state.partitions
    }

    /// The log is known to have been synced up to this position.
    pub fn log_synced(&self) -> u64 {
        self.state.log_synced
    }

    /// Whether the database has had no store and has released nothing of its log.
    pub fn is_unused(&self) -> bool {
        self.next_number == 1 && self.state.partitions.iter().all(|partition| partition.converted_to == 0)
    }

    /// The first number that no store had when the manifest was opened.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Makes changes durable together, with one sync, and that the log is synced up to the position `log_synced`. The
    /// files that the edits name must have been synced; the directory is synced here.
    pub fn commit(&mut self, edits: &[Edit], log_synced: u64) -> Result<()> {
        if edits.iter().any(|edit| !edit.added.is_empty()) {
            self.directory.sync(Purpose::Manifest)?;
        }
        let mut state = self.state.clone();
        state.log_synced = state.log_synced.max(log_synced);
        for edit in edits {
            apply(&mut state.partitions, edit).ok_or_else(|| {
                self.files[0].corrupt(
                    self.length,
                    "an edit of live stores and positions",
                    format!("{edit:?}"),
                )
            })?;
        }
        let attempted = self.attempted.insert(state);
        let mut bytes = Vec::new();
        encode_commit(self.sequence, attempted.log_synced, edits, &mut bytes);
        let is_long = self.length + bytes.len() as u64 > MANIFEST_BYTES_MAX;
        if self.length > self.rewrite_bytes || is_long {
            (self.files, self.length, self.sequence) = write_new(&self.directory, &self.shape, attempted)?;
            // The live state alone may be long: it is not to be written anew with every edit.
            self.rewrite_bytes = self.rewrite_bytes.max(2 * self.length);
        } else {
            // One after the other: at least one of them is whole at any moment.
            for file in &self.files {
                file.write(Purpose::Manifest, self.length, &bytes)?;
                file.sync(Purpose::Manifest)?;
            }
            self.length += bytes.len() as u64;
            self.sequence += 1;
        }
        if let Some(state) = self.attempted.take() {
            self.state = state;
        }
        Ok(())
    }

    /// Writes a manifest with the present state into another directory, for a database with this id. It has the same
    /// stores, and the same secret, since the frames of the log are copied as they are: up to `log_synced`, durably.
    pub fn write_copy(&self, target: &Directory, database_id: u64, log_synced: u64) -> Result<()> {
        let state = State { log_synced, ..self.state.clone() };
        write_new(target, &Shape { database_id, ..self.shape }, &state).map(drop)
    }

    /// Reads the manifest and its mirror again, and answers for each that does not say what is known here what is
    /// wrong. After a commit that failed it may stand in either, in both or in none.
    pub fn check(&self) -> Result<Vec<Error>> {
        let mut wrong = Vec::new();
        for name in [MANIFEST_NAME, MIRROR_NAME] {
            match Manifest::read(&self.directory, name) {
                Ok(read) if self.may_be(&read) => {}
                // As a crash may have left it: the next opening that may write makes it the same.
                Ok(_) if name == MIRROR_NAME && self.directory.is_read_only() => {}
                Ok(read) => {
                    let expected = format!("{} commits of the manifest", self.sequence);
                    let got = format!("{} commits, or other ones", read.sequence);
                    wrong.push(read.files[0].corrupt(read.length, expected, got));
                }
                Err(error @ (Error::Corrupt { .. } | Error::Version { .. })) => wrong.push(error),
                Err(Error::Io { file, source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    if name == MIRROR_NAME && self.directory.is_read_only() {
                        continue;
                    }
                    let expected = "a manifest, or its mirror".into();
                    wrong.push(Error::Corrupt { file, offset: 0, expected, got: "no such file".into() });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(wrong)
    }

    fn may_be(&self, read: &Manifest) -> bool {
        let states = [Some(&self.state), self.attempted.as_ref()];
        read.shape == self.shape && states.contains(&Some(&read.state))
    }

    /// The bytes of the manifest and its mirror.
    pub fn disk_bytes(&self) -> u64 {
        self.length * self.files.len() as u64
    }

    /// The length, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

fn apply(partitions: &mut [PartitionEntry], edit: &Edit) -> Option<()> {
    let partition =
        partitions.get_mut(edit.partition as usize).filter(|_| edit.converted_to <= POSITION_MAX)?;
    if !edit.removed.is_empty() {
        let removed: HashSet<u64> = edit.removed.iter().copied().collect();
        let before = partition.stores.len();
        partition.stores.retain(|store| !removed.contains(&store.number));
        if before - partition.stores.len() != edit.removed.len() {
            return None;
        }
    }
    for store in &edit.added {
        match store.role {
            // What was merged is older than every HashStore that remains.
            Role::Sorted => partition.stores.insert(0, *store),
            Role::CuckooTable | Role::HashOrdered => partition.stores.push(*store),
        }
    }
    partition.converted_to = partition.converted_to.max(edit.converted_to);
    Some(())
}

/// Behind the last sound commit there may be one that was being written, and nothing else. Takes time in proportion to
/// the bytes that follow it, whatever they claim.
fn refuse_loss(file: &File, bytes: &[u8], end: usize, sequence: u64) -> Result<()> {
    let mut sums = RangeChecksums::new(file, end as u64..bytes.len() as u64, true);
    for at in end + 1..bytes.len() {
        let Some(claim) = CommitClaim::of(&bytes[at..]) else { break };
        let start = at as u64 + 4;
        sums.forget_before(start);
        if (sequence + 1..sequence + LATER_COMMITS).contains(&claim.sequence)
            && sums.of(start..start + claim.covered_bytes, 0)? == Some(claim.crc)
        {
            let got = format!("other bytes, followed by a later commit at byte {at}");
            return Err(file.corrupt(end as u64, format!("commit {sequence} of the manifest"), got));
        }
    }
    Ok(())
}

/// The mirror, if it holds these bytes and no others.
fn open_mirror(directory: &Directory, bytes: &[u8]) -> Result<Option<File>> {
    if !directory.list()?.iter().any(|name| name == MIRROR_NAME) {
        return Ok(None);
    }
    let mirror = directory.open(MIRROR_NAME, Access::Buffered)?;
    mirror.drop_cache();
    if mirror.length()? != bytes.len() as u64 {
        return Ok(None);
    }
    let mut buffer = AlignedBuffer::default();
    let same = mirror.read(Purpose::Recover, 0, bytes.len(), &mut buffer)? == bytes;
    Ok(same.then_some(mirror))
}

/// Writes a file beside the one of this name and puts it in its place, durably.
fn write_whole(directory: &Directory, name: &str, bytes: &[u8]) -> Result<File> {
    let new_name = format!("{name}.new");
    if directory.list()?.contains(&new_name) {
        directory.remove(&new_name)?;
    }
    let file = directory.create(&new_name, Access::Buffered)?;
    file.write(Purpose::Manifest, 0, bytes)?;
    file.sync(Purpose::Manifest)?;
    drop(file);
    directory.rename(&new_name, name)?;
    directory.sync(Purpose::Manifest)?;
    directory.open(name, Access::Buffered)
}

/// Puts the whole state in the place of the manifest, and then of its mirror: the files, their length and the number
/// of the next commit.
fn write_new(directory: &Directory, shape: &Shape, state: &State) -> Result<(Vec<File>, u64, u64)> {
    let mut edits = Vec::new();
    for (number, partition) in state.partitions.iter().enumerate() {
        let (sorted, hashed): (Vec<_>, Vec<_>) =
            partition.stores.iter().partition(|store| store.role == Role::Sorted);
        let edit = Edit {
            partition: number as u32,
            converted_to: partition.converted_to,
            removed: Vec::new(),
            added: sorted.into_iter().chain(hashed).collect(),
        };
        if edit.converted_to > 0 || !edit.added.is_empty() {
            edits.push(edit);
        }
    }
    let mut bytes = shape.encode().to_vec();
    encode_commit(0, state.log_synced, &edits, &mut bytes);
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        let problem =
            format!("the manifest would have {} bytes; the maximum is {MANIFEST_BYTES_MAX}", bytes.len());
        let problem = std::io::Error::new(std::io::ErrorKind::FileTooLarge, problem);
        return Err(Error::io("write", directory.path_of(MANIFEST_NAME))(problem));
    }
    let manifest = write_whole(directory, MANIFEST_NAME, &bytes)?;
    let mirror = write_whole(directory, MIRROR_NAME, &bytes)?;
    Ok((vec![manifest, mirror], bytes.len() as u64, 1))
}

#[cfg(test)]
mod tests;

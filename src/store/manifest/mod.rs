//! The manifest: which files are live. Every change of state is one commit, appended and synced before it is acted on;
//! what it names was written and synced before.

mod format;

pub use format::{Edit, MANIFEST_VERSION, Role, Shape, StoreEntry};

use crate::device::{Access, AlignedBuffer, Directory, File, Purpose};
use crate::store::confirm::confirm;
use crate::{Error, Result};
use format::{MANIFEST_HEADER_BYTES, decode_commit, encode_commit};

/// The manifest's name.
pub const MANIFEST_NAME: &str = "MANIFEST";
const NEW_NAME: &str = "MANIFEST.new";

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

/// The open manifest of a database.
pub struct Manifest {
    directory: Directory,
    file: File,
    shape: Shape,
    partitions: Vec<PartitionEntry>,
    length: u64,
    /// Longer than this it is written anew.
    rewrite_bytes: u64,
    sequence: u64,
    next_number: u64,
}

impl Manifest {
    /// Whether there is one in the directory.
    pub fn stands_in(directory: &Directory) -> Result<bool> {
        Ok(directory.list()?.iter().any(|name| name == MANIFEST_NAME))
    }

    /// Creates the manifest of an empty database, durably.
    pub fn create(directory: &Directory, shape: &Shape) -> Result<()> {
        write_new(directory, shape, &vec![PartitionEntry::default(); 1 << shape.partitions_log2])?;
        Ok(())
    }

    /// Reads the manifest of a database, and changes nothing. A commit that was being written when the system went down is
    /// left out: nothing was done about it.
    pub fn open(directory: &Directory) -> Result<Manifest> {
        let file = directory.open(MANIFEST_NAME, Access::Buffered)?;
        // After a sync that failed the page cache may show what never reached the device.
        file.drop_cache();
        let length = file.length()?;
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
        let mut partitions = vec![PartitionEntry::default(); 1 << shape.partitions_log2];
        let (mut at, mut sequence, mut next_number) = (MANIFEST_HEADER_BYTES, 0, 1);
        while let Some((edits, taken)) = decode_commit(sequence, &bytes[at..]) {
            for edit in edits {
                let after = |store: &StoreEntry| store.number.saturating_add(1);
                next_number = edit.added.iter().map(after).fold(next_number, u64::max);
                apply(&mut partitions, &edit)
                    .ok_or_else(|| file.corrupt(at as u64, "an edit of live stores", format!("{edit:?}")))?;
            }
            at += taken;
            sequence += 1;
        }
        refuse_loss(&file, bytes, at, sequence)?;
        if at < bytes.len() {
            confirm(&file, 0, bytes)?;
        }
        Ok(Manifest {
            directory: directory.clone(),
            file,
            shape,
            partitions,
            length: at as u64,
            rewrite_bytes: REWRITE_BYTES,
            sequence,
            next_number,
        })
    }

    /// Makes what was read durable, and cuts off a commit that was not whole. Before that nothing may be done about what
    /// the manifest says: a process that was killed may have left it written and not synced.
    pub fn make_durable(&self) -> Result<()> {
        self.file.truncate(self.length)?;
        self.file.sync(Purpose::Recover)?;
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
        &self.partitions
    }

    /// The first number that no store had when the manifest was opened.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Makes changes durable together, with one sync. The files that they name must have been synced; the directory
    /// is synced here.
    pub fn commit(&mut self, edits: &[Edit]) -> Result<()> {
        if edits.iter().any(|edit| !edit.added.is_empty()) {
            self.directory.sync(Purpose::Manifest)?;
        }
        let mut partitions = self.partitions.clone();
        for edit in edits {
            apply(&mut partitions, edit).ok_or_else(|| {
                self.file.corrupt(self.length, "an edit of live stores", format!("{edit:?}"))
            })?;
        }
        if self.length > self.rewrite_bytes {
            (self.file, self.length, self.sequence) = write_new(&self.directory, &self.shape, &partitions)?;
            // The live state alone may be long: it is not to be written anew with every edit.
            self.rewrite_bytes = self.rewrite_bytes.max(2 * self.length);
        } else {
            let mut bytes = Vec::new();
            encode_commit(self.sequence, edits, &mut bytes);
            self.file.write(Purpose::Manifest, self.length, &bytes)?;
            self.file.sync(Purpose::Manifest)?;
            self.length += bytes.len() as u64;
            self.sequence += 1;
        }
        self.partitions = partitions;
        Ok(())
    }

    /// Writes a manifest with the present state into another directory. The identity stays the same, since the segments of
    /// the log bear it too.
    pub fn write_copy(&self, target: &Directory) -> Result<()> {
        write_new(target, &self.shape, &self.partitions).map(drop)
    }

    /// The length, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

fn apply(partitions: &mut [PartitionEntry], edit: &Edit) -> Option<()> {
    let partition = partitions.get_mut(edit.partition as usize)?;
    for number in &edit.removed {
        let at = partition.stores.iter().position(|store| store.number == *number)?;
        partition.stores.remove(at);
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

/// Behind the last sound commit there may be one that was being written, and nothing else.
fn refuse_loss(file: &File, bytes: &[u8], end: usize, sequence: u64) -> Result<()> {
    let later = (end + 1..bytes.len()).find(|&at| {
        (sequence + 1..sequence + 64).any(|sequence| decode_commit(sequence, &bytes[at..]).is_some())
    });
    match later {
        Some(later) => {
            let got = format!("other bytes, and a later commit at byte {later}");
            Err(file.corrupt(end as u64, format!("commit {sequence} of the manifest"), got))
        }
        None => Ok(()),
    }
}

/// Writes the whole state beside the manifest and puts it in its place, durably.
fn write_new(
    directory: &Directory,
    shape: &Shape,
    partitions: &[PartitionEntry],
) -> Result<(File, u64, u64)> {
    if directory.list()?.iter().any(|name| name == NEW_NAME) {
        directory.remove(NEW_NAME)?;
    }
    let mut edits = Vec::new();
    for (number, partition) in partitions.iter().enumerate() {
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
    encode_commit(0, &edits, &mut bytes);
    let file = directory.create(NEW_NAME, Access::Buffered)?;
    file.write(Purpose::Manifest, 0, &bytes)?;
    file.sync(Purpose::Manifest)?;
    drop(file);
    directory.rename(NEW_NAME, MANIFEST_NAME)?;
    directory.sync(Purpose::Manifest)?;
    Ok((directory.open(MANIFEST_NAME, Access::Buffered)?, bytes.len() as u64, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory::MemoryDirectory;
    use crate::key::KeyHasher;
    use crate::store::record::RecordLayout;

    const SHAPE: Shape = Shape {
        layout: RecordLayout { fixed: None, expiring: false },
        hasher: KeyHasher::Identity,
        partitions_log2: 1,
        block_bytes: 4096,
        database_id: 7,
    };

    fn edit(partition: u32, removed: &[u64], added: &[(u64, Role)]) -> Edit {
        let added = added.iter().map(|&(number, role)| StoreEntry { number, role }).collect();
        Edit { partition, converted_to: 10, removed: removed.to_vec(), added }
    }

    #[test]
    fn committed_edits_are_there_again_and_a_torn_one_is_not() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        Manifest::create(&directory, &SHAPE).unwrap();
        let mut manifest = Manifest::open(&directory).unwrap();
        manifest.commit(&[edit(0, &[], &[(1, Role::HashOrdered)])]).unwrap();
        manifest.commit(&[edit(0, &[], &[(2, Role::CuckooTable)])]).unwrap();
        manifest.commit(&[edit(0, &[1], &[(3, Role::Sorted)])]).unwrap();
        let state = manifest.partitions().to_vec();
        assert_eq!(state[0].stores.iter().map(|store| store.number).collect::<Vec<_>>(), [3, 2]);
        let length = manifest.length();
        drop(manifest);
        let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
        let mut torn = Vec::new();
        encode_commit(4, &[edit(1, &[], &[(4, Role::Sorted)])], &mut torn);
        file.write(Purpose::Manifest, length, &torn[..torn.len() - 1]).unwrap();
        let manifest = Manifest::open(&directory).unwrap();
        assert_eq!(manifest.partitions(), state);
        assert_eq!(manifest.next_number(), 4);
        assert_eq!(manifest.length(), length);
        assert!(file.length().unwrap() > length, "opening changes nothing");
        manifest.make_durable().unwrap();
        assert_eq!(file.length().unwrap(), length);
    }

    #[test]
    fn damage_before_a_later_edit_is_an_error_and_not_a_shorter_history() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        Manifest::create(&directory, &SHAPE).unwrap();
        let mut manifest = Manifest::open(&directory).unwrap();
        for number in 1..4 {
            manifest.commit(&[edit(0, &[], &[(number, Role::HashOrdered)])]).unwrap();
        }
        let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
        file.write(Purpose::Manifest, MANIFEST_HEADER_BYTES as u64 + 20, &[0xEE]).unwrap();
        assert!(matches!(Manifest::open(&directory), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_torn_commit_is_left_out_whichever_of_its_sectors_survived() {
        let stores: Vec<_> = (2..100).map(|number| edit(0, &[], &[(number, Role::HashOrdered)])).collect();
        for lost_sector in 0..5 {
            let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
            Manifest::create(&directory, &SHAPE).unwrap();
            let mut manifest = Manifest::open(&directory).unwrap();
            manifest.commit(&[edit(0, &[], &[(1, Role::HashOrdered)])]).unwrap();
            let (before, start) = (manifest.partitions().to_vec(), manifest.length());
            manifest.commit(&stores).unwrap();
            let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
            let end = (512 * (lost_sector + 1)).min(manifest.length());
            let lost = (512 * lost_sector).max(start);
            file.write(Purpose::Manifest, lost, &vec![0; (end - lost) as usize]).unwrap();
            assert_eq!(Manifest::open(&directory).unwrap().partitions(), before);
        }
    }

    #[test]
    fn a_long_history_is_written_anew_with_the_same_state() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        Manifest::create(&directory, &SHAPE).unwrap();
        let mut manifest = Manifest::open(&directory).unwrap();
        let mut number = 0;
        let mut longest = 0;
        for _ in 0..6000 {
            number += 1;
            let removed: &[u64] = if number > 1 { &[number - 1] } else { &[] };
            manifest.commit(&[edit(1, removed, &[(number, Role::Sorted)])]).unwrap();
            longest = longest.max(manifest.length());
        }
        assert!(longest < 300 << 10 && manifest.length() < longest);
        let opened = Manifest::open(&directory).unwrap();
        assert_eq!(opened.partitions(), manifest.partitions());
    }

    #[test]
    fn a_long_live_state_is_not_written_anew_with_every_edit() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        Manifest::create(&directory, &SHAPE).unwrap();
        let mut manifest = Manifest::open(&directory).unwrap().rewrite_beyond(100);
        for number in 1..500 {
            manifest.commit(&[edit(0, &[], &[(number, Role::HashOrdered)])]).unwrap();
        }
        let written = directory.io().of(Purpose::Manifest).write_bytes;
        assert!(written < 2 * 500 * 49, "{written} bytes for commits of 49 each");
    }
}

//! The manifest of a database: a log of the changes of its live state. Every change is one commit, appended and synced
//! before it takes effect; the files that it names were written and synced before.
//!
//! ```text
//! MANIFEST, MANIFEST.mirror:  header | commit 0 | commit 1 | ...
//!                             64 B     checksum, number, log synced up to, settings, edits
//! ```
//!
//! What is live differs between engines: an engine implements [`LiveState`], and the manifest applies, writes and reads
//! its edits. The manifest also keeps the engine's settings that outlast an open. The mirror has the same bytes. It
//! is read only to detect damage and to repair it.
//!
//! A commit:
//!
//! 1. If it adds files, the directory is synced. The files were written and synced before.
//! 2. It is appended to the manifest and synced, then to the mirror and synced. A crash leaves it in both, in the
//!    manifest alone, or cut off at the end of one of them. A long manifest is replaced by a rename instead, then the
//!    mirror.
//! 3. It takes effect. Only now may files be removed that it no longer names.
//!
//! An open:
//!
//! 1. All commits are applied up to the first one that is not intact. If a later commit follows, that is damage.
//! 2. A mirror that is ahead shows that the manifest has lost commits, which is an error.
//! 3. [`make_durable`](Manifest::make_durable) truncates an incomplete commit, syncs the manifest, and makes the mirror
//!    equal if there is one. Nothing that depends on a commit happens before.

mod commit;
mod header;
mod owner;

pub use commit::Commit;
pub use header::{FORMAT_VERSION, HEADER_BYTES, Header};

use crate::damage::{Damage, DamagedPart};
use crate::error::{CorruptFile, Error, Result};
use crate::names::{MANIFEST_NAME, MIRROR_NAME};
use crate::store::examine::{RangeChecksums, is_damage, is_missing};
use crate::store::log_format::POSITION_MAX;
use commit::{CommitClaim, Unknown};
use owner::owner_of_files;
use siltstone_device::{Access, AlignedBuffer, Directory, File, Purpose};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum::crc32c;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The maximum length of a manifest, in bytes: it is read as a whole. It suffices for 200,000 live stores.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// The maximum length of the name and of the value of a kept setting, in bytes.
pub const KEPT_TEXT_BYTES_MAX: usize = u8::MAX as usize;
/// The number of sequence numbers after a damaged commit that are searched for.
const LATER_COMMITS: u64 = 64;
/// A manifest longer than this is rewritten when its length has doubled, in bytes.
const REWRITE_BYTES: u64 = 256 << 10;

/// The settings that a database keeps, by name, as text.
pub type KeptSettings = BTreeMap<String, String>;

/// What is live in a database of one engine. Edits change it; the edits of a commit apply together or not at all.
pub trait LiveState: Clone + PartialEq {
    /// A change of the state.
    type Edit: Clone + Debug + PartialEq;

    /// Returns the state of a new database.
    fn empty(header: &Header) -> Self;

    /// Applies an edit, or returns `None` if it is impossible in this state.
    fn apply(&mut self, edit: &Self::Edit) -> Option<()>;

    /// Appends the bytes of an edit.
    fn encode(edit: &Self::Edit, out: &mut Vec<u8>);

    /// Decodes an edit.
    fn decode(fields: &mut Reader<'_>) -> Option<Self::Edit>;

    /// Returns the edits that turn an empty state into this one.
    fn as_edits(&self) -> Vec<Self::Edit>;

    /// Returns whether another state is known to be a later one of the same database.
    fn is_older_than(&self, other: &Self) -> bool;

    /// Returns the highest number of the files that an edit adds, or `None` if it adds none.
    fn highest_added(edit: &Self::Edit) -> Option<u64>;
}

/// The sum of all commits of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ManifestState<S> {
    live: S,
    /// The log was synced up to this position.
    log_synced: u64,
    settings: KeptSettings,
}

impl<S: LiveState> ManifestState<S> {
    fn empty(header: &Header) -> ManifestState<S> {
        ManifestState { live: S::empty(header), log_synced: 0, settings: KeptSettings::new() }
    }

    /// Applies all edits of a commit; returns one that is impossible.
    fn apply<'c>(&mut self, commit: &'c Commit<S::Edit>) -> std::result::Result<(), &'c S::Edit> {
        self.log_synced = self.log_synced.max(commit.log_synced);
        self.settings.extend(commit.settings.clone());
        commit.edits.iter().try_for_each(|edit| self.live.apply(edit).ok_or(edit))
    }

    fn is_older_than(&self, other: &ManifestState<S>) -> bool {
        other.log_synced > self.log_synced || self.live.is_older_than(&other.live)
    }
}

/// The open manifest of a database.
pub struct Manifest<S: LiveState> {
    directory: Directory,
    /// The manifest and, once it was made durable, its mirror.
    files: Vec<File>,
    header: Header,
    state: ManifestState<S>,
    /// The state after a commit that failed. Whether that commit was written is not known.
    attempted: Option<ManifestState<S>>,
    length: u64,
    /// The checksum of all bytes up to `length` when the manifest was read.
    verified_checksum: u32,
    /// A longer manifest is rewritten.
    rewrite_bytes: u64,
    sequence: u64,
    next_number: u64,
}

impl<S: LiveState> Manifest<S> {
    /// Creates the manifest of an empty database, durably.
    pub fn create(directory: &Directory, header: &Header) -> Result<()> {
        Manifest::replace(directory, header, S::empty(header), &KeptSettings::new(), 0)
    }

    /// Returns the length of the manifest of an empty database, in bytes.
    pub fn empty_length() -> u64 {
        let mut bytes = Vec::new();
        let commit = Commit { log_synced: 0, settings: KeptSettings::new(), edits: Vec::new() };
        commit.encode::<S>(0, &mut bytes);
        (HEADER_BYTES + bytes.len()) as u64
    }

    /// Replaces the manifest by one with this state, atomically and durably.
    pub fn replace(
        directory: &Directory,
        header: &Header,
        live: S,
        settings: &KeptSettings,
        log_synced: u64,
    ) -> Result<()> {
        let state = ManifestState { live, log_synced, settings: settings.clone() };
        write_new(directory, header, &state).map(drop)
    }

    /// Reads the manifest of a database, and changes nothing. An incomplete commit at the end is ignored: it was being
    /// written when the system crashed, and never took effect.
    pub fn open(directory: &Directory) -> Result<Manifest<S>> {
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

    /// Returns an error if the files belong to the mirror's database and not to the manifest's, or if the mirror is
    /// ahead of the manifest. Then the manifest has lost commits: the mirror is written after the manifest is synced.
    fn refuse_loss_of_mirrored(&self, directory: &Directory) -> Result<()> {
        // A damaged mirror says nothing of the manifest. `make_durable` writes it again.
        let Ok(mirror) = Manifest::<S>::read(directory, MIRROR_NAME) else { return Ok(()) };
        let (id, mirror_id) = (self.header.database_id, mirror.header.database_id);
        if id != mirror_id && owner_of_files(directory, [id, mirror_id])? == Some(mirror_id) {
            let expected = format!("the manifest of database {mirror_id:016x}, as the mirror and the log");
            return Err(self.files[0].corrupt(0, expected, format!("that of database {id:016x}")));
        }
        if mirror.header == self.header && self.state.is_older_than(&mirror.state) {
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
        let read = |manifest: &Manifest<S>, buffer: &mut AlignedBuffer| {
            manifest.files[0].read(Purpose::Recover, 0, self.length as usize, buffer).map(drop)
        };
        read(self, &mut one)?;
        read(&mirror, &mut other)?;
        // One of them was rewritten, and the crash came before the other was.
        if one[..] != other[..] {
            return Ok(());
        }
        let expected = format!("commit {} of the manifest, as in its mirror", self.sequence);
        Err(self.files[0].corrupt(self.length, expected, "the end of the manifest, or other bytes"))
    }

    /// Opens the manifest or, if that is damaged or of another database than the other files, its mirror. Also returns
    /// their damage.
    ///
    /// # Errors
    /// The error of the manifest, if the mirror is damaged as well: what is live is not stored anywhere else.
    pub fn open_or_mirror(directory: &Directory) -> Result<(Manifest<S>, Vec<Damage>)> {
        let damage_of = |error: &Error, name| {
            let length = directory.length_of(name)?;
            Ok::<_, Error>(Damage { length, ..Damage::of(error, DamagedPart::Manifest, 0) })
        };
        let mirror = Manifest::read(directory, MIRROR_NAME);
        match (Manifest::open(directory), mirror) {
            (Ok(manifest), Err(error)) if is_damage(&error) => {
                Ok((manifest, vec![damage_of(&error, MIRROR_NAME)?]))
            }
            (Ok(manifest), Ok(mirror)) if manifest.header.database_id != mirror.header.database_id => {
                let expected = format!("the mirror of database {:016x}", manifest.header.database_id);
                let got = format!("that of database {:016x}", mirror.header.database_id);
                let error = mirror.files[0].corrupt(0, expected, got);
                Ok((manifest, vec![damage_of(&error, MIRROR_NAME)?]))
            }
            // The mirror could not be read now, which is no damage.
            (Ok(_), Err(error)) if !is_missing(&error) => Err(error),
            (Ok(manifest), _) => Ok((manifest, Vec::new())),
            // It has every commit that took effect, because that needs a sync of both files.
            (Err(error), Ok(mirror)) if is_damage(&error) => {
                Ok((mirror, vec![damage_of(&error, MANIFEST_NAME)?]))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Reads the manifest or the mirror, without comparing them.
    pub fn read(directory: &Directory, name: &str) -> Result<Manifest<S>> {
        let file = directory.open(name, Access::Buffered)?;
        // After a failed sync the page cache may contain bytes that never reached the device.
        file.drop_cache();
        let length = file.length()?;
        if length > MANIFEST_BYTES_MAX {
            let expected = format!("a manifest of at most {MANIFEST_BYTES_MAX} bytes");
            return Err(file.corrupt(MANIFEST_BYTES_MAX, expected, format!("{length} bytes")));
        }
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Recover, 0, length as usize, &mut buffer)?;
        let header = Header::parse(&file, bytes)?;
        let mut state = ManifestState::empty(&header);
        let (mut at, mut sequence, mut next_number) = (HEADER_BYTES, 0, 1);
        let decode = |sequence, at: usize| {
            Commit::decode::<S>(sequence, &bytes[at..]).map_err(|Unknown| {
                let expected = format!("commit {sequence} with the fields of this version");
                file.corrupt(at as u64, expected, "other fields, with a correct checksum")
            })
        };
        while let Some((commit, taken)) = decode(sequence, at)? {
            // Positions are added to lengths later, which must not overflow.
            if commit.log_synced > POSITION_MAX {
                let got = commit.log_synced.to_string();
                return Err(file.corrupt(at as u64, "a position of the log up to 2^60", got));
            }
            state.apply(&commit).map_err(|edit| impossible(&file, at as u64, edit))?;
            let added = commit.edits.iter().filter_map(S::highest_added);
            next_number = added.map(|number| number.saturating_add(1)).fold(next_number, u64::max);
            at += taken;
            sequence += 1;
        }
        // Bytes that are left may be a commit that a crash cut off, but then no later commit follows.
        refuse_loss(&file, bytes, at, sequence)?;
        if at < bytes.len() {
            // They will be truncated, so a bit that flipped on its way from the device must not make a commit look
            // torn.
            file.confirm(0, bytes)?;
        }
        let verified_checksum = crc32c(&bytes[..at]);
        Ok(Manifest {
            directory: directory.clone(),
            files: vec![file],
            header,
            state,
            attempted: None,
            length: at as u64,
            verified_checksum,
            rewrite_bytes: REWRITE_BYTES,
            sequence,
            next_number,
        })
    }

    /// Makes the commits that were read durable, and truncates an incomplete one. Nothing may depend on a commit before
    /// that: a killed process may have left it written and not synced.
    pub fn make_durable(&mut self) -> Result<()> {
        let Some(file) = self.files.first() else { return Ok(()) };
        // A commit that is appended after an incomplete one would never be read.
        file.truncate(self.length)?;
        file.sync(Purpose::Recover)?;
        // A crash may have left it a commit behind. The next one is appended to both at the same offset.
        if self.directory.list()?.iter().any(|name| name == MIRROR_NAME) {
            self.mirror()?;
        }
        Ok(self.directory.sync(Purpose::Recover)?)
    }

    /// Makes the mirror equal to the manifest, durably. A missing mirror is created only after everything else of the
    /// database has been read, so that a database of another version is not changed.
    pub fn mirror(&mut self) -> Result<()> {
        let Some(file) = self.files.first().filter(|_| self.files.len() == 1) else { return Ok(()) };
        let mut buffer = AlignedBuffer::default();
        let bytes = file.read(Purpose::Recover, 0, self.length as usize, &mut buffer)?;
        // A read may return other bytes than the one before, which was verified. These must not become the mirror.
        if crc32c(bytes) != self.verified_checksum {
            return Err(file.corrupt(0, "the bytes of the manifest that were read before", "other bytes"));
        }
        let mirror = match open_mirror(&self.directory, bytes)? {
            Some(mirror) => mirror,
            None => write_whole(&self.directory, MIRROR_NAME, bytes)?,
        };
        mirror.sync(Purpose::Recover)?;
        self.files.push(mirror);
        Ok(self.directory.sync(Purpose::Recover)?)
    }

    /// Sets the length from which the manifest is rewritten, in bytes. Default: 256 KiB.
    pub fn rewrite_beyond(mut self, bytes: u64) -> Manifest<S> {
        self.rewrite_bytes = bytes;
        self
    }

    /// Returns the header of the database.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns what is live.
    pub fn state(&self) -> &S {
        &self.state.live
    }

    /// Returns the settings that the database keeps.
    pub fn settings(&self) -> &KeptSettings {
        &self.state.settings
    }

    /// Returns the position up to which the log is known to be synced.
    pub fn log_synced(&self) -> u64 {
        self.state.log_synced
    }

    /// Returns whether the database never had a file and released nothing of its log.
    pub fn is_unused(&self) -> bool {
        self.next_number == 1 && self.state.live == S::empty(&self.header)
    }

    /// Returns the first number that no file had when the manifest was opened.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Makes edits durable together, with one sync, and that the log is synced up to the position `log_synced`. The
    /// files that the edits name must have been synced; the directory is synced here.
    pub fn commit(&mut self, edits: &[S::Edit], log_synced: u64) -> Result<()> {
        if edits.iter().any(|edit| S::highest_added(edit).is_some()) {
            // The names of new files must be durable before a commit that needs them.
            self.directory.sync(Purpose::Manifest)?;
        }
        self.append(&Commit { log_synced, settings: KeptSettings::new(), edits: edits.to_vec() })
    }

    /// Makes the new values of settings durable.
    ///
    /// # Errors
    /// [`Error::Setting`] for a value or a name of more than 255 bytes.
    pub fn keep(&mut self, settings: &KeptSettings) -> Result<()> {
        if settings.iter().all(|(name, value)| self.state.settings.get(name) == Some(value)) {
            return Ok(());
        }
        check_lengths(settings)?;
        // The position stays: `apply` keeps the highest one.
        self.append(&Commit { log_synced: 0, settings: settings.clone(), edits: Vec::new() })
    }

    fn append(&mut self, commit: &Commit<S::Edit>) -> Result<()> {
        let mut state = self.state.clone();
        state.apply(commit).map_err(|edit| impossible(&self.files[0], self.length, edit))?;
        // Kept if the write fails: the files may then have the commit or not, and `check` accepts both.
        let attempted = self.attempted.insert(state);
        let mut bytes = Vec::new();
        let log_synced = attempted.log_synced;
        Commit { log_synced, ..commit.clone() }.encode::<S>(self.sequence, &mut bytes);
        let is_long = self.length + bytes.len() as u64 > MANIFEST_BYTES_MAX;
        if self.length > self.rewrite_bytes || is_long {
            // Each file is replaced by a rename, so a crash leaves the old state or the new one, never a part.
            (self.files, self.length, self.sequence) = write_new(&self.directory, &self.header, attempted)?;
            // The live state alone may be long, and is not to be rewritten with every commit.
            self.rewrite_bytes = self.rewrite_bytes.max(2 * self.length);
        } else {
            // One after the other, so that at least one of them is complete at any moment.
            for file in &self.files {
                file.write(Purpose::Manifest, self.length, &bytes)?;
                file.sync(Purpose::Manifest)?;
            }
            self.length += bytes.len() as u64;
            self.sequence += 1;
        }
        // Only when both files are synced does the commit take effect.
        if let Some(state) = self.attempted.take() {
            self.state = state;
        }
        Ok(())
    }

    /// Writes a manifest with the present state to another directory, for a database with this id. The secret stays the
    /// same, because the frames of the log are copied as they are, up to `log_synced`.
    pub fn write_copy(
        &self,
        target: &Directory,
        database_id: u64,
        log_synced: u64,
        settings: &KeptSettings,
    ) -> Result<()> {
        let mut state = ManifestState { log_synced, ..self.state.clone() };
        // Over those of this database: the copy may have another store below.
        state.settings.extend(settings.clone());
        write_new(target, &Header { database_id, ..self.header }, &state).map(drop)
    }

    /// Reads the manifest and its mirror again, and returns an error for each that differs from the present state. A
    /// failed commit may be in either of them, in both or in none.
    pub fn check(&self) -> Result<Vec<Error>> {
        let mut wrong = Vec::new();
        for name in [MANIFEST_NAME, MIRROR_NAME] {
            match Manifest::<S>::read(&self.directory, name) {
                Ok(read) if self.may_be(&read) => {}
                // A crash may have left it behind. The next open for writing makes it equal.
                Ok(read)
                    if name == MIRROR_NAME
                        && self.directory.is_read_only()
                        && read.header.database_id == self.header.database_id => {}
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

    fn may_be(&self, read: &Manifest<S>) -> bool {
        let states = [Some(&self.state), self.attempted.as_ref()];
        read.header == self.header && states.contains(&Some(&read.state))
    }

    /// Returns the length of the manifest and its mirror, in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.length * self.files.len() as u64
    }

    /// Returns the length of the manifest, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }
}

fn impossible<E: Debug>(file: &File, offset: u64, edit: &E) -> Error {
    file.corrupt(offset, "an edit that is possible in the state before it", format!("{edit:?}"))
}

/// Returns an error if a later commit than the next one follows the last intact one: only one incomplete commit may
/// follow it. Takes time in proportion to the bytes after it, whatever lengths they claim.
fn refuse_loss(file: &File, bytes: &[u8], end: usize, sequence: u64) -> Result<()> {
    let mut sums = RangeChecksums::new(file, end as u64..bytes.len() as u64);
    for at in end..bytes.len() {
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

/// Opens the mirror if it has exactly these bytes.
fn open_mirror(directory: &Directory, bytes: &[u8]) -> Result<Option<File>> {
    if !directory.list()?.iter().any(|name| name == MIRROR_NAME) {
        return Ok(None);
    }
    let mirror = directory.open(MIRROR_NAME, Access::Buffered)?;
    // What a failed sync has left in the page cache may never have reached the device.
    mirror.drop_cache();
    if mirror.length()? != bytes.len() as u64 {
        return Ok(None);
    }
    let mut buffer = AlignedBuffer::default();
    let same = mirror.read(Purpose::Recover, 0, bytes.len(), &mut buffer)? == bytes;
    Ok(same.then_some(mirror))
}

/// Writes a new file and renames it to this name, durably.
fn write_whole(directory: &Directory, name: &str, bytes: &[u8]) -> Result<File> {
    let new_name = format!("{name}.new");
    if directory.list()?.contains(&new_name) {
        directory.remove(&new_name)?;
    }
    let file = directory.create(&new_name, Access::Buffered)?;
    file.write(Purpose::Manifest, 0, bytes)?;
    file.sync(Purpose::Manifest)?;
    drop(file);
    // Synced before, so that the name never leads to a file without its bytes.
    directory.rename(&new_name, name)?;
    directory.sync(Purpose::Manifest)?;
    Ok(directory.open(name, Access::Buffered)?)
}

/// Checks that a commit can have these settings.
fn check_lengths(settings: &KeptSettings) -> Result<()> {
    let is_long = |text: &&String| text.len() > KEPT_TEXT_BYTES_MAX;
    match settings.iter().flat_map(|(name, value)| [name, value]).find(is_long) {
        None => Ok(()),
        Some(text) => {
            let problem = format!("{text} has more than {KEPT_TEXT_BYTES_MAX} bytes; use a shorter value");
            Err(Error::Setting { name: "set", problem })
        }
    }
}

/// Replaces the manifest and then its mirror by ones with one commit that has the whole state. Returns the files, their
/// length and the number of the next commit.
fn write_new<S: LiveState>(
    directory: &Directory,
    header: &Header,
    state: &ManifestState<S>,
) -> Result<(Vec<File>, u64, u64)> {
    let ManifestState { log_synced, settings, live } = state;
    check_lengths(settings)?;
    let commit = Commit { log_synced: *log_synced, settings: settings.clone(), edits: live.as_edits() };
    let mut bytes = header.encode().to_vec();
    commit.encode::<S>(0, &mut bytes);
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        let problem =
            format!("the manifest would have {} bytes; the maximum is {MANIFEST_BYTES_MAX}", bytes.len());
        let problem = std::io::Error::new(std::io::ErrorKind::FileTooLarge, problem);
        return Err(Error::io("write", directory.path_of(MANIFEST_NAME))(problem));
    }
    let manifest = write_whole(directory, MANIFEST_NAME, &bytes)?;
    // The manifest first: an open accepts a mirror that is behind, and refuses one that is ahead.
    let mirror = write_whole(directory, MIRROR_NAME, &bytes)?;
    Ok((vec![manifest, mirror], bytes.len() as u64, 1))
}

#[cfg(test)]
mod tests;

//! The files of the dictionary of compressed values: `COMPRESSION` and its mirror, which has the same bytes.
//! docs/formats/compression.md draws them.
//!
//! They are written once, and durable before the first value needs them. So a missing or damaged copy is replaced by
//! the other one, and there is no need for more than one version. Both have the secret of the database, which its
//! checkpoints have as well: a copy of another database, which a restore put there, is damage.

use crate::damage::{Damage, DamagedPart, KeyRange, RepairReport, VerifyReport};
use crate::error::{CorruptFile, Error, Result};
use crate::names::{CLAIM_NAME, COMPRESSION_NAMES, SET_ASIDE};
use crate::store::manifest::Header;
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum::{Secret, crc32c};
use std::io::ErrorKind;

/// The version of the format.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"SILTZDIC";
const CRC_BYTES: usize = 4;
/// The maximum length of a dictionary that is read, in bytes.
const LENGTH_MAX: u64 = 1 << 20;

/// Returns the name under which a copy is written before it is renamed.
fn new_name(name: &str) -> String {
    format!("{name}.new")
}

/// Returns whether this is the name of a copy, or of one that is being written.
pub fn owns(name: &str) -> bool {
    COMPRESSION_NAMES.iter().any(|copy| name == *copy || name == new_name(copy))
}

/// Returns the bytes of the copies that exist.
#[cfg(feature = "compression")]
pub fn bytes(directory: &Directory) -> u64 {
    COMPRESSION_NAMES.iter().map(|name| directory.length_of(name).unwrap_or(0)).sum()
}

/// Returns the bytes of the file.
pub fn encode(owner: Secret, dictionary: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&owner.number().to_le_bytes());
    bytes.extend_from_slice(&(dictionary.len() as u32).to_le_bytes());
    bytes.extend_from_slice(dictionary);
    bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    bytes
}

/// The secret of a database, and its dictionary.
pub type OwnedDictionary<'a> = (Secret, &'a [u8]);

/// Decodes the bytes of the file: the version and, if they are valid, the secret of the database and the dictionary.
pub fn decode<'a>(bytes: &'a [u8]) -> Option<(u32, Option<OwnedDictionary<'a>>)> {
    let mut fields = Reader::new(bytes);
    if fields.bytes(MAGIC.len())? != MAGIC {
        return None;
    }
    let version = fields.u32()?;
    let dictionary = |fields: &mut Reader<'a>| fields.u32().and_then(|length| fields.bytes(length as usize));
    let owner = fields.u64().map(Secret::new);
    let dictionary = owner.zip(dictionary(&mut fields));
    let is_whole = fields.u32() == Some(crc32c(&bytes[..bytes.len().saturating_sub(CRC_BYTES)]));
    let ends = fields.at() == bytes.len();
    // The version also without the rest: the file of a newer program is no damage.
    Some((version, dictionary.filter(|_| version == VERSION && is_whole && ends)))
}

/// Returns the secret of the database in a directory; 0 if its engine has a manifest of its own.
pub fn owner_of(directory: &Directory) -> Result<Secret> {
    Ok(Header::read(directory)?.map_or(Secret::new(0), |header| header.secret))
}

/// Reads one copy.
fn read_copy(directory: &Directory, owner: Secret, name: &str) -> Result<Vec<u8>> {
    let file = directory.open(name, Access::Buffered)?;
    // The length of a damaged file may be anything.
    let length = file.length()?.min(LENGTH_MAX) as usize;
    let mut buffer = AlignedBuffer::default();
    match decode(file.read(Purpose::Recover, 0, length, &mut buffer)?) {
        Some((VERSION, Some((found, dictionary)))) if found == owner => Ok(dictionary.to_vec()),
        Some((VERSION, Some(_))) => Err(file.corrupt(
            0,
            "the dictionary of compressed values of this database",
            "that of another one",
        )),
        Some((found, _)) if found > VERSION => {
            Err(Error::Version { file: file.path().to_owned(), found, supported: VERSION })
        }
        _ => Err(file.corrupt(0, "the dictionary of compressed values", "other bytes")),
    }
}

/// A copy that exists: its name, and the dictionary.
type FoundCopy = (&'static str, Result<Vec<u8>>);

/// Reads all copies that exist.
fn read_all(directory: &Directory, owner: Secret) -> Result<Vec<FoundCopy>> {
    let names = directory.list()?;
    let present = COMPRESSION_NAMES.iter().filter(|copy| names.iter().any(|name| name == *copy));
    Ok(present.map(|name| (*name, read_copy(directory, owner, name))).collect())
}

/// Returns the dictionary of a database; `None` if it has none yet.
///
/// # Errors
/// Those of the first copy if no copy can be read.
#[cfg(any(test, feature = "compression"))]
pub fn read(directory: &Directory, owner: Secret) -> Result<Option<Vec<u8>>> {
    let mut first_error = None;
    for (_, copy) in read_all(directory, owner)? {
        match copy {
            // Any intact copy is enough, because all have the same bytes.
            Ok(dictionary) => return Ok(Some(dictionary)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(None), Err)
}

/// Removes copies that a crash left half-written.
#[cfg(any(test, feature = "compression"))]
pub fn tidy(directory: &Directory) -> Result<()> {
    let names = directory.list()?;
    let left = COMPRESSION_NAMES.map(new_name).into_iter().filter(|new| names.contains(new));
    Ok(left.into_iter().try_for_each(|new| directory.remove(&new))?)
}

/// Writes the missing copies durably.
#[cfg(any(test, feature = "compression"))]
pub fn complete(directory: &Directory, owner: Secret, dictionary: &[u8]) -> Result<()> {
    let names = directory.list()?;
    let has = |name: &str| names.iter().any(|present| present == name);
    let missing: Vec<_> = COMPRESSION_NAMES.into_iter().filter(|name| !has(name)).collect();
    // `create` refuses the name of a copy that a crash left half-written.
    tidy(directory)?;
    for name in &missing {
        write_copy(directory, owner, name, dictionary)?;
    }
    // One sync of the directory for both names: no value needs the dictionary before this returns.
    if missing.is_empty() { Ok(()) } else { Ok(directory.sync(Purpose::Maintain)?) }
}

fn write_copy(directory: &Directory, owner: Secret, name: &str, dictionary: &[u8]) -> Result<()> {
    let new = new_name(name);
    let file = directory.create(&new, Access::Buffered)?;
    let written = file.write(Purpose::Maintain, 0, &encode(owner, dictionary));
    // Before the rename: a copy that has its name is complete, also after a loss of power.
    let synced = written.and_then(|()| file.sync(Purpose::Maintain));
    drop(file);
    Ok(synced.and_then(|()| directory.rename(&new, name)).inspect_err(|_| {
        // If this fails too, the next open removes it.
        let _ = directory.remove(&new);
    })?)
}

/// Returns whether the values of a database may be compressed with a dictionary, and no copy exists. The values of a
/// disk have the dictionary of the database on flash.
pub fn is_missing(directory: &Directory) -> Result<bool> {
    let header = Header::read(directory)?;
    let is_possible = header.is_some_and(|header| header.compression.has_dictionary());
    let names = directory.list()?;
    let is_disk_or_has_it = |name: &String| COMPRESSION_NAMES.contains(&&**name) || name == CLAIM_NAME;
    Ok(is_possible && !names.iter().any(is_disk_or_has_it))
}

/// Returns the damage of a database with values whose dictionary is missing.
pub fn lost(directory: &Directory) -> Damage {
    let path = directory.path_of(COMPRESSION_NAMES[0]);
    let damage = Damage::new(path, DamagedPart::File, 0, 0);
    let damage = damage.because("the dictionary of compressed values", "no file");
    Damage { lost: vec![KeyRange::ALL], ..damage }
}

/// Adds the damage of the files to a report. Records are lost only if no copy is intact.
pub fn examine(directory: &Directory, report: &mut VerifyReport) -> Result<()> {
    let owner = owner_of(directory)?;
    let copies = read_all(directory, owner)?;
    let intact = copies.iter().find_map(|(_, copy)| copy.as_ref().ok()).cloned();
    for (name, copy) in copies {
        let length = directory.length_of(name)?;
        report.checked_bytes += length;
        let error = match (copy, &intact) {
            (Err(error @ Error::Version { .. }), _) => return Err(error),
            (Err(error), _) => error,
            (Ok(dictionary), Some(intact)) if dictionary != *intact => Error::Corrupt {
                file: directory.path_of(name),
                offset: 0,
                expected: format!("the dictionary in {}", COMPRESSION_NAMES[0]),
                got: "another dictionary".into(),
            },
            (Ok(_), _) => continue,
        };
        let mut damage = Damage::of(&error, DamagedPart::File, length);
        damage.lost.extend(intact.is_none().then_some(KeyRange::ALL));
        report.damage.push(damage);
    }
    Ok(())
}

/// Replaces damaged copies by the intact one. If there is none, sets the damaged ones aside: values that need the
/// dictionary are lost then, and the others can be read.
pub fn repair(directory: &Directory, report: &mut RepairReport) -> Result<()> {
    let owner = owner_of(directory)?;
    let before = report.found.damage.len();
    examine(directory, &mut report.found)?;
    if report.found.damage.len() == before {
        return Ok(());
    }
    if directory.is_read_only() {
        // Only here: an intact database may be on a read-only medium.
        return Err(Error::io("repair", directory.path())(ErrorKind::ReadOnlyFilesystem.into()));
    }
    let copies = read_all(directory, owner)?;
    let intact = copies.iter().find_map(|(_, copy)| copy.as_ref().ok()).cloned();
    let is_damaged = |copy: &Result<Vec<u8>>| copy.as_ref().ok() != intact.as_ref();
    // Without an intact copy no copy differs from it, and all are damaged.
    let damaged = copies.iter().filter(|(_, copy)| is_damaged(copy) || intact.is_none());
    let damaged: Vec<&str> = damaged.map(|(name, _)| *name).collect();
    // Durably, before the first copy is replaced: a crash must not lose the only bytes there are.
    let folder = directory.set_aside(&damaged, SET_ASIDE)?;
    report.set_aside.get_or_insert_with(|| directory.path().join(&folder));
    report.set_aside_files.extend(damaged.iter().map(|name| (*name).to_owned()));
    for name in &damaged {
        match &intact {
            Some(dictionary) => {
                write_copy(directory, owner, name, dictionary)?;
                report.new_files.push((*name).to_owned());
            }
            None => directory.remove(name)?,
        }
    }
    Ok(directory.sync(Purpose::Maintain)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_device::memory::MemoryDirectory;

    const OWNER: Secret = Secret::new(0);

    fn names(directory: &Directory) -> Vec<String> {
        directory.list().unwrap()
    }

    fn written() -> Directory {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        assert_eq!(read(&directory, OWNER).unwrap(), None);
        complete(&directory, OWNER, b"words").unwrap();
        directory
    }

    fn damage(directory: &Directory, name: &str) {
        directory.open(name, Access::Buffered).unwrap().write(Purpose::Maintain, 17, b"?").unwrap();
    }

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_not() {
        let bytes = encode(OWNER, b"words");
        assert_eq!(decode(&bytes), Some((VERSION, Some((OWNER, &b"words"[..])))));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(decode(&bad), Some((_, Some(_)))), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(!matches!(decode(&bytes[..length]), Some((_, Some(_)))), "{length} bytes");
        }
        let directory = written();
        assert_eq!(read(&directory, OWNER).unwrap().as_deref(), Some(&b"words"[..]));
        assert_eq!(names(&directory), COMPRESSION_NAMES);
        assert!(names(&directory).iter().all(|name| owns(name)) && !owns("COMPRESSION.old"));
    }

    #[test]
    fn either_copy_suffices_and_is_completed() {
        for lost in COMPRESSION_NAMES {
            let directory = written();
            directory.remove(lost).unwrap();
            directory.create(&new_name(lost), Access::Buffered).unwrap();
            let dictionary = read(&directory, OWNER).unwrap().unwrap();
            complete(&directory, OWNER, &dictionary).unwrap();
            assert_eq!(names(&directory), COMPRESSION_NAMES);
            assert_eq!(read_copy(&directory, OWNER, lost).unwrap(), dictionary);
        }
    }

    #[test]
    fn a_damaged_copy_is_reported_and_repaired_from_the_other() {
        for name in COMPRESSION_NAMES {
            let directory = written();
            damage(&directory, name);
            assert!(read(&directory, OWNER).unwrap().is_some());
            let mut report = RepairReport::default();
            repair(&directory, &mut report).unwrap();
            assert_eq!((report.new_files, report.found.damage.len()), (vec![name.to_owned()], 1));
            assert!(report.found.damage[0].lost.is_empty());
            let mut report = VerifyReport::default();
            examine(&directory, &mut report).unwrap();
            assert!(report.damage.is_empty() && report.checked_bytes > 0);
        }
    }

    #[test]
    fn a_copy_of_another_database_is_damage_whichever_it_is() {
        for name in COMPRESSION_NAMES {
            let directory = written();
            directory.remove(name).unwrap();
            write_copy(&directory, Secret::new(7), name, b"other").unwrap();
            assert_eq!(read(&directory, OWNER).unwrap().as_deref(), Some(&b"words"[..]));
            let mut report = RepairReport::default();
            repair(&directory, &mut report).unwrap();
            assert_eq!((report.new_files, report.found.damage.len()), (vec![name.to_owned()], 1));
            assert_eq!(read_copy(&directory, OWNER, name).unwrap(), b"words");
        }
    }

    #[test]
    fn without_an_intact_copy_the_dictionary_is_an_error_until_it_is_set_aside() {
        let directory = written();
        COMPRESSION_NAMES.iter().for_each(|name| damage(&directory, name));
        assert!(matches!(read(&directory, OWNER), Err(Error::Corrupt { .. })));
        let mut report = RepairReport::default();
        repair(&directory, &mut report).unwrap();
        assert_eq!(report.set_aside_files, COMPRESSION_NAMES);
        assert!(report.found.damage.iter().all(|damage| damage.lost == [KeyRange::ALL]));
        assert_eq!(read(&directory, OWNER).unwrap(), None);
    }
}

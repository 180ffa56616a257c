//! The claim of a disk: the file `FLASHSTORE` on it says to which database the disk belongs, and how far both are.
//!
//! ```text
//! FLASHSTORE   header of the database | number | position | checksum
//! ```
//!
//! It is written before the first record may leave. Without it, an empty flash directory over the disk of another
//! database would look like a new database, and old values would come back.
//!
//! Each directory knows how far the other one was, so an older copy of one of them is refused: both together would show
//! a state that never was.
//!
//! - Before entries of records that have left are removed durably, the claim gets the next `number`, and the manifest
//!   on flash keeps it. A disk with a smaller number lacks records that flash has removed.
//! - Before a record leaves, the claim gets a `position` of the user log that is not before it, and that the manifest
//!   on flash states to be synced. A flash directory whose manifest states less lacks records that are newer than what
//!   it has of the same keys.

use super::settings::DISK_NUMBER;
use crate::damage::{Damage, DamagedPart, KeyRange};
use crate::engine::flashkey::Manifest;
use crate::error::{CorruptFile, Error, Result};
use crate::names::CLAIM_NAME;
use crate::store::manifest::{HEADER_BYTES, Header};
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum::crc32c;

const NEW_CLAIM_NAME: &str = "FLASHSTORE.new";

/// The length of the file, in bytes.
pub(super) const CLAIM_BYTES: u64 = HEADER_BYTES as u64 + 8 + 8 + 4;

/// What the file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// The header of the database to which the disk belongs.
    pub owner: Header,
    /// How often records that have left were confirmed to flash.
    pub number: u64,
    /// The records that have left were written to the user log before this position.
    pub position: u64,
}

impl Claim {
    /// Returns the claim of a disk to which nothing has left.
    pub fn new(owner: &Header) -> Claim {
        Claim { owner: *owner, number: 0, position: 0 }
    }

    /// Returns the claim after records that have left were confirmed once more.
    pub fn confirmed(&self) -> Claim {
        // Only a forged file has the last number.
        Claim { number: self.number.saturating_add(1), ..*self }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.owner.encode().to_vec();
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.position.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Claim> {
        let (_, owner) = Header::decode(bytes.get(..HEADER_BYTES)?)?;
        let mut fields = Reader::new(&bytes[HEADER_BYTES..]);
        let claim = Claim { owner: owner?, number: fields.u64()?, position: fields.u64()? };
        // Encoded again, so that each byte is checked.
        (claim.encode() == bytes).then_some(claim)
    }

    /// Writes the claim durably.
    pub fn write(&self, disk: &Directory) -> Result<()> {
        tidy(disk)?;
        let file = disk.create(NEW_CLAIM_NAME, Access::Buffered)?;
        file.write(Purpose::Maintain, 0, &self.encode())?;
        file.sync(Purpose::Maintain)?;
        // A crash leaves the claim before or this one.
        disk.rename(NEW_CLAIM_NAME, CLAIM_NAME)?;
        Ok(disk.sync(Purpose::Maintain)?)
    }

    /// Returns the problem if the disk or the manifest on flash is an older copy.
    fn problem_of_age(&self, disk: &Directory, flash: &Directory, manifest: &Manifest) -> Option<String> {
        let (disk, flash) = (disk.path(), flash.path());
        let (disk, flash) = (disk.display(), flash.display());
        let remedy = "use copies of both from one moment, or `siltstone repair` to continue with these two";
        let known = number_of(manifest);
        if known > self.number {
            return Some(format!(
                "the disk {disk} is older than {flash}: records have left {known} times, and the disk has {} of them; \
                 {remedy}",
                self.number
            ));
        }
        let synced = manifest.log_synced();
        (synced < self.position).then(|| {
            format!(
                "{flash} is older than its disk {disk}: its log is synced up to {synced}, and the disk has records of \
                 up to {}; {remedy}",
                self.position
            )
        })
    }
}

/// Returns the number of the claim that the manifest on flash knows.
fn number_of(manifest: &Manifest) -> u64 {
    manifest.settings().get(DISK_NUMBER).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Removes a claim that a crash left before it had its name.
pub(super) fn tidy(disk: &Directory) -> Result<()> {
    let is_left = disk.list()?.iter().any(|name| name == NEW_CLAIM_NAME);
    if is_left { Ok(disk.remove(NEW_CLAIM_NAME)?) } else { Ok(()) }
}

/// Returns the claim of a disk, if it has one. `flash` is named if the claim is damaged.
pub(super) fn read(flash: &Directory, disk: &Directory) -> Result<Option<Claim>> {
    if !disk.list()?.iter().any(|name| name == CLAIM_NAME) {
        return Ok(None);
    }
    let file = disk.open(CLAIM_NAME, Access::Buffered)?;
    // A byte more than there may be is read, and is damage.
    let length = file.length()?.min(CLAIM_BYTES + 1) as usize;
    let mut buffer = AlignedBuffer::default();
    if let Some(claim) = Claim::decode(file.read(Purpose::Recover, 0, length, &mut buffer)?) {
        return Ok(Some(claim));
    }
    let expected = format!("the header of the database in {}", flash.path().display());
    let got = "other bytes; no record is lost: `siltstone repair` of that database writes the file again";
    Err(file.corrupt(0, expected, got))
}

/// Checks that the disk belongs to the database on flash, and that neither of them is an older copy. Returns the claim,
/// a new one if the disk has none.
pub(super) fn check(flash: &Directory, disk: &Directory, manifest: &Manifest) -> Result<Claim> {
    let owner = manifest.header();
    check_owner(flash, disk, Some(owner))?;
    // A missing claim counts as number 0. If records have left, flash knows a higher one, and the disk is refused.
    let claim = read(flash, disk)?.unwrap_or(Claim::new(owner));
    match claim.problem_of_age(disk, flash, manifest) {
        Some(problem) => Err(Error::Setting { name: "disk", problem }),
        None => Ok(claim),
    }
}

/// Returns the damage of the claim of the disk of the database on flash, if there is some. It is also damage if one of
/// both is an older copy: any record may be lost, or older.
///
/// # Errors
/// [`Error::Setting`] if the disk belongs to another database.
pub(super) fn examine(flash: &Directory, disk: &Directory, manifest: &Manifest) -> Result<Option<Damage>> {
    let checked = check_owner(flash, disk, Some(manifest.header())).and_then(|()| read(flash, disk));
    let claim = match checked {
        Err(error @ Error::Corrupt { .. }) => {
            return Ok(Some(Damage::of(&error, DamagedPart::File, CLAIM_BYTES)));
        }
        checked => checked?.unwrap_or(Claim::new(manifest.header())),
    };
    Ok(claim.problem_of_age(disk, flash, manifest).map(|got| {
        let expected = "flash and disk of one moment".into();
        let error = Error::Corrupt { file: disk.path_of(CLAIM_NAME), offset: 0, expected, got };
        let mut damage = Damage::of(&error, DamagedPart::File, CLAIM_BYTES);
        damage.lost.push(KeyRange::ALL);
        damage.may_be_older = true;
        damage
    }))
}

/// Writes a claim that fits both directories as they are.
pub(super) fn repair(flash: &Directory, disk: &Directory, manifest: &Manifest) -> Result<()> {
    // The numbers of a damaged claim are lost. Flash knows the number, and the position may be too low.
    let before = read(flash, disk).ok().flatten().unwrap_or(Claim::new(manifest.header()));
    // A repair may have lost the end of the log. With a later position, flash would count as an older copy.
    let position = before.position.min(manifest.log_synced());
    Claim { owner: *manifest.header(), number: before.number.max(number_of(manifest)), position }.write(disk)
}

/// Returns an error if the disk belongs to another database than `owner`, or with `None` to any.
pub(super) fn check_owner(flash: &Directory, disk: &Directory, owner: Option<&Header>) -> Result<()> {
    let Some(Claim { owner: claimed_by, .. }) = read(flash, disk)? else { return Ok(()) };
    if owner.is_some_and(|owner| owner.database_id == claimed_by.database_id) {
        return Ok(());
    }
    let has = match owner {
        Some(owner) => format!("has the database {:016x}", owner.database_id),
        None => "has no database".into(),
    };
    let problem = format!(
        "the disk {} belongs to the database {:016x}, but {} {has}; open the directory of that database, or remove \
         {CLAIM_NAME} from the disk if what was on flash is to be given up",
        disk.path().display(),
        claimed_by.database_id,
        flash.path().display()
    );
    Err(Error::Setting { name: "disk", problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CommonSettings;

    #[test]
    fn the_last_number_of_a_claim_is_followed_by_itself() {
        let owner = CommonSettings::default().header(0, None).unwrap();
        for (number, next) in [(0, 1), (u64::MAX - 1, u64::MAX), (u64::MAX, u64::MAX)] {
            let claim = Claim { number, ..Claim::new(&owner) };
            assert_eq!(claim.confirmed(), Claim { number: next, ..claim });
        }
    }
}

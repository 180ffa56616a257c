//! The claim of a disk: the file `FLASHSTORE` on it, a copy of the header of the database to which it belongs. It is
//! written before the first record may leave. Without it, an empty flash directory over the disk of another database
//! would look like a new database, and old values would come back.

use crate::damage::{Damage, DamagedPart};
use crate::device::{Access, Directory, Purpose};
use crate::error::{Error, Result};
use crate::store::manifest::{HEADER_BYTES, Header};

pub(super) const CLAIM_NAME: &str = "FLASHSTORE";
const NEW_CLAIM_NAME: &str = "FLASHSTORE.new";

/// The length of the file, in bytes.
pub(super) const CLAIM_BYTES: u64 = HEADER_BYTES as u64;

/// Returns the header of the database to which the disk belongs, if it belongs to one. `flash` is named if the claim is
/// damaged.
pub(super) fn read(flash: &Directory, disk: &Directory) -> Result<Option<Header>> {
    if !disk.list()?.iter().any(|name| name == CLAIM_NAME) {
        return Ok(None);
    }
    let file = disk.open(CLAIM_NAME, Access::Buffered)?;
    match Header::read_file(&file) {
        Ok(header) if file.length()? == CLAIM_BYTES => Ok(Some(header)),
        // The database of a newer version has a manifest of that version, which was read before.
        Ok(_) | Err(Error::Corrupt { .. } | Error::Version { .. }) => {
            let expected = format!("the header of the database in {}", flash.path().display());
            let got =
                "other bytes; no record is lost: `siltstone repair` of that database writes the file again";
            Err(file.corrupt(0, expected, got))
        }
        Err(error) => Err(error),
    }
}

/// Returns the damage of the claim of the disk of the database `owner`, if there is some.
///
/// # Errors
/// [`Error::Setting`] if the disk belongs to another database.
pub(super) fn examine(flash: &Directory, disk: &Directory, owner: &Header) -> Result<Option<Damage>> {
    match check(flash, disk, Some(owner)) {
        Err(error @ Error::Corrupt { .. }) => Ok(Some(Damage::of(&error, DamagedPart::File, CLAIM_BYTES))),
        checked => checked.map(|()| None),
    }
}

/// Claims the disk durably.
pub(super) fn write(disk: &Directory, owner: &Header) -> Result<()> {
    if disk.list()?.iter().any(|name| name == NEW_CLAIM_NAME) {
        disk.remove(NEW_CLAIM_NAME)?;
    }
    let file = disk.create(NEW_CLAIM_NAME, Access::Buffered)?;
    file.write(Purpose::Maintain, 0, &owner.encode())?;
    file.sync(Purpose::Maintain)?;
    disk.rename(NEW_CLAIM_NAME, CLAIM_NAME)?;
    disk.sync(Purpose::Maintain)
}

/// Returns an error if the disk belongs to another database than `owner`, or with `None` to any.
pub(super) fn check(flash: &Directory, disk: &Directory, owner: Option<&Header>) -> Result<()> {
    let Some(claimed_by) = read(flash, disk)? else { return Ok(()) };
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

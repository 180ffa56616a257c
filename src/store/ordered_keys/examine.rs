//! Examines runs, for verify and repair.
//!
//! The logs of data have every record, so damage of a run loses none. Until it is repaired, ranges that need the
//! damaged part return an error.

use super::KeyRun;
use super::batch::Batch;
use super::run::Run;
use crate::damage::{Damage, DamagedPart};
use crate::error::{CorruptFile, Error, Result};
use crate::store::examine::{Advance, is_damage, is_missing};
use crate::store::file::FOOTER_BYTES;
use siltstone_device::{Directory, Purpose};

/// Reads these runs completely, and returns the damage.
///
/// # Errors
/// Errors of reading, except for data that the device has lost; [`Error::Interrupted`] if `advance` returned `false`.
pub fn examine(directory: &Directory, runs: &[KeyRun], advance: &mut Advance<'_>) -> Result<Vec<Damage>> {
    let mut damage = Vec::new();
    for run in runs {
        match Run::open(directory, *run) {
            Ok(run) => examine_run(&run, advance, &mut damage)?,
            // The other runs are still examined: each is opened and repaired by itself.
            Err(error) if is_damage(&error) || is_missing(&error) => {
                let file = directory.path_of(&run.file_name());
                damage.push(Damage { file, ..Damage::of(&error, DamagedPart::File, 0) });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(damage)
}

fn examine_run(run: &Run, advance: &mut Advance<'_>, damage: &mut Vec<Damage>) -> Result<()> {
    let block_bytes = u64::from(run.file().footer().block_bytes);
    let mut last: Vec<u8> = Vec::new();
    for page in 0..run.pages() {
        let mut batch = Batch::default();
        let blocks = run.blocks_of(&(page..page + 1));
        let length = (blocks.end - blocks.start) * block_bytes;
        match run.read(Purpose::Maintain, page..page + 1, &mut batch) {
            // The next page is still examined, because it is decoded without this one.
            Err(error) if is_damage(&error) => {
                let found = Damage::of(&error, DamagedPart::Blocks, length);
                damage.push(Damage { file: run.file().file().path().into(), ..found });
            }
            read => read?,
        }
        if let (Some((first, _)), Some(end)) = (batch.first(), batch.last()) {
            // Each page is intact by itself, but ranges rely on the order of pages and on the separators.
            if first <= &last[..] || run.page_of(end) != page || run.page_of(first) != page {
                let offset = (blocks.start + 1) * block_bytes;
                let error = run.file().file().corrupt(offset, "keys above those before", "other keys");
                damage.push(Damage::of(&error, DamagedPart::Records, length));
            }
            last = end.to_vec();
        }
        // After each page, so that an examination of a large run can be interrupted.
        if !advance(length) {
            return Err(Error::Interrupted);
        }
    }
    // An open reads only one of the two footers. The other one is compared here.
    match run.file().check_copy(Purpose::Maintain) {
        Err(error) if is_damage(&error) => {
            damage.push(Damage::of(&error, DamagedPart::StoreFooter, FOOTER_BYTES as u64));
        }
        checked => checked?,
    }
    Ok(())
}

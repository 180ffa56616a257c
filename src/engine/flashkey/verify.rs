//! Reads everything of an open database, and reports the damage.

use super::commits::Commits;
use super::indexed_logs::IndexedLogs;
use super::live::Manifest;
use crate::damage::{Damage, DamagedPart, KeyRange, VerifyReport};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::store::data_logs::{DataView, SegmentInfo};
use crate::store::examine::Advance;
use crate::store::ordered_keys::{self, OrderedKeys};
use crate::store::unit_index::IndexSnapshot;
use siltstone_device::{Purpose, with_scratch};

/// The bytes of frames that are checked at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Reads every frame of the logs, the saved index, the redo log and the manifest, and lists what is damaged.
pub(crate) fn verify(
    logs: &IndexedLogs,
    commits: &Commits,
    progress: &mut Progress<'_>,
) -> Result<VerifyReport> {
    let mut report = VerifyReport { hasher: Some(logs.hasher()), ..VerifyReport::default() };
    commits.look(|manifest: &Manifest| {
        let wrong = manifest.check()?;
        let length = manifest.length();
        report.checked_bytes += 2 * length;
        report.damage.extend(wrong.iter().map(|error| Damage::of(error, DamagedPart::Manifest, length)));
        Result::Ok(())
    })?;
    let (index, view) = logs.look(|index| Ok(index.snapshot()))?;
    // The view holds segments that are released during this.
    let segments = view.segments();
    let frames: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let keys = logs.keys.as_ref().map_or(0, OrderedKeys::disk_bytes);
    let total = commits.disk_bytes() + logs.index.redo().disk_bytes() + keys + frames;
    let mut done = report.checked_bytes;
    let mut advance = |bytes: u64| {
        done = (done + bytes).min(total);
        progress(done, total)
    };
    // While the manifest is locked, the saved index is not replaced.
    report.damage.extend(
        commits.look(|manifest: &Manifest| logs.index.examine(manifest.state().index, &mut advance))?,
    );
    report.damage.extend(commits.look(|manifest: &Manifest| {
        ordered_keys::examine(&logs.directory, &manifest.state().key_runs, &mut advance)
    })?);
    for segment in segments {
        match read_segment(&view, &segment, &mut advance) {
            Ok(records) => report.checked_records += records,
            Err(error @ Error::Corrupt { .. }) => {
                let (lost, records) = lost_of(logs, &index, &view, &segment)?;
                report.checked_records += records;
                let damage = Damage::of(&error, DamagedPart::LogFrames, segment.bytes);
                let (lost, may_be_older) = (KeyRange::united(lost), logs.settings.has_below);
                report.damage.push(Damage { lost, may_be_older, ..damage });
            }
            Err(error) => return Err(error),
        }
    }
    report.checked_bytes = total;
    Ok(report)
}

/// Reads all frames of a segment. Returns the number of records.
fn read_segment(view: &DataView, segment: &SegmentInfo, advance: &mut Advance<'_>) -> Result<u64> {
    let mut frames = view.frames(segment.class, segment.base, Purpose::Maintain);
    let mut records = 0;
    loop {
        let mut bytes = 0;
        let has_more = frames.next_piece(PIECE_BYTES, &mut |_, _, length| {
            records += 1;
            bytes += u64::from(length);
            Ok(())
        })?;
        if !advance(bytes) {
            return Err(Error::Interrupted);
        }
        if !has_more {
            return Ok(records);
        }
    }
}

/// Returns the hashes of the entries whose records in a damaged segment cannot be read, and how many can.
fn lost_of(
    logs: &IndexedLogs,
    index: &IndexSnapshot,
    view: &DataView,
    segment: &SegmentInfo,
) -> Result<(Vec<KeyRange>, u64)> {
    let (mut lost, mut records) = (Vec::new(), 0);
    let rest = u64::MAX >> logs.settings.hash_bits;
    index.visit(Purpose::Maintain, &mut |hash, unit| {
        if view.segment_of(unit) != Some((segment.class, segment.base)) {
            return Ok(());
        }
        match with_scratch(|buffer| view.read(Purpose::Maintain, unit, buffer).map(drop)) {
            Ok(()) => records += 1,
            Err(Error::Corrupt { .. } | Error::Io { .. }) => {
                lost.push(KeyRange { first: hash, last: hash | rest });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    Ok((lost, records))
}

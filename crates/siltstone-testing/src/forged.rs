//! Values that contain frames of the log and sync markers as another database writes them at the same positions, with
//! damage around them. Recovery must not take them for frames of this database.

use super::flips::{Files, memory, read_files};
use siltstone::store::log_format::SEGMENT_HEADER_BYTES;
use siltstone::{Database, Durability, WriteOptions};

/// A key that was never written; only forged frames put it.
const VICTIM: &[u8] = b"victim";
/// The bytes of a value before the forged ones.
const LEAD_BYTES: usize = 40;
/// The only segment of the log.
const SEGMENT: &str = "log-0000000000000000";

/// A log with some records.
struct Logged {
    bytes: Vec<u8>,
    files: Files,
}

/// Creates an empty database. Each has its own secret.
fn create() -> siltstone::Result<Files> {
    let (database, directory) = open(&Files::new())?;
    let files = read_files(&directory)?;
    drop(database);
    Ok(files)
}

fn open(files: &Files) -> siltstone::Result<(Database, siltstone_device::Directory)> {
    let directory = memory(files)?;
    let builder = Database::builder("memory").partitions(1).background_threads(0);
    Ok((builder.open_in(directory.clone())?, directory))
}

/// Puts these keys and values into a database, and returns its log.
fn write(files: &Files, values: &[(&[u8], &[u8])], durability: Durability) -> siltstone::Result<Logged> {
    let (database, directory) = open(files)?;
    for (key, value) in values {
        database.put_with(key, value, WriteOptions::default().durability(durability))?;
    }
    // As after a kill: only what was written is present.
    let files = read_files(&directory)?;
    drop(database);
    Ok(Logged { bytes: files.get(SEGMENT).cloned().unwrap_or_default(), files })
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Returns a value that contains, at their positions in the log of the database `own`, the frames that the
/// database `forger` writes at these positions.
fn forged_value(
    own: &Files,
    forger: &Files,
    (own_durability, durability): (Durability, Durability),
) -> Result<Vec<u8>, String> {
    let failed = |error: siltstone::Error| error.to_string();
    let mark = [0xA5; LEAD_BYTES + 1000];
    let plain = write(own, &[(b"a", b"1"), (b"b", &mark)], own_durability).map_err(failed)?;
    let start = find(&plain.bytes, &mark).ok_or("the value is not in the log")? + LEAD_BYTES;
    // The filler is so long that the forger's frame begins at the position of the value's bytes.
    for length in 0..400 {
        let filler = vec![0x5A; length];
        let before = write(forger, &[(b"f", &filler)], durability).map_err(failed)?.bytes.len();
        if before != start {
            continue;
        }
        let all = write(forger, &[(b"f", &filler), (VICTIM, b"forged")], durability).map_err(failed)?;
        let mut value = mark[..LEAD_BYTES].to_vec();
        value.extend_from_slice(&all.bytes[before..]);
        value.extend_from_slice(&[0xA5; 100]);
        return Ok(value);
    }
    Err("no filler puts the forger's frame at the position".to_owned())
}

/// Damages each byte before the forged frames, one at a time, and cuts the log at each position after them. Returns how
/// often the victim appears, and how often a database does not open that lost only its torn end.
fn forgeries(
    own: &Files,
    forger: &Files,
    durabilities: (Durability, Durability),
) -> Result<(u32, u32), String> {
    let failed = |error: siltstone::Error| error.to_string();
    let value = forged_value(own, forger, durabilities)?;
    let written = write(own, &[(b"a", b"1"), (b"b", &value)], durabilities.0).map_err(failed)?;
    let start = find(&written.bytes, &value).ok_or("the value is not in the log")?;
    let (mut appeared, mut refused) = (0, 0);
    let mut attempt = |bytes: Vec<u8>| -> Result<(), String> {
        let mut files = written.files.clone();
        files.insert(SEGMENT.to_owned(), bytes);
        match open(&files) {
            Ok((database, _)) => appeared += u32::from(database.contains(VICTIM).map_err(failed)?),
            Err(_) => refused += 1,
        }
        let directory = memory(&files).map_err(failed)?;
        let repaired = Database::repair_in(&directory, &mut |_, _| true);
        match repaired.and_then(|_| open(&read_files(&directory)?)) {
            Ok((database, _)) => appeared += u32::from(database.contains(VICTIM).map_err(failed)?),
            Err(_) => refused += 1,
        }
        Ok(())
    };
    for at in start.saturating_sub(30).max(SEGMENT_HEADER_BYTES)..start + LEAD_BYTES {
        let mut bytes = written.bytes.clone();
        bytes[at] ^= 0x10;
        attempt(bytes)?;
    }
    for less in 1..100 {
        attempt(written.bytes[..written.bytes.len() - less].to_vec())?;
    }
    Ok((appeared, refused))
}

/// Returns how often the key of a forged put appears, in a log that was synced and is damaged: a repair searches for
/// frames after the damage.
fn forged_puts(own: &Files, forger: &Files) -> u32 {
    forgeries(own, forger, (Durability::Synced, Durability::Written)).unwrap().0
}

/// Returns how often a database does not open because of forged sync markers, in a log that was not synced: its torn
/// end is no damage.
fn forged_markers(own: &Files, forger: &Files) -> u32 {
    forgeries(own, forger, (Durability::Written, Durability::Synced)).unwrap().1
}

#[test]
fn frames_and_sync_markers_in_a_value_are_never_taken_for_the_logs_own() {
    let (own, forger) = (create().unwrap(), create().unwrap());
    assert_eq!((forged_puts(&own, &forger), forged_markers(&own, &forger)), (0, 0));
}

#[test]
fn frames_forged_with_the_secret_are_accepted() {
    // The canary: with the database's own secret the same bytes are taken for frames and markers.
    let own = create().unwrap();
    assert!(forged_puts(&own, &own) > 0 && forged_markers(&own, &own) > 0);
}

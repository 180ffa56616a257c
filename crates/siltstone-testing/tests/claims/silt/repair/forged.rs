//! Values that contain bytes of the log are not taken for frames of the log.

use crate::repairs::{all, contents, copy_of, memory, overwrite, repair};
use siltstone::engine::silt::live::Manifest;
use siltstone::store::log_format::LogFormat;
use siltstone::store::record::RecordView;
use siltstone::{Database, Durability, Result, WriteOptions};
use siltstone_device::{Access, Directory};
use siltstone_index::coding::checksum::{Secret, crc32c, crc32c_append};

/// Returns a value that contains, for each position from `base` on, the frame that `forge` makes.
fn forgery(base: u64, mut forge: impl FnMut(u64, &mut Vec<u8>)) -> Vec<u8> {
    let mut value = Vec::new();
    while value.len() < 3000 {
        forge(base + value.len() as u64, &mut value);
    }
    value
}

/// Returns guesses of the secret: numbers from other files, and likely ones.
fn guesses(directory: &Directory) -> Vec<Secret> {
    let shape = *Manifest::open(directory).unwrap().header();
    let guesses = [0, 1, 7, 9, 7 ^ 9u64.rotate_left(32), shape.database_id];
    assert!(!guesses.contains(&shape.secret.number()));
    guesses.map(Secret::new).to_vec()
}

/// Creates a database whose second record has the value that `value` makes for the position of its first byte,
/// followed by a third record and a sync if `is_synced`. Returns it with the offset of the second record in the
/// log.
fn with_value(
    hashed_keys: bool,
    is_synced: bool,
    value: impl FnOnce(&Directory, u64) -> Vec<u8>,
) -> (Directory, u64) {
    let directory = memory();
    let builder = Database::builder("db").background_threads(0).seed([7, 9]).partitions(1);
    let builder = if hashed_keys { builder.hashed_keys() } else { builder };
    let database = builder.open_in(directory.clone()).unwrap();
    let synced = WriteOptions::default().durability(Durability::Synced);
    database.put_with("sound...........", "1", synced).unwrap();
    let offset = directory.open(LOG, Access::Buffered).unwrap().length().unwrap();
    // After the checksum, the flags, two lengths (one byte, two bytes) and the key.
    let value = value(&directory, offset - 64 + 4 + 1 + 1 + 2 + 16);
    database.put("key.............", value).unwrap();
    if is_synced {
        database.put_with("after...........", "2", synced).unwrap();
    }
    // As after a kill.
    (copy_of(&all(&directory)), offset)
}

/// The only segment of a log.
const LOG: &str = "log-0000000000000000";

fn open_any(directory: Directory) -> Result<Database> {
    Database::builder("db").background_threads(0).open_in(directory)
}

#[test]
fn a_sync_marker_in_a_value_does_not_make_a_torn_end_damage() {
    for hashed_keys in [false, true] {
        let (directory, offset) = with_value(hashed_keys, false, |directory, base| {
            let guesses = guesses(directory);
            let format = Manifest::open(directory).unwrap().header().log_format();
            let mut secrets = (0..).flat_map(|_| guesses.clone());
            forgery(base, |position, value| {
                let format = LogFormat { secret: secrets.next().unwrap(), ..format };
                format.encode_sync_marker(position, position, value);
                let plain = value.len();
                format.encode_sync_marker(0, 0, value);
                let position = position + 13;
                value[plain + 5..].copy_from_slice(&position.to_le_bytes());
                let crc = crc32c_append(crc32c(&position.to_le_bytes()), &value[plain + 4..]);
                value[plain..plain + 4].copy_from_slice(&crc.to_le_bytes());
            })
        });
        directory.open(LOG, Access::Buffered).unwrap().truncate(offset + 2500).unwrap();
        let database = open_any(directory).unwrap();
        assert_eq!(database.get("sound...........").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(
            (database.get("key.............").unwrap(), database.stats().lost_tail_bytes),
            (None, 2500)
        );
    }
}

#[test]
fn a_frame_in_a_value_is_no_record_whatever_is_damaged_around_it() {
    for hashed_keys in [false, true] {
        // A byte of the checksum, of the flags and of each length.
        for damaged in [0, 4, 5, 6, 7] {
            let (directory, offset) = with_value(hashed_keys, true, |directory, base| {
                let guesses = guesses(directory);
                let format = Manifest::open(directory).unwrap().header().log_format();
                let mut forged = (0..).flat_map(|_| guesses.clone());
                forgery(base, |position, value| {
                    let start = value.len();
                    let record = RecordView { key: b"forged..........", value: Some(b"3"), expires_at_ms: 0 };
                    let format = LogFormat { secret: forged.next().unwrap(), ..format };
                    format.encode_record(position, &record, false, value);
                    let (plain, body) = (value.len(), RecordView { key: b"plain...........", ..record });
                    format.encode_record(0, &body, false, value);
                    let position = (position + (plain - start) as u64).to_le_bytes();
                    let crc = crc32c_append(crc32c(&position), &value[plain + 4..]);
                    value[plain..plain + 4].copy_from_slice(&crc.to_le_bytes());
                })
            });
            let byte = contents(&directory, LOG)[offset as usize + damaged];
            overwrite(&directory, LOG, offset + damaged as u64, &[byte ^ 1]);
            let report = repair(&directory).unwrap();
            assert!(!report.found.damage.is_empty());
            let database = open_any(directory).unwrap();
            for (key, expected) in [
                ("sound...........", Some(&b"1"[..])),
                ("after...........", Some(b"2")),
                ("forged..........", None),
                ("plain...........", None),
            ] {
                let found = database.get(key).unwrap();
                assert_eq!(found.as_deref(), expected, "{key}, byte {damaged}, hashed keys: {hashed_keys}");
            }
        }
    }
}

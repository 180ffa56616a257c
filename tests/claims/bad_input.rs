//! Bad input: records of wrong sizes, damaged files, contradicting settings, directories without a database. Each leads
//! to an error that names it, and nothing else is lost.

use crate::beds::{MANY, TestBed, all_beds, beds, contents, expected, fill};
use siltstone::key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
use siltstone::{Batch, DamagedPart, Database, Error, FlashKeySettings, RepairOptions, WriteOptions};
use std::path::{Path, PathBuf};

/// In the far future, in milliseconds since the Unix epoch.
const FUTURE: u64 = 1 << 50;

#[test]
fn keys_and_values_of_wrong_lengths_are_refused_and_nothing_else_is_lost() {
    let too_long = vec![0; VALUE_LENGTH_MAX + 1];
    for bed in all_beds() {
        let database = bed.open();
        database.put(bed.key(1), bed.value(1, 0)).unwrap();
        for length in [0, KEY_LENGTH_MAX + 1] {
            let key = vec![1; length];
            let is_refused =
                |error: Error| matches!(error, Error::KeyLength { length: reported } if reported == length);
            assert!(is_refused(database.put(&key, b"").unwrap_err()), "{bed}");
            assert!(is_refused(database.get(&key).unwrap_err()), "{bed}");
            assert!(is_refused(database.delete(&key).unwrap_err()), "{bed}");
            assert!(is_refused(database.get_many(&[&bed.key(1), &key]).unwrap_err()), "{bed}");
            assert!(is_refused(database.insert_if_absent(&key, b"").unwrap_err()), "{bed}");
        }
        assert!(matches!(database.put(bed.key(2), &too_long), Err(Error::ValueLength { .. })), "{bed}");
        if let Some((key_length, value_length)) = bed.shape.fixed {
            let short = database.put(vec![1; key_length - 1], bed.value(1, 0));
            assert!(matches!(short, Err(Error::RecordSize { what: "key", .. })), "{bed}: {short:?}");
            let long = database.put(bed.key(1), vec![1; value_length + 1]);
            assert!(matches!(long, Err(Error::RecordSize { what: "value", .. })), "{bed}: {long:?}");
        }
        assert_eq!(contents(&database), expected(&bed, 1..2, 0), "{bed}");
    }
}

#[test]
fn a_batch_with_a_record_that_is_refused_writes_nothing() {
    for bed in all_beds().filter(|bed| bed.shape.fixed.is_some()) {
        let database = bed.open();
        let mut batch = Batch::new();
        batch.put(bed.key(1), bed.value(1, 0)).unwrap();
        batch.put(bed.key(2), b"of another size").unwrap();
        assert!(matches!(database.write(&batch), Err(Error::RecordSize { what: "value", .. })), "{bed}");
        assert!(contents(&database).is_empty(), "{bed}");
        batch.clear();
        batch.put(bed.key(1), bed.value(1, 0)).unwrap().delete(b"of another size").unwrap();
        assert!(matches!(database.write(&batch), Err(Error::RecordSize { what: "key", .. })), "{bed}");
        assert!(contents(&database).is_empty(), "{bed}");
        database.put(bed.key(1), bed.value(1, 0)).unwrap();
    }
}

#[test]
fn records_without_space_for_an_expiry_time_cannot_expire() {
    for bed in all_beds().filter(|bed| !bed.shape.expiring) {
        let database = bed.open();
        let outcome =
            database.put_with(bed.key(1), bed.value(1, 0), WriteOptions::default().expires_at_ms(FUTURE));
        assert!(matches!(outcome, Err(Error::ExpiryUnsupported)), "{bed}: {outcome:?}");
        assert!(contents(&database).is_empty(), "{bed}");
    }
}

#[test]
fn a_flipped_byte_in_any_file_is_reported_and_never_returned() {
    for bed in beds().filter(|bed| bed.path().is_some()) {
        let database = bed.open();
        fill(&bed, &database, MANY);
        database.settle().unwrap();
        database.close().unwrap();
        drop(database);
        let path = bed.path().unwrap();
        for (number, file) in files_below(&path).into_iter().enumerate() {
            let sound = std::fs::read(&file).unwrap();
            // Two of four places, which other files have the others of.
            for part in [number % 2, number % 2 + 2] {
                let Some(at) = (sound.len() * part).checked_div(4).filter(|at| *at < sound.len()) else {
                    continue;
                };
                let mut damaged = sound.clone();
                damaged[at] ^= 0x20;
                std::fs::write(&file, &damaged).unwrap();
                read_all_of_a_damaged_database(&bed);
                // Opening may have repaired the damage: the next one is done to the intact files.
                std::fs::write(&file, &sound).unwrap();
            }
        }
    }
}

/// Returns the files of a directory and of those in it: the disk of a database may be there.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (directories, mut files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.extend(directories.iter().flat_map(|directory| files_below(directory)));
    files
}

/// Errors are allowed, wrong values are not.
fn read_all_of_a_damaged_database(bed: &TestBed) {
    let (own, copy) = (bed.path().unwrap(), tempfile::tempdir().unwrap());
    for file in files_below(&own) {
        let to = copy.path().join(file.strip_prefix(&own).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(file, to).unwrap();
    }
    let Ok(database) = bed.builder_at(copy.path()).create(false).open() else { return };
    for number in 0..MANY {
        if let Ok(Some(value)) = database.get(bed.key(number)) {
            assert_eq!(value, bed.value(number, 0), "{bed}, key {number}");
        }
    }
    database.iter().map(|records| records.count()).unwrap_or_default();
    let _ = database.verify();
}

#[test]
fn verify_finds_damage_in_a_store_unless_it_is_in_padding() {
    for bed in beds().filter(|bed| bed.path().is_some() && bed.has_stores()) {
        let database = bed.open();
        fill(&bed, &database, MANY);
        database.compact().unwrap();
        for number in 0..MANY / 3 {
            database.put(bed.key(number), bed.value(number, 1)).unwrap();
        }
        database.settle().unwrap();
        let whole = contents(&database);
        database.close().unwrap();
        drop(database);
        let stores = std::fs::read_dir(bed.path().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let stores: Vec<_> = stores.filter(|path| bed.is_store(path)).collect();
        assert!(!stores.is_empty(), "{bed}");
        for file in stores {
            let sound = std::fs::read(&file).unwrap();
            for part in 0..9 {
                let at = (sound.len() - 1) * part / 8;
                let mut damaged = sound.clone();
                damaged[at] ^= 0x04;
                std::fs::write(&file, &damaged).unwrap();
                let found = match bed.builder().create(false).open() {
                    Ok(database) => {
                        let found = !database.verify().unwrap().damage.is_empty();
                        // Zeros that pad a block belong to no record.
                        found || (sound[at] == 0 && contents(&database) == whole)
                    }
                    Err(error) => error.to_string().contains(file.to_str().unwrap()),
                };
                assert!(found, "{bed}: {}, byte {at} of {}", file.display(), sound.len());
            }
            std::fs::write(&file, &sound).unwrap();
        }
    }
}

/// Replaces stores of a database by those of the same names in another, one at a time. Returns their number.
fn swap_stores(bed: &TestBed, own: &Path, other: &Path) -> usize {
    let files = std::fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path());
    let mut swapped = 0;
    for file in files.filter(|file| bed.is_store(file)) {
        if swapped == 2 {
            break;
        }
        let Ok(foreign) = std::fs::read(other.join(file.file_name().unwrap())) else { continue };
        swapped += 1;
        let sound = std::fs::read(&file).unwrap();
        // Renamed rather than overwritten: a checkpoint shares its stores with the original.
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, foreign).unwrap();
        let named = |message: &str| {
            message.contains(file.to_str().unwrap()) && message.contains("another store's file")
        };
        let message = bed.builder_at(own).create(false).open().err().unwrap().to_string();
        assert!(named(&message), "{bed}: {message}");
        let report = Database::verify_closed(own, &mut |_, _| true).unwrap();
        let [damage] = &report.damage[..] else { panic!("{bed}: {report:?}") };
        assert_eq!((&damage.file, damage.part), (&file, DamagedPart::File), "{bed}");
        std::fs::write(&file, sound).unwrap();
    }
    swapped
}

/// Returns the id of a database from the header of its first segment (docs/formats/log.md). Logs with another id are
/// refused.
fn database_id_in_log(path: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let log =
        files.filter(|file| file.file_name().to_str().unwrap().starts_with("log-")).map(|file| file.path());
    std::fs::read(log.min().unwrap()).unwrap()[16..24].to_vec()
}

#[test]
fn the_store_of_another_database_or_of_a_copy_is_refused_and_named() {
    let same_keys = |database: &Database, bed: &TestBed, round| {
        for number in 0..MANY {
            database.put(bed.key(number), bed.value(number, round)).unwrap();
        }
        database.compact().unwrap();
        for number in 0..MANY / 4 {
            database.put(bed.key(number), bed.value(number, round)).unwrap();
        }
        database.settle().unwrap();
        database.close().unwrap();
    };
    let is_one_of = |bed: &TestBed| ["variable, hashed keys", "fixed"].contains(&bed.shape.name);
    for bed in beds().filter(|bed| bed.path().is_some() && bed.has_stores() && is_one_of(bed)) {
        let directory = tempfile::tempdir().unwrap();
        let [one, other, copy] = ["one", "other", "copy"].map(|name| directory.path().join(name));
        let open = |path: &Path| bed.builder_at(path).seed([1, 2]).open().unwrap();
        same_keys(&open(&one), &bed, 1);
        same_keys(&open(&other), &bed, 2);
        assert!(swap_stores(&bed, &one, &other) == 2, "{bed}");
        open(&one).checkpoint(&copy).unwrap();
        assert_ne!(database_id_in_log(&one), database_id_in_log(&copy), "{bed}");
        same_keys(&open(&one), &bed, 3);
        same_keys(&open(&copy), &bed, 4);
        assert!(swap_stores(&bed, &one, &copy) == 2, "{bed}");
    }
}

/// A file of the size of a disk that takes no space: no read may load it into memory.
#[test]
fn a_manifest_as_long_as_a_disk_is_refused_as_damage() {
    for name in ["MANIFEST", "MANIFEST.mirror"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let open = || Database::builder(&path).background_threads(0).open();
        open().unwrap().put("key", "value").unwrap();
        let sound = std::fs::metadata(path.join(name)).unwrap().len();
        let file = std::fs::File::options().write(true).open(path.join(name)).unwrap();
        file.set_len(1 << 40).unwrap();
        let report = Database::verify_closed(&path, &mut |_, _| true).unwrap();
        assert!(report.damage.iter().any(|damage| damage.file == path.join(name)), "{name}: {report:?}");
        if name == "MANIFEST" {
            assert!(matches!(open(), Err(Error::Corrupt { .. })));
        }
        Database::repair(&path, &RepairOptions::default(), &mut |_, _| true).unwrap();
        assert_eq!(open().unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
        assert!(std::fs::metadata(path.join(name)).unwrap().len() < 2 * sound);
    }
}

#[test]
fn the_settings_of_a_database_cannot_be_changed() {
    for bed in beds() {
        let database = bed.open();
        database.put(bed.key(1), bed.value(1, 1)).unwrap();
        drop(database);
        let other = match bed.shape.fixed {
            Some((key_length, value_length)) => bed.builder().fixed(key_length, value_length + 1),
            None => bed.builder().fixed(20, 44),
        };
        assert!(matches!(bed.open_with(other), Err(Error::Setting { .. })), "{bed}");
        assert!(matches!(bed.open_with(bed.builder().partitions(4)), Err(Error::Setting { .. })), "{bed}");
        drop(bed.open());
    }
}

#[test]
fn directories_without_a_database_or_in_use_are_named() {
    for bed in beds() {
        let Some(path) = bed.path() else { continue };
        let named = |error: &Error| assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        let error = bed.builder().create(false).open().err().unwrap();
        assert!(matches!(error, Error::NotFound { .. }), "{bed}: {error}");
        named(&error);
        let database = bed.open();
        let error = bed.builder().open().err().unwrap();
        assert!(matches!(error, Error::Locked { .. }), "{bed}: {error}");
        named(&error);
        drop(database);
        drop(bed.open());
        std::fs::remove_dir_all(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("letter.txt"), "Dear").unwrap();
        let error = bed.builder().open().err().unwrap();
        assert!(
            matches!(&error, Error::NotADatabase { found, .. } if found == "letter.txt"),
            "{bed}: {error}"
        );
        named(&error);
        assert_eq!(
            std::fs::read_dir(&path)
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().file_name() != "LOCK")
                .count(),
            1
        );
    }
}

#[test]
fn a_closed_database_of_flashkey_is_verified_without_a_change_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let settings = FlashKeySettings::default().segment_bytes(8192);
    let database = Database::builder(folder.path()).engine(settings).background_threads(0).open().unwrap();
    for number in 0..500u32 {
        database.put(number.to_be_bytes(), [1; 100]).unwrap();
    }
    database.settle().unwrap();
    database.close().unwrap();
    drop(database);
    let report = Database::verify_closed(folder.path(), &mut |_, _| true).unwrap();
    assert_eq!((report.checked_records, report.live_records, report.damage.len()), (500, Some(500), 0));
    let segment = folder.path().join("log-0000000000000000");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let report = Database::verify_closed(folder.path(), &mut |_, _| true).unwrap();
    assert_eq!((report.checked_records, report.live_records, report.damage.len()), (499, None, 1));
    assert_eq!(std::fs::read(&segment).unwrap(), bytes);
    let repair = Database::repair(folder.path(), &RepairOptions::default(), &mut |_, _| true).unwrap();
    assert_eq!((repair.found.damage.len(), repair.found.lost().len()), (1, 1));
    let database = Database::builder(folder.path()).background_threads(0).open().unwrap();
    let found = (0..500u32).filter(|number| database.contains(number.to_be_bytes()).unwrap());
    assert_eq!(found.count(), 499);
    assert!(database.verify().unwrap().damage.is_empty());
}

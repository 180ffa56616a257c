//! Opens after a crash, with damage as well.

use crate::repairs::{all, copy_of, memory};
use siltstone::{Database, Error, FlashKeySettings};

/// The log loses its end in the crash, and with it what says that all before was synced. Redo still says so.
#[test]
fn damage_of_what_redo_covers_is_an_error_and_nothing_is_cut_off() {
    let directory = memory();
    let builder = || {
        let settings = FlashKeySettings::default().segment_bytes(1 << 13);
        Database::builder("db").engine(settings).partitions(4).seed([1, 2]).background_threads(0)
    };
    let database = builder().open_in(directory.clone()).unwrap();
    for number in 0..500u32 {
        database.put(number.to_be_bytes(), [number as u8; 100]).unwrap();
        database.step().unwrap();
    }
    let killed = all(&directory);
    let (name, log) = killed.iter().rfind(|(name, _)| name.starts_with("log-")).unwrap();
    let mut refused = 0;
    for damaged in (64..log.len()).step_by(97) {
        for end in (damaged + 1..=log.len()).step_by(331) {
            let mut files = killed.clone();
            let bytes = files.get_mut(name).unwrap();
            bytes.truncate(end);
            bytes[damaged] ^= 1;
            let damaged_files = copy_of(&files);
            match builder().open_in(damaged_files.clone()) {
                Ok(database) => assert!(database.verify().unwrap().damage.is_empty()),
                Err(error) => {
                    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                    assert_eq!(
                        all(&damaged_files).get(name),
                        files.get(name),
                        "damage at {damaged} of {end}"
                    );
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
}

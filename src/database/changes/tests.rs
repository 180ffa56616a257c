use super::state::{FeedOpening, FeedState, owns};
use super::*;
use crate::engine::{Change, EngineKind};
use crate::names::{CHANGES_NAME, COMPANION_NAMES};
use crate::{Batch, BulkLoader, Durability, RepairOptions, WriteOptions};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory, Purpose};
use std::collections::BTreeMap;
use std::path::Path;

const FEED_BYTES: u64 = 64 << 10;

fn persistent() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.iter().copied().filter(|kind| kind.info().number.is_some())
}

fn open(path: &Path) -> Database {
    Database::builder(path).change_feed(FEED_BYTES).open().unwrap()
}

fn keys_since(database: &Database, since: ChangePosition) -> Vec<Bytes> {
    database.changes(since, usize::MAX).unwrap().keys
}

/// What a follower has of a database.
struct Follower {
    records: BTreeMap<Bytes, Bytes>,
    position: ChangePosition,
}

impl Follower {
    fn follow(&mut self, database: &Database) {
        loop {
            let changes = database.changes(self.position, 3).unwrap();
            for key in &changes.keys {
                match database.get(key).unwrap() {
                    Some(value) => drop(self.records.insert(key.clone(), value)),
                    None => drop(self.records.remove(key)),
                }
            }
            self.position = changes.next;
            if changes.keys.is_empty() {
                return;
            }
        }
    }
}

#[test]
fn a_follower_of_the_feed_has_what_every_kind_of_write_leaves() {
    for kind in persistent() {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let builder = Database::builder("").engine(kind.complete_settings()).change_feed(FEED_BYTES);
        let database = builder.open_in(directory).unwrap();
        let position = database.change_position().unwrap();
        let mut follower = Follower { records: BTreeMap::new(), position };
        let mut check = |what: &str| {
            follower.follow(&database);
            let records: BTreeMap<_, _> =
                database.iter().unwrap().map(|record| record.map(|r| (r.key, r.value)).unwrap()).collect();
            assert_eq!(follower.records, records, "{what} of {}", kind.name());
        };
        (0..20_u8).for_each(|n| database.put([n, 1], [n]).unwrap());
        check("put");
        database.delete([3, 1]).unwrap();
        check("delete");
        let mut batch: Batch = (0..9_u8).map(|n| ([n, 2], [n])).collect();
        batch.delete([4, 1]).unwrap();
        database.write(&batch).unwrap();
        check("write");
        database.update([5, 1], |_| Ok(Change::Put { value: "new".into(), expires_at_ms: 0 })).unwrap();
        check("update");
        database
            .transact(&[[6, 1], [7, 1]], |_, changes| {
                changes[1] = Change::Delete;
                Ok(())
            })
            .unwrap();
        check("transact");
        assert!(database.insert_if_absent("absent", "1").unwrap());
        assert!(database.compare_and_swap("absent", Some(b"1"), Some(b"2")).unwrap());
        check("compare_and_swap");
        database.remove([8, 1]).unwrap();
        check("remove");
        database.bulk_load((0..50_u8).map(|n| ([n, 3], [n]))).unwrap();
        check("bulk_load");
        database.retain(|record| record.key[0] != 9).unwrap();
        check("retain");
        database.compact().unwrap();
        check("compact");
        database.delete_prefix([10]).unwrap();
        check("delete_prefix");
        database.clear().unwrap();
        check("clear");
    }
}

#[test]
fn keys_of_a_write_that_runs_are_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let start = database.change_position().unwrap();
    database.put("before", "1").unwrap();
    let other = database.clone();
    database
        .update("key", |_| {
            assert_eq!(keys_since(&other, start), ["before"]);
            Ok(Change::Put { value: "1".into(), expires_at_ms: 0 })
        })
        .unwrap();
    assert_eq!(keys_since(&database, start), ["before", "key"]);
    // Nor is anything behind the first key of a bulk load.
    let mut load: BulkLoader<'_> = database.bulk_loader();
    load.put("loaded", "1").unwrap();
    database.put("after", "1").unwrap();
    load.put("loaded, too", "1").unwrap();
    assert_eq!(keys_since(&database, start), ["before", "key"]);
    load.finish().unwrap();
    assert_eq!(keys_since(&database, start), ["before", "key", "loaded", "after", "loaded, too"]);
    // A kill may undo a buffered write, until something after it is written.
    let buffered = WriteOptions::default().durability(Durability::Buffered);
    let end = database.change_position().unwrap();
    for is_synced in [false, true] {
        database.put_with("buffered", "1", buffered).unwrap();
        assert_eq!(database.change_position().unwrap(), end);
        assert!(keys_since(&database, end).is_empty());
        if is_synced {
            database.sync().unwrap();
        }
    }
    assert_eq!(keys_since(&database, end), ["buffered"]);
    let end = database.change_position().unwrap();
    database.put_with("buffered", "2", buffered).unwrap();
    database.put("written", "1").unwrap();
    assert_eq!(keys_since(&database, end), ["buffered", "written"]);
    // A write that changes nothing has no keys.
    let end = database.change_position().unwrap();
    database.update("key", |_| Ok(Change::Keep)).unwrap();
    assert_eq!(database.change_position().unwrap(), end);
}

#[test]
fn pages_have_each_key_once_and_continue_where_the_last_one_ended() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let start = database.change_position().unwrap();
    for key in ["a", "b", "a", "c", "a", "d"] {
        database.put(key, "1").unwrap();
    }
    let page = database.changes(start, 2).unwrap();
    assert_eq!(page.keys, ["a", "b"]);
    let rest = database.changes(page.next, 9).unwrap();
    assert_eq!(rest.keys, ["c", "a", "d"]);
    assert_eq!(rest.next, database.change_position().unwrap());
    let none = database.changes(start, 0).unwrap();
    assert_eq!((none.keys.len(), none.next), (0, start));
}

#[test]
fn the_feed_keeps_about_its_size_and_refuses_positions_before_that() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let start = database.change_position().unwrap();
    let mut positions = Vec::new();
    for number in 0..20_000_u32 {
        database.put(number.to_be_bytes(), "1").unwrap();
        if number % 100 == 0 {
            positions.push((number, database.change_position().unwrap()));
        }
    }
    assert!(matches!(database.changes(start, 1), Err(Error::ChangesLost { .. })));
    let kept = positions.iter().filter_map(|(number, position)| {
        database.changes(*position, usize::MAX).ok().map(|changes| (number, changes.keys.len()))
    });
    let kept: Vec<_> = kept.collect();
    kept.iter().for_each(|(number, keys)| assert_eq!(*keys, 19_999 - **number as usize));
    // A key of 4 bytes takes 11 bytes at most.
    let most = kept[0].1 as u64;
    assert!((FEED_BYTES / 11 * 3 / 4..FEED_BYTES / 10).contains(&most), "{most} keys");
    drop(database);
    let database = Database::builder(directory.path()).change_feed(0).open().unwrap();
    let refused = database.change_position().unwrap_err().to_string();
    assert!(refused.contains("no change feed"), "{refused}");
    let names = std::fs::read_dir(directory.path()).unwrap();
    names.for_each(|name| assert!(!owns(name.unwrap().file_name().to_str().unwrap())));
}

#[test]
fn a_feed_that_was_closed_continues_without_being_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let start = database.change_position().unwrap();
    database.put("a", "1").unwrap();
    let middle = database.change_position().unwrap();
    database.close().unwrap();
    assert!(matches!(database.changes(start, 1), Err(Error::Closed)));
    drop(database);
    let reader = Database::open_read_only(directory.path()).unwrap();
    assert_eq!(keys_since(&reader, start), ["a"]);
    assert!(keys_since(&reader, middle).is_empty());
    assert!(keys_since(&reader, reader.change_position().unwrap()).is_empty());
    drop(reader);
    let database = Database::open(directory.path()).unwrap();
    database.put("b", "1").unwrap();
    assert_eq!(keys_since(&database, start), ["a", "b"]);
    assert_eq!(keys_since(&database, middle), ["b"]);
    assert_eq!(database.stats().settings.last().unwrap(), &("change_feed", FEED_BYTES.to_string()));
}

#[test]
fn a_position_of_another_copy_is_refused_even_if_the_log_is_long_enough() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = open(one.path());
    let before = database.change_position().unwrap();
    database.put("a", "1").unwrap();
    drop(database);
    for entry in std::fs::read_dir(one.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), other.path().join(entry.file_name())).unwrap();
    }
    let original = open(one.path());
    original.put("of the original", "1").unwrap();
    let after = original.change_position().unwrap();
    let copy = open(other.path());
    ["of the copy", "and one more", "and another one"].iter().for_each(|key| copy.put(key, "1").unwrap());
    assert_eq!(keys_since(&copy, before).len(), 4);
    let refused = copy.changes(after, 1).unwrap_err().to_string();
    assert!(refused.contains("position is of another feed"), "{refused}");
    // A checkpoint is another database, without a feed.
    original.checkpoint(other.path().join("checkpoint")).unwrap();
    let checkpoint = Database::open(other.path().join("checkpoint")).unwrap();
    assert!(matches!(checkpoint.change_position(), Err(Error::Setting { name: "change_feed", .. })));
}

#[test]
fn damage_to_the_feed_or_a_repair_begins_a_new_one() {
    let is_segment = |name: &str| name != CHANGES_NAME && owns(name);
    for damages_state in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path());
        let start = database.change_position().unwrap();
        (0..9_u8).for_each(|n| database.put([n], "1").unwrap());
        drop(database);
        let files = Directory::system(directory.path(), Access::Buffered).unwrap();
        let mut names = files.list().unwrap();
        names.retain(|name| if damages_state { name == CHANGES_NAME } else { is_segment(name) });
        let file = files.open(&names[0], Access::Buffered).unwrap();
        file.write(Purpose::Maintain, 70, b"?").unwrap();
        let reader = Database::open_read_only(directory.path()).unwrap();
        assert!(matches!(reader.changes(start, 1), Err(Error::ChangesLost { .. })));
        assert!(matches!(reader.change_position(), Err(Error::ChangesLost { .. })));
        drop(reader);
        let database = Database::open(directory.path()).unwrap();
        assert!(matches!(database.changes(start, 1), Err(Error::ChangesLost { .. })));
        let start = database.change_position().unwrap();
        database.put("new", "1").unwrap();
        assert_eq!(keys_since(&database, start), ["new"]);
        drop(database);
        // A repair of an intact database leaves the feed as it is.
        for damaged in [false, true] {
            if damaged {
                let file = files.open("MANIFEST.mirror", Access::Buffered).unwrap();
                file.write(Purpose::Maintain, 70, b"?").unwrap();
            }
            Database::repair(directory.path(), &RepairOptions::default(), &mut |_, _| true).unwrap();
            let database = Database::open(directory.path()).unwrap();
            assert_eq!(database.changes(start, 9).is_err(), damaged);
        }
    }
}

#[test]
fn a_destroyed_database_has_no_feed_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    drop(open(&path));
    Database::destroy(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_size_that_is_not_possible_and_an_engine_without_files_are_refused() {
    for bytes in [1_000, u64::MAX] {
        let refused = Database::builder("nowhere").change_feed(bytes).open().unwrap_err().to_string();
        assert!(refused.contains("is not within 65536 to"), "{refused}");
    }
    assert!(!Path::new("nowhere").exists());
    let builder = Database::builder("").engine(EngineKind::Mica).change_feed(FEED_BYTES);
    let refused = builder.open_in_memory().unwrap_err().to_string();
    assert!(refused.contains("change_feed") && refused.contains("mica"), "{refused}");
}

#[test]
fn the_text_of_a_position_is_parsed_and_no_other_text_is() {
    let position = ChangePosition { opening: 7, offset: 0x1234 };
    assert_eq!(position.to_string(), "0000000000000007-1234");
    assert_eq!("0000000000000007-1234".parse::<ChangePosition>().unwrap(), position);
    for text in ["", "-", "7-1234", "0000000000000007-01234", "0000000000000007", "latest"] {
        let refused = text.parse::<ChangePosition>().unwrap_err().to_string();
        assert!(refused.contains("is not a position"), "{refused}");
    }
}

#[test]
fn a_state_is_read_as_it_was_written_and_not_if_a_bit_differs() {
    let opens = vec![FeedOpening { number: 5, end: 0x1234 }, FeedOpening { number: 6, end: u64::MAX }];
    let (log_id, bytes_max, synced) = (0x0807_0605_0403_0201, 64 << 20, 0x1200);
    let mut state = FeedState { log_id, bytes_max, synced, intact_in_run: 1 << 100, opens };
    let bytes = state.encode();
    assert_eq!(bytes, include_bytes!("../../../fixtures/store/changes.bin"));
    assert_eq!(FeedState::decode(&bytes), Some(state.clone()));
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(FeedState::decode(&bad), None, "bit {bit}");
    }
    (0..bytes.len()).for_each(|length| assert_eq!(FeedState::decode(&bytes[..length]), None));
    for bytes_max in [0, FEED_BYTES - 1, u64::MAX] {
        assert_eq!(FeedState::decode(&FeedState { bytes_max, ..state.clone() }.encode()), None);
    }
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    assert_eq!(FeedState::read(&directory).unwrap(), None);
    // What is before the start of the log is of no use.
    state.write(&directory, 0x1235).unwrap();
    let read = FeedState::read(&directory).unwrap().flatten().unwrap();
    assert_eq!(read.opens, [FeedOpening { number: 6, end: u64::MAX }]);
    assert!(!COMPANION_NAMES.contains(&CHANGES_NAME));
}

//! Claims about the manifest.

use super::*;
use crate::engine::silt::live::{Edit, LiveStores, Manifest, Role, StoreEntry};
use crate::key::{KeyHasher, RecordLayout};
use crate::names::LogClass;
use siltstone_device::memory::MemoryDirectory;
use siltstone_index::coding::checksum::Secret;
use siltstone_index::coding::checksum::work::summed_bytes;

const HEADER: Header = Header {
    engine: 1,
    layout: RecordLayout { fixed: None, expiring: false },
    hasher: KeyHasher::Identity,
    partitions_log2: 1,
    block_bytes: 4096,
    compression: crate::compression::Compression::None,
    database_id: 7,
    secret: Secret::new(8),
};

fn edit(partition: u32, removed: &[u64], added: &[(u64, Role)]) -> Edit {
    let added = added.iter().map(|&(number, role)| StoreEntry { number, tag: 100 + number, role }).collect();
    Edit { partition, converted_to: 10, removed: removed.to_vec(), added }
}

#[test]
fn committed_edits_are_there_again_and_a_torn_one_is_not() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap();
    manifest.commit(&[edit(0, &[], &[(1, Role::HashOrdered)])], 0).unwrap();
    manifest.commit(&[edit(0, &[], &[(2, Role::CuckooTable)])], 0).unwrap();
    manifest.commit(&[edit(0, &[1], &[(3, Role::Sorted)])], 0).unwrap();
    let state = manifest.partitions().to_vec();
    assert_eq!(state[0].stores.iter().map(|store| store.number).collect::<Vec<_>>(), [3, 2]);
    let length = manifest.length();
    drop(manifest);
    let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
    let mut torn = Vec::new();
    let edits = vec![edit(1, &[], &[(4, Role::Sorted)])];
    let commit = Commit { log_synced: 0, settings: KeptSettings::new(), edits };
    commit.encode::<LiveStores>(4, &mut torn);
    file.write(Purpose::Manifest, length, &torn[..torn.len() - 1]).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap();
    assert_eq!(manifest.partitions(), state);
    assert_eq!(manifest.next_number(), 4);
    assert_eq!(manifest.length(), length);
    assert!(file.length().unwrap() > length, "opening changes nothing");
    manifest.make_durable().unwrap();
    assert_eq!(file.length().unwrap(), length);
}

#[test]
fn a_whole_commit_with_fields_of_another_version_is_an_error_and_is_not_truncated() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
    let length = file.length().unwrap();
    let commit = Commit { log_synced: 0, settings: KeptSettings::new(), edits: vec![edit(1, &[], &[])] };
    let mut bytes = Vec::new();
    commit.encode::<LiveStores>(1, &mut bytes);
    // A longer body, with a correct checksum.
    bytes.push(0);
    let body_length = (bytes.len() - commit::COMMIT_HEADER_BYTES) as u32;
    bytes[4..8].copy_from_slice(&body_length.to_le_bytes());
    let crc = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    file.write(Purpose::Manifest, length, &bytes).unwrap();
    assert!(matches!(Manifest::open(&directory), Err(Error::Corrupt { offset, .. }) if offset == length));
    assert_eq!(file.length().unwrap(), length + bytes.len() as u64);
}

#[test]
fn a_text_that_is_too_long_for_a_commit_is_refused_by_all_that_write_one() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap();
    let of_length = |length| KeptSettings::from([("disk".to_owned(), "x".repeat(length))]);
    let copy = Directory::new(MemoryDirectory::default(), Access::Buffered);
    for (length, is_refused) in [(KEPT_TEXT_BYTES_MAX, false), (KEPT_TEXT_BYTES_MAX + 1, true)] {
        let settings = of_length(length);
        let outcomes = [
            manifest.keep(&settings),
            manifest.write_copy(&copy, 9, 0, &settings),
            Manifest::replace(&copy, &HEADER, LiveStores::empty(&HEADER), &settings, 0),
        ];
        for outcome in outcomes {
            assert_eq!(matches!(outcome, Err(Error::Setting { .. })), is_refused, "{outcome:?}");
        }
    }
    assert_eq!(*Manifest::open(&copy).unwrap().settings(), of_length(KEPT_TEXT_BYTES_MAX));
}

#[test]
fn a_missing_mirror_is_no_damage_and_a_damaged_one_is() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let damaged = || Manifest::open_or_mirror(&directory).map(|(_, damage)| damage.len());
    assert_eq!(damaged().unwrap(), 0);
    directory.open(MIRROR_NAME, Access::Buffered).unwrap().write(Purpose::Manifest, 20, &[0xEE]).unwrap();
    assert_eq!(damaged().unwrap(), 1);
    directory.remove(MIRROR_NAME).unwrap();
    assert_eq!(damaged().unwrap(), 0);
    directory.remove(MANIFEST_NAME).unwrap();
    assert!(damaged().is_err());
}

#[test]
fn a_file_that_is_longer_than_a_manifest_is_damage() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
    let read = |length| {
        file.write(Purpose::Manifest, length - 1, b"x").unwrap();
        Manifest::read(&directory, MANIFEST_NAME).map(drop)
    };
    assert!(read(MANIFEST_BYTES_MAX).is_ok());
    let opened = read(MANIFEST_BYTES_MAX + 1);
    assert!(matches!(opened, Err(Error::Corrupt { offset: MANIFEST_BYTES_MAX, .. })), "{opened:?}");
}

#[test]
fn damage_before_a_later_edit_is_an_error_and_not_a_shorter_history() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap();
    for number in 1..4 {
        manifest.commit(&[edit(0, &[], &[(number, Role::HashOrdered)])], 0).unwrap();
    }
    let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
    file.write(Purpose::Manifest, HEADER_BYTES as u64 + 20, &[0xEE]).unwrap();
    assert!(matches!(Manifest::open(&directory), Err(Error::Corrupt { .. })));
}

#[test]
fn a_torn_commit_is_left_out_whichever_of_its_sectors_survived() {
    let stores: Vec<_> = (2..100).map(|number| edit(0, &[], &[(number, Role::HashOrdered)])).collect();
    for lost_sector in 0..5 {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        Manifest::create(&directory, &HEADER).unwrap();
        let mut manifest = Manifest::open(&directory).unwrap();
        manifest.commit(&[edit(0, &[], &[(1, Role::HashOrdered)])], 0).unwrap();
        let (before, start) = (manifest.partitions().to_vec(), manifest.length());
        manifest.commit(&stores, 0).unwrap();
        let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
        let end = (512 * (lost_sector + 1)).min(manifest.length());
        let lost = (512 * lost_sector).max(start);
        file.write(Purpose::Manifest, lost, &vec![0; (end - lost) as usize]).unwrap();
        assert_eq!(Manifest::open(&directory).unwrap().partitions(), before);
    }
}

#[test]
fn the_search_for_later_commits_takes_work_in_proportion_to_what_it_searches() {
    for claims in [1_000u32, 10_000] {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        Manifest::create(&directory, &HEADER).unwrap();
        let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
        let mut bytes = Vec::new();
        for claim in (0..claims).rev() {
            // A commit that reaches to the end, but for its checksum.
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&(claim * 16 + 8).to_le_bytes());
            bytes.extend_from_slice(&2u64.to_le_bytes());
        }
        file.write(Purpose::Manifest, file.length().unwrap(), &bytes).unwrap();
        let before = summed_bytes();
        assert!(Manifest::read(&directory, MANIFEST_NAME).is_ok());
        let work = summed_bytes() - before;
        assert!(work > 16_000 && work < 1_100 * u64::from(claims), "{work} bytes for {claims} claims");
    }
}

#[test]
fn a_manifest_is_never_longer_than_one_that_is_read() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap().rewrite_beyond(u64::MAX);
    let mut number = 0;
    let mut longest = 0;
    for _ in 0..30 {
        let removed: Vec<u64> = (0..10_000u64.min(number)).map(|back| number - back).collect();
        let added: Vec<_> = (1..=10_000).map(|more| (number + more, Role::HashOrdered)).collect();
        number += 10_000;
        let edit = Edit { removed, ..edit(0, &[], &added) };
        manifest.commit(&[edit], 0).unwrap();
        longest = longest.max(manifest.length());
    }
    assert!(longest > MANIFEST_BYTES_MAX - (1 << 20) && longest <= MANIFEST_BYTES_MAX, "{longest}");
    assert_eq!(Manifest::open(&directory).unwrap().partitions(), manifest.partitions());
    let added: Vec<_> = (1..=250_000).map(|more| (number + more, Role::HashOrdered)).collect();
    assert!(matches!(manifest.commit(&[edit(1, &[], &added)], 0), Err(Error::Io { .. })));
    assert_eq!(Manifest::open(&directory).unwrap().partitions(), manifest.partitions());
}

#[test]
fn a_long_history_is_rewritten_with_the_same_state() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap();
    let mut number = 0;
    let mut longest = 0;
    for _ in 0..6000 {
        number += 1;
        let removed: &[u64] = if number > 1 { &[number - 1] } else { &[] };
        manifest.commit(&[edit(1, removed, &[(number, Role::Sorted)])], 0).unwrap();
        longest = longest.max(manifest.length());
    }
    assert!(longest < 300 << 10 && manifest.length() < longest);
    let opened = Manifest::open(&directory).unwrap();
    assert_eq!(opened.partitions(), manifest.partitions());
}

#[test]
fn a_long_live_state_is_not_rewritten_with_every_edit() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap().rewrite_beyond(100);
    manifest.make_durable().unwrap();
    for number in 1..500 {
        manifest.commit(&[edit(0, &[], &[(number, Role::HashOrdered)])], 0).unwrap();
    }
    let written = directory.io().of(Purpose::Manifest).write_bytes;
    assert!(written < 3 * 2 * 500 * 65, "{written} bytes for commits of 65 each, in two files");
}

#[test]
fn the_mirror_equals_the_manifest_and_reveals_the_loss_of_its_last_commit() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    directory.remove(MIRROR_NAME).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap();
    manifest.make_durable().unwrap();
    assert!(directory.open(MIRROR_NAME, Access::Buffered).is_err());
    manifest.mirror().unwrap();
    let mut lengths = Vec::new();
    for number in 1..4 {
        manifest.commit(&[edit(0, &[], &[(number, Role::HashOrdered)])], 0).unwrap();
        lengths.push(manifest.length());
    }
    assert!(manifest.check().unwrap().is_empty());
    let mirror = Manifest::read(&directory, MIRROR_NAME).unwrap();
    assert_eq!(mirror.partitions(), manifest.partitions());
    // As it is between the two syncs of a commit.
    let file = directory.open(MIRROR_NAME, Access::Buffered).unwrap();
    file.truncate(lengths[1]).unwrap();
    let mut opened = Manifest::open(&directory).unwrap();
    assert_eq!((opened.partitions(), opened.check().unwrap().len()), (manifest.partitions(), 1));
    opened.make_durable().unwrap();
    assert!(opened.check().unwrap().is_empty());
    let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
    file.write(Purpose::Manifest, lengths[1] + 20, &[0xEE]).unwrap();
    assert!(matches!(Manifest::open(&directory), Err(Error::Corrupt { .. })));
    directory.remove(MANIFEST_NAME).unwrap();
    assert!(matches!(Manifest::open(&directory), Err(Error::Corrupt { .. })));
}

#[test]
fn kept_settings_are_read_again_also_after_a_rewrite_and_in_a_copy() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    Manifest::create(&directory, &HEADER).unwrap();
    let mut manifest = Manifest::open(&directory).unwrap();
    manifest.make_durable().unwrap();
    let settings = |pairs: &[(&str, &str)]| -> KeptSettings {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    manifest.keep(&settings(&[("index", "fences"), ("ratio", "1")])).unwrap();
    let length = manifest.length();
    manifest.keep(&settings(&[("ratio", "1")])).unwrap();
    assert_eq!(manifest.length(), length, "a value that is kept already is not written");
    manifest.keep(&settings(&[("ratio", "2")])).unwrap();
    let kept = settings(&[("index", "fences"), ("ratio", "2")]);
    assert_eq!(Manifest::open(&directory).unwrap().settings(), &kept);
    assert!(Manifest::open(&directory).unwrap().is_unused() && manifest.is_unused());
    let copy = Directory::new(MemoryDirectory::default(), Access::Buffered);
    manifest.write_copy(&copy, 8, 0, &KeptSettings::new()).unwrap();
    assert_eq!(Manifest::open(&copy).unwrap().settings(), &kept);
    let mut manifest = manifest.rewrite_beyond(0);
    manifest.commit(&[edit(0, &[], &[(1, Role::HashOrdered)])], 0).unwrap();
    assert_eq!(Manifest::open(&directory).unwrap().settings(), &kept);
    assert!(!Manifest::open(&directory).unwrap().is_unused() && !manifest.is_unused());
    let long = settings(&[("ratio", &"1".repeat(256))]);
    assert!(matches!(manifest.keep(&long), Err(Error::Setting { .. })));
    assert!(manifest.check().unwrap().is_empty());
}

fn memory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

/// Returns the bytes of a file.
fn bytes_of(directory: &Directory, name: &str) -> Vec<u8> {
    let file = directory.open(name, Access::Buffered).unwrap();
    let length = file.length().unwrap() as usize;
    file.read(Purpose::Recover, 0, length, &mut AlignedBuffer::default()).unwrap().to_vec()
}

/// Writes a file over one that may exist.
fn put_file(directory: &Directory, name: &str, bytes: &[u8]) {
    let _ = directory.remove(name);
    directory.create(name, Access::Buffered).unwrap().write(Purpose::Manifest, 0, bytes).unwrap();
}

/// Makes a directory with one manifest and the mirror of another one.
fn mirrored_from(manifest: &Directory, mirror: &Directory) -> Directory {
    let directory = memory();
    put_file(&directory, MANIFEST_NAME, &bytes_of(manifest, MANIFEST_NAME));
    put_file(&directory, MIRROR_NAME, &bytes_of(mirror, MIRROR_NAME));
    directory
}

/// Makes a database whose first partition is converted, and whose log is synced, up to these positions.
fn database(header: &Header, converted_to: u64, log_synced: u64) -> Directory {
    let directory = memory();
    let mut live = LiveStores::empty(header);
    live.apply(&Edit { converted_to, ..edit(0, &[], &[]) }).unwrap();
    Manifest::replace(&directory, header, live, &KeptSettings::new(), log_synced).unwrap();
    directory
}

fn opens(directory: &Directory) -> bool {
    match Manifest::open(directory) {
        Ok(_) => true,
        Err(Error::Corrupt { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_newest_segment_of_the_log_of_users_decides_between_a_manifest_and_a_mirror_of_two_databases() {
    let other = Header { database_id: 9, ..HEADER };
    let directory = mirrored_from(&database(&HEADER, 0, 0), &database(&other, 0, 50));
    // Whether the manifest opens, the id of the header that is read, and the id and the damage with the mirror's help.
    let decided = || {
        let (manifest, damage) = Manifest::open_or_mirror(&directory).unwrap();
        let header = Header::read(&directory).unwrap().unwrap();
        (opens(&directory), header.database_id, manifest.header().database_id, damage.len())
    };
    assert_eq!(decided(), (true, 7, 7, 1), "without a log");
    let segment = |class, base, header: &Header| {
        let format = header.log_format().of(class);
        let bytes = format.header(base, Default::default()).encode();
        put_file(&directory, &format.segment_name(base), &bytes);
    };
    segment(LogClass::User, 100, &other);
    assert_eq!(decided(), (false, 9, 9, 1));
    segment(LogClass::User, 200, &HEADER);
    assert_eq!(decided(), (true, 7, 7, 1));
    segment(LogClass::Moved(1), 900, &other);
    assert_eq!(decided(), (true, 7, 7, 1), "a log of moved records");
    segment(LogClass::User, 300, &Header { database_id: 11, ..HEADER });
    assert_eq!(decided(), (true, 7, 7, 1), "a segment of a third database");
    // A crash came before the header of the newest segment was written.
    let newest = other.log_format().segment_name(400);
    let header = other.log_format().header(400, Default::default()).encode();
    put_file(&directory, &newest, &header[..header.len() - 1]);
    assert_eq!(decided(), (true, 7, 7, 1));
    put_file(&directory, &newest, &header);
    assert_eq!(decided(), (false, 9, 9, 1));
}

#[test]
fn a_mirror_is_ahead_if_its_log_or_a_partition_is_known_to_a_higher_position() {
    let manifest = database(&HEADER, 10, 20);
    let opens_with = |header, converted_to, log_synced| {
        opens(&mirrored_from(&manifest, &database(header, converted_to, log_synced)))
    };
    assert!(opens_with(&HEADER, 10, 20) && opens_with(&HEADER, 9, 19));
    assert!(!opens_with(&HEADER, 11, 20) && !opens_with(&HEADER, 10, 21));
    assert!(opens_with(&Header { database_id: 9, ..HEADER }, 11, 21), "of another database");
}

#[test]
fn a_longer_mirror_with_other_bytes_is_that_of_before_a_rewrite() {
    let manifest = database(&HEADER, 10, 20);
    let longer = database(&HEADER, 5, 20);
    Manifest::open(&longer).unwrap().commit(&[Edit { converted_to: 10, ..edit(0, &[], &[]) }], 20).unwrap();
    assert!(bytes_of(&longer, MANIFEST_NAME).len() > bytes_of(&manifest, MANIFEST_NAME).len());
    put_file(&longer, MIRROR_NAME, &bytes_of(&longer, MANIFEST_NAME));
    assert!(opens(&mirrored_from(&manifest, &longer)));
    // With the same first commit, the manifest has lost the second one.
    let mirror = bytes_of(&longer, MIRROR_NAME);
    put_file(&longer, MANIFEST_NAME, &mirror[..mirror.len() - 1]);
    assert!(!opens(&longer));
}

#[test]
fn only_a_commit_with_one_of_the_next_numbers_shows_that_commits_before_it_are_lost() {
    let opens_with = |distance, sequence| {
        let directory = memory();
        Manifest::create(&directory, &HEADER).unwrap();
        let mut manifest = Manifest::open(&directory).unwrap();
        manifest.commit(&[edit(0, &[], &[(1, Role::HashOrdered)])], 0).unwrap();
        let mut bytes = vec![0; distance];
        let commit = Commit { log_synced: 0, settings: KeptSettings::new(), edits: Vec::new() };
        commit.encode::<LiveStores>(sequence, &mut bytes);
        let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
        file.write(Purpose::Manifest, manifest.length(), &bytes).unwrap();
        opens(&directory)
    };
    // The first two have the numbers 0 and 1.
    for distance in [0, 1, 7] {
        assert_eq!([1, 3, 65, 66].map(|sequence| opens_with(distance, sequence)), [true, false, false, true]);
    }
    assert!(opens_with(1, 2), "the next one, at another place");
}

#[test]
fn a_manifest_is_read_once_and_twice_before_an_incomplete_commit_is_left_out() {
    let directory = memory();
    Manifest::create(&directory, &HEADER).unwrap();
    let reads = || {
        let before = directory.io().of(Purpose::Recover).reads;
        Manifest::read(&directory, MANIFEST_NAME).unwrap();
        directory.io().of(Purpose::Recover).reads - before
    };
    assert_eq!(reads(), 1);
    let file = directory.open(MANIFEST_NAME, Access::Buffered).unwrap();
    file.write(Purpose::Manifest, file.length().unwrap(), &[0]).unwrap();
    assert_eq!(reads(), 2);
}

#[test]
fn a_commit_with_a_position_that_no_log_has_is_damage() {
    for (log_synced, is_read) in [(POSITION_MAX, true), (POSITION_MAX + 1, false)] {
        assert_eq!(opens(&database(&HEADER, 0, log_synced)), is_read);
    }
}

#[test]
fn a_database_is_unused_until_it_had_a_file_or_converted_a_part_of_its_log() {
    let is_unused = |edits: &[Edit]| {
        let directory = memory();
        Manifest::create(&directory, &HEADER).unwrap();
        let mut manifest = Manifest::open(&directory).unwrap();
        edits.iter().for_each(|edit| manifest.commit(std::slice::from_ref(edit), 0).unwrap());
        Manifest::open(&directory).unwrap().is_unused()
    };
    let store = |removed: &[u64], added: &[(u64, Role)]| Edit { converted_to: 0, ..edit(0, removed, added) };
    assert!(is_unused(&[]));
    assert!(!is_unused(&[edit(0, &[], &[])]), "only converted");
    assert!(!is_unused(&[store(&[], &[(1, Role::Sorted)]), store(&[1], &[])]), "its file was removed");
}

#[test]
fn a_manifest_is_rewritten_when_it_is_longer_than_its_limit_and_its_mirror_counts_as_well() {
    let directory = memory();
    Manifest::create(&directory, &HEADER).unwrap();
    let manifest = Manifest::open(&directory).unwrap();
    assert_eq!(
        (manifest.disk_bytes(), manifest.length()),
        (Manifest::empty_length(), Manifest::empty_length())
    );
    let limit = manifest.length();
    let mut manifest = manifest.rewrite_beyond(limit);
    manifest.make_durable().unwrap();
    manifest.mirror().unwrap();
    let mut add = |number| {
        manifest.commit(&[edit(0, &[], &[(number, Role::HashOrdered)])], 0).unwrap();
        let lengths = [MANIFEST_NAME, MIRROR_NAME].map(|name| directory.length_of(name).unwrap());
        assert_eq!(manifest.disk_bytes(), lengths.iter().sum::<u64>());
        (manifest.length(), Manifest::read(&directory, MANIFEST_NAME).unwrap().sequence)
    };
    let (appended, commits) = add(1);
    assert!(appended > limit && commits == 2);
    let (rewritten, commits) = add(2);
    // Another store in the one commit that there is.
    assert!(rewritten < appended && commits == 1);
}

#[test]
fn a_manifest_of_the_maximum_length_is_written_and_read() {
    let directory = memory();
    let mut live = LiveStores::empty(&HEADER);
    let stores: Vec<_> = (1..246_000).map(|number| (number, Role::HashOrdered)).collect();
    live.apply(&edit(0, &[], &stores)).unwrap();
    let replace = |settings: &KeptSettings| Manifest::replace(&directory, &HEADER, live.clone(), settings, 0);
    replace(&KeptSettings::new()).unwrap();
    // Settings that make it as long as wanted: 2 bytes for the lengths of each name and value.
    let of_length = |bytes: u64| -> KeptSettings {
        let count = bytes / 200 + 1;
        let text = |number| "x".repeat((bytes / count + u64::from(number < bytes % count) - 6) as usize);
        (0..count).map(|number| (format!("{number:04}"), text(number))).collect()
    };
    let left = MANIFEST_BYTES_MAX - Manifest::open(&directory).unwrap().length();
    replace(&of_length(left)).unwrap();
    assert_eq!(Manifest::open(&directory).unwrap().length(), MANIFEST_BYTES_MAX);
    assert!(matches!(replace(&of_length(left + 1)), Err(Error::Io { .. })));
    // A commit without edits has as many bytes as an empty manifest without its header.
    replace(&KeptSettings::new()).unwrap();
    let empty_commit = Manifest::empty_length() - HEADER_BYTES as u64;
    let mut manifest = Manifest::open(&directory).unwrap().rewrite_beyond(u64::MAX);
    manifest.make_durable().unwrap();
    manifest.keep(&of_length(left - empty_commit)).unwrap();
    assert_eq!((manifest.length(), Manifest::open(&directory).unwrap().sequence), (MANIFEST_BYTES_MAX, 2));
    manifest.keep(&of_length(left)).unwrap();
    assert_eq!(Manifest::open(&directory).unwrap().sequence, 1, "it was rewritten");
}

#[test]
fn a_check_accepts_what_a_crash_leaves_in_a_directory_that_is_only_read() {
    let backend = MemoryDirectory::default();
    let writable = Directory::new(backend.clone(), Access::Buffered);
    let read_only = Directory::new(backend, Access::Buffered).read_only();
    Manifest::create(&writable, &HEADER).unwrap();
    let mut manifest = Manifest::open(&writable).unwrap();
    let before = bytes_of(&writable, MIRROR_NAME);
    manifest.make_durable().unwrap();
    manifest.commit(&[edit(0, &[], &[(1, Role::HashOrdered)])], 0).unwrap();
    let after = bytes_of(&writable, MIRROR_NAME);
    // How many errors a check finds that may write, and one that may not.
    let wrong = || {
        [&writable, &read_only].map(|directory| {
            Manifest::read(directory, MANIFEST_NAME).map(|manifest| manifest.check().unwrap().len()).unwrap()
        })
    };
    assert_eq!(wrong(), [0, 0]);
    put_file(&writable, MIRROR_NAME, &before);
    assert_eq!(wrong(), [1, 0], "a mirror that is behind");
    put_file(
        &writable,
        MIRROR_NAME,
        &bytes_of(&database(&Header { database_id: 9, ..HEADER }, 0, 0), MIRROR_NAME),
    );
    assert_eq!(wrong(), [1, 1], "a mirror of another database");
    writable.remove(MIRROR_NAME).unwrap();
    assert_eq!(wrong(), [1, 0], "no mirror");
    // What an open manifest finds if another one was written in its place.
    put_file(&writable, MIRROR_NAME, &after);
    let opened = [&writable, &read_only].map(|directory| Manifest::read(directory, MANIFEST_NAME).unwrap());
    put_file(&writable, MANIFEST_NAME, &before);
    assert_eq!(opened.each_ref().map(|manifest| manifest.check().unwrap().len()), [1, 1]);
    writable.remove(MANIFEST_NAME).unwrap();
    assert_eq!(opened.each_ref().map(|manifest| manifest.check().unwrap().len()), [1, 1]);
}

#[test]
fn a_file_that_cannot_be_opened_now_is_neither_damaged_nor_missing() {
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::system(folder.path(), Access::Buffered).unwrap();
    Manifest::create(&directory, &HEADER).unwrap();
    let manifest = Manifest::open(&directory).unwrap();
    let is_unknown = |outcome: Result<()>| matches!(outcome, Err(Error::Io { .. }));
    for name in [MIRROR_NAME, MANIFEST_NAME] {
        let (path, aside) = (folder.path().join(name), folder.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        // A link to itself leads to no file, and its name exists.
        std::os::unix::fs::symlink(name, &path).unwrap();
        assert!(is_unknown(Manifest::open_or_mirror(&directory).map(drop)), "{name}");
        assert!(is_unknown(manifest.check().map(drop)), "{name}");
        std::fs::rename(&aside, &path).unwrap();
    }
    assert!(manifest.check().unwrap().is_empty());
}

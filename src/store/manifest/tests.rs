//! Claims about the manifest.

use super::*;
use crate::engine::silt::live::{Edit, LiveStores, Manifest, Role, StoreEntry};
use crate::key::{KeyHasher, RecordLayout};
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
    file.write(Purpose::Manifest, MANIFEST_BYTES_MAX + 1, b"x").unwrap();
    let opened = Manifest::read(&directory, MANIFEST_NAME).map(drop);
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

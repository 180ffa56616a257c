use super::*;
use crate::engine::{FoundRef, ScanLimit};
use bytes::Bytes;
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{AlignedBuffer, File};
use std::collections::BTreeMap;
use std::path::PathBuf;

mod damage;

const FILE: &str = "words.dict";

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn memory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

/// Records of one size, or of many: some larger than a block, some empty.
fn model(count: u64, fixed: Option<(usize, usize)>) -> Model {
    let mut random = fastrand::Rng::with_seed(count);
    let record = |number: u64| {
        let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        match fixed {
            Some((key_length, value_length)) => {
                let key = word.iter().copied().cycle().take(key_length).collect();
                (key, vec![number as u8; value_length])
            }
            None => {
                let key = word.iter().copied().cycle().take(8 + number as usize % 30).collect();
                let length =
                    if number.is_multiple_of(61) { random.usize(..5000) } else { random.usize(..90) };
                (key, vec![number as u8; length])
            }
        }
    };
    (0..count).map(record).collect()
}

fn put_all(writer: &mut DictionaryWriter, model: &Model) {
    for (key, value) in model {
        writer.put(key, value).unwrap();
    }
}

fn build(directory: &Directory, builder: DictionaryBuilder, model: &Model) -> Dictionary {
    let mut writer = builder.create_in(directory.clone(), FILE).unwrap();
    put_all(&mut writer, model);
    writer.finish().unwrap()
}

fn assert_holds(dictionary: &Dictionary, model: &Model) {
    assert_eq!(dictionary.len(), model.len() as u64);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for (key, value) in model {
        assert_eq!(dictionary.get(key).unwrap().as_deref(), Some(&value[..]));
        assert!(dictionary.contains(key).unwrap());
        let absent: Vec<u8> = key.iter().map(|byte| !byte).collect();
        assert_eq!(dictionary.get(&absent).unwrap(), None);
        assert_eq!(dictionary.get(&key[..key.len() - 1]).unwrap(), None, "a prefix of a key is another key");
        keys.extend([key.clone(), absent, key.clone()]);
    }
    let values = dictionary.get_many(&keys).unwrap();
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(value.as_deref(), model.get(key).map(|value| &value[..]));
    }
    let there: Vec<bool> = keys.iter().map(|key| model.contains_key(key)).collect();
    assert_eq!(dictionary.contains_many(&keys).unwrap(), there);
    let records: Vec<Record> = dictionary.iter().map(Result::unwrap).collect();
    let all: Model = records.iter().map(|record| (record.key.to_vec(), record.value.to_vec())).collect();
    assert_eq!((records.len(), &all), (model.len(), model));
    assert_scans(dictionary, &records);
    let mut shown = vec![None; keys.len()];
    let show = |at: usize, found: Option<FoundRef<'_>>| {
        let found = found.map(|found| found.value.to_vec());
        assert_eq!(shown[at].replace(found), None, "each number is shown once");
    };
    dictionary.get_many_with(&keys, show).unwrap();
    assert!(
        shown.into_iter().flatten().zip(&values).all(|(shown, value)| shown.as_deref() == value.as_deref())
    );
    let report = dictionary.verify().unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert_eq!(report.checked_records, model.len() as u64);
    let info = dictionary.info();
    assert_eq!(info.key_bytes, model.keys().map(|key| key.len() as u64).sum::<u64>());
    assert_eq!(info.value_bytes, model.values().map(|value| value.len() as u64).sum::<u64>());
}

/// Compares pages with the records in the order of an iteration.
fn assert_scans(dictionary: &Dictionary, records: &[Record]) {
    for (limit, keys_only) in [(7, false), (100, true)] {
        let (mut scanned, mut next) = (Vec::new(), Some(0));
        while let Some(position) = next {
            let page = dictionary.scan(position, ScanLimit { keys_only, ..ScanLimit::from(limit) }).unwrap();
            scanned.extend(page.records);
            next = page.next;
        }
        let expected = records.iter().map(|record| Record {
            value: if keys_only { Bytes::new() } else { record.value.clone() },
            ..record.clone()
        });
        assert!(expected.eq(scanned), "pages of {limit} records");
    }
}

fn reads(dictionary: &Dictionary) -> u64 {
    dictionary.io().of(Purpose::Get).reads
}

/// The lengths of keys and values, whether keys are hashes, the size of a block, and the possible indexes.
type Shape = (Option<(usize, usize)>, bool, u32, &'static [DictionaryIndex]);

fn shapes() -> [Shape; 6] {
    use DictionaryIndex::{Fences, None as Without};
    let some = &[Fences, Without][..];
    let all = &DictionaryIndex::ALL[..];
    [
        (None, false, 512, some),
        (None, true, 4096, some),
        (Some((20, 44)), false, 4096, all),
        (Some((8, 0)), true, 512, all),
        (Some((16, 300)), false, 512, all),
        (Some((16, 700)), false, 512, some),
    ]
}

fn builder_of(fixed: Option<(usize, usize)>, hashed_keys: bool, block_bytes: u32) -> DictionaryBuilder {
    let mut builder = Dictionary::builder().block_bytes(block_bytes).memory_bytes(64 << 10);
    if let Some((key_length, value_length)) = fixed {
        builder = builder.fixed(key_length, value_length);
    }
    if hashed_keys { builder.hashed_keys() } else { builder }
}

#[test]
fn exactly_the_records_put_are_found_with_every_shape_and_index() {
    for (fixed, hashed_keys, block_bytes, indexes) in shapes() {
        for index in indexes {
            for count in [0, 1, 64, 1200] {
                let directory = memory();
                let model = model(count, fixed);
                let builder = builder_of(fixed, hashed_keys, block_bytes).index(*index);
                let built = build(&directory, builder, &model);
                assert_holds(&built, &model);
                assert_eq!(directory.list().unwrap(), [FILE]);
                let opened = Dictionary::options().open_in(directory.clone(), FILE).unwrap();
                assert_eq!(opened.info(), built.info());
                assert_holds(&opened, &model);
                let searched = Dictionary::options().without_index().open_in(directory, FILE).unwrap();
                assert_eq!(searched.info().index_bytes, 0);
                assert_holds(&searched, &model);
            }
        }
    }
}

#[test]
fn a_lookup_with_an_index_is_one_read_and_keys_of_one_block_share_it() {
    for (fixed, hashed_keys, block_bytes, indexes) in shapes() {
        for index in indexes.iter().filter(|index| **index != DictionaryIndex::None) {
            let model = model(2000, fixed);
            let dictionary =
                build(&memory(), builder_of(fixed, hashed_keys, block_bytes).index(*index), &model);
            let before = reads(&dictionary);
            for key in model.keys() {
                dictionary.get(key).unwrap();
            }
            assert_eq!(reads(&dictionary) - before, 2000);
            let keys: Vec<_> = model.keys().collect();
            dictionary.get_many(&keys).unwrap();
            let many = reads(&dictionary) - before - 2000;
            // The fences of a block may also be those of the next one, so two ranges contain it.
            assert!(many <= 2 * dictionary.info().blocks, "{many} of {} blocks", dictionary.info().blocks);
        }
    }
}

#[test]
fn without_an_index_even_hashes_take_a_handful_of_reads_and_uneven_ones_a_logarithm() {
    let fixed = Some((16, 48));
    let even =
        build(&memory(), builder_of(fixed, false, 512).index(DictionaryIndex::None), &model(20_000, fixed));
    let before = reads(&even);
    for key in model(20_000, fixed).keys() {
        assert!(even.contains(key).unwrap());
    }
    let mean = (reads(&even) - before) as f64 / 20_000.0;
    assert!(mean < 4.0, "{mean} reads per key in {} blocks", even.info().blocks);
    // The keys approach 0: interpolation guesses wrong each time.
    let clumped: Model = (0..20_000u64)
        .map(|number| {
            let word = (u64::MAX >> (number / 500)) - number % 500 * 3;
            ([word.to_be_bytes(), number.to_be_bytes()].concat(), vec![7; 48])
        })
        .collect();
    let uneven = build(&memory(), builder_of(fixed, true, 512).index(DictionaryIndex::None), &clumped);
    let most = 8 + u64::from(uneven.info().blocks.ilog2()) + 4;
    for key in clumped.keys() {
        let before = reads(&uneven);
        assert!(uneven.contains(key).unwrap());
        assert!(reads(&uneven) - before <= most, "{} reads", reads(&uneven) - before);
    }
}

#[test]
fn keys_and_values_of_the_greatest_lengths_are_found_with_and_without_an_index() {
    let mut model = model(50, None);
    for number in 0..12 {
        model.insert(vec![number; crate::key::KEY_LENGTH_MAX], vec![number; 3]);
        model.insert(vec![100 + number; 9], vec![number; 60_000 * usize::from(number)]);
    }
    for block_bytes in [512, 65_536] {
        let directory = memory();
        let built = build(&directory, builder_of(None, false, block_bytes), &model);
        assert_holds(&built, &model);
        let searched = Dictionary::options().without_index().open_in(directory, FILE).unwrap();
        assert_holds(&searched, &model);
    }
}

#[test]
fn records_whose_hashes_have_the_same_prefix_are_all_found() {
    for index in DictionaryIndex::ALL {
        // 400 keys with the same first 16 bytes, in several blocks, among others.
        let mut model = model(300, Some((20, 12)));
        for number in 0..400u32 {
            let key = [&[0x80; 16][..], &number.to_be_bytes()].concat();
            model.insert(key, vec![number as u8; 12]);
        }
        let dictionary = build(&memory(), builder_of(Some((20, 12)), true, 512).index(index), &model);
        assert_holds(&dictionary, &model);
    }
}

#[test]
fn the_last_record_of_a_key_applies_and_a_deleted_key_is_absent() {
    let directory = memory();
    let mut writer = builder_of(None, false, 512).create_in(directory.clone(), FILE).unwrap();
    let mut model = model(3000, None);
    put_all(&mut writer, &model);
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    for (number, key) in keys.iter().enumerate() {
        match number % 5 {
            0 => {
                writer.put(key, b"newer").unwrap();
                model.insert(key.clone(), b"newer".to_vec());
            }
            1 => {
                writer.delete(key).unwrap();
                model.remove(key);
            }
            _ => {}
        }
    }
    assert_holds(&writer.finish().unwrap(), &model);
}

#[test]
fn duplicates_are_refused_if_requested_but_an_update_may_replace() {
    let directory = memory();
    let refusing = || Dictionary::builder().refuse_duplicates();
    let mut writer = refusing().create_in(directory.clone(), FILE).unwrap();
    writer.put("a", "1").unwrap();
    writer.put("a", "2").unwrap();
    let error = writer.finish().err().unwrap();
    assert!(matches!(&error, Error::DuplicateKey { key } if key == "a"), "{error}");
    assert_eq!(directory.list().unwrap(), [""; 0]);
    let mut writer = refusing().create_in(directory.clone(), FILE).unwrap();
    writer.put("a", "1").unwrap();
    let base = writer.finish().unwrap();
    let mut update = base.update().refuse_duplicates().create_in(directory, FILE).unwrap();
    update.put("a", "2").unwrap();
    assert_eq!(update.finish().unwrap().get("a").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn updates_act_as_on_a_map_and_leave_the_old_dictionary_unchanged() {
    for (fixed, hashed_keys, block_bytes, indexes) in shapes() {
        let directory = memory();
        let mut random = fastrand::Rng::with_seed(3);
        let mut model = model(900, fixed);
        let builder = builder_of(fixed, hashed_keys, block_bytes).index(indexes[indexes.len() - 2]);
        let mut dictionary = build(&directory, builder, &model);
        for round in 0..3u8 {
            let (old, old_model) = (dictionary.clone(), model.clone());
            let mut update =
                dictionary.update().memory_bytes(64 << 10).create_in(directory.clone(), FILE).unwrap();
            for (key, value) in &old_model {
                match random.u8(..10) {
                    0 => {
                        model.remove(key);
                        update.delete(key).unwrap();
                    }
                    1 => {
                        let value = vec![round; value.len()];
                        update.put(key, &value).unwrap();
                        model.insert(key.clone(), value);
                    }
                    2 => {
                        let new: Vec<u8> = key.iter().map(|byte| byte.rotate_left(3) ^ round).collect();
                        update.put(&new, value).unwrap();
                        model.insert(new.clone(), value.clone());
                        update.delete([&new[..new.len() - 1], b"?"].concat()).unwrap();
                        model.remove(&[&new[..new.len() - 1], b"?"].concat());
                    }
                    _ => {}
                }
            }
            dictionary = update.finish().unwrap();
            assert_holds(&dictionary, &model);
            assert_holds(&old, &old_model);
            assert_eq!(dictionary.info().index, old.info().index);
        }
        assert_eq!(directory.list().unwrap(), [FILE]);
    }
}

#[test]
fn an_update_keeps_the_shape_and_refuses_another() {
    let directory = memory();
    let base = build(&directory, builder_of(Some((8, 8)), false, 512), &model(10, Some((8, 8))));
    for wrong in [base.update().fixed(8, 9), base.update().hashed_keys()] {
        let error = wrong.create_in(directory.clone(), FILE).err().unwrap();
        assert!(error.to_string().contains("build a new dictionary"), "{error}");
    }
    let larger = base.update().block_bytes(4096).index(DictionaryIndex::DenseTrie);
    let updated = larger.create_in(directory, FILE).unwrap().finish().unwrap();
    assert_holds(&updated, &model(10, Some((8, 8))));
}

#[test]
fn contradicting_settings_are_refused_by_name() {
    let trie = Dictionary::builder().index(DictionaryIndex::SparseTrie);
    let cases = [
        ("index", trie),
        ("index", Dictionary::builder().index(DictionaryIndex::DenseTrie).fixed(8, 5000)),
        ("block_bytes", Dictionary::builder().block_bytes(1000)),
        ("memory_bytes", Dictionary::builder().memory_bytes(1000)),
        ("hashed_keys", Dictionary::builder().fixed(7, 1).hashed_keys()),
    ];
    for (name, builder) in cases {
        let error = builder.create_in(memory(), FILE).err().unwrap();
        assert!(matches!(&error, Error::Setting { name: got, .. } if *got == name), "{error}");
    }
    let mut writer = Dictionary::builder().fixed(2, 2).create_in(memory(), FILE).unwrap();
    assert!(matches!(writer.put("abc", "de"), Err(Error::RecordSize { what: "key", .. })));
    assert!(matches!(writer.put("ab", "d"), Err(Error::RecordSize { what: "value", .. })));
    assert!(matches!(writer.put("", "de"), Err(Error::KeyLength { length: 0 })));
    writer.put("ab", "de").unwrap();
    assert_eq!(writer.finish().unwrap().len(), 1);
}

fn contents(directory: &Directory, name: &str) -> Vec<u8> {
    let file = directory.open(name, Access::Buffered).unwrap();
    let length = file.length().unwrap() as usize;
    file.read(Purpose::Get, 0, length, &mut AlignedBuffer::default()).unwrap().to_vec()
}

#[test]
fn another_index_is_written_after_records_that_do_not_change() {
    let fixed = Some((20, 44));
    let directory = memory();
    let model = model(3000, fixed);
    let built = build(&directory, builder_of(fixed, false, 512), &model);
    let bytes = contents(&directory, FILE);
    let mut reindexed = Vec::new();
    for round in 0..2 {
        for index in DictionaryIndex::ALL {
            let before = directory.io().of(Purpose::Maintain).write_bytes;
            let changed = Dictionary::reindex_in(directory.clone(), FILE, index, &mut |_, _| true).unwrap();
            let written = directory.io().of(Purpose::Maintain).write_bytes - before;
            assert!(
                written < 3 * 4096 + changed.info().index_bytes as u64 * 2,
                "{written} bytes for {index:?}"
            );
            assert_eq!(changed.info().index, index);
            assert_holds(&changed, &model);
            assert!(contents(&directory, FILE).starts_with(&bytes));
            if round == 0 {
                reindexed.push(changed);
            }
        }
    }
    for dictionary in reindexed.iter().chain([&built]) {
        assert_holds(dictionary, &model);
    }
    let bits: Vec<f64> = reindexed.iter().map(|dictionary| dictionary.info().bits_per_key()).collect();
    assert!(bits[0] > 0.0 && bits[1] < bits[2] && bits[3] == 0.0, "{bits:?}");
    let error = build(&memory(), builder_of(None, false, 512), &Model::new());
    assert_eq!(error.info().records, 0);
}

#[test]
fn records_of_many_sizes_have_fences_or_no_index_and_no_trie() {
    let directory = memory();
    let model = model(500, None);
    build(&directory, builder_of(None, false, 512).index(DictionaryIndex::None), &model);
    for index in [DictionaryIndex::Fences, DictionaryIndex::None] {
        let changed = Dictionary::reindex_in(directory.clone(), FILE, index, &mut |_, _| true).unwrap();
        assert_holds(&changed, &model);
    }
    for index in [DictionaryIndex::SparseTrie, DictionaryIndex::DenseTrie] {
        let refused = Dictionary::reindex_in(directory.clone(), FILE, index, &mut |_, _| true);
        assert!(matches!(refused, Err(Error::Setting { name: "index", .. })));
    }
}

#[test]
fn a_stopped_build_leaves_no_file_and_the_old_one_unchanged() {
    let directory = memory();
    let old = model(20, None);
    build(&directory, builder_of(None, false, 512), &old);
    // It is stopped while it sorts, while it merges, and at the very end.
    for stop_at in [1, 2, 4, 6] {
        let mut calls = 0;
        let builder = Dictionary::builder().memory_bytes(2 << 20).progress(move |done, all| {
            assert!(all == 0 || done <= all);
            calls += 1;
            calls < stop_at
        });
        let mut writer = builder.create_in(directory.clone(), FILE).unwrap();
        let put = (0..5_000u64).try_for_each(|number| writer.put(number.to_le_bytes(), [1; 1000]));
        let outcome = put.and_then(|()| writer.finish().map(drop));
        assert!(matches!(outcome, Err(Error::Interrupted)), "{stop_at}: {outcome:?}");
        assert_eq!(directory.list().unwrap(), [FILE]);
    }
    let writer = Dictionary::builder().create_in(directory.clone(), "dropped").unwrap();
    drop(writer);
    assert_eq!(directory.list().unwrap(), [FILE]);
    assert_holds(&Dictionary::options().open_in(directory, FILE).unwrap(), &old);
}

#[test]
fn every_dictionary_has_a_seed_of_its_own_and_an_update_keeps_it() {
    let model = model(100, Some((8, 8)));
    let order = |dictionary: &Dictionary| -> Vec<Record> { dictionary.iter().map(Result::unwrap).collect() };
    let one = build(&memory(), builder_of(Some((8, 8)), false, 512), &model);
    let other = build(&memory(), builder_of(Some((8, 8)), false, 512), &model);
    assert_ne!(order(&one), order(&other));
    let updated = one.update().create_in(memory(), FILE).unwrap().finish().unwrap();
    assert_eq!(order(&one), order(&updated));
    let hashed = build(&memory(), builder_of(Some((8, 8)), true, 512), &model);
    assert!(order(&hashed).is_sorted_by_key(|record| record.key.clone()), "hashes keep their own order");
}

#[test]
fn a_dictionary_is_a_file_that_is_opened_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let (path, temporary) = (folder.path().join(FILE), folder.path().join("sort"));
    std::fs::create_dir(&temporary).unwrap();
    let model = model(5000, None);
    let builder = builder_of(None, false, 4096).temporary_directory(&temporary);
    assert_holds(&builder.build(&path, &model).unwrap(), &model);
    let dictionary = Dictionary::open(&path).unwrap();
    let direct = Dictionary::options().access(Access::DirectOrBuffered).queue_depth(4).open(&path).unwrap();
    assert_holds(&direct, &model);
    let changed = Dictionary::reindex(&path, DictionaryIndex::None, &mut |_, _| true).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::thread::scope(|scope| {
        for dictionary in [&dictionary, &changed, &dictionary] {
            scope.spawn(|| assert_holds(dictionary, &model));
        }
    });
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    let error = Dictionary::open(&path).err().unwrap().to_string();
    assert!(error.contains(FILE), "{error}");
    assert!(Dictionary::open(folder.path().join("..")).is_err());
    std::fs::write(&path, b"something else, and long enough to be read: ".repeat(50)).unwrap();
    let error = Dictionary::open(&path).err().unwrap().to_string();
    assert!(error.contains("not a dictionary") && error.contains(FILE), "{error}");
}

#[test]
fn another_version_is_refused_by_name() {
    let directory = memory();
    build(&directory, builder_of(None, false, 512), &model(5, None));
    let file = directory.open(FILE, Access::Buffered).unwrap();
    file.write(Purpose::Maintain, 40, &7u32.to_le_bytes()).unwrap();
    let error = Dictionary::options().open_in(directory, FILE).err().unwrap();
    let message = error.to_string();
    assert!(
        message.contains("version 7") && message.contains(&format!("version {DICTIONARY_VERSION}")),
        "{message}"
    );
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

#[test]
fn version_1_is_written_and_read_unchanged() {
    let cases = [
        ("dictionary_stream.bin", None, DictionaryIndex::Fences),
        ("dictionary_slots.bin", Some((8, 12)), DictionaryIndex::SparseTrie),
    ];
    for (name, fixed, index) in cases {
        let directory = memory();
        let model = model(70, fixed);
        let builder = builder_of(fixed, false, 512).index(index).without_randomness();
        build(&directory, builder, &model);
        let bytes = contents(&directory, FILE);
        if std::env::var_os("SILTSTONE_BLESS").is_some() {
            std::fs::write(fixture(name), &bytes).unwrap();
        }
        let golden = std::fs::read(fixture(name)).unwrap();
        assert!(golden == bytes, "{name} has other bytes");
        let file: File = directory.create("golden", Access::Buffered).unwrap();
        file.write(Purpose::Maintain, 0, &golden).unwrap();
        assert_holds(&Dictionary::options().open_in(directory, "golden").unwrap(), &model);
    }
}

#[test]
fn changing_a_dictionary_excludes_other_changes_but_no_readers() {
    let folder = tempfile::tempdir().unwrap();
    let directories = [memory(), Directory::system(folder.path(), Access::Buffered).unwrap()];
    for directory in directories {
        let model = model(20_000, None);
        build(&directory, builder_of(None, false, 4096), &model);
        let is_locked = |error: Error| matches!(error, Error::Locked { path, .. } if path.ends_with(FILE));
        let mut met = false;
        let changed = Dictionary::reindex_in(directory.clone(), FILE, DictionaryIndex::None, &mut |_, _| {
            met = true;
            let again =
                Dictionary::reindex_in(directory.clone(), FILE, DictionaryIndex::Fences, &mut |_, _| true);
            assert!(is_locked(again.err().unwrap()));
            let mut writer = builder_of(None, false, 4096).create_in(directory.clone(), FILE).unwrap();
            put_all(&mut writer, &model);
            assert!(is_locked(writer.finish().err().unwrap()));
            let key = model.keys().next().unwrap();
            let reader = Dictionary::options().open_in(directory.clone(), FILE).unwrap();
            assert!(reader.get(key).unwrap().is_some());
            true
        });
        assert_holds(&changed.unwrap(), &model);
        assert!(met);
        build(&directory, builder_of(None, false, 4096), &model);
        let listed = directory.list().unwrap();
        assert_eq!(listed, [FILE], "refused changes leave no file");
    }
}

#[test]
fn an_update_of_a_dictionary_that_is_open_without_its_index_keeps_the_index() {
    let fixed = Some((12, 20));
    for index in DictionaryIndex::ALL {
        let directory = memory();
        let mut model = model(200, fixed);
        build(&directory, builder_of(fixed, false, 512).index(index), &model);
        let opened = Dictionary::options().without_index().open_in(directory.clone(), FILE).unwrap();
        model.insert(vec![7; 12], vec![8; 20]);
        let mut update = opened.update().create_in(directory.clone(), FILE).unwrap();
        update.put([7u8; 12], [8u8; 20]).unwrap();
        update.finish().unwrap();
        let updated = Dictionary::options().open_in(directory, FILE).unwrap();
        assert_eq!(updated.info().index, index);
        assert_holds(&updated, &model);
    }
}

//! Dictionaries on a device that loses power while they are built, updated or given another index.

use siltstone::{Dictionary, DictionaryBuilder, DictionaryIndex, Result};
use siltstone_device::{Access, Directory};
use siltstone_testing::{Crash, SimulatedDirectory, Survival};
use std::collections::BTreeMap;

const FILE: &str = "words.dict";

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Records of one size or of many sizes: some larger than a block, some empty.
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

fn builder_of(fixed: Option<(usize, usize)>) -> DictionaryBuilder {
    let builder = Dictionary::builder().block_bytes(512).memory_bytes(64 << 10);
    if let Some((key_length, value_length)) = fixed {
        builder.fixed(key_length, value_length)
    } else {
        builder
    }
}

fn build(directory: &Directory, fixed: Option<(usize, usize)>, model: &Model) {
    let mut writer = builder_of(fixed).create_in(directory.clone(), FILE).unwrap();
    model.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
    writer.finish().unwrap();
}

/// Asserts that the dictionary has these records and no others, and no damage.
fn assert_holds(dictionary: &Dictionary, model: &Model) {
    assert_eq!(dictionary.len(), model.len() as u64);
    for (key, value) in model {
        assert_eq!(dictionary.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let records =
        dictionary.iter().map(|record| record.map(|record| (record.key.to_vec(), record.value.to_vec())));
    assert_eq!(records.collect::<Result<Model>>().unwrap(), *model);
    let report = dictionary.verify().unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

/// Runs `check` on what is left after a power loss at each change of the device, and after `work` has finished.
fn for_each_crash(
    prepare: impl Fn(&Directory),
    work: impl Fn(&Directory) -> Result<Dictionary>,
    check: impl Fn(&Directory, bool),
) {
    let mut random = fastrand::Rng::with_seed(5);
    for at in 1.. {
        let simulated = SimulatedDirectory::new(at);
        let directory = Directory::new(simulated.clone(), Access::Buffered);
        prepare(&directory);
        simulated.power_off_after(at);
        let finished = work(&directory).is_ok();
        let was_cut = simulated.is_off();
        for survival in [Survival::Nothing, Survival::Prefix, Survival::Scattered, Survival::Everything] {
            let left = simulated.crash(Crash::PowerLost(survival), &mut random);
            check(&Directory::new(left, Access::Buffered), finished);
        }
        if !was_cut {
            return;
        }
    }
}

#[test]
fn a_power_loss_during_an_update_leaves_the_old_dictionary_or_the_new_one() {
    let (old, new) = (model(200, None), model(260, None));
    for_each_crash(
        |directory| build(directory, None, &old),
        |directory| {
            let base = Dictionary::options().open_in(directory.clone(), FILE)?;
            let mut update = base.update().memory_bytes(64 << 10).create_in(directory.clone(), FILE)?;
            old.keys().try_for_each(|key| update.delete(key))?;
            new.iter().try_for_each(|(key, value)| update.put(key, value))?;
            update.finish()
        },
        |directory, finished| {
            let dictionary = Dictionary::options().open_in(directory.clone(), FILE).unwrap();
            let is_new = dictionary.len() == new.len() as u64;
            assert!(is_new || !finished, "what was finished is lost");
            assert_holds(&dictionary, if is_new { &new } else { &old });
        },
    );
}

#[test]
fn a_power_loss_during_a_change_of_the_index_loses_no_record() {
    let fixed = Some((16, 8));
    let model = model(1500, fixed);
    for_each_crash(
        |directory| {
            build(directory, fixed, &model);
            let index = DictionaryIndex::DenseTrie;
            drop(Dictionary::reindex_in(directory.clone(), FILE, index, &mut |_, _| true).unwrap());
        },
        |directory| {
            let index = DictionaryIndex::SparseTrie;
            Dictionary::reindex_in(directory.clone(), FILE, index, &mut |_, _| true)
        },
        |directory, finished| {
            let dictionary = Dictionary::options().open_in(directory.clone(), FILE).unwrap();
            let info = dictionary.info();
            assert!(!finished || info.index == DictionaryIndex::SparseTrie);
            assert!(info.index != DictionaryIndex::None);
            for (key, value) in &model {
                assert_eq!(dictionary.get(key).unwrap().as_deref(), Some(&value[..]));
            }
            let report = dictionary.verify().unwrap();
            assert_eq!(!report.damage.is_empty(), info.has_damaged_end);
            let index = DictionaryIndex::DenseTrie;
            let mended = Dictionary::reindex_in(directory.clone(), FILE, index, &mut |_, _| true).unwrap();
            assert!(!mended.info().has_damaged_end);
        },
    );
}

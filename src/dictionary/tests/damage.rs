//! What damage and hostile bytes can do to a dictionary. `fuzz/` also changes blocks and corrects their checksums. What
//! a loss of power can do is in siltstone-testing.

use super::*;
use crate::store::StoreFooter;
use crate::store::file::tests::{forge, lengthened};
use crate::store::table::{StoreIndexBuilder, StoreIndexSettings};
use siltstone_index::coding::checksum;

/// Uses a file that may be damaged in all ways. No call may panic or return a wrong value.
fn use_it(directory: &Directory, model: &Model, with_index: bool) -> Result<()> {
    let options = Dictionary::options();
    let options = if with_index { options } else { options.without_index() };
    let dictionary = options.open_in(directory.clone(), FILE)?;
    let mut damaged = None;
    for (key, value) in model.iter().step_by(7) {
        match dictionary.get(key) {
            Ok(Some(found)) => assert_eq!(found, value),
            Ok(None) => damaged = Some(Error::Closed),
            Err(error) => damaged = Some(error),
        }
    }
    let keys: Vec<_> = model.keys().collect();
    if let Err(error) = dictionary.get_many(&keys) {
        damaged = Some(error);
    }
    for record in &dictionary {
        match record {
            Ok(record) => {
                assert_eq!(model.get(&record.key[..]).map(|value| &value[..]), Some(&record.value[..]))
            }
            Err(error) => damaged = Some(error),
        }
    }
    let report = dictionary.verify()?;
    assert!(damaged.is_none() || !report.damage.is_empty(), "verify does not report {damaged:?}");
    match report.damage.into_iter().next() {
        Some(damage) => Err(damage.error()),
        None => Ok(()),
    }
}

fn rewrite(directory: &Directory, bytes: &[u8]) {
    let file = directory.open(FILE, Access::Buffered).unwrap();
    file.truncate(0).unwrap();
    file.write(Purpose::Maintain, 0, bytes).unwrap();
}

#[test]
fn a_flipped_bit_is_an_error_that_names_the_file_or_changes_nothing_and_never_another_value() {
    for fixed in [None, Some((12, 20))] {
        let directory = memory();
        let model = model(120, fixed);
        build(&directory, builder_of(fixed, false, 512), &model);
        let bytes = contents(&directory, FILE);
        for at in (0..200).chain((200..bytes.len()).step_by(23)).chain(bytes.len() - 128..bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            rewrite(&directory, &damaged);
            match use_it(&directory, &model, true) {
                Ok(()) => assert_eq!(bytes[at], 0, "byte {at} is more than padding"),
                Err(error) => assert!(error.to_string().contains(FILE), "{error}"),
            }
            let _ = use_it(&directory, &model, false);
        }
    }
}

#[test]
fn a_file_that_was_cut_short_anywhere_is_refused() {
    let directory = memory();
    let model = model(120, None);
    build(&directory, builder_of(None, false, 512), &model);
    let bytes = contents(&directory, FILE);
    for length in (0..bytes.len()).step_by(97) {
        rewrite(&directory, &bytes[..length]);
        let error = use_it(&directory, &model, true).unwrap_err().to_string();
        assert!(error.contains(FILE), "{error}");
    }
    rewrite(&directory, &[&bytes[..], &[7; 999]].concat());
    let opened = Dictionary::options().open_in(directory.clone(), FILE).unwrap();
    assert!(opened.info().has_damaged_end);
    assert!(use_it(&directory, &model, true).is_err(), "verify reports what follows the end");
}

/// Recomputes the checksum of a range of bytes, which follows it.
fn seal(bytes: &mut [u8], start: usize, end: usize) {
    let crc = checksum::crc32c(&bytes[start..end]);
    bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn no_field_of_a_header_or_footer_with_a_correct_checksum_makes_the_reader_panic() {
    for (fixed, index) in [(None, DictionaryIndex::Fences), (Some((12, 20)), DictionaryIndex::SparseTrie)] {
        let directory = memory();
        let model = model(60, fixed);
        build(&directory, builder_of(fixed, false, 512).index(index), &model);
        let bytes = contents(&directory, FILE);
        let footer = bytes.len() - 128;
        for at in (32..104).chain(footer..footer + 124) {
            for flip in [0x01, 0x80, 0xFF] {
                let mut hostile = bytes.clone();
                hostile[at] ^= flip;
                seal(&mut hostile, 0, 104);
                seal(&mut hostile, footer, footer + 124);
                rewrite(&directory, &hostile);
                // With another shape or hash, other values may be returned. This test only checks for panics.
                for options in [Dictionary::options(), Dictionary::options().without_index()] {
                    let Ok(dictionary) = options.open_in(directory.clone(), FILE) else { continue };
                    model.keys().for_each(|key| drop(dictionary.get(key)));
                    drop(dictionary.get_many(&model.keys().collect::<Vec<_>>()));
                    assert!(dictionary.iter().count() <= bytes.len());
                    drop(dictionary.verify());
                    let update = dictionary.update().create_in(memory(), FILE);
                    drop(update.and_then(DictionaryWriter::finish));
                }
                drop(Dictionary::reindex_in(directory.clone(), FILE, index, &mut |_, _| true));
            }
        }
    }
}

/// Builds a dictionary in a file of a folder, where a hole takes no space on the device.
fn built_in(folder: &tempfile::TempDir, block_bytes: u32) -> (Directory, Model, Dictionary) {
    let directory = Directory::system(folder.path(), Access::Buffered).unwrap();
    let model = model(60, None);
    let dictionary = build(&directory, builder_of(None, false, block_bytes), &model);
    (directory, model, dictionary)
}

#[test]
fn an_update_of_a_dictionary_whose_index_the_device_cannot_read_is_an_error() {
    let directory = memory();
    build(&directory, builder_of(None, false, 512), &model(60, None));
    let dictionary = Dictionary::options().without_index().open_in(directory.clone(), FILE).unwrap();
    // Reads of the index find the end of the file.
    directory.open(FILE, Access::Buffered).unwrap().truncate(1024).unwrap();
    assert!(matches!(dictionary.update().create_in(memory(), FILE), Err(Error::Io { .. })));
    // The old index is not needed for another one.
    assert!(dictionary.update().index(DictionaryIndex::None).create_in(memory(), FILE).is_ok());
}

#[test]
fn an_index_of_a_kind_that_no_dictionary_has_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, _, dictionary) = built_in(&folder, 512);
    let mut footer = dictionary.store().file().footer().clone();
    footer.index = lengthened(&footer.index, 1 << 39);
    footer.index.kind = 4;
    forge(&directory.open(FILE, Access::Buffered).unwrap(), &footer, 1 << 40);
    let opened = Dictionary::options().open_in(directory.clone(), FILE).unwrap();
    assert!(opened.info().has_damaged_end);
    assert!(directory.io().of(Purpose::Recover).read_bytes < 100_000);
}

#[test]
fn an_index_that_leads_each_key_to_the_whole_file_makes_no_lookup_read_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, model, dictionary) = built_in(&folder, 65_536);
    let blocks = 1 << 20;
    let footer = StoreFooter { blocks, ..dictionary.store().file().footer().clone() };
    let length = (blocks + 2) * 65_536;
    let file = directory.open(FILE, Access::Buffered).unwrap();
    forge(&file, &footer, length);
    let kind = IndexKind::Fences;
    let settings =
        StoreIndexSettings { kind, slots_per_block: 1, expected_records: 0, expected_blocks: blocks };
    let mut builder = StoreIndexBuilder::new(&settings).unwrap();
    // One record in all blocks, which all have the fence 0.
    builder.push(0, 0..blocks).unwrap();
    let (kind, bytes) = builder.finish().unwrap().encode();
    let file = StoreFile::open_until(file, dictionary.header().tag, length).unwrap();
    file.append_index(Purpose::Maintain, PIECE_BYTES, (kind, &bytes)).unwrap();
    let opened = Dictionary::options().open_in(directory, FILE).unwrap();
    assert_eq!(opened.info().index, DictionaryIndex::Fences);
    for key in model.keys().take(10) {
        assert!(matches!(opened.get(key), Err(Error::Corrupt { .. })));
        assert!(matches!(opened.get_many(&[key, key]), Err(Error::Corrupt { .. })));
    }
    let reads = opened.io().of(Purpose::Get);
    assert!(reads.read_bytes <= 20 * (2 << 20), "{} bytes", reads.read_bytes);
}

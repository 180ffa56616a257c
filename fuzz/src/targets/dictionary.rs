//! A dictionary with changed bytes and corrected checksums, or of arbitrary bytes.

use crate::input::{Input, contents, directory, directory_with};
use crate::seal::seal_dictionary;
use siltstone::key::RecordLayout;

use siltstone::{Dictionary, DictionaryIndex};

/// Runs the target.
pub fn run(data: &[u8]) {
    exercise(data);
    let mut input = Input(data);
    let directory = directory();
    let mut builder = Dictionary::builder().block_bytes(512);
    let value_length = usize::from(input.u8() % 64);
    let mut layout = RecordLayout { fixed: None, expiring: false };
    let shape = input.u8();
    if shape & 1 != 0 {
        layout.fixed = Some((8, value_length));
        let index = if shape & 2 != 0 { DictionaryIndex::DenseTrie } else { DictionaryIndex::Fences };
        builder = builder.fixed(8, value_length).index(index);
    }
    let Ok(mut writer) = builder.create_in(directory.clone(), "dictionary") else { return };
    for number in 0..u64::from(input.u8()) {
        writer.put(number.to_be_bytes(), vec![7; value_length]).expect("valid records are accepted");
    }
    writer.finish().expect("memory does not fail");
    let mut bytes = contents(&directory, "dictionary");
    input.mutate(&mut bytes);
    if input.u8() % 8 > 0 {
        seal_dictionary(&layout, &mut bytes);
    }
    exercise(&bytes);
}

fn exercise(bytes: &[u8]) {
    let directory = directory_with("dictionary", bytes);
    for options in [Dictionary::options(), Dictionary::options().without_index()] {
        let Ok(dictionary) = options.open_in(directory.clone(), "dictionary") else { continue };
        for number in 0..20u64 {
            let _ = dictionary.get(number.to_be_bytes());
        }
        let _ = dictionary.get_many(&[[0; 8], [1; 8], [255; 8]]);
        assert!(dictionary.iter().take_while(Result::is_ok).count() <= bytes.len());
        let _ = dictionary.verify_with(&mut |done, all| {
            assert!(done <= all);
            true
        });
    }
    let _ = Dictionary::reindex_in(directory, "dictionary", DictionaryIndex::Fences, &mut |_, _| true);
}

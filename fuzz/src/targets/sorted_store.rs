//! A table in hash order with changed bytes and corrected checksums: opening, lookups, iteration.

use crate::input::{HASHER, Input, contents, directory, directory_with};
use crate::seal::seal_store;
use siltstone::store::Query;
use siltstone::store::merge::PlacedRecord;
use siltstone::store::record::{RecordShape, RecordView};
use siltstone::store::table::{
    BlockForm, IndexKind, OrderedTable, OrderedTableSettings, OrderedTableWriter, TableForm,
};
use siltstone_device::{AlignedBuffer, Purpose};
use std::sync::Arc;

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let layout = input.layout();
    let block_bytes = 512 << (input.u8() % 2);
    let with_deletes = input.u8() & 1 != 0;
    let wanted = [
        IndexKind::Fences,
        IndexKind::EntropyTrie,
        IndexKind::BlockPerfect,
        IndexKind::DenseTrie,
        IndexKind::PaperTrie,
        IndexKind::SlotPerfect,
    ][usize::from(input.u8() % 5)];
    let shape = RecordShape { layout, hasher: HASHER };
    let blocks = match with_deletes {
        true => BlockForm::Stream,
        false => TableForm::for_index(&layout, block_bytes, Some(wanted)).blocks,
    };
    let index = if blocks == BlockForm::Stream { IndexKind::Fences } else { wanted };
    let directory = directory();
    let count = u64::from(input.u8());
    let form = TableForm { blocks, index: Some(index), fill_blocks: input.u8() & 1 != 0 };
    let settings = OrderedTableSettings {
        tag: 1,
        shape,
        block_bytes,
        expected_records: count,
        expected_bytes: count * 40,
        purpose: Purpose::Merge,
        piece_bytes: 4096,
    };
    let Ok(mut writer) = OrderedTableWriter::create(&directory, "store", form, settings) else { return };
    let key_length = layout.fixed.map_or(8, |(key_length, _)| key_length);
    let mut keys: Vec<Vec<u8>> = (0..count)
        .map(|number| {
            number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().repeat(8)[..key_length].to_vec()
        })
        .collect();
    keys.sort_by_key(|key| (HASHER.hash(key), key.clone()));
    keys.dedup();
    let value = vec![7; layout.fixed.map_or(usize::from(input.u8()), |(_, value_length)| value_length)];
    for key in &keys {
        let record = RecordView { key, value: Some(&value), expires_at_ms: 0 };
        writer.push(&PlacedRecord { hash: HASHER.hash(key), record }).expect("valid records are accepted");
    }
    writer.finish(None).expect("memory does not fail");
    let mut bytes = contents(&directory, "store");
    input.mutate(&mut bytes);
    if input.u8() % 8 > 0 {
        seal_store(&layout, &mut bytes);
    }
    let directory = directory_with("store", &bytes);
    let Ok(store) = OrderedTable::open(&directory, "store", 1, shape) else { return };
    let (store, mut buffer) = (Arc::new(store), AlignedBuffer::default());
    for key in keys.iter().step_by(5) {
        let query = Query { purpose: Purpose::Get, hash: HASHER.hash(key), key };
        let _ = store.look_up(&query, &mut buffer, |found| assert_eq!(found.key, &key[..]));
    }
    let mut cursor = store.cursor(Purpose::Iterate, 4096);
    let mut records = 0;
    while let Ok(true) = cursor.advance() {
        records += 1;
        assert!(records <= bytes.len() && cursor.entry().is_some());
    }
}

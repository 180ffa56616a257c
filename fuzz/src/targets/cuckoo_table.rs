//! A cuckoo table with changed bytes and corrected checksums: opening, lookups, iteration.

use crate::input::{HASHER, Input, contents, directory, directory_with};
use crate::seal::seal_store;
use siltstone::key::RecordLayout;
use siltstone::store::Query;
use siltstone::store::merge::PlacedRecord;
use siltstone::store::record::{RecordShape, RecordView};
use siltstone::store::table::{BlockForm, OrderedTable, OrderedTableSettings, OrderedTableWriter, TableForm};
use siltstone_device::{AlignedBuffer, Purpose};
use siltstone_index::filter::CuckooFilter;
use siltstone_index::partial_key_cuckoo::{CuckooSettings, PartialKeyCuckoo};

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (key_length, value_length) = (8 + usize::from(input.u8() % 16), usize::from(input.u8()));
    let layout = RecordLayout { fixed: Some((key_length, value_length)), expiring: input.u8() & 1 != 0 };
    let shape = RecordShape { layout, hasher: HASHER };
    let settings = CuckooSettings {
        regions: 1 + u32::from(input.u8() % 3),
        buckets_per_region_log2: 2 + input.u8() % 4,
        tag_bits: 8 + input.u8() % 8,
    };
    // At most 255 records, so 8 bits suffice for their numbers.
    let index = PartialKeyCuckoo::new(settings, 8).expect("these settings are allowed");
    let directory = directory();
    let form = TableForm { blocks: BlockForm::CuckooSlots, index: None, fill_blocks: false };
    if form.blocks.slots_in(&layout, 512).is_none() {
        return;
    }
    let settings = OrderedTableSettings {
        tag: 1,
        shape,
        block_bytes: 512,
        expected_records: 0,
        expected_bytes: 0,
        purpose: Purpose::Convert,
        piece_bytes: 4096,
    };
    let mut writer =
        OrderedTableWriter::create(&directory, "store", form, settings).expect("memory does not fail");
    let mut keys = Vec::new();
    for number in 0..u32::from(input.u8()) {
        let key = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().repeat(3)[..key_length]
            .to_vec();
        let hash = HASHER.hash(&key);
        if index.insert(hash.placement, hash.fingerprint, number).is_err() {
            break;
        }
        keys.push(key);
    }
    let value = vec![7; value_length];
    for region in 0..index.region_count() {
        for (_, _, number) in index.region_slots(region) {
            let key = &keys[number as usize];
            let record = RecordView { key, value: Some(&value), expires_at_ms: 0 };
            writer
                .push(&PlacedRecord { hash: HASHER.hash(key), record })
                .expect("valid records are accepted");
        }
    }
    writer.finish(Some(CuckooFilter::from_index(&index).into())).expect("memory does not fail");
    let mut bytes = contents(&directory, "store");
    input.mutate(&mut bytes);
    if input.u8() % 8 > 0 {
        seal_store(&layout, &mut bytes);
    }
    let directory = directory_with("store", &bytes);
    let mut buffer = AlignedBuffer::default();
    let Ok(table) = OrderedTable::open(&directory, "store", 1, shape) else { return };
    for key in keys.iter().step_by(5) {
        let query = Query { purpose: Purpose::Get, hash: HASHER.hash(key), key };
        let _ = table.look_up(&query, &mut buffer, |found| assert_eq!(found.key, &key[..]));
    }
    let mut cursor = table.cursor(Purpose::Iterate, 4096);
    let mut records = 0;
    while let Ok(true) = cursor.advance() {
        records += 1;
        assert!(records <= bytes.len() && cursor.entry().is_some());
    }
}

use super::*;
use crate::error::Error;
use crate::key::{KeyHasher, PartitionHasher, RecordLayout};
use crate::store::StoreFileWriter;
use crate::store::file::tests::{forge, lengthened};
use crate::store::merge::{Cursor, PlacedRecord};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};

use std::collections::BTreeMap;
use std::sync::Arc;

const HASHER: PartitionHasher = PartitionHasher { key_hasher: KeyHasher::Keyed([3, 4]), partitions_log2: 2 };

fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

fn shape(layout: RecordLayout) -> RecordShape {
    RecordShape { layout, hasher: HASHER }
}

fn query(key: &[u8]) -> Query<'_> {
    Query { purpose: Purpose::Get, hash: HASHER.hash(key), key }
}

fn value_of(record: &RecordView<'_>) -> Option<Vec<u8>> {
    record.value.map(<[u8]>::to_vec)
}

type Records = BTreeMap<(KeyHash, Vec<u8>), Option<Vec<u8>>>;

fn records(count: u64, hasher: PartitionHasher, value: impl Fn(u64) -> Option<Vec<u8>>) -> Records {
    let key = |number: u64| format!("{number:08}").into_bytes();
    (0..count).map(|number| ((hasher.hash(&key(number)), key(number)), value(number))).collect()
}

fn build(
    directory: &Directory,
    (form, settings): (TableForm, OrderedTableSettings),
    records: &Records,
) -> Arc<OrderedTable> {
    let name = format!("{}", settings.tag);
    let mut writer = OrderedTableWriter::create(directory, &name, form, settings).unwrap();
    for ((hash, key), value) in records {
        let record = RecordView { key, value: value.as_deref(), expires_at_ms: 0 };
        writer.push(&PlacedRecord { hash: *hash, record }).unwrap();
    }
    Arc::new(writer.finish(None).unwrap())
}

fn settings(
    layout: RecordLayout,
    index: IndexKind,
    expected_records: u64,
) -> (TableForm, OrderedTableSettings) {
    let settings = OrderedTableSettings {
        tag: 1,
        shape: shape(layout),
        block_bytes: 512,
        expected_records,
        expected_bytes: expected_records * 20,
        purpose: Purpose::Merge,
        piece_bytes: 4096,
    };
    (TableForm::for_index(&layout, 512, Some(index)), settings)
}

fn check(store: &OrderedTable, directory: &Directory, records: &Records) -> f64 {
    let reads_before = directory.io().of(Purpose::Get).reads;
    let mut buffer = AlignedBuffer::default();
    for ((hash, key), value) in records {
        let query = Query { purpose: Purpose::Get, hash: *hash, key };
        let found = store.look_up(&query, &mut buffer, value_of).unwrap();
        assert_eq!(found.as_ref(), Some(value));
    }
    let reads = directory.io().of(Purpose::Get).reads - reads_before;
    let mut cursor = store.cursor(Purpose::Iterate, 2048);
    for ((hash, key), value) in records {
        assert!(cursor.advance().unwrap());
        let entry = cursor.entry().unwrap();
        assert_eq!((entry.hash, entry.record.key, entry.record.value), (*hash, &key[..], value.as_deref()));
    }
    assert!(!cursor.advance().unwrap());
    check_seeks(store, records);
    check_seeks(&store.without_index(), records);
    reads as f64 / records.len().max(1) as f64
}

/// After a seek, a cursor begins with the first record from the placement on.
fn check_seeks(store: &OrderedTable, records: &Records) {
    let step = records.len() / 40 + 1;
    let placements = records.keys().step_by(step).map(|(hash, _)| hash.placement);
    let placements = placements.flat_map(|placement| [placement, placement.saturating_add(1)]);
    // Most differ from all records in a bit that a trie does not compare.
    let absent = (0..200u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for placement in placements.chain(absent).chain([1, 1 << 63, u64::MAX]) {
        let mut cursor = store.cursor(Purpose::Iterate, 512);
        cursor.seek(placement).unwrap();
        let first = (KeyHash { placement, fingerprint: 0 }, Vec::new());
        let found = loop {
            match cursor.advance().unwrap().then(|| cursor.entry().unwrap()) {
                Some(entry) if entry.hash.placement < placement => {}
                other => break other.map(|entry| (entry.hash, entry.record.key.to_vec())),
            }
        };
        let expected = records.range(first..).next().map(|(key, _)| key.clone());
        assert_eq!(found, expected, "{placement:#x} of {}", records.len());
    }
}

#[test]
fn every_record_of_a_fixed_size_is_found_with_one_read() {
    let layout = RecordLayout { fixed: Some((8, 12)), expiring: false };
    let (trie, fences) = (IndexKind::EntropyTrie, IndexKind::Fences);
    for (index, packed) in [
        (trie, false),
        (fences, false),
        (fences, true),
        (IndexKind::DenseTrie, false),
        (IndexKind::PaperTrie, false),
        (IndexKind::BlockPerfect, false),
        (IndexKind::SlotPerfect, false),
    ] {
        let per_block = if index.locates_slots() { 21 } else { 25 };
        for count in [0, 1, 2, 24, 25, 26, 5000] {
            let directory = directory();
            let records = records(count, HASHER, |number| Some(vec![number as u8; 12]));
            let (form, settings) = settings(layout, index, count);
            let form = TableForm { fill_blocks: packed, ..form };
            let store = build(&directory, (form, settings), &records);
            let blocks = store.file().footer().blocks;
            let is_full = blocks == count.div_ceil(per_block);
            assert!(is_full || (index == fences && !packed && blocks > count / per_block));
            assert!(check(&store, &directory, &records) <= 1.0);
            let opened = Arc::new(OrderedTable::open(&directory, "1", 1, shape(layout)).unwrap());
            check(&opened, &directory, &records);
            assert_eq!(opened.records(), count);
        }
    }
}

#[test]
fn with_an_index_that_locates_slots_only_the_record_and_its_checksum_are_read() {
    let layout = RecordLayout { fixed: Some((8, 100)), expiring: false };
    for (index, read_bytes) in
        [(IndexKind::DenseTrie, 112), (IndexKind::SlotPerfect, 112), (IndexKind::BlockPerfect, 512)]
    {
        let directory = directory();
        let records = records(2000, HASHER, |number| Some(vec![number as u8; 100]));
        let store = build(&directory, settings(layout, index, 2000), &records);
        let before = directory.io().of(Purpose::Get);
        for ((_, key), value) in &records {
            let mut buffer = AlignedBuffer::default();
            let found = store.look_up(&query(key), &mut buffer, value_of).unwrap();
            assert_eq!(found.as_ref(), Some(value));
        }
        let after = directory.io().of(Purpose::Get);
        assert_eq!(
            (after.reads - before.reads, after.read_bytes - before.read_bytes),
            (2000, 2000 * read_bytes)
        );
    }
}

#[test]
fn a_damaged_slot_is_an_error_for_its_key_and_for_missing_keys_but_not_for_its_neighbours() {
    let layout = RecordLayout { fixed: Some((8, 100)), expiring: false };
    for index in [IndexKind::SlotPerfect, IndexKind::BlockPerfect] {
        let directory = directory();
        let records = records(40, HASHER, |number| Some(vec![number as u8; 100]));
        let (form, settings) = settings(layout, index, 40);
        let form = TableForm { blocks: BlockForm::CheckedSlots, ..form };
        drop(build(&directory, (form, settings), &records));
        // In the value of the second slot of the second block.
        let file = directory.open("1", Access::Buffered).unwrap();
        let mut buffer = AlignedBuffer::default();
        let at = 512 + 512 + 112 + 50;
        let right = file.read(Purpose::Get, at, 1, &mut buffer).unwrap()[0];
        file.write(Purpose::Get, at, &[right ^ 1]).unwrap();
        let store = Arc::new(OrderedTable::open(&directory, "1", 1, shape(layout)).unwrap());
        let get = |key: &[u8]| {
            let mut buffer = AlignedBuffer::default();
            store.look_up(&query(key), &mut buffer, |_| ()).map(|found| found.is_some())
        };
        let outcomes: Vec<_> = records.keys().map(|(_, key)| get(key)).collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1, "{index:?}");
        assert!(outcomes.iter().flatten().all(|found| *found));
        let absent = (1u64 << 40..).map(|number| get(&number.to_le_bytes())).take(2000);
        assert!(absent.filter(|outcome| outcome.is_err()).count() > 10, "{index:?}");
    }
}

#[test]
fn every_record_of_any_size_is_found_with_one_read_even_across_blocks() {
    let layout = RecordLayout { fixed: None, expiring: false };
    let directory = directory();
    let size = |number: u64| if number.is_multiple_of(97) { 5000 } else { (number * 7 % 300) as usize };
    let records = records(3000, HASHER, |number| {
        (!number.is_multiple_of(11)).then(|| vec![number as u8; size(number)])
    });
    let store = build(&directory, settings(layout, IndexKind::Fences, 3000), &records);
    assert_eq!(check(&store, &directory, &records), 1.0);
    let payload: usize =
        records.iter().map(|((_, key), value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
    assert!((store.file().length() as f64) < payload as f64 * 1.08, "space is not wasted");
}

#[test]
fn a_wrong_estimate_of_the_number_of_records_does_not_change_results() {
    let layout = RecordLayout { fixed: Some((8, 12)), expiring: true };
    for index in [IndexKind::EntropyTrie, IndexKind::Fences, IndexKind::BlockPerfect] {
        for guess in [0, 10, 100_000] {
            let directory = directory();
            let records = records(1000, HASHER, |number| Some(vec![number as u8; 12]));
            let store = build(&directory, settings(layout, index, guess), &records);
            check(&store, &directory, &records);
        }
    }
}

#[test]
fn keys_whose_hashes_are_equal_are_all_found() {
    let hasher = PartitionHasher { key_hasher: KeyHasher::Identity, partitions_log2: 0 };
    for layout in [
        RecordLayout { fixed: Some((24, 4)), expiring: false },
        RecordLayout { fixed: None, expiring: false },
    ] {
        for index in [IndexKind::EntropyTrie, IndexKind::Fences, IndexKind::BlockPerfect] {
            if layout.fixed.is_none() && index != IndexKind::Fences {
                continue;
            }
            let directory = directory();
            let key = |number: u64| {
                let mut key = vec![(number / 40) as u8; 16];
                key.extend_from_slice(&number.to_be_bytes());
                key
            };
            let records: Records =
                (0..400).map(|number| ((hasher.hash(&key(number)), key(number)), Some(vec![1; 4]))).collect();
            let shape = RecordShape { layout, hasher };
            let (form, settings) = settings(layout, index, 400);
            let settings = OrderedTableSettings { shape, ..settings };
            let store = build(&directory, (form, settings), &records);
            check(&store, &directory, &records);
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_and_never_another_value() {
    let layout = RecordLayout { fixed: Some((8, 12)), expiring: false };
    let directory = directory();
    let records = records(100, HASHER, |number| Some(vec![number as u8; 12]));
    let store = build(&directory, settings(layout, IndexKind::Fences, 100), &records);
    let file = directory.open("1", Access::Buffered).unwrap();
    file.write(Purpose::Maintain, 512 + 100, &[0xFF; 1]).unwrap();
    let mut buffer = AlignedBuffer::default();
    let mut refused = 0;
    for ((_, key), value) in &records {
        match store.look_up(&query(key), &mut buffer, value_of) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value)),
            Err(error) => {
                assert!(error.to_string().contains("damaged at byte 512"), "{error}");
                refused += 1;
            }
        }
    }
    assert!((1..=25).contains(&refused));
}

#[test]
fn a_cursor_returns_the_blocks_of_each_record_from_which_the_same_index_can_be_built() {
    let size = |number: u64| if number.is_multiple_of(97) { 5000 } else { (number * 7 % 300) as usize };
    for fixed in [None, Some((8, 12))] {
        let layout = RecordLayout { fixed, expiring: false };
        let directory = directory();
        let records =
            records(2000, HASHER, |number| Some(vec![3; fixed.map_or(size(number), |(_, length)| length)]));
        let (form, settings) = settings(layout, IndexKind::Fences, 2000);
        let form = TableForm { fill_blocks: true, ..form };
        let store = build(&directory, (form, settings), &records);
        let kinds = [IndexKind::Fences, IndexKind::EntropyTrie, IndexKind::DenseTrie];
        for kind in kinds.into_iter().take(if fixed.is_some() { 3 } else { 1 }) {
            let mut builder = StoreIndexBuilder::new(&store.index_settings(kind)).unwrap();
            let mut cursor = OrderedCursor::new(&store, Purpose::Iterate, 2048);
            let mut blocks = Vec::new();
            while cursor.advance().unwrap() {
                builder.push(cursor.entry().unwrap().hash.placement, cursor.blocks()).unwrap();
                blocks.push(cursor.blocks());
            }
            let index = builder.finish().unwrap();
            assert_eq!(index.kind(), Some(kind));
            let mut buffer = AlignedBuffer::default();
            for ((_, key), blocks) in records.keys().zip(&blocks) {
                let units = index.locate(store.file(), &query(key), &mut buffer).unwrap();
                let located = blocks_of(units.unwrap(), index.units_per_block);
                assert!(located.start <= blocks.start && blocks.end <= located.end, "{located:?} {blocks:?}");
                assert!(kind == IndexKind::Fences || located == *blocks);
            }
        }
    }
}

#[test]
fn a_cursor_continues_after_a_block_that_its_caller_has_read() {
    let layout = RecordLayout { fixed: None, expiring: false };
    let directory = directory();
    let records = records(500, HASHER, |number| Some(vec![7; (number % 90) as usize]));
    let store = build(&directory, settings(layout, IndexKind::Fences, 500), &records);
    let mut buffer = AlignedBuffer::default();
    let block = store.file().footer().blocks / 2;
    let bytes = store.file().read_blocks(Purpose::Get, block..block + 1, &mut buffer).unwrap();
    let opened = Block::open(store.file().file(), 1, block, bytes, true).unwrap();
    let rest = &opened.payload[opened.first_record.unwrap()..];
    let cursor = OrderedCursor::new(&store, Purpose::Get, 512);
    let mut cursor = cursor.continue_after(rest, block);
    assert!(cursor.advance().unwrap());
    assert_eq!(cursor.blocks().start, block);
    let hash = cursor.entry().unwrap().hash;
    let mut expected = records.keys().skip_while(|(other, _)| *other != hash);
    loop {
        let (_, key) = expected.next().unwrap();
        assert_eq!(cursor.entry().unwrap().record.key, key);
        if !cursor.advance().unwrap() {
            break;
        }
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn a_cursor_with_short_pieces_holds_little_more_than_half_of_a_piece() {
    let layout = RecordLayout { fixed: None, expiring: false };
    let records = records(2000, HASHER, |_| Some(vec![7; 20]));
    let store = build(&directory(), settings(layout, IndexKind::Fences, 2000), &records);
    let mut cursor = OrderedCursor::new(&store, Purpose::Merge, 4096);
    let mut held_bytes = 0;
    while cursor.advance().unwrap() {
        held_bytes += cursor.heap_bytes();
    }
    let mean_bytes = held_bytes / 2000;
    assert!((1500..2900).contains(&mean_bytes), "{mean_bytes}");
}

#[test]
fn a_prefix_of_a_key_or_a_key_with_a_part_of_its_value_is_a_different_key() {
    let layout = RecordLayout { fixed: Some((8, 12)), expiring: false };
    let directory = directory();
    let records = records(1, HASHER, |_| Some(b"value of it.".to_vec()));
    let store = build(&directory, settings(layout, IndexKind::Fences, 1), &records);
    for key in [&b"0000000"[..], b"00000000v"] {
        let mut buffer = AlignedBuffer::default();
        assert_eq!(store.look_up(&query(key), &mut buffer, |_| ()).unwrap(), None);
    }
}

#[test]
fn a_store_has_no_more_records_than_fit_into_its_blocks() {
    let layouts = [
        (RecordLayout { fixed: None, expiring: true }, BlockForm::Stream, 170),
        (RecordLayout { fixed: Some((20, 44)), expiring: false }, BlockForm::Stream, 25),
        (RecordLayout { fixed: Some((20, 44)), expiring: false }, BlockForm::Slots, 25),
    ];
    for (layout, form, most) in layouts {
        for (records, fits) in [(most, true), (most + 1, false)] {
            let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
            let file = directory.create("s", Access::Buffered).unwrap();
            let mut writer = StoreFileWriter::create(file, form as u8, 9, 512, Purpose::Merge, 4096).unwrap();
            writer.append_block(&[0; 512]).unwrap();
            writer.finish(records, 0, (2, b"an index"), (0, b"")).unwrap();
            let opened = OrderedTable::open_on_flash(&directory, "s", 9, shape(layout));
            assert_eq!(opened.is_ok(), fits, "{records} records, {form:?}");
        }
    }
}

#[test]
fn the_written_part_of_a_table_has_all_records_of_lower_placements_before_the_table_ends() {
    let fixed = RecordLayout { fixed: Some((8, 12)), expiring: false };
    let any = RecordLayout { fixed: None, expiring: false };
    for (layout, index) in [
        (fixed, IndexKind::BlockPerfect),
        (fixed, IndexKind::SlotPerfect),
        (fixed, IndexKind::Fences),
        (any, IndexKind::Fences),
    ] {
        let directory = directory();
        let length = |number: u64| if layout.fixed.is_some() { 12 } else { number as usize * 7919 % 1500 };
        let records = records(5000, HASHER, |number| Some(vec![number as u8; length(number)]));
        let (form, settings) = settings(layout, index, 5000);
        let mut writer = OrderedTableWriter::create(&directory, "1", form, settings).unwrap();
        let (mut parts, mut last) = (0, 0);
        for (number, ((hash, key), value)) in records.iter().enumerate() {
            let record = RecordView { key, value: value.as_deref(), expires_at_ms: 0 };
            writer.push(&PlacedRecord { hash: *hash, record }).unwrap();
            let Some(part) = (number % 100 == 0).then(|| writer.readable_part()).flatten() else { continue };
            assert!(part.placement >= last && part.placement <= hash.placement);
            (parts, last) = (parts + 1, part.placement);
            let mut buffer = AlignedBuffer::default();
            for ((hash, key), value) in records.iter().take_while(|((hash, _), _)| hash.placement < last) {
                let query = Query { purpose: Purpose::Get, hash: *hash, key };
                assert_eq!(part.table.look_up(&query, &mut buffer, value_of).unwrap(), Some(value.clone()));
            }
            for number in 5000..5100u64 {
                let key = format!("{number:08}").into_bytes();
                assert_eq!(part.table.look_up(&query(&key), &mut buffer, value_of).unwrap(), None);
            }
        }
        assert!(parts >= 5 && last > u64::MAX / 4 * 3, "{index:?}: {parts} parts up to {last:#x}");
        check(&writer.finish(None).unwrap(), &directory, &records);
    }
}

/// Slots, and records that are longer than a block.
#[test]
fn the_records_of_a_span_that_is_too_long_to_be_read_at_once_are_found_in_pieces() {
    for (value_bytes, count) in [(12, 80_000), (700, 2_500)] {
        let layout = RecordLayout { fixed: Some((8, value_bytes)), expiring: false };
        let directory = directory();
        let records = records(count, HASHER, |number| Some(vec![number as u8; value_bytes]));
        // Without expected records, all of them share the only cell of the fences.
        let store = build(&directory, settings(layout, IndexKind::Fences, 0), &records);
        let mut buffer = AlignedBuffer::default();
        for ((hash, key), value) in records.iter().step_by(count as usize / 40) {
            let query = Query { purpose: Purpose::Get, hash: *hash, key };
            let located = store.locate(&query, &mut buffer).unwrap();
            assert!(matches!(located, Located::In(span) if store.is_long(&span)));
            assert_eq!(store.look_up(&query, &mut buffer, value_of).unwrap().as_ref(), Some(value));
        }
        assert_eq!(store.look_up(&query(b"absent.."), &mut buffer, |_| ()).unwrap(), None);
        assert!(buffer.heap_bytes() <= 2 * SPAN_BYTES, "{} bytes", buffer.heap_bytes());
    }
}

/// In a sparse file, which takes no space on the device.
#[test]
fn the_checksums_of_the_pages_of_an_index_that_is_too_long_are_not_read() {
    let path = tempfile::tempdir().unwrap();
    let directory = Directory::system(path.path(), Access::Buffered).unwrap();
    let layout = RecordLayout { fixed: Some((8, 12)), expiring: false };
    let records = records(40, HASHER, |number| Some(vec![number as u8; 12]));
    let store = build(&directory, settings(layout, IndexKind::BlockPerfect, 40), &records);
    let mut footer = store.file().footer().clone();
    assert!(store.is_in_buckets());
    footer.index = lengthened(&footer.index, (1 << 40) - 8192);
    forge(&directory.open("1", Access::Buffered).unwrap(), &footer, 1 << 40);
    let opened = OrderedTable::open_on_flash(&directory, "1", 1, shape(layout));
    assert!(matches!(opened, Err(Error::Corrupt { .. })));
    assert!(directory.io().of(Purpose::Recover).read_bytes < 10_000);
}

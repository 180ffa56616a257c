//! The bytes of every format on flash: what is written equals the files of `fixtures/store/`, which can be read. Tests
//! of indexes and filters are next to their code. `docs/formats/README.md` has the guarantees.
//!
//! `SILTSTONE_BLESS=1` overwrites the files; only a new version of a format justifies that.

use siltstone::engine::flashkey::live;
use siltstone::engine::silt::live::{Edit, Manifest, Role, StoreEntry};
use siltstone::key::{KeyHash, KeyHasher, PartitionHasher, RecordLayout};
use siltstone::names::LogClass;
use siltstone::store::block::{Block, BlockBuilder};
use siltstone::store::data_logs::{CLASSES, DataLogSettings, DataLogs, FinishedSegment, USER};
use siltstone::store::hash_store::{HashStoreFormat, HashStoreWriter};
use siltstone::store::log::{Log, LogSettings};
use siltstone::store::log_format::LogFormat;
use siltstone::store::manifest::Header;
use siltstone::store::merge::PlacedRecord;
use siltstone::store::ordered_keys::{self, Direction, KeyRun, KeyState, OrderedKeys};
use siltstone::store::record::{RecordShape, RecordView};
use siltstone::store::table::{
    BlockForm, IndexKind, OrderedTable, OrderedTableSettings, OrderedTableWriter, TableForm,
};
use siltstone::store::unit_index::{IndexToOpen, LogIndex, LogIndexSettings, SaveStep, SavedIndex};
use siltstone::store::{Query, StoreFile, StoreFileWriter, StoreFilter};
use siltstone::{Compression, Durability, Usage, compression_file, usage_file};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use siltstone_index::coding::checksum::Secret;
use siltstone_index::filter::{CuckooFilter, RibbonFilter};
use siltstone_index::partial_key_cuckoo::{CuckooSettings, PartialKeyCuckoo};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

const ANY_SIZE: RecordLayout = RecordLayout { fixed: None, expiring: true };
const FIXED: RecordLayout = RecordLayout { fixed: Some((8, 4)), expiring: false };
const FIXED_EXPIRING: RecordLayout = RecordLayout { fixed: Some((3, 2)), expiring: true };
const SEED: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
const HASHER: PartitionHasher = PartitionHasher { key_hasher: KeyHasher::Keyed(SEED), partitions_log2: 2 };
const TAG: u64 = 9;
const BLOCK_BYTES: u32 = 512;
const PIECE_BYTES: usize = 4096;

/// Compares `written` with the golden file `name`, and returns its bytes.
fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/store").join(name);
    if std::env::var_os("SILTSTONE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, written).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    let differs = golden.iter().zip(written).position(|(one, other)| one != other);
    assert!(golden == written, "{name}: {} bytes are {}, from {differs:?} on", golden.len(), written.len());
    golden
}

fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

fn bytes_of(directory: &Directory, name: &str) -> Vec<u8> {
    let file = directory.open(name, Access::Buffered).unwrap();
    let length = file.length().unwrap() as usize;
    file.read(Purpose::Maintain, 0, length, &mut AlignedBuffer::default()).unwrap().to_vec()
}

/// Returns a directory of golden files; each is given with the name of its fixture.
fn golden_directory(written: &Directory, files: &[(&str, &str)]) -> Directory {
    let read = directory();
    for (name, fixture) in files {
        let bytes = golden(fixture, &bytes_of(written, name));
        read.create(name, Access::Buffered).unwrap().write(Purpose::Maintain, 0, &bytes).unwrap();
    }
    read
}

fn key(number: u32) -> [u8; 8] {
    u64::from(number).to_be_bytes()
}

#[test]
fn keys_are_placed_as_in_earlier_versions() {
    // From a second implementation of SipHash-1-3 with 128 bits of output.
    let pinned = [
        (&b"a"[..], 0xa84f_7c63_de37_3c08, 0x678a_ae37_5dd7_2f49),
        (b"key", 0x6aa7_3c1f_d280_4bc7, 0x0496_e1dc_bf6d_810b),
        (b"twenty-three bytes long", 0xf67a_e42b_40fa_8e59, 0x045e_9d81_9312_a237),
    ];
    for (key, placement, fingerprint) in pinned {
        let hash = KeyHash { placement, fingerprint };
        assert_eq!(KeyHasher::Keyed(SEED).hash(key), hash);
        assert_eq!(hash.partition(4) as u64, placement >> 60);
        let within = KeyHash { placement: placement << 4 | fingerprint >> 60, fingerprint };
        assert_eq!(hash.within_partition(4), within);
    }
    let repeated = KeyHasher::Identity.hash(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!((repeated.placement, repeated.fingerprint), (0x0102_0304_0506_0708, 0x0901_0203_0405_0607));
}

#[test]
fn usage_of_a_database() {
    let counted = Usage {
        open_ms: 0x0807_0605_0403_0201,
        gets: 1 << 33,
        misses: 3,
        puts: 4,
        deletes: 5,
        key_bytes: 6,
        value_bytes: 7,
        written_bytes: 9,
        records: 8,
        counted_writes: 10,
        saved_at_ms: 1_700_000_000_123,
    };
    assert_eq!(usage_file::decode(&golden("usage.bin", &usage_file::encode(&counted))), Some(counted));
}

#[test]
fn dictionary_of_compressed_values() {
    let written = golden("compression.bin", &compression_file::encode(Secret::new(8), b"status:delivered"));
    let dictionary = &b"status:delivered"[..];
    assert!(compression_file::decode(&written) == Some((1, Some((Secret::new(8), dictionary)))));
}

#[test]
fn records_in_stream_form() {
    let long = [0x5a; 300];
    let any_size = [
        RecordView { key: b"key", value: Some(b"value"), expires_at_ms: 0 },
        RecordView { key: b"e", value: Some(b""), expires_at_ms: 1_700_000_000_123 },
        RecordView { key: &long[..200], value: Some(&long), expires_at_ms: 0 },
        RecordView { key: b"gone", value: None, expires_at_ms: 0 },
    ];
    let fixed = [
        RecordView { key: b"abc", value: Some(b"xy"), expires_at_ms: 0 },
        RecordView { key: b"abd", value: Some(b"zz"), expires_at_ms: 1_700_000_000_123 },
        RecordView { key: b"abe", value: None, expires_at_ms: 0 },
    ];
    let forms = [
        (ANY_SIZE, &any_size[..], "record_stream_any_size.bin"),
        (FIXED_EXPIRING, &fixed, "record_stream_fixed.bin"),
    ];
    for (layout, records, name) in forms {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| layout.encode_stream(record, 0, &mut bytes));
        let golden = golden(name, &bytes);
        let mut rest = &golden[..];
        for record in records {
            let (flags, read, taken) = layout.decode_stream(rest).unwrap();
            assert_eq!((flags & 0b1110_0000, &read), (0, record));
            rest = &rest[taken..];
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn records_in_slot_form() {
    let put = RecordView { key: b"abc", value: Some(b"xy"), expires_at_ms: 1_700_000_000_123 };
    let gone = RecordView { key: b"abd", value: None, expires_at_ms: 0 };
    let mut bytes = Vec::new();
    FIXED_EXPIRING.encode_slot(&put, true, &mut bytes);
    FIXED_EXPIRING.encode_slot(&gone, true, &mut bytes);
    FIXED_EXPIRING.encode_slot(&put, false, &mut bytes);
    let golden = golden("record_slots.bin", &bytes);
    assert_eq!(FIXED_EXPIRING.decode_slot(&golden[..14], true), Some(put));
    assert_eq!(FIXED_EXPIRING.decode_slot(&golden[14..28], true), Some(gone));
    assert_eq!(FIXED_EXPIRING.decode_slot(&golden[28..], false), Some(put));
}

#[test]
fn a_block() {
    let mut builder = BlockBuilder::new(TAG, BLOCK_BYTES as usize);
    builder.fill(b"the end of a record");
    builder.begin_record();
    builder.fill(b"another record");
    let mut bytes = Vec::new();
    let keep = |block: &[u8]| {
        bytes.extend_from_slice(block);
        Ok(())
    };
    builder.seal(7, keep).unwrap();
    let golden = golden("block.bin", &bytes);
    let file = directory().create("for errors", Access::Buffered).unwrap();
    let block = Block::open(&file, TAG, 7, &golden, true).unwrap();
    assert_eq!((block.payload, block.first_record), (&b"the end of a recordanother record"[..], Some(19)));
}

#[test]
fn a_store_file() {
    let written = directory();
    let create = |name| {
        let file = written.create(name, Access::Buffered).unwrap();
        StoreFileWriter::create(file, 2, TAG, BLOCK_BYTES, Purpose::Merge, PIECE_BYTES).unwrap()
    };
    let mut writer = create("s");
    for number in 0..3 {
        writer.append_block(&[number; BLOCK_BYTES as usize]).unwrap();
    }
    writer.finish(40, 3, (1, b"the bytes of an index"), (2, b"those of a filter")).unwrap();
    let read = golden_directory(&written, &[("s", "store_file.bin")]);
    let file = StoreFile::open(&read, "s", TAG).unwrap();
    let footer = file.footer();
    assert_eq!((footer.kind, footer.blocks, footer.records, footer.deleted), (2, 3, 40, 3));
    assert_eq!((footer.tag, footer.block_bytes), (TAG, BLOCK_BYTES));
    assert_eq!((footer.index.kind, footer.filter.kind), (1, 2));
    assert_eq!(file.read_section(&footer.index, Purpose::Get).unwrap(), b"the bytes of an index");
    assert_eq!(file.read_section(&footer.filter, Purpose::Get).unwrap(), b"those of a filter");
    let mut buffer = AlignedBuffer::default();
    assert_eq!(file.read_blocks(Purpose::Get, 2..3, &mut buffer).unwrap(), [2; BLOCK_BYTES as usize]);
}

/// The value of a number; none for a deleted one.
type Value = fn(u32) -> Option<Vec<u8>>;

fn records(count: u32, value: Value) -> BTreeMap<(KeyHash, [u8; 8]), Option<Vec<u8>>> {
    let record = |number| ((HASHER.hash(&key(number)), key(number)), value(number));
    (0..count).map(record).collect()
}

fn cuckoo_index(count: u32) -> PartialKeyCuckoo {
    let settings = CuckooSettings { regions: 3, buckets_per_region_log2: 4, tag_bits: 15 };
    let index = PartialKeyCuckoo::new(settings, 32).unwrap();
    for number in 0..count {
        let hash = HASHER.hash(&key(number));
        index.insert(hash.placement, hash.fingerprint, number).unwrap();
    }
    index
}

#[test]
fn a_cuckoo_table() {
    let value: Value = |number| (number % 5 != 0).then(|| number.to_le_bytes().to_vec());
    let (written, index) = (directory(), cuckoo_index(150));
    let settings = OrderedTableSettings {
        tag: TAG,
        shape: shape(FIXED),
        block_bytes: BLOCK_BYTES,
        expected_records: 150,
        expected_bytes: 0,
        purpose: Purpose::Convert,
        piece_bytes: PIECE_BYTES,
    };
    let mut writer = HashStoreWriter::create(&written, "h", HashStoreFormat::CuckooTable, settings).unwrap();
    for (_, _, number) in (0..3).flat_map(|region| index.region_slots(region)) {
        let value = value(number);
        let record = RecordView { key: &key(number), value: value.as_deref(), expires_at_ms: 0 };
        writer.push(&PlacedRecord { hash: HASHER.hash(record.key), record }).unwrap();
    }
    writer.finish(&[Arc::new(index)]).unwrap();
    let read = golden_directory(&written, &[("h", "cuckoo_table.bin")]);
    let table = OrderedTable::open(&read, "h", TAG, shape(FIXED)).unwrap();
    let mut buffer = AlignedBuffer::default();
    for number in 0..150 {
        let found = table.look_up(&query(&key(number)), &mut buffer, value_of).unwrap();
        assert_eq!(found, Some(value(number)));
    }
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

fn check_sorted_store(
    fixture: &str,
    layout: RecordLayout,
    index: IndexKind,
    filter: Option<StoreFilter>,
    value: Value,
) {
    let (written, records) = (directory(), records(150, value));
    let form = match filter {
        Some(_) => TableForm { blocks: BlockForm::Stream, index: Some(index), fill_blocks: false },
        None => TableForm::for_index(&layout, BLOCK_BYTES, Some(index)),
    };
    let settings = OrderedTableSettings {
        tag: TAG,
        shape: shape(layout),
        block_bytes: BLOCK_BYTES,
        expected_records: 150,
        expected_bytes: 150 * 12,
        purpose: Purpose::Merge,
        piece_bytes: PIECE_BYTES,
    };
    assert_eq!(form.blocks != BlockForm::Stream, layout.fixed.is_some() && filter.is_none());
    let mut writer = OrderedTableWriter::create(&written, "s", form, settings).unwrap();
    for ((hash, key), value) in &records {
        let record = RecordView { key, value: value.as_deref(), expires_at_ms: 0 };
        writer.push(&PlacedRecord { hash: *hash, record }).unwrap();
    }
    writer.finish(filter).unwrap();
    let read = golden_directory(&written, &[("s", fixture)]);
    let store = Arc::new(OrderedTable::open(&read, "s", TAG, shape(layout)).unwrap());
    let mut cursor = store.cursor(Purpose::Iterate, PIECE_BYTES);
    let mut buffer = AlignedBuffer::default();
    for ((_, key), value) in &records {
        let found = store.look_up(&query(key), &mut buffer, value_of).unwrap();
        assert_eq!(found.as_ref(), Some(value), "{fixture}");
        assert!(cursor.advance().unwrap());
        assert_eq!(cursor.entry().unwrap().record.key, key, "{fixture}");
    }
    assert!(!cursor.advance().unwrap());
}

#[test]
fn stores_in_hash_order() {
    let four_bytes: Value = |number| Some(number.to_le_bytes().to_vec());
    let kinds = [
        (IndexKind::EntropyTrie, "sorted_slots_entropy_trie.bin"),
        (IndexKind::Fences, "sorted_slots_fences.bin"),
        (IndexKind::BlockPerfect, "sorted_slots_block_perfect.bin"),
        (IndexKind::SlotPerfect, "sorted_checked_slots_slot_perfect.bin"),
        (IndexKind::DenseTrie, "sorted_checked_slots_dense_trie.bin"),
    ];
    for (index, fixture) in kinds {
        check_sorted_store(fixture, FIXED, index, None, four_bytes);
    }
    // Some records extend over the end of a block, and one over several blocks.
    let any_size: Value = |number| {
        (number % 11 != 0)
            .then(|| vec![number as u8; if number == 42 { 1500 } else { number as usize * 7 % 60 }])
    };
    let hashes = |count| {
        let hash = |number| HASHER.hash(&key(number));
        (0..count).map(|number| (hash(number).placement, hash(number).fingerprint)).collect::<Vec<_>>()
    };
    let ribbon = StoreFilter::from(RibbonFilter::new(hashes(150), 11).unwrap());
    let cuckoo = StoreFilter::from(CuckooFilter::from_index(&cuckoo_index(150)));
    let fences = IndexKind::Fences;
    check_sorted_store("sorted_stream_ribbon.bin", ANY_SIZE, fences, Some(ribbon), any_size);
    check_sorted_store("sorted_stream_cuckoo.bin", ANY_SIZE, fences, Some(cuckoo), any_size);
}

#[test]
fn a_saved_index_with_the_redo_log_that_follows_it() {
    let format = LogFormat::new(ANY_SIZE, 7, Secret::new(8)).of(LogClass::Redo);
    let (settings, directory) =
        (LogIndexSettings { hash_bits: 24, shards_log2: 1, slot_units: 1_000 }, directory());
    let index = LogIndex::create(&directory, settings, &format, &Arc::default()).unwrap();
    let flush = |covered| {
        let mut flush = index.start_flush();
        flush.take_operations();
        flush.log(&covered).unwrap();
    };
    let hash = |number: u64| KeyHasher::Keyed(SEED).hash(&number.to_le_bytes()).placement;
    (0..2_000).for_each(|number| index.insert(hash(number % 1_900), number * 3));
    flush([6_000, 1, 2, 3]);
    let mut save = index.start_save(3, TAG).unwrap();
    let saved = loop {
        match index.save_step(&mut save, &mut |_| ()).unwrap() {
            SaveStep::Flush => {
                // Each kind of operation, also on one hash.
                for number in 0..50 {
                    index.insert(hash(number + 5_000), number << 30);
                    assert!(index.replace(hash(number), number * 3, number + 7_000));
                    assert!(index.remove(hash(number + 200), number * 3 + 600));
                    assert!(index.remove(hash(number + 5_000), number << 30));
                }
                flush([7_000, 4, 5, 6]);
            }
            SaveStep::Continues => {}
            SaveStep::Written(saved) => break saved,
        }
    };
    let files = [("redo-0000000000000000", "redo_segment.bin"), ("00000003.index", "saved_index.bin")];
    let read = golden_directory(&directory, &files);
    let entries = |index: &LogIndex| {
        let mut entries = Vec::new();
        let push = &mut |hash, unit| {
            entries.push((hash, unit));
            Ok(())
        };
        index.snapshot().visit(Purpose::Index, push).unwrap();
        entries
    };
    let wanted = entries(&index);
    // In memory, half on flash, on flash.
    for memory_shards in [2, 1, 0] {
        let (health, progress) = (&Arc::default(), &mut |_, _| true);
        let (saved, load_later_bytes) = (Some(saved), u64::MAX);
        let to_open =
            IndexToOpen { settings, format, saved, redo_synced: 0, memory_shards, load_later_bytes };
        let (opened, recovered) = LogIndex::open(&read, &to_open, health, progress).unwrap();
        assert_eq!(entries(&opened), wanted);
        assert_eq!((recovered.covered, recovered.operations), ([7_000, 4, 5, 6], 200));
        let of_slot = |slot: u64| wanted.iter().filter(|(_, unit)| unit / 1_000 == slot).count() as u64;
        assert!((0..9).all(|slot| recovered.slots.of(slot..slot + 1) == of_slot(slot)));
    }
}

#[test]
fn a_run_of_keys() {
    let (directory, run) = (directory(), KeyRun { number: 7, tag: TAG });
    let keys = OrderedKeys::open(&directory, &[], None).unwrap();
    let states = [KeyState::Live, KeyState::Live, KeyState::Expiring];
    for number in 0..1_500u64 {
        keys.insert(format!("user:{:06}", number * 77).as_bytes(), states[number as usize % 3]);
    }
    keys.insert(&[b'v'; 9_000], KeyState::Live);
    keys.seal();
    assert_eq!(keys.write_sealed(run).unwrap().unwrap().added(), Some(run));
    let read = golden_directory(&directory, &[("00000007.keys", "key_run.bin")]);
    assert!(ordered_keys::examine(&read, &[run], &mut |_| true).unwrap().is_empty());
    let opened = OrderedKeys::open(&read, &[run], None).unwrap();
    let all = |keys: &OrderedKeys| {
        let mut range = keys.snapshot().range((Bound::Unbounded, Bound::Unbounded), Direction::Ascending);
        let mut found = Vec::new();
        while range.read(1_000, &mut found).unwrap() {}
        found
    };
    assert_eq!(all(&opened).len(), 1_501);
    assert_eq!(all(&opened), all(&keys));
}

#[test]
fn a_log_of_two_segments() {
    let written = directory();
    let base = 0x1_0000;
    let format = LogFormat::new(ANY_SIZE, 0xD00D, Secret::new(0x5EC2E7));
    let log = Log::create(&written, format, 200, base).unwrap();
    let long = [7; 200];
    let batches = [
        vec![RecordView { key: b"one", value: Some(b"1"), expires_at_ms: 0 }],
        vec![
            RecordView { key: b"two", value: Some(&long), expires_at_ms: 0 },
            RecordView { key: b"one", value: None, expires_at_ms: 0 },
        ],
        vec![RecordView { key: b"three", value: Some(b"3"), expires_at_ms: 1_700_000_000_123 }],
    ];
    let mut positions = Vec::new();
    for batch in &batches {
        let end = log.append(batch.iter().copied(), Durability::Written, |at| positions.push(at)).unwrap();
        // So that a marker precedes the next batch.
        log.sync_to(end).unwrap();
    }
    let names = written.list().unwrap();
    let [first, second] = &names[..] else { panic!("{names:?}") };
    assert_eq!(first, "log-0000000000010000");
    let files = [(first.as_str(), "log_first_segment.bin"), (second.as_str(), "log_second_segment.bin")];
    let read = golden_directory(&written, &files);
    let settings = LogSettings { format, segment_bytes: 200, from: base, durable: log.end() };
    let (opened, recovered) = Log::open(&read, &settings, &mut |_, _| true).unwrap();
    assert_eq!((recovered.end, recovered.lost_tail_bytes), (log.end(), 0));
    let mut expected = positions.into_iter().zip(batches.iter().flatten());
    opened
        .scan(base, &mut |_, _| true, &mut |position, record| {
            assert_eq!((position, record), expected.next().unwrap());
            Ok(())
        })
        .unwrap();
    assert!(expected.next().is_none());
}

#[test]
fn logs_of_data() {
    let written = directory();
    let settings = DataLogSettings {
        layout: ANY_SIZE,
        database_id: 0xD00D,
        secret: Secret::new(0x5EC2E7),
        unit_bytes: 16,
        segment_bytes: 128,
        moved: 1,
    };
    DataLogs::create(&written, &settings).unwrap();
    let (synced, health) = ([0; CLASSES], Arc::default());
    let open = |directory: &Directory, finished: &[FinishedSegment], finished_to| {
        let go = &mut |_, _| true;
        DataLogs::open(directory, &settings, finished, finished_to, synced, &health, go).unwrap().0
    };
    let logs = open(&written, &[], [0; CLASSES]);
    let mut expected = Vec::new();
    let mut put = |class, key: &'static [u8], value: &[u8], expires_at_ms| {
        let record = RecordView { key, value: Some(value), expires_at_ms };
        logs.append(class, [record].into_iter(), Durability::Written, |unit, _| expected.push((unit, key)))
            .unwrap();
    };
    put(USER, b"one", b"1", 0);
    // This one takes a segment of two slots.
    put(USER, b"two", &[7; 150], 0);
    put(1, b"one", b"1", 1_700_000_000_123);
    logs.sync_to(1, logs.ends()[1]).unwrap();
    let finished = logs.finish_step().unwrap().unwrap();
    let names = written.list().unwrap();
    let [first, second, moved] = &names[..] else { panic!("{names:?}") };
    assert!([first, second].iter().all(|name| name.starts_with("log-")) && moved.starts_with("moved1-"));
    let files =
        [(&first[..], "data_log_0.bin"), (&second[..], "data_log_1.bin"), (&moved[..], "moved_log.bin")];
    let read = golden_directory(&written, &files);
    let logs = open(&read, &[finished], [finished.end, 0, 0, 0]);
    let (view, mut buffer) = (logs.view(), AlignedBuffer::default());
    for (unit, key) in expected {
        assert_eq!(view.read(Purpose::Get, unit, &mut buffer).unwrap().view(&buffer).key, key);
    }
}

#[test]
fn manifests() {
    let of_fixed = Header {
        engine: 1,
        layout: FIXED,
        hasher: KeyHasher::Keyed(SEED),
        partitions_log2: 2,
        block_bytes: BLOCK_BYTES,
        compression: Compression::None,
        database_id: 0xD00D,
        secret: Secret::new(0x5EC2E7),
    };
    let of_hashed_keys =
        Header { layout: ANY_SIZE, hasher: KeyHasher::Identity, partitions_log2: 4, ..of_fixed };
    for (header, fixture) in [(of_fixed, "manifest_fixed.bin"), (of_hashed_keys, "manifest_hashed_keys.bin")]
    {
        let written = directory();
        Manifest::create(&written, &header).unwrap();
        let mut manifest = Manifest::open(&written).unwrap();
        let edit = |converted_to, removed: &[u64], added: &[(u64, Role)]| Edit {
            partition: 3,
            converted_to,
            removed: removed.to_vec(),
            added: added
                .iter()
                .map(|&(number, role)| StoreEntry { number, tag: number << 56 | 7, role })
                .collect(),
        };
        manifest.commit(&[edit(100, &[], &[(1, Role::HashOrdered)])], 70).unwrap();
        manifest
            .commit(&[edit(200, &[], &[(2, Role::CuckooTable)]), edit(0, &[1], &[(3, Role::Sorted)])], 300)
            .unwrap();
        let read = golden_directory(&written, &[("MANIFEST", fixture)]);
        let opened = Manifest::open(&read).unwrap();
        assert_eq!((opened.header(), opened.next_number(), opened.log_synced()), (&header, 4, 300));
        let partition = &opened.partitions()[3];
        let stores: Vec<_> =
            partition.stores.iter().map(|store| (store.number, store.tag, store.role)).collect();
        assert_eq!(
            (partition.converted_to, &stores[..]),
            (200, &[(3, 3 << 56 | 7, Role::Sorted), (2, 2 << 56 | 7, Role::CuckooTable)][..])
        );
        assert_eq!(opened.partitions().len(), 1 << header.partitions_log2);
    }
}

#[test]
fn manifests_of_logs_with_an_index() {
    let header = Header {
        engine: 3,
        layout: FIXED,
        hasher: KeyHasher::Keyed(SEED),
        partitions_log2: 2,
        block_bytes: BLOCK_BYTES,
        compression: Compression::None,
        database_id: 0xD00D,
        secret: Secret::new(0x5EC2E7),
    };
    let written = directory();
    live::Manifest::create(&written, &header).unwrap();
    let mut manifest = live::Manifest::open(&written).unwrap();
    let segment = |class, base, slot| FinishedSegment {
        class,
        base,
        end: base + 700,
        slot,
        slots: 2,
        records: 31,
        order: base,
        database_id: 0xD00D,
    };
    let saved = SavedIndex { number: 1, tag: TAG, redo_from: 55 };
    let run = |number| KeyRun { number, tag: TAG ^ number };
    let keys = |number, replaced| live::Edit::Keys { added: Some(run(number)), replaced, flushed_to: 650 };
    let finished = [segment(0, 0, 0), segment(2, 64, 4)].map(live::Edit::Finished);
    manifest.commit(&finished, 700).unwrap();
    let others = [
        live::Edit::Released { class: 0, base: 0 },
        live::Edit::FinishedTo { class: 1, position: 99 },
        live::Edit::Index(saved),
        keys(2, None),
        keys(3, None),
        keys(4, Some((2, 2))),
        live::Edit::RedoSynced(60),
    ];
    manifest.commit(&others, 800).unwrap();
    let read = golden_directory(&written, &[("MANIFEST", "manifest_logs.bin")]);
    let opened = live::Manifest::open(&read).unwrap();
    assert_eq!((opened.header(), opened.next_number(), opened.log_synced()), (&header, 5, 800));
    let state = opened.state();
    assert_eq!(state.finished, [segment(2, 64, 4)]);
    assert_eq!((state.finished_to, state.index), ([700, 99, 764, 0], Some(saved)));
    assert_eq!(state.redo_synced, 60);
    assert_eq!((&state.key_runs[..], state.keys_flushed_to), (&[run(4), run(3)][..], 650));
}

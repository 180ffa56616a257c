//! An index with changed bytes in the redo log or the saved index, and corrected checksums: opening and examination.

use crate::input::{Input, contents, directory, directory_with};
use crate::seal::{SECRET, seal_saved_index};
use siltstone::Durability;
use siltstone::key::RecordLayout;
use siltstone::names::LogClass;
use siltstone::store::log::Log;
use siltstone::store::log_format::LogFormat;
use siltstone::store::record::RecordView;
use siltstone::store::unit_index::{
    IndexToExamine, IndexToOpen, LogIndex, LogIndexSettings, SaveStep, SavedIndex,
};
use siltstone_device::{Directory, Purpose};
use siltstone_index::coding::mix;
use std::sync::Arc;

const FORMAT: LogFormat =
    LogFormat::new(RecordLayout { fixed: None, expiring: false }, 7, SECRET).of(LogClass::Redo);
const SAVED: SavedIndex = SavedIndex { number: 1, tag: 9, redo_from: 0 };

/// Runs the target for the redo log.
pub fn redo(data: &[u8]) {
    let mut input = Input(data);
    let (settings, index, _) = written(&mut input);
    let mut values = Vec::new();
    let scanned = index.redo().scan(0, &mut |_, _| true, &mut |_, record| {
        values.push(record.value.unwrap_or_default().to_vec());
        Ok(())
    });
    scanned.expect("what was written can be scanned");
    let directory = directory();
    let log = Log::create(&directory, FORMAT, 4096, 0).expect("memory does not fail");
    for value in &mut values {
        input.mutate(value);
        let record = RecordView { key: b"flush", value: Some(value), expires_at_ms: 0 };
        log.append([record].into_iter(), Durability::Written, |_| ()).expect("memory does not fail");
    }
    open(&directory, settings, None);
}

/// Runs the target for the saved index.
pub fn saved(data: &[u8]) {
    let mut input = Input(data);
    let (settings, index, written) = written(&mut input);
    let mut save = index.start_save(SAVED.number, SAVED.tag).expect("memory does not fail");
    let saved = loop {
        match index.save_step(&mut save, &mut |_| ()).expect("memory does not fail") {
            SaveStep::Continues => {}
            SaveStep::Flush => flush(&index),
            SaveStep::Written(saved) => break saved,
        }
    };
    let mut bytes = contents(&written, &saved.file_name());
    input.mutate(&mut bytes);
    if input.u8() % 8 > 0 {
        seal_saved_index(&mut bytes);
    }
    let directory = directory_with(&saved.file_name(), &bytes);
    for name in written.list().expect("memory does not fail") {
        if name != saved.file_name() {
            crate::input::put(&directory, &name, &contents(&written, &name));
        }
    }
    open(&directory, settings, Some(saved));
}

/// Returns an index with some operations in its redo log.
fn written(input: &mut Input<'_>) -> (LogIndexSettings, LogIndex, Directory) {
    let shards_log2 = u32::from(input.u8() % 4);
    let hash_bits = 18 + shards_log2 + u32::from(input.u8() % 24);
    let settings = LogIndexSettings { hash_bits, shards_log2, slot_units: 1 << 20 };
    let directory = directory();
    let index = LogIndex::create(&directory, settings, &FORMAT, &Arc::default()).expect("valid settings");
    for number in 0..u64::from(input.u16() % 1024) {
        let kind = input.u8();
        let hash = mix((u64::from(kind) << 8) | (number % 64));
        let first = index.candidates(hash).expect("memory does not fail").first().copied();
        match (kind % 4, first) {
            (0, Some(unit)) => assert!(index.remove(hash, unit)),
            (1, Some(unit)) => assert!(index.replace(hash, unit, number << (kind % 30))),
            (2, _) if kind > 200 => flush(&index),
            _ => index.insert(hash, number << (kind % 30)),
        }
    }
    flush(&index);
    (settings, index, directory)
}

fn flush(index: &LogIndex) {
    let mut flush = index.start_flush();
    flush.take_operations();
    flush.log(&[1, 2, 3, 4]).expect("memory does not fail");
}

/// Examines the files and opens the index. What is opened was not found damaged.
fn open(directory: &Directory, settings: LogIndexSettings, saved: Option<SavedIndex>) {
    let files = IndexToExamine { directory, settings, format: FORMAT, saved, redo_synced: 0 };
    let examined = files.examine(&mut |_| true).expect("memory does not fail");
    // In memory, where all pages are read, on flash, and in memory after the open.
    let shards = settings.shards();
    for (memory_shards, load_later_bytes) in [(shards, u64::MAX), (0, u64::MAX), (shards, 0)] {
        let (health, progress) = (&Arc::default(), &mut |_, _| true);
        let to_open =
            IndexToOpen { settings, format: FORMAT, saved, redo_synced: 0, memory_shards, load_later_bytes };
        let opened = LogIndex::open(directory, &to_open, health, progress);
        let Ok((index, _)) = opened else { continue };
        let unimportant = |damage: &siltstone::Damage| damage.lost.is_empty();
        let is_intact = examined.damage.iter().all(unimportant);
        let is_read = memory_shards > 0 && load_later_bytes > 0;
        assert!(is_intact || !is_read, "{:?}", examined.damage);
        if load(&index).is_err() {
            assert!(!is_intact, "damage that an examination did not find");
            continue;
        }
        let mut entries = Vec::new();
        let push = &mut |hash, unit| {
            entries.push((hash, unit));
            Ok(())
        };
        if index.snapshot().visit(Purpose::Index, push).is_err() {
            assert!(!is_intact, "damage that an examination did not find");
            continue;
        }
        // Redo that does not fit the entries is found only in memory.
        assert!(entries.len() as u64 == index.len() || !is_read);
        for (hash, unit) in entries.into_iter().take(50) {
            assert!(index.candidates(hash).is_ok_and(|units| units.contains(&unit)));
        }
    }
}

/// Loads the shards that the opening has left on flash.
fn load(index: &LogIndex) -> siltstone::Result<()> {
    while let Some(load) = index.start_load()? {
        let mut load = Some(load);
        while let Some(next) = load {
            load = index.load_step(next)?;
        }
    }
    Ok(())
}

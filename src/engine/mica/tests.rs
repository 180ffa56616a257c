use super::*;
use crate::batch::{NEVER, Write};
use crate::engine::CommonSettings;
use crate::engine::{EngineSettings, Opening, collect_many};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use siltstone_mica::Full;

/// An engine with this memory in this number of partitions.
fn open(settings: &MicaSettings, memory_bytes: u64, partitions: u32) -> Result<Arc<dyn Engine>> {
    let common = CommonSettings {
        memory_budget: Some(memory_bytes),
        partitions: Some(partitions),
        ..CommonSettings::default()
    };
    settings.open(Opening {
        directory: Directory::new(MemoryDirectory::default(), Access::Buffered),
        common: &common,
        create: true,
        seed: Some([1, 2]),
        now_ms: 0,
        disk: None,
        progress: &mut |_, _| true,
    })
}

fn engine(settings: &MicaSettings) -> Arc<dyn Engine> {
    open(settings, 256 << 10, 4).unwrap()
}

fn small() -> MicaSettings {
    MicaSettings::default().record_bytes(1_000)
}

fn put(engine: &dyn Engine, key: u32, value: &[u8], expires_at_ms: u64, now_ms: u64) -> Result<()> {
    let key = key.to_le_bytes();
    write(engine, &[Write::Put { key: &key, value, expires_at_ms }], now_ms)
}

fn write(engine: &dyn Engine, writes: &[Write<'_>], now_ms: u64) -> Result<()> {
    let writes: Vec<_> = writes.iter().map(|write| HashedWrite::new(*write, &engine.hasher())).collect();
    engine.write(&writes, Durability::Buffered, &|| now_ms)
}

fn get(engine: &dyn Engine, key: u32) -> Option<Bytes> {
    engine.get(engine.hasher().key(&key.to_le_bytes()), 0).unwrap().map(|found| found.value)
}

fn contents(engine: &dyn Engine) -> Vec<(Bytes, Bytes)> {
    let mut records: Vec<(Bytes, Bytes)> = engine
        .snapshot(0)
        .unwrap()
        .records()
        .map(Result::unwrap)
        .map(|record| (record.key, record.value))
        .collect();
    records.sort();
    records
}

#[test]
fn a_batch_that_does_not_fit_changes_nothing_in_any_partition() {
    let engine = engine(&small());
    (0..20).for_each(|key| put(&*engine, key, &[7; 500], NEVER, 1).unwrap());
    let (before, records) = (contents(&*engine), engine.stats().records);
    let keys: Vec<[u8; 4]> = (0..400u32).map(u32::to_le_bytes).collect();
    let mut writes: Vec<Write<'_>> =
        keys.iter().map(|key| Write::Put { key, value: &[8; 1_000], expires_at_ms: NEVER }).collect();
    writes.insert(3, Write::Delete { key: &keys[5] });
    for _ in 0..20 {
        let outcome = write(&*engine, &writes, 1);
        assert!(matches!(outcome, Err(Error::Full(Full::Memory | Full::Index))), "{outcome:?}");
    }
    assert!(contents(&*engine) == before && engine.stats().records == records);
    write(&*engine, &writes[..100], 1).unwrap();
    assert!(get(&*engine, 50).unwrap() == [8; 1_000][..] && get(&*engine, 5).unwrap() == [8; 1_000][..]);
}

#[test]
fn a_full_store_refuses_writes_until_a_record_is_deleted_or_expires() {
    let engine = engine(&small());
    let full = |now_ms| (0..).find(|key| put(&*engine, *key, &[7; 900], 50, now_ms).is_err()).unwrap();
    let count = full(1);
    assert!((100..400).contains(&count), "{count}");
    let outcome = put(&*engine, count, &[7; 900], 50, 1);
    assert!(matches!(outcome, Err(Error::Full(_))), "{outcome:?}");
    assert!(engine.check_writable().is_ok(), "a full store is not a failure");
    write(&*engine, &[Write::Delete { key: &0u32.to_le_bytes() }], 1).unwrap();
    put(&*engine, 0, &[8; 900], 50, 1).unwrap();
    let later = 2_000;
    assert!((1_000..1_000 + count / 2).all(|key| put(&*engine, key, &[9; 900], NEVER, later).is_ok()));
    assert!(get(&*engine, 1_000).is_some());
}

#[test]
fn a_cache_accepts_all_writes_and_has_the_last_value_or_none() {
    for eviction in [Eviction::Fifo, Eviction::ApproximateLru] {
        let engine = engine(&small().eviction(Some(eviction)));
        assert!(engine.capabilities().lossy && !engine.capabilities().persistent);
        let mut batch = Vec::new();
        let keys: Vec<[u8; 4]> = (0..2_000u32).map(u32::to_le_bytes).collect();
        for (number, key) in (0..).zip(&keys) {
            put(&*engine, number, &[1; 100], NEVER, 1).unwrap();
            put(&*engine, number, &[2; 300], NEVER, 1).unwrap();
            batch.push(Write::Put { key, value: &[3; 200], expires_at_ms: NEVER });
        }
        let found: Vec<Bytes> = (0..2_000).filter_map(|key| get(&*engine, key)).collect();
        assert!(found.len() > 300 && found.len() < 1_500 && found.iter().all(|value| value[..] == [2; 300]));
        assert!(get(&*engine, 1_999).is_some() && get(&*engine, 0).is_none());
        assert_eq!(engine.stats().records, found.len() as u64);
        // A batch longer than the log: records that it overwrote itself are absent, and so are all earlier ones.
        write(&*engine, &batch, 1).unwrap();
        let found: Vec<Bytes> = (0..2_000).filter_map(|key| get(&*engine, key)).collect();
        assert!(found.len() > 300 && found.iter().all(|value| value[..] == [3; 200]), "{}", found.len());
    }
}

#[test]
fn the_reported_memory_is_the_configured_memory() {
    for eviction in [None, Some(Eviction::Lru)] {
        let stats = open(&MicaSettings::default().eviction(eviction), 8 << 20, 16).unwrap().stats();
        let bytes = stats.ram.total_bytes() as f64 / f64::from(8 << 20);
        assert!((0.9..1.05).contains(&bytes), "{eviction:?}: {bytes}");
    }
}

#[test]
fn settings_outside_their_limits_are_refused() {
    for (memory_bytes, partitions) in
        [(256 << 10, 3), (256 << 10, 0), (1 << 40, 2_048), (1_000, 4), (1 << 50, 4)]
    {
        let outcome = open(&small(), memory_bytes, partitions);
        assert!(matches!(outcome, Err(Error::Setting { .. })), "{memory_bytes} in {partitions}");
    }
    let outcome = open(&small().record_bytes(0), 256 << 10, 4);
    assert!(matches!(outcome, Err(Error::Setting { name: "record_bytes", .. })));
}

/// A cache of one partition, and the number of records of 1,000 bytes that its log holds.
fn cache_of(eviction: Eviction) -> (Arc<dyn Engine>, u32) {
    let settings = small().eviction(Some(eviction));
    let engine = || open(&settings, 128 << 10, 1).unwrap();
    let full = engine();
    (0..300).for_each(|key| put(&*full, key, &[1; 1_000], NEVER, 1).unwrap());
    (engine(), full.stats().records as u32)
}

/// Returns whether the key exists, without using it in terms of the eviction policy.
fn get_unused(engine: &dyn Engine, key: u32) -> bool {
    engine.snapshot(0).unwrap().records().any(|record| record.unwrap().key == key.to_le_bytes()[..])
}

/// An operation that uses key 0.
type Use = fn(&dyn Engine);

/// Returns whether a key is still there after 1.1 laps of the log, if it was used when it was at `share` of the log.
fn survives(eviction: Eviction, share: f64, use_it: Use) -> bool {
    let (cache, round) = cache_of(eviction);
    let at = |share: f64| (f64::from(round) * share) as u32;
    put(&*cache, 0, &[1; 1_000], NEVER, 1).unwrap();
    (1..at(share)).for_each(|key| put(&*cache, key, &[2; 1_000], NEVER, 1).unwrap());
    use_it(&*cache);
    (at(share)..at(1.1)).for_each(|key| put(&*cache, key, &[2; 1_000], NEVER, 1).unwrap());
    get_unused(&*cache, 0)
}

#[test]
fn a_use_keeps_a_record_in_a_cache_as_long_as_its_eviction_policy_says() {
    const KEY: [u8; 4] = [0; 4];
    let uses: [(&str, Use); 4] = [
        ("get", |cache| assert!(get(cache, 0).is_some())),
        ("get_many", |cache| {
            let keys = [KEY, [9; 4]];
            let keys = keys.each_ref().map(|key| cache.hasher().key(key));
            assert!(collect_many(cache, &keys, 0).unwrap()[0].is_some());
        }),
        ("put in place", |cache| put(cache, 0, &[3; 1_000], NEVER, 1).unwrap()),
        ("update", |cache| {
            let key = cache.hasher().key(&KEY);
            cache.update_many(&[key], Durability::Buffered, 1, &mut |_, _| Ok(())).unwrap();
        }),
    ];
    for (name, use_it) in uses {
        for (eviction, kept) in [
            (Eviction::Fifo, [false, false, false]),
            (Eviction::Lru, [true, true, true]),
            (Eviction::ApproximateLru, [false, true, true]),
            (Eviction::SecondChance, [false, false, true]),
        ] {
            let got = [0.25, 0.65, 0.9].map(|share| survives(eviction, share, use_it));
            assert_eq!(got, kept, "{eviction:?}, {name}");
        }
    }
}

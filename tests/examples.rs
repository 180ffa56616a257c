//! The programs in `examples` run and are right.

#[path = "../examples/counters.rs"]
mod counters;
#[path = "../examples/dedup_index.rs"]
mod dedup_index;
#[path = "../examples/dictionary.rs"]
mod dictionary;
#[path = "../examples/seen_set.rs"]
mod seen_set;
#[path = "../examples/sessions.rs"]
mod sessions;
#[path = "../examples/tokio_gets.rs"]
mod tokio_gets;

#[test]
fn every_example_runs() {
    counters::main().unwrap();
    dedup_index::main().unwrap();
    dictionary::main().unwrap();
    seen_set::main().unwrap();
    sessions::main().unwrap();
    tokio_gets::example::main().unwrap();
    assert_eq!(tokio_gets::measure_few().unwrap(), 4);
}

#[test]
fn a_backup_that_was_indexed_before_has_no_new_chunk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chunks");
    let data: Vec<u8> = (0..500_000u32).flat_map(|n| n.to_le_bytes()).collect();
    let mut position = 0;
    let index = dedup_index::open(&path).unwrap();
    let all = data.len().div_ceil(4096) as u64;
    assert_eq!(dedup_index::add(&index, &data, &mut position).unwrap(), all);
    index.close().unwrap();
    let index = dedup_index::open(&path).unwrap();
    assert_eq!(dedup_index::add(&index, &data, &mut position).unwrap(), 0);
}

//! The programs in `examples` run and are right.

#[path = "../../examples/counters.rs"]
mod counters;
#[path = "../../examples/crawler.rs"]
mod crawler;
#[path = "../../examples/dedup_index.rs"]
mod dedup_index;
#[path = "../../examples/dictionary.rs"]
mod dictionary;
#[path = "../../examples/follower.rs"]
mod follower;
#[path = "../../examples/neighbours.rs"]
mod neighbours;
#[path = "../../examples/seen_set.rs"]
mod seen_set;
#[path = "../../examples/sessions.rs"]
mod sessions;
#[path = "../../examples/tables.rs"]
mod tables;
#[path = "../../examples/tokio_gets.rs"]
mod tokio_gets;

#[test]
fn every_example_runs() {
    counters::main().unwrap();
    crawler::main().unwrap();
    dedup_index::main().unwrap();
    dictionary::main().unwrap();
    follower::main().unwrap();
    neighbours::main().unwrap();
    seen_set::main().unwrap();
    sessions::main().unwrap();
    tables::main().unwrap();
    tokio_gets::example::main().unwrap();
    assert_eq!(tokio_gets::measure_few().unwrap(), 4);
}

#[test]
fn a_copy_follows_from_where_it_stopped_or_from_the_beginning_if_changes_are_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("original");
    let copy = siltstone::Database::open(directory.path().join("copy")).unwrap();
    let original = follower::open(&path).unwrap();
    original.put("a", "1").unwrap();
    original.put("b", "1").unwrap();
    assert_eq!(follower::follow(&original, &copy).unwrap(), 0, "the first time all records are read");
    original.delete("a").unwrap();
    drop(original);
    let original = follower::open(&path).unwrap();
    assert_eq!(follower::follow(&original, &copy).unwrap(), 1);
    drop(original);
    // A database without its feed may have lost keys that the copy has.
    let original = siltstone::Database::builder(&path).change_feed(0).open().unwrap();
    original.delete("b").unwrap();
    original.put("c", "1").unwrap();
    drop(original);
    follower::follow(&follower::open(&path).unwrap(), &copy).unwrap();
    let keys: Vec<_> = copy.iter().unwrap().map(|record| record.unwrap().key).collect();
    assert!(keys.contains(&"c".into()) && keys.len() == 2, "{keys:?}");
}

#[test]
fn the_messages_of_a_user_are_read_without_those_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let messages = neighbours::open(&directory.path().join("messages")).unwrap();
    for user in 0..200 {
        for message in 0..user % 7 {
            neighbours::post(&messages, user, message, &format!("{user}/{message}")).unwrap();
        }
    }
    messages.compact().unwrap();
    let reads = messages.stats().io.total().reads;
    for user in 0..200 {
        let mut texts = neighbours::of_user(&messages, user).unwrap();
        texts.sort();
        assert_eq!(texts, (0..user % 7).map(|message| format!("{user}/{message}")).collect::<Vec<_>>());
    }
    let reads = messages.stats().io.total().reads - reads;
    assert!(reads <= 400, "{reads} reads for 200 users");
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

//! `siltstone follow`: a copy of a database that another server has.

use crate::runner::fails;
use crate::server_process::{Client, Process};
use std::time::{Duration, Instant};

/// Asks until the copy has the reply of the source, which it has after some time.
fn wait_for(client: &mut Client, request: &str, expected: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let reply = client.ask(request);
        if reply == expected {
            return;
        }
        let status = client.ask("INFO replication");
        assert!(Instant::now() < end, "{request}: {reply}, and not {expected}: {status}");
    }
}

const FEED: [&str; 2] = ["--set", "change_feed=1MiB"];

#[test]
fn a_copy_gets_all_writes_over_kills_of_both_servers_and_serves_reads_only() {
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    let mut source = Process::start(&data, &FEED);
    let address = source.address.clone();
    let mut writer = source.client();
    for number in 0..2000 {
        writer.ask(&format!("SET key:{number} {number}"));
    }
    writer.ask("HSET hash city Lima");
    writer.ask("PEXPIREAT key:7 4000000000123");
    let follow = || Process::start_at("127.0.0.1:0", &copy, &["follow", &address], &[]);
    let mut follower = follow();
    let mut reader = follower.client();
    writer.ask("SET last 1");
    wait_for(&mut reader, "GET last", "1");
    wait_for(&mut reader, "DBSIZE", ":2002");
    wait_for(&mut reader, "HGETALL hash", "city Lima");
    wait_for(&mut reader, "PEXPIRETIME key:7", ":4000000000123");
    assert_eq!(reader.ask("SET a 1"), "-READONLY You can't write against a read only replica.");
    let info = reader.ask("INFO replication");
    assert!(info.contains("role:slave") && info.contains("master_link_status:up"), "{info}");

    // The copy is killed, and continues where it was; deletes too.
    follower.child.kill().unwrap();
    follower.child.wait().unwrap();
    writer.ask("DEL key:3");
    writer.ask("SET last 2");
    let mut follower = follow();
    let mut reader = follower.client();
    wait_for(&mut reader, "GET last", "2");
    wait_for(&mut reader, "EXISTS key:3", ":0");

    // The source is killed, and comes back at its address.
    source.child.kill().unwrap();
    source.child.wait().unwrap();
    assert_eq!(reader.ask("GET key:4"), "4");
    let mut source = Process::start_at(&address, &data, &["serve", "data"], &FEED);
    let mut writer = source.client();
    writer.ask("SET last 3");
    wait_for(&mut reader, "GET last", "3");

    // Its feed is lost: a new database is in place of the old one.
    writer.ask("FLUSHALL");
    writer.ask("SET last 4");
    wait_for(&mut reader, "GET last", "4");
    wait_for(&mut reader, "DBSIZE", ":1");

    // A copy whose database was removed gets all records again.
    follower.stop();
    std::fs::remove_dir_all(copy.join("0")).unwrap();
    let mut follower = follow();
    wait_for(&mut follower.client(), "GET last", "4");

    follower.stop();
    let mut alone = Process::start(&copy, &[]);
    let mut client = alone.client();
    assert_eq!(client.ask("GET last"), "4");
    assert_eq!(client.ask("SET a 1"), "+OK");
    alone.stop();
    // What was written to it meanwhile is gone when it is a copy again.
    let mut follower = follow();
    let mut reader = follower.client();
    wait_for(&mut reader, "EXISTS a", ":0");
    wait_for(&mut reader, "GET last", "4");
    follower.stop();
    source.stop();
}

#[test]
fn what_cannot_be_followed_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = fails(directory.path(), &["follow", "127.0.0.1:1", "copy"]);
    assert!(error.contains("cannot connect to 127.0.0.1:1"), "{error}");
    let mut without_feed = Process::start(&directory.path().join("data"), &[]);
    let mut client = without_feed.client();
    assert_eq!(client.ask("SET a 1"), "+OK");
    let refused = client.ask("SILTSTONE CHANGES");
    assert!(refused.contains("change_feed"), "{refused}");
    without_feed.stop();
}

#[test]
fn long_keys_with_long_values_are_copied() {
    let directory = tempfile::tempdir().unwrap();
    let (data, copy) = (directory.path().join("data"), directory.path().join("copy"));
    let mut source = Process::start(&data, &FEED);
    let mut writer = source.client();
    // More than sockets usually hold, in both directions.
    let (key, value) = ("k".repeat(60_000), "v".repeat(100_000));
    for number in 0..300 {
        assert_eq!(writer.ask(&format!("SET {number}:{key} {value}")), "+OK");
    }
    let mut follower = Process::start_at("127.0.0.1:0", &copy, &["follow", &source.address], &[]);
    let mut reader = follower.client();
    wait_for(&mut reader, "DBSIZE", ":300");
    assert_eq!(reader.ask(&format!("STRLEN 299:{key}")), ":100000");
    follower.stop();
    source.stop();
}

//! `siltstone serve data` as a process: what was acknowledged survives a kill.
//!
//! ```text
//! clients    SET, MSET, MULTI .. EXEC, INCR    each counts what was acknowledged
//! test       kill -9, start again              all of that is there; the last MSET and EXEC wholly or not at all
//! ```

use crate::server_process::{Client, Process};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CLIENTS: usize = 4;

/// The number of the last write of each kind that a client knows of.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    set: u64,
    mset: u64,
    exec: u64,
    incr: u64,
}

/// Writes with growing numbers, until the server is gone.
fn write(
    client: &mut Client,
    name: usize,
    known: &mut Known,
    acknowledged: &AtomicU64,
) -> std::io::Result<()> {
    for number in known.set.max(known.mset).max(known.exec).max(known.incr) + 1.. {
        client.send(&[
            format!("SET set:{name}:{number} {number}"),
            format!("MSET a:{name}:{number} {number} b:{name}:{number} {number} last:{name} {number}"),
            "MULTI".to_owned(),
            format!("SET c:{name}:{number} {number}"),
            format!("HSET d:{name}:{number} f {number}"),
            format!("SET exec:{name} {number}"),
            "EXEC".to_owned(),
            format!("INCR incr:{name}"),
        ])?;
        assert_eq!(client.reply()?, "+OK");
        known.set = number;
        assert_eq!(client.reply()?, "+OK");
        known.mset = number;
        for expected in ["+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+OK :1 +OK"] {
            assert_eq!(client.reply()?, expected);
        }
        known.exec = number;
        known.incr = client.reply()?.strip_prefix(':').unwrap().parse().unwrap();
        acknowledged.fetch_add(4, Relaxed);
    }
    Ok(())
}

/// Checks what a client knows of from one number on, and returns where it continues.
fn check(client: &mut Client, name: usize, from: u64, known: Known) -> Known {
    for number in from..=known.set {
        assert_eq!(client.ask(&format!("GET set:{name}:{number}")), number.to_string(), "{known:?}");
    }
    let newest = |text: String, known: u64, what: &str| {
        let found = if text == "-" { 0 } else { text.parse::<u64>().unwrap() };
        assert!(found == known || found == known + 1, "{what} of client {name}: {found} after {known}");
        found
    };
    let last = newest(client.ask(&format!("GET last:{name}")), known.mset, "MSET");
    let exec = newest(client.ask(&format!("GET exec:{name}")), known.exec, "EXEC");
    for number in from..=known.mset.max(last) + 1 {
        let expected = if number <= last { format!("{number} {number}") } else { "- -".to_owned() };
        assert_eq!(client.ask(&format!("MGET a:{name}:{number} b:{name}:{number}")), expected, "{known:?}");
    }
    for number in from..=known.exec.max(exec) + 1 {
        let expected = if number <= exec { number.to_string() } else { "-".to_owned() };
        assert_eq!(client.ask(&format!("GET c:{name}:{number}")), expected, "{known:?}");
        assert_eq!(client.ask(&format!("HGET d:{name}:{number} f")), expected, "{known:?}");
    }
    let incr = newest(client.ask(&format!("GET incr:{name}")), known.incr, "INCR");
    Known { set: known.set, mset: last, exec, incr }
}

/// Kills a server some times while clients write: `writes` of them at least.
fn survives_kills(durability: &str, writes: u64) {
    let kills: u64 = std::env::var("SILTSTONE_KILLS").map_or(2, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let options = ["--durability", durability];
    let mut all = [Known::default(); CLIENTS];
    let mut server = Process::start(directory.path(), &options);
    for _ in 0..kills {
        let acknowledged = AtomicU64::new(0);
        let before = all;
        std::thread::scope(|scope| {
            let mut clients = Vec::new();
            for (name, known) in all.iter_mut().enumerate() {
                let (mut client, acknowledged) = (server.client(), &acknowledged);
                clients.push(scope.spawn(move || write(&mut client, name, known, acknowledged)));
            }
            while acknowledged.load(Relaxed) < writes && !clients.iter().any(|client| client.is_finished()) {
                std::thread::yield_now();
            }
            server.child.kill().unwrap();
            for client in clients {
                assert!(client.join().unwrap().is_err(), "a client has written until the server was gone");
            }
        });
        server = Process::start(directory.path(), &options);
        let mut client = server.client();
        for (name, known) in all.iter_mut().enumerate() {
            *known = check(&mut client, name, before[name].set + 1, *known);
            // The last numbers differ by one at most; the next writes are above all of them.
            let next = known.set.max(known.mset).max(known.exec).max(known.incr) + 1;
            client.ask(&format!("MSET last:{name} {next} exec:{name} {next} incr:{name} {next}"));
            *known = Known { set: next, mset: next, exec: next, incr: next };
        }
    }
}

#[test]
fn acknowledged_writes_survive_a_kill_and_transactions_are_whole() {
    survives_kills("written", 2000);
}

#[test]
fn acknowledged_writes_that_are_synced_survive_a_kill_and_transactions_are_whole() {
    survives_kills("synced", 400);
}

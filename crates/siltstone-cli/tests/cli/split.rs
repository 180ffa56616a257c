//! A node of a cluster is split while clients write: `follow`, a new map, and `SILTSTONE RETAIN`, as docs/SCALE.md has
//! it. Both nodes are killed at several steps. `SILTSTONE_SPLITS` is the number of runs, 1 by default.

use crate::server_process::{Client, Process};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The number of keys that are written again and again.
const KEYS: usize = 200;

/// Where the nodes are now, by their names in the map.
type Addresses = Mutex<HashMap<&'static str, String>>;

struct Node {
    name: &'static str,
    directory: PathBuf,
    process: Option<Process>,
}

impl Node {
    /// Starts the node, as a copy of another one if it has a source, and notes its address.
    fn start(&mut self, map: &Path, source: Option<&str>, addresses: &Addresses) {
        // One server has a directory at a time.
        drop(self.process.take());
        let map = map.to_str().unwrap();
        let options = ["--cluster", map, "--cluster-node", self.name, "--set", "change_feed=4MiB"];
        let process = match source {
            Some(source) => Process::start_at("127.0.0.1:0", &self.directory, &["follow", source], &options),
            None => Process::start(&self.directory, &options),
        };
        let mut addresses = addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.insert(self.name, process.address.clone());
        self.process = Some(process);
    }

    fn ask(&self, request: &str) -> String {
        self.process.as_ref().unwrap().client().ask(request)
    }

    fn number(&self, field: &str) -> i64 {
        let info = self.ask("INFO replication");
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim);
        value.unwrap_or_else(|| panic!("no {field} in {info}")).parse().unwrap()
    }
}

/// Writes to whichever node the replies name, until it is stopped. Returns the last acknowledged value of each key.
fn write(addresses: &Addresses, is_stopping: &AtomicBool) -> Vec<u64> {
    let mut acknowledged = vec![0; KEYS];
    let (mut node, mut client): (&'static str, Option<Client>) = ("a:1", None);
    for number in 1.. {
        let key = number as usize % KEYS;
        let request = format!("SET key:{key} {number}");
        loop {
            if is_stopping.load(Relaxed) {
                return acknowledged;
            }
            let connected = client.take().or_else(|| {
                let address = addresses.lock().unwrap_or_else(PoisonError::into_inner)[node].clone();
                Client::connect(&address).ok()
            });
            let Some(mut connected) = connected else { continue };
            let sent = connected.send(std::slice::from_ref(&request)).and_then(|()| connected.reply());
            match sent.as_deref() {
                Ok("+OK") => {
                    acknowledged[key] = number;
                    client = Some(connected);
                    break;
                }
                Ok(moved) if moved.starts_with("-MOVED") => {
                    node = if moved.ends_with(" b:2") { "b:2" } else { "a:1" };
                }
                // The node was killed, or does not take writes yet.
                _ => thread::yield_now(),
            }
        }
    }
    acknowledged
}

fn wait_until(what: &str, mut is_reached: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_reached() {
        assert!(Instant::now() < end, "{what} is not reached");
    }
}

fn split(kills: impl Fn(usize) -> bool) {
    let directory = tempfile::tempdir().unwrap();
    let (map, new_map) = (directory.path().join("map"), directory.path().join("new-map"));
    fs::write(&map, "a:1 0-16383\nb:2\n").unwrap();
    fs::write(&new_map, "a:1 0-8191\nb:2 8192-16383\n").unwrap();
    let addresses = Addresses::default();
    let node = |name| Node { name, directory: directory.path().join(&name[..1]), process: None };
    let (mut a, mut b) = (node("a:1"), node("b:2"));
    a.start(&map, None, &addresses);
    // Until then its address is that of the other one, which replies where keys are.
    let of_a = addresses.lock().unwrap()["a:1"].clone();
    addresses.lock().unwrap().insert("b:2", of_a.clone());
    let is_stopping = AtomicBool::new(false);
    let acknowledged = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&addresses, &is_stopping));
        // 1. The new node copies the old one, until both have the same.
        b.start(&map, Some(&of_a), &addresses);
        wait_until("the first copy", || b.number("follow_lag_ms") >= 0);
        if kills(0) {
            b.start(&map, Some(&of_a), &addresses);
        }
        // 2. The old node no longer takes writes of the slots that move.
        fs::rename(&new_map, &map).unwrap();
        assert_eq!(a.ask("SILTSTONE RELOAD"), ":0");
        let reloaded = Instant::now();
        // 3. The copy has all of them once it was complete a second after that.
        wait_until("the end of the copy", || {
            let lag_ms = b.number("follow_lag_ms");
            lag_ms >= 0 && reloaded.elapsed() > Duration::from_millis(lag_ms as u64 + 1000)
        });
        // 4. The new node takes writes.
        if kills(1) {
            drop(b.process.take());
        } else {
            b.process.as_mut().unwrap().stop();
        }
        b.start(&map, None, &addresses);
        if kills(2) {
            a.start(&map, None, &addresses);
        }
        // 5. Each removes the keys of the other.
        a.ask("SILTSTONE RETAIN");
        if kills(3) {
            a.start(&map, None, &addresses);
        }
        b.ask("SILTSTONE RETAIN");
        if kills(4) {
            b.start(&map, None, &addresses);
        }
        is_stopping.store(true, Relaxed);
        writer.join().unwrap()
    });
    let (mut found, mut later) = (0, 0);
    for (key, acknowledged) in acknowledged.iter().enumerate() {
        let request = format!("GET key:{key}");
        let values: Vec<String> = [&a, &b]
            .iter()
            .map(|node| node.ask(&request))
            .filter(|reply| !reply.starts_with("-MOVED"))
            .collect();
        let [value] = &values[..] else { panic!("{key}: {values:?}") };
        let value = value.parse::<u64>().unwrap_or(0);
        assert!(value >= *acknowledged, "key:{key} is {value}, not {acknowledged}");
        later += usize::from(value > *acknowledged);
        found += usize::from(value > 0);
    }
    assert!(later <= 1, "only the last write may have arrived without its reply");
    let counted = [&a, &b].map(|node| node.ask("DBSIZE")[1..].parse::<usize>().unwrap());
    assert_eq!(counted[0] + counted[1], found, "no key is on both nodes");
    assert!(counted[0] > 0 && counted[1] > 0, "{counted:?}");
}

#[test]
fn a_node_is_split_under_load_and_killed_meanwhile_without_a_lost_write() {
    let splits = std::env::var("SILTSTONE_SPLITS").map_or(1, |splits| splits.parse::<usize>().unwrap());
    for number in 0..splits {
        // All kills in the first run, and then each selection of them.
        split(|kill| (number ^ 31) >> kill & 1 == 1);
    }
}

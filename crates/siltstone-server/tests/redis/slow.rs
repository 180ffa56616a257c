//! Commands that take long.

use crate::client::{Answer, Client};
use crate::served::serve_with;
use siltstone::{Durability, EngineKind};
use siltstone_server::{Act, Failure, KeyCount, KeyPage, MapStore, Show, Store, StoreInfo};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The key of a record that is not in memory.
const OLD: &[u8] = b"old";

/// A map whose pages of keys come only when the gate is open, as do lookups of the old record, which take a millisecond
/// at least.
#[derive(Default)]
struct Gated {
    map: MapStore,
    syncs: AtomicUsize,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gated {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn close(&self) {
        *self.is_open.lock().unwrap() = false;
    }

    fn pass(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}

/// The store of a server and of the test.
struct Shared(Arc<Gated>);

impl Store for Shared {
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure> {
        if keys.contains(&OLD) {
            let begin = Instant::now();
            self.0.pass();
            while begin.elapsed() < Duration::from_millis(1) {}
        }
        self.0.map.get_many(keys, show)
    }

    fn get_many_in_memory(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<Vec<usize>, Failure> {
        let (old, young): (Vec<usize>, Vec<usize>) = (0..keys.len()).partition(|number| keys[*number] == OLD);
        let of_young: Vec<&[u8]> = young.iter().map(|number| keys[*number]).collect();
        self.0.map.get_many(&of_young, &mut |at, found| show(young[at], found))?;
        Ok(old)
    }

    fn keys(&self, position: u64, keys_max: usize) -> Result<KeyPage, Failure> {
        self.0.pass();
        self.0.map.keys(position, keys_max)
    }

    fn random_key(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.0.map.random_key()
    }

    fn count(&self) -> Result<KeyCount, Failure> {
        self.0.map.count()
    }

    fn transact(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        self.0.map.transact(keys, act)
    }

    fn write(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        self.0.map.write(keys, act)
    }

    fn sync(&self) -> Result<(), Failure> {
        self.0.syncs.fetch_add(1, Relaxed);
        self.0.map.sync()
    }

    fn close(&self) -> Result<(), siltstone::Error> {
        self.0.map.close()
    }

    fn truncate(&self) -> siltstone::Result<Arc<dyn Store>> {
        self.0.map.truncate()
    }

    fn is_in_memory(&self) -> bool {
        false
    }

    fn about(&self) -> StoreInfo {
        self.0.map.about()
    }
}

#[test]
fn a_read_that_memory_has_does_not_wait_for_those_that_wait_for_the_device() {
    let gated = Arc::new(Gated::default());
    let store = gated.clone();
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| {
            (settings.workers, settings.helpers) = (1, 1);
            settings.places.open = Box::new(move |_, _, _| Ok(Arc::new(Shared(store.clone()))));
        },
    );
    let (mut of_old, mut of_young) = (served.client(), served.client());
    assert_eq!(of_young.line("MSET young 1 old 2"), Answer::ok());
    // From this lookup on, the worker knows that lookups wait.
    gated.open();
    assert_eq!(of_old.line("GET old"), Answer::bulk("2"));
    gated.close();
    of_old.send(&["GET", "old"]);
    for _ in 0..3 {
        assert_eq!(of_young.line("MGET young absent"), Answer::Array(vec![Answer::bulk("1"), Answer::Null]));
    }
    // Together with one that waits, it waits too.
    of_young.send(&["MGET", "young", "old"]);
    gated.open();
    assert_eq!(of_old.answer(), Answer::bulk("2"));
    assert_eq!(of_young.answer(), Answer::Array(vec![Answer::bulk("1"), Answer::bulk("2")]));
}

#[test]
fn a_copy_to_another_database_is_synced_before_its_reply_if_all_writes_are() {
    for (durability, is_synced) in [(Durability::Synced, true), (Durability::Written, false)] {
        let gated = Arc::new(Gated::default());
        let store = gated.clone();
        let served = serve_with(
            |_| {},
            EngineKind::Silt,
            |settings| {
                settings.durability = durability;
                settings.places.open = Box::new(move |_, _, _| Ok(Arc::new(Shared(store.clone()))));
            },
        );
        let mut client = served.client();
        assert_eq!(client.line("SET a 1"), Answer::ok());
        let before = gated.syncs.load(Relaxed);
        assert_eq!(client.line("COPY a b DB 1"), Answer::Integer(1));
        assert_eq!(gated.syncs.load(Relaxed) > before, is_synced, "{durability:?}");
    }
}

#[test]
fn a_value_is_copied_to_another_database_with_its_expiry() {
    let served = serve_with(|_| {}, EngineKind::Silt, |_| {});
    let mut client = served.client();
    for (request, reply) in [
        ("SELECT 1", Answer::ok()),
        ("SET a 1 EX 1000", Answer::ok()),
        ("HSET h f v", Answer::Integer(1)),
        ("COPY a b DB 3", Answer::Integer(1)),
        ("COPY h a DB 3", Answer::Integer(1)),
        ("COPY missing b DB 3", Answer::Integer(0)),
        ("COPY h b DB 3", Answer::Integer(0)),
        ("COPY a a DB 1", Answer::Error("ERR source and destination objects are the same".into())),
        ("COPY a a2 db 1", Answer::Integer(1)),
        ("COPY a b DB 16", Answer::Error("ERR DB index is out of range".into())),
        ("COPY a b DB x", Answer::Error("ERR value is not an integer or out of range".into())),
        ("COPY a b DB", Answer::Error("ERR syntax error".into())),
        ("SELECT 3", Answer::ok()),
        ("GET b", Answer::bulk("1")),
        ("HGET a f", Answer::bulk("v")),
        ("COPY a b REPLACE DB 1", Answer::Integer(1)),
        ("MULTI", Answer::ok()),
        ("COPY a b DB 1", Answer::Status("QUEUED".into())),
    ] {
        assert_eq!(client.line(request), reply, "{request}");
    }
    let Answer::Array(replies) = client.line("EXEC") else { panic!("no array") };
    assert!(matches!(&replies[..], [Answer::Error(error)] if error.contains("transaction")), "{replies:?}");
    let Answer::Integer(seconds) = client.line("TTL b") else { panic!("no number") };
    assert!((900..=1000).contains(&seconds), "{seconds}");
}

#[test]
fn commands_that_take_long_keep_only_their_connections_waiting() {
    let gated = Arc::new(Gated::default());
    let store = gated.clone();
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| settings.places.open = Box::new(move |_, _, _| Ok(Arc::new(Shared(store.clone())))),
    );
    let mut waiting: Vec<_> = (0..5).map(|_| served.client()).collect();
    waiting.iter_mut().for_each(|client| client.send(&["KEYS", "*"]));
    let mut other = served.client();
    for number in 1..20 {
        assert_eq!(other.line("INCR a"), Answer::Integer(number));
        assert_eq!(other.line("GET a"), Answer::bulk(number.to_string()));
    }
    gated.open();
    for client in &mut waiting {
        assert_eq!(client.answer(), Answer::Array(vec![Answer::bulk("a")]));
    }
}

#[test]
fn move_takes_a_key_with_its_expiry_to_a_database_that_has_it_not() {
    let served = serve_with(|_| {}, EngineKind::Silt, |_| {});
    let mut client = served.client();
    let error = |text: &str| Answer::Error(text.to_owned());
    for line in ["SELECT 2", "SET a 1 EX 1000", "HSET h f v"] {
        assert!(!matches!(client.line(line), Answer::Error(_)), "{line}");
    }
    for (line, expected) in [
        ("MOVE a 2", error("ERR source and destination objects are the same")),
        ("MOVE a 16", error("ERR DB index is out of range")),
        ("MOVE a x", error("ERR value is not an integer or out of range")),
        ("MOVE missing 1", Answer::Integer(0)),
        ("MOVE a 1", Answer::Integer(1)),
        ("MOVE h 1", Answer::Integer(1)),
        ("EXISTS a h", Answer::Integer(0)),
        ("SET a 2", Answer::ok()),
        ("MOVE a 1", Answer::Integer(0)),
        ("GET a", Answer::bulk("2")),
        ("WATCH a", Answer::ok()),
        ("MULTI", Answer::ok()),
        ("MOVE a 4", error("ERR Command not allowed inside a transaction")),
        ("DISCARD", Answer::ok()),
        ("SELECT 1", Answer::ok()),
        ("GET a", Answer::bulk("1")),
        ("HGET h f", Answer::bulk("v")),
        ("MOVE a 5", Answer::Integer(1)),
        ("SELECT 5", Answer::ok()),
        ("GET a", Answer::bulk("1")),
    ] {
        assert_eq!(client.line(line), expected, "{line}");
    }
    assert!(matches!(client.line("TTL a"), Answer::Integer(900..=1000)));
    // A key that is watched has changed when it has moved, here and there.
    let mut other = served.client();
    for line in ["SELECT 6", "WATCH a", "SELECT 5", "WATCH a", "MULTI", "PING"] {
        other.line(line);
    }
    assert_eq!(client.line("MOVE a 6"), Answer::Integer(1));
    assert_eq!(other.line("EXEC"), Answer::Null);
    let script = client.ask(&["EVAL", "return redis.call('move', KEYS[1], 3)", "1", "a"]).text();
    assert!(script.contains("may read the whole store, so a script cannot call it"), "{script}");
}

#[test]
fn of_writes_and_moves_at_the_same_time_nothing_is_lost() {
    let served = serve_with(|_| {}, EngineKind::Silt, |_| {});
    let (mut mover, mut writer) = (served.client(), served.client());
    let mut sum = 0;
    for _ in 0..50 {
        (0..10).for_each(|_| writer.send(&["INCR", "n"]));
        assert!(matches!(mover.line("MOVE n 1"), Answer::Integer(0 | 1)));
        (0..10).for_each(|_| assert!(matches!(writer.answer(), Answer::Integer(_))));
        // What has moved, and what was counted here since then.
        let take = |client: &mut Client, database: &str| {
            client.line(&format!("SELECT {database}"));
            let taken = client.line("GETDEL n");
            if taken == Answer::Null { 0 } else { taken.text().parse::<u64>().unwrap() }
        };
        sum += take(&mut mover, "1") + take(&mut mover, "0");
    }
    assert_eq!(sum, 500);
}

//! Faults of a store, and databases that are replaced while clients use them.

use crate::client::{Answer, Client};
use crate::served::{serve, serve_with, settings};
use siltstone::EngineKind;
use siltstone_server::{Act, Failure, KeyCount, KeyPage, MapStore, Server, Show, Store, StoreInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// A map that panics for the key `fault`, and whose updates may wait for a device.
#[derive(Default)]
struct Faulty(MapStore);

fn check(keys: &[&[u8]]) {
    assert!(!keys.contains(&&b"fault"[..]), "as the test wants it");
}

impl Store for Faulty {
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure> {
        check(keys);
        self.0.get_many(keys, show)
    }

    fn keys(&self, _: u64, _: usize) -> Result<KeyPage, Failure> {
        panic!("as the test wants it")
    }

    fn random_key(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.0.random_key()
    }

    fn count(&self) -> Result<KeyCount, Failure> {
        self.0.count()
    }

    fn transact(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        check(keys);
        self.0.transact(keys, act)
    }

    fn write(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        self.0.write(keys, act)
    }

    fn sync(&self) -> Result<(), Failure> {
        self.0.sync()
    }

    fn close(&self) -> Result<(), siltstone::Error> {
        self.0.close()
    }

    fn truncate(&self) -> siltstone::Result<Arc<dyn Store>> {
        self.0.truncate()
    }

    fn is_in_memory(&self) -> bool {
        false
    }

    fn about(&self) -> StoreInfo {
        self.0.about()
    }
}

#[test]
fn a_panic_ends_the_connections_whose_requests_it_concerns_and_the_server_serves_on() {
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| {
            settings.workers = 1;
            settings.places.open = Box::new(|_, _, _| Ok(Arc::<Faulty>::default()));
        },
    );
    // By helper threads: an update, and a command that takes long.
    for request in ["INCR fault", "KEYS *"] {
        let mut client = served.client();
        assert!(client.line(request).text().starts_with("ERR a fault of the server"), "{request}");
        assert!(client.is_ended(), "{request}");
    }
    // By the worker: all of its connections end.
    let mut client = served.client();
    assert_eq!(client.line("SET a 1"), Answer::ok());
    client.send(&["GET", "fault"]);
    assert!(client.is_ended());
    let mut client = served.client();
    assert_eq!(client.line("GET a"), Answer::bulk("1"));
    assert_eq!(client.line("INCR a"), Answer::Integer(2));
}

#[test]
fn requests_during_a_flush_are_those_before_or_after_it() {
    let served = serve();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for requests in
            ["INCR n", "SET a 1", "GET a", "MGET a n", "DBSIZE", "SCAN 0"].map(|line| (line, served.client()))
        {
            let is_done = &is_done;
            scope.spawn(move || {
                let (line, mut client) = requests;
                while !is_done.load(Relaxed) {
                    let answer = client.line(line);
                    assert!(!matches!(answer, Answer::Error(_)), "{line}: {answer:?}");
                }
            });
        }
        let flushing = [served.client(), served.client()].map(|mut client| {
            scope.spawn(move || (0..15).map(|_| client.line("FLUSHDB")).collect::<Vec<Answer>>())
        });
        let flushed = flushing.map(|flushing| flushing.join().unwrap()).concat();
        is_done.store(true, Relaxed);
        assert!(flushed.iter().all(|answer| *answer == Answer::ok()), "{flushed:?}");
    });
    // What is written after the last flush is in the database that is served, also after another start.
    let mut client = served.client();
    assert_eq!(client.line("SET last 1"), Answer::ok());
    served.server.stop().unwrap();
    let server = Server::start(settings(served.directory.path())).unwrap();
    let mut client = Client::connect(server.redis_address().unwrap());
    assert_eq!(client.line("GET last"), Answer::bulk("1"));
}

//! Commands that take long.

use crate::client::Answer;
use crate::served::serve_with;
use siltstone::EngineKind;
use siltstone_server::{Act, Failure, KeyCount, KeyPage, MapStore, Show, Store, StoreInfo};
use std::sync::{Arc, Condvar, Mutex};

/// A map whose pages of keys come only when the gate is open, and whose lookups may wait for a device.
#[derive(Default)]
struct Gated {
    map: MapStore,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gated {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// The store of a server and of the test.
struct Shared(Arc<Gated>);

impl Store for Shared {
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure> {
        self.0.map.get_many(keys, show)
    }

    fn keys(&self, position: u64, keys_max: usize) -> Result<KeyPage, Failure> {
        let is_open = self.0.is_open.lock().unwrap();
        drop(self.0.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
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
        self.0.map.sync()
    }

    fn close(&self) -> Result<(), siltstone::Error> {
        self.0.map.close()
    }

    fn is_in_memory(&self) -> bool {
        false
    }

    fn about(&self) -> StoreInfo {
        self.0.map.about()
    }
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

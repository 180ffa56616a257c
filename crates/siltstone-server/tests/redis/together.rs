//! Requests that have too many bytes of values or of replies to be executed together.

use crate::client::{Answer, Client, encode};
use crate::served::{Served, serve_with};
use siltstone::EngineKind;
use siltstone_server::{Act, Failure, KeyCount, KeyPage, KeyState, MapStore, Show, Store, StoreInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes of the values that a transaction may have.
const BYTES_MAX: usize = 10_000;

/// A map, the most bytes of the values that a transaction has left, and the number of those with several keys.
#[derive(Default)]
struct Noted {
    map: MapStore,
    most: AtomicUsize,
    of_several: AtomicUsize,
}

/// The store of a server and of the test.
struct Shared(Arc<Noted>);

impl Store for Shared {
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure> {
        self.0.map.get_many(keys, show)
    }

    fn keys(&self, position: u64, keys_max: usize) -> Result<KeyPage, Failure> {
        self.0.map.keys(position, keys_max)
    }

    fn random_key(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.0.map.random_key()
    }

    fn count(&self) -> Result<KeyCount, Failure> {
        self.0.map.count()
    }

    fn transact(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        self.0.of_several.fetch_add(usize::from(keys.len() > 1), Relaxed);
        self.0.map.transact(keys, &mut |states: &mut [KeyState]| {
            act(states);
            let bytes = states.iter().filter_map(|state| state.entry()).map(|entry| entry.value.len()).sum();
            self.0.most.fetch_max(bytes, Relaxed);
        })
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

/// Starts a server whose transactions may have few bytes.
fn serve_noted() -> (Served, Arc<Noted>) {
    let noted = Arc::<Noted>::default();
    let store = noted.clone();
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| {
            settings.limits.transaction_bytes_max = BYTES_MAX;
            settings.places.open = Box::new(move |_, _, _| Ok(Arc::new(Shared(store.clone()))));
        },
    );
    (served, noted)
}

/// Sends lines of words in one packet.
fn send_lines(client: &mut Client, lines: impl Iterator<Item = String>) {
    let requests = lines.flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>()));
    client.send_bytes(&requests.collect::<Vec<u8>>());
}

/// Puts 100 values of 1,000 bytes.
fn put_values(client: &mut Client) {
    send_lines(client, (0..100).map(|number| format!("SETBIT k{number} 7999 1")));
    (0..100).for_each(|_| assert_eq!(client.answer(), Answer::Integer(0)));
    assert_eq!(client.line("DBSIZE"), Answer::Integer(100));
}

fn assert_refused(answer: &Answer) {
    let text = answer.text();
    assert!(text.starts_with("ERR the values that are read and written at once"), "{text}");
}

#[test]
fn requests_whose_values_are_too_long_together_are_executed_one_by_one() {
    let (served, noted) = serve_noted();
    let mut client = served.client();
    put_values(&mut client);
    // What they find counts too.
    send_lines(&mut client, (0..100).map(|number| format!("GETDEL k{number}")));
    (0..100).for_each(|_| assert_eq!(client.answer().text().len(), 1000));
    let most = noted.most.load(Relaxed);
    assert!((1000..=BYTES_MAX).contains(&most), "{most}");
}

#[test]
fn one_request_whose_values_are_too_long_changes_nothing() {
    let (served, _) = serve_noted();
    let mut client = served.client();
    assert_refused(&client.line("SETBIT long 80000 1"));
    assert_eq!(client.line("MULTI"), Answer::ok());
    for number in 0..20 {
        client.line(&format!("SETBIT k{number} 7999 1"));
    }
    assert_refused(&client.line("EXEC"));
    assert_refused(&set_bits(&mut client, 20));
    assert_eq!(client.line("DBSIZE"), Answer::Integer(0));
    assert_eq!(set_bits(&mut client, 9), Answer::Integer(9));
    assert_eq!(client.line("DBSIZE"), Answer::Integer(9));
}

/// Puts values of 1,000 bytes by a script that passes over errors.
fn set_bits(client: &mut Client, keys: usize) -> Answer {
    let script = "for _, key in ipairs(KEYS) do redis.pcall('setbit', key, 7999, 1) end return #KEYS";
    let names: Vec<String> = (0..keys).map(|number| format!("k{number}")).collect();
    client.ask(&[vec!["EVAL".to_owned(), script.to_owned(), keys.to_string()], names].concat())
}

#[test]
fn keys_are_deleted_however_long_their_values_are() {
    let (served, noted) = serve_noted();
    let (mut client, mut other) = (served.client(), served.client());
    for command in ["DEL", "UNLINK"] {
        put_values(&mut client);
        for line in ["WATCH k7", "MULTI", "PING"] {
            other.line(line);
        }
        let keys: Vec<String> = (0..200).map(|number| format!("k{number}")).collect();
        let before = noted.of_several.load(Relaxed);
        assert_eq!(client.line(&format!("{command} {} k1", keys.join(" "))), Answer::Integer(100));
        assert_eq!(noted.of_several.load(Relaxed) - before, 1, "all keys are looked up together once");
        assert_eq!(client.line("DBSIZE"), Answer::Integer(0));
        assert_eq!(other.line("EXEC"), Answer::Null, "{command} is a change");
    }
}

#[test]
fn a_long_script_among_requests_that_are_too_long_together_keeps_no_one_waiting() {
    let served = serve_with(
        |_| {},
        EngineKind::Mica,
        |settings| (settings.workers, settings.limits.transaction_bytes_max) = (1, 1000),
    );
    let (mut client, mut other) = (served.client(), served.client());
    let lines = (0..20).map(|number| encode(&["SETBIT", &format!("k{number}"), "799", "1"]));
    let script = encode(&["EVAL", "while true do end", "0"]);
    client.send_bytes(&lines.chain([script]).flatten().collect::<Vec<u8>>());
    while other.line("SCRIPT KILL") != Answer::ok() {
        std::thread::yield_now();
    }
    (0..20).for_each(|_| assert_eq!(client.answer(), Answer::Integer(0)));
    let text = client.answer().text();
    assert!(text.contains("Script killed by user"), "{text}");
}

#[test]
fn what_a_script_has_put_before_it_was_stopped_is_not_counted() {
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| {
            settings.limits.transaction_bytes_max = BYTES_MAX;
            settings.limits.script_memory_bytes_max = 4 << 20;
        },
    );
    let mut client = served.client();
    let script = "redis.call('setbit', KEYS[1], 63999, 1) return string.rep('x', 100000000)";
    assert_eq!(client.line("MULTI"), Answer::ok());
    client.ask(&["EVAL", script, "1", "first"]);
    client.line("SETBIT second 63999 1");
    let replies = client.line("EXEC");
    let [stopped, put] = replies.items() else { panic!("{replies:?}") };
    assert!(stopped.text().contains("not enough memory"), "{stopped:?}");
    assert_eq!(*put, Answer::Integer(0));
    assert_eq!(client.line("EXISTS first second"), Answer::Integer(1));
}

/// Returns the bytes of replies that a connection with a name has not taken.
fn untaken_bytes(other: &mut Client, name: &str) -> usize {
    let list = other.line("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains(&format!(" name={name} "))).unwrap();
    line.split(' ').find_map(|field| field.strip_prefix("obl=")).unwrap().parse().unwrap()
}

#[test]
fn requests_after_long_replies_wait_until_the_client_has_taken_them() {
    let served = serve_with(
        |database| database.put("long", vec![b'v'; 100_000]).unwrap(),
        EngineKind::Silt,
        |settings| (settings.workers, settings.limits.transaction_bytes_max) = (1, 250_000),
    );
    let (mut monitor, mut other) = (served.client(), served.client());
    assert_eq!(monitor.line("MONITOR"), Answer::ok());
    // By the worker, and by a helper thread.
    for command in ["GET", "GETEX"] {
        let mut client = served.client();
        assert_eq!(client.line(&format!("CLIENT SETNAME {command}")), Answer::ok());
        // After short replies a turn has many requests.
        send_lines(&mut client, (0..1000).map(|_| format!("{command} absent")));
        (0..1000).for_each(|_| assert_eq!(client.answer(), Answer::Null));
        // More than the sockets hold.
        let pairs = (0..600).map(|number| [format!("{command} long"), format!("GETRANGE long 0 {number}")]);
        send_lines(&mut client, pairs.flatten());
        let untaken = loop {
            match untaken_bytes(&mut other, command) {
                0 => {}
                bytes => break bytes,
            }
        };
        assert!(untaken < 4_000_000, "{command}: {untaken}");
        for number in 0..600 {
            assert_eq!(client.answer().text().len(), 100_000);
            assert_eq!(client.answer().text().len(), number + 1, "in their order");
        }
        assert_eq!(client.line("ECHO end"), Answer::bulk("end"));
        // Each request is shown once.
        let mut shown = 0;
        loop {
            let line = monitor.answer().text();
            shown += usize::from(line.ends_with(&format!("\"{command}\" \"long\"")));
            if line.contains("\"end\"") {
                break;
            }
        }
        assert_eq!(shown, 600, "{command}");
    }
}

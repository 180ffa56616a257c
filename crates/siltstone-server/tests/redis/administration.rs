//! What those who run a server ask for: its connections, slow commands, the times of commands, and settings.

use crate::client::{Answer, Client};
use crate::served::{fill, serve, serve_with};
use siltstone::{Durability, EngineKind};
use siltstone_server::{Act, Failure, KeyCount, KeyPage, MapStore, Show, Store, StoreInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Returns a field of a line of CLIENT LIST.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let fields = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    fields.unwrap_or_else(|| panic!("no {name} in {line}"))
}

#[test]
fn client_list_has_the_connections_of_all_workers_with_the_fields_of_redis() {
    let served = serve();
    let mut clients: Vec<Client> = (0..3).map(|_| served.client()).collect();
    let [one, other, third] = &mut clients[..] else { panic!("there are three") };
    one.line("CLIENT SETNAME one");
    one.line("SELECT 2");
    one.line("MULTI");
    one.line("GET a");
    other.line("HELLO 3");
    other.line("SUBSCRIBE channel");
    third.line("CLIENT SETINFO LIB-NAME lib");
    let listed = third.line("CLIENT LIST").text();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    let names: Vec<&str> = lines[0].split(' ').map(|field| field.split_once('=').unwrap().0).collect();
    let expected = "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs \
                    rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver";
    assert_eq!(names.join(" "), expected);
    let fields = |line, names: &[&str]| names.iter().map(|name| field(line, name)).collect::<Vec<_>>();
    let of = ["name", "flags", "db", "sub", "multi", "cmd", "resp", "lib-name"];
    assert_eq!(fields(lines[0], &of), ["one", "x", "2", "0", "1", "get", "2", ""]);
    assert_eq!(fields(lines[1], &of), ["", "P", "0", "1", "-1", "subscribe", "3", ""]);
    assert_eq!(fields(lines[2], &of), ["", "N", "0", "0", "-1", "client|list", "2", "lib"]);
    let address = served.server.redis_address().unwrap().to_string();
    assert!(lines.iter().all(|line| field(line, "laddr") == address), "{listed}");
    let id = field(lines[1], "id");
    assert_eq!(third.line(&format!("CLIENT LIST ID {id} 999")).text().lines().count(), 1);
    assert!(third.line("CLIENT LIST TYPE pubsub").text().starts_with(&format!("id={id} ")));
    assert!(third.line("INFO clients").text().contains("pubsub_clients:1\r\n"));
    assert_eq!(field(&third.line("CLIENT INFO").text(), "cmd"), "client|info");
}

#[test]
fn client_kill_ends_the_connections_that_it_means() {
    let served = serve();
    let mut clients: Vec<Client> = (0..6).map(|_| served.client()).collect();
    let ids: Vec<String> = clients
        .iter_mut()
        .map(|client| match client.line("CLIENT ID") {
            Answer::Integer(id) => id.to_string(),
            other => panic!("{other:?} is no number"),
        })
        .collect();
    clients[3].line("SUBSCRIBE a");
    let mut own = clients.pop().unwrap();
    let listed = own.line(&format!("CLIENT LIST ID {}", ids[1])).text();
    let address = field(&listed, "addr");
    for (line, expected, ended) in [
        (format!("CLIENT KILL ID {}", ids[0]), Answer::Integer(1), 0),
        (format!("CLIENT KILL {address}"), Answer::ok(), 1),
        (format!("CLIENT KILL ADDR {address}"), Answer::Integer(0), 1),
        (format!("CLIENT KILL ID {} SKIPME yes", ids[5]), Answer::Integer(0), 1),
        ("CLIENT KILL TYPE pubsub USER default".to_owned(), Answer::Integer(1), 3),
        ("CLIENT KILL MAXAGE 100000".to_owned(), Answer::Integer(0), 3),
    ] {
        assert_eq!(own.line(&line), expected, "{line}");
        assert!(clients[ended].is_ended(), "{line}");
    }
    assert_eq!(own.line("PUBSUB CHANNELS"), Answer::Array(Vec::new()));
    assert_eq!(clients[2].line("PING"), Answer::Status("PONG".to_owned()), "others are not ended");
    assert_eq!(own.line("CLIENT KILL TYPE normal SKIPME no"), Answer::Integer(3));
    assert!(own.is_ended() && clients[2].is_ended() && clients[4].is_ended());
}

#[test]
fn the_slow_log_has_executions_above_the_limit_without_passwords() {
    let served = serve();
    let mut client = served.client();
    assert_eq!(client.line("SLOWLOG LEN"), Answer::Integer(0));
    assert_eq!(client.line("CLIENT SETNAME me"), Answer::ok());
    assert_eq!(client.line("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 5"), Answer::ok());
    client.line("GET key:1");
    client.line("SET a 1");
    client.line("HELLO 2 AUTH default secret");
    client.line("KEYS none*");
    assert_eq!(client.line("CONFIG SET slowlog-log-slower-than -1"), Answer::ok());
    client.line("GET key:2");
    let entries = client.line("SLOWLOG GET");
    let words: Vec<String> = entries
        .items()
        .iter()
        .map(|entry| entry.items()[3].items().iter().map(Answer::text).collect::<Vec<_>>().join(" "))
        .collect();
    // The newest first. What CONFIG SET sets counts for itself too.
    let expected = [
        "KEYS none*",
        "HELLO 2 AUTH (redacted) (redacted)",
        "SET a 1",
        "GET key:1",
        "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 5",
    ];
    assert_eq!(words, expected);
    let newest = entries.items()[0].items();
    assert_eq!((newest.len(), newest[5].text()), (6, "me".to_owned()));
    assert!(newest[4].text().starts_with("127.0.0.1:"));
    assert_eq!(client.line("SLOWLOG GET 2").items().len(), 2);
    assert_eq!(client.line("SLOWLOG RESET"), Answer::ok());
    assert_eq!(client.line("SLOWLOG LEN"), Answer::Integer(0));
}

#[test]
fn the_times_of_all_kinds_of_commands_are_counted() {
    let served = serve();
    let mut client = served.client();
    client.line("HELLO 3");
    for _ in 0..3 {
        client.line("GET key:1");
        client.line("INCR a");
        client.line("KEYS none*");
        client.line("PING");
    }
    client.line("MULTI");
    client.line("INCR a");
    client.line("EXEC");
    client.line("GET");
    let Answer::Map(found) = client.line("LATENCY HISTOGRAM get incr keys ping nosuch") else {
        panic!("it is a map")
    };
    let mut calls = Vec::new();
    for (name, of_command) in found {
        let Answer::Map(fields) = of_command else { panic!("{of_command:?} is no map") };
        let [(_, Answer::Integer(count)), (_, Answer::Map(buckets))] = &fields[..] else {
            panic!("{fields:?} has other fields")
        };
        assert_eq!(buckets.last().map(|(_, count)| count), Some(&Answer::Integer(*count)), "{buckets:?}");
        calls.push((name.text(), *count));
    }
    let expected = [("get", 3), ("incr", 4), ("keys", 3), ("ping", 3)];
    assert_eq!(calls, expected.map(|(name, count)| (name.to_owned(), count)));
    assert!(client.line("INFO commandstats").text().contains("cmdstat_get:calls=3,usec="));
    assert!(!client.line("INFO").text().contains("cmdstat_"));
    assert!(client.line("INFO cpu").text().contains("used_cpu_user:"));
    assert_eq!(client.line("CONFIG RESETSTAT"), Answer::ok());
    assert_eq!(client.line("LATENCY HISTOGRAM get"), Answer::Map(Vec::new()));
}

#[test]
fn config_set_changes_what_counts_from_then_on() {
    let served = serve();
    let mut client = served.client();
    assert_eq!(client.line("CONFIG SET maxclients 1"), Answer::ok());
    let mut refused = served.client();
    assert_eq!(refused.answer(), Answer::Error("ERR max number of clients reached".to_owned()));
    assert_eq!(client.line("CONFIG SET maxclients 10"), Answer::ok());
    let mut other = served.client();
    assert_eq!(other.line("PING"), Answer::Status("PONG".to_owned()));
    let refused = client.line("CONFIG SET port 1");
    assert!(
        matches!(&refused, Answer::Error(text) if text.contains("can't set immutable config")),
        "{refused:?}"
    );
    assert!(matches!(client.line("CONFIG REWRITE"), Answer::Error(text) if text.contains("config file")));
    // The worker of an idle connection hears of it.
    assert_eq!(client.line("CONFIG SET timeout 1"), Answer::ok());
    assert!(other.is_ended());
    let mut subscriber = served.client();
    assert_eq!(subscriber.line("SUBSCRIBE a").items()[0], Answer::bulk("subscribe"));
    let mut idle = served.client();
    assert!(idle.is_ended());
    assert_eq!(subscriber.line("PING").items()[0], Answer::bulk("pong"), "a subscriber is not idle");
}

/// A map that counts its syncs.
#[derive(Default)]
struct Synced {
    map: MapStore,
    syncs: AtomicU64,
}

/// The store of a server and of the test.
struct Shared(Arc<Synced>);

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
        self.0.map.transact(keys, act)
    }

    fn write(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure> {
        self.0.map.write(keys, act)
    }

    fn sync(&self) -> Result<(), Failure> {
        self.0.syncs.fetch_add(1, SeqCst);
        Ok(())
    }

    fn close(&self) -> Result<(), siltstone::Error> {
        Ok(())
    }

    fn truncate(&self) -> siltstone::Result<Arc<dyn Store>> {
        self.0.map.truncate()
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn about(&self) -> StoreInfo {
        self.0.map.about()
    }
}

#[test]
fn appendfsync_says_when_writes_are_synced() {
    let store = Arc::new(Synced::default());
    let shared = store.clone();
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| {
            settings.durability = Durability::Synced;
            settings.places.open = Box::new(move |_, _, _| Ok(Arc::new(Shared(shared.clone()))));
        },
    );
    let mut client = served.client();
    let syncs = || store.syncs.load(SeqCst);
    assert_eq!(client.line("CONFIG GET appendfsync").items()[1], Answer::bulk("always"));
    assert_eq!(client.line("SET a 1"), Answer::ok());
    assert_eq!(syncs(), 1);
    assert_eq!(client.line("CONFIG SET appendfsync no"), Answer::ok());
    assert_eq!(client.line("SET a 2"), Answer::ok());
    assert_eq!(syncs(), 1);
    assert_eq!(client.line("CONFIG SET appendfsync everysec"), Answer::ok());
    while syncs() == 1 {
        assert_eq!(
            client.line("PING"),
            Answer::Status("PONG".to_owned()),
            "without a write, within a second"
        );
    }
    assert_eq!(client.line("CONFIG SET appendfsync always"), Answer::ok());
    let before = syncs();
    assert_eq!(client.line("SET a 3"), Answer::ok());
    assert!(syncs() > before);
}

#[test]
fn memory_usage_has_the_bytes_of_the_key_and_the_value() {
    let served = serve_with(fill, EngineKind::Silt, |_| {});
    let mut client = served.client();
    assert_eq!(client.line("SET key 12345"), Answer::ok());
    assert_eq!(client.line("MEMORY USAGE key"), Answer::Integer(3 + 1 + 5));
    assert_eq!(client.line("MEMORY USAGE key SAMPLES 5"), Answer::Integer(3 + 1 + 5));
    assert_eq!(client.line("MEMORY USAGE absent"), Answer::Null);
    assert!(!client.line("MEMORY HELP").items().is_empty());
}

#[test]
fn shutdown_asks_for_the_end_of_the_server_and_has_no_reply() {
    let served = serve();
    let mut client = served.client();
    assert!(!served.server.is_shutdown_requested());
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert!(client.is_ended());
    assert!(served.server.is_shutdown_requested());
    served.server.stop().unwrap();
}

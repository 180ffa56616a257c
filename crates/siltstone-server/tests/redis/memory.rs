//! One limit for the memory of databases and connections.

use crate::client::{Answer, Client};
use crate::served::{serve_with, settings};
use siltstone::{Database, EngineKind};
use siltstone_server::{DatabaseStore, Server, ServerSettings};
use std::sync::{Arc, Mutex};

/// Returns settings whose databases have two partitions, and the shares with which they are opened.
fn noted(directory: &std::path::Path, memory: u64) -> (ServerSettings, Arc<Mutex<Vec<u64>>>) {
    let shares = Arc::<Mutex<Vec<u64>>>::default();
    let mut settings = settings(directory);
    settings.memory = Some(memory);
    let noted = shares.clone();
    settings.places.open = Box::new(move |path, form, share| {
        noted.lock().unwrap().push(share.unwrap());
        let builder = Database::builder(path).background_threads(1).partitions(2);
        Ok(Arc::new(DatabaseStore::new(builder.memory_budget(share.unwrap()).open()?, form)))
    });
    (settings, shares)
}

fn field(client: &mut Client, name: &str) -> u64 {
    let info = client.line("INFO").text();
    let prefix = format!("{name}:");
    let value = info.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("no {name} in {info}")).parse().unwrap()
}

#[test]
fn open_databases_have_equal_shares_of_what_connections_leave() {
    let directory = tempfile::tempdir().unwrap();
    let (settings, shares) = noted(directory.path(), 16 << 20);
    let server = Server::start(settings).unwrap();
    let mut client = Client::connect(server.redis_address().unwrap());
    for database in 0..3 {
        client.line(&format!("SELECT {database}"));
        assert_eq!(client.line("SET a 1"), Answer::ok());
    }
    // A flush leaves the shares as they are.
    assert_eq!(client.line("FLUSHDB"), Answer::ok());
    assert_eq!(*shares.lock().unwrap(), [14 << 20, 7 << 20, (14 << 20) / 3]);
    assert_eq!(client.line("CONFIG GET maxmemory").items()[1], Answer::bulk((16 << 20).to_string()));
    assert_eq!(field(&mut client, "maxmemory"), 16 << 20);
    assert!((1..16 << 20).contains(&field(&mut client, "used_memory")));
    server.stop().unwrap();
}

#[test]
fn a_database_for_which_memory_does_not_suffice_is_refused_and_the_others_keep_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let (settings, shares) = noted(directory.path(), 1 << 20);
    let server = Server::start(settings).unwrap();
    let mut client = Client::connect(server.redis_address().unwrap());
    assert_eq!(client.line("SET a 1"), Answer::ok());
    assert_eq!(client.line("SELECT 1"), Answer::ok());
    let refused = client.line("SET a 2").text();
    assert!(refused.contains("memory") && refused.contains("use fewer databases"), "{refused}");
    assert_eq!(client.line("SELECT 0"), Answer::ok());
    assert_eq!(client.line("GET a"), Answer::bulk("1"));
    assert_eq!(client.line("SET b 1"), Answer::ok());
    assert_eq!(*shares.lock().unwrap(), [7 << 17], "the second database was not opened");
    server.stop().unwrap();
}

#[test]
fn a_full_engine_in_memory_refuses_writes_as_redis_and_memcached_do_and_serves_what_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.memory = Some(1 << 20);
    (settings.places.databases, settings.places.are_shares_fixed) = (1, true);
    settings.places.open = Box::new(|path, form, share| {
        let builder = Database::builder(path).engine(EngineKind::Mica).partitions(1);
        Ok(Arc::new(DatabaseStore::new(builder.memory_budget(share.unwrap()).open()?, form)))
    });
    let server = Server::start(settings).unwrap();
    let mut client = Client::connect(server.redis_address().unwrap());
    let refused = (0..).find_map(|number| match client.line(&format!("SET key{number} {number}")) {
        Answer::Error(text) => Some((number, text)),
        _ => None,
    });
    let (refused, text) = refused.unwrap();
    assert!(refused > 5_000, "{refused}");
    assert!(text.starts_with("OOM command not allowed when used memory > 'maxmemory': "), "{text}");
    assert!(text.contains("record_bytes"), "{text}");
    assert_eq!(client.line("GET key0"), Answer::bulk("0"));
    let mut memcached = crate::memcached::Client::connect(server.memcached_address());
    let mut replies = (0..10_000).map(|number| memcached.ask(&format!("set other{number} 0 0 1\r\nx")));
    let text = replies.find(|reply| reply != "STORED\r\n").unwrap();
    assert!(text.starts_with("SERVER_ERROR out of memory storing object: "), "{text}");
    server.stop().unwrap();
}

#[test]
fn connections_with_the_most_bytes_are_closed_before_buffers_exceed_their_part() {
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| {
            (settings.workers, settings.memory) = (1, Some(8 << 20));
        },
    );
    let mut watcher = served.client();
    // An eighth of 8 MiB, and two thirds of it: 0.7 MB. Each request claims less, and misses its end.
    let mut clients: Vec<Client> = (0..4).map(|_| served.client()).collect();
    for client in &mut clients {
        client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$300000\r\n");
        client.send_bytes(&[b'x'; 290_000]);
    }
    while field(&mut watcher, "evicted_clients") == 0 {}
    assert!(field(&mut watcher, "mem_clients_normal") <= 1 << 20);
    // Those that were not closed can end their requests.
    let evicted = field(&mut watcher, "evicted_clients");
    drop(clients);
    assert!(evicted < 4, "{evicted} of 4 were closed");
    let refused = watcher.line("SET a 1");
    assert_eq!(refused, Answer::ok());
    let mut client = served.client();
    client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$400000\r\n");
    assert_eq!(client.answer(), Answer::Error("ERR Protocol error: invalid bulk length".to_owned()));
}

#[test]
fn the_limit_of_memory_changes_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let (settings, shares) = noted(directory.path(), 16 << 20);
    let server = Server::start(settings).unwrap();
    let mut client = Client::connect(server.redis_address().unwrap());
    assert_eq!(client.line("SET a 1"), Answer::ok());
    assert_eq!(client.line("CONFIG SET maxmemory 32mb"), Answer::ok());
    assert_eq!(client.line("CONFIG GET maxmemory").items()[1], Answer::bulk((32 << 20).to_string()));
    assert_eq!(field(&mut client, "maxmemory"), 32 << 20);
    assert_eq!(client.line("CONFIG GET proto-max-bulk-len").items()[1], Answer::bulk("1398101"));
    assert_eq!(client.line("SELECT 1"), Answer::ok());
    assert_eq!(client.line("SET a 1"), Answer::ok());
    assert_eq!(*shares.lock().unwrap(), [14 << 20, 14 << 20], "two have 28 MiB");

    // The least that both need, and not one byte less.
    let refused = client.line("CONFIG SET timeout 7 maxmemory 100").text();
    let least: u64 = refused.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(refused.contains("maxmemory") && refused.ends_with(" bytes or more"), "{refused}");
    let refused = client.line(&format!("CONFIG SET maxmemory {}", least - 1));
    assert!(matches!(refused, Answer::Error(_)), "{refused:?}");
    assert_eq!(field(&mut client, "maxmemory"), 32 << 20);
    assert_eq!(client.line("CONFIG GET timeout").items()[1], Answer::bulk("0"));
    assert_eq!(client.line(&format!("CONFIG SET maxmemory {least}")), Answer::ok());
    assert_eq!(client.line("SELECT 2"), Answer::ok());
    assert!(matches!(client.line("SET a 1"), Answer::Error(text) if text.contains("use fewer databases")));

    assert_eq!(client.line("CONFIG SET maxmemory 0"), Answer::ok());
    assert_eq!(client.line("CONFIG GET maxmemory").items()[1], Answer::bulk("0"));
    server.stop().unwrap();
}

#[test]
fn a_database_in_memory_keeps_what_it_has_and_the_limit_is_no_less() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    (settings.memory, settings.places.are_shares_fixed) = (Some(64 << 20), true);
    settings.places.databases = 2;
    settings.places.open = Box::new(move |path, form, share| {
        let builder = Database::builder(path).engine(EngineKind::Mica).memory_budget(share.unwrap());
        Ok(Arc::new(DatabaseStore::new(builder.open()?, form)))
    });
    let server = Server::start(settings).unwrap();
    let mut client = Client::connect(server.redis_address().unwrap());
    assert_eq!(client.line("SET a 1"), Answer::ok());
    let refused = client.line("CONFIG SET maxmemory 32mb").text();
    assert!(refused.ends_with(" bytes or more"), "{refused}");
    assert_eq!(client.line("CONFIG SET maxmemory 100mb"), Answer::ok());
    assert_eq!(client.line("CONFIG SET maxmemory 64mb"), Answer::ok());
    assert_eq!(client.line("GET a"), Answer::bulk("1"));
    server.stop().unwrap();
}

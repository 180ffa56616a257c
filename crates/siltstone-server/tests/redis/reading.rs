//! What commands that read reply, over every engine and over a dictionary.

use crate::client::{Answer, Client};
use crate::served::{Served, fill, serve, serve_dictionary, serve_with};
use siltstone::{Dictionary, EngineKind};
use std::collections::BTreeSet;

fn error(text: &str) -> Answer {
    Answer::Error(text.to_owned())
}

/// Asks for all that [`fill`] has put.
fn ask_for_everything(client: &mut Client) {
    let cases: [(&str, Answer); 24] = [
        ("GET greeting", Answer::bulk("Hello World")),
        ("get empty", Answer::bulk("")),
        ("GET missing", Answer::Null),
        ("GET expired", Answer::Null),
        ("STRLEN greeting", Answer::Integer(11)),
        ("STRLEN missing", Answer::Integer(0)),
        ("GETRANGE greeting 0 4", Answer::bulk("Hello")),
        ("GETRANGE greeting -5 -1", Answer::bulk("World")),
        ("SUBSTR greeting 6 100", Answer::bulk("World")),
        ("GETRANGE missing 0 -1", Answer::bulk("")),
        ("GETRANGE greeting 0 x", error("ERR value is not an integer or out of range")),
        ("EXISTS greeting missing greeting expired", Answer::Integer(2)),
        ("TOUCH greeting key:1 key:1000", Answer::Integer(2)),
        ("TYPE greeting", Answer::Status("string".to_owned())),
        ("TYPE missing", Answer::Status("none".to_owned())),
        ("TTL greeting", Answer::Integer(-1)),
        ("TTL missing", Answer::Integer(-2)),
        ("PTTL expired", Answer::Integer(-2)),
        ("EXPIRETIME greeting", Answer::Integer(-1)),
        ("PEXPIRETIME missing", Answer::Integer(-2)),
        ("GET", error("ERR wrong number of arguments for 'get' command")),
        ("MGET", error("ERR wrong number of arguments for 'mget' command")),
        ("LPUSH list 1", error("ERR unknown command 'LPUSH', with args beginning with: 'list' '1' ")),
        (
            "MGET greeting missing key:7",
            Answer::Array(vec![Answer::bulk("Hello World"), Answer::Null, Answer::bulk("value:7")]),
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(client.line(line), expected, "{line}");
    }
    assert_eq!(client.ask(&[&b"GET"[..], &[0, 255, b'\r', b'\n']]), Answer::bulk([b'\r', b'\n', 0]));
    assert_eq!(client.ask(&["GET", ""]), Answer::Null, "an empty key cannot exist");
    assert_eq!(client.ask(&["GET", &"k".repeat(100_000)]), Answer::Null, "nor one that is too long");
    for (line, range) in [("TTL expiring", 990..=1000), ("PTTL expiring", 990_000..=1_000_000)] {
        assert!(matches!(client.line(line), Answer::Integer(left) if range.contains(&left)), "{line}");
    }
}

/// Returns all keys, by SCAN.
fn scan(client: &mut Client, options: &str) -> Vec<String> {
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let page = client.line(&format!("SCAN {cursor} {options}"));
        let [next, found] = page.items() else { panic!("{page:?} is no page") };
        keys.extend(found.items().iter().map(Answer::text));
        cursor = next.text();
        if cursor == "0" {
            return keys;
        }
    }
}

#[test]
fn every_engine_replies_as_redis_does() {
    for &engine in EngineKind::ALL {
        let served = serve_with(fill, engine, |_| {});
        let mut client = served.client();
        ask_for_everything(&mut client);
        assert_eq!(client.line("HELLO 3"), hello(3, &client_id(&mut client)), "{engine:?}");
        assert_eq!(client.line("GET missing"), Answer::Null);
        ask_for_everything(&mut client);
        let keys = scan(&mut client, "COUNT 100");
        assert_eq!(keys.len(), 1004, "{engine:?}: each key once");
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 1004);
        assert_eq!(scan(&mut client, "MATCH key:99? COUNT 500").len(), 10);
        assert_eq!(scan(&mut client, "MATCH key:1* TYPE string").len(), 111);
        assert!(scan(&mut client, "TYPE hash COUNT 1000").is_empty());
        assert_eq!(client.line("DBSIZE"), Answer::Integer(1004));
        let matched = client.line("KEYS key:[0-4]");
        assert_eq!(matched.items().len(), 5);
        let key = client.line("RANDOMKEY").text();
        assert!(keys.contains(&key), "{engine:?}: {key}");
        served.server.stop().unwrap();
    }
}

fn client_id(client: &mut Client) -> Answer {
    client.line("CLIENT ID")
}

fn hello(version: i64, id: &Answer) -> Answer {
    let fields = [
        ("server", Answer::bulk("redis")),
        ("version", Answer::bulk("7.0.15")),
        ("proto", Answer::Integer(version)),
        ("id", id.clone()),
        ("mode", Answer::bulk("standalone")),
        ("role", Answer::bulk("master")),
        ("modules", Answer::Array(Vec::new())),
    ];
    Answer::Map(fields.into_iter().map(|(name, value)| (Answer::bulk(name), value)).collect())
}

#[test]
fn a_dictionary_is_served_and_replaced_while_it_is_read() {
    let served = serve_dictionary(&[("France", "Paris"), ("Peru", "Lima")]);
    let mut client = served.client();
    assert_eq!(client.line("GET Peru"), Answer::Null, "the database 0 does not exist yet");
    assert_eq!(client.line("SELECT 3"), Answer::ok());
    assert_eq!(client.line("GET Peru"), Answer::bulk("Lima"));
    assert_eq!(client.line("TTL Peru"), Answer::Integer(-1));
    assert_eq!(client.line("DBSIZE"), Answer::Integer(2));
    let mut keys = scan(&mut client, "COUNT 1");
    keys.sort();
    assert_eq!(keys, ["France", "Peru"]);
    assert_eq!(client.line("SELECT 16"), error("ERR DB index is out of range"));

    let path = served.directory.path().join("served.dict");
    let new = served.directory.path().join("new.dict");
    Dictionary::builder().build(&new, [("Chad", "N'Djamena")]).unwrap();
    std::fs::rename(&new, &path).unwrap();
    assert_eq!(client.line("GET Peru"), Answer::bulk("Lima"), "until it is reloaded");
    assert_eq!(client.line("SILTSTONE RELOAD"), Answer::Integer(1));
    assert_eq!(client.line("MGET Peru Chad").items()[1], Answer::bulk("N'Djamena"));

    std::fs::write(&new, "no dictionary").unwrap();
    std::fs::rename(&new, &path).unwrap();
    assert!(
        matches!(client.line("SILTSTONE RELOAD"), Answer::Error(text) if text.contains("not a dictionary"))
    );
    assert_eq!(client.line("GET Chad"), Answer::bulk("N'Djamena"), "what cannot be opened changes nothing");
}

#[test]
fn clients_find_the_commands_that_they_send_first() {
    let served = serve();
    let mut client = served.client();
    assert_eq!(client.line("CLIENT SETINFO LIB-NAME redis-py"), Answer::ok());
    assert_eq!(client.line("CLIENT SETINFO LIB-VER 5.0"), Answer::ok());
    assert!(matches!(client.line("CLIENT MAINT_NOTIFICATIONS ON"), Answer::Error(_)));
    assert_eq!(client.line("CLIENT SETNAME me"), Answer::ok());
    assert_eq!(client.line("CLIENT GETNAME"), Answer::bulk("me"));
    assert!(client.line("CLIENT INFO").text().contains("name=me"));
    let info = client.line("INFO").text();
    for line in ["redis_version:7.0.15\r\n", "loading:0\r\n", "role:master\r\n", "db0:keys=1004,"] {
        assert!(info.contains(line), "{line} in {info}");
    }
    assert!(!client.line("INFO server").text().contains("role:"));
    let config = client.line("CONFIG GET save");
    assert_eq!(config.items(), [Answer::bulk("save"), Answer::bulk("")]);
    let commands = client.line("COMMAND").items().len() as i64;
    assert_eq!(client.line("COMMAND COUNT"), Answer::Integer(commands));
    assert_eq!(client.line("COMMAND GETKEYS MGET a b").items().len(), 2);
    assert_eq!(client.line("PING"), Answer::Status("PONG".to_owned()));
    assert_eq!(client.line("PING there"), Answer::bulk("there"));
    assert_eq!(client.line("ECHO text"), Answer::bulk("text"));
    assert_eq!(client.line("TIME").items().len(), 2);
    assert_eq!(client.line("RESET"), Answer::Status("RESET".to_owned()));
    assert_eq!(client.line("HELLO 4"), error("NOPROTO unsupported protocol version"));
    assert_eq!(client.line("QUIT"), Answer::ok());
    assert!(client.is_ended());
}

#[test]
fn damage_of_a_record_is_an_error_of_its_command_alone() {
    let served = serve_with(fill, EngineKind::Silt, |_| {});
    let Served { server, directory } = served;
    server.stop().unwrap();
    let path = directory.path().join("databases/0");
    let mut stores = 0;
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap().path();
        let is_store = entry.extension().is_some_and(|extension| extension == "sorted");
        stores += usize::from(is_store);
        // Every second one: each has the records of a partition.
        if is_store && stores.is_multiple_of(2) {
            let mut bytes = std::fs::read(&entry).unwrap();
            // The first block of the store.
            bytes[4096 + 100] ^= 1;
            std::fs::write(&entry, bytes).unwrap();
        }
    }
    let server = siltstone_server::Server::start(crate::served::settings(directory.path())).unwrap();
    let mut client = Client::connect(server.redis_address().unwrap());
    let requests: Vec<u8> = (0..1000)
        .flat_map(|number| crate::client::encode(&["GET".to_owned(), format!("key:{number}")]))
        .collect();
    client.send_bytes(&requests);
    let answers: Vec<Answer> = (0..1000).map(|_| client.answer()).collect();
    let failed = answers.iter().filter(|answer| matches!(answer, Answer::Error(_))).count();
    assert!((1..1000).contains(&failed), "{failed} of 1000 failed");
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Answer::Error(text) => assert!(text.contains("damaged"), "{text}"),
            answer => assert_eq!(*answer, Answer::bulk(format!("value:{number}"))),
        }
    }
}

//! Connections: pipelines, limits, passwords, and clients that behave badly.

use crate::client::{Answer, Client, encode};
use crate::served::{Served, fill, serve, serve_with};
use siltstone::EngineKind;
use siltstone_server::Listen;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

#[test]
fn the_replies_to_a_pipeline_are_in_its_order_however_it_arrives() {
    let served = serve();
    let mut random = fastrand::Rng::with_seed(7);
    let mut requests = Vec::new();
    let mut expected = Vec::new();
    for number in 0..3000 {
        let (words, answer) = match random.usize(..10) {
            0 => (vec!["PING".to_owned()], Answer::Status("PONG".to_owned())),
            1 => (vec!["DBSIZE".to_owned()], Answer::Integer(1004)),
            2 => (vec!["ECHO".to_owned(), number.to_string()], Answer::bulk(number.to_string())),
            3 => (vec!["SELECT".to_owned(), "0".to_owned()], Answer::ok()),
            _ => {
                let key = random.usize(..1000);
                (vec!["GET".to_owned(), format!("key:{key}")], Answer::bulk(format!("value:{key}")))
            }
        };
        requests.extend(encode(&words));
        expected.push(answer);
    }
    let mut client = served.client();
    let mut rest = &requests[..];
    while !rest.is_empty() {
        let (part, later) = rest.split_at(random.usize(1..=rest.len().min(5000)));
        client.send_bytes(part);
        rest = later;
    }
    for (number, expected) in expected.iter().enumerate() {
        assert_eq!(client.answer(), *expected, "reply {number}");
    }
    let request = encode(&["GET", "key:1"]);
    for byte in &request {
        client.send_bytes(&[*byte]);
    }
    assert_eq!(client.answer(), Answer::bulk("value:1"));
}

#[test]
fn inline_requests_are_split_as_in_redis() {
    let served = serve();
    let mut client = served.client();
    client.send_bytes(b"\r\n  \r\nGET \"key:1\"\nECHO \"a\\x41\\n\\\"\" \r\nECHO 'it\\'s'\r\nPING\r\n");
    assert_eq!(client.answer(), Answer::bulk("value:1"));
    assert_eq!(client.answer(), Answer::bulk("aA\n\""));
    assert_eq!(client.answer(), Answer::bulk("it's"));
    assert_eq!(client.answer(), Answer::Status("PONG".to_owned()));
}

#[test]
fn what_is_not_of_the_protocol_ends_the_connection_after_the_requests_before_it() {
    let cases: [(&[u8], &str); 7] = [
        (b"*x\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1048577\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\nx\r\n", "ERR Protocol error: expected '$', got 'x'"),
        (b"*1\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$9999999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b"ECHO \"a\r\n", "ERR Protocol error: unbalanced quotes in request"),
        (&[b'a'; 70_000], "ERR Protocol error: too big inline request"),
    ];
    let served = serve();
    for (bytes, expected) in cases {
        let mut client = served.client();
        client.send_bytes(b"PING\r\nGET key:1\r\n");
        client.send_bytes(bytes);
        assert_eq!(client.answer(), Answer::Status("PONG".to_owned()));
        assert_eq!(client.answer(), Answer::bulk("value:1"));
        assert_eq!(client.answer(), Answer::Error(expected.to_owned()));
        assert!(client.is_ended(), "{expected}");
    }
    assert!(served.client().line("INFO stats").text().contains("protocol_errors:7\r\n"));
}

#[test]
fn a_client_that_ends_its_requests_gets_all_replies() {
    let served = serve();
    let mut client = served.client();
    let requests: Vec<u8> = (0..500).flat_map(|_| encode(&["GET", "greeting"])).collect();
    client.send_bytes(&requests);
    client.end_requests();
    for _ in 0..500 {
        assert_eq!(client.answer(), Answer::bulk("Hello World"));
    }
    assert!(client.is_ended());
}

#[test]
fn nothing_is_read_without_the_password() {
    let served = serve_with(fill, EngineKind::Silt, |settings| settings.password = Some("secret".to_owned()));
    let mut client = served.client();
    let refused = Answer::Error("NOAUTH Authentication required.".to_owned());
    for line in ["GET key:1", "PING", "KEYS *", "CONFIG GET *", "LPUSH a b"] {
        assert_eq!(client.line(line), refused, "{line}");
    }
    assert!(matches!(client.line("HELLO 3"), Answer::Error(text) if text.starts_with("NOAUTH HELLO")));
    for line in ["AUTH wrong", "AUTH secre", "AUTH other secret", "HELLO 3 AUTH default wrong"] {
        assert!(matches!(client.line(line), Answer::Error(text) if text.starts_with("WRONGPASS")), "{line}");
    }
    client.send_bytes(&[encode(&["AUTH", "secret"]), encode(&["GET", "key:1"])].concat());
    assert_eq!(client.answer(), Answer::ok());
    assert_eq!(client.answer(), Answer::bulk("value:1"), "in the same packet");
    let mut other = served.client();
    assert!(matches!(other.line("HELLO 3 AUTH default secret SETNAME me"), Answer::Map(_)));
    assert_eq!(other.line("CLIENT GETNAME"), Answer::bulk("me"));
    let mut third = served.client();
    third.send_bytes(b"*11\r\n");
    assert!(matches!(third.answer(), Answer::Error(text) if text.contains("invalid multibulk length")));
}

#[test]
fn an_address_that_others_reach_needs_a_password() {
    let everywhere = "0.0.0.0:0".parse::<SocketAddr>().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut settings = crate::served::settings(directory.path());
    settings.listeners = vec![Listen::redis(everywhere)];
    let refused = siltstone_server::Server::start(settings).err().unwrap().to_string();
    assert!(refused.contains("there is no password"), "{refused}");
    let mut settings = crate::served::settings(directory.path());
    settings.listeners = vec![Listen::redis(everywhere)];
    settings.unprotected = true;
    siltstone_server::Server::start(settings).unwrap().stop().unwrap();
}

#[test]
fn a_mount_that_does_not_exist_is_refused_and_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for path in [directory.path().join("missing.dict"), empty.clone()] {
        let mut settings = crate::served::settings(directory.path());
        settings.places.mounts = vec![siltstone_server::Mount { number: 3, path: path.clone() }];
        let refused = siltstone_server::Server::start(settings).err().unwrap().to_string();
        assert!(refused.contains("no database here"), "{refused}");
    }
    assert!(!directory.path().join("missing.dict").exists());
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn a_database_in_place_of_a_directory_of_databases_is_refused() {
    let Served { server, directory } = serve();
    server.stop().unwrap();
    let mut settings = crate::served::settings(directory.path());
    settings.places.directory = Some(directory.path().join("databases/0"));
    let refused = siltstone_server::Server::start(settings).err().unwrap().to_string();
    assert!(refused.contains("mount it: 0="), "{refused}");
    assert!(!directory.path().join("databases/0/0").exists());
}

#[test]
fn a_database_that_cannot_be_flushed_is_served_as_before() {
    let served = serve();
    let mut client = served.client();
    // In the place of the file that says so.
    let obstacle = served.directory.path().join("databases/0/TRUNCATED");
    std::fs::create_dir(&obstacle).unwrap();
    assert!(matches!(client.line("FLUSHDB"), Answer::Error(text) if text.contains("TRUNCATED")));
    assert_eq!(client.line("GET key:1"), Answer::bulk("value:1"));
    std::fs::remove_dir(&obstacle).unwrap();
    assert_eq!(client.line("FLUSHDB"), Answer::ok());
    assert_eq!(client.line("GET key:1"), Answer::Null);
    assert_eq!(client.line("SET key:1 new"), Answer::ok());
}

#[test]
fn connections_above_the_limit_are_refused_until_one_ends() {
    let served = serve_with(fill, EngineKind::Silt, |settings| settings.limits.connections_max = 2);
    let mut clients = [served.client(), served.client()];
    for client in &mut clients {
        assert_eq!(client.line("PING"), Answer::Status("PONG".to_owned()));
    }
    let mut refused = served.client();
    assert_eq!(refused.answer(), Answer::Error("ERR max number of clients reached".to_owned()));
    assert!(refused.is_ended());
    let [first, _second] = &mut clients;
    assert_eq!(first.line("QUIT"), Answer::ok());
    assert!(first.is_ended());
    let mut other = served.client();
    assert_eq!(other.line("PING"), Answer::Status("PONG".to_owned()));
}

#[test]
fn a_connection_without_requests_ends_after_the_idle_time() {
    let idle_max = Some(std::time::Duration::from_millis(50));
    let served = serve_with(fill, EngineKind::Silt, |settings| settings.limits.idle_max = idle_max);
    let mut idle = served.client();
    assert!(idle.is_ended());
    let metrics = served.server.metrics_address().unwrap();
    let metrics = crate::metrics::respond(metrics, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(metrics.contains("siltstone_server_idle_closed_total 1\n"), "{metrics}");
    let served = serve();
    let mut other = served.client();
    assert_eq!(other.line("PING"), Answer::Status("PONG".to_owned()), "there is no idle time by default");
}

#[test]
fn a_client_that_takes_no_replies_holds_up_no_other_and_gets_them_later() {
    let value = vec![b'v'; 200_000];
    let served = serve_with(
        |database| database.put("large", &value).unwrap(),
        EngineKind::Silt,
        |settings| settings.workers = 1,
    );
    let mut greedy = TcpStream::connect(served.server.redis_address().unwrap()).unwrap();
    // 800 MB of replies.
    let request = encode(&["GET", "large"]);
    (0..4000).for_each(|_| greedy.write_all(&request).unwrap());
    let mut other = served.client();
    for _ in 0..100 {
        assert_eq!(other.line("PING"), Answer::Status("PONG".to_owned()));
    }
    let mut reply = vec![0; "$200000\r\n".len() + value.len() + 2];
    for _ in 0..20 {
        greedy.read_exact(&mut reply).unwrap();
        assert!(reply.starts_with(b"$200000\r\nvvv"));
    }
    drop(greedy);
    assert_eq!(other.line("PING"), Answer::Status("PONG".to_owned()));
}

#[test]
fn a_server_that_stops_has_sent_its_replies_and_takes_no_more() {
    let served = serve();
    let mut client: Client = served.client();
    assert_eq!(client.line("GET key:1"), Answer::bulk("value:1"));
    let address = served.server.redis_address().unwrap();
    served.server.stop().unwrap();
    assert!(client.is_ended());
    assert!(TcpStream::connect(address).is_err());
    siltstone::Database::open(served.directory.path().join("databases/0")).unwrap();
}

#[test]
fn a_connection_watches_a_key_once_and_not_too_many() {
    let served = serve();
    let mut client = served.client();
    let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
    let watch = [vec!["WATCH".to_owned()], keys].concat();
    for _ in 0..1000 {
        assert_eq!(client.ask(&watch), Answer::ok());
    }
    let mut many = vec!["WATCH".to_owned()];
    many.extend((0..20_000).map(|number| format!("other:{number}")));
    assert!(matches!(client.ask(&many), Answer::Error(text) if text.contains("watch fewer")));
    assert_eq!(served.client().line("SET key:99 other"), Answer::ok());
    assert_eq!(client.line("MULTI"), Answer::ok());
    assert_eq!(client.line("EXEC"), Answer::Null);
}

#[test]
fn a_subcommand_that_does_not_exist_ends_a_transaction_before_it_is_queued() {
    let served = serve();
    let mut client = served.client();
    for wrong in ["OBJECT NOSUCH key:1", "CLIENT SETNAME", "CONFIG GET", "EXPIRE key:1"] {
        assert_eq!(client.line("MULTI"), Answer::ok());
        assert!(matches!(client.line(wrong), Answer::Error(_)), "{wrong}");
        assert!(
            matches!(client.line("EXEC"), Answer::Error(text) if text.starts_with("EXECABORT")),
            "{wrong}"
        );
    }
    let requests = ["MULTI", "EXEC extra", "GET key:1", "EXEC"].map(|line| format!("{line}\r\n")).concat();
    client.send_bytes(requests.as_bytes());
    assert_eq!(client.answer(), Answer::ok());
    assert!(matches!(client.answer(), Answer::Error(text) if text.starts_with("EXECABORT")));
    assert_eq!(client.answer(), Answer::bulk("value:1"), "the transaction has ended");
    assert!(matches!(client.answer(), Answer::Error(text) if text == "ERR EXEC without MULTI"));
}

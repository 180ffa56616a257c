//! Requests that few clients send: watched keys of several databases, replies that are off, large values, and requests
//! of another protocol.

use crate::client::{Answer, Client};
use crate::memcached;
use crate::served::{serve, serve_dictionary, serve_with};
use siltstone::EngineKind;
use siltstone_server::{KeyState, NewValue};

fn lines(client: &mut Client, lines: &[&str]) -> Vec<Answer> {
    lines.iter().map(|line| client.line(line)).collect()
}

#[test]
fn a_transaction_is_executed_although_a_watched_key_is_absent_in_another_database() {
    let served = serve();
    let mut client = served.client();
    let answers = lines(&mut client, &["SET a 1", "WATCH a", "SELECT 1", "MULTI", "SET a 2", "EXEC"]);
    assert_eq!(answers[5], Answer::Array(vec![Answer::ok()]), "{answers:?}");
    // A key of another database that was deleted or has expired is a change.
    for removal in ["DEL a", "PEXPIREAT a 1"] {
        let mut other = served.client();
        lines(&mut client, &["SELECT 0", "SET a 1", "WATCH a", "SELECT 1", "MULTI", "SET a 3"]);
        assert_eq!(other.line(removal), Answer::Integer(1));
        assert_eq!(client.line("EXEC"), Answer::Null, "{removal}");
    }
    assert_eq!(client.line("GET a"), Answer::bulk("2"));
}

#[test]
fn what_the_program_of_the_server_writes_is_a_change_of_watched_keys() {
    let served = serve();
    let store = served.server.store(0).unwrap().unwrap();
    let mut client = served.client();
    for (written, expected) in [("a", Answer::Null), ("b", Answer::Array(vec![Answer::bulk("1")]))] {
        lines(&mut client, &["SET a 1", "WATCH a", "MULTI", "GET a"]);
        let mut put = |states: &mut [KeyState]| states[0].replace(Some(NewValue::string("2"))).unwrap();
        store.write(&[written.as_bytes()], &mut put).unwrap();
        assert_eq!(client.line("EXEC"), expected, "{written}");
    }
}

#[test]
fn no_reply_is_sent_while_replies_are_off_and_each_request_after_that_has_one() {
    let served = serve();
    let (mut client, mut other) = (served.client(), served.client());
    client.line("WATCH a");
    client.send(&["CLIENT", "REPLY", "OFF"]);
    // In order: the other client writes after the replies are off.
    client.send(&["SET", "is-off", "1"]);
    while other.line("GET is-off") != Answer::bulk("1") {}
    assert_eq!(other.line("SET a x"), Answer::ok());
    ["MULTI", "PING", "EXEC"].iter().for_each(|word| client.send(&[word]));
    assert_eq!(client.line("CLIENT REPLY ON"), Answer::ok());
    assert_eq!(client.line("ECHO 1"), Answer::bulk("1"));
    client.send(&["CLIENT", "REPLY", "SKIP"]);
    assert_eq!(client.line("CLIENT REPLY ON"), Answer::ok());
    client.send(&["CLIENT", "REPLY", "SKIP"]);
    client.send(&["ECHO", "skipped"]);
    assert_eq!(client.line("ECHO 2"), Answer::bulk("2"));
}

#[test]
fn a_dictionary_executes_transactions_that_only_read() {
    let served = serve_dictionary(&[("a", "1"), ("b", "hello")]);
    let mut client = served.client();
    lines(&mut client, &["SELECT 3", "WATCH a", "MULTI", "GET a", "MGET b c", "EXISTS a b c"]);
    let found = Answer::Array(vec![Answer::bulk("hello"), Answer::Null]);
    assert_eq!(client.line("EXEC"), Answer::Array(vec![Answer::bulk("1"), found, Answer::Integer(2)]));
    assert_eq!(client.line("OBJECT ENCODING a"), Answer::bulk("int"));
    assert_eq!(client.line("BITFIELD_RO a GET u8 0"), Answer::Array(vec![Answer::Integer(i64::from(b'1'))]));
    lines(&mut client, &["MULTI", "GET a", "SET a 2"]);
    assert!(client.line("EXEC").text().starts_with("READONLY"));
    assert_eq!(client.line("GET a"), Answer::bulk("1"));
}

#[test]
fn a_request_of_http_ends_the_connection_before_what_its_body_asks_for() {
    let served = serve();
    for request in ["POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n", "post /\r\n"] {
        let mut client = served.client();
        client.send_bytes(format!("{request}Content-Length: 10\r\n\r\nFLUSHALL\r\n").as_bytes());
        while !client.is_ended() {
            assert!(client.answer().text().starts_with("ERR"), "{request}");
        }
    }
    assert_eq!(served.client().line("GET greeting"), Answer::bulk("Hello World"));
    let mut client = served.client();
    assert_eq!(client.line("SET Host: 1"), Answer::ok(), "a key may have any name");
}

#[test]
fn keys_with_large_values_are_counted_and_asked_for_at_once_they_are_refused() {
    // Each reply may have 256 MiB, so 300 times a megabyte is too much, and that of EXISTS is short.
    let served = serve_with(|_| {}, EngineKind::Silt, |_| {});
    let mut client = served.client();
    assert_eq!(client.ask(&["SET", "large", &"x".repeat(1 << 20)]), Answer::ok());
    let many = |command: &'static str| [vec![command], vec!["large"; 300]].concat();
    assert_eq!(client.ask(&many("EXISTS")), Answer::Integer(300));
    assert_eq!(client.ask(&many("TOUCH")), Answer::Integer(300));
    assert!(client.ask(&many("MGET")).text().contains("ask for less at once"));
    let mut client = memcached::Client::connect(served.server.memcached_address());
    for request in ["get", "gat 0"] {
        let reply = client.ask(&format!("{request}{}", " large".repeat(300)));
        assert!(reply.starts_with("SERVER_ERROR") && reply.len() < 200, "{} bytes", reply.len());
    }
}

#[test]
fn hashes_of_many_fields_are_changed_and_read_in_one_command() {
    let served = serve();
    let mut client = served.client();
    // One that the server creates.
    client.line("SELECT 1");
    let names: Vec<String> = (0..50_000).map(|number| number.to_string()).collect();
    let with = |words: [&str; 2], rest: &mut dyn Iterator<Item = &String>| {
        words.into_iter().map(str::to_owned).chain(rest.cloned()).collect::<Vec<String>>()
    };
    let pairs = with(["HSET", "h"], &mut names.iter().flat_map(|name| [name, name]));
    assert_eq!(client.ask(&pairs), Answer::Integer(50_000));
    let found = client.ask(&with(["HMGET", "h"], &mut names.iter()));
    assert!(found.items().iter().zip(&names).all(|(found, name)| *found == Answer::bulk(name)));
    let half = with(["HDEL", "h"], &mut names.iter().step_by(2));
    assert_eq!(client.ask(&half), Answer::Integer(25_000));
    assert_eq!(client.line("HLEN h"), Answer::Integer(25_000));
    assert_eq!(client.line("HMGET h 1 2"), Answer::Array(vec![Answer::bulk("1"), Answer::Null]));
}

#[test]
fn sums_have_at_most_seventeen_digits_after_the_point() {
    let served = serve();
    let mut client = served.client();
    assert_eq!(client.line("INCRBYFLOAT small 1e-20"), Answer::bulk("0"));
    assert_eq!(client.line("INCRBYFLOAT small -0.00000000000000000000001"), Answer::bulk("0"));
    assert_eq!(client.line("INCRBYFLOAT small 0.50000000000000000000001"), Answer::bulk("0.5"));
}

//! `siltstone serve` as a process: it prints its addresses, serves clients, and stops cleanly.

use crate::runner::program;
use crate::server_process::Process;
use serde_json::Value;
use siltstone_network::{Client, ClientSettings};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[test]
fn a_server_prints_its_address_serves_and_prints_its_counters_when_it_stops() {
    let mut server = program()
        .args(["serve", "mica", "--listen", "127.0.0.1:0", "--memory", "4MiB", "--cores", "2", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    let address = started["addresses"][1].as_str().unwrap().parse().unwrap();
    let settings = ClientSettings { time_limit: Duration::from_secs(20), ..ClientSettings::default() };
    let mut client = Client::connect(address, settings).unwrap();
    for number in 0..100u32 {
        client.put(&number.to_le_bytes(), b"value").unwrap();
    }
    assert_eq!(client.get(&7u32.to_le_bytes()).unwrap().as_deref(), Some(&b"value"[..]));
    assert!(Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(server.wait().unwrap().success());
    let stats: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(stats["items"], 100);
    // A request that the client sent again counts twice.
    assert!(stats["counts"]["hits"].as_u64() >= Some(1), "{stats}");
    assert!(stats["cores"].as_array().unwrap().iter().all(|core| core["puts"].as_u64() > Some(20)));
}

#[test]
fn both_protocols_serve_the_same_data_and_one_of_them_is_enough() {
    let directory = tempfile::tempdir().unwrap();
    let serve = |addresses: &[&str]| {
        let mut server = program()
            .args(["serve", "data", "--workers", "1", "--json"])
            .arg(directory.path())
            .args(addresses)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (server, serde_json::from_str::<Value>(&line).unwrap())
    };
    let ask = |address: &Value, request: &str, expected: &str| {
        let mut socket = TcpStream::connect(address.as_str().unwrap()).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut reply = vec![0; expected.len()];
        socket.read_exact(&mut reply).unwrap();
        assert_eq!(String::from_utf8(reply).unwrap(), expected);
    };
    let stop = |mut server: Child| {
        assert!(Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap().success());
        assert!(server.wait().unwrap().success());
    };
    let (server, addresses) = serve(&["--redis", "127.0.0.1:0", "--memcached", "127.0.0.1:0"]);
    ask(&addresses["memcached"], "set key 9 0 5\r\nvalue\r\n", "STORED\r\n");
    ask(&addresses["redis"], "GET key\r\n", "$5\r\nvalue\r\n");
    stop(server);
    let (server, addresses) = serve(&["--memcached", "127.0.0.1:0"]);
    assert!(addresses["redis"].is_null());
    ask(&addresses["memcached"], "get key\r\n", "VALUE key 9 5\r\nvalue\r\nEND\r\n");
    stop(server);
}

#[test]
fn shutdown_ends_the_process_and_the_writes_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::start(directory.path(), &[]);
    let mut client = server.client();
    assert_eq!(client.ask("SET key value"), "+OK");
    client.send(&["SHUTDOWN NOSAVE".to_owned()]).unwrap();
    assert!(client.reply().is_err(), "the connection ends without a reply");
    assert!(server.child.wait().unwrap().success());
    let server = Process::start(directory.path(), &[]);
    assert_eq!(server.client().ask("GET key"), "value");
}

#[test]
fn an_invalid_setting_is_named() {
    let refused = |args: &[&str]| {
        let output =
            program().args(["serve", "mica", "--listen", "127.0.0.1:0"]).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--partitions", "3"]).contains("partitions = 3: a power of two"));
    assert!(refused(&["--memory", "1"]).contains("memory_bytes"));
    assert!(refused(&["--packet_bytes", "100000"]).contains("704 to 8972"));
    assert!(refused(&["--mode", "crcw", "--redirect"]).contains("redirects"));
}

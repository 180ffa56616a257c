//! `siltstone serve data` under floods: what clients claim, begin, ask for and never read costs little memory.
//!
//! `SILTSTONE_CONNECTIONS` is the number of connections (200): 9,500 need `ulimit -n 20000`. The figures are printed
//! with `--nocapture`.

use crate::server_process::{Client, Process};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The memory of a connection, in bytes.
const CONNECTION_BYTES_MAX: u64 = 4 << 10;

/// The memory that a server may take besides, for its own work: arenas of the allocator keep what they had. With busy
/// connections it is about 16 MB; the buffers of 200 of them have 47 MB.
const SLACK_BYTES: u64 = 24 << 20;

/// The length of a value that the buffers of a busy connection have.
const BUSY_BYTES: usize = 200_000;

/// The memory that a client may cost which takes no replies.
const UNREAD_BYTES_MAX: u64 = 16 << 20;

/// The memory that a client may cost which takes no messages: the limit of 32 MiB, and a buffer that grows twofold.
const UNREAD_PUSH_BYTES_MAX: u64 = 96 << 20;

fn connections() -> usize {
    std::env::var("SILTSTONE_CONNECTIONS").map_or(200, |text| text.parse().unwrap())
}

fn server() -> (tempfile::TempDir, Process) {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &["--workers", "2"]);
    server.client().ask("SET key value");
    (directory, server)
}

/// Opens connections, lets each do something, and checks what they cost.
fn cost_of(server: &Process, what: &str, act: impl Fn(&mut Client)) -> Vec<Client> {
    // The first ones make the threads and buffers of the server, and its allocator keeps what they had. One after
    // another: with all at once it would also keep what a connection must not keep.
    (0..connections()).for_each(|_| act(&mut server.client()));
    let before = server.resident_bytes();
    let mut clients: Vec<Client> = (0..connections()).map(|_| server.client()).collect();
    clients.iter_mut().for_each(act);
    let after = server.resident_bytes();
    let each = after.saturating_sub(before) / clients.len() as u64;
    eprintln!("{what}: {} connections, {each} bytes each", clients.len());
    let most = clients.len() as u64 * CONNECTION_BYTES_MAX + SLACK_BYTES;
    assert!(after < before + most, "{what}: {before} bytes before, {after} with {} clients", clients.len());
    clients
}

#[test]
fn an_idle_connection_costs_little() {
    let (_directory, server) = server();
    let mut clients = cost_of(&server, "idle", |client| assert_eq!(client.ask("GET key"), "value"));
    for client in &mut clients {
        assert_eq!(client.ask("GET key"), "value");
    }
}

#[test]
fn a_connection_that_was_busy_costs_as_little_as_an_idle_one() {
    let (_directory, server) = server();
    // With the buffers of all clients at once it would be 47 MB.
    let value = "v".repeat(BUSY_BYTES);
    server.client().ask(&format!("SET long {value}"));
    let requests = vec![format!("ECHO {value}"), "GET long".to_owned(), format!("STRLEN {value}")];
    cost_of(&server, "busy before", |client| {
        client.send(&requests).unwrap();
        (0..2).for_each(|_| assert_eq!(client.reply().unwrap().len(), BUSY_BYTES));
        assert_eq!(client.reply().unwrap(), ":0");
    });
}

#[test]
fn half_a_request_costs_little_and_can_be_completed() {
    let (_directory, server) = server();
    let half = b"*2\r\n$3\r\nGET\r\n$3\r\nke";
    let mut clients = cost_of(&server, "half a request", |client| client.socket.write_all(half).unwrap());
    for client in &mut clients {
        client.socket.write_all(b"y\r\n").unwrap();
        assert_eq!(client.reply().unwrap(), "value");
    }
}

#[test]
fn a_claimed_length_costs_nothing() {
    let (_directory, server) = server();
    let claim = b"*1000000\r\n$3\r\nSET\r\n$268435455\r\nbegin";
    cost_of(&server, "claimed lengths", |client| client.socket.write_all(claim).unwrap());
    assert_eq!(server.client().ask("GET key"), "value");
}

#[test]
fn requests_that_arrive_a_byte_at_a_time_get_their_replies() {
    let (_directory, server) = server();
    let mut client = server.client();
    for byte in b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n".repeat(50) {
        client.socket.write_all(&[byte]).unwrap();
    }
    (0..50).for_each(|_| assert_eq!(client.reply().unwrap(), "value"));
}

/// Sends bytes until the server takes no more, or all are sent. Returns whether all are.
fn pour(socket: &TcpStream, mut bytes: &[u8]) -> bool {
    socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    while !bytes.is_empty() {
        match (&*socket).write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        }
    }
    true
}

/// Returns how many bytes a client costs that pours requests and reads nothing, and the client.
fn cost_of_unread(server: &Process, requests: &[u8]) -> (u64, Client) {
    let before = server.resident_bytes();
    let client = server.client();
    pour(&client.socket, requests);
    // Another client gets its replies meanwhile.
    let mut other = server.client();
    let mut most = 0;
    for _ in 0..200 {
        assert_eq!(other.ask("GET key"), "value");
        most = most.max(server.resident_bytes().saturating_sub(before));
    }
    (most, client)
}

#[test]
fn a_client_that_asks_for_200_gb_and_reads_none_costs_little() {
    let (_directory, server) = server();
    let value = "v".repeat(1 << 20);
    server.client().ask(&format!("SET large {value}"));
    server.client().ask("GET large");
    // With other commands between them, so that runs of all kinds are made of them.
    for (what, request) in [
        ("GET", "*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n"),
        ("GET and SET", "*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("GET and PING", "*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\nPING\r\n"),
        ("GETEX", "*2\r\n$5\r\nGETEX\r\n$5\r\nlarge\r\n"),
    ] {
        let (bytes, mut client) = cost_of_unread(&server, request.repeat(200_000).as_bytes());
        eprintln!("{what}: 200 GB that are not read: {bytes} bytes");
        assert!(bytes < UNREAD_BYTES_MAX, "{what}: {bytes}");
        // A slow reader gets its replies.
        let mut start = [0; 10 + (1 << 20)];
        client.input.read_exact(&mut start).unwrap();
        assert!(start.starts_with(b"$1048576\r\nvvv"), "{what}");
    }
}

#[test]
fn one_request_for_200_gb_is_refused() {
    let (_directory, server) = server();
    let mut client = server.client();
    let value = "v".repeat(1 << 20);
    client.ask(&format!("SET large {value}"));
    client.ask(&format!("HSET hash f {}", &value[..1 << 19]));
    for request in [
        format!("MGET{}", " large".repeat(200_000)),
        format!("HMGET hash{}", " f".repeat(400_000)),
        "HRANDFIELD hash -400000 WITHVALUES".to_owned(),
    ] {
        let reply = client.ask(&request);
        assert!(reply.contains("ask for less"), "{}: {:.100}", &request[..20], reply);
    }
    let mut requests = vec!["GET large".to_owned(); 2000];
    requests.insert(0, "MULTI".to_owned());
    requests.push("SET key other".to_owned());
    requests.push("EXEC".to_owned());
    client.send(&requests).unwrap();
    (0..2002).for_each(|_| drop(client.reply().unwrap()));
    let replies = client.reply().unwrap();
    assert!(replies.len() < 300 << 20 && replies.contains("ask for less") && replies.ends_with("+OK"));
    assert_eq!(client.ask("GET key"), "other");
}

#[test]
fn a_client_that_reads_no_messages_costs_little_until_it_is_disconnected() {
    let (_directory, server) = server();
    let text = "v".repeat(100_000);
    for (number, request) in ["SUBSCRIBE channel", "MONITOR"].into_iter().enumerate() {
        let mut slow = server.client();
        slow.ask(request);
        let mut other = server.client();
        let (before, mut most) = (server.resident_bytes(), 0);
        // 200 MB.
        for _ in 0..2000 {
            other.ask(&format!("PUBLISH channel {text}"));
            most = most.max(server.resident_bytes().saturating_sub(before));
        }
        eprintln!("{request}: 200 MB that are not read: {most} bytes");
        assert!(most < UNREAD_PUSH_BYTES_MAX, "{request}: {most}");
        let disconnected = format!("client_output_buffer_limit_disconnections:{}\r\n", number + 1);
        assert!(other.ask("INFO stats").contains(&disconnected), "{request}");
    }
}

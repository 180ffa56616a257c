//! `siltstone serve data` with TLS, users and Unix sockets, as a process.

use crate::runner::program;
use crate::server_process::Process;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// The memory that an idle connection with TLS may take, in bytes.
const CONNECTION_BYTES_MAX: u64 = 24 << 10;

/// The memory that the server may take besides, for its own work.
const SLACK_BYTES: u64 = 8 << 20;

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Writes a certificate and its key, and returns the settings of clients that trust it.
fn certify(directory: &Path) -> Arc<ClientConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(directory.join("server.crt"), made.cert.pem()).unwrap();
    fs::write(directory.join("server.key"), made.signing_key.serialize_pem()).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap()).unwrap();
    let clients = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Arc::new(clients)
}

/// Starts a server at an address without TLS, and at one with TLS.
fn start_tls(directory: &Path) -> Process {
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("server.crt"), file("server.key"));
    let options =
        ["--redis", "tls:127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key, "--workers", "1"];
    Process::start(&directory.join("data"), &options)
}

fn connect(server: &Process, clients: &Arc<ClientConfig>) -> std::io::Result<Stream> {
    let socket = TcpStream::connect(server.addresses[1].strip_prefix("tls:").unwrap())?;
    let session = ClientConnection::new(clients.clone(), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(session, socket);
    ping(&mut stream)?;
    Ok(stream)
}

/// Sends a value that fills some records, and gets it back.
fn echo(stream: &mut Stream) {
    let value = "v".repeat(100_000);
    stream.write_all(format!("*2\r\n$4\r\nECHO\r\n$100000\r\n{value}\r\n").as_bytes()).unwrap();
    let mut reply = vec![0; "$100000\r\n".len() + value.len() + 2];
    stream.read_exact(&mut reply).unwrap();
    assert!(reply.starts_with(b"$100000\r\nvvv"));
}

fn ping(stream: &mut Stream) -> std::io::Result<()> {
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    assert_eq!(&reply, b"+PONG\r\n");
    Ok(())
}

#[test]
fn hangup_loads_certificates_again_and_touches_no_open_connection() {
    let directory = tempfile::tempdir().unwrap();
    let before = certify(directory.path());
    let mut server = start_tls(directory.path());
    let mut open = connect(&server, &before).unwrap();
    let after = certify(directory.path());
    assert!(connect(&server, &after).is_err());
    server.hang_up();
    while connect(&server, &after).is_err() {}
    assert!(connect(&server, &before).is_err());
    ping(&mut open).unwrap();
    fs::write(directory.path().join("server.crt"), "nonsense").unwrap();
    server.hang_up();
    for _ in 0..20 {
        drop(connect(&server, &after).unwrap());
    }
    drop(open);
    server.stop();
}

#[test]
fn hangup_reads_users_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users.acl");
    fs::write(&file, "user alice on >one ~* -@all +get\n").unwrap();
    let mut server = Process::start(&directory.path().join("data"), &["--users", file.to_str().unwrap()]);
    let mut client = server.client();
    assert!(client.ask("GET key").starts_with("-NOAUTH"));
    assert_eq!(client.ask("AUTH alice one"), "+OK");
    assert_eq!(client.ask("GET key"), "-");
    assert!(client.ask("SET key value").starts_with("-NOPERM"));
    fs::write(&file, "user alice on >two ~* -@all +get +set\n").unwrap();
    server.hang_up();
    while server.client().ask("AUTH alice two") != "+OK" {}
    assert_eq!(client.ask("SET key value"), "+OK");
    assert!(server.client().ask("AUTH alice one").starts_with("-WRONGPASS"));
    server.stop();
}

#[test]
fn an_idle_connection_with_tls_costs_little_also_after_it_was_busy() {
    let number: u64 = std::env::var("SILTSTONE_CONNECTIONS").map_or(200, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let clients = certify(directory.path());
    let server = start_tls(directory.path());
    // One after another, so that the allocator keeps what one of them had.
    (0..number).for_each(|_| echo(&mut connect(&server, &clients).unwrap()));
    let before = server.resident_bytes();
    let mut open: Vec<Stream> = (0..number).map(|_| connect(&server, &clients).unwrap()).collect();
    let check = |what: &str| {
        let after = server.resident_bytes();
        eprintln!("{what}, TLS: {number} connections, {} bytes each", after.saturating_sub(before) / number);
        assert!(after < before + number * CONNECTION_BYTES_MAX + SLACK_BYTES, "{what}: {before}, {after}");
    };
    check("idle");
    open.iter_mut().for_each(echo);
    check("busy before");
    open.iter_mut().for_each(|stream| ping(stream).unwrap());
}

#[test]
fn the_socket_of_a_server_is_removed_when_it_stops_and_replaced_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    let listen = format!("unix:{}", path.display());
    let start = || {
        let options = ["--redis", &listen, "--unix-permissions", "700"];
        Process::start(&directory.path().join("data"), &options)
    };
    let ask = || {
        let socket = UnixStream::connect(&path).unwrap();
        (&socket).write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        (&socket).read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    };
    let mut killed = start();
    ask();
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(path.exists());
    let mut server = start();
    assert_eq!(server.addresses[1], listen);
    ask();
    server.stop();
    assert!(!path.exists());
}

#[test]
fn wrong_settings_of_addresses_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users.acl");
    fs::write(&users, "\nuser alice on +nosuch").unwrap();
    let refused = |options: &[&str]| {
        let output = program()
            .args(["serve", "data", directory.path().join("data").to_str().unwrap()])
            .args(options)
            .output()
            .unwrap();
        assert_ne!(output.status.code(), Some(0), "{options:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--redis", "6379"]).contains("tls:ADDRESS:PORT or unix:PATH"));
    assert!(refused(&["--redis", "tls:127.0.0.1:0"]).contains("needs a certificate"));
    assert!(refused(&["--tls-cert", "a.crt"]).contains("--tls-key"));
    assert!(refused(&["--tls-cert", "a.crt", "--tls-key", "a.key"]).contains("no address with TLS"));
    assert!(refused(&["--unix-permissions", "778"]).contains("three octal digits"));
    assert!(refused(&["--unix-permissions", "770"]).contains("no Unix socket"));
    let shown = refused(&["--redis", "127.0.0.1:0", "--users", users.to_str().unwrap()]);
    assert!(shown.contains("users.acl:2: `+nosuch`: Unknown command"), "{shown}");
}

#[test]
fn a_server_prints_all_of_its_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let server = Process::start(directory.path(), &["--redis", "127.0.0.1:0"]);
    assert_eq!(server.addresses.len(), 2);
    assert_eq!(server.addresses[0], server.address);
    assert_eq!(server.client().ask("PING"), "+PONG");
}

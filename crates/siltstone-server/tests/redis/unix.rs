//! Unix sockets.

use crate::client::{Answer, Client};
use crate::served::{LOCAL, Served, serve_with, settings};
use siltstone::EngineKind;
use siltstone_server::{Listen, ListenAddress, Server};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Starts a server at these sockets of a directory, and at an address with TCP.
fn serve_at(directory: &Path, names: &[&str]) -> Result<Server, String> {
    let mut settings = settings(directory);
    let sockets = names.iter().map(|name| Listen::redis(ListenAddress::Unix(directory.join(name))));
    settings.listeners = std::iter::once(Listen::redis(LOCAL)).chain(sockets).collect();
    Server::start(settings).map_err(|error| error.to_string())
}

fn client(path: PathBuf) -> Client<UnixStream> {
    Client::new(UnixStream::connect(path).unwrap())
}

#[test]
fn a_server_listens_at_several_unix_sockets_and_tcp_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve_at(directory.path(), &["a.sock", "b.sock"]).unwrap();
    let (mut one, mut two) =
        (client(directory.path().join("a.sock")), client(directory.path().join("b.sock")));
    assert_eq!(one.line("SET key value"), Answer::ok());
    assert_eq!(two.line("GET key"), Answer::bulk("value"));
    assert_eq!(Client::connect(server.redis_address().unwrap()).line("GET key"), Answer::bulk("value"));
    let large = vec![b'v'; 3 << 20];
    assert_eq!(one.ask(&[&b"SET"[..], b"large", &large]), Answer::ok());
    assert_eq!(two.line("GET large"), Answer::bulk(&large));
    assert!(one.line("CLIENT INFO").text().contains("addr=unix"));
    server.stop().unwrap();
    assert!(one.is_ended());
    assert!(!directory.path().join("a.sock").exists() && !directory.path().join("b.sock").exists());
}

#[test]
fn the_file_of_a_killed_server_is_replaced_and_that_of_another_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    // Its file stays when it is closed.
    drop(UnixListener::bind(&path).unwrap());
    let server = serve_at(directory.path(), &["a.sock"]).unwrap();
    assert_eq!(client(path.clone()).line("PING"), Answer::Status("PONG".to_owned()));
    let refused = serve_at(directory.path(), &["a.sock"]).err().unwrap();
    assert!(refused.contains("a.sock: ") && refused.contains("in use"), "{refused}");
    assert_eq!(client(path.clone()).line("PING"), Answer::Status("PONG".to_owned()));
    server.stop().unwrap();
    std::fs::write(&path, "precious").unwrap();
    let refused = serve_at(directory.path(), &["a.sock"]).err().unwrap();
    assert!(refused.contains("no socket"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_server_that_stops_keeps_a_file_that_is_not_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    let server = serve_at(directory.path(), &["a.sock"]).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    server.stop().unwrap();
    assert!(UnixStream::connect(&path).is_ok());
}

#[test]
fn the_file_has_the_permissions_that_were_stated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    let mut settings = settings(directory.path());
    settings.listeners = vec![Listen::redis(ListenAddress::Unix(path.clone()))];
    settings.unix_permissions = Some(0o750);
    let server = Server::start(settings).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
    server.stop().unwrap();
    let refused = |listen: Listen, mode: u32| {
        let mut settings = crate::served::settings(directory.path());
        (settings.listeners, settings.unix_permissions) = (vec![listen], Some(mode));
        Server::start(settings).err().unwrap().to_string()
    };
    assert!(refused(Listen::redis(LOCAL), 0o770).contains("there is no Unix socket"));
    assert!(refused(Listen::redis(ListenAddress::Unix(path)), 0o1000).contains("above 777"));
}

#[test]
fn a_unix_socket_needs_no_password_but_takes_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    let served: Served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| {
            settings.listeners = vec![Listen::redis(ListenAddress::Unix(path.clone()))];
            settings.password = Some("secret".to_owned());
        },
    );
    let mut client = client(path);
    assert_eq!(client.line("PING"), Answer::Error("NOAUTH Authentication required.".to_owned()));
    assert_eq!(client.line("AUTH secret"), Answer::ok());
    assert_eq!(client.line("PING"), Answer::Status("PONG".to_owned()));
    assert!(served.server.redis_address().is_none());
}

#[test]
fn the_limit_of_connections_counts_all_listeners_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    let mut settings = settings(directory.path());
    settings.listeners.push(Listen::redis(ListenAddress::Unix(path.clone())));
    settings.limits.connections_max = 1;
    let server = Server::start(settings).unwrap();
    let mut first = client(path.clone());
    assert_eq!(first.line("PING"), Answer::Status("PONG".to_owned()));
    for mut refused in [client(path.clone()), client(path)] {
        assert_eq!(refused.answer(), Answer::Error("ERR max number of clients reached".to_owned()));
    }
    let mut refused = Client::connect(server.redis_address().unwrap());
    assert_eq!(refused.answer(), Answer::Error("ERR max number of clients reached".to_owned()));
}

//! The settings of `siltstone serve data` from the command line, the environment and a file.

use crate::runner::{path, program};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts a server, and returns what it prints and how it ends after SIGTERM.
fn start(directory: &Path, options: &[&str], variables: &[(&str, &str)]) -> Value {
    let mut command = program();
    command.current_dir(directory).args(["serve", "data", "--json"]).args(options);
    let mut server = command.envs(variables.iter().copied()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success());
    assert!(server.wait().unwrap().success());
    serde_json::from_str(&line).unwrap()
}

#[test]
fn the_command_line_overrides_the_environment_and_that_overrides_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = path(directory.path(), "settings.toml");
    fs::write(&file, "directory = \"of-file\"\nredis = \"127.0.0.1:0\"\nmemcached = \"127.0.0.2:0\"\n")
        .unwrap();
    let has = |name: &str| directory.path().join(name).exists();
    let started = start(directory.path(), &["--config", &file], &[]);
    assert!(has("of-file") && started["memcached"].as_str().unwrap().starts_with("127.0.0.2:"), "{started}");
    let variables = [
        ("SILTSTONE_SERVE_CONFIG", &file[..]),
        ("SILTSTONE_SERVE_DIRECTORY", "of-environment"),
        ("SILTSTONE_SERVE_MEMCACHED", "127.0.0.3:0"),
    ];
    let started = start(directory.path(), &["--memcached", "127.0.0.1:0"], &variables);
    assert!(
        has("of-environment") && started["memcached"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{started}"
    );
}

#[test]
fn a_setting_that_does_not_exist_is_named_with_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = path(directory.path(), "settings.toml");
    let refused_with = |text: &str, options: &[&str]| {
        fs::write(&file, text).unwrap();
        let output = program().args(["serve", "data", "--config", &file]).args(options).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let refused = |text: &str| {
        let (code, error) = refused_with(text, &[]);
        assert_eq!(code, Some(2), "{error}");
        error
    };
    let error = refused("memroy = \"1GiB\"\n");
    assert!(error.contains("no setting `memroy`") && error.contains("settings.toml"), "{error}");
    assert!(refused("redis = \"127.0.0.1:0\"\n").contains("state the directory"));
    assert!(refused("directory = \"d\"\nworkers = \"no\"\n").contains("--workers"));
    // Options that belong together may be in two places.
    let certificate = "directory = \"d\"\nredis = \"127.0.0.1:0\"\ntls_cert = \"a\"\n";
    assert!(refused(certificate).contains("--tls-key"));
    assert!(refused_with(certificate, &["--tls-key", "b"]).1.contains("no address with TLS"));
}

#[test]
fn systemd_is_informed_when_clients_can_connect_and_when_the_server_stops() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    start(
        directory.path(),
        &["db", "--redis", "127.0.0.1:0"],
        &[("NOTIFY_SOCKET", socket.to_str().unwrap())],
    );
    let message = || {
        let mut bytes = [0; 100];
        let length = systemd.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    assert_eq!([message().trim(), message().trim()], ["READY=1", "STOPPING=1"]);
}

/// Starts a server that is passed a socket as systemd does.
fn pass(socket: OwnedFd, directory: &Path, redis: &str) -> Child {
    let pass = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", pass, "sh"]).arg(program().get_program()).args(["serve", "data", "--redis", redis]);
    command.arg(directory).stdin(socket).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn assert_served(mut client: impl Read + Write, mut server: Child) {
    client.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    assert!(Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success());
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_socket_that_systemd_passes_takes_the_place_of_the_address_that_a_setting_names() {
    let directory = tempfile::tempdir().unwrap();
    let (tcp, path) = (TcpListener::bind("127.0.0.1:0").unwrap(), directory.path().join("socket"));
    let address = tcp.local_addr().unwrap().to_string();
    let unix = UnixListener::bind(&path).unwrap();
    // Clients connect before there is a server.
    let (of_tcp, of_unix) = (TcpStream::connect(&address).unwrap(), UnixStream::connect(&path).unwrap());
    let database = directory.path().join("db");
    assert_served(of_tcp, pass(tcp.into(), &database, &address));
    assert_served(of_unix, pass(unix.into(), &database, &format!("unix:{}", path.display())));
    assert!(path.exists(), "the file is that of the process that bound it");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let output = pass(other.into(), &directory.path().join("db"), "127.0.0.1:0").wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && error.contains(&address), "{error}");
}

#[test]
fn a_variable_of_the_environment_that_is_no_setting_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for command in [&["serve", "data", "data"][..], &["follow", "data", "127.0.0.1:1"]] {
        let mut program = program();
        program.current_dir(directory.path()).args(command).env("SILTSTONE_SERVE_PASSWORDFILE", "x");
        let output = program.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("did you mean `SILTSTONE_SERVE_PASSWORD_FILE`?"), "{said}");
    }
    assert!(!directory.path().join("data").exists());
}

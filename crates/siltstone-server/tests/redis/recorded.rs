//! The server replies byte for byte as Redis 7.0 does to the requests in `recorded/`. The program `record` has recorded
//! them.

use crate::served::settings;
use siltstone::{Database, EngineKind};
use siltstone_server::{DatabaseStore, MapStore, OpenStore, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// Reads the bytes of a reply.
fn read_reply(input: &mut BufReader<TcpStream>, reply: &mut Vec<u8>) {
    let start = reply.len();
    input.read_until(b'\n', reply).unwrap();
    let line = String::from_utf8_lossy(&reply[start..]).trim_end().to_owned();
    let (kind, rest) = line.split_at(line.len().min(1));
    match (kind, rest.parse::<usize>()) {
        ("$" | "=", Ok(length)) => {
            let start = reply.len();
            reply.resize(start + length + 2, 0);
            input.read_exact(&mut reply[start..]).unwrap();
        }
        ("*" | "~" | ">", Ok(count)) => (0..count).for_each(|_| read_reply(input, reply)),
        ("%", Ok(count)) => (0..2 * count).for_each(|_| read_reply(input, reply)),
        _ => {}
    }
}

/// Returns bytes as the recorder writes them.
pub fn escape(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'\n' => "\\n".to_owned(),
            b'\r' => "\\r".to_owned(),
            b'\t' => "\\t".to_owned(),
            b'\\' => "\\\\".to_owned(),
            b' '..=b'~' => char::from(*byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        })
        .collect()
}

/// Returns a reply without the number of the connection.
fn without_id(reply: &str) -> String {
    match reply.split_once("id\\r\\n:") {
        Some((before, after)) => {
            format!("{before}{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit()))
        }
        None => reply.to_owned(),
    }
}

/// Compares the replies of an empty server to the requests of a file. Returns what differs.
fn differences(open: Box<OpenStore>, path: &Path) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.places.open = open;
    let server = Server::start(settings).unwrap();
    let mut socket = TcpStream::connect(server.redis_address().unwrap()).unwrap();
    let mut input = BufReader::new(socket.try_clone().unwrap());
    let text = std::fs::read_to_string(path).unwrap();
    let mut request = "";
    let mut differences = Vec::new();
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("> ") {
            request = line;
            socket.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        } else if let Some(expected) = line.strip_prefix("< ") {
            let mut reply = Vec::new();
            read_reply(&mut input, &mut reply);
            let reply = escape(&reply);
            if without_id(&reply) != without_id(expected) {
                differences.push(format!("{request}\n  Redis     {expected}\n  Siltstone {reply}"));
            }
        }
    }
    drop((socket, input));
    server.stop().unwrap();
    differences
}

fn check(open: impl Fn() -> Box<OpenStore>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/recorded");
    let mut files = 0;
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = differences(open(), &path);
        all.extend(found.into_iter().map(|difference| format!("{}: {difference}", path.display())));
        files += 1;
    }
    assert!(files >= 12, "the recorded files are there");
    assert!(all.is_empty(), "{}", all.join("\n"));
}

fn check_engine(engine: EngineKind) {
    check(|| {
        Box::new(move |path, form, _| {
            let database = Database::builder(path).engine(engine).background_threads(1).open()?;
            Ok(Arc::new(DatabaseStore::new(database, form)))
        })
    });
}

#[test]
fn a_map_in_memory_replies_as_redis_does() {
    check(|| Box::new(|_, _, _| Ok(Arc::new(MapStore::default()))));
}

#[test]
fn silt_replies_as_redis_does() {
    check_engine(EngineKind::Silt);
}

#[test]
fn mica_replies_as_redis_does() {
    check_engine(EngineKind::Mica);
}

#[test]
fn flashkey_replies_as_redis_does() {
    check_engine(EngineKind::FlashKey);
}

#[test]
fn bloomstore_replies_as_redis_does() {
    check_engine(EngineKind::BloomStore);
}

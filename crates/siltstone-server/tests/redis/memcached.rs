//! memcached's protocol. The replies to the requests in `memcached/` are those of memcached 1.6.18, byte for byte but
//! for the versions of values. `record` has recorded them.

use crate::client::Answer;
use crate::recorded::escape;
use crate::served::{Served, fill, serve_with, settings};
use siltstone::{Database, Dictionary, EngineKind};
use siltstone_server::{DatabaseStore, MapStore, Mount, OpenStore, Server};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A connection of memcached's protocol.
pub struct Client {
    socket: TcpStream,
    input: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: Option<SocketAddr>) -> Client {
        let socket = TcpStream::connect(address.unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.set_nodelay(true).unwrap();
        Client { input: BufReader::new(socket.try_clone().unwrap()), socket }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    fn line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.input.read_until(b'\n', &mut line).unwrap();
        assert!(line.ends_with(b"\n"), "{} is no line", escape(&line));
        line
    }

    /// Sends a request without its last line break, and returns the reply.
    fn ask_bytes(&mut self, request: &[u8]) -> Vec<u8> {
        // The reply ends where that of mn begins.
        self.send([request, b"\r\nmn\r\n"].concat());
        let mut reply = Vec::new();
        loop {
            let line = self.line();
            if line == b"MN\r\n" && !(request == b"mn" && reply.is_empty()) {
                return reply;
            }
            reply.extend(line);
        }
    }

    pub fn ask(&mut self, request: &str) -> String {
        String::from_utf8(self.ask_bytes(request.as_bytes())).unwrap()
    }

    /// Returns the version of a value.
    fn version(&mut self, key: &str) -> u64 {
        let reply = self.ask(&format!("mg {key} c"));
        reply[4..].split_whitespace().next().unwrap().parse().unwrap()
    }

    fn is_ended(&mut self) -> bool {
        self.input.fill_buf().map_or(true, <[u8]>::is_empty)
    }
}

/// Returns the bytes of a text with escapes.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'\\', [b'r', after @ ..]) => (b'\r', after),
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [b'x', digits @ ..]) => {
                let byte = u8::from_str_radix(std::str::from_utf8(&digits[..2]).unwrap(), 16).unwrap();
                (byte, &digits[2..])
            }
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    bytes
}

/// The versions that were returned, in their order.
#[derive(Default)]
struct Versions {
    all: Vec<u64>,
    last: u64,
}

impl Versions {
    /// Returns the request with the versions that it names.
    fn insert(&self, request: &str) -> String {
        let low = self.last.saturating_sub(1);
        request.replace("$cas", &self.last.to_string()).replace("$low", &low.to_string())
    }

    /// Returns a reply with the numbers of the versions.
    fn number(&mut self, reply: &str) -> String {
        let lines = reply.split("\\r\\n").map(|line| {
            let words: Vec<String> =
                line.split(' ').enumerate().map(|(at, word)| self.number_word(line, at, word)).collect();
            words.join(" ")
        });
        lines.collect::<Vec<_>>().join("\\r\\n")
    }

    fn number_word(&mut self, line: &str, at: usize, word: &str) -> String {
        let is_meta = ["HD", "VA", "NS", "EX", "NF"].iter().any(|code| line.starts_with(code));
        let (letter, digits) = match word.strip_prefix('c') {
            Some(digits) if is_meta => ("c", digits),
            _ if line.starts_with("VALUE ") && at == 4 => ("", word),
            _ => return word.to_owned(),
        };
        match digits.parse() {
            Ok(0) | Err(_) => word.to_owned(),
            Ok(version) => {
                self.last = version;
                let known = self.all.iter().position(|known| *known == version);
                let number = known.unwrap_or_else(|| {
                    self.all.push(version);
                    self.all.len() - 1
                });
                format!("{letter}#{}", number + 1)
            }
        }
    }
}

/// Compares the replies of an empty server to the requests of a file. Returns what differs.
fn differences(open: Box<OpenStore>, path: &Path) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.places.open = open;
    let server = Server::start(settings).unwrap();
    let mut client = Client::connect(server.memcached_address());
    let text = std::fs::read_to_string(path).unwrap();
    let (mut request, mut versions, mut differences) = ("", Versions::default(), Vec::new());
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("> ") {
            request = line;
        } else if let Some(expected) = line.strip_prefix("< ") {
            let reply = client.ask_bytes(&unescape(&versions.insert(request)));
            let reply = versions.number(&escape(&reply));
            if reply != expected {
                differences.push(format!("{request}\n  memcached {expected}\n  Siltstone {reply}"));
            }
        }
    }
    drop(client);
    server.stop().unwrap();
    differences
}

fn check(open: impl Fn() -> Box<OpenStore>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/memcached");
    let (mut files, mut all) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = differences(open(), &path);
        all.extend(found.into_iter().map(|difference| format!("{}: {difference}", path.display())));
        files += 1;
    }
    assert!(files >= 5, "the recorded files are there");
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
fn a_map_in_memory_replies_as_memcached_does() {
    check(|| Box::new(|_, _, _| Ok(Arc::new(MapStore::default()))));
}

#[test]
fn silt_replies_as_memcached_does() {
    check_engine(EngineKind::Silt);
}

#[test]
fn mica_replies_as_memcached_does() {
    check_engine(EngineKind::Mica);
}

/// Starts a server of an empty database with marks.
fn serve_empty() -> Served {
    serve_at(tempfile::tempdir().unwrap())
}

fn serve_at(directory: TempDir) -> Served {
    Served { server: Server::start(settings(directory.path())).unwrap(), directory }
}

fn client(served: &Served) -> Client {
    Client::connect(served.server.memcached_address())
}

#[test]
fn flags_versions_and_invalidations_survive_a_restart_and_no_version_comes_back() {
    let served = serve_empty();
    let mut before = client(&served);
    assert_eq!(before.ask("set k 77 0 1\r\nx"), "STORED\r\n");
    assert_eq!(before.ask("ms stale 1\r\nx"), "HD\r\n");
    assert_eq!(before.ask("md stale I"), "HD\r\n");
    let version = before.version("k");
    served.server.stop().unwrap();
    let served = serve_at(served.directory);
    let mut after = client(&served);
    assert_eq!(after.ask("gets k"), format!("VALUE k 77 1 {version}\r\nx\r\nEND\r\n"));
    assert_eq!(after.ask("mg stale v"), "VA 1 X W\r\nx\r\n");
    assert_eq!(after.ask(&format!("cas k 78 0 1 {version}\r\ny")), "STORED\r\n");
    assert!((version + 1..1 << 63).contains(&after.version("k")));
}

#[test]
fn the_clients_of_redis_see_strings_and_what_they_write_has_a_hash_as_its_version() {
    let served = serve_empty();
    let (mut redis, mut memcached) = (served.client(), client(&served));
    assert_eq!(memcached.ask("set k 5 100 5\r\nhello"), "STORED\r\n");
    assert_eq!(redis.line("GET k"), Answer::bulk("hello"));
    assert_eq!(redis.line("TTL k"), Answer::Integer(100));
    assert_eq!(redis.line("APPEND k !"), Answer::Integer(6));
    assert_eq!(memcached.ask("get k"), "VALUE k 0 6\r\nhello!\r\nEND\r\n");
    let version = memcached.version("k");
    assert_eq!(version >> 63, 1);
    assert_eq!(redis.line("SET k hello!"), Answer::ok());
    assert_eq!(memcached.version("k"), version, "the hash of an equal value");
    assert_eq!(memcached.ask("mg k R100 t"), "HD t-1\r\n");
    assert_eq!(memcached.ask(&format!("cas k 6 0 1 {version}\r\n7")), "STORED\r\n");
    assert_eq!(redis.line("INCR k"), Answer::Integer(8));
    assert_eq!(memcached.ask("incr k 2"), "10\r\n");
    assert_eq!(redis.line("HSET hash field value"), Answer::Integer(1));
    assert_eq!(memcached.ask("get hash k"), "VALUE k 0 2\r\n10\r\nEND\r\n");
    assert!(memcached.ask("append hash 0 0 1\r\nx").starts_with("SERVER_ERROR WRONGTYPE"));
    assert_eq!(memcached.ask("delete hash"), "DELETED\r\n");
    assert_eq!(memcached.ask("flush_all"), "OK\r\n");
    assert_eq!(redis.line("DBSIZE"), Answer::Integer(0));
}

#[test]
fn the_last_time_of_all_is_shown_to_the_clients_of_redis() {
    let served = serve_empty();
    let (mut redis, mut memcached) = (served.client(), client(&served));
    assert_eq!(memcached.ask(&format!("set k 0 {} 1\r\nx", i64::MAX)), "STORED\r\n");
    // As Redis shows what PXAT 9223372036854775807 has set.
    assert_eq!(redis.line("EXPIRETIME k"), Answer::Integer(9_223_372_036_854_776));
    assert_eq!(redis.line("PEXPIRETIME k"), Answer::Integer(i64::MAX));
}

#[test]
fn a_value_with_a_time_is_asked_for_once_before_it_expires() {
    let served = serve_empty();
    let (mut redis, mut memcached) = (served.client(), client(&served));
    assert_eq!(redis.line("SET k v EX 50"), Answer::ok());
    let version = memcached.version("k");
    assert_eq!(memcached.ask("mg k R100"), "HD W\r\n");
    assert_eq!(memcached.ask("mg k R100"), "HD Z\r\n");
    assert_eq!(memcached.version("k"), version, "the value is the same");
    let reply = memcached.ask("mg k T1000 t");
    let seconds: u64 =
        reply.trim_end().strip_prefix("HD t").unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((900..=1000).contains(&seconds), "{reply}");
    assert!(memcached.ask("me k").starts_with("ME k exp="));
}

#[test]
fn a_database_of_plain_values_has_no_flags_and_hashes_as_versions() {
    let served = serve_with(fill, EngineKind::Silt, |_| {});
    let mut client = client(&served);
    assert!(client.ask("set k 5 0 1\r\nx").starts_with("SERVER_ERROR this database"));
    assert_eq!(client.ask("get k"), "END\r\n");
    // In one transaction: the version is that of the stored value already.
    let reply = client.ask("add k 0 0 1\r\nx\r\ngets k");
    let version = client.version("k");
    assert_eq!(version >> 63, 1);
    assert_eq!(reply, format!("STORED\r\nVALUE k 0 1 {version}\r\nx\r\nEND\r\n"));
    assert!(client.ask("md k I").starts_with("SERVER_ERROR this database"));
    assert_eq!(client.ask(&format!("cas k 0 0 1 {version}\r\ny")), "STORED\r\n");
    assert_eq!(client.ask("get key:7"), "VALUE key:7 0 7\r\nvalue:7\r\nEND\r\n");
}

#[test]
fn a_dictionary_is_read_and_a_silent_request_has_no_reply_even_if_it_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("served.dict");
    Dictionary::builder().build(&path, [("key", "value")]).unwrap();
    let mut settings = settings(directory.path());
    settings.places.mounts = vec![Mount { number: 0, path }];
    let server = Server::start(settings).unwrap();
    let mut client = Client::connect(server.memcached_address());
    assert_eq!(client.ask("get key"), "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    assert!(client.ask("set key 0 0 1\r\nx").starts_with("SERVER_ERROR READONLY"));
    assert_eq!(client.ask("set key 0 0 1 noreply\r\nx\r\nflush_all noreply\r\nincr key 1 noreply"), "");
    let mixed = client.ask("mg key v\r\nadd key 0 0 1 noreply\r\nx\r\nmg key s");
    assert_eq!(mixed, "VA 5\r\nvalue\r\nHD s5\r\n");
}

#[test]
fn a_block_is_taken_whatever_is_wrong_with_its_request() {
    let served = serve_with(fill, EngineKind::Silt, |settings| settings.limits.word_bytes_max = 1000);
    let mut client = client(&served);
    let bad = "CLIENT_ERROR bad command line format\r\n";
    assert_eq!(client.ask("set k x 0 7\r\nget k\r\n"), bad);
    assert_eq!(client.ask("set a\tb 0 0 1\r\nx"), bad);
    assert_eq!(client.ask(&format!("set {} 0 0 1\r\nx", "k".repeat(251))), bad);
    assert_eq!(client.ask("ms k 1 y\r\nx"), "CLIENT_ERROR invalid flag\r\n");
    let long = "x".repeat(3_000_000);
    assert_eq!(
        client.ask(&format!("set k 0 0 3000000\r\n{long}")),
        "SERVER_ERROR object too large for cache\r\n"
    );
    assert_eq!(
        client.ask(&format!("ms k 3000000 q\r\n{long}")),
        "SERVER_ERROR object too large for cache\r\n"
    );
    assert_eq!(client.ask(&format!("set k 0 0 3000000 noreply\r\n{long}")), "");
    assert_eq!(client.ask("get k"), "END\r\n");
    assert!(client.ask("flush_all 10").starts_with("CLIENT_ERROR flush_all takes effect at once"));
}

#[test]
fn what_is_no_text_protocol_ends_the_connection_with_its_reason() {
    let served = serve_empty();
    let mut binary = client(&served);
    binary.send([0x80, 0, 0, 3]);
    assert_eq!(
        String::from_utf8(binary.line()).unwrap(),
        "SERVER_ERROR the binary protocol is not served; use the text protocol\r\n"
    );
    assert!(binary.is_ended());
    let mut long = client(&served);
    long.send("x".repeat(2048));
    assert_eq!(long.line(), b"CLIENT_ERROR line too long\r\n");
    assert!(long.is_ended());
    let mut many = client(&served);
    let keys: Vec<String> = (0..5000).map(|key| format!("key:{key}")).collect();
    assert_eq!(many.ask("set key:77 0 0 1\r\nx"), "STORED\r\n");
    assert_eq!(many.ask(&format!("get {}", keys.join(" "))), "VALUE key:77 0 1\r\nx\r\nEND\r\n");
    many.send("quit\r\n");
    assert!(many.is_ended());
}

#[test]
fn a_client_gives_the_password_as_a_value() {
    let served =
        serve_with(fill, EngineKind::Silt, |settings| settings.password = Some("secret word".to_owned()));
    let mut client = client(&served);
    client.send("get key:1\r\n");
    assert_eq!(client.line(), b"CLIENT_ERROR unauthenticated\r\n");
    client.send("set x 0 0 13\r\ndefault wrong\r\n");
    assert_eq!(client.line(), b"CLIENT_ERROR authentication failure\r\n");
    client.send("set x 0 0 6\r\nsecret\r\n");
    assert_eq!(client.line(), b"CLIENT_ERROR bad authentication token format\r\n");
    client.send("set x 0 0 19\r\ndefault secret word\r\n");
    assert_eq!(client.line(), b"STORED\r\n");
    assert_eq!(client.ask("get key:1"), "VALUE key:1 0 7\r\nvalue:1\r\nEND\r\n");
}

#[test]
fn a_pipeline_has_its_replies_in_its_order_however_it_arrives() {
    let served = serve_empty();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut requests, mut expected, mut values) = (Vec::new(), Vec::new(), vec![None; 20]);
    for number in 0..2000 {
        let key = random.usize(..values.len());
        let (request, reply) = match random.usize(..6) {
            0 => (format!("set k{key} 0 0 4\r\n{number:04}\r\n"), "STORED\r\n".to_owned()),
            1 => (format!("set k{key} 0 0 4 noreply\r\n{number:04}\r\n"), String::new()),
            2 => ("version\r\n".to_owned(), "VERSION 1.6.18\r\n".to_owned()),
            3 => {
                let reply = if values[key].is_some() { "NOT_STORED\r\n" } else { "STORED\r\n" };
                let request = format!("add k{key} 0 0 4\r\n{:04}\r\n", values[key].unwrap_or(number));
                (request, reply.to_owned())
            }
            4 => match values[key] {
                Some(value) => (format!("mg k{key} v\r\n"), format!("VA 4\r\n{value:04}\r\n")),
                None => (format!("mg k{key} v\r\n"), "EN\r\n".to_owned()),
            },
            _ => match values[key] {
                Some(value) => {
                    (format!("get k{key}\r\n"), format!("VALUE k{key} 0 4\r\n{value:04}\r\nEND\r\n"))
                }
                None => (format!("get k{key}\r\n"), "END\r\n".to_owned()),
            },
        };
        if request.starts_with("set") || reply == "STORED\r\n" {
            values[key] = Some(number);
        }
        requests.extend(request.into_bytes());
        expected.push(reply);
    }
    let mut client = client(&served);
    let mut rest = &requests[..];
    while !rest.is_empty() {
        let (part, later) = rest.split_at(random.usize(1..=rest.len().min(2000)));
        client.send(part);
        rest = later;
    }
    let expected: String = expected.concat();
    let replies: Vec<Vec<u8>> = expected.lines().map(|_| client.line()).collect();
    assert_eq!(String::from_utf8(replies.concat()).unwrap(), expected);
}

#[test]
fn a_server_describes_itself() {
    let served = serve_with(fill, EngineKind::Silt, |_| {});
    let mut client = client(&served);
    client.ask("get key:1 key:2 none");
    let stats = client.ask("stats");
    for line in ["STAT get_hits 2\r\n", "STAT get_misses 1\r\n", "STAT cmd_get 3\r\n", "STAT threads 2\r\n"] {
        assert!(stats.contains(line), "{stats}");
    }
    assert!(stats.ends_with("END\r\n"));
    assert_eq!(client.ask("stats reset"), "RESET\r\n");
    assert!(client.ask("stats").contains("STAT get_hits 0\r\n"));
    assert_eq!(client.ask("stats items"), "END\r\n");
    let port = served.server.memcached_address().unwrap().port();
    assert!(client.ask("stats settings").contains(&format!("STAT tcpport {port}\r\n")));
}

#[test]
fn a_server_without_an_address_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.listeners.clear();
    assert!(Server::start(settings).err().unwrap().to_string().contains("no address"));
}

#[test]
fn a_number_keeps_the_length_of_its_value_whatever_that_is() {
    for engine in [EngineKind::Mica, EngineKind::Silt] {
        let served = serve_with(|_| {}, engine, |_| {});
        let mut client = Client::connect(served.server.memcached_address());
        let value = format!("5{}", " ".repeat(69_999));
        assert_eq!(client.ask(&format!("set k 0 0 {}\r\n{value}", value.len())), "STORED\r\n");
        assert_eq!(client.ask("incr k 1"), "6\r\n");
        assert!(client.ask("get k").starts_with(&format!("VALUE k 0 70000\r\n6{}", " ".repeat(69_999))));
    }
}

//! A client that waits for each reply.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a test waits for a reply before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Text(String),
    Null,
    Array(Vec<Answer>),
    Set(Vec<Answer>),
    Map(Vec<(Answer, Answer)>),
    Push(Vec<Answer>),
}

impl Answer {
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Answer {
        Answer::Bulk(bytes.as_ref().to_vec())
    }

    pub fn ok() -> Answer {
        Answer::Status("OK".to_owned())
    }

    /// Returns the text of a string or a status.
    pub fn text(&self) -> String {
        match self {
            Answer::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Answer::Status(text) | Answer::Error(text) | Answer::Text(text) => text.clone(),
            other => panic!("{other:?} is no text"),
        }
    }

    pub fn items(&self) -> &[Answer] {
        match self {
            Answer::Array(items) | Answer::Set(items) | Answer::Push(items) => items,
            other => panic!("{other:?} is no array"),
        }
    }
}

/// A connection, over TCP if nothing else is stated.
pub struct Client<S = TcpStream> {
    stream: BufReader<S>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::new(connect(address))
    }

    /// Sends nothing more.
    pub fn end_requests(&self) {
        self.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    }
}

/// Connects over TCP.
pub fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Client<S> {
        Client { stream: BufReader::new(stream) }
    }

    /// Sends a command, and returns its reply.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Answer {
        self.send(words);
        self.answer()
    }

    /// Sends a line of words, and returns the reply.
    pub fn line(&mut self, line: &str) -> Answer {
        self.ask(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Sends a command.
    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        self.send_bytes(&encode(words));
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Returns whether the server has closed the connection.
    pub fn is_ended(&mut self) -> bool {
        // The system may interrupt it, also for the completions of other I/O of the thread.
        let is_interrupted = |found: &std::io::Result<&[u8]>| {
            found.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
        };
        while is_interrupted(&self.stream.fill_buf()) {}
        match self.stream.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            // What the server has not read is lost when it closes the connection.
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                true
            }
        }
    }

    /// Takes some bytes of replies, and returns their number.
    pub fn skip(&mut self) -> usize {
        let bytes = self.stream.buffer().len();
        self.stream.consume(bytes);
        bytes
    }

    /// Returns the next reply.
    pub fn answer(&mut self) -> Answer {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let line = line.strip_suffix("\r\n").unwrap_or_else(|| panic!("{line:?} is no line"));
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().unwrap();
        match kind {
            "+" => Answer::Status(rest.to_owned()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Integer(number()),
            "_" => Answer::Null,
            "$" | "*" if rest == "-1" => Answer::Null,
            "$" => Answer::Bulk(self.bytes(number())),
            "=" => Answer::Text(String::from_utf8(self.bytes(number())[4..].to_vec()).unwrap()),
            "*" => Answer::Array((0..number()).map(|_| self.answer()).collect()),
            ">" => Answer::Push((0..number()).map(|_| self.answer()).collect()),
            "~" => Answer::Set((0..number()).map(|_| self.answer()).collect()),
            "%" => Answer::Map((0..number()).map(|_| (self.answer(), self.answer())).collect()),
            _ => panic!("{line} is no reply"),
        }
    }

    fn bytes(&mut self, length: i64) -> Vec<u8> {
        let mut bytes = vec![0; length as usize + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes.split_off(length as usize), b"\r\n");
        bytes
    }
}

/// Returns a command as an array.
pub fn encode<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

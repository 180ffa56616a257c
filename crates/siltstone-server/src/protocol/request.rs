//! Requests: arrays of strings, or a line of words.
//!
//! ```text
//! array   *2\r\n$3\r\nGET\r\n$3\r\nkey\r\n       two words: their number, then each with its length
//! inline  GET key\r\n                            a line, as a person types it
//! ```
//!
//! A parser continues where it stopped, so a request that arrives a byte at a time is examined once. It stores only
//! what has arrived: a length that a client states allocates nothing.

use super::inline;
use std::ops::Range;

/// The longest line of a request: a number, or a whole inline request, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The largest requests of a client.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The number of words.
    pub words_max: usize,
    /// The length of a word, in bytes.
    pub word_bytes_max: usize,
}

impl Limits {
    /// The limits of a client that has not given a password yet, as in Redis.
    pub const UNAUTHENTICATED: Limits = Limits { words_max: 10, word_bytes_max: 16 << 10 };
}

/// A request that is not one of RESP. The connection ends after it, because the next request cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolError(pub &'static str, pub Option<u8>);

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Protocol error: {}", self.0)?;
        self.1.map_or(Ok(()), |byte| write!(to, " '$', got '{}'", byte.escape_ascii()))
    }
}

/// A complete request: its words, as ranges of the buffer that it was parsed from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The words. There is at least one.
    pub words: Vec<Range<usize>>,
    /// The client wants no reply, whatever happens.
    pub is_silent: bool,
}

impl Request {
    /// Makes a request that is replied to.
    fn new(words: Vec<Range<usize>>) -> Request {
        Request { words, is_silent: false }
    }

    /// Returns the words.
    pub fn words<'a>(&self, buffer: &'a [u8]) -> Vec<&'a [u8]> {
        self.words.iter().map(|word| &buffer[word.clone()]).collect()
    }
}

/// Finds requests in a buffer that grows at its end.
#[derive(Debug, Default)]
pub struct RequestParser {
    /// The offset of the first byte that is not examined.
    at: usize,
    /// The words of the incomplete request.
    words: Vec<Range<usize>>,
    /// How many words are missing; `None` between two requests.
    missing: Option<usize>,
    /// The length of the word that has begun.
    word_bytes: Option<usize>,
}

impl RequestParser {
    /// Returns the next request, or `None` if it is incomplete. An inline request is changed in place: its words take
    /// the place of the line.
    pub fn next(&mut self, buffer: &mut [u8], limits: Limits) -> Result<Option<Request>, ProtocolError> {
        loop {
            let missing = match self.missing {
                Some(missing) => missing,
                None => match self.begin(buffer, limits)? {
                    Begun::Array(words) => *self.missing.insert(words),
                    Begun::Inline(request) => return Ok(Some(request)),
                    Begun::Nothing => continue,
                    Begun::Incomplete => return Ok(None),
                },
            };
            if missing == 0 {
                self.missing = None;
                return Ok(Some(Request::new(std::mem::take(&mut self.words))));
            }
            let Some(word) = self.word(buffer, limits)? else { return Ok(None) };
            self.words.push(word);
            self.missing = Some(missing - 1);
        }
    }

    /// Returns the offset from which on the buffer is needed: before it are only complete requests.
    pub fn needed_from(&self) -> usize {
        self.words.first().map_or(self.at, |word| word.start)
    }

    /// Returns the memory of the words of the incomplete request, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<Range<usize>>()
    }

    /// Notes that the first bytes of the buffer were removed, all before [`needed_from`](Self::needed_from).
    pub fn removed(&mut self, bytes: usize) {
        self.at -= bytes;
        for word in &mut self.words {
            *word = word.start - bytes..word.end - bytes;
        }
    }

    /// Reads the first line of a request.
    fn begin(&mut self, buffer: &mut [u8], limits: Limits) -> Result<Begun, ProtocolError> {
        let Some(&first) = buffer.get(self.at) else { return Ok(Begun::Incomplete) };
        let too_long = if first == b'*' { "too big mbulk count string" } else { "too big inline request" };
        let Some(line) = self.line(buffer, too_long)? else { return Ok(Begun::Incomplete) };
        if first != b'*' {
            let words =
                inline::split(buffer, line).ok_or(ProtocolError("unbalanced quotes in request", None))?;
            return Ok(if words.is_empty() { Begun::Nothing } else { Begun::Inline(Request::new(words)) });
        }
        match number(&buffer[line.start + 1..line.end]) {
            // An array of no words asks for nothing, and gets no reply.
            Some(..=0) => Ok(Begun::Nothing),
            Some(words) if words as u64 <= limits.words_max as u64 => Ok(Begun::Array(words as usize)),
            _ => Err(ProtocolError("invalid multibulk length", None)),
        }
    }

    /// Reads the next word of an array.
    fn word(&mut self, buffer: &[u8], limits: Limits) -> Result<Option<Range<usize>>, ProtocolError> {
        let bytes = match self.word_bytes {
            Some(bytes) => bytes,
            None => {
                let Some(line) = self.line(buffer, "too big bulk count string")? else { return Ok(None) };
                match buffer[line.clone()].first() {
                    Some(b'$') => {}
                    other => return Err(ProtocolError("expected", Some(other.copied().unwrap_or(b'\r')))),
                }
                let bytes = number(&buffer[line.start + 1..line.end]).filter(|bytes| *bytes >= 0);
                let bytes = bytes.filter(|bytes| *bytes as u64 <= limits.word_bytes_max as u64);
                *self.word_bytes.insert(bytes.ok_or(ProtocolError("invalid bulk length", None))? as usize)
            }
        };
        // Redis does not examine the two bytes of the line's end either.
        if buffer.len() - self.at < bytes + 2 {
            return Ok(None);
        }
        let word = self.at..self.at + bytes;
        self.at = word.end + 2;
        self.word_bytes = None;
        Ok(Some(word))
    }

    /// Returns the next line without its end, and passes it. `None` if it is incomplete.
    fn line(&mut self, buffer: &[u8], too_long: &'static str) -> Result<Option<Range<usize>>, ProtocolError> {
        let rest = &buffer[self.at..];
        let searched = &rest[..rest.len().min(LINE_BYTES_MAX)];
        let Some(length) = searched.iter().position(|byte| *byte == b'\n') else {
            return if searched.len() < LINE_BYTES_MAX {
                Ok(None)
            } else {
                Err(ProtocolError(too_long, None))
            };
        };
        let start = self.at;
        self.at += length + 1;
        let ends_with_return = length > 0 && rest[length - 1] == b'\r';
        Ok(Some(start..start + length - usize::from(ends_with_return)))
    }
}

/// What the first line of a request begins.
enum Begun {
    Array(usize),
    Inline(Request),
    Nothing,
    Incomplete,
}

/// Parses a decimal number as Redis does: no plus sign, no zeros in front, no spaces.
pub fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_plain.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

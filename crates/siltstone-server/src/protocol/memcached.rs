//! Requests of memcached's text protocol: a line of words, and for those that store a value a block of bytes.
//!
//! ```text
//! get k1 k2\r\n                          words: get, k1, k2
//! set k 5 100 3 noreply\r\nabc\r\n       words: set, k, 5, 100, 3, abc\r\n     silent
//! ms azE= 3 b c\r\nabc\r\n               words: ms, k1, 3, b, c, abc\r\n       the key was in base 64
//! ```
//!
//! 1. Words are separated by spaces. `noreply` makes a request silent, and is no word of it.
//! 2. The length of a block is a word. The block is the last word, with the two bytes that end it: the command checks
//!    them, as in memcached.
//! 3. A block that is longer than the limit is passed over, and the last word is empty. The request is complete at
//!    once.
//! 4. Without a valid length there is no block, and no last word.
//!
//! The parser continues where it stopped. It stores only what has arrived: a length that a client states allocates
//! nothing.

use super::base64;
use super::request::{Limits, Request};
use std::ops::Range;

/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 2048;

/// The longest line of a command with several keys, in bytes.
const KEYS_LINE_BYTES_MAX: usize = 64 << 10;

/// The beginnings of such lines.
const WITH_KEYS: [&[u8]; 4] = [b"get ", b"gets ", b"gat ", b"gats "];

/// The largest length of a block that memcached takes for one.
const BLOCK_LENGTH_MAX: usize = i32::MAX as usize - 2;

/// The bytes after a block.
const END_BYTES: usize = 2;

/// The first byte of a request of the binary protocol.
const BINARY: u8 = 0x80;

/// Finds requests in a buffer that grows at its end.
#[derive(Debug, Default)]
pub struct MemcachedParser {
    /// The offset of the first byte that belongs to no request yet.
    at: usize,
    /// How many bytes after it were searched for the end of a line.
    searched: usize,
    /// A request whose block is incomplete, and the bytes of the block with its end.
    pending: Option<(Request, usize)>,
    /// How many bytes of a block that is too long are still to come.
    passed_over: usize,
}

/// How the line of a command ends.
enum Form {
    /// With `noreply` or another word after this number of words, which is ignored.
    Words(usize),
    /// Like that; this word is the length of a block.
    Block(usize, usize),
    /// With `noreply`, if the client wants no reply.
    Any,
}

fn form(name: &[u8]) -> Option<Form> {
    match name {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" => Some(Form::Block(5, 4)),
        b"cas" => Some(Form::Block(6, 4)),
        b"incr" | b"decr" | b"touch" => Some(Form::Words(3)),
        b"delete" | b"flush_all" | b"verbosity" => Some(Form::Any),
        _ => None,
    }
}

impl MemcachedParser {
    /// Returns the next request, or `None` if it is incomplete. A key in base 64 is decoded in place.
    ///
    /// # Errors
    /// The reply to a request after which the next one cannot be found: the connection ends.
    pub fn next(&mut self, buffer: &mut [u8], limits: Limits) -> Result<Option<Request>, &'static str> {
        let passed = self.passed_over.min(buffer.len() - self.at);
        self.at += passed;
        self.passed_over -= passed;
        if self.pending.is_none() {
            let Some(line) = self.line(buffer)? else { return Ok(None) };
            match self.begin(buffer, line, limits) {
                (request, Some(bytes)) => self.pending = Some((request, bytes)),
                (request, None) => return Ok(Some(request)),
            }
        }
        let rest = buffer.len() - self.at;
        let Some((mut request, bytes)) = self.pending.take_if(|(_, bytes)| *bytes <= rest) else {
            return Ok(None);
        };
        request.words.push(self.at..self.at + bytes);
        self.at += bytes;
        Ok(Some(request))
    }

    /// Returns the offset from which on the buffer is needed: before it are only complete requests.
    pub fn needed_from(&self) -> usize {
        self.pending
            .as_ref()
            .and_then(|(request, _)| request.words.first())
            .map_or(self.at, |word| word.start)
    }

    /// Notes that the first bytes of the buffer were removed, all before [`needed_from`](Self::needed_from).
    pub fn removed(&mut self, bytes: usize) {
        self.at -= bytes;
        for word in self.pending.iter_mut().flat_map(|(request, _)| &mut request.words) {
            *word = word.start - bytes..word.end - bytes;
        }
    }

    /// Returns the next line without its end, and passes it. `None` if it is incomplete.
    fn line(&mut self, buffer: &[u8]) -> Result<Option<Range<usize>>, &'static str> {
        let rest = &buffer[self.at..];
        if rest.first() == Some(&BINARY) {
            return Err("SERVER_ERROR the binary protocol is not served; use the text protocol");
        }
        let bytes_max = match WITH_KEYS.iter().any(|name| rest.starts_with(name)) {
            true => KEYS_LINE_BYTES_MAX,
            false => LINE_BYTES_MAX,
        };
        let rest = &rest[..rest.len().min(bytes_max)];
        let Some(length) = rest[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = rest.len();
            return if rest.len() < bytes_max { Ok(None) } else { Err("CLIENT_ERROR line too long") };
        };
        let length = self.searched + length;
        self.searched = 0;
        let start = self.at;
        self.at += length + 1;
        let ends_with_return = length > 0 && rest[length - 1] == b'\r';
        Ok(Some(start..start + length - usize::from(ends_with_return)))
    }

    /// Splits a line into words. Returns the request, and the bytes of its block if it is complete only with one.
    fn begin(&mut self, buffer: &mut [u8], line: Range<usize>, limits: Limits) -> (Request, Option<usize>) {
        let mut request = Request { words: split(buffer, line.clone()), is_silent: false };
        let words = &mut request.words;
        let name = words[0].clone();
        let length_at = match form(&buffer[name.clone()]) {
            Some(form) => end_line(buffer, &mut request, &form),
            None if is_meta(&buffer[name.clone()]) => {
                let stores = &buffer[name] == b"ms";
                decode_key(buffer, words, if stores { 3 } else { 2 });
                (stores && words.len() > 2).then_some(2)
            }
            None => None,
        };
        let Some(length_at) = length_at else { return (request, None) };
        let length = std::str::from_utf8(&buffer[request.words[length_at].clone()]);
        let length = length.ok().and_then(|length| length.parse::<usize>().ok());
        match length.filter(|length| *length <= BLOCK_LENGTH_MAX) {
            Some(length) if length <= limits.word_bytes_max => (request, Some(length + END_BYTES)),
            Some(length) => {
                self.passed_over = length + END_BYTES;
                request.words.push(line.end..line.end);
                (request, None)
            }
            None => {
                // Of a meta command, whose flags may be any number of words, only the key stays.
                if length_at == 2 {
                    request.words.truncate(2);
                }
                (request, None)
            }
        }
    }
}

/// Returns the words between spaces; an empty one if there is none.
fn split(buffer: &[u8], line: Range<usize>) -> Vec<Range<usize>> {
    let mut start = line.start;
    let mut words = Vec::new();
    for word in buffer[line.clone()].split(|byte| *byte == b' ') {
        if !word.is_empty() {
            words.push(start..start + word.len());
        }
        start += word.len() + 1;
    }
    if words.is_empty() {
        words.push(line.end..line.end);
    }
    words
}

/// Removes `noreply`. Returns which word is the length of a block.
fn end_line(buffer: &[u8], request: &mut Request, form: &Form) -> Option<usize> {
    let words = &mut request.words;
    let has_noreply = words.len() > 1 && words.last().is_some_and(|word| &buffer[word.clone()] == b"noreply");
    match *form {
        Form::Words(count) | Form::Block(count, _) if words.len() == count + 1 => {
            request.is_silent = has_noreply;
            words.truncate(count);
        }
        Form::Any if has_noreply => {
            request.is_silent = true;
            words.pop();
        }
        _ => {}
    }
    match *form {
        Form::Block(count, length_at) if words.len() == count => Some(length_at),
        _ => None,
    }
}

fn is_meta(name: &[u8]) -> bool {
    matches!(name, [b'm', b'g' | b's' | b'd' | b'a' | b'e'])
}

/// Decodes the key in place if a flag says that it is in base 64. One that is not becomes empty.
fn decode_key(buffer: &mut [u8], words: &mut [Range<usize>], flags_from: usize) {
    let flags = words.get(flags_from..).unwrap_or_default();
    if flags.iter().any(|flag| buffer[flag.clone()].first() == Some(&b'b')) {
        let key = &mut words[1];
        let decoded = base64::decode(&buffer[key.clone()]).unwrap_or_default();
        buffer[key.start..key.start + decoded.len()].copy_from_slice(&decoded);
        key.end = key.start + decoded.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { words_max: 100, word_bytes_max: 10 };

    /// Parses requests that arrive in parts: the first one has `first` bytes, the others have `part`.
    fn parse(input: &[u8], first: usize, part: usize) -> Vec<(Vec<String>, bool)> {
        let mut parser = MemcachedParser::default();
        let (mut buffer, mut requests) = (Vec::new(), Vec::new());
        let (head, tail) = input.split_at(first.min(input.len()));
        for part in std::iter::once(head).chain(tail.chunks(part)) {
            buffer.extend_from_slice(part);
            while let Some(request) = parser.next(&mut buffer, LIMITS).unwrap() {
                let words = request.words(&buffer).into_iter();
                let words = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                requests.push((words, request.is_silent));
                let needed_from = parser.needed_from();
                buffer.drain(..needed_from);
                parser.removed(needed_from);
            }
            // What is passed over is not kept.
            let needed_from = parser.needed_from();
            buffer.drain(..needed_from);
            parser.removed(needed_from);
            assert!(buffer.len() < 100);
        }
        assert!(buffer.is_empty());
        requests
    }

    #[test]
    fn requests_are_the_same_wherever_they_are_split() {
        let input = b"get a  b\r\nset k 5 0 3 noreply\r\na\r\n\r\n\nset k 0 0 11\r\n12345678901\r\ndelete k noreply\r\n\
            ms azE= 2 b c\r\nab\r\nmg !! b\r\nset k 0 0 x\r\nms k x q\r\nadd k 1 2 0\r\n\r\nset k 1\r\nincr k 1 x\n\
            get noreply\r\ncas k 0 0 2 7\r\nabXYmn\r\n";
        let expected = [
            (&["get", "a", "b"][..], false),
            (&["set", "k", "5", "0", "3", "a\r\n\r\n"], true),
            (&[""], false),
            (&["set", "k", "0", "0", "11", ""], false),
            (&["delete", "k"], true),
            (&["ms", "k1", "2", "b", "c", "ab\r\n"], false),
            (&["mg", "", "b"], false),
            (&["set", "k", "0", "0", "x"], false),
            (&["ms", "k"], false),
            (&["add", "k", "1", "2", "0", "\r\n"], false),
            (&["set", "k", "1"], false),
            (&["incr", "k", "1"], false),
            (&["get", "noreply"], false),
            (&["cas", "k", "0", "0", "2", "7", "abXY"], false),
            (&["mn"], false),
        ];
        let whole = parse(input, input.len(), 1);
        assert_eq!(whole.len(), expected.len());
        for ((words, is_silent), (expected, silent)) in whole.iter().zip(expected) {
            assert_eq!(
                (&words.iter().map(String::as_str).collect::<Vec<_>>()[..], *is_silent),
                (expected, silent)
            );
        }
        for first in 0..input.len() {
            assert_eq!(parse(input, first, input.len()), whole, "split at {first}");
        }
        assert_eq!(parse(input, 0, 1), whole);
    }

    #[test]
    fn a_length_allocates_nothing_and_a_long_line_is_refused() {
        let mut parser = MemcachedParser::default();
        let mut buffer = b"set k 0 0 2147483645\r\n".to_vec();
        let request = parser.next(&mut buffer, LIMITS).unwrap().unwrap();
        assert_eq!(request.words(&buffer).last(), Some(&&b""[..]));
        assert_eq!((parser.passed_over, parser.needed_from()), (2_147_483_647, buffer.len()));
        let refused = |start: &[u8], bytes: usize| {
            let mut line = start.to_vec();
            line.resize(bytes, b'k');
            MemcachedParser::default().next(&mut line, LIMITS)
        };
        assert_eq!(refused(b"set ", 2047), Ok(None));
        assert_eq!(refused(b"set ", 2048), Err("CLIENT_ERROR line too long"));
        assert_eq!(refused(b"gets ", 65_535), Ok(None));
        assert_eq!(refused(b"gets ", 65_536), Err("CLIENT_ERROR line too long"));
        assert!(refused(b"\x80", 1).unwrap_err().contains("binary"));
    }
}

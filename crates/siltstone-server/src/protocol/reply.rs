//! Replies: values of RESP 2 and 3 as bytes, and memcached's lines.

/// The protocol of a connection, with the version that the client has chosen by HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// RESP 2, before HELLO.
    #[default]
    Resp2,
    /// RESP 3, which has maps, sets, numbers with a fraction, booleans and one null.
    Resp3,
    /// memcached's text protocol, whose replies are the lines of its commands.
    Memcached,
}

/// The most bytes of the reply to a request: the longest value, and what is around it.
pub const REPLY_BYTES_MAX: usize = siltstone::VALUE_LENGTH_MAX + (1 << 20);

/// Appends the reply to a request to the output of a connection. What RESP 2 lacks is written as Redis does it there.
/// Strings that would make it longer than [`REPLY_BYTES_MAX`] are left out.
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
    /// The length of the output without the reply.
    start: usize,
    is_too_long: bool,
}

impl<'a> Reply<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> Reply<'a> {
        let start = out.len();
        Reply { out, version, start, is_too_long: false }
    }

    /// Returns the version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Changes the version, from this reply on.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Returns the length of the output, for [`truncate`](Self::truncate).
    pub fn length(&self) -> usize {
        self.out.len()
    }

    /// Removes what was appended after this length.
    pub fn truncate(&mut self, length: usize) {
        self.out.truncate(length);
        self.is_too_long = false;
    }

    /// Returns whether strings were left out, after the length to which it was truncated last.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// A status, such as `OK`.
    pub fn status(&mut self, status: &str) {
        self.line(b'+', status.as_bytes());
    }

    /// `OK`.
    pub fn ok(&mut self) {
        self.status("OK");
    }

    /// Bytes of a reply of memcached.
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.out.extend_from_slice(bytes.as_ref());
    }

    /// A value in a reply of memcached, within the limit of a reply.
    pub fn raw_value(&mut self, bytes: &[u8]) {
        if self.fits(bytes) {
            self.raw(bytes);
        }
    }

    /// Returns whether a string may be appended. After the first one that may not, none may.
    fn fits(&mut self, bytes: &[u8]) -> bool {
        self.is_too_long |= self.out.len() - self.start + bytes.len() > REPLY_BYTES_MAX;
        !self.is_too_long
    }

    /// A number in a reply of memcached.
    pub fn raw_number(&mut self, number: u64) {
        self.raw(itoa::Buffer::new().format(number));
    }

    /// An error: its code, and what is wrong. memcached has a code for all errors of a server.
    pub fn error(&mut self, message: &str) {
        let is_of_memcached =
            ["ERROR", "CLIENT_ERROR", "SERVER_ERROR"].iter().any(|code| message.starts_with(code));
        let message = match self.version {
            Version::Memcached if is_of_memcached => message,
            Version::Memcached => {
                self.raw("SERVER_ERROR ");
                match message.strip_prefix("OOM ").and_then(|text| text.split_once(": ")) {
                    // In memcached's words, with the same reason.
                    Some((_, reason)) => {
                        self.raw("out of memory storing object: ");
                        reason
                    }
                    None => message.strip_prefix("ERR ").unwrap_or(message),
                }
            }
            Version::Resp2 | Version::Resp3 => {
                self.raw("-");
                message
            }
        };
        // A line break would end the reply.
        self.out.extend(message.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    /// A whole number.
    pub fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    /// A string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        if !self.fits(bytes) {
            return;
        }
        self.number(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Text for people.
    pub fn text(&mut self, text: &str) {
        match self.version {
            Version::Resp2 | Version::Memcached => self.bulk(text.as_bytes()),
            Version::Resp3 => {
                self.number(b'=', text.len() as i64 + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Text in a format of three letters.
    pub fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        if self.version != Version::Resp3 {
            return self.bulk(text);
        }
        let letters = [0, 1, 2].map(|at| format.get(at).copied().unwrap_or(b' '));
        self.line(b'=', itoa::Buffer::new().format(text.len() + 4).as_bytes());
        self.raw(letters);
        self.line(b':', text);
    }

    /// Whether something is so.
    pub fn boolean(&mut self, is_true: bool) {
        match self.version {
            Version::Resp3 => self.line(b'#', if is_true { b"t" } else { b"f" }),
            Version::Resp2 | Version::Memcached => self.integer(i64::from(is_true)),
        }
    }

    /// A number with a fraction.
    pub fn double(&mut self, number: &str) {
        self.number_text(b',', number);
    }

    /// A whole number of any size.
    pub fn big_number(&mut self, number: &str) {
        self.number_text(b'(', number);
    }

    fn number_text(&mut self, kind: u8, number: &str) {
        match self.version {
            Version::Resp3 => self.line(kind, number.as_bytes()),
            Version::Resp2 | Version::Memcached => self.bulk(number.as_bytes()),
        }
    }

    /// No value.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 | Version::Memcached => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 | Version::Memcached => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// A value, or none.
    pub fn optional(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// The beginning of an array of N replies.
    pub fn array(&mut self, length: usize) {
        self.number(b'*', length as i64);
    }

    /// The beginning of a push of N replies, which no request asks for.
    pub fn push(&mut self, length: usize) {
        match self.version {
            Version::Resp2 | Version::Memcached => self.array(length),
            Version::Resp3 => self.number(b'>', length as i64),
        }
    }

    /// The beginning of a map of N pairs of replies.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Resp2 | Version::Memcached => self.number(b'*', 2 * pairs as i64),
            Version::Resp3 => self.number(b'%', pairs as i64),
        }
    }

    /// The beginning of a set of N replies.
    pub fn set(&mut self, length: usize) {
        match self.version {
            Version::Resp2 | Version::Memcached => self.array(length),
            Version::Resp3 => self.number(b'~', length as i64),
        }
    }

    fn number(&mut self, kind: u8, number: i64) {
        self.out.push(kind);
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

//! The bytes of the protocols: RESP, Redis's protocol, versions 2 and 3, and memcached's text protocol. Requests to
//! words, and replies to bytes. No sockets.

pub mod base64;
mod inline;
mod memcached;
pub mod push;
mod reply;
mod request;

pub use memcached::MemcachedParser;
pub use reply::{REPLY_BYTES_MAX, Reply, Version};
pub use request::{Limits, ProtocolError, Request, RequestParser, number};

/// Finds the requests of a connection, in its protocol.
#[derive(Debug)]
pub enum Parser {
    /// RESP.
    Redis(RequestParser),
    /// memcached's text protocol.
    Memcached(MemcachedParser),
}

impl Parser {
    /// Makes the parser of a protocol.
    pub fn new(version: Version) -> Parser {
        match version {
            Version::Resp2 | Version::Resp3 => Parser::Redis(RequestParser::default()),
            Version::Memcached => Parser::Memcached(MemcachedParser::default()),
        }
    }

    /// Returns the next request, or `None` if it is incomplete. May change its words in place.
    ///
    /// # Errors
    /// The error reply to a request after which the next one cannot be found: the connection ends.
    pub fn next(&mut self, buffer: &mut [u8], limits: Limits) -> Result<Option<Request>, String> {
        match self {
            Parser::Redis(parser) => parser.next(buffer, limits).map_err(|error| format!("ERR {error}")),
            Parser::Memcached(parser) => parser.next(buffer, limits).map_err(str::to_owned),
        }
    }

    /// Returns the offset from which on the buffer is needed: before it are only complete requests.
    pub fn needed_from(&self) -> usize {
        match self {
            Parser::Redis(parser) => parser.needed_from(),
            Parser::Memcached(parser) => parser.needed_from(),
        }
    }

    /// Notes that the first bytes of the buffer were removed, all before [`needed_from`](Self::needed_from).
    pub fn removed(&mut self, bytes: usize) {
        match self {
            Parser::Redis(parser) => parser.removed(bytes),
            Parser::Memcached(parser) => parser.removed(bytes),
        }
    }
}

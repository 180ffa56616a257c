//! Requests: operation, lengths, hash, expiry time, key, and the value of a put or the space reserved for that of a
//! get.

use super::{HEADER_BYTES, Header, Kind, Malformed, bytes_at};
use siltstone::batch::NEVER;
use siltstone_mica::{HashedKey, Operation, Request};

/// The bytes of a request before its key; 8 more if it expires.
pub const REQUEST_BYTES_MIN: usize = 16;

pub(super) const GET: u8 = 1;
pub(super) const PUT: u8 = 2;
pub(super) const DELETE: u8 = 3;
/// The flag of an expiry time, which precedes the key.
const EXPIRES: u8 = 0x80;

/// Returns the number of zeros after `length` bytes, so that the next request begins at a multiple of 8.
#[inline]
pub fn padding(length: usize) -> usize {
    length.wrapping_neg() % 8
}

/// Returns the bytes of a request with a key and a value, or with space reserved for one.
#[inline]
pub fn request_bytes(key_length: usize, value_length: usize, expires: bool) -> usize {
    let payload = key_length.saturating_add(value_length).saturating_add(usize::from(expires) * 8);
    REQUEST_BYTES_MIN.saturating_add(payload).saturating_add(padding(payload))
}

/// The requests of a packet, in order. Each is returned with the maximum length of its response: its own length.
pub struct Requests<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Requests<'a> {
    /// Starts with the first request of a packet with this header.
    ///
    /// # Errors
    /// [`Malformed::Empty`] if there is none, [`Malformed::Kind`] if the packet has another kind.
    #[inline]
    pub fn of(header: &Header, packet: &'a [u8]) -> Result<Requests<'a>, Malformed> {
        match (header.kind, header.count) {
            (Kind::Requests, 0) => Err(Malformed::Empty),
            (Kind::Requests, left) => {
                Ok(Requests { rest: packet.get(HEADER_BYTES..).ok_or(Malformed::Short)?, left })
            }
            _ => Err(Malformed::Kind(0)),
        }
    }

    #[inline]
    fn take(&mut self) -> Result<(Request<'a>, usize), Malformed> {
        let head: [u8; REQUEST_BYTES_MIN] = bytes_at(self.rest, 0)?;
        let [code, result, key0, key1, value0, value1, value2, value3, hash @ ..] = head;
        let key_length = usize::from(u16::from_le_bytes([key0, key1]));
        let value_length = u32::from_le_bytes([value0, value1, value2, value3]) as usize;
        let expires = code == PUT | EXPIRES;
        if result != 0 || key_length == 0 {
            return Err(Malformed::Operation);
        }
        let bytes = request_bytes(key_length, value_length, expires);
        if bytes > self.rest.len() {
            return Err(Malformed::Short);
        }
        let (own, rest) = self.rest.split_at(bytes);
        let payload = &own[REQUEST_BYTES_MIN + usize::from(expires) * 8..];
        let (key, value) = payload.split_at(key_length);
        let operation = match code {
            GET => Operation::Get,
            PUT => Operation::Put { value: &value[..value_length], expires_at_ms: NEVER },
            DELETE if value_length == 0 => Operation::Delete,
            _ if expires => match u64::from_le_bytes(bytes_at(own, REQUEST_BYTES_MIN)?) {
                NEVER => return Err(Malformed::Operation),
                expires_at_ms => Operation::Put { value: &value[..value_length], expires_at_ms },
            },
            _ => return Err(Malformed::Operation),
        };
        self.rest = rest;
        self.left -= 1;
        let key = HashedKey { hash: u64::from_le_bytes(hash), bytes: key };
        Ok((Request { key, operation }, bytes))
    }
}

impl<'a> Iterator for Requests<'a> {
    type Item = Result<(Request<'a>, usize), Malformed>;

    /// Ends after an error, and reports bytes after the last request.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let rest = std::mem::take(&mut self.rest);
            return (!rest.is_empty()).then_some(Err(Malformed::Long));
        }
        let taken = self.take();
        if taken.is_err() {
            (self.rest, self.left) = (&[], 0);
        }
        Some(taken)
    }
}

/// Writes a packet of requests.
pub struct RequestWriter<'a> {
    packet: &'a mut Vec<u8>,
    start: usize,
    count: u16,
}

impl<'a> RequestWriter<'a> {
    /// Appends a packet to `packet`, made with the directory of this epoch.
    pub fn new(packet: &'a mut Vec<u8>, epoch: u16, sequence: u64) -> RequestWriter<'a> {
        let start = packet.len();
        packet.extend_from_slice(&Header { kind: Kind::Requests, count: 0, epoch, sequence }.encode());
        RequestWriter { packet, start, count: 0 }
    }

    /// Returns the bytes of the packet so far.
    pub fn bytes(&self) -> usize {
        self.packet.len() - self.start
    }

    /// Returns the number of requests in the packet so far.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Adds a request; a get reserves space for a value of `room` bytes in its response. The caller checks that the key
    /// has 1 to 65,535 bytes and that key and value fit in a packet.
    pub fn add(&mut self, request: &Request<'_>, room: usize) {
        let (code, value, expires_at_ms) = match request.operation {
            Operation::Get => (GET, &[][..], NEVER),
            Operation::Put { value, expires_at_ms: NEVER } => (PUT, value, NEVER),
            Operation::Put { value, expires_at_ms } => (PUT | EXPIRES, value, expires_at_ms),
            Operation::Delete => (DELETE, &[][..], NEVER),
        };
        // The key counts as reserved space as well, since the response does not repeat it.
        let spare = match code {
            GET => room.saturating_sub(request.key.bytes.len() + REQUEST_BYTES_MIN - 8),
            _ => 0,
        };
        let begin = self.packet.len();
        let value_length = (value.len() + spare) as u32;
        self.packet.extend_from_slice(&[code, 0]);
        self.packet.extend_from_slice(&(request.key.bytes.len() as u16).to_le_bytes());
        self.packet.extend_from_slice(&value_length.to_le_bytes());
        self.packet.extend_from_slice(&request.key.hash.to_le_bytes());
        if code & EXPIRES != 0 {
            self.packet.extend_from_slice(&expires_at_ms.to_le_bytes());
        }
        self.packet.extend_from_slice(request.key.bytes);
        self.packet.extend_from_slice(value);
        let length = self.packet.len() - begin + spare;
        self.packet.resize(begin + length + padding(length), 0);
        self.count += 1;
        self.packet[self.start + 4..self.start + 6].copy_from_slice(&self.count.to_le_bytes());
    }
}

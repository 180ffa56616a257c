//! Responses, each in the place of its request.

use super::request::{DELETE, GET, PUT};
use super::{HEADER_BYTES, Header, Kind, Malformed, bytes_at, padding};
use siltstone_mica::{Full, Operation, Reply};

/// The bytes of a response before its value.
pub const RESPONSE_BYTES_MIN: usize = 8;

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Outcome {
    /// The value of the key.
    #[error("found")]
    Found,
    /// The key is absent.
    #[error("key not found")]
    Absent,
    /// The value was stored.
    #[error("stored")]
    Stored,
    /// The key was present and is removed.
    #[error("deleted")]
    Deleted,
    /// There is a value, but the request reserved too few bytes for it.
    #[error("the value is too long for a packet; increase packet_bytes of the server")]
    Long,
    /// The value was not stored: the memory for items is full.
    #[error("the server's memory for items is full; delete items, or start it with more memory")]
    MemoryFull,
    /// The value was not stored: the index is full.
    #[error("the server's index is full; delete items, or start it for smaller items (record_bytes)")]
    IndexFull,
    /// The value was not stored: it is larger than the memory of its partition.
    #[error("the item is larger than the memory of its partition; start the server with more memory")]
    ItemTooLong,
    /// The value was not stored: the server's items have other sizes, or no expiry times.
    #[error("the item has another size than the server's items, or an expiry time that they do not have")]
    Shape,
    /// The request reached a core that may not execute it.
    #[error("the request reached a core that does not have the key's partition")]
    Misdirected,
    /// The hash is not that of the key.
    #[error("the hash does not match the key")]
    WrongHash,
}

/// Code 0 is not a result; requests have it.
const OUTCOMES: [Outcome; 11] = [
    Outcome::Found,
    Outcome::Absent,
    Outcome::Stored,
    Outcome::Deleted,
    Outcome::Long,
    Outcome::MemoryFull,
    Outcome::IndexFull,
    Outcome::ItemTooLong,
    Outcome::Shape,
    Outcome::Misdirected,
    Outcome::WrongHash,
];

impl Outcome {
    /// Returns the code of the result.
    #[inline]
    pub fn code(self) -> u8 {
        self as u8 + 1
    }

    fn from_code(code: u8) -> Result<Outcome, Malformed> {
        let at = usize::from(code).checked_sub(1).ok_or(Malformed::Result)?;
        OUTCOMES.get(at).copied().ok_or(Malformed::Result)
    }

    /// Returns the result of a reply.
    #[inline]
    pub fn of(reply: &Reply<'_>) -> Outcome {
        match reply {
            Reply::Found { .. } => Outcome::Found,
            Reply::Absent => Outcome::Absent,
            Reply::Stored => Outcome::Stored,
            Reply::Deleted => Outcome::Deleted,
            Reply::ReadOnly => Outcome::Misdirected,
            Reply::Refused(Full::Index) => Outcome::IndexFull,
            Reply::Refused(Full::Item) => Outcome::ItemTooLong,
            Reply::Refused(Full::Shape) => Outcome::Shape,
            // A reason that is unknown here is another way of being full.
            Reply::Refused(_) => Outcome::MemoryFull,
        }
    }
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The result of the request.
    pub outcome: Outcome,
    /// The value, if there is one.
    pub value: &'a [u8],
    /// The length of the value, in bytes, even if the response does not contain it.
    pub value_length: u32,
}

/// Returns the code of an operation in a response.
#[inline]
pub(super) fn operation_code(operation: &Operation<'_>) -> u8 {
    match operation {
        Operation::Get => GET,
        Operation::Put { .. } => PUT,
        Operation::Delete => DELETE,
    }
}

/// Writes the responses of a packet to a buffer of the length of the packet with the requests.
pub struct ResponseWriter<'a> {
    packet: &'a mut [u8],
    length: usize,
}

impl<'a> ResponseWriter<'a> {
    /// Writes the header. A buffer that is too short for it stays empty.
    #[inline]
    pub fn new(packet: &'a mut [u8], requests: &Header) -> ResponseWriter<'a> {
        let header = Header { kind: Kind::Responses, ..*requests }.encode();
        let mut writer = ResponseWriter { packet, length: 0 };
        writer.append(&header);
        writer
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        if let Some(to) = self.packet.get_mut(self.length..self.length + bytes.len()) {
            to.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }

    /// Adds the response to an operation whose request has `room` bytes. A longer value is omitted. Returns the result
    /// that was written.
    #[inline]
    pub fn add(&mut self, operation: &Operation<'_>, outcome: Outcome, value: &[u8], room: usize) -> Outcome {
        let long = RESPONSE_BYTES_MIN + value.len() + padding(value.len()) > room;
        let (outcome, shown) = if long { (Outcome::Long, &[][..]) } else { (outcome, value) };
        let [length0, length1, length2, length3] = (value.len() as u32).to_le_bytes();
        let code = operation_code(operation);
        self.append(&[code, outcome.code(), 0, 0, length0, length1, length2, length3]);
        self.append(shown);
        self.append(&[0; 8][..padding(shown.len())]);
        outcome
    }

    /// Returns the length of the packet, in bytes.
    #[inline]
    pub fn finish(self) -> usize {
        self.length
    }
}

/// The responses of a packet, in order.
pub struct Responses<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Responses<'a> {
    /// Starts with the first response of a packet with this header.
    ///
    /// # Errors
    /// [`Malformed::Empty`] if there is none, [`Malformed::Kind`] if the packet has another kind.
    pub fn of(header: &Header, packet: &'a [u8]) -> Result<Responses<'a>, Malformed> {
        match (header.kind, header.count) {
            (Kind::Responses, 0) => Err(Malformed::Empty),
            (Kind::Responses, left) => {
                Ok(Responses { rest: packet.get(HEADER_BYTES..).ok_or(Malformed::Short)?, left })
            }
            _ => Err(Malformed::Kind(0)),
        }
    }

    fn take(&mut self) -> Result<Response<'a>, Malformed> {
        let head: [u8; RESPONSE_BYTES_MIN] = bytes_at(self.rest, 0)?;
        let [code, outcome, _, _, value_length @ ..] = head;
        let outcome = Outcome::from_code(outcome)?;
        let value_length = u32::from_le_bytes(value_length);
        let has_value = outcome == Outcome::Found;
        if !matches!(code, GET | PUT | DELETE)
            || (has_value && code != GET)
            || (!has_value && outcome != Outcome::Long && value_length != 0)
        {
            return Err(Malformed::Result);
        }
        let shown = if has_value { value_length as usize } else { 0 };
        let after = &self.rest[RESPONSE_BYTES_MIN..];
        let value = after.get(..shown).ok_or(Malformed::Short)?;
        self.rest = after.get(shown + padding(shown)..).ok_or(Malformed::Short)?;
        self.left -= 1;
        Ok(Response { outcome, value, value_length })
    }
}

impl<'a> Iterator for Responses<'a> {
    type Item = Result<Response<'a>, Malformed>;

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

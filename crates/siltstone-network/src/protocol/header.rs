//! The header of every packet; `docs/formats/packet.md` has the diagram.

use super::{Malformed, bytes_at};

/// The first two bytes of every packet.
pub const MAGIC: [u8; 2] = [0x93, 0x4d];
/// The version of the protocol.
pub const VERSION: u8 = 1;
/// The length of the header, in bytes.
pub const HEADER_BYTES: usize = 16;

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requests of a client.
    Requests,
    /// Responses to requests.
    Responses,
    /// A request for the directory.
    DirectoryRequest,
    /// The directory of a server.
    Directory,
    /// The server refuses a packet, and states the reason.
    Refusal,
}

/// Why a server refuses a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It could not be decoded.
    #[error("the packet is malformed")]
    Malformed,
    /// It has another version of the protocol.
    #[error(
        "the server does not support version {VERSION} of the protocol; use the same release on both sides"
    )]
    Version,
    /// It is longer than the directory allows.
    #[error("the packet is longer than the limit in the server's directory")]
    Long,
    /// The reply would be longer than the request.
    #[error("a directory request must be as long as the longest directory")]
    Room,
    /// It was made with the directory of another run of the server.
    #[error("the server has restarted since its directory was read; read the directory again")]
    Stale,
    /// The core that has the partition is overloaded.
    #[error("the core of the partition is overloaded; retry later")]
    Overloaded,
    /// A reason that this version does not know.
    #[error("the server refused the packet for an unknown reason, {0}")]
    Other(u16),
}

/// The header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the packet.
    pub kind: Kind,
    /// The number of requests or responses; the reason of a refusal; otherwise 0.
    pub count: u16,
    /// The epoch of the directory that the packet was made with; 0 without a directory.
    pub epoch: u16,
    /// Chosen by the client, and repeated in the reply.
    pub sequence: u64,
}

impl Kind {
    fn from_code(code: u8) -> Result<Kind, Malformed> {
        Ok(match code {
            1 => Kind::Requests,
            2 => Kind::Responses,
            3 => Kind::DirectoryRequest,
            4 => Kind::Directory,
            5 => Kind::Refusal,
            _ => return Err(Malformed::Kind(code)),
        })
    }

    fn code(self) -> u8 {
        match self {
            Kind::Requests => 1,
            Kind::Responses => 2,
            Kind::DirectoryRequest => 3,
            Kind::Directory => 4,
            Kind::Refusal => 5,
        }
    }
}

impl Refusal {
    /// Returns the reason with this code.
    pub fn from_code(code: u16) -> Refusal {
        match code {
            1 => Refusal::Malformed,
            2 => Refusal::Version,
            3 => Refusal::Long,
            4 => Refusal::Room,
            5 => Refusal::Stale,
            6 => Refusal::Overloaded,
            other => Refusal::Other(other),
        }
    }

    /// Returns the code of the reason.
    pub fn code(self) -> u16 {
        match self {
            Refusal::Malformed => 1,
            Refusal::Version => 2,
            Refusal::Long => 3,
            Refusal::Room => 4,
            Refusal::Stale => 5,
            Refusal::Overloaded => 6,
            Refusal::Other(code) => code,
        }
    }
}

impl Header {
    /// Decodes the header of a packet. Ignores the bytes after it.
    ///
    /// # Errors
    /// [`Malformed::Foreign`], [`Malformed::Version`] and [`Malformed::Kind`].
    #[inline]
    pub fn decode(packet: &[u8]) -> Result<Header, Malformed> {
        let bytes: [u8; HEADER_BYTES] = bytes_at(packet, 0).map_err(|_| Malformed::Foreign)?;
        let [magic0, magic1, version, kind, count0, count1, epoch0, epoch1, sequence @ ..] = bytes;
        if [magic0, magic1] != MAGIC {
            return Err(Malformed::Foreign);
        }
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let (count, epoch) = (u16::from_le_bytes([count0, count1]), u16::from_le_bytes([epoch0, epoch1]));
        let kind = Kind::from_code(kind)?;
        Ok(Header { kind, count, epoch, sequence: u64::from_le_bytes(sequence) })
    }

    /// Encodes the header.
    #[inline]
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.kind.code();
        bytes[4..6].copy_from_slice(&self.count.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// Changes the sequence number of an encoded packet.
    pub fn set_sequence(packet: &mut [u8], sequence: u64) {
        if let Some(bytes) = packet.get_mut(8..HEADER_BYTES) {
            bytes.copy_from_slice(&sequence.to_le_bytes());
        }
    }

    /// Returns the refusal of a packet, which may have another version. It is a header, so it is never longer than the
    /// refused packet. `None` for foreign packets and for replies, so that two servers never send replies to each other
    /// endlessly.
    pub fn refusal(packet: &[u8], reason: Refusal) -> Option<[u8; HEADER_BYTES]> {
        let bytes: [u8; HEADER_BYTES] = bytes_at(packet, 0).ok()?;
        let asks = matches!(Kind::from_code(bytes[3]), Ok(Kind::Requests | Kind::DirectoryRequest));
        if bytes[..2] != MAGIC || !asks {
            return None;
        }
        let epoch = u16::from_le_bytes(bytes_at(&bytes, 6).ok()?);
        let sequence = u64::from_le_bytes(bytes_at(&bytes, 8).ok()?);
        Some(Header { kind: Kind::Refusal, count: reason.code(), epoch, sequence }.encode())
    }
}

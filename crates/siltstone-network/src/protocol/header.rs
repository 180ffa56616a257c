//! What every packet begins with, as `docs/formats/packet.md` draws it.

use super::{Malformed, bytes_at};

/// The first two bytes of every packet.
pub const MAGIC: [u8; 2] = [0x93, 0x4d];
/// The version of the protocol.
pub const VERSION: u8 = 1;
/// The length of the header, in bytes.
pub const HEADER_BYTES: usize = 16;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requests of a client.
    Requests,
    /// Their responses.
    Responses,
    /// A client asks for the directory.
    DirectoryRequest,
    /// The directory of a server.
    Directory,
    /// The server does nothing about a packet, and says why.
    Refusal,
}

/// Why a server does nothing about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It could not be decoded.
    #[error("the packet is malformed")]
    Malformed,
    /// It is of another version of the protocol.
    #[error(
        "the server does not support version {VERSION} of the protocol; use the same release on both sides"
    )]
    Version,
    /// It is longer than the directory allows.
    #[error("the packet is longer than the limit in the server's directory")]
    Long,
    /// The answer would be longer than the question.
    #[error("a directory request must be as long as the longest directory")]
    Room,
    /// It was made by the directory of another run of the server.
    #[error("the server has restarted since its directory was read; read the directory again")]
    Stale,
    /// The core that has the partition has too much to do.
    #[error("the core of the partition is overloaded; retry later")]
    Overloaded,
    /// A reason that this version does not know.
    #[error("the server refused the packet for an unknown reason, {0}")]
    Other(u16),
}

/// The header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the packet is.
    pub kind: Kind,
    /// How many requests or responses it has; of a refusal its reason; of others 0.
    pub count: u16,
    /// That of the directory by which the packet was made; 0 where there is none yet.
    pub epoch: u16,
    /// Chosen by the client, and the same in the answer.
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
    /// The reason with that code.
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

    /// Its code.
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
    /// The header of a packet. Bytes after it are not looked at.
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

    /// The same header as bytes.
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

    /// The refusal of a packet that may be of another version: as long as a header, and so never longer than what is
    /// refused. `None` where nothing may be answered: bytes of others, and what is an answer itself, lest two servers
    /// answer each other for ever.
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

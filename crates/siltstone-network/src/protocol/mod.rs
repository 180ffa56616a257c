//! The bytes of MICA's packets, without sockets. `docs/formats/packet.md` draws them.
//!
//! A packet has a header and either several requests, their responses in the same order, a directory, or the reason
//! of a refusal. Nothing that is decoded is trusted: whatever the bytes, decoding ends with a value or a [`Malformed`].
//!
//! Deviations from the dissertation (5.3.2): its prototype sends a request a packet; here a packet has as many as fit,
//! and the key does not come back with the response. A response is never longer than its request: the sender's address
//! may be forged, and a short question must not have a long answer sent to somebody else.

mod directory;
mod header;
mod request;
mod response;

#[cfg(test)]
mod tests;

pub use directory::{CORES_MAX, DIRECTORY_BYTES, Directory, PARTITIONS_MAX, encode_directory_request};
pub use header::{HEADER_BYTES, Header, Kind, MAGIC, Refusal, VERSION};
pub use request::{REQUEST_BYTES_MIN, RequestWriter, Requests, padding, request_bytes};
pub use response::{Outcome, RESPONSE_BYTES_MIN, Response, ResponseWriter, Responses};

/// The longest packet of any server, in bytes of UDP payload: what an Ethernet frame of 9,000 bytes holds.
pub const PACKET_BYTES_MAX: usize = 8_972;
/// The shortest limit that a server may have, in bytes.
pub const PACKET_BYTES_MIN: usize = 704;
/// What an Ethernet frame of 1,500 bytes holds, in bytes of UDP payload.
pub const PACKET_BYTES_DEFAULT: usize = 1_472;

/// Why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It does not begin as packets do.
    #[error("not a packet of this protocol: the header is short or has another magic number")]
    Foreign,
    /// It is of another version.
    #[error("the packet has version {0} of the protocol; expected version {VERSION}")]
    Version(u8),
    /// There is no packet of this kind.
    #[error("unknown kind of packet {0}")]
    Kind(u8),
    /// It ends before what it announces.
    #[error("the packet is cut short")]
    Short,
    /// Bytes follow what it announces.
    #[error("there are bytes after the end of the packet")]
    Long,
    /// It has no request.
    #[error("the packet has no request")]
    Empty,
    /// There is no such operation, or it has flags or sizes that it must not have.
    #[error("a request has an unknown operation, flag or size")]
    Operation,
    /// There is no such result.
    #[error("a response has an unknown result")]
    Result,
    /// The directory contradicts itself.
    #[error("the directory contradicts itself")]
    Directory,
}

/// The first `N` bytes at `offset`.
fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], Malformed> {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().ok_or(Malformed::Short)
}

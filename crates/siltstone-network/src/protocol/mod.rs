//! The bytes of MICA's packets, without sockets; `docs/formats/packet.md` has the diagrams.
//!
//! A packet has a header and either several requests, their responses in the same order, a directory, or the reason of
//! a refusal:
//!
//! ```text
//! | header: kind, count, epoch, sequence | request | request | ..       client to server
//! | header: same sequence                | response | response | ..     server to client
//! ```
//!
//! Decoders trust no bytes: they return a value or a [`Malformed`].
//!
//! Deviations from the dissertation (5.3.2): its prototype sends one request per packet; here a packet has as many as
//! fit, and a response does not repeat the key. A response is never longer than its request: the sender's address may
//! be forged, and a server must not amplify traffic to a third party.

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

/// The maximum length of a packet of any server, in bytes of UDP payload: that of an Ethernet frame of 9,000 bytes.
pub const PACKET_BYTES_MAX: usize = 8_972;
/// The minimum of the limit that a server may have, in bytes.
pub const PACKET_BYTES_MIN: usize = 704;
/// The UDP payload of an Ethernet frame of 1,500 bytes, in bytes.
pub const PACKET_BYTES_DEFAULT: usize = 1_472;

/// Why bytes are not a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The header is short or has another magic number.
    #[error("not a packet of this protocol: the header is short or has another magic number")]
    Foreign,
    /// The packet has another version.
    #[error("the packet has version {0} of the protocol; expected version {VERSION}")]
    Version(u8),
    /// The kind is unknown.
    #[error("unknown kind of packet {0}")]
    Kind(u8),
    /// The packet ends early.
    #[error("the packet is cut short")]
    Short,
    /// Bytes follow the end of the packet.
    #[error("there are bytes after the end of the packet")]
    Long,
    /// The packet has no request.
    #[error("the packet has no request")]
    Empty,
    /// An operation is unknown, or has invalid flags or sizes.
    #[error("a request has an unknown operation, flag or size")]
    Operation,
    /// A result is unknown.
    #[error("a response has an unknown result")]
    Result,
    /// The directory contradicts itself.
    #[error("the directory contradicts itself")]
    Directory,
}

/// Returns the `N` bytes at `offset`.
fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], Malformed> {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().ok_or(Malformed::Short)
}

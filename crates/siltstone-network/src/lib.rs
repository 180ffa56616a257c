//! MICA's request path over UDP (dissertation 5.3.2): a server whose cores each have a socket of their own, and a
//! client that sends every request to the core that may execute it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use siltstone_network::{Client, ClientSettings, Server, ServerSettings};
//!
//! let server = Server::start(&ServerSettings { memory_bytes: 1 << 20, ..ServerSettings::default() })?;
//! let mut client = Client::connect(server.addresses()[0], ClientSettings::default())?;
//! client.put(b"key", b"value")?;
//! assert_eq!(client.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! assert_eq!(server.stop()?.counts.puts, 1);
//! # Ok(())
//! # }
//! ```
//!
//! * [`protocol`]: the bytes of packets, without sockets; `docs/formats/packet.md` has the diagrams.
//! * [`transport`]: bursts of packets to and from a socket.
//! * [`Server`]: cores, partitions, access modes, forwarding, counters.
//! * [`Client`]: batches, retransmission with a time limit, statistics.
//!
//! A core receives a burst, decodes all packets, executes their requests partition by partition, writes the replies in
//! the order of the packets, and sends them. It waits in `poll` only after some rounds without a packet. Cores share
//! the partitions that their mode shares, a bounded queue per core for forwarded packets, and an event that wakes a
//! core in `poll`.
//!
//! There is no authentication: anyone who can send packets to a server can read and write everything, and the server
//! trusts the hashes of clients unless it is configured to verify them. Run it in a trusted network only.

mod client;
pub mod protocol;
mod server;
pub mod transport;

pub use client::{Answer, Client, ClientError, ClientSettings, ClientStatistics, Command, Failure};
pub use server::{Counts, Server, ServerError, ServerSettings, ServerStats};

//! Bursts of packets to and from a socket (dissertation 5.3.2, "Burst packet I/O"). The higher the load, the more
//! packets share the cost of a call.

mod burst;
mod udp;
mod waker;
#[cfg(any(test, feature = "af-xdp"))]
mod xdp;

pub use burst::Burst;
/// The sender or receiver of a UDP packet.
pub use nix::sys::socket::SockaddrStorage as Peer;
pub use udp::{Udp, address_of, bind};
pub use waker::Waker;
#[cfg(feature = "af-xdp")]
pub use xdp::{End, Flow, Xdp, XdpSettings, XdpSteering};

use std::io;
use std::time::Duration;

/// Sends and receives bursts of packets.
pub trait Transport {
    /// The sender of a packet, to which the reply is sent.
    type Peer: Copy + Send;

    /// Replaces the contents of the burst by received packets: as many as there are and fit, possibly none. Does not
    /// wait.
    ///
    /// # Errors
    /// Errors of the system, after which no more packets can be received.
    fn receive(&mut self, burst: &mut Burst<Self::Peer>) -> io::Result<()>;

    /// Sends all packets of the burst, and returns how many of them the system refused.
    ///
    /// # Errors
    /// Errors of the system that do not concern single packets.
    fn send(&mut self, burst: &Burst<Self::Peer>) -> io::Result<usize>;

    /// Waits until there may be packets, until woken, or until the time limit, if any.
    ///
    /// # Errors
    /// Errors of the system.
    fn wait(&mut self, limit: Option<Duration>) -> io::Result<()>;
}

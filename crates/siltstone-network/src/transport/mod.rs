//! Bursts of packets in and out of a socket (dissertation 5.3.2, "Burst packet I/O"). The more there is to do, the more
//! packets share the cost of a call.

mod burst;
mod udp;
mod waker;
#[cfg(any(test, feature = "af-xdp"))]
mod xdp;

pub use burst::Burst;
/// Where a packet of UDP came from or goes to.
pub use nix::sys::socket::SockaddrStorage as Peer;
pub use udp::{Udp, address_of, bind};
pub use waker::Waker;
#[cfg(feature = "af-xdp")]
pub use xdp::{End, Flow, Xdp, XdpSettings, XdpSteering};

use std::io;
use std::time::Duration;

/// A way for packets.
pub trait Transport {
    /// Where a packet came from, and where its answer goes.
    type Peer: Copy + Send;

    /// Empties the burst and receives packets into it: as many as are there and as it has room for, or none. Does not
    /// wait.
    ///
    /// # Errors
    /// What the system says; after it nothing more can be received.
    fn receive(&mut self, burst: &mut Burst<Self::Peer>) -> io::Result<()>;

    /// Sends all packets of the burst, and answers how many of them the system refused.
    ///
    /// # Errors
    /// What the system says, if it is not about single packets.
    fn send(&mut self, burst: &Burst<Self::Peer>) -> io::Result<usize>;

    /// Returns when there may be something to receive, when it was woken, or when the time is over; without a time
    /// limit if that is `None`.
    ///
    /// # Errors
    /// What the system says.
    fn wait(&mut self, limit: Option<Duration>) -> io::Result<()>;
}

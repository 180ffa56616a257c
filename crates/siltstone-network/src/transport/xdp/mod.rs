//! AF_XDP: packets go from the queue of a network card straight into memory of this process, past the network stack of
//! the system. It has the role of DPDK in the dissertation (5.3.2, "Direct NIC Access"), and a rule of the network card
//! that of Flow Director: it sends each port to the queue of its core. `docs/NETWORK.md` tells how to set it.
//!
//! Only datagrams to the server's ports are taken; ARP and everything else stays with the system. Deviation: each
//! packet is copied once on its way in and once on its way out, between the memory of the card and that of the burst.

// `unsafe` stands in this room alone: the kernel writes into memory that it was given.

mod frame;
#[cfg(feature = "af-xdp")]
mod program;
#[cfg(feature = "af-xdp")]
mod socket;

#[cfg(feature = "af-xdp")]
pub use frame::{End, Flow};
#[cfg(feature = "af-xdp")]
pub use socket::{Xdp, XdpSettings, XdpSteering};

//! AF_XDP: packets move directly between a queue of a network card and the memory of this process, bypassing the
//! network stack of the system. It has the role of DPDK in the dissertation (5.3.2, "Direct NIC Access"), and a rule of
//! the network card has that of Flow Director: it sends each port to the queue of its core. `docs/NETWORK.md` describes
//! the setup.
//!
//! Only datagrams to the server's ports are taken; everything else, such as ARP, remains with the system. Deviation:
//! each packet is copied once on receive and once on send, between the memory of the card and that of the burst.

// The only module of this crate with `unsafe`: the kernel writes to memory that it shares with this process.

mod frame;
#[cfg(feature = "af-xdp")]
mod program;
#[cfg(feature = "af-xdp")]
mod socket;

#[cfg(feature = "af-xdp")]
pub use frame::{End, Flow};
#[cfg(feature = "af-xdp")]
pub use socket::{Xdp, XdpSettings, XdpSteering};

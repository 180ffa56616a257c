//! The settings of a server, and their limits.

use super::ServerError;
use crate::protocol::{CORES_MAX, PACKET_BYTES_DEFAULT, PACKET_BYTES_MAX, PACKET_BYTES_MIN, PARTITIONS_MAX};
use siltstone_mica::{AccessMode, Eviction, ItemLayout};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The maximum number of packets per burst.
const BURST_MAX: usize = 1_024;

/// The settings of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSettings {
    /// The address that the server listens at. Default: the loopback address.
    pub address: IpAddr,
    /// The port of the first core; the others use the following ports. 0, the default, lets the system choose.
    pub port: u16,
    /// The number of threads, each with a socket of its own: 1 to 64, and at most the number of partitions.
    pub cores: usize,
    /// The number of partitions, a power of two up to 256. Partition n belongs to core n modulo the number of cores.
    pub partitions: u32,
    /// Which threads read and write a partition.
    pub access: AccessMode,
    /// Selects cache mode and its policy. Without it, puts are refused when the memory is full.
    pub eviction: Option<Eviction>,
    /// What the items have in common.
    pub layout: ItemLayout,
    /// The memory for items and index, in bytes: 64 KiB to 16 GiB per partition.
    pub memory_bytes: u64,
    /// The average bytes of key and value per item.
    pub record_bytes: usize,
    /// The maximum length of a packet, in bytes: 704 to 8,972.
    pub packet_bytes: usize,
    /// The maximum number of packets per receive or send: 1 to 1,024. The dissertation uses 32.
    pub burst: usize,
    /// Whether any core takes any request and forwards it to the core that may execute it; otherwise clients send
    /// requests to the right core. A packet is forwarded as a whole, so its requests should be for one partition.
    pub redirects: bool,
    /// Whether hashes are computed again and compared, about 20 ns per request. Without this, a client with wrong
    /// hashes can overload a part of the index, and other clients may not find its keys.
    pub verify_hashes: bool,
    /// The processor of each core; empty for no pinning.
    pub processors: Vec<usize>,
    /// The size of the buffers of each socket, in bytes, as far as the system allows it.
    pub socket_bytes: usize,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            cores: 1,
            partitions: 1,
            access: AccessMode::default(),
            eviction: None,
            layout: ItemLayout::default(),
            memory_bytes: 256 << 20,
            record_bytes: 64,
            packet_bytes: PACKET_BYTES_DEFAULT,
            burst: 32,
            redirects: false,
            verify_hashes: false,
            processors: Vec::new(),
            socket_bytes: 4 << 20,
        }
    }
}

impl ServerSettings {
    /// Returns the address of a core.
    pub(super) fn address_of(&self, core: usize) -> SocketAddr {
        let port = if self.port == 0 { 0 } else { self.port.saturating_add(core as u16) };
        SocketAddr::new(self.address, port)
    }

    /// Checks the limits.
    ///
    /// # Errors
    /// [`ServerError::Setting`] for a setting outside its limits.
    pub fn check(&self) -> Result<(), ServerError> {
        let partitions = self.partitions as usize;
        let memory_bytes = self.memory_bytes / u64::from(self.partitions.max(1));
        let complaint = if !self.partitions.is_power_of_two() || partitions > PARTITIONS_MAX {
            ("partitions", format!("{partitions}: a power of two up to {PARTITIONS_MAX}"))
        } else if self.cores == 0 || self.cores > CORES_MAX.min(partitions) {
            let most = CORES_MAX.min(partitions);
            ("cores", format!("{}: 1 to {most}, and at most the number of partitions", self.cores))
        } else if self.port != 0 && self.cores - 1 > usize::from(u16::MAX - self.port) {
            let problem = format!("{}: {} cores need one port each, up to 65535", self.port, self.cores);
            ("port", problem)
        } else if !(64 << 10..=16 << 30).contains(&memory_bytes) {
            let problem = format!(
                "{} bytes for {partitions} partitions: 64 KiB to 16 GiB per partition",
                self.memory_bytes
            );
            ("memory_bytes", problem)
        } else if !(PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&self.packet_bytes) {
            let problem = format!("{}: {PACKET_BYTES_MIN} to {PACKET_BYTES_MAX}", self.packet_bytes);
            ("packet_bytes", problem)
        } else if !(1..=BURST_MAX).contains(&self.burst) {
            ("burst", format!("{}: 1 to {BURST_MAX}", self.burst))
        } else if !self.processors.is_empty() && self.processors.len() != self.cores {
            let problem = format!("{} for {} cores: one per core", self.processors.len(), self.cores);
            ("processors", problem)
        } else if self.redirects && self.access == AccessMode::Crcw {
            ("redirects", "in CRCW any core may do anything: nothing is to be forwarded".to_owned())
        } else {
            return Ok(());
        };
        Err(ServerError::Setting { name: complaint.0, problem: complaint.1 })
    }
}

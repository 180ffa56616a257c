//! The directory: what a client has to know to send a request to the core that may execute it (dissertation 5.3.2).

use super::{HEADER_BYTES, Header, Kind, Malformed, PACKET_BYTES_MAX, PACKET_BYTES_MIN, bytes_at};
use siltstone::key::KeyHasher;
use siltstone_mica::AccessMode;

/// The maximum number of partitions of a server.
pub const PARTITIONS_MAX: usize = 256;
/// The maximum number of cores of a server.
pub const CORES_MAX: usize = 64;
/// The maximum length of a directory, in bytes, and the length of a directory request.
pub const DIRECTORY_BYTES: usize = PORTS_AT + 2 * (PARTITIONS_MAX + CORES_MAX);

const PORTS_AT: usize = 48;
const REDIRECTS: u8 = 1;
const LOSSY: u8 = 2;

/// The description of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// A number that differs for each run of the server. Ports and seeds of another run are invalid.
    pub epoch: u16,
    /// Which threads may read and write a partition.
    pub access: AccessMode,
    /// Whether any core takes any request and forwards it to the core that may execute it.
    pub redirects: bool,
    /// Whether items are evicted.
    pub lossy: bool,
    /// The maximum length of a packet, in bytes.
    pub packet_bytes: usize,
    /// The seed of the hash of keys.
    pub seed: [u64; 2],
    /// The destination port of each partition; their number is a power of two.
    pub partition_ports: Vec<u16>,
    /// The destination port of each core.
    pub core_ports: Vec<u16>,
}

impl Directory {
    /// Returns the hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        KeyHasher::Keyed(self.seed).hash(key).placement
    }

    /// Returns the partition of a hash.
    #[inline]
    pub fn partition(&self, hash: u64) -> usize {
        partition_of(hash, self.partition_ports.len())
    }

    /// Returns the destination port of a request; `turn` selects the core if any core may execute it.
    #[inline]
    pub fn port(&self, hash: u64, writes: bool, turn: usize) -> u16 {
        if self.redirects || self.access.allows_any_thread(writes) {
            self.core_ports.get(turn % self.core_ports.len().max(1)).copied().unwrap_or(0)
        } else {
            self.partition_ports.get(self.partition(hash)).copied().unwrap_or(0)
        }
    }

    /// Returns the packet that replies to the request with this sequence number.
    pub fn encode(&self, sequence: u64) -> Vec<u8> {
        let mut packet =
            Header { kind: Kind::Directory, count: 0, epoch: self.epoch, sequence }.encode().to_vec();
        let access = match self.access {
            AccessMode::Erew => 1,
            AccessMode::Crew => 2,
            AccessMode::Crcw => 3,
        };
        packet.push(access);
        packet.push((u8::from(self.redirects) * REDIRECTS) | (u8::from(self.lossy) * LOSSY));
        for number in [self.partition_ports.len(), self.core_ports.len(), self.packet_bytes] {
            packet.extend_from_slice(&(number as u16).to_le_bytes());
        }
        packet.resize(32, 0);
        self.seed.iter().for_each(|seed| packet.extend_from_slice(&seed.to_le_bytes()));
        for port in self.partition_ports.iter().chain(&self.core_ports) {
            packet.extend_from_slice(&port.to_le_bytes());
        }
        packet
    }

    /// Decodes a directory packet.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn decode(packet: &[u8]) -> Result<Directory, Malformed> {
        let header = Header::decode(packet)?;
        if header.kind != Kind::Directory {
            return Err(Malformed::Kind(0));
        }
        let [access, flags] = bytes_at(packet, HEADER_BYTES)?;
        let number = |at| bytes_at(packet, at).map(|bytes| usize::from(u16::from_le_bytes(bytes)));
        let (partitions, cores, packet_bytes) = (number(18)?, number(20)?, number(22)?);
        let seed = |at| bytes_at(packet, at).map(u64::from_le_bytes);
        let access = match access {
            1 => AccessMode::Erew,
            2 => AccessMode::Crew,
            3 => AccessMode::Crcw,
            _ => return Err(Malformed::Directory),
        };
        if !(1..=PARTITIONS_MAX).contains(&partitions)
            || !partitions.is_power_of_two()
            || !(1..=CORES_MAX).contains(&cores)
            || !(PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&packet_bytes)
            || flags & !(REDIRECTS | LOSSY) != 0
        {
            return Err(Malformed::Directory);
        }
        let (expected, got) = (PORTS_AT + 2 * (partitions + cores), packet.len());
        if got != expected {
            return Err(if got < expected { Malformed::Short } else { Malformed::Long });
        }
        let ports = packet[PORTS_AT..].chunks_exact(2).map(|port| u16::from_le_bytes([port[0], port[1]]));
        let mut partition_ports: Vec<u16> = ports.collect();
        let core_ports = partition_ports.split_off(partitions);
        Ok(Directory {
            epoch: header.epoch,
            access,
            redirects: flags & REDIRECTS != 0,
            lossy: flags & LOSSY != 0,
            packet_bytes,
            seed: [seed(32)?, seed(40)?],
            partition_ports,
            core_ports,
        })
    }
}

/// Returns the partition of a hash among `partitions`, a power of two: its highest bits.
#[inline]
pub(crate) fn partition_of(hash: u64, partitions: usize) -> usize {
    ((u128::from(hash) * partitions as u128) >> 64) as usize
}

/// Returns a packet that requests the directory. It is as long as the longest directory, so the reply is never longer.
pub fn encode_directory_request(sequence: u64) -> Vec<u8> {
    let mut packet = Header { kind: Kind::DirectoryRequest, count: 0, epoch: 0, sequence }.encode().to_vec();
    packet.resize(DIRECTORY_BYTES, 0);
    packet
}

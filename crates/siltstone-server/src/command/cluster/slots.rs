//! Which node of a cluster has which slots.
//!
//! A key belongs to one of 16,384 slots: CRC-16 of its hash tag modulo 16,384, as in Redis Cluster. The tag is what is
//! between the first `{` and the next `}` if that is not empty, and else the whole key. A file that all nodes have
//! names the nodes and their slots:
//!
//! ```text
//! # address       slots
//! 10.0.0.1:6379   0-8191
//! 10.0.0.2:6379   8192-16382 16383
//! ```

use crc::{CRC_16_XMODEM, CRC_32_ISCSI, CRC_64_ECMA_182, CRC_64_XZ, Crc};
use std::ops::RangeInclusive;

/// The number of slots.
pub const SLOTS: u16 = 16_384;

/// The most nodes of a map.
const NODES_MAX: usize = 1000;

const SLOT_SUM: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// Returns the slot of a key.
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|start| {
        let rest = &key[start + 1..];
        let length = rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        Some(&rest[..length])
    });
    SLOT_SUM.checksum(tag.unwrap_or(key)) % SLOTS
}

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number in hexadecimal digits, which is the same in all maps.
    pub id: String,
    /// The name of its machine, or the address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its slots, in their order.
    pub slots: Vec<RangeInclusive<u16>>,
}

impl Node {
    /// Returns the address, as MOVED has it.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The nodes of a cluster with their slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMap {
    /// The nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// The number of the node of each slot.
    owners: Vec<Option<u16>>,
    /// The number of this server's node.
    pub own: usize,
}

impl SlotMap {
    /// Reads a map. `own` is the address of this server's node.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn parse(text: &str, own: &str) -> Result<SlotMap, String> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut owners = vec![None; usize::from(SLOTS)];
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let Some(address) = line.split_whitespace().next() else { continue };
            let node = node(line).map_err(|problem| format!("line {number}: {problem}"))?;
            if nodes.iter().any(|other| other.address() == node.address()) {
                return Err(format!(
                    "line {number}: {address} has a line already; write all its slots there"
                ));
            }
            for slot in node.slots.iter().cloned().flatten() {
                let owner = &mut owners[usize::from(slot)];
                if owner.is_some() {
                    return Err(format!("line {number}: slot {slot} belongs to another node already"));
                }
                *owner = Some(nodes.len() as u16);
            }
            nodes.push(node);
        }
        if nodes.len() > NODES_MAX {
            return Err(format!("there are {} nodes; the maximum is {NODES_MAX}", nodes.len()));
        }
        let own_number = nodes.iter().position(|node| node.address() == own);
        let own = own_number.ok_or_else(|| format!("no line has {own}, the address of this node"))?;
        Ok(SlotMap { nodes, owners, own })
    }

    /// Returns the node of a slot, if it has one.
    pub fn owner(&self, slot: u16) -> Option<&Node> {
        let number = (*self.owners.get(usize::from(slot))?)?;
        self.nodes.get(usize::from(number))
    }

    /// Returns whether this server has a slot.
    pub fn is_own(&self, slot: u16) -> bool {
        self.owners.get(usize::from(slot)).is_some_and(|owner| *owner == Some(self.own as u16))
    }

    /// Returns the number of slots that have a node.
    pub fn assigned(&self) -> usize {
        self.owners.iter().flatten().count()
    }
}

/// Reads the line of a node.
fn node(line: &str) -> Result<Node, String> {
    let mut words = line.split_whitespace();
    let address = words.next().unwrap_or_default();
    let parsed = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((host, port)) = parsed.filter(|(host, port)| !host.is_empty() && *port > 0) else {
        return Err(format!("`{address}` is no HOST:PORT"));
    };
    let mut slots = Vec::new();
    for word in words {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) if first <= last && last < SLOTS => slots.push(first..=last),
            _ => return Err(format!("`{word}` is no slot or range of slots from 0 to {}", SLOTS - 1)),
        }
    }
    slots.sort_by_key(|range| *range.start());
    Ok(Node { id: id_of(address), host: host.to_owned(), port, slots })
}

/// Returns the number of a node as 40 hexadecimal digits: three checksums of its address.
fn id_of(address: &str) -> String {
    let bytes = address.as_bytes();
    let [first, second] =
        [&CRC_64_ECMA_182, &CRC_64_XZ].map(|algorithm| Crc::<u64>::new(algorithm).checksum(bytes));
    format!("{first:016x}{second:016x}{:08x}", Crc::<u32>::new(&CRC_32_ISCSI).checksum(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_of_redis() {
        for (key, slot) in [
            ("foo", 12_182),
            ("bar", 5_061),
            ("{user1000}.following", 3_443),
            ("user1000", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("{bar", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("", 0),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn a_map_has_each_slot_once_and_names_what_is_wrong() {
        let map = SlotMap::parse("# two\n\na:1 0-99 200\nb:2 100-199 # rest\n", "b:2").unwrap();
        assert_eq!((map.owner(200).map(Node::address), map.owner(201)), (Some("a:1".to_owned()), None));
        assert!(map.is_own(100) && !map.is_own(0) && !map.is_own(201));
        assert_eq!((map.assigned(), map.own), (201, 1));
        assert!(map.nodes.iter().all(|node| node.id.len() == 40) && map.nodes[0].id != map.nodes[1].id);
        for (text, problem) in [
            ("a:1 0-5\nb:2 5", "line 2: slot 5 belongs to another node"),
            ("a:1 16384", "line 1: `16384` is no slot"),
            ("a:1 9-3", "`9-3`"),
            ("a 1", "line 1: `a` is no HOST:PORT"),
            ("b:2 1\nb:2 2", "line 2: b:2 has a line already"),
            ("a:1 1", "no line has b:2"),
        ] {
            let error = SlotMap::parse(text, "b:2").unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}

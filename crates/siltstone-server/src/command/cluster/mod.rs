//! Redis Cluster's protocol with a map of slots from a file: a node replies MOVED for keys of others. There is no
//! gossip, no failover, and no migration of single slots.
//!
//! | file | contents |
//! |---|---|
//! | `slots` | slots of keys, and the map of nodes and slots |

mod slots;

pub use slots::{Node, SLOTS, SlotMap, slot_of};

use crate::failure::{Failure, Outcome};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// A cluster as one of its nodes sees it.
#[derive(Debug)]
pub struct Cluster {
    file: PathBuf,
    own: String,
    map: RwLock<Arc<SlotMap>>,
}

/// Where the map of a cluster is, and which node of it the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The file with the map, which all nodes have.
    pub file: PathBuf,
    /// The address of this node, as the file has it.
    pub node: String,
}

impl Cluster {
    /// Reads the map.
    ///
    /// # Errors
    /// [`siltstone::Error::Io`]; [`siltstone::Error::Setting`] for what is wrong in the file.
    pub fn open(settings: ClusterSettings) -> siltstone::Result<Cluster> {
        let ClusterSettings { file, node: own } = settings;
        let map = RwLock::new(Arc::new(read(&file, &own)?));
        Ok(Cluster { file, own, map })
    }

    /// Reads the map again. Requests that run keep the old one.
    ///
    /// # Errors
    /// Those of [`open`](Self::open); the map is as it was.
    pub fn reload(&self) -> siltstone::Result<()> {
        let map = Arc::new(read(&self.file, &self.own)?);
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = map;
        Ok(())
    }

    /// Returns the map.
    pub fn map(&self) -> Arc<SlotMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether this node has the slot of a key.
    pub fn is_own(&self, key: &[u8]) -> bool {
        self.map().is_own(slot_of(key))
    }

    /// Checks that keys are of one slot, and that this node has it.
    ///
    /// # Errors
    /// CROSSSLOT; MOVED with the node that has the slot; CLUSTERDOWN if none has it.
    pub fn check<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Outcome {
        let mut slot = None;
        for key in keys {
            let of_key = slot_of(key);
            if slot.is_some_and(|slot| slot != of_key) {
                return Err(Failure::new("CROSSSLOT Keys in request don't hash to the same slot"));
            }
            slot = Some(of_key);
        }
        let (Some(slot), map) = (slot, self.map()) else { return Ok(()) };
        match map.owner(slot) {
            _ if map.is_own(slot) => Ok(()),
            Some(node) => Err(Failure::from(format!("MOVED {slot} {}", node.address()))),
            None => Err(Failure::new("CLUSTERDOWN Hash slot not served")),
        }
    }
}

fn read(file: &PathBuf, own: &str) -> siltstone::Result<SlotMap> {
    let text = std::fs::read_to_string(file).map_err(|source| siltstone::Error::Io {
        operation: "read",
        file: file.clone(),
        source: Arc::new(source),
    })?;
    SlotMap::parse(&text, own).map_err(|problem| {
        let problem = format!("{}: {problem}", file.display());
        siltstone::Error::Setting { name: "cluster", problem }
    })
}

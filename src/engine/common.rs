//! The settings that every engine understands. All but the last four are fixed when a database is created.

use super::lookups::Lookups;
use crate::compression::Compression;
use crate::key::{HASH_LENGTH_MIN, KeyHasher, RecordLayout, check_key_length, check_value_length};
use crate::store::CompactionFilter;
use crate::store::block::is_block_size;
use crate::store::manifest::Header;
use siltstone_device::random_number;
use siltstone_index::coding::checksum::Secret;

use crate::error::{Error, Result};

/// The default number of partitions.
pub const PARTITIONS_DEFAULT: u32 = 16;
/// The maximum number of partitions.
const PARTITIONS_MAX: u32 = 1_024;
/// The default size of a block, in bytes.
pub const BLOCK_BYTES_DEFAULT: u32 = 4_096;

/// The settings that every engine understands. `None` means: as in the database, or the default in a new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommonSettings {
    /// The lengths of keys and values, in bytes, if all are the same.
    pub fixed: Option<(usize, usize)>,
    /// Whether keys are uniform hashes.
    pub hashed_keys: Option<bool>,
    /// Whether fixed-size records have an expiry time.
    pub expiring: Option<bool>,
    /// The number of partitions.
    pub partitions: Option<u32>,
    /// The size of a block on flash, in bytes.
    pub block_bytes: Option<u32>,
    /// How values are compressed.
    pub compression: Option<Compression>,
    /// The dictionary of compressed values is trained on this many bytes of them. Only for tests.
    pub sample_bytes: Option<usize>,
    /// The limit on the memory, in bytes.
    pub memory_budget: Option<u64>,
    /// Decides which records stay when background work writes them again.
    pub compaction_filter: Option<CompactionFilter>,
    /// How many threads execute steps of background work at the same time. A database has at least its own
    /// background threads.
    pub threads: usize,
    /// How many keys are looked up, and how many are missing. The database counts.
    pub lookups: Lookups,
}

fn refused<T>(name: &'static str, problem: String) -> Result<T> {
    Err(Error::Setting { name, problem })
}

impl CommonSettings {
    /// Checks the limits.
    pub fn check(&self) -> Result<()> {
        if let Some(partitions) = self.partitions
            && !(partitions.is_power_of_two() && partitions <= PARTITIONS_MAX)
        {
            return refused("partitions", format!("{partitions} is not a power of two from 1 to 1,024"));
        }
        if let Some(bytes) = self.block_bytes
            && !is_block_size(bytes)
        {
            return refused("block_bytes", format!("{bytes} is not a power of two from 512 to 65,536 bytes"));
        }
        if let Some(compression) = self.compression {
            self.check_compression(compression)?;
        }
        if let Some((key_length, value_length)) = self.fixed {
            let out_of_range = |error: Error| Error::Setting { name: "fixed", problem: error.to_string() };
            check_key_length(key_length).map_err(out_of_range)?;
            check_value_length(value_length).map_err(out_of_range)?;
            if self.hashed_keys == Some(true) && key_length < HASH_LENGTH_MIN {
                let problem = format!("keys of {key_length} bytes are too short for hashes; use 8 or more");
                return refused("hashed_keys", problem);
            }
        }
        Ok(())
    }

    fn check_compression(&self, compression: Compression) -> Result<()> {
        if !compression.is_possible() {
            return refused("compression", format!("{compression} is not possible; levels are from 1 to 19"));
        }
        if compression != Compression::None && self.fixed.is_some() {
            let problem = "values of a fixed length are stored in slots of this length, so compression would save \
                           nothing; leave out `fixed` or `compression`";
            return refused("compression", problem.into());
        }
        compression.check_feature(|| "the database is to have".into())
    }

    /// Returns the layout of the records of a new database.
    pub fn layout(&self) -> RecordLayout {
        RecordLayout { fixed: self.fixed, expiring: self.expiring.unwrap_or(self.fixed.is_none()) }
    }

    /// Returns the number of partitions of a new database.
    pub fn partitions(&self) -> u32 {
        self.partitions.unwrap_or(PARTITIONS_DEFAULT)
    }

    /// Returns the size of a block of a new database, in bytes.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes.unwrap_or(BLOCK_BYTES_DEFAULT)
    }

    /// Returns the hasher of a new database. Its seed is random if none is given.
    pub fn hasher(&self, seed: Option<[u64; 2]>) -> Result<KeyHasher> {
        Ok(match (self.hashed_keys, seed) {
            (Some(true), _) => KeyHasher::Identity,
            (_, Some(seed)) => KeyHasher::Keyed(seed),
            (_, None) => KeyHasher::Keyed([random_number()?, random_number()?]),
        })
    }

    /// Returns the header of a new database of the engine with this number. Its id and its secret are random.
    pub fn header(&self, engine: u8, seed: Option<[u64; 2]>) -> Result<Header> {
        Ok(Header {
            engine,
            layout: self.layout(),
            hasher: self.hasher(seed)?,
            partitions_log2: self.partitions().ilog2(),
            block_bytes: self.block_bytes(),
            compression: self.compression.unwrap_or_default(),
            database_id: random_number()?,
            secret: Secret::new(random_number()?),
        })
    }

    /// Checks that the database with this header was created with these settings.
    pub fn check_against(&self, header: &Header) -> Result<()> {
        let differs = |name: &'static str, set: String, has: String| {
            let problem = format!(
                "the value is {set}, but the database was created with {has}; leave this setting out"
            );
            refused(name, problem)
        };
        let layout = &header.layout;
        if let Some(fixed) = self.fixed
            && layout.fixed != Some(fixed)
        {
            let sizes = |(key, value): (usize, usize)| format!("keys of {key} and values of {value} bytes");
            let has = layout.fixed.map_or("records of any size".to_owned(), sizes);
            return differs("fixed", sizes(fixed), has);
        }
        if let Some(hashed_keys) = self.hashed_keys
            && hashed_keys != (header.hasher == KeyHasher::Identity)
        {
            return differs("hashed_keys", hashed_keys.to_string(), (!hashed_keys).to_string());
        }
        if let Some(expiring) = self.expiring
            && layout.fixed.is_some()
            && expiring != layout.expiring
        {
            return differs("expiring", expiring.to_string(), layout.expiring.to_string());
        }
        if let Some(partitions) = self.partitions
            && partitions != 1 << header.partitions_log2
        {
            return differs(
                "partitions",
                partitions.to_string(),
                (1u32 << header.partitions_log2).to_string(),
            );
        }
        if let Some(compression) = self.compression
            && compression != header.compression
        {
            return differs("compression", compression.to_string(), header.compression.to_string());
        }
        if let Some(block_bytes) = self.block_bytes
            && block_bytes != header.block_bytes
        {
            return differs("block_bytes", block_bytes.to_string(), header.block_bytes.to_string());
        }
        Ok(())
    }
}

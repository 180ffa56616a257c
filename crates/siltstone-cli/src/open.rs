//! Opens databases: the flags shared by all commands, and the progress of a long opening.

use crate::place;
use crate::quantity::parse_whole;
use crate::values::Values;
use clap::Args;
use siltstone::key::{check_key, check_value};
use siltstone::key::{check_key_length, check_value_length};
use siltstone::names::MANIFEST_NAME;
use siltstone::{Builder, Compression, Database, EngineKind, Error};
use siltstone_bench::named::by_name;
use siltstone_bench::place::directory;
use siltstone_bench::tuning::{MemoryArgs, SettingArgs, parse_compression};
use siltstone_command::database::open;
use siltstone_server::ValueForm;
use std::path::{Path, PathBuf};

/// The database of a command.
#[derive(Debug, Args)]
pub struct Location {
    /// Directory of the database
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DB", value_parser = directory())]
    pub db: PathBuf,
    #[command(flatten)]
    pub memory: MemoryArgs,
    #[command(flatten)]
    pub settings: SettingArgs,
}

/// The settings of a new database, which are stored in it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Fixed when the database is created")]
pub struct Creation {
    /// Engine [default: silt]
    #[arg(long, value_name = "NAME", value_parser = by_name::<EngineKind>())]
    pub engine: Option<EngineKind>,
    /// All keys have K bytes and all values V bytes; their lengths are not stored
    #[arg(long, value_name = "K,V", value_parser = parse_lengths)]
    pub fixed: Option<(usize, usize)>,
    /// Keys are uniform hashes (8 bytes or more) and are not hashed again
    #[arg(long)]
    pub hashed_keys: bool,
    /// Fixed-size records have an expiry time, 8 bytes each
    #[arg(long)]
    pub expiring: bool,
    /// Compression of values: none, lz4, zstd or zstd:LEVEL (1 to 19); zstd trains a dictionary on the first ones
    #[arg(long, value_name = "NAME", value_parser = parse_compression)]
    pub compression: Option<Compression>,
    /// Number of partitions, a power of two up to 1,024
    #[arg(long, value_name = "P", value_parser = parse_whole::<u32>)]
    pub partitions: Option<u32>,
    /// Size of a block on flash in bytes, a power of two from 512 to 65,536
    #[arg(long, value_name = "BYTES", value_parser = parse_whole::<u32>)]
    pub block_bytes: Option<u32>,
}

/// Parses two lengths with a comma between them.
pub fn parse_lengths(text: &str) -> Result<(usize, usize), String> {
    let lengths = text
        .split_once(',')
        .and_then(|(key, value)| Some((parse_whole(key).ok()?, parse_whole(value).ok()?)));
    let (key_length, value_length) = lengths.ok_or("expected KEY,VALUE lengths in bytes, such as 32,44")?;
    check_key_length(key_length)
        .and_then(|()| check_value_length(value_length))
        .map_err(|error| error.to_string())?;
    Ok((key_length, value_length))
}

/// Returns an error if a record has other lengths than the fixed ones.
pub fn check_lengths(fixed: (usize, usize), key: &[u8], value: &[u8]) -> siltstone::Result<()> {
    for (what, expected, got) in [("key", fixed.0, key.len()), ("value", fixed.1, value.len())] {
        if expected != got {
            return Err(Error::RecordSize { what, expected, got });
        }
    }
    Ok(())
}

impl Creation {
    /// Refuses a record that a database with these settings cannot hold, before the database is created for it.
    pub fn check(&self, key: &[u8], value: &[u8]) -> siltstone::Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.fixed.map_or(Ok(()), |fixed| check_lengths(fixed, key, value))
    }

    /// Applies the chosen settings to the builder. The rest stays as it is, or has its default.
    pub fn apply(&self, mut builder: Builder) -> Builder {
        if let Some(engine) = self.engine {
            builder = builder.engine(engine);
        }
        if let Some((key_length, value_length)) = self.fixed {
            builder = builder.fixed(key_length, value_length);
        }
        if self.hashed_keys {
            builder = builder.hashed_keys();
        }
        if self.expiring {
            builder = builder.expiring(true);
        }
        if let Some(compression) = self.compression {
            builder = builder.compression(compression);
        }
        if let Some(partitions) = self.partitions {
            builder = builder.partitions(partitions);
        }
        if let Some(block_bytes) = self.block_bytes {
            builder = builder.block_bytes(block_bytes);
        }
        builder
    }
}

/// The database of a command, as an argument or a flag.
#[derive(Debug, Args)]
pub struct Place {
    /// Directory of the database
    #[arg(value_name = "DIR", required_unless_present = "db", value_parser = directory())]
    directory: Option<PathBuf>,
    /// Directory of the database, as for other commands
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DB", value_parser = directory())]
    db: Option<PathBuf>,
}

impl Place {
    /// Returns the named directory: that of a database, or of a dedup index.
    pub fn directory(&self) -> PathBuf {
        self.directory.as_ref().or(self.db.as_ref()).cloned().unwrap_or_default()
    }
}

impl Location {
    /// Returns the database that lookups read: the directory, or the chunks of a dedup index.
    pub fn readable(&self) -> PathBuf {
        place::readable(&self.db)
    }

    /// Returns how the values of the database that lookups read are stored.
    pub fn values(&self) -> siltstone::Result<Values> {
        Values::of(&self.readable())
    }

    /// Sets up the database of a directory, with the settings and the limit on memory.
    pub fn builder(&self, directory: impl AsRef<Path>) -> Builder {
        self.memory.apply(self.settings.apply(Database::builder(directory)))
    }

    /// Opens the database that lookups read, which must exist. Changes nothing and needs no write permission.
    pub fn open(&self) -> anyhow::Result<Database> {
        open(self.builder(self.readable()).read_only(true))
    }

    /// Opens the database that `command` reads, which must exist and must not belong to a dedup index. Changes nothing.
    pub fn open_single_read_only(&self, command: &str) -> anyhow::Result<Database> {
        open(self.builder(place::single(&self.db, command)?).read_only(true))
    }

    /// Opens the database that `command` changes or copies, which must exist and must not belong to a dedup index.
    pub fn open_single(&self, command: &str) -> anyhow::Result<Database> {
        open(self.builder(place::single(&self.db, command)?).create(false))
    }

    /// Opens the database that `command` writes to, or creates it.
    pub fn open_or_create(&self, command: &str, creation: &Creation) -> anyhow::Result<Database> {
        open(creation.apply(self.builder(place::single(&self.db, command)?)))
    }

    /// Like [`open_or_create`](Self::open_or_create), but the values of a new database have types, unless they have
    /// fixed lengths.
    pub fn open_or_create_typed(&self, command: &str, creation: &Creation) -> anyhow::Result<Database> {
        let directory = place::single(&self.db, command)?;
        if creation.fixed.is_none() && !directory.join(MANIFEST_NAME).exists() {
            ValueForm::declare_typed(directory)?;
        }
        self.open_or_create(command, creation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_pairs() {
        assert_eq!(parse_lengths("20,44"), Ok((20, 44)));
        for wrong in ["20", "20,", "a,b", "-1,2", "0,1", "65536,1", "1,1GiB"] {
            assert!(parse_lengths(wrong).is_err(), "{wrong}");
        }
    }
}

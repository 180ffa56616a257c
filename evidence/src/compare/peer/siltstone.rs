//! Siltstone: the engine `silt` with its defaults and for records of one size with hashed keys, and the engines
//! `flashkey`, `flashstore` and `bloomstore`.

use super::{Kind, Opening, Peer};
use anyhow::{Context, Result};
use siltstone::{
    Access, BloomStoreSettings, Builder, Database, Disk, FlashKeySettings, FlashStoreSettings, SiltSettings,
};
use std::path::Path;
use std::time::Instant;

/// With its defaults.
pub const DEFAULT: Kind = Kind {
    name: "siltstone",
    title: "Siltstone",
    has_direct: true,
    open: |opening| open(silt(opening)),
    options: |opening| options(opening, ""),
};

/// For records of one size whose keys are hashes.
pub const FIXED: Kind = Kind {
    name: "siltstone-fixed",
    title: "Siltstone, fixed size",
    has_direct: true,
    open: |opening| open(silt(opening).fixed(opening.key_size, opening.value_size).hashed_keys()),
    options: |opening| options(opening, ", fixed, hashed_keys"),
};

/// The engine `bloomstore` for records of one size whose keys are hashes.
pub const BLOOMSTORE: Kind = Kind {
    name: "bloomstore",
    title: "Siltstone, BloomStore",
    has_direct: true,
    open: |opening| {
        let builder = builder(opening).engine(BloomStoreSettings::default());
        open(builder.fixed(opening.key_size, opening.value_size).hashed_keys())
    },
    options: |opening| options(opening, ", bloomstore, fixed, hashed_keys"),
};

/// The engine `flashkey` with its defaults, or within a given space.
pub const FLASHKEY: Kind = Kind {
    name: "flashkey",
    title: "Siltstone, FlashKey",
    has_direct: true,
    open: |opening| {
        let builder = builder(opening).engine(flashkey(opening));
        open(match opening.record_cache {
            true => builder.memory_budget(budget_with_cache(opening)),
            false => builder,
        })
    },
    options: |opening| {
        let FlashKeySettings { space, segment_bytes, ordered, .. } = flashkey(opening);
        let ordered = if ordered { ", ordered" } else { "" };
        let more = format!(", flashkey, space {space:.3}, segments of {segment_bytes} B{ordered}");
        match opening.record_cache {
            true => described(opening, &format!("memory budget {} B", budget_with_cache(opening)), &more),
            false => options(opening, &more),
        }
    },
};

/// The engine `flashstore` with a share of the records on flash and a disk. Without a disk, `flashkey` with as many
/// bits of hashes and unconfirmed overwrites: it keeps all records on flash.
pub const FLASHSTORE: Kind = Kind {
    name: "flashstore",
    title: "Siltstone, FlashStore",
    has_direct: true,
    open: |opening| {
        let builder = builder(opening).memory_budget(budget_with_cache(opening));
        let builder = match &opening.disk {
            Some((disk, share)) => builder.engine(flashstore(opening, disk, *share)),
            None => {
                let (hash_bits, unconfirmed_max) = (FlashStoreSettings::default().hash_bits, UNCONFIRMED_MAX);
                let settings =
                    FlashKeySettings::default().hash_bits(hash_bits).unconfirmed_max(unconfirmed_max);
                builder.engine(settings.segment_bytes(segment_bytes_of(opening, 1.0)))
            }
        };
        open(builder.fixed(opening.key_size, opening.value_size))
    },
    options: |opening| {
        let cache = format!("memory budget {} B", budget_with_cache(opening));
        described(opening, &cache, if opening.disk.is_some() { ", flashstore" } else { ", flashkey" })
    },
};

/// The memory of the index and of what a database takes besides its cache, in bytes per key.
const BESIDES_CACHE_BYTES: u64 = 16;

/// Returns the memory budget with which a store has the cache that the others have, in addition to its index.
fn budget_with_cache(opening: &Opening) -> u64 {
    opening.cache_bytes + BESIDES_CACHE_BYTES * opening.keys
}

fn flashstore(opening: &Opening, disk: &Path, share: f64) -> FlashStoreSettings {
    let disk = Disk::at(disk).engine(silt_settings(opening).filter_last_store(Some(10)));
    let settings = FlashStoreSettings::default().flash_bytes(data_bytes(opening, share)).disk(disk);
    settings.segment_bytes(segment_bytes_of(opening, share))
}

/// Returns the bytes of a share of the records in a log.
fn data_bytes(opening: &Opening, share: f64) -> u64 {
    let record_bytes = (opening.key_size + opening.value_size) as f64 + FRAME_BYTES;
    (share * opening.keys as f64 * record_bytes) as u64
}

fn segment_bytes_of(opening: &Opening, share: f64) -> u64 {
    let segment_bytes = (data_bytes(opening, share) / SEGMENTS_MIN).next_power_of_two();
    segment_bytes.clamp(4096, FlashStoreSettings::default().segment_bytes)
}

/// The share of keys that may have an unconfirmed overwrite in FlashStore.
const UNCONFIRMED_MAX: f64 = 0.25;
/// The segments of a log that the data should have at least, so that open segments are a small part of the space.
const SEGMENTS_MIN: u64 = 128;
/// The smallest size of a segment, in bytes.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The bytes of a frame in addition to its record, at most: header and padding.
const FRAME_BYTES: f64 = 16.0;
/// The bytes per key of the saved index and the log of its changes.
const INDEX_BYTES: f64 = 20.0;
/// The open segments, full to one half.
const OPEN_SEGMENTS: f64 = 2.0;

/// Returns the settings of `flashkey`. Its own `space` is the ratio of the logs without their open segments; a given
/// space is that of all files, so the others are subtracted.
fn flashkey(opening: &Opening) -> FlashKeySettings {
    let settings = FlashKeySettings::default();
    let settings = settings.ordered(opening.ordered);
    let Some(space) = opening.space else { return settings };
    let record_bytes = (opening.key_size + opening.value_size) as f64;
    let data_bytes = opening.keys * (opening.key_size + opening.value_size) as u64;
    let segment_bytes = (data_bytes / SEGMENTS_MIN).max(SEGMENT_BYTES_MIN).next_power_of_two();
    let segment_bytes = segment_bytes.min(settings.segment_bytes);
    let open_bytes = OPEN_SEGMENTS * segment_bytes as f64 / opening.keys as f64;
    let logs = (space * record_bytes - open_bytes - INDEX_BYTES) / (record_bytes + FRAME_BYTES);
    settings.segment_bytes(segment_bytes).space(logs.clamp(1.05, 4.0))
}

/// Returns the settings of `silt`.
fn silt_settings(opening: &Opening) -> SiltSettings {
    let settings = SiltSettings::default();
    if !opening.small_segments {
        return settings;
    }
    let data_bytes = opening.keys * (opening.key_size + opening.value_size) as u64;
    let segment_bytes = (data_bytes / SEGMENTS_MIN).max(SEGMENT_BYTES_MIN).next_power_of_two();
    let most = settings.log_segment_bytes;
    settings.log_segment_bytes(segment_bytes.min(most))
}

fn silt(opening: &Opening) -> Builder {
    builder(opening).engine(silt_settings(opening))
}

fn builder(opening: &Opening) -> Builder {
    let access = if opening.direct { Access::DirectOrBuffered } else { Access::Buffered };
    let builder = Database::builder(&opening.directory).access(access);
    if opening.ordered { builder.memory_budget(opening.cache_bytes) } else { builder }
}

fn open(builder: Builder) -> Result<Box<dyn Peer>> {
    Ok(Box::new(Siltstone(builder.open()?)))
}

fn options(opening: &Opening, more: &str) -> String {
    let cache = if opening.ordered {
        format!("memory budget {} B", opening.cache_bytes)
    } else {
        "no cache of its own".to_owned()
    };
    described(opening, &cache, more)
}

fn described(opening: &Opening, cache: &str, more: &str) -> String {
    let access = if opening.direct { ", direct I/O" } else { "" };
    format!("{}: {cache}{access}{more}", env!("CARGO_PKG_VERSION"))
}

struct Siltstone(Database);

impl Peer for Siltstone {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.0.get(key)?.map(|value| show(&value)).is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn get_many(&self, keys: &[Vec<u8>], show: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (place, value) in self.0.get_many(keys)?.into_iter().enumerate() {
            if let Some(value) = value {
                show(place, &value);
            }
        }
        Ok(())
    }

    fn scan(&self, first: &[u8], limit: usize, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let ordered = self.0.ordered().context("this database has no order of keys")?;
        for record in ordered.limit(limit).range(first..)? {
            let record = record?;
            show(&record.key, &record.value);
        }
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        self.0.settle()?;
        Ok(Instant::now())
    }

    fn memory_bytes(&self) -> Result<Option<u64>> {
        Ok(Some(self.0.stats().ram.total_bytes()))
    }

    fn details(&self) -> Result<Vec<(String, f64)>> {
        let stats = self.0.stats();
        let mut details = vec![
            ("delayed_writes".to_owned(), stats.delayed_writes as f64),
            ("delayed_s".to_owned(), stats.delayed_ns as f64 / 1e9),
        ];
        for purpose in siltstone::Purpose::ALL {
            let count = stats.io.of(purpose);
            for (what, value) in [
                ("reads", count.reads),
                ("read_bytes", count.read_bytes),
                ("writes", count.writes),
                ("write_bytes", count.write_bytes),
            ] {
                if value > 0 {
                    details.push((format!("{}_{what}", purpose.name()), value as f64));
                }
            }
        }
        let ram = stats.ram.items().iter().map(|(item, bytes)| (format!("ram_{item}"), *bytes as f64));
        details.extend(ram);
        details.extend(stats.details.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        Ok(details)
    }
}

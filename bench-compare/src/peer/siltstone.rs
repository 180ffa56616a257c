//! Siltstone: with its defaults, and configured for records of one size with hashed keys.

use super::{Kind, Opening, Peer};
use anyhow::Result;
use siltstone::{Access, Builder, Database};
use std::time::Instant;

/// With its defaults.
pub const DEFAULT: Kind = Kind {
    name: "siltstone",
    title: "Siltstone",
    has_direct: true,
    open: |opening| open(builder(opening)),
    options: |opening| options(opening, ""),
};

/// For records of one size whose keys are hashes.
pub const FIXED: Kind = Kind {
    name: "siltstone-fixed",
    title: "Siltstone, fixed size",
    has_direct: true,
    open: |opening| open(builder(opening).fixed(opening.key_size, opening.value_size).hashed_keys()),
    options: |opening| options(opening, ", fixed, hashed_keys"),
};

fn builder(opening: &Opening) -> Builder {
    let access = if opening.direct { Access::DirectOrBuffered } else { Access::Buffered };
    Database::builder(&opening.directory).access(access)
}

fn open(builder: Builder) -> Result<Box<dyn Peer>> {
    Ok(Box::new(Siltstone(builder.open()?)))
}

fn options(opening: &Opening, more: &str) -> String {
    let access = if opening.direct { ", direct I/O" } else { "" };
    format!("{}: no cache of its own{access}{more}", env!("CARGO_PKG_VERSION"))
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
        for purpose in siltstone::device::Purpose::ALL {
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

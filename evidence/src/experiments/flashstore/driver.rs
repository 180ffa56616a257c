//! A database that is sent requests one by one, with every result checked. Background work is done in between, by the
//! same thread, so counts are the same in each run.

use super::KEY_BYTES;
use crate::Result;
use crate::conditions::Conditions;
use crate::point::Settled;
use siltstone::{Database, Stats, Step};
use siltstone_bench::keys::{Keys, Values};
use siltstone_device::Purpose;

/// Background work is done once per this many requests.
const REQUESTS_PER_WORK: u64 = 64;

pub(super) struct Driver {
    database: Database,
    keys: Keys,
    values: Values,
    /// Per key, the number of its last put from 1 on; 0 if it was never put.
    versions: Vec<u64>,
    key: Vec<u8>,
    value: Vec<u8>,
    puts: u64,
    gets: u64,
    found: u64,
}

/// Counts since the database was opened.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub puts: u64,
    pub gets: u64,
    pub found: u64,
    /// Reads of records on flash.
    pub flash_reads: u64,
    /// Bytes written to the logs on flash: of puts, and of records that stay or are read below.
    pub put_bytes: u64,
    pub moved_bytes: u64,
    /// All bytes written to flash.
    pub flash_bytes: u64,
    /// The bytes of keys and values written below, and all bytes written there.
    pub disk_user_bytes: f64,
    pub disk_bytes: f64,
}

impl Driver {
    pub fn new(conditions: &Conditions, keys: u64, value_size: usize, database: Database) -> Result<Driver> {
        Ok(Driver {
            database,
            keys: Keys::new(KEY_BYTES, keys, false)?,
            values: Values::new(value_size, conditions.seed),
            versions: vec![0; keys as usize],
            key: Vec::new(),
            value: Vec::new(),
            puts: 0,
            gets: 0,
            found: 0,
        })
    }

    pub fn put(&mut self, number: u32) -> Result<()> {
        self.puts += 1;
        self.versions[number as usize] = self.puts;
        self.keys.write(number.into(), &mut self.key);
        self.values.write(number.into(), self.puts, &mut self.value);
        self.database.put(&self.key, &self.value)?;
        self.work()
    }

    /// Returns whether the key was found, which is an error if it does not have its last value.
    pub fn get(&mut self, number: u32) -> Result<bool> {
        self.gets += 1;
        self.keys.write(number.into(), &mut self.key);
        let found = self.database.get(&self.key)?;
        self.found += u64::from(found.is_some());
        let (version, number) = (self.versions[number as usize], u64::from(number));
        match &found {
            None if version == 0 || self.database.capabilities().lossy => {}
            None => return Err(siltstone_bench::Error::Lost { benchmark: "paper", number }.into()),
            Some(_) if version == 0 => {
                return Err(siltstone_bench::Error::Surplus { benchmark: "paper", number }.into());
            }
            Some(value) => {
                self.values.write(number, version, &mut self.value);
                if *value != self.value {
                    return Err(siltstone_bench::Error::WrongValue { benchmark: "paper", number }.into());
                }
            }
        }
        self.work()?;
        Ok(found.is_some())
    }

    fn work(&self) -> Result<()> {
        if (self.puts + self.gets).is_multiple_of(REQUESTS_PER_WORK) {
            while self.database.step()? == Step::Worked {}
        }
        Ok(())
    }

    /// Waits until no background work is left, and reads memory and space.
    pub fn settled(&mut self) -> Result<Settled> {
        Settled::of(&mut self.database)
    }

    pub fn counts(&self) -> Counts {
        let stats = self.database.stats();
        let detail = |name: &str| detail(&stats, name);
        Counts {
            puts: self.puts,
            gets: self.gets,
            found: self.found,
            flash_reads: stats.io.of(Purpose::Get).reads,
            put_bytes: stats.io.of(Purpose::Log).write_bytes,
            moved_bytes: stats.io.of(Purpose::Collect).write_bytes,
            flash_bytes: stats.io.total().write_bytes,
            disk_user_bytes: detail("disk_user_bytes"),
            disk_bytes: detail("disk_write_bytes"),
        }
    }

    pub fn close(self) -> Result<()> {
        Ok(self.database.close()?)
    }
}

fn detail(stats: &Stats, name: &str) -> f64 {
    stats.details.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, value)| *value)
}

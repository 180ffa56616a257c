//! Recycling (4.5): which share of the gets flash serves, and how much is written to flash and to the disk per put.
//! Compared with an exact LRU, and with the paper's policy record by record. The preset of the paper has one queue.

use super::caches::{Lru, PaperLog};
use super::driver::Counts;
use super::{DRIFT, KEY_BYTES, LAPS, LRU, PAPER_USAGE, RECYCLING, SHARES, cache, keys, open};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::{HITS, WRITE_AMPLIFICATION};
use crate::literature::FlashStore;
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerByte, PerPut, Quantity, Share};
use crate::registry::Experiment;
use crate::requests::Drifting;
use siltstone::FlashStoreSettings;
use siltstone_bench::random;
use siltstone_model::Popularity;

/// Records of 64 bytes with keys of 16, as in 4.4.
const VALUE_BYTES: usize = 48;
const SKEW: f64 = 0.99;
const GETS_PER_PUT: [f64; 2] = [1.0, 19.0];

const LRU_USED: Quantity<Share> = Quantity::equal("gets that are served, LRU of the used part");
const PAPER_LOG: Quantity<Share> = Quantity::equal("gets that are served, the paper's log");
const FLASH_WRITES: Quantity<PerPut> = Quantity::lower("records written to flash");
const DISK_AMPLIFICATION: Quantity<BytesPerByte> = Quantity::lower("bytes written to the disk per byte put");
const DISK_WRITES: Quantity<PerPut> = Quantity::lower("records written to the disk");

/// Recycling over a disk, and a cache.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashstore-recycling", cost_s: 40, direct: false, counts: true, rates: false, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for gets_per_put in GETS_PER_PUT {
        for share in conditions.sweep(&SHARES) {
            for preset in Preset::ALL {
                Case { gets_per_put, share, preset }.run(conditions, points)?;
            }
        }
    }
    cache::run(conditions, points)
}

/// A share of flash, a ratio of requests, and the settings of the engine.
struct Case {
    gets_per_put: f64,
    share: f64,
    preset: Preset,
}

/// The counts of the simulated caches.
struct Simulated {
    /// With the bytes of flash, and with those that the logs may have before records leave.
    lru: Lru,
    lru_used: Lru,
    paper: PaperLog,
    lru_hits: u64,
    lru_used_hits: u64,
    paper_hits: u64,
}

impl Simulated {
    fn new(keys: u32, share: f64) -> Simulated {
        let room = |share: f64| (share * f64::from(keys)) as usize;
        let (all, used) = (room(share), room(share * FlashStoreSettings::default().usage));
        Simulated {
            lru: Lru::new(keys, all),
            lru_used: Lru::new(keys, used),
            paper: PaperLog::new(keys, room(share * PAPER_USAGE), true),
            lru_hits: 0,
            lru_used_hits: 0,
            paper_hits: 0,
        }
    }

    fn put(&mut self, key: u32) {
        self.lru.uses(key);
        self.lru_used.uses(key);
        self.paper.put(key);
    }

    fn get(&mut self, key: u32) {
        self.lru_hits += u64::from(self.lru.uses(key));
        self.lru_used_hits += u64::from(self.lru_used.uses(key));
        self.paper_hits += u64::from(self.paper.get(key));
    }
}

impl Case {
    fn run(&self, conditions: &Conditions, points: &mut Points) -> Result<()> {
        let Case { gets_per_put, share, preset } = *self;
        let count = keys(conditions)?;
        let mut driver = open(conditions, preset, (count.into(), VALUE_BYTES), share, &[])?;
        let mut simulated = Simulated::new(count, share);
        let mut requests = Drifting::new(count.into(), SKEW, DRIFT, conditions.seed)?;
        for key in requests.every_key() {
            driver.put(key)?;
            simulated.put(key);
        }
        let mut random = random::stream(conditions.seed, 2);
        let put_share = 1.0 / (1.0 + gets_per_put);
        let (mut before, mut of_paper) = (driver.counts(), (0, 0));
        for lap in 0..LAPS {
            conditions.check()?;
            if lap == LAPS / 2 {
                before = driver.counts();
                (simulated.lru_hits, simulated.lru_used_hits, simulated.paper_hits) = (0, 0, 0);
                of_paper = (simulated.paper.appends, simulated.paper.destaged);
            }
            for key in requests.by_ref().take(count as usize) {
                if random.f64() < put_share {
                    driver.put(key)?;
                    simulated.put(key);
                } else {
                    driver.get(key)?;
                    simulated.get(key);
                }
            }
        }
        let after = driver.counts();
        driver.close()?;
        conditions.place.clear()?;
        self.add(count, (&before, &after), (&simulated, of_paper), points)
    }

    fn add(
        &self,
        keys: u32,
        (before, after): (&Counts, &Counts),
        (simulated, (appends, destaged)): (&Simulated, (u64, u64)),
        points: &mut Points,
    ) -> Result<()> {
        let Case { gets_per_put, share, preset } = *self;
        let gets = (after.gets - before.gets).max(1) as f64;
        let puts = (after.puts - before.puts).max(1) as f64;
        let requests = format!("{gets_per_put} gets per put");
        let series = format!("{requests}, {}", preset.name());
        let mut add = |point| points.add(RECYCLING, point);
        let served = (after.flash_reads - before.flash_reads) as f64 / gets;
        add(HITS.at(&series, share).is(Reading::count(served)));
        add(LRU.at(&requests, share).calculated(simulated.lru_hits as f64 / gets));
        add(LRU_USED.at(&requests, share).calculated(simulated.lru_used_hits as f64 / gets));
        add(PAPER_LOG.at(&requests, share).calculated(simulated.paper_hits as f64 / gets));
        // All of the loading is puts, so their frames have one size.
        let frame_bytes = before.put_bytes as f64 / before.puts.max(1) as f64;
        let written = after.put_bytes + after.moved_bytes - before.put_bytes - before.moved_bytes;
        let written = written as f64 / frame_bytes / puts;
        let store = FlashStore { caches_reads: true, ..FlashStore::paper(1.0, share * f64::from(keys)) };
        let model = store.recycling(&Popularity::zipf(keys.into(), SKEW)?, gets_per_put)?;
        add(FLASH_WRITES.at(&series, share).model(model.flash_writes_per_put).is(Reading::count(written)));
        let of_log = |count: u64, from: u64| (count - from) as f64 / puts;
        let paper_log = format!("{requests}, the paper's log");
        add(FLASH_WRITES.at(&paper_log, share).calculated(of_log(simulated.paper.appends, appends)));
        let record_bytes = (KEY_BYTES + VALUE_BYTES) as f64;
        let per_put = |bytes: f64| bytes / record_bytes / puts;
        let destaged_here = per_put(after.disk_user_bytes - before.disk_user_bytes);
        add(DISK_WRITES.at(&series, share).is(Reading::count(destaged_here)));
        add(DISK_WRITES.at(&paper_log, share).calculated(of_log(simulated.paper.destaged, destaged)));
        let flash = per_put((after.flash_bytes - before.flash_bytes) as f64);
        add(WRITE_AMPLIFICATION.at(&series, share).is(Reading::count(flash)));
        let disk = per_put(after.disk_bytes - before.disk_bytes);
        add(DISK_AMPLIFICATION.at(&series, share).is(Reading::count(disk)));
        Ok(())
    }
}

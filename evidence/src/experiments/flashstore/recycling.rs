//! Recycling (4.5): which share of the gets flash serves, and how much is written to flash and to the disk per put,
//! with one queue as in the paper and with two. Compared with an exact LRU, and with the paper's policy record by
//! record.

use super::super::{Figure, OnFigure, Settings, report};
use super::caches::{Lru, PaperLog};
use super::driver::{Counts, Driver};
use super::{Case, PAPER_USAGE, each_case, flag, open};
use crate::literature::FlashStore;
use crate::requests::Drifting;
use crate::{Error, Result};
use siltstone::FlashStoreSettings;
use siltstone_bench::place::Place;
use siltstone_bench::random;
use siltstone_model::Popularity;
use std::sync::atomic::Ordering::Relaxed;

/// Records of 64 bytes with keys of 16, as in 4.4.
const VALUE_BYTES: usize = 48;
const SKEW: f64 = 0.99;
const SOURCE: &str = "4.5, recycling";

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

pub(in super::super) fn run(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    each_case(settings, SKEW, |case| case.run(settings, place, on_figure))
}

impl Simulated {
    fn new(settings: &Settings, share: f64) -> Result<Simulated> {
        let keys = u32::try_from(settings.num).map_err(|_| Error::settings("there are below 2^32 keys"))?;
        let room = |share: f64| (share * f64::from(keys)) as usize;
        let (all, used) = (room(share), room(share * FlashStoreSettings::default().usage));
        let caches_reads = flag(settings, "caches_reads", true);
        Ok(Simulated {
            lru: Lru::new(keys, all),
            lru_used: Lru::new(keys, used),
            paper: PaperLog::new(keys, room(share * PAPER_USAGE), caches_reads),
            lru_hits: 0,
            lru_used_hits: 0,
            paper_hits: 0,
        })
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
    fn run(&self, settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
        let value_size = settings.value_size.unwrap_or(VALUE_BYTES);
        let engine = [("queues", self.queues.to_string())];
        let database = open(settings, place, value_size, self.share, &engine)?;
        let mut driver = Driver::new(settings, value_size, database)?;
        let mut simulated = Simulated::new(settings, self.share)?;
        let mut keys = Drifting::new(settings.num, self.skew, settings.drift, settings.seed)?;
        for key in keys.every_key() {
            driver.put(key)?;
            simulated.put(key);
        }
        let mut random = random::stream(settings.seed, 2);
        let put_share = 1.0 / (1.0 + settings.gets_per_put);
        let (mut before, mut counted) = (driver.counts(), (0, 0));
        for lap in 0..settings.laps {
            if settings.stop.load(Relaxed) {
                break;
            }
            if lap == settings.laps / 2 {
                before = driver.counts();
                (simulated.lru_hits, simulated.lru_used_hits, simulated.paper_hits) = (0, 0, 0);
                counted = (simulated.paper.appends, simulated.paper.destaged);
            }
            for key in keys.by_ref().take(settings.num as usize) {
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
        place.clear()?;
        self.report(settings, (&before, &after), &simulated, counted, on_figure)
    }

    fn report(
        &self,
        settings: &Settings,
        (before, after): (&Counts, &Counts),
        simulated: &Simulated,
        (appends, destaged): (u64, u64),
        on_figure: OnFigure<'_>,
    ) -> Result<()> {
        let gets = (after.gets - before.gets).max(1) as f64;
        let puts = (after.puts - before.puts).max(1) as f64;
        // All of the loading is puts, so their frames have one size.
        let frame_bytes = before.put_bytes as f64 / before.puts.max(1) as f64;
        let record_bytes = (settings.key_size + settings.value_size.unwrap_or(VALUE_BYTES)) as f64;
        let hits = |count: u64| count as f64 / gets;
        let mut figure = |what: String, theory: f64, measured: f64| {
            let what = format!("{self}: {what}");
            report(on_figure, &Figure { source: SOURCE, what, paper: None, theory: Some(theory), measured })
        };
        let served = (after.flash_reads - before.flash_reads) as f64 / gets;
        figure("gets on flash; LRU of flash".to_owned(), hits(simulated.lru_hits), served)?;
        figure("gets on flash; LRU of the used part".to_owned(), hits(simulated.lru_used_hits), served)?;
        figure("gets on flash; the paper's log".to_owned(), hits(simulated.paper_hits), served)?;
        let written = after.put_bytes + after.moved_bytes - before.put_bytes - before.moved_bytes;
        let of_paper = |count: u64, from: u64| (count - from) as f64 / puts;
        figure(
            format!("flash writes per put; the paper's log{}", self.model(settings)),
            of_paper(simulated.paper.appends, appends),
            written as f64 / frame_bytes / puts,
        )?;
        figure(
            "disk writes per put; the paper's log".to_owned(),
            of_paper(simulated.paper.destaged, destaged),
            (after.disk_user_bytes - before.disk_user_bytes) / record_bytes / puts,
        )?;
        let per_put = |bytes: f64| bytes / record_bytes / puts;
        let flash = per_put((after.flash_bytes - before.flash_bytes) as f64);
        let disk = per_put(after.disk_bytes - before.disk_bytes);
        let what = format!("{self}: all bytes written to flash per byte put; to the disk {disk:.3}");
        report(on_figure, &Figure { source: SOURCE, what, paper: None, theory: None, measured: flash })
    }

    /// Returns the flash writes per put of the model of the paper's policy, which has no drift.
    fn model(&self, settings: &Settings) -> String {
        let popularity = match self.skew {
            0.0 => Popularity::uniform(settings.num),
            skew => Popularity::zipf(settings.num, skew),
        };
        let caches_reads = flag(settings, "caches_reads", true);
        let store = FlashStore { caches_reads, ..FlashStore::paper(1.0, self.share * settings.num as f64) };
        let recycling = popularity.and_then(|popularity| store.recycling(&popularity, settings.gets_per_put));
        recycling.map_or(String::new(), |recycling| {
            format!("; its model without drift {:.3}", recycling.flash_writes_per_put)
        })
    }
}

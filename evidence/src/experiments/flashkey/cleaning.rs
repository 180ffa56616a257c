//! Cleaning of FlashKey's logs: how much is written per put, by victim, classes, skew and space, and by models.
//! Background work is done between puts, so that each run has the same counts.

use super::{KEY_BYTES, segment_bytes, tuning};
use crate::Result;
use crate::conditions::{Conditions, Preset};
use crate::experiments::quantities::APPENDS;
use crate::literature::{Cleaning, Separation};
use crate::point::{Points, Reading};
use crate::quantity::{BytesPerByte, PerPut, Quantity};
use crate::registry::Experiment;
use siltstone::{Database, Stats, Step, Victim};
use siltstone_bench::keys::{Keys, Values};
use siltstone_device::Purpose;
use siltstone_model::{KeyStream, Popularity, SegmentCleaning};

const ITEM: &str = "flashkey/cleaning";
const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 40;
const SKEWS: [f64; 3] = [0.0, 0.6, 0.99];
const SPACES: [f64; 3] = [1.11, 1.3, 1.67];
/// Rules and numbers of logs for moved records; 0 for that of the puts. The first is the paper's rule.
const RULES: [(&str, Victim, u8); 4] = [
    ("most_invalid", Victim::MostInvalid, 0),
    ("most_invalid", Victim::MostInvalid, 3),
    ("cost_benefit", Victim::CostBenefit, 0),
    ("cost_benefit", Victim::CostBenefit, 3),
];
/// Each record is overwritten as often on average; the first half is not counted.
const LAPS: u64 = 6;
/// The space is read this many times while all records are overwritten once.
const SAMPLES_PER_LAP: u64 = 64;
/// The number of puts between which all background work is done.
const PUTS_PER_WORK: u64 = 64;

const LOGS_MEAN: Quantity<BytesPerByte> = Quantity::lower("logs, mean");
const LOGS_MOST: Quantity<BytesPerByte> = Quantity::lower("logs, most");
/// A log that is cleaned from its oldest end, in the space that was measured: the paper's formula, for any popularity.
const OLDEST_FIRST: Quantity<PerPut> = Quantity::equal("appends, oldest first");
/// The least of a log that separates keys by their rates, in the same space.
const LEAST: Quantity<PerPut> = Quantity::equal("appends, least");

/// Cleaning by rules, skews and spaces.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashkey-cleaning", cost_s: 250, direct: false, counts: true, rates: false, run };

/// One combination.
struct Case {
    rule: &'static str,
    victim: Victim,
    classes: u8,
    skew: f64,
    space: f64,
}

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for skew in SKEWS {
        for space in SPACES {
            for (rule, victim, classes) in RULES {
                Case { rule, victim, classes, skew, space }.run(conditions, points)?;
            }
        }
    }
    Ok(())
}

impl Case {
    /// Overwrites records, and counts how many are appended per put in the second half.
    fn run(&self, conditions: &Conditions, points: &mut Points) -> Result<()> {
        let keys = conditions.number(KEYS);
        let popularity = match self.skew {
            0.0 => Popularity::uniform(keys)?,
            skew => Popularity::zipf(keys, skew)?,
        };
        let mut stream = KeyStream::new(&popularity, conditions.seed)?;
        let database = self.open(conditions, keys)?;
        let mut writer = Writer::new(conditions, keys, &database)?;
        stream.every_key().try_for_each(|key| writer.put(key))?;
        let (mut before, mut puts_before) = (database.stats(), writer.puts);
        let mut logs = Logs::default();
        for lap in 0..LAPS {
            if lap == LAPS / 2 {
                (before, puts_before) = (database.stats(), writer.puts);
            }
            for _ in 0..SAMPLES_PER_LAP {
                conditions.check()?;
                let puts = keys.div_ceil(SAMPLES_PER_LAP) as usize;
                stream.by_ref().take(puts).try_for_each(|key| writer.put(key))?;
                if lap >= LAPS / 2 {
                    logs.sample(&database.stats());
                }
            }
        }
        let after = database.stats();
        let puts = (writer.puts - puts_before).max(1);
        database.close()?;
        conditions.place.clear()?;
        let io = after.io - before.io;
        // In one log or in several: without classes, moved records are in that of the puts.
        let appended = io.of(Purpose::Log).write_bytes + io.of(Purpose::Collect).write_bytes;
        // Each key has a live record, and all records have one size.
        let frame_bytes = detail(&after, "live_bytes") / keys as f64;
        let measured = appended as f64 / (puts as f64 * frame_bytes);
        self.add(&popularity, frame_bytes, measured, &logs, points)
    }

    fn add(
        &self,
        popularity: &Popularity,
        frame_bytes: f64,
        appends: f64,
        logs: &Logs,
        points: &mut Points,
    ) -> Result<()> {
        let Case { rule, victim, classes, skew, space } = *self;
        let series = format!("{rule}, classes {classes}, skew {skew}");
        let data_bytes = popularity.keys() * (KEY_BYTES + VALUE_BYTES) as f64;
        let segments = popularity.keys() * frame_bytes / segment_bytes(data_bytes as u64) as f64;
        let model = SegmentCleaning { space, segments, victim, classes }.appends_per_put(popularity)?;
        points.add(ITEM, APPENDS.at(&series, space).model(model).is(Reading::count(appends)));
        let (mean, most) = logs.shares();
        points.add(ITEM, LOGS_MEAN.at(&series, space).is(Reading::count(mean)));
        points.add(ITEM, LOGS_MOST.at(&series, space).is(Reading::count(most)));
        let room = logs.mean_bytes() / frame_bytes;
        let oldest = Cleaning::steady(popularity, room)?.appends_per_put;
        points.add(ITEM, OLDEST_FIRST.at(&series, space).calculated(oldest));
        let least = Separation::least(popularity, room)?.appends_per_put;
        points.add(ITEM, LEAST.at(&series, space).calculated(least));
        Ok(())
    }

    fn open(&self, conditions: &Conditions, keys: u64) -> Result<Database> {
        let data_bytes = keys * (KEY_BYTES + VALUE_BYTES) as u64;
        let engine = [("victim", self.rule.to_owned()), ("classes", self.classes.to_string())];
        let tuning = tuning(conditions, Preset::Default, data_bytes, self.space, &engine);
        let builder = Database::builder(conditions.place.directory()).fixed(KEY_BYTES, VALUE_BYTES);
        Ok(tuning.apply(builder.partitions(1)).open()?)
    }
}

/// The bytes of the logs at some times, and per byte of live records.
#[derive(Default)]
struct Logs(Vec<(f64, f64)>);

impl Logs {
    fn sample(&mut self, stats: &Stats) {
        let bytes = detail(stats, "log_bytes");
        self.0.push((bytes, bytes / detail(stats, "live_bytes")));
    }

    fn mean_bytes(&self) -> f64 {
        self.0.iter().map(|(bytes, _)| bytes).sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Returns the mean and the most per byte of live records.
    fn shares(&self) -> (f64, f64) {
        let shares = || self.0.iter().map(|(_, share)| *share);
        (shares().sum::<f64>() / self.0.len().max(1) as f64, shares().fold(0.0, f64::max))
    }
}

fn detail(stats: &Stats, name: &str) -> f64 {
    stats.details.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, value)| *value)
}

/// Puts records and counts them, with all background work in between.
struct Writer<'a> {
    database: &'a Database,
    keys: Keys,
    values: Values,
    puts: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(conditions: &Conditions, keys: u64, database: &'a Database) -> Result<Self> {
        let keys = Keys::new(KEY_BYTES, keys, false)?;
        let values = Values::new(VALUE_BYTES, conditions.seed);
        Ok(Writer { database, keys, values, puts: 0, key: Vec::new(), value: Vec::new() })
    }

    fn put(&mut self, number: u32) -> Result<()> {
        let number = u64::from(number);
        self.keys.write(number, &mut self.key);
        self.values.write(number, self.puts, &mut self.value);
        self.puts += 1;
        self.database.put(&self.key, &self.value)?;
        if self.puts.is_multiple_of(PUTS_PER_WORK) {
            while self.database.step()? == Step::Worked {}
        }
        Ok(())
    }
}

//! Cleaning of FlashKey's logs: how much is written per put, by victim, classes, skew and space, and by models.
//! Background work is done between puts, so that a run has the same figures each time, or by threads.

use super::flashkey::tuning;
use super::{Figure, Settings};
use crate::literature::{Cleaning, Separation};
use crate::{Error, Result};
use siltstone::{Database, Stats, Step, Victim};
use siltstone_bench::chart::{Axis, Chart, Series, Style};
use siltstone_bench::keys::{Keys, Values};
use siltstone_bench::place::Place;
use siltstone_bench::tuning::Tuning;
use siltstone_device::Purpose;
use siltstone_model::{KeyStream, Popularity, SegmentCleaning};
use std::sync::atomic::Ordering::Relaxed;

const VALUE_BYTES: usize = 40;
const SPACES: [f64; 1] = [1.3];
const SKEWS: [f64; 3] = [0.0, 0.6, 0.99];
/// The rules by their names.
const VICTIMS: [(&str, Victim); 3] = [
    ("most_invalid", Victim::MostInvalid),
    ("cost_benefit", Victim::CostBenefit),
    ("oldest", Victim::Oldest),
];

/// The space is read this many times while all records are overwritten once.
const SAMPLES_PER_LAP: u64 = 64;
/// The number of puts between which all background work is done.
const PUTS_PER_WORK: u64 = 64;

/// One combination.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The rule that chooses a segment.
    pub victim: String,
    /// The number of logs for moved records; 0 for that of the puts.
    pub classes: u8,
    /// The skew of the overwritten keys.
    pub skew: f64,
    /// The bytes of the logs per byte of live records.
    pub space: f64,
}

/// Returns all combinations of the settings.
pub fn cases(settings: &Settings) -> Vec<Case> {
    let spaces = if settings.space.is_empty() { &SPACES[..] } else { &settings.space };
    let skews = if settings.skew.is_empty() { &SKEWS[..] } else { &settings.skew };
    let mut cases = Vec::new();
    let of_space = |space| skews.iter().map(move |skew| (space, skew));
    for (&space, &skew) in spaces.iter().flat_map(of_space) {
        for victim in &settings.victim {
            let of_classes = |&classes: &u8| Case { victim: victim.clone(), classes, skew, space };
            cases.extend(settings.classes.iter().map(of_classes));
        }
    }
    cases
}

impl Case {
    fn name(&self) -> String {
        let Case { victim, classes, skew, space } = self;
        format!("{victim}, classes {classes}, skew {skew}, space {space}")
    }

    /// Overwrites records, and returns how many are appended per put in the second half.
    pub(super) fn run(&self, settings: &Settings, place: &Place) -> Result<Figure> {
        let popularity = match self.skew {
            0.0 => Popularity::uniform(settings.num),
            skew => Popularity::zipf(settings.num, skew),
        };
        let model = |error: siltstone_model::ModelError| Error::settings(error.to_string());
        let popularity = popularity.map_err(model)?;
        let mut stream = KeyStream::new(&popularity, settings.seed).map_err(model)?;
        let database = self.open(settings, place)?;
        let mut writer = Writer::new(settings, &database)?;
        stream.every_key().try_for_each(|key| writer.put(key))?;
        let counted_from = settings.laps / 2;
        let (mut before, mut puts_before) = (database.stats(), writer.puts);
        let (mut log_bytes, mut shares) = (Vec::new(), Vec::new());
        for lap in 0..settings.laps {
            if settings.stop.load(Relaxed) {
                break;
            }
            if lap == counted_from {
                (before, puts_before) = (database.stats(), writer.puts);
            }
            for _ in 0..SAMPLES_PER_LAP {
                let puts = settings.num.div_ceil(SAMPLES_PER_LAP) as usize;
                stream.by_ref().take(puts).try_for_each(|key| writer.put(key))?;
                if lap >= counted_from {
                    let stats = database.stats();
                    log_bytes.push(detail(&stats, "log_bytes"));
                    shares.push(detail(&stats, "log_bytes") / detail(&stats, "live_bytes"));
                }
            }
        }
        let after = database.stats();
        let io = after.io - before.io;
        // In one log or in several: without classes, moved records are in that of the puts.
        let appended = io.of(Purpose::Log).write_bytes + io.of(Purpose::Collect).write_bytes;
        database.close()?;
        place.clear()?;
        // Each key has a live record, and all records have one size.
        let frame_bytes = detail(&after, "live_bytes") / settings.num as f64;
        let room = log_bytes.iter().sum::<f64>() / log_bytes.len().max(1) as f64 / frame_bytes;
        let put_bytes = (writer.puts - puts_before).max(1) as f64 * frame_bytes;
        let measured = appended as f64 / put_bytes;
        let [mean, most] = [
            shares.iter().sum::<f64>() / shares.len().max(1) as f64,
            shares.iter().copied().fold(0.0, f64::max),
        ];
        let logs = format!("; logs {mean:.3}, at most {most:.3}");
        let what = self.name() + &logs + &bounds(&popularity, room);
        let theory = self.theory(settings, &popularity, frame_bytes);
        Ok(Figure { source: "appends per put", what, paper: None, theory, measured })
    }

    /// Returns the appends per put of the model of the engine's policy.
    fn theory(&self, settings: &Settings, popularity: &Popularity, frame_bytes: f64) -> Option<f64> {
        let (_, victim) = VICTIMS.into_iter().find(|(name, _)| *name == self.victim)?;
        let tuning = self.tuning(settings);
        let named = tuning.settings.settings.iter().rev().find(|(name, _)| name == "segment_bytes")?;
        let segment_bytes: f64 = named.1.parse().ok()?;
        let segments = popularity.keys() * frame_bytes / segment_bytes;
        let cleaning = SegmentCleaning { space: self.space, segments, victim, classes: self.classes };
        cleaning.appends_per_put(popularity).ok()
    }

    fn open(&self, settings: &Settings, place: &Place) -> Result<Database> {
        let value_size = settings.value_size.unwrap_or(VALUE_BYTES);
        let builder = Database::builder(place.directory()).fixed(settings.key_size, value_size);
        Ok(self.tuning(settings).apply(builder.partitions(1)).open()?)
    }

    fn tuning(&self, settings: &Settings) -> Tuning {
        let value_size = settings.value_size.unwrap_or(VALUE_BYTES);
        let data_bytes = settings.num * (settings.key_size + value_size) as u64;
        let engine = [
            ("victim", self.victim.clone()),
            ("classes", self.classes.to_string()),
            ("space", self.space.to_string()),
        ];
        Tuning {
            background_threads: Some(settings.background_threads),
            ..tuning(settings, data_bytes, &engine)
        }
    }
}

/// Returns the appends per put, in as much space, of a log that is cleaned from its oldest end, which is the formula of
/// the paper for any popularity, and the least of a log that separates keys by their rates.
fn bounds(popularity: &Popularity, room: f64) -> String {
    let oldest = Cleaning::steady(popularity, room).map(|cleaning| cleaning.appends_per_put);
    let least = Separation::least(popularity, room).map(|separation| separation.appends_per_put);
    match (oldest, least) {
        (Ok(oldest), Ok(least)) => format!("; oldest first {oldest:.2}, least {least:.2}"),
        _ => String::new(),
    }
}

fn detail(stats: &Stats, name: &str) -> f64 {
    stats.details.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, value)| *value)
}

/// Puts records and counts them.
struct Writer<'a> {
    database: &'a Database,
    keys: Keys,
    values: Values,
    puts: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The background work is done between puts, and not by threads.
    works: bool,
}

impl<'a> Writer<'a> {
    fn new(settings: &Settings, database: &'a Database) -> Result<Self> {
        let keys = Keys::new(settings.key_size, settings.num, false)?;
        let values = Values::new(settings.value_size.unwrap_or(VALUE_BYTES), settings.seed);
        let works = settings.background_threads == 0;
        Ok(Writer { database, keys, values, puts: 0, key: Vec::new(), value: Vec::new(), works })
    }

    fn put(&mut self, number: u32) -> Result<()> {
        let number = u64::from(number);
        self.keys.write(number, &mut self.key);
        self.values.write(number, self.puts, &mut self.value);
        self.puts += 1;
        self.database.put(&self.key, &self.value)?;
        if self.works && self.puts.is_multiple_of(PUTS_PER_WORK) {
            while self.database.step()? == Step::Worked {}
        }
        Ok(())
    }
}

/// Draws the appends per put over the space, with a line per victim, classes and skew, and a faint one of the model.
pub fn chart(measured: &[(Case, Figure)]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let mut add = |name: String, style: Style, point: (f64, f64)| match series
        .iter_mut()
        .find(|series| series.name == name)
    {
        Some(series) if !series.points.contains(&point) => series.points.push(point),
        Some(_) => {}
        None => series.push(Series { name, points: vec![point], style }),
    };
    for (Case { victim, classes, skew, space }, figure) in measured {
        let name = format!("{victim}, classes {classes}, skew {skew}");
        add(name.clone(), Style::Line, (*space, figure.measured));
        if let Some(theory) = figure.theory {
            add(name + ", by the model", Style::FaintLine, (*space, theory));
        }
    }
    let axis = |label: &str| Axis { label: label.to_owned(), logarithmic: false };
    Chart {
        title: "Records appended per put".to_owned(),
        x: axis("bytes of the logs per byte of live records"),
        y: axis("appends per put"),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_all_combinations() {
        let settings = Settings { space: vec![1.2, 1.5], ..Settings::default() };
        let cases = cases(&settings);
        assert_eq!(cases.len(), 2 * 3 * 2 * 3);
        assert!(cases.iter().all(|case| cases.iter().filter(|other| *other == case).count() == 1));
    }
}

//! The conditions of an experiment: how large it is, where its files are, and how its databases are opened.

use crate::point::Pass;
use crate::{Error, Result};
use siltstone::{Access, EngineKind};
use siltstone_bench::place::Place;
use siltstone_bench::tuning::{SettingArgs, Tuning};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Below this scale an experiment says whether it runs, and little about its subject.
const SCALE_OF_TESTS: f64 = 0.01;
/// The least time of a measurement.
const DURATION_MIN: Duration = Duration::from_millis(5);

/// A choice of the settings of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// The engine's own.
    Default,
    /// As its paper describes it, as far as the engine can.
    Paper,
}

impl Preset {
    /// Both, the engine's own first.
    pub const ALL: [Preset; 2] = [Preset::Default, Preset::Paper];

    /// Returns the presets that an engine has.
    pub fn of(engine: EngineKind) -> &'static [Preset] {
        if engine == EngineKind::Mica { &Preset::ALL[..1] } else { &Preset::ALL }
    }

    /// Returns the name, by which the engine knows it.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Default => "default",
            Preset::Paper => "paper",
        }
    }
}

/// The conditions of an experiment.
#[derive(Debug)]
pub struct Conditions {
    /// The size, as a share of that with which all experiments together take an hour.
    pub scale: f64,
    /// The directory of files.
    pub place: Place,
    /// The directory that was named, if one was.
    named: Option<PathBuf>,
    /// The directory of a slow disk, if there is one.
    pub disk: Option<PathBuf>,
    /// How files are read and written.
    pub access: Access,
    /// The seed of keys, orders and values.
    pub seed: u64,
    /// What this run is for.
    pub pass: Pass,
    /// Ends an experiment when it becomes true.
    pub stop: Arc<AtomicBool>,
}

impl Conditions {
    /// Returns conditions with files in `db`, or in a temporary directory.
    ///
    /// # Errors
    /// There is no such directory, or it has contents.
    pub fn new(scale: f64, db: Option<&Path>) -> Result<Conditions> {
        if !(scale.is_finite() && scale > 0.0) {
            return Err(Error::settings(format!("the scale is {scale}, but must be above 0")));
        }
        let place = Place::prepare(db)?;
        place.check_empty()?;
        Ok(Conditions {
            scale,
            place,
            named: db.map(Path::to_owned),
            disk: None,
            access: Access::default(),
            seed: 301,
            pass: Pass::Counts,
            stop: Arc::default(),
        })
    }

    /// Returns the conditions of a run, with a directory of its own.
    pub(crate) fn of_run(&self, pass: Pass, number: u64) -> Result<Conditions> {
        let place = Place::prepare(self.named.as_deref())?;
        place.clear()?;
        Ok(Conditions {
            scale: self.scale,
            place,
            named: self.named.clone(),
            disk: self.disk.clone(),
            access: self.access,
            seed: self.seed + number,
            pass,
            stop: self.stop.clone(),
        })
    }

    /// Returns a number of keys, of operations or of blocks, for the number at scale 1.
    pub fn number(&self, at_scale_1: u64) -> u64 {
        ((at_scale_1 as f64 * self.scale).round() as u64).max(1)
    }

    /// Returns a number for the number at scale 1, but at least `least`.
    pub fn number_from(&self, at_scale_1: u64, least: u64) -> u64 {
        self.number(at_scale_1).max(least)
    }

    /// Returns a number of rounds within a run: fewer at a scale below 1.
    pub fn rounds(&self, at_scale_1: usize) -> usize {
        ((at_scale_1 as f64 * self.scale.min(1.0)).ceil() as usize).max(1)
    }

    /// Returns the values of a setting that an experiment goes through: the first alone at a scale that is for tests.
    pub fn sweep<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let count = if self.scale < SCALE_OF_TESTS { 1 } else { values.len() };
        values[..count.min(values.len())].to_vec()
    }

    /// Returns a time of measurement: shorter at a scale below 1, and not longer above.
    pub fn duration(&self, at_scale_1: Duration) -> Duration {
        at_scale_1.mul_f64(self.scale.min(1.0)).max(DURATION_MIN)
    }

    /// Returns an error if the user has stopped the experiment.
    pub fn check(&self) -> Result<()> {
        if self.stop.load(Relaxed) { Err(Error::STOPPED) } else { Ok(()) }
    }

    /// Returns the conditions of an experiment that uses direct I/O where the file system can.
    #[must_use]
    pub(crate) fn direct(mut self) -> Conditions {
        if !self.access.is_direct() {
            self.access = Access::DirectOrBuffered;
        }
        self
    }

    /// Returns what gets are served by: the drive, the page cache or memory. `direct` is whether the experiment
    /// uses direct I/O.
    pub(crate) fn served_by(&self, direct: bool) -> &'static str {
        match self.place.file_system_in_memory() {
            Some(_) => "memory",
            None if direct || self.access.is_direct() => "the drive",
            None => "the page cache",
        }
    }

    /// Returns how a database is opened: without background threads to count, with the engine's to measure rates.
    pub fn tuning(&self, engine: EngineKind, preset: Preset, settings: &[(&str, String)]) -> Tuning {
        let preset = (preset != Preset::Default).then(|| ("preset".to_owned(), preset.name().to_owned()));
        let own = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Tuning {
            engine,
            settings: SettingArgs { settings: preset.into_iter().chain(own).collect() },
            access: self.access,
            background_threads: (self.pass == Pass::Counts).then_some(0),
            // Keys are hashed in the same way in each run that counts.
            seed: (self.pass == Pass::Counts).then_some([self.seed, 0]),
            ..Tuning::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_without_background_threads() {
        let conditions = Conditions::new(1.0, None).unwrap();
        let tuning = |pass| {
            let conditions = conditions.of_run(pass, 0).unwrap();
            conditions.tuning(EngineKind::Silt, Preset::Paper, &[]).background_threads
        };
        assert_eq!((tuning(Pass::Counts), tuning(Pass::Rates)), (Some(0), None));
    }

    #[test]
    fn sizes_follow_the_scale_and_times_are_at_most_those_of_scale_1() {
        let of = |scale| {
            let conditions = Conditions::new(scale, None).unwrap();
            (conditions.number(1_000), conditions.duration(Duration::from_secs(4)).as_secs_f64())
        };
        assert_eq!(of(0.5), (500, 2.0));
        assert_eq!(of(10.0), (10_000, 4.0));
        assert_eq!(of(1e-9).0, 1);
        let sweep = |scale| Conditions::new(scale, None).unwrap().sweep(&[5, 6, 7]);
        assert_eq!((sweep(0.01), sweep(0.001)), (vec![5, 6, 7], vec![5]));
        assert!(Conditions::new(0.0, None).is_err() && Conditions::new(f64::NAN, None).is_err());
    }
}

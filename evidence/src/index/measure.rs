//! Times builds and lookups by CPU time. Results are medians of several rounds.

use super::sample::{Key, Sample};
use super::subject::Subject;
use super::{Options, Report, Settings, Structure};
use crate::{Error, Result};
use siltstone_bench::clock::thread_time;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The approximate duration of a round of lookups.
const ROUND_NS: f64 = 20e6;
/// The minimum number of lookups in a round.
const LOOKUPS_MIN: usize = 4096;
/// No further build is started after this time.
const BUILDS_TIME_MAX: Duration = Duration::from_secs(8);
/// The approximate number of false positives on which an estimate of their rate is based.
const FALSE_POSITIVES: u64 = 1 << 10;
/// The maximum number of missing keys to look up.
const ABSENT_MAX: u64 = 1 << 24;

/// Measures one structure of a sample.
pub(super) struct Bench<'a> {
    pub settings: &'a Settings,
    pub structure: Structure,
    pub options: Options,
    pub sample: &'a Sample,
}

impl Bench<'_> {
    /// Builds the structure, checks it against every key, and times its lookups.
    pub fn measure<S: Subject, E: Into<Error>>(&self, build: impl Fn() -> Result<S, E>) -> Result<Report> {
        let (subject, build_keys_per_s) = self.time_builds(build)?;
        let verified = subject.verify(self.sample.sorted());
        let keys = self.sample.len();
        let present = self.sample.present();
        let lookup_ns = self.median_ns(&present, |queries| look_up_all(&subject, queries))?;
        let lookup_chained_ns = self.median_ns(&present, |queries| look_up_chained(&subject, queries))?;
        let tells_absence = subject.may_contain(present[0]).is_some();
        let (mut lookup_absent_ns, mut false_positive_rate) = (None, None);
        if tells_absence {
            let absent = self.sample.absent_queries();
            lookup_absent_ns = Some(self.median_ns(&absent, |queries| look_up_all(&subject, queries))?);
            false_positive_rate = Some(self.false_positive_rate(&subject)?);
        }
        let report = Report {
            structure: self.structure.name(),
            keys,
            options: self.options,
            bits_per_key: subject.heap_bytes() as f64 * 8.0 / keys as f64,
            heap_bytes: subject.heap_bytes() as u64,
            build_keys_per_s,
            lookup_ns,
            lookup_chained_ns,
            lookup_absent_ns,
            verified_keys: verified.keys,
            units_per_lookup: (verified.units > 0).then(|| verified.units as f64 / keys as f64),
            inserts: subject.inserts(),
            space_used: subject.space_used(),
            false_positive_rate,
        };
        Ok(report)
    }

    /// Builds the structure and returns it with the keys per second of the median build.
    fn time_builds<S, E: Into<Error>>(&self, build: impl Fn() -> Result<S, E>) -> Result<(S, f64)> {
        let begun = thread_time();
        let mut times = Vec::new();
        loop {
            self.check_stop()?;
            let start = thread_time();
            let subject = build().map_err(E::into)?;
            times.push((thread_time() - start).as_secs_f64());
            if times.len() >= self.settings.rounds || thread_time() - begun > BUILDS_TIME_MAX {
                return Ok((subject, self.sample.len() as f64 / median(&mut times).max(1e-9)));
            }
        }
    }

    /// Returns the nanoseconds per lookup. Rounds look up different keys while there are more.
    fn median_ns(&self, queries: &[Key], mut look_up: impl FnMut(&[Key]) -> u64) -> Result<f64> {
        let mut time = |queries: &[Key]| {
            let start = thread_time();
            black_box(look_up(queries));
            (thread_time() - start).as_nanos() as f64 / queries.len() as f64
        };
        let estimate = time(&queries[..LOOKUPS_MIN]).max(0.1);
        let count = ((ROUND_NS / estimate) as usize).clamp(LOOKUPS_MIN, queries.len());
        let mut times = Vec::with_capacity(self.settings.rounds);
        for round in 0..self.settings.rounds {
            self.check_stop()?;
            let start = round * count % (queries.len() - count + 1);
            times.push(time(&queries[start..start + count]));
        }
        Ok(median(&mut times))
    }

    /// Returns the share of missing keys that the structure reports as present.
    fn false_positive_rate<S: Subject>(&self, subject: &S) -> Result<f64> {
        let bits = self.options.bits.unwrap_or_default().min(32);
        let asked = (FALSE_POSITIVES << bits).min(ABSENT_MAX);
        self.check_stop()?;
        let wrong =
            self.sample.absent().take(asked as usize).filter(|&key| subject.may_contain(key) == Some(true));
        Ok(wrong.count() as f64 / asked as f64)
    }

    fn check_stop(&self) -> Result<()> {
        if self.settings.stop.load(Relaxed) { Err(Error::STOPPED) } else { Ok(()) }
    }
}

/// Looks up keys independently, so that the processor may overlap lookups.
#[inline(never)]
fn look_up_all<S: Subject>(subject: &S, queries: &[Key]) -> u64 {
    queries.iter().fold(0, |sum, &key| sum.wrapping_add(subject.look_up(key)))
}

/// Looks up keys in a chain: each lookup depends on the result of the one before.
#[inline(never)]
fn look_up_chained<S: Subject>(subject: &S, queries: &[Key]) -> u64 {
    let zero = black_box(0);
    queries.iter().fold(0, |result, key| {
        let nothing = result & zero;
        let (placement, fingerprint) = (key.placement ^ nothing, key.fingerprint ^ nothing);
        subject.look_up(Key { placement, fingerprint })
    })
}

/// Returns the median, of an even number the lower one; 0 if there are no values.
fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}

//! Finds the intact parts of a database that is not open, and what is lost with the others. Nothing is changed.
//!
//! The index says which records are live, so the keys that a damaged part of a log has are those of the entries that
//! point there. Of the user log behind what redo covers, no entry is known: there, any key may be lost. Where the index
//! is damaged, older and deleted values may come back, because only the index says that a record is dead.

use super::live::{LiveLogs, Manifest};
use super::log_settings::LogSettings;
use super::recovery::{data_settings, index_settings, redo_format};
use crate::damage::{Damage, KeyRange, VerifyReport};
use crate::error::Result;
use crate::progress::{Progress, ProgressCounter};
use crate::store::data_logs::{
    DataLogsToExamine, ExaminedLogs, FoundRecord, FoundSegment, LostPart, USER, Unit,
};
use crate::store::list_files;
use crate::store::manifest::KeptSettings;
use crate::store::ordered_keys;
use crate::store::unit_index::{ExaminedIndex, IndexToExamine, KnownEntries};
use siltstone_device::Directory;
use std::collections::BTreeMap;
use std::ops::Range;

/// Determines the settings of the logs from those that a manifest keeps.
pub(crate) type SettingsOf<'a> = dyn Fn(&KeptSettings) -> Result<LogSettings> + 'a;

/// Reads everything of a database that is not open, and reports damage. Changes nothing. Takes the memory of the index.
pub(crate) fn examine(
    directory: &Directory,
    settings_of: &SettingsOf<'_>,
    progress: &mut Progress<'_>,
) -> Result<VerifyReport> {
    let (manifest, damage) = Manifest::open_or_mirror(directory)?;
    let settings = settings_of(manifest.settings())?;
    Ok(Survey::take(directory, &manifest, damage, &settings, &mut ProgressCounter::new(progress))?.report)
}

/// The state of a database.
pub(super) struct Survey<'a> {
    pub report: VerifyReport,
    pub manifest: &'a Manifest,
    pub index_files: IndexToExamine<'a>,
    pub index: ExaminedIndex,
    pub data_files: DataLogsToExamine<'a>,
    pub data: ExaminedLogs,
    /// All segments; those whose header is damaged have slots that fit their records.
    pub segments: Vec<FoundSegment>,
    /// The entries whose records are lost.
    pub lost: Vec<(u64, Unit)>,
    /// A store below may have older versions of what is lost.
    pub has_below: bool,
}

/// How many entries of a segment with a damaged header are right if it has this first slot.
type Votes = BTreeMap<FoundSegment, BTreeMap<u64, u64>>;

impl<'a> Survey<'a> {
    /// Reads everything. `damage` is that of the manifest.
    pub fn take(
        directory: &'a Directory,
        manifest: &'a Manifest,
        damage: Vec<Damage>,
        settings: &LogSettings,
        counter: &mut ProgressCounter<'_, '_>,
    ) -> Result<Survey<'a>> {
        let header = manifest.header();
        let LiveLogs { finished, finished_to, index: saved, redo_synced, key_runs, .. } = manifest.state();
        counter.total = 2 * manifest.length();
        for name in list_files(directory)?.into_iter().filter(|name| name.is_of_logs()) {
            counter.total += directory.length_of(&name.to_string())?;
        }
        counter.advance(2 * manifest.length());
        let data_settings = data_settings(header, settings);
        let index_files = IndexToExamine {
            directory,
            settings: index_settings(header, settings, data_settings.units_per_slot()),
            format: redo_format(header),
            saved: *saved,
            redo_synced: *redo_synced,
        };
        let mut damage = damage;
        damage.extend(ordered_keys::examine(directory, key_runs, &mut |bytes| counter.advance(bytes))?);
        let index = index_files.examine(&mut |bytes| counter.advance(bytes))?;
        let mut synced = index.covered;
        // Redo covers only what was synced: before that, missing records are damage and no torn end.
        synced[usize::from(USER)] = synced[usize::from(USER)].max(manifest.log_synced());
        let data_files = DataLogsToExamine {
            directory,
            settings: data_settings,
            finished,
            finished_to: *finished_to,
            synced,
        };
        let (mut matched, mut votes) = (0, Votes::new());
        let data = data_files.examine(&mut |bytes| counter.advance(bytes), &mut |found| {
            let hash = header.hasher.hash(found.record.key).placement;
            match found.unit {
                Some(unit) => matched += u64::from(index.index.contains(hash, unit)),
                None => vote(&mut votes, &index.index, &data_files, hash, &found),
            }
            Ok(())
        })?;
        let report = VerifyReport {
            hasher: Some(header.hasher),
            checked_bytes: counter.total,
            checked_records: data.records,
            damage,
            torn_bytes: data.torn_bytes + index.torn_bytes,
            ..VerifyReport::default()
        };
        let (segments, lost) = (data_files.segments(&data), Vec::new());
        let has_below = settings.has_below;
        let mut survey =
            Survey { report, manifest, index_files, index, data_files, data, segments, lost, has_below };
        matched += survey.find_slots(votes)?;
        survey.report_damage(matched);
        Ok(survey)
    }

    /// Gives each segment whose header is damaged the slots to which most entries of its records point, or some that
    /// no other one has. Returns the number of entries that point to records of these segments.
    fn find_slots(&mut self, mut votes: Votes) -> Result<u64> {
        let mut matched = 0;
        let slot_bytes = self.data_files.settings.units_per_slot() * self.data_files.settings.unit_bytes();
        for number in 0..self.segments.len() {
            let unknown = self.segments[number];
            if unknown.slots > 0 {
                continue;
            }
            let slots = (unknown.end - unknown.base).div_ceil(slot_bytes).max(1).min(u32::MAX.into()) as u32;
            let chosen = votes.remove(&unknown).unwrap_or_default();
            let chosen = chosen.into_iter().max_by_key(|(_, count)| *count).map(|(slot, _)| slot);
            let chosen = chosen.and_then(|slot| u32::try_from(slot).ok());
            let ends = self.segments.iter().map(|segment| segment.slot.saturating_add(segment.slots));
            let free = ends.max().unwrap_or(0);
            // With the slots of another segment, one unit would be the place of two records.
            let is_free = |slot: &u32| !self.segments.iter().any(|other| overlap(other, *slot, slots));
            let slot = chosen.filter(is_free).unwrap_or(free);
            self.data.set_slots(&unknown, slot, slots);
            let found = FoundSegment { slot, slots, ..unknown };
            self.segments[number] = found;
            let (hasher, index) = (self.manifest.header().hasher, &self.index.index);
            let is_it = |segment: &FoundSegment| *segment == found;
            self.data_files.records(&self.data, &is_it, &mut |_| true, &mut |found| {
                let hash = hasher.hash(found.record.key).placement;
                matched += u64::from(found.unit.is_some_and(|unit| index.contains(hash, unit)));
                Ok(())
            })?;
        }
        Ok(matched)
    }

    /// Adds all damage to the report. `matched` is the number of entries that point to intact records.
    fn report_damage(&mut self, matched: u64) {
        let mut parts =
            Parts::new(&self.data.damage, &self.segments, self.data_files.settings.units_per_slot());
        if parts.has_lost || matched != self.index.index.len() {
            let (rest, has_below) = (u64::MAX >> self.index_files.settings.hash_bits, self.has_below);
            for (hash, unit) in self.index.index.entries() {
                // A newer entry that is lost hides older ones, which would be found again, or one below.
                let is_oldest = || !has_below && self.index.index.candidates(hash).last() == Some(&unit);
                if parts.lose(unit, KeyRange { first: hash, last: hash | rest }, is_oldest) {
                    self.lost.push((hash, unit));
                }
            }
        }
        let found = &mut self.report.damage;
        found.append(&mut self.index.damage);
        if !parts.of_no_segment.is_empty() {
            let lost = KeyRange::united(parts.of_no_segment);
            let damage = self.index_files.inconsistent("units that no segment has");
            found.push(Damage { lost, may_be_older: true, ..damage });
        }
        // Each entry points to an intact record of its hash, or its record is lost. Otherwise no entry can be trusted.
        if matched != self.index.index.len() - self.lost.len() as u64 {
            let damage = self.index_files.inconsistent("units of other records");
            found.push(Damage { lost: vec![KeyRange::ALL], may_be_older: true, ..damage });
            self.index.forget();
            self.lost.clear();
        }
        let covered = self.index.covered[usize::from(USER)];
        for (part, (mut lost, mut may_be_older)) in self.data.damage.iter().zip(parts.lost) {
            // Behind what redo covers no entry is known: a record of any key may have been there.
            if !part.positions.is_empty() && part.class == USER && part.positions.end > covered {
                (lost, may_be_older) = (vec![KeyRange::ALL], true);
            } else if !part.positions.is_empty() && !self.index.unknown.is_empty() {
                lost.extend_from_slice(&self.index.unknown);
                may_be_older = true;
            }
            found.push(Damage { lost: KeyRange::united(lost), may_be_older, ..part.damage.clone() });
        }
        for (number, one) in self.segments.iter().enumerate() {
            if self.segments[..number].iter().any(|other| overlap(other, one.slot, one.slots)) {
                found.push(self.data_files.slots_taken(one));
            }
        }
    }
}

fn overlap(one: &FoundSegment, slot: u32, slots: u32) -> bool {
    let end = |slot: u32, slots: u32| u64::from(slot) + u64::from(slots);
    u64::from(one.slot) < end(slot, slots) && u64::from(slot) < end(one.slot, one.slots)
}

/// Counts the first slots that a segment has if the entries of a record point to it.
fn vote(
    votes: &mut Votes,
    index: &KnownEntries,
    files: &DataLogsToExamine<'_>,
    hash: u64,
    found: &FoundRecord<'_>,
) {
    let place = (found.position - found.segment.base) / files.settings.unit_bytes();
    let slot_units = files.settings.units_per_slot();
    for unit in index.candidates(hash).iter() {
        if let Some(first) = unit.checked_sub(place).filter(|first| first % slot_units == 0) {
            *votes.entry(found.segment).or_default().entry(first / slot_units).or_default() += 1;
        }
    }
}

/// The damaged parts of the logs, and the entries that point to them.
struct Parts {
    /// The units of parts, ascending, each with the number of its part.
    units: Vec<(Range<Unit>, usize)>,
    /// The units of all segments, ascending.
    owned: Vec<Range<Unit>>,
    /// Of each part the keys of its entries, and whether older values of one may come back.
    lost: Vec<(Vec<KeyRange>, bool)>,
    /// The keys of the entries of no segment.
    of_no_segment: Vec<KeyRange>,
    has_lost: bool,
}

impl Parts {
    fn new(damage: &[LostPart], segments: &[FoundSegment], units_per_slot: u64) -> Parts {
        let units = damage.iter().enumerate().map(|(number, part)| (part.units.clone(), number));
        let mut units: Vec<_> = units.filter(|(units, _)| !units.is_empty()).collect();
        units.sort_unstable_by_key(|(units, _)| units.start);
        let units_of = |slot: u64| slot.saturating_mul(units_per_slot);
        let owned = segments.iter().map(|segment| {
            let first = u64::from(segment.slot);
            units_of(first)..units_of(first + u64::from(segment.slots))
        });
        let mut owned: Vec<_> = owned.collect();
        owned.sort_unstable_by_key(|units| units.start);
        let lost = damage.iter().map(|_| (Vec::new(), false)).collect();
        let has_lost = damage.iter().any(|part| !part.positions.is_empty());
        Parts { units, owned, lost, of_no_segment: Vec::new(), has_lost }
    }

    /// Notes an entry if its record is lost. Returns whether it is.
    fn lose(&mut self, unit: Unit, range: KeyRange, is_oldest: impl Fn() -> bool) -> bool {
        let at = self.units.partition_point(|(units, _)| units.start <= unit);
        let damaged = self.units[..at].last().filter(|(units, _)| units.contains(&unit));
        if let Some((_, number)) = damaged {
            let (lost, may_be_older) = &mut self.lost[*number];
            lost.push(range);
            *may_be_older |= !is_oldest();
            return true;
        }
        let at = self.owned.partition_point(|units| units.start <= unit);
        let is_owned = self.owned[..at].last().is_some_and(|units| units.contains(&unit));
        if !is_owned {
            self.of_no_segment.push(range);
        }
        !is_owned
    }
}

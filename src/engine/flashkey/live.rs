//! What is live in a database whose data is in logs, as its manifest keeps it: the finished segments of each class,
//! where the last one ended, the saved index, the runs of keys in order, and how much of the redo log was synced.

use crate::store::data_logs::{CLASSES, FinishedSegment};
use crate::store::log_format::POSITION_MAX;
use crate::store::manifest::{self, Header, LiveState};
use crate::store::ordered_keys::KeyRun;
use crate::store::unit_index::SavedIndex;
use siltstone_index::coding::Reader;
use std::cmp::Reverse;

/// The manifest of a database whose data is in logs.
pub type Manifest = manifest::Manifest<LiveLogs>;

/// What is live.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveLogs {
    /// The finished segments that are not released, by class and position.
    pub finished: Vec<FinishedSegment>,
    /// Where the last finished segment of each class ended, which may be released.
    pub finished_to: [u64; CLASSES],
    /// The saved index, if there is one.
    pub index: Option<SavedIndex>,
    /// The runs of keys, the oldest first.
    pub key_runs: Vec<KeyRun>,
    /// The keys of the user log before this position are in them.
    pub keys_flushed_to: u64,
    /// The redo log was synced up to this position.
    pub redo_synced: u64,
}

/// A change of what is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// The segment takes no more records, and all of it is durable.
    Finished(FinishedSegment),
    /// No entry of the index points to the segment.
    Released {
        /// Its class.
        class: u8,
        /// The position of its first frame.
        base: u64,
    },
    /// The segments of the class before this position are finished, and those that are not live are released.
    FinishedTo {
        /// The class.
        class: u8,
        /// The position.
        position: u64,
    },
    /// The saved index that replaces the one before.
    Index(SavedIndex),
    /// A new run of keys, or none because no key is left in the runs that it replaces.
    Keys {
        /// The run.
        added: Option<KeyRun>,
        /// The oldest and the newest of the adjacent runs that it replaces. It is the newest if it replaces none.
        replaced: Option<(u64, u64)>,
        /// The keys of the user log before this position are in the runs.
        flushed_to: u64,
    },
    /// The redo log was synced up to this position.
    RedoSynced(u64),
}

const KIND_FINISHED: u8 = 1;
const KIND_RELEASED: u8 = 2;
const KIND_FINISHED_TO: u8 = 3;
const KIND_INDEX: u8 = 4;
const KIND_KEYS: u8 = 5;
const KIND_REDO_SYNCED: u8 = 6;

impl LiveLogs {
    /// Returns where the finished segment with this class and position is in the list, or where it would be.
    fn find(&self, class: u8, base: u64) -> Result<usize, usize> {
        self.finished.binary_search_by_key(&(class, base), |segment| (segment.class, segment.base))
    }

    fn finish(&mut self, segment: &FinishedSegment) -> Option<()> {
        let finished_to = self.finished_to.get_mut(usize::from(segment.class))?;
        // In the order of the log, without an overlap: an open reads only what follows the last finished segment.
        let is_possible = *finished_to <= segment.base
            && segment.base < segment.end
            && segment.end <= POSITION_MAX
            && segment.slots > 0;
        let slots = |segment: &FinishedSegment| {
            Some(u64::from(segment.slot)..u64::from(segment.slot) + u64::from(segment.slots))
        };
        let own = slots(segment)?;
        let overlaps = |other: &FinishedSegment| {
            slots(other).is_some_and(|other| other.start < own.end && own.start < other.end)
        };
        // With a common slot, a unit would be the place of two records.
        if !is_possible || self.finished.iter().any(overlaps) {
            return None;
        }
        *finished_to = segment.end;
        let at = self.find(segment.class, segment.base).err()?;
        self.finished.insert(at, *segment);
        Some(())
    }

    fn change_keys(
        &mut self,
        added: Option<KeyRun>,
        replaced: Option<(u64, u64)>,
        flushed_to: u64,
    ) -> Option<()> {
        let rank = |number| self.key_runs.iter().position(|run| run.number == number);
        let ranks = match replaced {
            None => self.key_runs.len()..self.key_runs.len(),
            Some((oldest, newest)) => {
                let (oldest, newest) = (rank(oldest)?, rank(newest)?);
                (oldest <= newest).then_some(oldest..newest + 1)?
            }
        };
        let is_new = added.is_none_or(|added| rank(added.number).is_none());
        if !is_new || !(self.keys_flushed_to..=POSITION_MAX).contains(&flushed_to) {
            return None;
        }
        // In the place of those that it replaces: the order of runs is that of their operations.
        self.key_runs.splice(ranks, added);
        self.keys_flushed_to = flushed_to;
        Some(())
    }
}

impl LiveState for LiveLogs {
    type Edit = Edit;

    fn empty(_: &Header) -> LiveLogs {
        LiveLogs::default()
    }

    fn apply(&mut self, edit: &Edit) -> Option<()> {
        match edit {
            Edit::Finished(segment) => self.finish(segment)?,
            Edit::Released { class, base } => {
                let at = self.find(*class, *base).ok()?;
                self.finished.remove(at);
            }
            Edit::FinishedTo { class, position } => {
                let finished_to = self.finished_to.get_mut(usize::from(*class))?;
                // Positions only grow. A lower one is damage: an open would look for segments that were released.
                if *position < *finished_to || *position > POSITION_MAX {
                    return None;
                }
                *finished_to = *position;
            }
            Edit::Index(saved) => {
                let is_later =
                    |last: &SavedIndex| last.number < saved.number && last.redo_from <= saved.redo_from;
                if !self.index.as_ref().is_none_or(is_later) || saved.redo_from > POSITION_MAX {
                    return None;
                }
                self.index = Some(*saved);
            }
            Edit::Keys { added, replaced, flushed_to } => {
                self.change_keys(*added, *replaced, *flushed_to)?;
            }
            Edit::RedoSynced(position) => {
                if *position < self.redo_synced || *position > POSITION_MAX {
                    return None;
                }
                self.redo_synced = *position;
            }
        }
        Some(())
    }

    fn encode(edit: &Edit, out: &mut Vec<u8>) {
        let mut push = |kind: u8, numbers: &[u64]| {
            out.push(kind);
            numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        };
        match edit {
            Edit::Finished(segment) => {
                let FinishedSegment { class, base, end, slot, slots, records, order, database_id } = *segment;
                push(KIND_FINISHED, &[base, end, records, order, database_id]);
                out.push(class);
                out.extend_from_slice(&slot.to_le_bytes());
                out.extend_from_slice(&slots.to_le_bytes());
            }
            Edit::Released { class, base } => {
                push(KIND_RELEASED, &[*base]);
                out.push(*class);
            }
            Edit::FinishedTo { class, position } => {
                push(KIND_FINISHED_TO, &[*position]);
                out.push(*class);
            }
            Edit::Index(SavedIndex { number, tag, redo_from }) => {
                push(KIND_INDEX, &[*number, *tag, *redo_from]);
            }
            Edit::Keys { added, replaced, flushed_to } => {
                push(KIND_KEYS, &[*flushed_to]);
                let added = added.map(|added| (added.number, added.tag));
                for pair in [added, *replaced] {
                    out.push(u8::from(pair.is_some()));
                    let (one, other) = pair.unwrap_or_default();
                    out.extend_from_slice(&one.to_le_bytes());
                    out.extend_from_slice(&other.to_le_bytes());
                }
            }
            Edit::RedoSynced(position) => push(KIND_REDO_SYNCED, &[*position]),
        }
    }

    fn decode(fields: &mut Reader<'_>) -> Option<Edit> {
        // Only the fields are read here: `apply` checks that the edit is possible.
        Some(match fields.u8()? {
            KIND_FINISHED => {
                let (base, end, records) = (fields.u64()?, fields.u64()?, fields.u64()?);
                let (order, database_id) = (fields.u64()?, fields.u64()?);
                let (class, slot, slots) = (fields.u8()?, fields.u32()?, fields.u32()?);
                let segment = FinishedSegment { class, base, end, slot, slots, records, order, database_id };
                Edit::Finished(segment)
            }
            KIND_RELEASED => {
                let base = fields.u64()?;
                Edit::Released { class: fields.u8()?, base }
            }
            KIND_FINISHED_TO => {
                let position = fields.u64()?;
                Edit::FinishedTo { class: fields.u8()?, position }
            }
            KIND_INDEX => {
                let (number, tag, redo_from) = (fields.u64()?, fields.u64()?, fields.u64()?);
                Edit::Index(SavedIndex { number, tag, redo_from })
            }
            KIND_KEYS => {
                let flushed_to = fields.u64()?;
                let mut pair = || {
                    let is_some = fields.u8()? == 1;
                    let pair = (fields.u64()?, fields.u64()?);
                    Some(is_some.then_some(pair))
                };
                let added = pair()?.map(|(number, tag)| KeyRun { number, tag });
                Edit::Keys { added, replaced: pair()?, flushed_to }
            }
            KIND_REDO_SYNCED => Edit::RedoSynced(fields.u64()?),
            _ => return None,
        })
    }

    fn as_edits(&self) -> Vec<Edit> {
        let finished = self.finished.iter().copied().map(Edit::Finished);
        let positions = (0..).zip(self.finished_to).filter(|(_, position)| *position > 0);
        let finished_to = positions.map(|(class, position)| Edit::FinishedTo { class, position });
        let flushed_to = self.keys_flushed_to;
        let runs = self.key_runs.iter().map(|run| Some(*run));
        // Keys that were all deleted leave no run.
        let none = (flushed_to > 0 && self.key_runs.is_empty()).then_some(None);
        let keys = runs.chain(none).map(|added| Edit::Keys { added, replaced: None, flushed_to });
        let redo_synced = Some(self.redo_synced).filter(|position| *position > 0).map(Edit::RedoSynced);
        // The segments first: behind `finished_to`, they would be refused.
        let all = finished.chain(finished_to).chain(self.index.map(Edit::Index));
        all.chain(keys).chain(redo_synced).collect()
    }

    /// Positions and numbers never decrease, and a segment that was released does not come back.
    fn is_older_than(&self, other: &LiveLogs) -> bool {
        let number = |state: &LiveLogs| state.index.map(|saved| saved.number);
        // Merges leave fewer runs, or one with a higher number, or none.
        let keys = |state: &LiveLogs| {
            let last = state.key_runs.iter().map(|run| run.number).max();
            (state.keys_flushed_to, Reverse(state.key_runs.len()), last)
        };
        let is_released = |segment: &FinishedSegment| {
            // The remainder only avoids a panic: `finish` refuses other classes.
            segment.end <= other.finished_to[usize::from(segment.class) % CLASSES]
                && other.find(segment.class, segment.base).is_err()
        };
        self.finished_to.iter().zip(&other.finished_to).any(|(own, other)| other > own)
            || number(other) > number(self)
            || keys(other) > keys(self)
            || other.redo_synced > self.redo_synced
            || self.finished.iter().any(is_released)
    }

    fn highest_added(edit: &Edit) -> Option<u64> {
        match edit {
            Edit::Index(saved) => Some(saved.number),
            Edit::Keys { added, .. } => added.map(|run| run.number),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(class: u8, base: u64, end: u64, slot: u32) -> FinishedSegment {
        let (order, records) = (base, end - base);
        FinishedSegment { class, base, end, slot, slots: 2, records, order, database_id: 5 }
    }

    fn run(number: u64) -> KeyRun {
        KeyRun { number, tag: number << 20 }
    }

    fn keys(number: u64, replaced: Option<(u64, u64)>, flushed_to: u64) -> Edit {
        Edit::Keys { added: Some(run(number)), replaced, flushed_to }
    }

    fn filled() -> LiveLogs {
        let mut live = LiveLogs::default();
        let edits = [
            Edit::Finished(segment(0, 0, 100, 0)),
            Edit::Finished(segment(2, 0, 90, 2)),
            Edit::Finished(segment(0, 100, 210, 4)),
            Edit::Released { class: 0, base: 0 },
            Edit::Index(SavedIndex { number: 3, tag: 7, redo_from: 50 }),
            Edit::Finished(segment(0, 210, 300, 0)),
            Edit::Finished(segment(1, 5, 6, 6)),
            Edit::Released { class: 1, base: 5 },
            keys(4, None, 80),
            keys(5, None, 80),
            keys(6, None, 90),
            keys(7, Some((4, 5)), 90),
            Edit::RedoSynced(70),
        ];
        edits.iter().for_each(|edit| live.apply(edit).unwrap());
        live
    }

    #[test]
    fn the_edits_of_a_state_make_the_same_state_from_their_bytes() {
        let live = filled();
        assert_eq!(live.finished, [segment(0, 100, 210, 4), segment(0, 210, 300, 0), segment(2, 0, 90, 2)]);
        assert_eq!((&live.key_runs[..], live.keys_flushed_to), (&[run(7), run(6)][..], 90));
        let mut empty = live.clone();
        empty.apply(&Edit::Keys { added: None, replaced: Some((7, 6)), flushed_to: 95 }).unwrap();
        for live in [live, empty] {
            let mut again = LiveLogs::default();
            for edit in live.as_edits() {
                let mut bytes = Vec::new();
                LiveLogs::encode(&edit, &mut bytes);
                assert_eq!(LiveLogs::decode(&mut Reader::new(&bytes)), Some(edit));
                assert!(
                    (0..bytes.len()).all(|end| LiveLogs::decode(&mut Reader::new(&bytes[..end])).is_none())
                );
                again.apply(&edit).unwrap();
            }
            assert_eq!(again, live);
        }
        assert_eq!(LiveLogs::decode(&mut Reader::new(&[9; 64])), None);
    }

    #[test]
    fn impossible_edits_are_refused() {
        let refused = [
            Edit::Finished(segment(4, 0, 1, 9)),
            Edit::Finished(segment(0, 299, 400, 9)),
            Edit::Finished(segment(0, 300, 300, 9)),
            Edit::Finished(segment(0, 300, POSITION_MAX + 1, 9)),
            Edit::Finished(segment(3, 0, 10, 3)),
            Edit::Finished(FinishedSegment { slots: 0, ..segment(3, 0, 10, 9) }),
            Edit::Finished(FinishedSegment { slot: u32::MAX, slots: u32::MAX, ..segment(4, 0, 10, 9) }),
            Edit::Released { class: 0, base: 0 },
            Edit::Released { class: 1, base: 100 },
            Edit::FinishedTo { class: 0, position: 299 },
            Edit::FinishedTo { class: 4, position: 1 },
            Edit::Index(SavedIndex { number: 3, tag: 8, redo_from: 60 }),
            Edit::Index(SavedIndex { number: 4, tag: 8, redo_from: 49 }),
            keys(6, None, 100),
            keys(8, None, 89),
            keys(8, Some((6, 7)), 100),
            keys(8, Some((7, 5)), 100),
            keys(8, None, POSITION_MAX + 1),
            Edit::RedoSynced(69),
            Edit::RedoSynced(POSITION_MAX + 1),
        ];
        for edit in refused {
            assert_eq!(filled().apply(&edit), None, "{edit:?}");
        }
    }

    #[test]
    fn a_state_is_older_than_each_one_that_follows_it() {
        let first = filled();
        for edit in [
            Edit::Finished(segment(3, 0, 10, 9)),
            Edit::Released { class: 2, base: 0 },
            Edit::Index(SavedIndex { number: 4, tag: 8, redo_from: 50 }),
            keys(8, None, 91),
            keys(8, Some((7, 6)), 90),
            Edit::Keys { added: None, replaced: Some((7, 6)), flushed_to: 90 },
            Edit::Keys { added: None, replaced: None, flushed_to: 91 },
            Edit::RedoSynced(71),
        ] {
            let mut later = first.clone();
            later.apply(&edit).unwrap();
            assert!(first.is_older_than(&later) && !later.is_older_than(&first), "{edit:?}");
        }
        assert!(!first.is_older_than(&first.clone()));
    }
}

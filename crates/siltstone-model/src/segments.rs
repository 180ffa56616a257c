//! Logs of segments that are cleaned in the order that the engine FlashKey chooses, with its own functions.
//!
//! The appends per put have no closed form if records are kept apart by age and segments are chosen by counts. So the
//! policy is run, but not on keys: groups of keys of similar probability q are followed as expected values. With each
//! put, the live records of such keys in a segment decrease by a factor of e^−q. So a run takes as long for 10^10
//! keys as for 10^4, some milliseconds, and has no random numbers.
//!
//!  ```text
//!  puts  -> user log   [##.#|.##.|##..] -> segment with the best score -> its live records, by age:
//!  moved    class 1..3 [#.##|##.#] <----------------------------------------- class of the segment's age
//!  ```

use super::error::{ModelError, positive};
use super::popularity::{Group, Popularity};
use siltstone::Victim;
use siltstone::engine::flashkey::costs::{CLASSES, SegmentCounts, choose, class_of, excess_max};

/// The maximum number of groups of keys.
const GROUPS: f64 = 24.0;
/// The smallest ratio of probabilities at which keys are in different groups.
const GROUP_RATIO_MIN: f64 = 1.05;
/// The live data is at least and at most this many segments. Less has few moves, and takes long; more change little.
const SEGMENTS_MIN: f64 = 0.125;
const SEGMENTS_MAX: f64 = 64.0;
/// Segments are cleaned this many times while all live data could be put once, at least once per segment of puts.
const CLEANINGS_PER_ROUND: f64 = 128.0;
/// Puts per key before the appends are counted, and while they are.
const ROUNDS_WARM: f64 = 6.0;
const ROUNDS: f64 = 4.0;
/// The minimum number of segments of puts in each of these rounds.
const SEGMENTS_PER_ROUND_MIN: f64 = 2.0;
/// How far cleaning is behind, as a share of what finished segments may exceed their space by before puts wait: 0 if
/// all work is done between puts, nearly 1 if puts are limited by it.
const LAG: f64 = 0.2;
/// The bytes of a segment in the counts that the policy sees.
const COUNTED_BYTES: f64 = 1e9;

/// The rules by which segments are cleaned.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SegmentCleaning {
    /// The bytes of finished segments per byte of their live records.
    pub space: f64,
    /// The live records, in segments.
    pub segments: f64,
    /// Which segment is cleaned next.
    #[serde(skip)]
    pub victim: Victim,
    /// The number of logs for moved records; 0 for that of the puts.
    pub classes: u8,
}

/// When an index on flash is saved. A put does not see older entries there; they are found when the index is saved, and
/// their records count as live until then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saves {
    /// The share of the index on flash.
    pub on_flash: f64,
    /// The changes of this share with which the index is saved.
    pub changes_max: f64,
    /// The puts after which it is saved at the latest.
    pub puts_max: f64,
}

/// The steady state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steady {
    pub appends_per_put: f64,
    /// The mean number of changes of an index on flash.
    pub changes: f64,
}

/// A segment. All lengths are in records.
struct Segment {
    class: usize,
    appended: f64,
    /// The live records of each group.
    live: Vec<f64>,
    /// The dead records that are not found yet.
    unfound: f64,
    /// The puts before its first record.
    order: f64,
}

impl Segment {
    fn new(class: usize, groups: usize, order: f64) -> Self {
        Segment { class, appended: 0.0, live: vec![0.0; groups], unfound: 0.0, order }
    }

    fn live(&self) -> f64 {
        self.live.iter().sum()
    }

    /// The records that count as live.
    fn counted(&self) -> f64 {
        self.live() + self.unfound
    }
}

impl SegmentCleaning {
    /// Returns the records appended per put in the steady state: 1 for the put, and those that are moved.
    pub fn appends_per_put(&self, popularity: &Popularity) -> Result<f64, ModelError> {
        self.steady(popularity, None).map(|steady| steady.appends_per_put)
    }

    /// Returns the steady state of an index in memory, or of one that is saved like this.
    pub(crate) fn steady(&self, popularity: &Popularity, saves: Option<Saves>) -> Result<Steady, ModelError> {
        positive("space", self.space - 1.0)?;
        positive("segments", self.segments)?;
        let segments = self.segments.clamp(SEGMENTS_MIN, SEGMENTS_MAX);
        let capacity = popularity.keys() / segments;
        let steps = (CLEANINGS_PER_ROUND / segments).ceil().max(1.0);
        let groups = groups_of(popularity, capacity / steps, GROUPS);
        let none = Saves { on_flash: 0.0, changes_max: f64::INFINITY, puts_max: f64::INFINITY };
        let mut run = Run::new(self, saves.unwrap_or(none), groups, capacity, steps);
        run.excess = LAG * excess_max(self.space, self.segments, 1.0) / self.segments * popularity.keys();
        run.load();
        let round = (segments.max(SEGMENTS_PER_ROUND_MIN) * steps).ceil();
        let rounds = |rounds: f64| (rounds * round) as u64;
        (0..rounds(ROUNDS_WARM)).for_each(|_| run.put());
        let (moved, puts, mut changes) = (run.moved, run.puts, 0.0);
        (0..rounds(ROUNDS)).for_each(|_| {
            run.put();
            changes += run.changes * run.step;
        });
        let puts = run.puts - puts;
        Ok(Steady { appends_per_put: 1.0 + (run.moved - moved) / puts, changes: changes / puts })
    }
}

/// Joins the groups of a popularity to about `groups` or fewer. Keys that are certainly requested within `requests`
/// are all alike.
pub(crate) fn groups_of(popularity: &Popularity, requests: f64, groups: f64) -> Vec<Group> {
    let most = 16.0 / requests;
    let capped = |probability: f64| probability.min(most);
    let all = popularity.groups();
    let least = all.iter().map(|group| capped(group.probability)).fold(f64::INFINITY, f64::min);
    let greatest = all.iter().map(|group| capped(group.probability)).fold(0.0, f64::max);
    let ratio = (greatest / least).powf(1.0 / (groups - 1.0)).max(GROUP_RATIO_MIN);
    let mut joined: Vec<Group> = Vec::new();
    let mut first = f64::INFINITY;
    for group in all {
        let (keys, probability) = (group.keys, group.probability);
        match joined.last_mut() {
            Some(last) if first <= capped(probability) * ratio => {
                let sum = last.keys * last.probability + keys * probability;
                last.keys += keys;
                last.probability = sum / last.keys;
            }
            _ => {
                joined.push(Group { keys, probability });
                first = capped(probability);
            }
        }
    }
    joined
}

/// A store whose puts are simulated.
struct Run<'a> {
    rules: &'a SegmentCleaning,
    saves: Saves,
    groups: Vec<Group>,
    /// By how much the live records of each group decrease in a step.
    remaining: Vec<f64>,
    /// The records of a segment, and the puts of a step.
    capacity: f64,
    step: f64,
    /// The records in finished segments beyond their space.
    excess: f64,
    /// The segment of each class that grows.
    open: Vec<Segment>,
    finished: Vec<Segment>,
    puts: f64,
    moved: f64,
    /// The puts before the last save, and the changes since.
    saved_at: f64,
    changes: f64,
}

impl<'a> Run<'a> {
    fn new(rules: &'a SegmentCleaning, saves: Saves, groups: Vec<Group>, capacity: f64, steps: f64) -> Self {
        let step = capacity / steps;
        let remaining = groups.iter().map(|group| (-group.probability * step).exp()).collect();
        let open = (0..CLASSES).map(|class| Segment::new(class, groups.len(), 0.0)).collect();
        Run {
            rules,
            saves,
            groups,
            remaining,
            capacity,
            step,
            excess: 0.0,
            open,
            finished: Vec::new(),
            puts: 0.0,
            moved: 0.0,
            saved_at: 0.0,
            changes: 0.0,
        }
    }

    fn keys(&self) -> f64 {
        self.groups.iter().map(|group| group.keys).sum()
    }

    /// Appends the records of a user, or moved ones, to the log of a class.
    fn append(&mut self, class: usize, mut live: Vec<f64>, mut appended: f64) {
        while appended > 0.0 {
            let open = &mut self.open[class];
            let share = ((self.capacity - open.appended) / appended).min(1.0);
            open.appended += appended * share;
            for (to, from) in open.live.iter_mut().zip(&mut live) {
                *to += *from * share;
                *from *= 1.0 - share;
            }
            appended *= 1.0 - share;
            if open.appended < self.capacity * (1.0 - 1e-9) {
                break;
            }
            let next = Segment::new(class, self.groups.len(), self.puts);
            self.finished.push(std::mem::replace(&mut self.open[class], next));
        }
    }

    /// Puts each key once.
    fn load(&mut self) {
        let keys = self.keys();
        let mut left = keys;
        while left > 0.0 {
            let appended = self.capacity.min(left);
            let live = self.groups.iter().map(|group| group.keys * appended / keys).collect();
            self.puts += appended;
            self.append(0, live, appended);
            left -= appended;
        }
    }

    /// Executes the puts of a step, then cleans as the rules say.
    fn put(&mut self) {
        let on_flash = self.saves.on_flash;
        for segment in self.open.iter_mut().chain(&mut self.finished) {
            let before = segment.live();
            segment.live.iter_mut().zip(&self.remaining).for_each(|(live, remaining)| *live *= remaining);
            let replaced = on_flash * (before - segment.live());
            // What was put since the last save is among the changes, so it is found, and is not inserted any more.
            if segment.class == 0 && segment.order >= self.saved_at {
                self.changes -= replaced;
            } else {
                segment.unfound += replaced;
            }
        }
        self.changes += on_flash * self.step;
        let put = self.groups.iter().zip(&self.remaining);
        let live = put.map(|(group, remaining)| group.keys * (1.0 - remaining)).collect();
        self.puts += self.step;
        self.append(0, live, self.step);
        let is_late = self.puts - self.saved_at >= self.saves.puts_max;
        if is_late || self.changes >= self.saves.changes_max {
            self.save();
        }
        // Each cleaning makes space, so this ends.
        for _ in 0..4 * self.finished.len() {
            let lives: Vec<f64> = self.finished.iter().map(Segment::counted).collect();
            let appended: f64 = self.finished.iter().map(|segment| segment.appended).sum();
            let most = self.rules.space * lives.iter().sum::<f64>() + self.excess;
            if appended <= most || !self.clean(&lives) {
                break;
            }
        }
    }

    /// Saves the index with all changes. Records that are found to be dead are removed, which are changes again.
    fn save(&mut self) {
        self.changes = 0.0;
        for segment in self.open.iter_mut().chain(&mut self.finished) {
            self.changes += std::mem::take(&mut segment.unfound);
        }
        self.saved_at = self.puts;
    }

    /// Cleans the segment that the policy chooses. `lives` are the records that count as live. Returns `false` if it
    /// chooses none.
    fn clean(&mut self, lives: &[f64]) -> bool {
        let counted = |records: f64| (records * COUNTED_BYTES / self.capacity) as u64;
        let counts = self.finished.iter().zip(lives).map(|(segment, live)| SegmentCounts {
            bytes: counted(segment.appended),
            dead: counted(segment.appended - live),
            age: counted(self.puts - segment.order),
        });
        let counts: Vec<SegmentCounts> = counts.collect();
        let Some(victim) = choose(self.rules.victim, &counts) else { return false };
        let class = class_of(counts[victim].age, counted(self.keys()), self.rules.classes);
        let segment = self.finished.swap_remove(victim);
        let moved = segment.live();
        self.moved += moved;
        // The cleaning finds the others.
        self.changes += self.saves.on_flash * moved + segment.unfound;
        self.append(class.into(), segment.live, moved);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyStream;

    fn rules(over_provision: f64, segments: f64) -> SegmentCleaning {
        let space = 1.0 + over_provision;
        SegmentCleaning { space, segments, victim: Victim::CostBenefit, classes: 3 }
    }

    /// Simulates the same rules with keys.
    struct Simulated {
        rules: SegmentCleaning,
        capacity: usize,
        segments: Vec<(Vec<u32>, u64, u64)>,
        place: Vec<usize>,
        open: [usize; CLASSES],
        puts: u64,
        appends: u64,
    }

    impl Simulated {
        fn new(rules: SegmentCleaning, keys: usize) -> Self {
            Simulated {
                capacity: (keys as f64 / rules.segments) as usize,
                rules,
                segments: vec![(Vec::new(), 0, 0); CLASSES],
                place: vec![usize::MAX; keys],
                open: std::array::from_fn(|class| class),
                puts: 0,
                appends: 0,
            }
        }

        fn append(&mut self, class: usize, key: u32) {
            self.appends += 1;
            if self.segments[self.open[class]].0.len() == self.capacity {
                let is_free =
                    |number: &usize| self.segments[*number].0.is_empty() && !self.open.contains(number);
                let next = (0..self.segments.len()).find(is_free).unwrap_or(self.segments.len());
                self.segments.resize(self.segments.len().max(next + 1), (Vec::new(), 0, 0));
                self.segments[next].2 = self.puts;
                self.open[class] = next;
            }
            let open = self.open[class];
            self.segments[open].0.push(key);
            self.segments[open].1 += 1;
            let old = std::mem::replace(&mut self.place[key as usize], open);
            if let Some(old) = self.segments.get_mut(old) {
                old.1 -= 1;
            }
        }

        fn put(&mut self, key: u32) {
            self.puts += 1;
            self.append(0, key);
            while self.puts.is_multiple_of(8) {
                let counts = self.segments.iter().enumerate().map(|(number, (keys, live, order))| {
                    let is_open = self.open.contains(&number);
                    let bytes = if is_open { 0 } else { keys.len() as u64 };
                    let dead = bytes.saturating_sub(*live);
                    SegmentCounts { bytes, dead, age: self.puts - order }
                });
                let counts: Vec<SegmentCounts> = counts.collect();
                let bytes: u64 = counts.iter().map(|counts| counts.bytes).sum();
                let dead: u64 = counts.iter().map(|counts| counts.dead).sum();
                if bytes as f64 <= (bytes - dead) as f64 * self.rules.space {
                    break;
                }
                let victim = choose(self.rules.victim, &counts).unwrap();
                let live = self.place.len() as u64;
                let class = class_of(counts[victim].age, live, self.rules.classes);
                for key in std::mem::take(&mut self.segments[victim].0) {
                    if self.place[key as usize] == victim {
                        self.append(class.into(), key);
                    }
                }
            }
        }
    }

    #[test]
    fn groups_of_keys_append_as_simulated_keys_do() {
        let keys = 6_000;
        for (skew, victim, classes) in [
            (0.6, Victim::CostBenefit, 3),
            (0.99, Victim::CostBenefit, 3),
            (0.99, Victim::MostInvalid, 1),
            (0.99, Victim::MostInvalid, 0),
        ] {
            let popularity = Popularity::zipf(keys, skew).unwrap();
            let rules = SegmentCleaning { victim, classes, ..rules(0.25, 60.0) };
            let mut store = Simulated::new(rules.clone(), keys as usize);
            let mut stream = KeyStream::new(&popularity, 4).unwrap();
            stream.every_key().for_each(|key| store.put(key));
            let rounds = |rounds: f64| (rounds * keys as f64) as usize;
            stream.by_ref().take(rounds(ROUNDS_WARM)).for_each(|key| store.put(key));
            let (puts, appends) = (store.puts, store.appends);
            stream.by_ref().take(rounds(ROUNDS)).for_each(|key| store.put(key));
            let counted = (store.appends - appends) as f64 / (store.puts - puts) as f64;
            let model = rules.appends_per_put(&popularity).unwrap();
            println!("skew {skew}, {victim:?}: {model:.3}, simulated {counted:.3}");
            assert!((model / counted - 1.0).abs() < 0.05, "skew {skew}, {victim:?}: {model} for {counted}");
        }
    }

    #[test]
    fn finer_segments_and_more_keys_change_little() {
        let appends = |keys: u64, segments: f64| {
            let popularity = Popularity::zipf(keys, 0.99).unwrap();
            rules(0.25, segments).appends_per_put(&popularity).unwrap()
        };
        for keys in [12_000, 10_000_000] {
            println!("{keys}: {:?}", [8.0, 32.0, 64.0, 1e6].map(|segments| appends(keys, segments)));
        }
        // Of more segments, a smaller share exceeds the space.
        let [some, many] = [64.0, 1e6].map(|segments| appends(10_000, segments));
        assert!((1.0..1.01).contains(&(many / some)), "{many} for {some}");
        assert!(rules(0.0, 10.0).appends_per_put(&Popularity::uniform(10).unwrap()).is_err());
    }
}

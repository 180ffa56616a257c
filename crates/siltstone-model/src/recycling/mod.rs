//! Logs of segments whose records leave when the logs are full, in the order that the engine FlashStore chooses, with
//! its own functions: the paper's second chance with one queue, or two queues.
//!
//! As in `segments.rs`, groups of keys of similar probability are followed as expected values. Per put, a record of a
//! key stays the newest one with a probability of 1 − q, and is not read with 1 − gq. So a finished segment needs no
//! work until its records leave: what is live and marked then follows from the time since its records came.
//!
//! ```text
//! puts         -> user log   [####|####|..] -> oldest: marked -> moved; others -> leave
//! moved        -> class 1    [####|..]      -> as well
//! second miss  -> class 3    [####|..]      -> as well, but the store below has what leaves
//! ```

mod rates;
mod segment;

use super::error::{ModelError, non_negative, positive};
use super::popularity::{Group, Popularity};
use super::segments::groups_of;
use rates::{Decays, Rates, rates_of};
use segment::{Live, Segment};
use siltstone::engine::flashstore::costs::{CLASSES, CLEAN, KEPT, choose_queue, is_mostly_dead};

/// The maximum number of groups of keys.
const GROUPS: f64 = 96.0;
/// The logs are at most this many segments. More change little.
const SEGMENTS_MAX: f64 = 128.0;
/// The minimum number of steps in which as many records are put as the logs hold.
const STEPS_PER_ROUND: f64 = 512.0;
/// The records that are appended before those that are counted, as a multiple of what the logs hold: as many times
/// [`ROUNDS_WARM`] as change what is counted, at most [`WARM_MAX`] times.
const ROUNDS_WARM: f64 = 8.0;
const WARM_MAX: usize = 8;
/// What is counted has changed if one of the counts per put differs by more than this from that before, per append.
const CHANGE_MIN: f64 = 0.002;
/// The records that are counted, as a multiple of what the logs hold.
const ROUNDS: f64 = 24.0;
/// The share of gets that miss in a cache at first, and the factor by which the steps may be too long or too short.
const MISSES_GUESS: f64 = 0.5;
const STEP_CHANGE: f64 = 1.25;
/// The dead records of a segment are counted again after as many puts as this number of segments holds.
const LOOK_SEGMENTS: f64 = 1.0;
/// The number of times at which the entries are counted while records are.
const SAMPLES: usize = 64;
/// The user log, as an index.
const USER: usize = 0;

/// What happens to a record that a get does not find on flash.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub enum Missed {
    /// It stays in the store below.
    Stays,
    /// It is put to flash as well with its second miss, if no other miss took its place of a table in between.
    Admitted {
        /// The places of the table.
        places: f64,
    },
    /// Nothing is below. The user puts it.
    Put {
        /// The share of all puts that are not rejected. A rejected one removes the record of its key with a tombstone,
        /// if there is one.
        admitted: f64,
        /// The length of a tombstone, in records.
        tombstone: f64,
    },
}

impl Missed {
    fn is_put(self) -> bool {
        matches!(self, Missed::Put { .. })
    }

    /// Returns the length of a tombstone, in records.
    fn tombstone(self) -> f64 {
        match self {
            Missed::Put { tombstone, .. } => tombstone,
            _ => 0.0,
        }
    }

    /// Returns the share of puts that are not rejected.
    fn admitted(self) -> f64 {
        match self {
            Missed::Put { admitted, .. } => admitted,
            _ => 1.0,
        }
    }
}

/// The rules by which records leave.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SegmentRecycling {
    /// The records of all logs, dead ones included, beyond which some leave.
    pub room: f64,
    /// The same in segments.
    pub segments: f64,
    /// The number of queues, 1 or 2.
    pub queues: u8,
    /// Gets of existing keys per put. They have the popularity of puts.
    pub gets_per_put: f64,
    /// What a get does that finds nothing.
    pub missed: Missed,
}

/// The steady state, per put. Puts of records that were missed are not puts, but `user_appends`.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Recycled {
    /// Records appended to the user log: 1, and those that users put because a get did not find them, without those
    /// that were rejected.
    pub user_appends: f64,
    /// The tombstones of records that are removed because a put of their key was rejected.
    pub tombstones: f64,
    /// Records that were found below and put to flash.
    pub promoted: f64,
    /// Records that were read, and are appended again.
    pub moved: f64,
    /// Records that leave, and are written to the store below, if there is one.
    pub destaged: f64,
    /// The share of gets that find their record on flash.
    pub flash_gets: f64,
    /// The mean number of keys on flash.
    pub keys_on_flash: f64,
    /// The mean number of entries of records that a newer one replaces.
    pub dead_entries: f64,
    /// The popularity of what is written below; that of the puts if nothing is.
    #[serde(skip)]
    pub destaged_popularity: Popularity,
}

impl Recycled {
    /// Returns the records appended to all logs per put.
    pub fn appends_per_put(&self) -> f64 {
        self.user_appends + self.promoted + self.moved
    }
}

/// The keys of a group that are not on flash: those whose last miss is in the table, and the others.
#[derive(Debug, Clone, Copy, Default)]
struct Absent {
    noted: f64,
    others: f64,
}

impl Absent {
    fn keys(&self) -> f64 {
        self.noted + self.others
    }
}

/// What was counted.
#[derive(Debug, Clone, Default)]
struct Counts {
    puts: f64,
    user_appends: f64,
    tombstones: f64,
    promoted: f64,
    moved: f64,
    /// The puts of keys that are not on flash.
    missed: f64,
    destaged: Vec<f64>,
    /// The user segments that were recycled, and the sum of their ages then, in puts.
    user_segments: f64,
    user_ages: f64,
}

impl Counts {
    fn new(groups: usize) -> Counts {
        Counts { destaged: vec![0.0; groups], ..Counts::default() }
    }

    /// Returns the records that were appended to the user log, promoted, moved and destaged, and the misses.
    fn per_put(&self) -> [f64; 5] {
        let destaged = self.destaged.iter().sum();
        [self.user_appends, self.promoted, self.moved, destaged, self.missed].map(|count| count / self.puts)
    }
}

impl SegmentRecycling {
    /// Returns the steady state.
    pub fn steady(&self, popularity: &Popularity) -> Result<Recycled, ModelError> {
        positive("room", self.room)?;
        positive("segments", self.segments - 1.0)?;
        non_negative("gets per put", self.gets_per_put)?;
        let mut run = Run::new(self, popularity);
        run.load();
        run.warm();
        let (mut keys, mut dead) = (0.0, 0.0);
        for _ in 0..SAMPLES {
            run.rounds(ROUNDS / SAMPLES as f64);
            let (live, replaced) = run.entries();
            keys += live / SAMPLES as f64;
            dead += replaced / SAMPLES as f64;
        }
        let Run { counts, groups, .. } = run;
        let [user_appends, promoted, moved, destaged, missed] = counts.per_put();
        let left = groups.iter().zip(&counts.destaged).map(|(group, count)| Group {
            keys: group.keys,
            probability: count / counts.puts / destaged / group.keys,
        });
        // A record that has left, and is put again, leaves at the earliest when the user log was recycled once.
        let apart = counts.user_ages / counts.user_segments * destaged;
        let destaged_popularity = match destaged > 0.0 {
            true => Popularity::of_groups(left.collect(), apart),
            false => popularity.clone(),
        };
        Ok(Recycled {
            user_appends,
            tombstones: counts.tombstones / counts.puts,
            promoted,
            moved,
            destaged,
            flash_gets: 1.0 - missed,
            keys_on_flash: keys,
            dead_entries: dead,
            destaged_popularity,
        })
    }
}

/// Logs that are simulated.
struct Run<'a> {
    rules: &'a SegmentRecycling,
    groups: Vec<Group>,
    rates: Vec<Rates>,
    decays: Decays,
    absent: Vec<Absent>,
    /// The records of a segment, those that a step appends without moves, and the puts of a step.
    capacity: f64,
    appends_per_step: f64,
    step: f64,
    open: Vec<Segment>,
    finished: Vec<Segment>,
    /// The puts until now, and the records in the logs.
    puts: f64,
    appended: f64,
    /// The first misses of records below in the last step, per put.
    first_misses_per_put: f64,
    /// The puts between those of a user segment and its recycling.
    user_age: f64,
    counts: Counts,
}

impl<'a> Run<'a> {
    fn new(rules: &'a SegmentRecycling, popularity: &Popularity) -> Run<'a> {
        let segments = rules.segments.min(SEGMENTS_MAX);
        let capacity = rules.room / segments;
        let appends_per_step = capacity / (STEPS_PER_ROUND / segments).ceil();
        let mut step = appends_per_step;
        if rules.missed.is_put() {
            // There may be as many puts of missed records.
            step /= 1.0 + MISSES_GUESS * rules.gets_per_put;
        }
        let step = exact(step);
        let requests = step * (1.0 + rules.gets_per_put);
        let groups = groups_of(popularity, requests, GROUPS);
        Run {
            rules,
            rates: rates_of(&groups, rules.gets_per_put, step),
            decays: Decays::new(&groups, rules.gets_per_put),
            absent: groups.iter().map(|group| Absent { noted: 0.0, others: group.keys }).collect(),
            capacity,
            appends_per_step,
            step,
            open: (0..CLASSES).map(|class| Segment::new(class, groups.len(), 0.0)).collect(),
            finished: Vec::new(),
            puts: 0.0,
            appended: 0.0,
            first_misses_per_put: 0.0,
            user_age: 0.0,
            counts: Counts::new(groups.len()),
            groups,
        }
    }

    /// Appends records to the log of a class, and begins segments as needed. `live` of them get an entry.
    fn append(&mut self, class: usize, mut live: Vec<Live>, mut records: f64) {
        self.appended += records;
        while records > 0.0 {
            let open = &mut self.open[class];
            if open.appended == 0.0 {
                open.order = self.puts;
            }
            open.advance(&mut self.decays, self.puts);
            let share = ((self.capacity - open.appended) / records).min(1.0);
            open.appended += records * share;
            for ((to, entered), from) in open.live.iter_mut().zip(&mut open.entered).zip(&mut live) {
                to.unread += from.unread * share;
                to.read += from.read * share;
                *entered += (from.unread + from.read) * share;
                from.unread *= 1.0 - share;
                from.read *= 1.0 - share;
            }
            records *= 1.0 - share;
            if open.appended < self.capacity * (1.0 - 1e-9) {
                break;
            }
            open.live_sum = open.live_records();
            let next = Segment::new(class, self.groups.len(), self.puts);
            self.finished.push(std::mem::replace(&mut self.open[class], next));
        }
    }

    /// Puts each key once.
    fn load(&mut self) {
        let keys: f64 = self.groups.iter().map(|group| group.keys).sum();
        let mut left = keys;
        while left > 0.0 {
            let records = self.appends_per_step.min(left);
            let part = |group: &Group| Live { unread: group.keys * records / keys, read: 0.0 };
            let live: Vec<Live> = self.groups.iter().map(part).collect();
            for (absent, live) in self.absent.iter_mut().zip(&live) {
                absent.others -= live.unread;
            }
            self.append(USER, live, records);
            self.recycle();
            left -= records;
        }
    }

    /// Executes steps until what is counted changes no more, and sets the counts back.
    fn warm(&mut self) {
        let mut before = [f64::INFINITY; 5];
        for _ in 0..WARM_MAX {
            self.rounds(ROUNDS_WARM);
            let counts = std::mem::replace(&mut self.counts, Counts::new(self.groups.len()));
            let now = counts.per_put();
            let appends: f64 = now[..3].iter().sum();
            let changed = |(now, before): (&f64, &f64)| (now - before).abs() > CHANGE_MIN * appends;
            if !now.iter().zip(&before).any(changed) {
                break;
            }
            before = now;
        }
    }

    /// Executes steps until `rounds` times as many records were appended as the logs hold.
    fn rounds(&mut self, rounds: f64) {
        let mut left = rounds * self.rules.room;
        // Without misses and moves, a step appends its puts.
        while left > 0.0 {
            let appended = |run: &Run<'_>| {
                let Counts { user_appends, tombstones, promoted, moved, .. } = run.counts;
                user_appends + tombstones * run.rules.missed.tombstone() + promoted + moved
            };
            let before = appended(self);
            self.put();
            left -= appended(self) - before;
        }
    }

    /// Executes the puts and the gets of a step, then lets records leave.
    fn put(&mut self) {
        let step = self.step;
        self.puts += step;
        let replaced_by = match self.rules.missed {
            Missed::Admitted { places } => self.first_misses_per_put / places,
            _ => 0.0,
        };
        let (mut fills, mut missed, mut tombstones) = (0.0, 0.0, 0.0);
        let share = self.rules.missed.admitted();
        let mut put = vec![Live::default(); self.groups.len()];
        let mut promoted = put.clone();
        // With two queues, a put of a key on flash marks its record. What is in the segment that puts are appended to
        // is replaced there, and keeps its mark.
        let marks_puts = self.rules.queues > 1;
        let open = &mut self.open[USER];
        open.at = self.puts;
        for (number, (group, rates)) in self.groups.iter().zip(&self.rates).enumerate() {
            let Rates { of_put, of_get, .. } = *rates;
            let (absent, live) = (&mut self.absent[number], &mut open.live[number]);
            let elsewhere = (group.keys - absent.keys() - live.unread - live.read).max(0.0);
            let is_not_put = if marks_puts { 1.0 - rates.is_put } else { 1.0 };
            let unread = live.unread * rates.is_unread * is_not_put;
            live.read += live.unread - unread;
            live.unread = unread;
            // Implicit, so that keys which come back within a step are counted once.
            let comes = match self.rules.missed {
                Missed::Put { admitted, .. } => admitted * of_get,
                _ => 0.0,
            };
            let (notes, forgets) = match self.rules.missed {
                Missed::Admitted { .. } => (of_get, replaced_by * step),
                _ => (0.0, 0.0),
            };
            let put_again = elsewhere * rates.is_put;
            let replaced = share * put_again;
            // Rejected puts remove what is in the open segment, and what this step puts there, with a probability of
            // 1 - stays. live' = (live + replaced + new) stays, and others' below has what is removed.
            let stays = 1.0 / (1.0 + (1.0 - share) * of_put);
            let removed = (1.0 - share) * put_again + (live.unread + live.read + replaced) * (1.0 - stays);
            absent.others += removed;
            live.unread *= stays;
            live.read *= stays;
            let leaves = 1.0 + (share * of_put + comes) * stays;
            // others' · (leaves + notes) = others + forgets · noted'; noted' · (leaves + notes + forgets) = noted
            // + notes · others', after the step.
            let determinant = (leaves + notes) * (leaves + notes + forgets) - notes * forgets;
            let others = (absent.others * (leaves + notes + forgets) + forgets * absent.noted) / determinant;
            let noted = (absent.noted * (leaves + notes) + notes * absent.others) / determinant;
            *absent = Absent { noted, others };
            let keys = absent.keys();
            missed += keys * of_put;
            fills += keys * comes;
            let new = keys * (share * of_put + comes);
            tombstones += removed + new * (1.0 - stays);
            let (replaced, new) = (replaced * stays, new * stays);
            let came = replaced + new;
            let marked =
                new * rates.is_read_after + replaced * if marks_puts { 1.0 } else { rates.is_read_after };
            put[number] = Live { unread: came - marked, read: marked };
            let read = 1.0 - rates.is_unread_half;
            let admitted = notes * noted;
            promoted[number] = Live { unread: admitted * (1.0 - read), read: admitted * read };
        }
        let admitted = promoted.iter().map(|live| live.unread + live.read).sum::<f64>();
        // Gets have the popularity of puts. A second miss finds its own note, and takes no place of another key.
        self.first_misses_per_put = (missed * self.rules.gets_per_put - admitted) / step;
        self.counts.puts += step;
        self.counts.missed += missed;
        self.counts.user_appends += share * step + fills;
        self.counts.tombstones += tombstones;
        let appends = share * step + fills + tombstones * self.rules.missed.tombstone();
        self.append(USER, put, appends);
        if self.rules.missed.is_put() {
            self.adjust_step(appends);
        }
        if admitted > 0.0 {
            self.counts.promoted += admitted;
            self.append(CLEAN.into(), promoted, admitted);
        }
        self.recycle();
    }

    /// Makes the steps of a cache longer or shorter, as fewer or more of its gets miss. `appends` are those of the
    /// last.
    fn adjust_step(&mut self, appends: f64) {
        let wanted = self.step * self.appends_per_step / appends;
        if !(1.0 / STEP_CHANGE..STEP_CHANGE).contains(&(wanted / self.step)) {
            self.step = exact(wanted);
            self.rates = rates_of(&self.groups, self.rules.gets_per_put, self.step);
        }
    }

    /// Lets records leave until the logs have space.
    fn recycle(&mut self) {
        // A segment all of whose records stay makes no space.
        for _ in 0..2 * self.finished.len() {
            if self.appended <= self.rules.room || !self.recycle_oldest() {
                break;
            }
        }
    }

    /// Returns the finished segment with the largest share of dead records, if it is cleaned.
    fn deadest(&mut self) -> Option<usize> {
        if self.rules.queues == 1 {
            return None;
        }
        let mut deadest = None;
        let mut most = 0.0;
        for (number, segment) in self.finished.iter_mut().enumerate() {
            if self.puts - segment.at >= LOOK_SEGMENTS * self.capacity {
                segment.advance(&mut self.decays, self.puts);
            }
            let share = segment.dead() / segment.appended;
            if share > most && is_mostly_dead(self.rules.queues, segment.dead(), segment.appended) {
                (deadest, most) = (Some(number), share);
            }
        }
        deadest
    }

    /// Moves the live records of a segment, with their marks.
    fn clean(&mut self, number: usize) {
        let mut segment = self.finished.remove(number);
        segment.advance(&mut self.decays, self.puts);
        self.appended -= segment.appended;
        let live = segment.live_records();
        self.counts.moved += live;
        if live > 0.0 {
            self.append(self.class_of_moved(&segment).into(), segment.live, live);
        }
    }

    /// Returns the class to which the records of a segment move.
    fn class_of_moved(&self, segment: &Segment) -> u8 {
        if segment.class == CLEAN && !self.rules.missed.is_put() { CLEAN } else { KEPT }
    }

    /// Recycles the segment that the policy chooses. Returns `false` if there is none.
    fn recycle_oldest(&mut self) -> bool {
        if let Some(deadest) = self.deadest() {
            self.clean(deadest);
            return true;
        }
        let segments = || self.open.iter().chain(&self.finished);
        let of_user: f64 =
            segments().filter(|one| usize::from(one.class) == USER).map(|one| one.appended).sum();
        let is_cache = self.rules.missed.is_put();
        let is_user = choose_queue(self.rules.queues, is_cache, of_user as u64, self.appended as u64);
        let oldest = |is_possible: &dyn Fn(&Segment) -> bool| {
            let possible = self.finished.iter().enumerate().filter(|(_, segment)| is_possible(segment));
            let first = possible.min_by(|(_, one), (_, other)| one.order.total_cmp(&other.order));
            first.map(|(number, _)| number)
        };
        let is_chosen =
            |segment: &Segment| is_user.is_none_or(|is| is == (usize::from(segment.class) == USER));
        let Some(victim) = oldest(&is_chosen).or_else(|| oldest(&|_| true)) else { return false };
        let mut segment = self.finished.remove(victim);
        segment.advance(&mut self.decays, self.puts);
        self.appended -= segment.appended;
        let class = self.class_of_moved(&segment);
        if usize::from(segment.class) == USER {
            // Of a record in its middle.
            let Counts { user_appends, tombstones, puts, .. } = self.counts;
            let appends =
                (user_appends + tombstones * self.rules.missed.tombstone()).max(1.0) / puts.max(1.0);
            self.user_age = self.puts - segment.order - self.capacity / appends / 2.0;
            self.counts.user_segments += 1.0;
            self.counts.user_ages += self.user_age;
        }
        let mut stay = segment.live;
        for (number, live) in stay.iter_mut().enumerate() {
            self.absent[number].others += live.unread;
            if class != CLEAN {
                self.counts.destaged[number] += live.unread;
            }
            *live = Live { unread: live.read, read: 0.0 };
        }
        let moved = stay.iter().map(|live| live.unread).sum::<f64>();
        self.counts.moved += moved;
        if moved > 0.0 {
            self.append(class.into(), stay, moved);
        }
        true
    }

    /// Returns the number of live records, and of entries of records that a newer one replaces.
    fn entries(&mut self) -> (f64, f64) {
        let (mut live, mut dead) = (0.0, 0.0);
        let (user_age, admitted) = (self.user_age, self.rules.missed.admitted());
        for segment in self.open.iter_mut().chain(&mut self.finished) {
            segment.advance(&mut self.decays, self.puts);
            let of_user = usize::from(segment.class) == USER;
            for ((one, entered), rates) in segment.live.iter().zip(&segment.entered).zip(&self.rates) {
                let alive = one.unread + one.read;
                live += alive;
                let replaced = (entered - alive).max(0.0);
                let lately = (alive * (rates.put * user_age).exp_m1()).min(replaced);
                // With two queues, a record that replaces another one is marked, and leaves after it.
                // A put that is rejected removes the entry of the record.
                dead += admitted
                    * match of_user || lately == replaced || self.rules.queues > 1 {
                        true => replaced,
                        false => lately + long_replaced(alive, *entered, rates, user_age),
                    };
            }
        }
        (live, dead)
    }
}

/// Returns the length of a step, rounded to 24 significant bits: sums of steps are exact, so the same times come again,
/// and `Decays` has them.
fn exact(step: f64) -> f64 {
    f64::from(step as f32)
}

/// Returns the records of a segment that were replaced before the last `age` puts, for which a record is in the user
/// log, and still have an entry. `alive` are left of `entered` records. When a newer one leaves, it is removed before;
/// a share of the newer ones was read, and stays. So a record that was replaced t puts ago has an entry with the
/// probability of the share s, and then of e^(-p (1 - s) (t - age)).
fn long_replaced(alive: f64, entered: f64, rates: &Rates, age: f64) -> f64 {
    let stays = -(-rates.get * age).exp_m1();
    let aged = rates.put * age;
    let left = alive.powf(1.0 - stays) * entered.powf(stays) * (aged * (1.0 - stays)).exp();
    (left - alive * aged.exp()).max(0.0)
}

#[cfg(test)]
mod tests;

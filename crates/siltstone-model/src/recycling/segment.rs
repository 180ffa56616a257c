//! A segment of a log, and how its records die.

use super::rates::Decays;

/// The live records of a group in a segment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Live {
    pub unread: f64,
    pub read: f64,
}

/// A segment. All lengths are in records.
pub(super) struct Segment {
    pub class: u8,
    /// The puts before its first record.
    pub order: f64,
    pub appended: f64,
    /// The records of each group that got an entry, and their state at a time.
    pub entered: Vec<f64>,
    pub live: Vec<Live>,
    pub live_sum: f64,
    pub at: f64,
}

impl Segment {
    pub fn new(class: usize, groups: usize, at: f64) -> Segment {
        let live = vec![Live::default(); groups];
        Segment {
            class: class as u8,
            order: at,
            appended: 0.0,
            entered: vec![0.0; groups],
            live,
            live_sum: 0.0,
            at,
        }
    }

    pub fn live_records(&self) -> f64 {
        self.live.iter().map(|live| live.unread + live.read).sum()
    }

    /// Returns the dead records when it was last updated.
    pub fn dead(&self) -> f64 {
        self.appended - self.live_sum
    }

    /// Updates the live records to a time.
    pub fn advance(&mut self, decays: &mut Decays, to: f64) {
        let time = to - std::mem::replace(&mut self.at, to);
        if time <= 0.0 {
            return;
        }
        self.live_sum = 0.0;
        for (live, stays) in self.live.iter_mut().zip(decays.over(time)) {
            let all = (live.unread + live.read) * stays.live;
            live.unread *= stays.unread;
            live.read = all - live.unread;
            self.live_sum += all;
        }
    }
}

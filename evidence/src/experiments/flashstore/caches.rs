//! Simulated caches of records of one size, with which flash is compared: exact LRU, and the log of FlashStore's paper,
//! which is CLOCK.

use std::collections::VecDeque;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// The records that were used last.
pub(super) struct Lru {
    room: usize,
    length: usize,
    /// For each key, and for the ends of the list behind the last key: the neighbours. A key that is not in the list
    /// has none.
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Lru {
    /// Makes an empty cache with space for `room` of the keys below `keys`.
    pub fn new(keys: u32, room: usize) -> Lru {
        let mut lru = Lru {
            room,
            length: 0,
            before: vec![NONE; keys as usize + 1],
            after: vec![NONE; keys as usize + 1],
        };
        let ends = keys as usize;
        (lru.before[ends], lru.after[ends]) = (keys, keys);
        lru
    }

    fn ends(&self) -> u32 {
        self.before.len() as u32 - 1
    }

    fn remove(&mut self, key: u32) {
        let (before, after) = (self.before[key as usize], self.after[key as usize]);
        self.after[before as usize] = after;
        self.before[after as usize] = before;
        (self.before[key as usize], self.after[key as usize]) = (NONE, NONE);
        self.length -= 1;
    }

    /// Uses a key. Returns whether it was in the cache; it is afterwards.
    pub fn uses(&mut self, key: u32) -> bool {
        let is_there = self.before[key as usize] != NONE;
        if is_there {
            self.remove(key);
        } else if self.length >= self.room {
            let oldest = self.before[self.ends() as usize];
            if oldest == self.ends() {
                return false;
            }
            self.remove(oldest);
        }
        let (ends, first) = (self.ends(), self.after[self.ends() as usize]);
        (self.before[key as usize], self.after[key as usize]) = (ends, first);
        self.before[first as usize] = key;
        self.after[ends as usize] = key;
        self.length += 1;
        is_there
    }
}

/// The log of the paper on flash (4.5), record by record: at the oldest end a record that was read is appended again,
/// another one leaves. A record that is put again is dead in the log until then.
pub(super) struct PaperLog {
    room: usize,
    /// Whether records that are read below are appended as clean ones.
    caches_reads: bool,
    /// The keys in the log, and the number of their append.
    log: VecDeque<(u32, u64)>,
    /// Per key, the number of its last append, if it is in the log.
    newest: Vec<Option<u64>>,
    is_read: Vec<bool>,
    is_clean: Vec<bool>,
    /// Appends: also their number.
    pub appends: u64,
    /// Records that left to the disk.
    pub destaged: u64,
}

impl PaperLog {
    /// Makes an empty log with space for `room` records of the keys below `keys`.
    pub fn new(keys: u32, room: usize, caches_reads: bool) -> PaperLog {
        let keys = keys as usize;
        PaperLog {
            room,
            caches_reads,
            log: VecDeque::new(),
            newest: vec![None; keys],
            is_read: vec![false; keys],
            is_clean: vec![false; keys],
            appends: 0,
            destaged: 0,
        }
    }

    /// Puts a key.
    pub fn put(&mut self, key: u32) {
        self.is_clean[key as usize] = false;
        self.append(key);
    }

    /// Gets a key. Returns whether it was in the log.
    pub fn get(&mut self, key: u32) -> bool {
        if self.newest[key as usize].is_some() {
            self.is_read[key as usize] = true;
            return true;
        }
        if self.caches_reads {
            self.is_clean[key as usize] = true;
            self.append(key);
        }
        false
    }

    fn append(&mut self, key: u32) {
        let mut waiting = Some(key);
        while let Some(key) = waiting.take() {
            self.newest[key as usize] = Some(self.appends);
            self.is_read[key as usize] = false;
            self.log.push_back((key, self.appends));
            self.appends += 1;
            while self.log.len() > self.room && waiting.is_none() {
                let Some((oldest, number)) = self.log.pop_front() else { break };
                if self.newest[oldest as usize] != Some(number) {
                    continue;
                }
                if std::mem::take(&mut self.is_read[oldest as usize]) {
                    waiting = Some(oldest);
                } else {
                    self.newest[oldest as usize] = None;
                    self.destaged += u64::from(!self.is_clean[oldest as usize]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_bench::random;

    #[test]
    fn lru_has_the_keys_that_a_list_has() {
        let mut random = random::stream(1, 2);
        for room in [1, 7, 30] {
            let mut lru = Lru::new(40, room);
            let mut list: VecDeque<u32> = VecDeque::new();
            for _ in 0..5_000 {
                let key = random.u32(..40).min(random.u32(..40));
                let place = list.iter().position(|other| *other == key);
                assert_eq!(lru.uses(key), place.is_some());
                match place {
                    Some(place) => drop(list.remove(place)),
                    None => list.truncate(room - 1),
                }
                list.push_front(key);
            }
        }
        assert!(!Lru::new(3, 0).uses(1));
    }

    #[test]
    fn a_record_that_was_read_gets_a_second_chance_and_another_one_leaves() {
        let mut log = PaperLog::new(10, 3, false);
        (0..3).for_each(|key| log.put(key));
        assert!(log.get(0) && !log.get(7));
        // 0 was read and comes again; 1 leaves.
        log.put(3);
        assert_eq!((log.appends, log.destaged), (5, 1));
        assert!(log.get(0) && !log.get(1) && log.get(2) && log.get(3));
        // A dead record only takes space.
        let mut log = PaperLog::new(10, 2, false);
        [5, 5, 5, 5].into_iter().for_each(|key| log.put(key));
        assert_eq!((log.appends, log.destaged), (4, 0));
    }

    #[test]
    fn a_clean_record_leaves_without_a_write_below() {
        let mut log = PaperLog::new(10, 1, true);
        assert!(!log.get(4) && log.get(4));
        log.put(5);
        assert!(log.get(4), "it was read");
        let mut log = PaperLog::new(10, 1, true);
        assert!(!log.get(4) && !log.get(6));
        assert_eq!((log.appends, log.destaged), (2, 0));
        log.put(4);
        assert!(!log.get(5));
        assert_eq!(log.destaged, 1, "it was put");
    }
}

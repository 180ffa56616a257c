//! The slow log: the last executions that took long.
//!
//! An execution may be that of many requests together ([`measures`](super::measures)). It has one entry, with the
//! request whose words have the most bytes, and how many requests there were besides.

use super::shown::shortened;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A slow execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowEntry {
    /// Its number.
    pub id: u64,
    /// When it ended, in seconds since the Unix epoch.
    pub at_s: u64,
    /// How long it took, in microseconds.
    pub time_us: u64,
    /// The words of its longest request, cut, without secrets, and the number of the others.
    pub words: Vec<Vec<u8>>,
    /// The client of that request: its address.
    pub peer: String,
    /// Its name.
    pub name: Vec<u8>,
}

#[derive(Debug, Default)]
struct Entries {
    next_id: u64,
    newest_first: VecDeque<SlowEntry>,
}

/// The last slow executions.
#[derive(Debug, Default)]
pub struct SlowLog(Mutex<Entries>);

impl SlowLog {
    fn entries<T>(&self, act: impl FnOnce(&mut Entries) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an execution of some requests, and removes the oldest one above a number of them.
    pub fn add(
        &self,
        time: Duration,
        requests: u64,
        words: &[&[u8]],
        client: (String, Vec<u8>),
        entries_max: usize,
    ) {
        let mut words = shortened(words);
        if requests > 1 {
            words.push(format!("... (executed together with {} other requests)", requests - 1).into_bytes());
        }
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (peer, name) = client;
        self.entries(|entries| {
            let id = entries.next_id;
            entries.next_id += 1;
            entries.newest_first.push_front(SlowEntry { id, at_s, time_us, words, peer, name });
            entries.newest_first.truncate(entries_max);
        });
    }

    /// Returns the newest entries.
    pub fn newest(&self, entries_max: usize) -> Vec<SlowEntry> {
        self.entries(|entries| entries.newest_first.iter().take(entries_max).cloned().collect())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries(|entries| entries.newest_first.len())
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.entries(|entries| entries.newest_first.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_are_kept_and_say_how_many_requests_there_were() {
        let log = SlowLog::default();
        for (number, requests) in [(0u8, 1), (1, 2), (2, 500)] {
            let client = ("127.0.0.1:5".to_owned(), b"me".to_vec());
            log.add(Duration::from_millis(20), requests, &[b"GET", &[b'a' + number]], client, 2);
        }
        assert_eq!(log.len(), 2);
        let newest = log.newest(1).remove(0);
        assert_eq!((newest.id, newest.time_us, &newest.name[..]), (2, 20_000, &b"me"[..]));
        assert_eq!(newest.words[..2], [b"GET".to_vec(), b"c".to_vec()]);
        assert_eq!(newest.words[2], b"... (executed together with 499 other requests)");
        log.clear();
        assert_eq!(log.len(), 0);
    }
}

//! What was denied lately, as ACL LOG shows it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The most entries, which is Redis's `acllog-max-len`.
const ENTRIES_MAX: usize = 128;

/// The time within which the same denial only counts one more.
const SAME_TIME: Duration = Duration::from_secs(60);

/// The longest object and the longest description of a client in an entry, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// The most different denials of a script that are noted: one that is denied without end must not need more and more
/// memory.
#[cfg(feature = "scripts")]
const SCRIPT_DENIALS_MAX: usize = 32;

/// What was denied, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// `auth`, `command`, `key` or `channel`.
    pub reason: &'static str,
    /// The command, the key or the channel.
    pub object: String,
    /// How often.
    pub count: u64,
}

#[cfg(feature = "scripts")]
impl Denial {
    /// Adds it to those of a script, of which the same ones are counted.
    pub fn add_to(mut self, all: &mut Vec<Denial>) {
        shorten(&mut self.object);
        let is_same = |known: &Denial| (known.reason, &known.object) == (self.reason, &self.object);
        match all.iter().position(is_same) {
            Some(known) => all[known].count += 1,
            None if all.len() < SCRIPT_DENIALS_MAX => all.push(self),
            None => {}
        }
    }
}

/// Removes what an entry of the log would not have.
fn shorten(text: &mut String) {
    let is_boundary = |length: &usize| text.is_char_boundary(*length);
    let length = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(is_boundary).unwrap_or(0);
    text.truncate(length);
    text.shrink_to_fit();
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// How often.
    pub count: u64,
    /// `auth`, `command`, `key` or `channel`.
    pub reason: &'static str,
    /// `toplevel`, `multi` between MULTI and EXEC, or `lua` in a script.
    pub context: &'static str,
    /// The command, the key or the channel.
    pub object: String,
    /// The name of the user.
    pub user: String,
    /// When it was denied last.
    pub at: Instant,
    /// The connection, as CLIENT LIST describes it.
    pub client: String,
}

/// The last denials.
#[derive(Debug, Default)]
pub struct Log {
    /// The newest first.
    entries: VecDeque<Entry>,
}

impl Log {
    /// Adds a denial.
    pub fn add(&mut self, mut entry: Entry) {
        for text in [&mut entry.object, &mut entry.user, &mut entry.client] {
            shorten(text);
        }
        let is_same = |known: &Entry| {
            (known.reason, known.context, &known.object, &known.user)
                == (entry.reason, entry.context, &entry.object, &entry.user)
                && entry.at.saturating_duration_since(known.at) <= SAME_TIME
        };
        if let Some(known) = self.entries.iter().position(is_same).and_then(|at| self.entries.remove(at)) {
            entry.count += known.count;
        }
        self.entries.push_front(entry);
        self.entries.truncate(ENTRIES_MAX);
    }

    /// Returns the entries, the newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "scripts")]
    #[test]
    fn the_denials_of_a_script_are_counted_and_few() {
        let mut all = Vec::new();
        for number in (0..1000).chain(0..1000) {
            Denial { reason: "key", object: format!("{number:0999}"), count: 1 }.add_to(&mut all);
        }
        assert_eq!(all.len(), 1, "what is the same in an entry of the log");
        assert_eq!((all[0].count, all[0].object.len()), (2000, TEXT_BYTES_MAX));
        for number in (0..1000).chain(0..1000) {
            Denial { reason: "command", object: number.to_string(), count: 1 }.add_to(&mut all);
        }
        assert_eq!((all.len(), all[1].count), (SCRIPT_DENIALS_MAX, 2));
    }

    #[test]
    fn the_same_denial_counts_and_old_ones_are_dropped() {
        let start = Instant::now();
        let entry = |object: &str, seconds: u64| Entry {
            count: 1,
            reason: "key",
            context: "toplevel",
            object: object.to_owned(),
            user: "alice".to_owned(),
            at: start + Duration::from_secs(seconds),
            client: "é".repeat(TEXT_BYTES_MAX),
        };
        let mut log = Log::default();
        for (object, seconds) in [("a", 0), ("b", 1), ("a", 50), ("a", 111)] {
            log.add(entry(object, seconds));
        }
        let found: Vec<_> = log.entries().map(|entry| (&entry.object[..], entry.count)).collect();
        assert_eq!(found, [("a", 1), ("a", 2), ("b", 1)]);
        assert!(log.entries().all(|entry| entry.client.len() <= TEXT_BYTES_MAX));
        (0..300).for_each(|number| log.add(entry(&number.to_string(), 200)));
        assert_eq!(log.entries().len(), ENTRIES_MAX);
        assert_eq!(log.entries().next().unwrap().object, "299");
        log.clear();
        assert_eq!(log.entries().len(), 0);
    }
}

//! The account of an execution: how long it took, for the commands that were part of it.

use crate::command::{Context, Tally, shown_address};
use std::time::Duration;

/// Notes how long requests took that a worker has executed together. If that was long, it is logged with the words of
/// one of them, which is asked for with the number of its client.
pub fn note<'a>(
    context: &Context,
    worker: usize,
    tally: &Tally,
    time: Duration,
    longest: impl FnOnce() -> Option<(u64, Vec<&'a [u8]>)>,
) {
    context.measures.note(worker, tally, time);
    let slow_us = context.runtime.slow_us();
    let is_slow = u128::try_from(slow_us).is_ok_and(|slow_us| time.as_micros() >= slow_us);
    if let Some((client, words)) = is_slow.then(longest).flatten() {
        // It may have ended meanwhile.
        let entry = context.clients.get(client);
        let peer = entry.as_ref().map_or_else(String::new, |entry| shown_address(entry.peer));
        let name = entry.map_or_else(Vec::new, |entry| entry.names().name);
        let entries_max = context.runtime.slow_entries_max();
        context.slow_log.add(time, tally.requests(), &words, (peer, name), entries_max);
    }
}

/// Returns the bytes of the words of a request.
pub fn length<'a>(words: impl Iterator<Item = &'a [u8]>) -> usize {
    words.map(<[u8]>::len).sum()
}

//! The reads of a turn: the keys of all commands are looked up together, and then each command gets what was found of
//! its keys.

use super::pace::{Pace, Paces};
use super::{account, conclude, longest_of, updates};
use crate::command::{Action, Context, Counters, ReadCall, Tally};
use crate::connection::{Asked, Connection, Run};
use crate::failure::Failure;
use crate::protocol::{REPLY_BYTES_MAX, Reply};
use crate::store::{Entry, Mark, Store, ValueType, now_ms};
use slab::Slab;
use std::ops::Range;
use std::time::Instant;

/// The memory for values that is kept between two turns, in bytes.
const KEPT_BYTES: usize = 1 << 20;

/// Where the value of a key is.
struct Place {
    value_type: ValueType,
    value: Range<usize>,
    expires_at_ms: u64,
    mark: Option<Mark>,
}

/// The values of a turn, one after another.
#[derive(Default)]
pub struct Lookup {
    values: Vec<u8>,
    places: Vec<Option<Place>>,
    /// No command needs the bytes of the values.
    without_values: bool,
    /// The bytes of values above which a lookup is an error.
    bytes_max: usize,
}

impl Lookup {
    /// Executes runs of reads, and notes how long the lookups took.
    pub fn execute(
        &mut self,
        context: &Context,
        worker: usize,
        connections: &mut Slab<Connection>,
        mut runs: Vec<(usize, Run)>,
        paces: &mut Paces,
    ) {
        let database =
            |connections: &Slab<Connection>, (number, _): &(usize, Run)| connections[*number].client.database;
        // Those of one database are adjacent then.
        runs.sort_by_key(|run| database(connections, run));
        let mut rest = &mut runs[..];
        while let Some(first) = rest.first() {
            let number = database(connections, first);
            let end = rest.partition_point(|run| database(connections, run) == number);
            let (runs, others) = rest.split_at_mut(end);
            let pace = self.execute_on(context, worker, number, connections, runs);
            paces.note(number, pace);
            rest = others;
        }
        self.values.clear();
        self.values.shrink_to(KEPT_BYTES);
    }

    /// Executes the runs of reads that memory has all keys of, of databases that wait for their device. Returns the
    /// others. Without this, they would wait for those.
    pub fn execute_in_memory(
        &mut self,
        context: &Context,
        worker: usize,
        connections: &mut Slab<Connection>,
        runs: Vec<(usize, Run)>,
    ) -> Vec<(usize, Run)> {
        let mut others = Vec::new();
        for (number, run) in runs {
            let connection = &mut connections[number];
            // What may become an update is no matter of memory.
            let only_reads = |asked: &Asked| {
                asked.command.as_ref().is_ok_and(|command| matches!(command.action, Action::Read(_)))
            };
            if !run.asked.iter().all(only_reads) || !self.find_in_memory(context, connection, &run) {
                others.push((number, run));
                continue;
            }
            let (begin, mut tally) = (Instant::now(), Tally::default());
            let (before, mut places) = (connection.unsent_bytes(), 0..0);
            for asked in &run.asked {
                places = places.end..places.end + connection.keys(asked).count();
                self.reply(context, connection, asked, places.clone(), Ok(()));
                asked.command.iter().for_each(|command| tally.add(command.number));
            }
            let reply_bytes = connection.unsent_bytes() - before;
            connection.note_replies(run.asked.len(), reply_bytes);
            account::note(context, worker, &tally, begin.elapsed(), || {
                longest_of(std::iter::once((&*connection, &run)))
            });
            connection.end_run();
        }
        self.values.clear();
        others
    }

    /// Looks up the keys of a run in memory. Returns whether all are known there.
    fn find_in_memory(&mut self, context: &Context, connection: &Connection, run: &Run) -> bool {
        let keys: Vec<&[u8]> = run.asked.iter().flat_map(|asked| connection.keys(asked)).collect();
        self.is_for(&run.asked);
        self.bytes_max = bytes_together(context);
        self.begin(keys.len());
        let found = context.places.on_current(connection.client.database, |store| {
            let Some(store) = store else { return Ok(true) };
            let unknown = store.get_many_in_memory(&keys, &mut |number, found| self.take(number, found))?;
            Ok(unknown.is_empty() && self.values.len() <= self.bytes_max)
        });
        // Whatever fails is tried again, and reported then.
        let are_known = found.unwrap_or(false);
        if are_known {
            self.count(context);
        }
        are_known
    }

    /// Notes for which requests the next keys are looked up.
    fn is_for<'a>(&mut self, asked: impl IntoIterator<Item = &'a Asked>) {
        let needs_none = |asked: &Asked| asked.command.as_ref().is_ok_and(|command| !command.needs_values());
        self.without_values = asked.into_iter().all(needs_none);
    }

    /// Forgets the last lookup, and expects values of this many keys.
    fn begin(&mut self, keys: usize) {
        self.values.clear();
        self.places.clear();
        self.places.resize_with(keys, || None);
    }

    /// Keeps what was found of a key.
    fn take(&mut self, number: usize, found: Option<Entry<'_>>) {
        let Lookup { values, places, without_values, bytes_max } = self;
        places[number] = found.map(|Entry { value_type, value, expires_at_ms, mark }| {
            let start = values.len();
            // With more, the lookup ends in an error.
            if start <= *bytes_max && !*without_values {
                values.extend_from_slice(value);
            }
            Place { value_type, value: start..values.len(), expires_at_ms, mark }
        });
    }

    /// Counts the hits and misses of a lookup.
    fn count(&self, context: &Context) {
        let hits = self.places.iter().flatten().count() as u64;
        Counters::add(&context.counters.hits, hits);
        Counters::add(&context.counters.misses, self.places.len() as u64 - hits);
    }

    /// Executes the runs of one database. Those whose replies would be too long together are executed in part.
    fn execute_on(
        &mut self,
        context: &Context,
        worker: usize,
        database: usize,
        connections: &mut Slab<Connection>,
        runs: &mut [(usize, Run)],
    ) -> Pace {
        let (begin, mut tally) = (Instant::now(), Tally::default());
        let mut keys: Vec<&[u8]> = Vec::new();
        for (number, run) in &*runs {
            run.asked.iter().for_each(|asked| keys.extend(connections[*number].keys(asked)));
        }
        self.is_for(runs.iter().flat_map(|(_, run)| &run.asked));
        self.bytes_max = bytes_together(context);
        let all = || context.places.on_current(database, |store| self.find(context, store, &keys));
        let (found, pace) = Pace::measure(keys.len(), all);
        let mut places = 0..0;
        for (number, run) in &mut *runs {
            let connection = &mut connections[*number];
            let (before, mut executed) = (connection.unsent_bytes(), 0);
            for asked in &run.asked {
                places = places.end..places.end + connection.keys(asked).count();
                // One lookup that fails must not make others fail: each is repeated alone.
                if found.is_ok() {
                    self.reply(context, connection, asked, places.clone(), Ok(()));
                } else if executed > 0 && !connection.takes_replies(&context.limits) {
                    break;
                } else {
                    reply_alone(context, database, connection, asked);
                }
                executed += 1;
            }
            connection.hold(run.asked.split_off(executed));
            let reply_bytes = connection.unsent_bytes() - before;
            connection.note_replies(run.asked.len(), reply_bytes);
            run.asked.iter().flat_map(|asked| &asked.command).for_each(|command| tally.add(command.number));
        }
        let longest = || longest_of(runs.iter().map(|(number, run)| (&connections[*number], run)));
        account::note(context, worker, &tally, begin.elapsed(), longest);
        runs.iter().for_each(|(number, _)| connections[*number].end_run());
        pace
    }

    /// Looks up keys.
    fn find(&mut self, context: &Context, store: Option<&dyn Store>, keys: &[&[u8]]) -> Result<(), Failure> {
        self.begin(keys.len());
        if let Some(store) = store {
            let at_once = store.keys_at_once();
            for (first, keys) in (0..).step_by(at_once).zip(keys.chunks(at_once)) {
                store.get_many(keys, &mut |number, found| self.take(first + number, found))?;
                if self.values.len() > self.bytes_max {
                    return Err(Failure::REPLY_TOO_LONG);
                }
            }
        }
        self.count(context);
        Ok(())
    }

    /// Executes a command with what was found of its keys, or with the failure of their lookup.
    fn reply(
        &self,
        context: &Context,
        connection: &mut Connection,
        asked: &Asked,
        places: Range<usize>,
        outcome: Result<(), Failure>,
    ) {
        let found: Vec<_> = match outcome {
            Ok(()) => self.places[places].iter().map(|place| self.entry(place.as_ref())).collect(),
            Err(_) => Vec::new(),
        };
        let (input, output, client) = connection.parts();
        let words = asked.request.words(input);
        let mut reply = Reply::new(output, client.version);
        let start = reply.length();
        let action = asked.command.as_ref().map(|command| command.action);
        let outcome = outcome.and_then(|()| match action {
            Ok(Action::Read(execute)) => {
                execute(&ReadCall { words: &words, found: &found, now_ms: now_ms() }, &mut reply)
            }
            Ok(Action::ReadIf(execute, ..)) => {
                let call = ReadCall { words: &words, found: &found, now_ms: now_ms() };
                if !execute(&call, &mut reply)? {
                    reply.raw(updates::execute_alone(context, client, asked, &words));
                }
                Ok(())
            }
            Ok(_) => Err(Failure::SYNTAX),
            Err(failure) => Err(failure.clone()),
        });
        conclude(context, &mut reply, start, outcome);
        if asked.request.is_silent {
            reply.truncate(start);
        }
    }

    fn entry(&self, place: Option<&Place>) -> Option<Entry<'_>> {
        let Place { value_type, value, expires_at_ms, mark } = place?;
        let (value_type, expires_at_ms, mark) = (*value_type, *expires_at_ms, *mark);
        Some(Entry { value_type, value: &self.values[value.clone()], expires_at_ms, mark })
    }
}

/// Returns the most bytes of values that are looked up for several requests.
fn bytes_together(context: &Context) -> usize {
    context.limits.transaction_bytes_max.min(REPLY_BYTES_MAX)
}

/// Executes one request after the lookup of several has failed.
fn reply_alone(context: &Context, database: usize, connection: &mut Connection, asked: &Asked) {
    let mut alone = Lookup { bytes_max: REPLY_BYTES_MAX, ..Lookup::default() };
    let keys: Vec<&[u8]> = connection.keys(asked).collect();
    let places = 0..keys.len();
    alone.is_for([asked]);
    let find = |store: Option<&dyn Store>| alone.find(context, store, &keys);
    let outcome = context.places.on_current(database, find);
    alone.reply(context, connection, asked, places, outcome);
}

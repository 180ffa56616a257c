//! The updates of one or several turns: one transaction reads the keys of all commands, each command acts on what the
//! earlier ones have left, and the result is written at once. Reads that wait for the device take the same way, without
//! the transaction.
//!
//! ```text
//! requests   INCR a    SET b 1    EXEC [GET a, DEL b]
//! keys       a         b          a b                     each once, with a state
//! ```
//!
//! If the transaction fails, the requests are executed one by one, so that a failure is that of its request alone. That
//! is also the way of requests whose values and replies have too many bytes together: of a connection that has long
//! replies already, the rest is executed later.

use super::account;
use super::answer::{Answer, Lengths};
use super::execution::{Place, Sender, act_on, execute, reply_failure};
use super::plan::Plan;
use super::requests::{Request, What};
use super::scripts::{NEEDS_TIME, ScriptTransaction};
use super::states::states_of;
use crate::command::{Client, Context, Counters, Patience, Syncs, Tally, permission};
use crate::connection::{Asked, RunKind};
use crate::failure::Failure;
use crate::protocol::{REPLY_BYTES_MAX, Reply};
use crate::store::{Act, Budget, KeyState, Store};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::time::Instant;

fn as_slices(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

/// Requests on one database, which a worker or a helper thread executes.
pub struct Updates {
    database: usize,
    /// How the keys are accessed: they are only read, only written, or both.
    kind: RunKind,
    /// The number of the worker whose connections they are of.
    worker: usize,
    /// The bytes of all words, and where each of them is.
    bytes: Vec<u8>,
    words: Vec<Range<usize>>,
    requests: Vec<Request>,
    answers: Vec<Answer>,
    /// A script among them needs more time than it has with locks, or may need it.
    pub need_time: bool,
}

impl Updates {
    /// Makes a job without requests.
    pub fn new(database: usize, kind: RunKind, worker: usize) -> Updates {
        let (bytes, words, requests, answers) = Default::default();
        Updates { database, kind, worker, bytes, words, requests, answers, need_time: false }
    }

    /// Returns the number of the database, and how its keys are accessed.
    pub fn kind(&self) -> (usize, RunKind) {
        (self.database, self.kind)
    }

    /// Returns the numbers of the connections and of their clients.
    pub fn places(&self) -> Vec<(usize, u64)> {
        self.answers.iter().map(|answer| (answer.connection, answer.client)).collect()
    }

    /// Returns the number of keys, about: that of all words.
    pub fn keys(&self) -> usize {
        self.words.len()
    }

    /// Adds a connection, whose requests are added then.
    pub fn add_connection(&mut self, connection: usize, client: &Client) {
        self.answers.push(Answer::new(connection, client));
    }

    /// Adds a request of the last connection.
    pub fn add<'a>(&mut self, words: impl Iterator<Item = &'a [u8]>, what: What, is_silent: bool) {
        let first = self.words.len();
        for word in words {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(word);
            self.words.push(start..self.bytes.len());
        }
        let connection = self.answers.len() - 1;
        self.answers[connection].requests += 1;
        let words = first..self.words.len();
        self.requests.push(Request { connection, words, what, is_silent, is_left: false });
    }

    /// Executes the requests, and returns the replies.
    ///
    /// # Errors
    /// The requests as they are, if a script needs more time than it has with locks, or may need it, and may not have
    /// it.
    pub fn execute(mut self, context: &Context, may_take_long: bool) -> Result<Vec<Answer>, Box<Updates>> {
        let (begin, mut tally) = (Instant::now(), Tally::default());
        let Some(mut answers) = self.execute_all(context, may_take_long) else { return Err(Box::new(self)) };
        for answer in &mut answers {
            for denial in answer.denials.drain(..) {
                permission::note_denied_in_script(context, answer.client, &answer.user, denial);
            }
        }
        for request in self.requests.iter_mut().filter(|request| !request.is_left) {
            match &mut request.what {
                What::Command(command) => tally.add(command.number),
                What::Exec(exec) => {
                    exec.queued.iter().for_each(|queued| tally.add(queued.command.number));
                    context.watches.release(&mut exec.watched);
                }
                What::Failed(_) => {}
            }
        }
        account::note(context, self.worker, &tally, begin.elapsed(), || self.longest(&answers));
        Ok(answers)
    }

    /// Returns the words with the most bytes, and the number of their client.
    fn longest(&self, answers: &[Answer]) -> Option<(u64, Vec<&[u8]>)> {
        let words = self.requests.iter().flat_map(|request| {
            let queued = match &request.what {
                What::Command(_) => vec![self.words(request)],
                What::Exec(exec) => exec.queued.iter().map(|queued| as_slices(&queued.words)).collect(),
                What::Failed(_) => Vec::new(),
            };
            queued.into_iter().map(|words| (answers[request.connection].client, words))
        });
        words.max_by_key(|(_, words)| account::length(words.iter().copied()))
    }

    /// Returns the replies; `None` if a script needs more time, or may need it, and may not have it.
    fn execute_all(&mut self, context: &Context, may_take_long: bool) -> Option<Vec<Answer>> {
        let mut answers = std::mem::take(&mut self.answers);
        let opened = match self.kind {
            RunKind::Read => Ok(context.places.get(self.database)),
            _ => context.places.get_or_create(self.database),
        };
        let mut store = match opened {
            Ok(Some(store)) => store,
            Ok(None) => return Some(self.fail(context, answers, &NO_DATABASE)),
            Err(error) => return Some(self.fail(context, answers, &Failure::from(error))),
        };
        let all = 0..self.requests.len();
        let is_alone = all.len() == 1;
        let may_take_long_now = is_alone && may_take_long;
        let mut outcome = self.run(context, &*store, all.clone(), may_take_long_now, &mut answers);
        // Flushes have replaced the database since it was looked up.
        while outcome == Err(Failure::CLOSED)
            && let Some(other) = context.places.replaced(self.database, &store)
        {
            answers.iter_mut().for_each(Answer::clear);
            store = other;
            outcome = self.run(context, &*store, all.clone(), may_take_long_now, &mut answers);
        }
        if let Err(failure) = outcome {
            answers.iter_mut().for_each(Answer::clear);
            // One by one, a script may run for long too.
            if !may_take_long && (failure == NEEDS_TIME || self.kind == RunKind::Script) {
                (self.answers, self.need_time) = (answers, true);
                return None;
            }
            if let [request] = &self.requests[..]
                && !request.has_other_way(&failure)
            {
                return Some(self.fail(context, answers, &failure));
            }
            for number in all {
                let answer = &mut answers[self.requests[number].connection];
                // The rest waits until the client has taken replies.
                if answer.reply.len() >= context.limits.output_bytes_max {
                    self.requests[number].is_left = true;
                    answer.requests -= 1;
                } else {
                    self.run_alone(context, &*store, number, &failure, &mut answers);
                }
            }
        }
        let is_synced = context.runtime.syncs() == Syncs::Always && self.kind != RunKind::Read;
        if let Some(failure) = is_synced.then(|| store.sync().err()).flatten() {
            answers.iter_mut().for_each(Answer::clear);
            return Some(self.fail(context, answers, &failure));
        }
        Some(answers)
    }

    /// Replies to all requests with a failure.
    fn fail(&self, context: &Context, mut answers: Vec<Answer>, failure: &Failure) -> Vec<Answer> {
        for request in self.requests.iter().filter(|request| !request.is_left) {
            reply_failure(context, request, &mut answers[request.connection], failure);
        }
        answers
    }

    /// Executes a request after a transaction has failed with it, or with others.
    fn run_alone(
        &self,
        context: &Context,
        store: &dyn Store,
        number: usize,
        failure: &Failure,
        answers: &mut [Answer],
    ) {
        let request = &self.requests[number];
        let connection = request.connection;
        let before = answers[connection].lengths();
        let run = |answers: &mut [Answer]| match self.requests.len() {
            // It has failed alone already, after a lookup of all its keys.
            1 if request.deletes() => Err(failure.clone()),
            _ => self.run(context, store, number..number + 1, true, answers),
        };
        let outcome = match request.what {
            // A dictionary is read only.
            What::Command(command) if command.only_reads(&self.words(request)) => {
                self.read_alone(context, store, number, answers)
            }
            _ => match run(answers) {
                // A script may read only.
                Err(failure) if failure == Failure::READ_ONLY && request.is_script() => {
                    self.read_alone(context, store, number, answers)
                }
                Err(failure) if failure == Failure::TRANSACTION_TOO_LONG && request.deletes() => {
                    answers[connection].restore(before);
                    self.delete_each(context, store, request, &mut answers[connection])
                }
                outcome => outcome,
            },
        };
        if let Err(failure) = outcome {
            answers[connection].restore(before);
            answers[connection].changed = None;
            reply_failure(context, request, &mut answers[connection], &failure);
        }
    }

    fn read_alone(
        &self,
        context: &Context,
        store: &dyn Store,
        number: usize,
        answers: &mut [Answer],
    ) -> Result<(), Failure> {
        let request = &self.requests[number];
        let words = self.words(request);
        let What::Command(command) = request.what else { return Ok(()) };
        let keys: Vec<&[u8]> =
            command.keys.positions(words.len(), |at| words[at]).map(|at| words[at]).collect();
        let mut states = states_of(store, &keys)?;
        let all: Vec<usize> = (0..keys.len()).collect();
        let answer = &mut answers[request.connection];
        let mut reply = Reply::new(&mut answer.reply, answer.version);
        let sender = Sender::Request(&mut answer.outbox, &mut answer.denials);
        let (patience, user) = (Patience::new(context.limits.script_time_max), &answer.user);
        let place = Place {
            context,
            database: self.database,
            is_read_only: true,
            patience: &patience,
            user: Some(user),
        };
        execute(place, command, &words, &mut states, &all, sender, &mut reply);
        Ok(())
    }

    /// Deletes the keys of a request one by one.
    fn delete_each(
        &self,
        context: &Context,
        store: &dyn Store,
        request: &Request,
        answer: &mut Answer,
    ) -> Result<(), Failure> {
        let mut deleted = 0;
        for key in self.words(request).into_iter().skip(1) {
            let mut noted = None;
            store.transact(&[key], &mut |states| {
                // Until the change is visible.
                noted = states[0].delete().then(|| context.watches.note(self.database, [key].into_iter()));
            })?;
            deleted += i64::from(noted.is_some());
        }
        if !request.is_silent {
            Reply::new(&mut answer.reply, answer.version).integer(deleted);
        }
        Ok(())
    }

    fn words(&self, request: &Request) -> Vec<&[u8]> {
        self.words[request.words.clone()].iter().map(|word| &self.bytes[word.clone()]).collect()
    }

    /// Executes some requests in one transaction.
    ///
    /// # Errors
    /// Those of the store; [`Failure::TRANSACTION_TOO_LONG`] for too many bytes of values, or of replies of several
    /// requests. Nothing has changed then.
    fn run(
        &self,
        context: &Context,
        store: &dyn Store,
        requests: Range<usize>,
        may_take_long: bool,
        answers: &mut [Answer],
    ) -> Result<(), Failure> {
        let mut plan = Plan::default();
        let planned: Vec<(&Request, Range<usize>)> =
            self.requests[requests].iter().map(|request| (request, self.plan(request, &mut plan))).collect();
        let before: Vec<Lengths> = answers.iter().map(Answer::lengths).collect();
        // Until the changes are visible.
        let noted = RefCell::new(None);
        let note = |states: &[KeyState]| {
            let changed = plan.keys.iter().zip(states).filter(|(_, state)| state.change().is_some());
            noted.replace(Some(context.watches.note(self.database, changed.map(|(key, _)| *key))));
        };
        let is_too_long = Cell::new(false);
        let mut execute = |states: &mut [KeyState], patience: &Patience| {
            // Once only, but a store may call it again.
            answers.iter_mut().zip(&before).for_each(|(answer, lengths)| answer.restore(*lengths));
            let is_done = self.act(context, &plan, &planned, states, patience, answers);
            is_too_long.set(!is_done);
            if !is_done {
                states.fill_with(KeyState::default);
            }
        };
        let patience = Patience::new(context.limits.script_time_max);
        if self.kind == RunKind::Script {
            let are_unchanged = || planned.iter().all(|(request, _)| request.may_succeed(context));
            let time_max = patience.time_max;
            let transaction = ScriptTransaction { store, keys: &plan.keys, may_take_long, time_max };
            transaction.run(&mut execute, &are_unchanged, &note)?;
        } else {
            let mut act = |states: &mut [KeyState]| {
                execute(states, &patience);
                note(states);
            };
            self.access(context, store, &plan, &mut act)?;
        }
        if is_too_long.get() { Err(Failure::TRANSACTION_TOO_LONG) } else { Ok(()) }
    }

    /// Executes requests on the states of all keys. Returns whether it has executed all: there may be too many bytes.
    fn act(
        &self,
        context: &Context,
        plan: &Plan<'_>,
        planned: &[(&Request, Range<usize>)],
        states: &mut [KeyState],
        patience: &Patience,
        answers: &mut [Answer],
    ) -> bool {
        let bytes_max = context.limits.transaction_bytes_max;
        let (budget, mut reply_bytes) = (Budget::share(bytes_max, states), 0);
        for (request, calls) in planned {
            let answer = &mut answers[request.connection];
            // Others were checked before.
            let user = (self.kind == RunKind::Script).then(|| answer.user.clone());
            let place = Place {
                context,
                database: self.database,
                // Clients of a server that follows another one only read.
                is_read_only: context.follow.is_some(),
                patience,
                user: user.as_ref(),
            };
            let before = answer.reply.len();
            if !budget.is_exceeded() {
                act_on(place, request, plan, calls.clone(), states, answer);
            }
            reply_bytes += answer.reply.len() - before;
            // The reply to one request has a limit of its own.
            let is_reply_long = planned.len() > 1 && reply_bytes > bytes_max.min(REPLY_BYTES_MAX);
            if budget.is_exceeded() || is_reply_long {
                return false;
            }
        }
        true
    }

    /// Lets the store act on the states of the keys of a plan.
    fn access(
        &self,
        context: &Context,
        store: &dyn Store,
        plan: &Plan<'_>,
        act: &mut Act<'_>,
    ) -> Result<(), Failure> {
        let all = &plan.keys;
        match self.kind {
            _ if all.is_empty() => {
                act(&mut []);
                Ok(())
            }
            RunKind::Read => {
                let mut states = states_of(store, all)?;
                let hits = states.iter().filter(|state| state.entry().is_some()).count() as u64;
                Counters::add(&context.counters.hits, hits);
                Counters::add(&context.counters.misses, all.len() as u64 - hits);
                act(&mut states);
                // A read that must change a value is repeated, with all others.
                match states.iter().any(|state| state.change().is_some()) {
                    true => store.transact(all, act),
                    false => Ok(()),
                }
            }
            RunKind::Blind => store.write(all, act),
            _ => match store.transact(all, act) {
                // A dictionary: what was not executed may be reads alone.
                Err(failure) if failure == Failure::READ_ONLY && plan.only_reads() => {
                    let mut states = states_of(store, all)?;
                    act(&mut states);
                    Ok(())
                }
                outcome => outcome,
            },
        }
    }

    /// Adds the calls of a request to a plan, and returns their numbers.
    fn plan<'a>(&'a self, request: &'a Request, plan: &mut Plan<'a>) -> Range<usize> {
        let first = plan.calls.len();
        match &request.what {
            What::Command(command) => {
                let words = self.words[request.words.clone()].iter().map(|word| &self.bytes[word.clone()]);
                plan.add(command, words);
            }
            What::Exec(exec) => {
                let watched = exec.watched.iter().filter(|watched| watched.database == self.database);
                for watched in watched {
                    plan.number(&watched.key);
                }
                for queued in &exec.queued {
                    plan.add(queued.command, queued.words.iter().map(Vec::as_slice));
                }
            }
            What::Failed(_) => {}
        }
        first..plan.calls.len()
    }
}

/// Executes a request of a connection alone, and returns the reply.
pub fn execute_alone(context: &Context, client: &Client, asked: &Asked, words: &[&[u8]]) -> Vec<u8> {
    let mut updates = Updates::new(client.database, RunKind::Update, client.entry.worker);
    updates.add_connection(0, client);
    let what = match &asked.command {
        Ok(command) => What::Command(command),
        Err(failure) => What::Failed(failure.clone()),
    };
    updates.add(words.iter().copied(), what, asked.request.is_silent);
    // Its time is a part of that of the lookup.
    updates.execute_all(context, true).into_iter().flatten().flat_map(|answer| answer.reply).collect()
}

const NO_DATABASE: Failure = Failure::new("ERR DB index is out of range");

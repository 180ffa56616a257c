//! The updates of one or several turns: one transaction reads the keys of all commands, each command acts on what the
//! earlier ones have left, and the result is written at once. Reads that wait for the device take the same way, without
//! the transaction.
//!
//! ```text
//! requests   INCR a    SET b 1    EXEC [GET a, DEL b]
//! keys       a         b          a b                     each once, with a state
//! ```
//!
//! If the transaction fails, the requests are executed one by one, so that a failure is that of its request alone.

use super::answer::Answer;
use super::scripts::{NEEDS_TIME, ScriptTransaction};
use super::states::states_of;
use super::{account, conclude};
use crate::command::{
    Action, Client, Command, Context, Counters, Outbox, Patience, Queued, ReadCall, ScriptCall, SessionCall,
    Syncs, Tally, UpdateCall, User, Watched,
};
use crate::connection::{Asked, RunKind};
use crate::failure::Failure;
use crate::protocol::Reply;
use crate::store::{Entry, KeyState, Store, now_ms};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// What a request asks for.
pub enum What {
    /// One command.
    Command(&'static Command),
    /// The commands of a transaction.
    Exec(Box<Exec>),
    /// Nothing: it has failed already.
    Failed(Failure),
}

/// The commands of a transaction.
pub struct Exec {
    /// The commands.
    pub queued: Vec<Queued>,
    /// The keys that must not have changed.
    pub watched: Vec<Watched>,
    /// The connection, for commands about it.
    pub client: Client,
}

/// A request of an update.
struct Request {
    /// The number of the connection in the job.
    connection: usize,
    /// The words, by their numbers in the job.
    words: Range<usize>,
    what: What,
    /// The client wants no reply.
    is_silent: bool,
}

impl Request {
    fn is_script(&self) -> bool {
        matches!(self.what, What::Command(Command { action: Action::Script(_), .. }))
    }

    /// Returns whether the keys that the request watches, if it does, have not changed.
    fn may_succeed(&self, context: &Context) -> bool {
        match &self.what {
            What::Exec(exec) => context.watches.are_unchanged(&exec.watched),
            What::Command(_) | What::Failed(_) => true,
        }
    }
}

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
    /// A script among them needs more time than it has with locks.
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
        self.requests.push(Request { connection, words: first..self.words.len(), what, is_silent });
    }

    /// Executes the requests, and returns the replies.
    ///
    /// # Errors
    /// The requests as they are, if a script needs more time than it has with locks, and may not have it.
    pub fn execute(mut self, context: &Context, may_take_long: bool) -> Result<Vec<Answer>, Box<Updates>> {
        let (begin, mut tally) = (Instant::now(), Tally::default());
        let Some(answers) = self.execute_all(context, may_take_long) else { return Err(Box::new(self)) };
        for request in &mut self.requests {
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

    /// Returns the replies; `None` if a script needs more time, and may not have it.
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
            if failure == NEEDS_TIME && !may_take_long {
                (self.answers, self.need_time) = (answers, true);
                return None;
            }
            if let [request] = &self.requests[..]
                && !request.is_script()
            {
                return Some(self.fail(context, answers, &failure));
            }
            for number in all {
                self.run_alone(context, &*store, number, &mut answers);
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
        self.requests
            .iter()
            .for_each(|request| reply_failure(context, request, &mut answers[request.connection], failure));
        answers
    }

    /// Executes a request after a transaction of several has failed.
    fn run_alone(&self, context: &Context, store: &dyn Store, number: usize, answers: &mut [Answer]) {
        let request = &self.requests[number];
        let connection = request.connection;
        let before = answers[connection].lengths();
        let outcome = match request.what {
            // A dictionary is read only.
            What::Command(command) if command.only_reads(&self.words(request)) => {
                self.read_alone(context, store, number, answers)
            }
            _ => match self.run(context, store, number..number + 1, true, answers) {
                // A script may read only.
                Err(failure) if failure == Failure::READ_ONLY && request.is_script() => {
                    self.read_alone(context, store, number, answers)
                }
                outcome => outcome,
            },
        };
        if let Err(failure) = outcome {
            answers[connection].restore(before);
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
        let outbox = &mut answer.outbox;
        let (patience, user) = (Patience::new(context.limits.script_time_max), &answer.user);
        let place = Place {
            context,
            database: self.database,
            is_read_only: true,
            patience: &patience,
            user: Some(user),
        };
        execute(place, command, &words, &mut states, &all, Sender::Request(outbox), &mut reply);
        Ok(())
    }

    fn words(&self, request: &Request) -> Vec<&[u8]> {
        self.words[request.words.clone()].iter().map(|word| &self.bytes[word.clone()]).collect()
    }

    /// Executes some requests in one transaction.
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
        let all = &plan.keys;
        let before: Vec<(usize, usize)> = answers.iter().map(Answer::lengths).collect();
        // Until the changes are visible.
        let noted = RefCell::new(None);
        let note = |states: &[KeyState]| {
            let changed = plan.keys.iter().zip(states).filter(|(_, state)| state.change().is_some());
            noted.replace(Some(context.watches.note(self.database, changed.map(|(key, _)| *key))));
        };
        let mut execute = |states: &mut [KeyState], patience: &Patience| {
            // Clients of a server that follows another one only read.
            let is_read_only = context.follow.is_some();
            let database = self.database;
            // Once only, but a store may call it again.
            answers.iter_mut().zip(&before).for_each(|(answer, lengths)| answer.restore(*lengths));
            for (request, calls) in &planned {
                let answer = &mut answers[request.connection];
                // Others were checked before.
                let user = (self.kind == RunKind::Script).then(|| answer.user.clone());
                let place = Place { context, database, is_read_only, patience, user: user.as_ref() };
                act_on(place, request, &plan, calls.clone(), states, answer);
            }
        };
        let patience = Patience::new(context.limits.script_time_max);
        if self.kind == RunKind::Script {
            let are_unchanged = || planned.iter().all(|(request, _)| request.may_succeed(context));
            let time_max = patience.time_max;
            let transaction = ScriptTransaction { store, keys: all, may_take_long, time_max };
            return transaction.run(&mut execute, &are_unchanged, &note);
        }
        let mut act = |states: &mut [KeyState]| {
            execute(states, &patience);
            note(states);
        };
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
                    true => store.transact(all, &mut act),
                    false => Ok(()),
                }
            }
            RunKind::Blind => store.write(all, &mut act),
            _ => match store.transact(all, &mut act) {
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

/// A command, with its words and the numbers of its keys, by their places in the plan.
struct Call {
    command: &'static Command,
    words: Range<usize>,
    keys: Range<usize>,
}

/// The commands of a transaction. What all commands have is in a few vectors, so a command allocates nothing.
#[derive(Default)]
struct Plan<'a> {
    calls: Vec<Call>,
    words: Vec<&'a [u8]>,
    numbers: Vec<usize>,
    /// The keys, each once.
    keys: Vec<&'a [u8]>,
    by_key: HashMap<&'a [u8], usize>,
}

impl<'a> Plan<'a> {
    /// Returns whether no command changes a value.
    fn only_reads(&self) -> bool {
        self.calls.iter().all(|call| call.command.only_reads(&self.words[call.words.clone()]))
    }

    /// Returns the number of a key.
    fn number(&mut self, key: &'a [u8]) -> usize {
        *self.by_key.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    fn add(&mut self, command: &'static Command, words: impl Iterator<Item = &'a [u8]>) {
        let (first_word, first_number) = (self.words.len(), self.numbers.len());
        self.words.extend(words);
        let positions =
            command.keys.positions(self.words.len() - first_word, |at| self.words[first_word + at]);
        for at in positions {
            let number = self.number(self.words[first_word + at]);
            self.numbers.push(number);
        }
        let (words, keys) = (first_word..self.words.len(), first_number..self.numbers.len());
        self.calls.push(Call { command, words, keys });
    }
}

fn reply_failure(context: &Context, request: &Request, answer: &mut Answer, failure: &Failure) {
    let mut reply = Reply::new(&mut answer.reply, answer.version);
    let start = reply.length();
    conclude(context, &mut reply, start, Err(failure.clone()));
    if request.is_silent {
        reply.truncate(start);
    }
}

/// Where commands are executed.
#[derive(Clone, Copy)]
struct Place<'a> {
    context: &'a Context,
    database: usize,
    /// The states are not written.
    is_read_only: bool,
    /// How long scripts may run.
    patience: &'a Patience,
    /// Who has sent the request, if a script may be among them.
    user: Option<&'a Arc<User>>,
}

/// Executes a request on the states of all keys.
fn act_on(
    place: Place<'_>,
    request: &Request,
    plan: &Plan<'_>,
    calls: Range<usize>,
    states: &mut [KeyState],
    answer: &mut Answer,
) {
    let mut client = match &request.what {
        What::Failed(failure) => return reply_failure(place.context, request, answer, failure),
        What::Command(_) => None,
        What::Exec(exec) => {
            // One that has expired is a change too, which was not noted.
            let has_gone = |watched: &Watched| watched.existed && !exists(place, watched, plan, states);
            if !place.context.watches.are_unchanged(&exec.watched) || exec.watched.iter().any(has_gone) {
                if !request.is_silent {
                    Reply::new(&mut answer.reply, answer.version).null_array();
                }
                return;
            }
            Some(exec.client.clone())
        }
    };
    let mut reply = Reply::new(&mut answer.reply, answer.version);
    let start = reply.length();
    if client.is_some() {
        reply.array(calls.len());
    }
    for Call { command, words, keys } in &plan.calls[calls] {
        let (words, keys) = (&plan.words[words.clone()], &plan.numbers[keys.clone()]);
        let sender = match &mut client {
            Some(client) => Sender::Client(client),
            None => Sender::Request(&mut answer.outbox),
        };
        execute(place, command, words, states, keys, sender, &mut reply);
    }
    if request.is_silent {
        reply.truncate(start);
    }
    if let Some(mut client) = client {
        answer.outbox.append(&mut client.outbox);
        answer.changed = Some(Box::new(client));
    }
}

/// Returns whether a watched key exists, which may be one of another database than that of the transaction.
fn exists(place: Place<'_>, watched: &Watched, plan: &Plan<'_>, states: &[KeyState]) -> bool {
    if watched.database == place.database {
        let number = plan.by_key.get(&watched.key[..]);
        return number.is_none_or(|number| states[*number].entry().is_some());
    }
    let mut exists = false;
    let outcome = place.context.places.on_current(watched.database, |store| match store {
        Some(store) => store.get_many(&[&watched.key], &mut |_, found| exists = found.is_some()),
        None => Ok(()),
    });
    // What cannot be read may have changed.
    outcome.is_ok() && exists
}

/// Who executes a command: the connection in a transaction of its own, or one of which only what it sends is changed.
enum Sender<'a> {
    Client(&'a mut Client),
    Request(&'a mut Outbox),
}

/// Executes a command.
fn execute(
    place: Place<'_>,
    command: &Command,
    words: &[&[u8]],
    states: &mut [KeyState],
    keys: &[usize],
    sender: Sender<'_>,
    reply: &mut Reply<'_>,
) {
    let (start, now_ms) = (reply.length(), now_ms());
    let Place { context, database, is_read_only, patience, user } = place;
    let outcome = match (command.action, sender) {
        (Action::Read(run), _) => {
            let found: Vec<Option<Entry<'_>>> = keys.iter().map(|key| states[*key].entry()).collect();
            run(&ReadCall { words, found: &found, now_ms }, reply)
        }
        (
            Action::Update(run)
            | Action::Blind(run)
            | Action::BlindIf(run, _)
            | Action::ReadIf(_, run, _)
            | Action::SlowIf(run, ..),
            _,
        ) => run(&mut UpdateCall { words, states, keys, now_ms }, reply),
        (Action::Script(run), sender) => {
            let outbox = match sender {
                Sender::Client(client) => &mut client.outbox,
                Sender::Request(outbox) => outbox,
            };
            run(
                &mut ScriptCall {
                    words,
                    states,
                    keys,
                    now_ms,
                    database,
                    is_read_only,
                    patience,
                    user,
                    context,
                    outbox,
                },
                reply,
            )
        }
        (Action::Session(run), Sender::Client(client)) => {
            run(&mut SessionCall { words, client, context }, reply)
        }
        (Action::Session(_) | Action::Slow(_) | Action::Exec, _) => Err(Failure::SYNTAX),
    };
    conclude(context, reply, start, outcome);
}

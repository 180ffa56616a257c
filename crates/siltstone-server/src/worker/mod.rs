//! A worker: a thread with connections of its own, which it serves in turns.
//!
//! ```text
//! poll --> for each connection that may have work: read, take a run
//!              runs of reads      one lookup of all their keys, then each command in order; while lookups wait
//!                                 for the device, at once if memory has all keys, and by a helper thread if not
//!              runs of updates    one transaction, by a helper thread if it may wait for the device
//!              runs of the rest   at once, or by a helper thread
//!          send the replies, and again
//! ```
//!
//! A turn costs others one round of reads of the device, whatever the connections are: all reads of a turn overlap.
//!
//! | file | contents |
//! |---|---|
//! | `mailbox` | messages of other threads to a worker |
//! | `endings` | connections that end because they are idle, late, or concerned by a fault |
//! | `helpers` | threads for commands that may take long |
//! | `buffers` | the memory of the connections' buffers under the limit of the server |
//! | `lookup` | the keys of all reads of a turn, and what was found |
//! | `states` | the states of keys that are only read |
//! | `pace` | whether lookups wait for the device |
//! | `scripts` | transactions with scripts |
//! | `answer` | what requests of a connection reply and send |
//! | `updates` | updates, as one transaction, and reads that wait |
//! | `requests` | the requests of a transaction |
//! | `plan` | the commands of a transaction, and their keys |
//! | `execution` | the execution of these on the states of the keys |
//! | `post` | messages between connections, of this worker and of others |
//! | `account` | how long executions took |

mod account;
mod answer;
mod buffers;
mod endings;
mod execution;
mod helpers;
mod lookup;
mod mailbox;
mod pace;
mod plan;
mod post;
mod requests;
mod scripts;
mod states;
mod updates;

pub use helpers::Helpers;
pub use mailbox::{Mailbox, Message};

use crate::command::{
    Action, Client, Command, Context, Counters, Place, SessionCall, Syncs, Tally, changes_subscriptions,
    permission,
};
use crate::connection::{Asked, Connection, Run, RunKind, Socket};
use crate::failure::Failure;
use crate::protocol::{Reply, Version};
use answer::Answer;
use helpers::{Job, SlowJob};
use lookup::Lookup;
use mio::{Events, Interest, Poll, Token};
use pace::Paces;
use post::Post;
use requests::{Exec, What};
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use updates::Updates;

/// The token of the mailbox.
const MAILBOX: Token = Token(usize::MAX);

/// The bytes of one read of a socket.
const READ_BYTES: usize = 64 << 10;

/// The number of events of one poll.
const EVENTS: usize = 1024;

/// The longest time for which a server that stops waits for clients to take their replies.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A thread's connections.
pub struct Worker {
    poll: Poll,
    mailbox: Arc<Mailbox>,
    /// Threads for what may wait for the device.
    helpers: Arc<Helpers>,
    /// Threads for commands that may take long, which must not keep the others waiting.
    slow_helpers: Arc<Helpers>,
    /// Threads for scripts, which may run for long too.
    script_helpers: Arc<Helpers>,
    context: Arc<Context>,
    connections: Slab<Connection>,
    /// The connections that may have work.
    queue: VecDeque<usize>,
    lookup: Lookup,
    paces: Paces,
    /// Requests that are not executed yet, by database and kind.
    collected: VecDeque<Updates>,
    /// The number of jobs with requests that helper threads have, and those with scripts.
    in_flight: usize,
    scripts_in_flight: usize,
    read_buffer: Vec<u8>,
    /// What goes to other connections.
    post: Post,
    /// When the last events came.
    now: Instant,
    /// When connections without requests were last looked for.
    looked_at: Instant,
    /// Set when the server stops: when the worker ends at the latest.
    ends_at: Option<Instant>,
}

/// Makes a queue of events, and the mailbox of the worker that waits for them.
pub fn open_mailbox() -> io::Result<(Poll, Arc<Mailbox>)> {
    let poll = Poll::new()?;
    let mailbox = Arc::new(Mailbox::new(mio::Waker::new(poll.registry(), MAILBOX)?));
    Ok((poll, mailbox))
}

impl Worker {
    /// Makes the worker of a number among all workers, which have these mailboxes, with the queue of events of its own.
    pub fn new(
        number: usize,
        poll: Poll,
        mailboxes: Arc<[Arc<Mailbox>]>,
        context: Arc<Context>,
        [helpers, slow_helpers, script_helpers]: [Arc<Helpers>; 3],
    ) -> Worker {
        Worker {
            poll,
            mailbox: mailboxes[number].clone(),
            helpers,
            slow_helpers,
            script_helpers,
            context,
            connections: Slab::new(),
            queue: VecDeque::new(),
            lookup: Lookup::default(),
            paces: Paces::default(),
            collected: VecDeque::new(),
            in_flight: 0,
            scripts_in_flight: 0,
            read_buffer: vec![0; READ_BYTES],
            post: Post::new(number, mailboxes),
            now: Instant::now(),
            looked_at: Instant::now(),
            ends_at: None,
        }
    }

    /// Serves until the server stops.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while !self.is_done() {
            let patience = match (self.queue.is_empty(), self.ends_at) {
                (false, _) => Some(Duration::ZERO),
                (true, Some(at)) => Some(at.saturating_duration_since(Instant::now())),
                (true, None) => self.look_interval(),
            };
            match self.poll.poll(&mut events, patience) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                outcome => outcome?,
            }
            self.now = Instant::now();
            for event in &events {
                let number = event.token().0;
                if let Some(connection) = self.connections.get_mut(number) {
                    connection.is_half_closed |= event.is_read_closed() || event.is_error();
                    connection.is_readable |= event.is_readable() || connection.is_half_closed;
                    connection.is_writable |= event.is_writable() || event.is_error();
                    self.enqueue(number);
                }
            }
            let turn = || {
                self.take_messages();
                self.turn();
                self.close_late();
            };
            if catch_unwind(AssertUnwindSafe(turn)).is_err() {
                self.give_up();
            }
        }
        Ok(())
    }

    /// Returns whether a worker that stops has sent everything, or has waited long enough.
    fn is_done(&self) -> bool {
        self.ends_at.is_some_and(|at| self.connections.is_empty() || at <= Instant::now())
    }

    fn enqueue(&mut self, number: usize) {
        if let Some(connection) = self.connections.get_mut(number).filter(|connection| !connection.is_queued)
        {
            connection.is_queued = true;
            self.queue.push_back(number);
        }
    }

    fn take_messages(&mut self) {
        for message in self.mailbox.take() {
            match message {
                Message::Connected(socket, client) => self.connect(*socket, *client),
                Message::Answered { connection, client, reply, mut outbox } => {
                    self.post.collect(Place { connection, client }, &mut outbox);
                    self.answer(connection, client, reply);
                }
                Message::Executed { answers, kind, lookup } => {
                    *self.jobs_of(kind).1 -= 1;
                    if let Some((database, pace)) = lookup {
                        self.paces.note(database, pace);
                    }
                    answers.into_iter().for_each(|answer| self.take_answer(answer));
                }
                Message::Broken { places, kind } => {
                    if let Some(kind) = kind {
                        *self.jobs_of(kind).1 -= 1;
                    }
                    places.into_iter().for_each(|(number, client)| self.end_broken(number, client));
                }
                Message::Parcels { parcels, bytes } => self.take_parcels(parcels, bytes),
                Message::Relieved => self.release_senders(),
                Message::Stop => self.stop(),
            }
        }
    }

    fn connect(&mut self, socket: Socket, client: Client) {
        let entry = self.connections.vacant_entry();
        let number = entry.key();
        client.entry.set_connection(number);
        let id = client.id;
        let mut connection = Connection::new(socket, client);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let counters = &self.context.counters;
        match self.poll.registry().register(connection.socket(), Token(number), interest) {
            Ok(()) if self.ends_at.is_none() => {
                entry.insert(connection);
                self.enqueue(number);
            }
            // The client sees that the connection is closed.
            _ => {
                counters.open_connections.fetch_sub(1, Relaxed);
                self.context.clients.remove(id);
            }
        }
    }

    /// Takes the reply of a helper thread.
    fn answer(&mut self, number: usize, client: u64, reply: Vec<u8>) {
        // The number may belong to another connection meanwhile.
        let connection = self.connections.get_mut(number);
        if let Some(connection) = connection.filter(|connection| connection.client.id == client) {
            connection.push_output(reply);
            connection.is_waiting = false;
            self.enqueue(number);
        }
    }

    /// Reads nothing more, and ends the connections when their replies are sent.
    fn stop(&mut self) {
        self.ends_at = Some(Instant::now() + STOP_PATIENCE);
        for (_, connection) in &mut self.connections {
            connection.client.is_closing = true;
        }
        let numbers: Vec<usize> = self.connections.iter().map(|(number, _)| number).collect();
        numbers.into_iter().for_each(|number| self.enqueue(number));
    }

    /// Serves each connection of the queue once.
    fn turn(&mut self) {
        let numbers = std::mem::take(&mut self.queue);
        let (mut reads, mut waiting, mut requests) = (Vec::new(), Vec::new(), 0);
        let mut served = Vec::with_capacity(numbers.len());
        let limits = self.context.limits_now();
        for number in numbers {
            let Some(connection) = self.connections.get_mut(number) else { continue };
            connection.is_queued = false;
            served.push(number);
            connection.client.take_over(&self.context.users);
            if !connection.may_work(&self.context.limits) {
                continue;
            }
            match connection.fill(&mut self.read_buffer, &self.context.limits) {
                Ok(bytes) => Counters::add(&self.context.counters.input_bytes, bytes as u64),
                Err(_) => {
                    self.close(number);
                    continue;
                }
            }
            let Some(run) = connection.take_run(&limits) else { continue };
            begin(connection, &run, self.now);
            requests += run.asked.iter().filter(|asked| !asked.was_taken).count();
            let database = connection.client.database;
            self.show_to_monitors(number, &run);
            match run.kind {
                RunKind::Read if !self.may_wait(database, run.kind) => reads.push((number, run)),
                RunKind::Read => waiting.push((number, run)),
                RunKind::Update | RunKind::Blind | RunKind::Script => self.collect(number, run),
                RunKind::Session => self.execute_session(number, run),
                RunKind::Slow => self.hand_over(number, run),
            }
        }
        let (worker, connections) = (self.post.worker, &mut self.connections);
        let waiting = self.lookup.execute_in_memory(&self.context, worker, connections, waiting);
        if !reads.is_empty() {
            self.lookup.execute(&self.context, worker, connections, reads, &mut self.paces);
        }
        waiting.into_iter().for_each(|(number, run)| self.collect(number, run));
        self.execute_collected();
        Counters::add(&self.context.counters.commands, requests as u64);
        self.context.measures.note_turn(self.post.worker, requests);
        self.send_parcels();
        served.into_iter().for_each(|number| self.finish_turn(number));
        self.evict();
    }

    /// Sends the replies of a connection, and queues it again if it may have more work.
    fn finish_turn(&mut self, number: usize) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        // Before its client can know that the turn has ended, and list it.
        connection.client.entry.update(&connection.activity());
        let Ok(bytes) = connection.flush() else { return self.close(number) };
        // The time limit is one of the whole handshake.
        if !connection.is_handshaking() {
            connection.used_at = self.now;
        }
        connection.client.entry.note_sent(connection.unsent_bytes(), self.now);
        buffers::count(&self.context.counters, connection);
        Counters::add(&self.context.counters.output_bytes, bytes as u64);
        if connection.note_held_back(&self.context.limits) {
            Counters::add(&self.context.counters.held_back_connections, 1);
        }
        if connection.is_finished() {
            self.close(number);
        } else if connection.may_work(&self.context.limits) {
            self.enqueue(number);
        }
    }

    fn close(&mut self, number: usize) {
        if let Some(mut connection) = self.connections.try_remove(number) {
            buffers::forget(&self.context.counters, &connection);
            let Client { id, entry, watched, subscriptions, .. } = &mut connection.client;
            self.context.watches.release(watched);
            self.context.channels.release(subscriptions, entry.worker, entry.place());
            self.context.clients.remove(*id);
            // A socket that cannot be removed from the poll is removed when it is closed.
            let _ = self.poll.registry().deregister(connection.socket());
            self.context.counters.open_connections.fetch_sub(1, Relaxed);
            if connection.is_handshaking() {
                Counters::add(&self.context.counters.failed_handshakes, 1);
            }
        }
    }

    /// Executes requests about the connection and the server, and replies to those that are none.
    fn execute_session(&mut self, number: usize, run: Run) {
        let connection = &mut self.connections[number];
        let (input, output, client) = connection.parts();
        let (begin, mut tally) = (Instant::now(), Tally::default());
        for Asked { request, command, denied, is_last, .. } in &run.asked {
            let words = request.words(input);
            let mut reply = Reply::new(output, client.version);
            let start = reply.length();
            let outcome = match (command, &mut client.transaction) {
                (Ok(command), Some(transaction)) if !command.is_never_queued() => {
                    transaction.add(command, &words).map(|()| reply.status("QUEUED"))
                }
                (Ok(Command { action: Action::Session(execute), number, .. }), _) => {
                    tally.add(*number);
                    execute(&mut SessionCall { words: &words, client, context: &self.context }, &mut reply)
                }
                (Ok(_), _) => Err(Failure::SYNTAX),
                (Err(failure), transaction) => {
                    transaction.iter_mut().for_each(|transaction| transaction.is_failed = true);
                    if let Some(denied) = denied {
                        permission::note_denied(&self.context, client, denied.clone(), &words);
                    }
                    Counters::add(&self.context.counters.protocol_errors, u64::from(*is_last));
                    Err(reject(&self.context, client, words.first().copied(), failure.clone()))
                }
            };
            conclude(&self.context, &mut reply, start, outcome);
            // A request that is none has a reply, as in memcached.
            let is_refused = command.is_err() && client.version == Version::Memcached;
            let is_shown = is_refused || command.as_ref().is_ok_and(|command| changes_subscriptions(command));
            if request.is_silent && !is_shown {
                reply.truncate(start);
            }
            client.is_closing |= is_last;
            if client.is_closing {
                break;
            }
        }
        let longest = || longest_of(std::iter::once((&*connection, &run)));
        account::note(&self.context, self.post.worker, &tally, begin.elapsed(), longest);
        connection.end_run();
        self.post.collect(connection.client.entry.place(), &mut connection.client.outbox);
    }

    /// Returns whether requests of this kind may wait for the device.
    fn may_wait(&self, database: usize, kind: RunKind) -> bool {
        let is_in_memory = || self.context.places.get(database).is_some_and(|store| store.is_in_memory());
        match kind {
            // A worker with one connection has nothing else to do.
            RunKind::Read => self.paces.is_slow(database) && self.connections.len() > 1,
            // A write that reads nothing and is not synced is a copy into the page cache.
            RunKind::Blind => self.context.runtime.syncs() == Syncs::Always && !is_in_memory(),
            _ => !is_in_memory(),
        }
    }

    /// Adds the requests of a run to others of its database.
    fn collect(&mut self, number: usize, run: Run) {
        let connection = &mut self.connections[number];
        let (kind, all) = ((connection.client.database, run.kind), &mut self.collected);
        let at = all.iter().position(|updates| updates.kind() == kind).unwrap_or_else(|| {
            all.push_back(Updates::new(kind.0, kind.1, self.post.worker));
            all.len() - 1
        });
        let updates = &mut all[at];
        updates.add_connection(number, &connection.client);
        for asked in &run.asked {
            let what = match &asked.command {
                Ok(Command { action: Action::Exec, .. }) => {
                    what_of_exec(&self.context, &mut connection.client)
                }
                Ok(command) => What::Command(command),
                Err(failure) => What::Failed(failure.clone()),
            };
            updates.add(connection.words(asked), what, asked.request.is_silent);
        }
        connection.begin_wait(run.asked);
    }

    /// Executes what was collected. What may wait for the device is given to helper threads, as long as this worker's
    /// share of them has nothing to do: what comes meanwhile is collected for the next job, whose reads overlap.
    fn execute_collected(&mut self) {
        for _ in 0..self.collected.len() {
            let Some(mut updates) = self.collected.pop_front() else { return };
            let (database, kind) = updates.kind();
            if kind != RunKind::Read && !updates.need_time && !self.may_wait(database, kind) {
                match updates.execute(&self.context, false) {
                    Ok(answers) => {
                        answers.into_iter().for_each(|answer| self.take_answer(answer));
                        continue;
                    }
                    // A script runs for long.
                    Err(rest) => updates = *rest,
                }
            }
            let (workers, mailbox) = (self.context.workers, self.mailbox.clone());
            let (helpers, in_flight) = self.jobs_of(kind);
            if *in_flight < helpers.threads.div_ceil(workers) {
                *in_flight += 1;
                helpers.add(Job::Updates(updates, mailbox));
            } else {
                self.collected.push_back(updates);
            }
        }
    }

    /// Returns the threads for requests that may wait, and the number of jobs that they have of this worker.
    fn jobs_of(&mut self, kind: RunKind) -> (&Helpers, &mut usize) {
        match kind {
            RunKind::Script => (&self.script_helpers, &mut self.scripts_in_flight),
            _ => (&self.helpers, &mut self.in_flight),
        }
    }

    /// Takes the replies of updates.
    fn take_answer(&mut self, answer: Answer) {
        let Answer { connection: number, client, reply, changed, mut outbox, requests, .. } = answer;
        // Also what a connection has sent that is gone.
        self.post.collect(Place { connection: number, client }, &mut outbox);
        let connection = self.connections.get_mut(number);
        let Some(connection) = connection.filter(|connection| connection.client.id == client) else { return };
        connection.note_replies(requests, reply.len());
        connection.end_wait(requests);
        if let Some(changed) = changed {
            // The server may have begun to stop meanwhile.
            let is_closing = connection.client.is_closing || changed.is_closing;
            connection.client = Client { is_closing, ..*changed };
        }
        self.answer(number, client, reply);
    }

    /// Lets a helper thread execute a request. The connection waits.
    fn hand_over(&mut self, number: usize, run: Run) {
        let connection = &mut self.connections[number];
        let Some(asked) = run.asked.into_iter().next() else { return };
        let words: Vec<Vec<u8>> = connection.words(&asked).map(<[u8]>::to_vec).collect();
        if let Ok(command) = asked.command {
            connection.is_waiting = true;
            let client = &connection.client;
            self.slow_helpers.add(Job::Slow(SlowJob {
                command,
                words,
                database: client.database,
                version: client.version,
                connection: number,
                client: client.id,
                is_silent: asked.request.is_silent,
                is_gone: connection.is_gone.clone(),
                worker: self.post.worker,
                mailbox: self.mailbox.clone(),
            }));
        }
        connection.end_run();
    }
}

/// Notes which requests of a connection begin.
fn begin(connection: &Connection, run: &Run, now: Instant) {
    let Some(asked) = run.asked.last() else { return };
    if let Ok(command) = &asked.command {
        let may_have_subcommand = matches!(run.kind, RunKind::Session | RunKind::Slow);
        let second = may_have_subcommand.then(|| connection.words(asked).nth(1)).flatten();
        connection.client.entry.begin(command.code(second), now);
    }
}

/// Returns the request of some runs whose words have the most bytes, with the number of its client.
fn longest_of<'a>(runs: impl Iterator<Item = (&'a Connection, &'a Run)>) -> Option<(u64, Vec<&'a [u8]>)> {
    let requests = runs.flat_map(|(connection, run)| run.asked.iter().map(move |asked| (connection, asked)));
    let with_command = requests.filter(|(_, asked)| asked.command.is_ok());
    let longest = with_command.max_by_key(|(connection, asked)| account::length(connection.words(asked)));
    longest.map(|(connection, asked)| (connection.client.id, connection.words(asked).collect()))
}

/// Returns what EXEC executes. The transaction of the connection has ended then.
fn what_of_exec(context: &Context, client: &mut Client) -> What {
    let transaction = client.transaction.take();
    match transaction {
        None => What::Failed(Failure::new("ERR EXEC without MULTI")),
        Some(transaction) if transaction.is_failed => {
            context.watches.release(&mut client.watched);
            What::Failed(Failure::new("EXECABORT Transaction discarded because of previous errors."))
        }
        Some(transaction) => {
            let checked = permission::check_queued(client, &transaction);
            if let Err(failure) = checked.and_then(|()| client.check_slots(&transaction)) {
                context.watches.release(&mut client.watched);
                return What::Failed(failure);
            }
            let watched = std::mem::take(&mut client.watched);
            What::Exec(Box::new(Exec { queued: transaction.queued, watched, client: client.clone() }))
        }
    }
}

/// Returns the reply to a request that has no command or the wrong number of words. An EXEC ends its transaction.
fn reject(context: &Context, client: &mut Client, name: Option<&[u8]>, failure: Failure) -> Failure {
    if !name.is_some_and(|name| name.eq_ignore_ascii_case(b"exec")) || !client.is_authenticated {
        return failure;
    }
    client.transaction = None;
    context.watches.release(&mut client.watched);
    let problem = failure.message();
    let problem = problem.strip_prefix("ERR ").unwrap_or(problem);
    Failure::from(format!("EXECABORT Transaction discarded because of: {problem}"))
}

/// Replaces what a command that failed has written by its error.
fn conclude(context: &Context, reply: &mut Reply<'_>, start: usize, outcome: Result<(), Failure>) {
    let outcome = if reply.is_too_long() { Err(Failure::REPLY_TOO_LONG) } else { outcome };
    if let Err(failure) = outcome {
        reply.truncate(start);
        reply.error(failure.message());
        Counters::add(&context.counters.errors, 1);
    }
}

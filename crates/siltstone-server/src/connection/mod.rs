//! A connection: bytes of requests in, bytes of replies out.
//!
//! ```text
//! Socket --read--> input --parse--> run of requests --(worker)--> output --write--> Socket
//! ```
//!
//! A turn takes one *run* of a connection: the longest sequence of requests that are executed in the same way. So the
//! order of a connection is kept whatever the worker does with a run. Nothing more is read from a socket while the
//! client does not take its replies, or while a helper thread executes its command: the memory of a connection is that
//! of a run, one request, and the replies of a run. Messages of channels come between the replies, whenever there are
//! some. A client that does not take them is disconnected at a limit.

mod socket;

pub use socket::Socket;

use crate::command::{
    Action, Activity, COMMANDS, Client, Command, Denied, Limits, changes_subscriptions, check_context,
    memcached, permission,
};
use crate::failure::Failure;
use crate::protocol::{self, Parser, Request, Version};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// The memory that an idle connection keeps for its buffers, in bytes.
const KEPT_BYTES: usize = 1 << 10;

/// The number of held requests whose memory is kept: as many as are allocated for one.
const HELD_KEPT: usize = 4;

/// The most requests of a run, and the bytes of their words.
const RUN_REQUESTS_MAX: usize = 1024;
const RUN_BYTES_MAX: usize = 1 << 20;

/// The bytes of the output that was sent, from which on they are removed although others are not sent.
const SENT_BYTES_KEPT: usize = 64 << 10;

/// The number of reads that the first run of a connection has, as long as the length of its replies is unknown.
const FIRST_READS: usize = 4;

/// The bytes of replies that a run of reads is meant to have.
const RUN_REPLY_BYTES: usize = 1 << 20;

/// Commands that decide how those after them are executed. CLIENT REPLY, and what changes subscriptions, does so too.
const CHANGES_THE_REST: [&str; 8] =
    ["multi", "exec", "discard", "reset", "auth", "hello", "readonly", "readwrite"];

/// How the requests of a run are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// With the values of their keys, which none of them changes.
    Read,
    /// With the states of their keys, which need not be read.
    Blind,
    /// With the states of their keys.
    Update,
    /// Like updates, and a script is among them, which may run for long.
    Script,
    /// One after another, at once.
    Session,
    /// One request, by a helper thread.
    Slow,
}

/// A request of a run.
pub struct Asked {
    /// Its words, in the input of the connection.
    pub request: Request,
    /// Its command, or why it has none.
    pub command: Result<&'static Command, Failure>,
    /// What the user may not, if that is why it has no command.
    pub denied: Option<Denied>,
    /// It is no request of the protocol, so the next one cannot be found.
    pub is_last: bool,
    /// It was in a run before, which was executed in part.
    pub was_taken: bool,
}

/// The requests that a turn executes for a connection. There is at least one.
pub struct Run {
    /// How they are executed.
    pub kind: RunKind,
    /// The requests, in their order.
    pub asked: Vec<Asked>,
}

/// An open connection.
pub struct Connection {
    socket: Socket,
    /// What was read and is not executed.
    input: Vec<u8>,
    parser: Parser,
    /// Requests that were parsed for a run and belong to the next ones.
    held: VecDeque<Asked>,
    /// The requests that are executed elsewhere, if they are several. Their words are at the beginning of the input.
    at_work: Vec<Asked>,
    /// Replies.
    output: Vec<u8>,
    /// How much of them is sent.
    sent: usize,
    /// What commands know of it.
    pub client: Client,
    /// How many requests the next run may have, if their replies may be long.
    reads_at_once: usize,
    /// When it was last read from, or its replies were sent.
    pub used_at: Instant,
    /// The socket may have more input.
    pub is_readable: bool,
    /// The client has ended its requests: the end is read after them.
    pub is_half_closed: bool,
    /// The socket takes output.
    pub is_writable: bool,
    /// The bytes of its buffers that the server has counted.
    pub counted_bytes: usize,
    /// It is in the queue of the worker.
    pub is_queued: bool,
    /// A helper thread executes its command.
    pub is_waiting: bool,
    /// Other workers have too many messages of it and of others, so it executes nothing more until they have sent some.
    pub is_held_back: bool,
    /// It got messages that the worker has not tried to send.
    pub is_pushed: bool,
    /// Its requests wait until the client takes replies.
    has_untaken_replies: bool,
    /// Nothing more is read: the client has ended its requests, or one of them was not of the protocol.
    is_input_ended: bool,
    /// The input has no complete request.
    wants_input: bool,
    /// The rest of the input is not of the protocol.
    is_broken: bool,
    /// Set when it is closed, for helper threads that work for it.
    pub is_gone: Arc<AtomicBool>,
}

impl RunKind {
    /// Returns how requests of two kinds are executed in one run; `None` if they cannot be.
    fn with(self, other: RunKind) -> Option<RunKind> {
        let is_keyed = |kind| !matches!(kind, RunKind::Session | RunKind::Slow);
        match (self, other) {
            (RunKind::Slow, _) | (_, RunKind::Slow) => None,
            (one, other) if one == other => Some(one),
            (RunKind::Script, other) | (other, RunKind::Script) if is_keyed(other) => Some(RunKind::Script),
            (one, other) if is_keyed(one) && is_keyed(other) => Some(RunKind::Update),
            _ => None,
        }
    }
}

impl Connection {
    /// Takes over a socket.
    pub fn new(socket: Socket, client: Client) -> Connection {
        Connection {
            socket,
            input: Vec::new(),
            parser: Parser::new(client.version),
            held: VecDeque::new(),
            at_work: Vec::new(),
            output: Vec::new(),
            sent: 0,
            client,
            reads_at_once: FIRST_READS,
            used_at: Instant::now(),
            is_readable: true,
            is_half_closed: false,
            is_writable: true,
            counted_bytes: 0,
            is_queued: false,
            is_waiting: false,
            is_held_back: false,
            is_pushed: false,
            has_untaken_replies: false,
            is_input_ended: false,
            wants_input: true,
            is_broken: false,
            is_gone: Arc::default(),
        }
    }

    /// Returns the socket, to register it.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Returns whether the client cannot send requests yet.
    pub fn is_handshaking(&self) -> bool {
        self.socket.is_handshaking()
    }

    /// Returns the words of a request of a run.
    pub fn words<'a>(&'a self, asked: &'a Asked) -> impl Iterator<Item = &'a [u8]> {
        asked.request.words.iter().map(|word| &self.input[word.clone()])
    }

    /// Returns the keys of a request of a run.
    pub fn keys<'a>(&'a self, asked: &'a Asked) -> impl Iterator<Item = &'a [u8]> {
        let words = &asked.request.words;
        let word = |at: usize| &self.input[words[at].clone()];
        let positions =
            asked.command.iter().flat_map(move |command| command.keys.positions(words.len(), word));
        positions.map(|at| &self.input[words[at].clone()])
    }

    /// Returns the input, the output and the client, to execute commands.
    pub fn parts(&mut self) -> (&[u8], &mut Vec<u8>, &mut Client) {
        (&self.input, &mut self.output, &mut self.client)
    }

    /// Appends bytes of replies.
    pub fn push_output(&mut self, bytes: Vec<u8>) {
        if self.output.is_empty() {
            self.output = bytes;
        } else {
            self.output.extend_from_slice(&bytes);
        }
    }

    /// Appends messages, or sends them at once, as many as the socket takes. Returns the number of bytes that were
    /// sent; `None` if there would be more than the limit, and not these messages alone: the client takes too little.
    pub fn push(&mut self, bytes: &[u8], is_at_once: bool, limits: &Limits) -> io::Result<Option<usize>> {
        let is_too_much = |connection: &Connection| {
            connection.unsent_bytes() > 0 && connection.unsent_bytes() + bytes.len() > limits.push_bytes_max
        };
        let mut sent = 0;
        if is_at_once || is_too_much(self) {
            sent += self.flush()?;
        }
        if is_too_much(self) {
            return Ok(None);
        }
        let mut written = 0;
        if is_at_once && self.unsent_bytes() == 0 {
            written = write(&mut self.socket, bytes, &mut self.is_writable)?;
        }
        self.output.extend_from_slice(&bytes[written..]);
        Ok(Some(sent + written))
    }

    /// Returns what the connection does.
    pub fn activity(&self) -> Activity {
        let client = &self.client;
        let queued = client.transaction.as_ref().map_or(-1, |transaction| transaction.queued.len() as i64);
        Activity {
            database: client.database,
            resp: match client.version {
                Version::Memcached => 0,
                Version::Resp2 => 2,
                Version::Resp3 => 3,
            },
            subscriptions: client.subscriptions.counts(),
            is_monitor: client.subscriptions.is_monitor(),
            is_closing: client.is_closing,
            queued,
            input_bytes: self.input.len(),
            output_bytes: self.unsent_bytes(),
            memory_bytes: size_of::<Connection>() + self.buffer_bytes() + client.subscriptions.bytes(),
        }
    }

    /// Returns whether the client waits for messages, and not only for replies.
    pub fn is_receiver(&self) -> bool {
        self.client.subscriptions.count() > 0 || self.client.subscriptions.is_monitor()
    }

    /// Returns the bytes of replies that are not sent.
    pub fn unsent_bytes(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Returns the bytes of its buffers.
    pub fn buffer_bytes(&self) -> usize {
        let asked = (self.held.capacity() + self.at_work.capacity()) * size_of::<Asked>();
        let words: usize =
            self.held.iter().chain(&self.at_work).map(|asked| asked.request.words.capacity()).sum();
        self.input.capacity() + self.output.capacity() + asked + words * size_of::<std::ops::Range<usize>>()
    }

    /// Returns whether everything is done: nothing is left to execute or to send, and nothing more comes.
    pub fn is_finished(&self) -> bool {
        let is_empty = self.held.is_empty() && (self.wants_input || self.is_broken);
        let ends = self.client.is_closing || (self.is_input_ended && is_empty);
        ends && self.unsent_bytes() == 0 && !self.socket.has_unsent() && !self.is_waiting
    }

    /// Returns whether the next turn may have work for it.
    pub fn may_work(&self, limits: &Limits) -> bool {
        let may_have_input = self.is_readable || !self.held.is_empty() || !self.wants_input;
        let may_execute = !self.is_waiting && !self.is_held_back && !self.client.is_closing;
        may_execute && may_have_input && self.takes_replies(limits)
    }

    /// Returns whether requests are executed: the replies that wait to be sent are below the limit.
    pub fn takes_replies(&self, limits: &Limits) -> bool {
        self.unsent_bytes() < limits.output_bytes_max
    }

    /// Notes whether its requests wait until the client takes replies. Returns whether they begin to.
    pub fn note_held_back(&mut self, limits: &Limits) -> bool {
        let before = self.has_untaken_replies;
        self.has_untaken_replies = !self.takes_replies(limits);
        self.has_untaken_replies && !before
    }

    /// Reads what the socket has, through `buffer`. Stops at the limit, unless no request is complete. Returns the
    /// number of bytes of requests.
    pub fn fill(&mut self, buffer: &mut [u8], limits: &Limits) -> io::Result<usize> {
        let (mut filled, before) = (0, self.input.len());
        while self.is_readable && !self.is_input_ended && filled < limits.input_bytes_max {
            if self.input.len() >= limits.input_bytes_max && !self.wants_input {
                break;
            }
            match self.socket.read(buffer, &mut self.input) {
                Ok(0) => {
                    self.is_input_ended = true;
                    self.is_readable = false;
                }
                Ok(bytes) => {
                    filled += bytes;
                    self.is_input_ended |= self.socket.has_ended();
                    // A short read has emptied the socket; what comes later is announced. The end was.
                    self.is_readable = bytes == buffer.len() || self.is_half_closed;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = self.input.len() - before;
        self.wants_input &= bytes == 0;
        Ok(bytes)
    }

    /// Takes the next run, if a request is complete.
    pub fn take_run(&mut self, limits: &Limits) -> Option<Run> {
        let mut run: Option<Run> = None;
        let mut bytes = 0;
        while let Some(mut asked) = self.held.pop_front().or_else(|| self.next(limits)) {
            if asked.was_taken {
                // What the client may has perhaps changed since then.
                (asked.command, asked.denied) = self.check(&asked.request);
            }
            let kind = self.kind_of(&asked);
            let of_request: usize = asked.request.words.iter().map(ExactSizeIterator::len).sum();
            let together = match &run {
                None => Some(kind),
                Some(run) => run.kind.with(kind).filter(|kind| {
                    let is_short = matches!(kind, RunKind::Session | RunKind::Blind);
                    let requests_max = if is_short { RUN_REQUESTS_MAX } else { self.reads_at_once };
                    run.asked.len() < requests_max && bytes + of_request <= RUN_BYTES_MAX
                }),
            };
            let Some(kind) = together else {
                self.held.push_front(asked);
                break;
            };
            bytes += of_request;
            // What follows may be allowed, and longer, or is queued, once this one was executed.
            let may_end = self.client.transaction.is_some() && asked.command.is_err();
            let is_alone = !self.client.is_authenticated || may_end || self.changes_the_rest(&asked);
            let run = run.get_or_insert_with(|| Run { kind, asked: Vec::new() });
            run.kind = kind;
            run.asked.push(asked);
            if is_alone {
                break;
            }
        }
        if run.is_none() {
            // A part of a request that was passed over is not kept.
            self.end_run();
        }
        run
    }

    /// Parses the next request.
    fn next(&mut self, limits: &Limits) -> Option<Asked> {
        if self.is_broken {
            return None;
        }
        let of_protocol = match self.client.is_authenticated {
            true => protocol::Limits { words_max: limits.words_max, word_bytes_max: limits.word_bytes_max },
            false => protocol::Limits::UNAUTHENTICATED,
        };
        match self.parser.next(&mut self.input, of_protocol) {
            Ok(Some(request)) if is_http(&request.words(&self.input)) => self.refuse(HTTP),
            Ok(Some(mut request)) => {
                let (command, denied) = self.check(&request);
                // CLIENT REPLY ON has a reply, whatever the replies were before.
                let skips = self.client.skips_reply();
                request.is_silent |= skips && !turns_replies_on(&request.words(&self.input));
                Some(Asked { request, command, denied, is_last: false, was_taken: false })
            }
            Ok(None) => {
                self.wants_input = true;
                None
            }
            Err(error) => self.refuse(Failure::from(error)),
        }
    }

    /// Ends the connection after the reply with this failure. What it has sent besides is not executed.
    fn refuse(&mut self, failure: Failure) -> Option<Asked> {
        (self.is_broken, self.is_input_ended, self.is_readable) = (true, true, false);
        let (request, command) = (Request::default(), Err(failure));
        Some(Asked { request, command, denied: None, is_last: true, was_taken: false })
    }

    /// Returns the command of a request, or why it has none, and what the user may not if that is why.
    fn check(&self, request: &Request) -> (Result<&'static Command, Failure>, Option<Denied>) {
        let words = || request.words(&self.input);
        let command = self.command_of(request);
        let check = |command: &&Command| permission::check_request(&self.client, command, words).err();
        let denied = command.as_ref().ok().and_then(check);
        match denied {
            Some(denied) => (Err(denied.failure(self.client.version)), Some(denied)),
            None => (command, None),
        }
    }

    fn kind_of(&self, asked: &Asked) -> RunKind {
        let Ok(command) = &asked.command else { return RunKind::Session };
        if self.client.transaction.is_some() && !command.is_never_queued() {
            return RunKind::Session;
        }
        match command.action {
            Action::Read(_) => RunKind::Read,
            Action::Exec if self.client.transaction.as_ref().is_some_and(|queued| queued.has_script()) => {
                RunKind::Script
            }
            Action::Update(_) | Action::Exec => RunKind::Update,
            Action::Script(_) => RunKind::Script,
            Action::Blind(_) => RunKind::Blind,
            Action::BlindIf(_, is_blind) if is_blind(&mut self.words(asked)) => RunKind::Blind,
            Action::ReadIf(.., is_read) if is_read(&mut self.words(asked)) => RunKind::Read,
            Action::SlowIf(.., is_slow) if is_slow(&mut self.words(asked)) => RunKind::Slow,
            Action::BlindIf(..) | Action::ReadIf(..) | Action::SlowIf(..) => RunKind::Update,
            Action::Slow(_) => RunKind::Slow,
            Action::Session(_) => RunKind::Session,
        }
    }

    fn command_of(&self, request: &Request) -> Result<&'static Command, Failure> {
        if self.client.version == Version::Memcached {
            let command = memcached::find(&request.words(&self.input), self.client.is_authenticated)?;
            return self.permitted(command, request);
        }
        let name = request.words.first().map(|name| &self.input[name.clone()]);
        let command = Command::find(COMMANDS, name.unwrap_or_default());
        if !self.client.is_authenticated && !command.is_some_and(Command::is_open) {
            return Err(Failure::NO_AUTHENTICATION);
        }
        let command = command.ok_or_else(|| Failure::unknown(&request.words(&self.input)))?;
        let word = |at: usize| &self.input[request.words[at].clone()];
        command.check_words(request.words.len(), word)?;
        let needs_owner = || command.needs_owner(&mut (0..request.words.len()).map(word));
        if let Some(cluster) = self
            .client
            .cluster
            .as_ref()
            .filter(|_| !self.client.reads_others || command.keys.are_channels || needs_owner())
        {
            cluster.check(command.keys.slot_positions(request.words.len(), word).map(word))?;
        }
        let second = request.words.get(1).map(|word| &self.input[word.clone()]);
        check_context(command, second, self.client.version, self.client.subscriptions.count())?;
        self.permitted(command, request)
    }

    /// Returns the command, unless it writes and the server follows another one.
    fn permitted(&self, command: &'static Command, request: &Request) -> Result<&'static Command, Failure> {
        let mut words = request.words.iter().map(|word| &self.input[word.clone()]);
        match self.client.is_reader && command.may_write(&mut words) {
            true => Err(Failure::FOLLOWS),
            false => Ok(command),
        }
    }

    /// Returns whether the command decides how those after it are executed, or which replies they have.
    fn changes_the_rest(&self, asked: &Asked) -> bool {
        let Ok(Command { name, action: Action::Session(_) | Action::Exec, .. }) = asked.command else {
            return false;
        };
        CHANGES_THE_REST.contains(name)
            || asked.command.as_ref().is_ok_and(|command| changes_subscriptions(command))
            || (*name == "client"
                && self.words(asked).nth(1).is_some_and(|word| word.eq_ignore_ascii_case(b"reply")))
    }

    /// Notes the length of the replies of some requests, from which the number of requests of the next run follows.
    pub fn note_replies(&mut self, requests: usize, reply_bytes: usize) {
        let fit = RUN_REPLY_BYTES * requests / reply_bytes.max(1);
        // Doubled at most: the next replies may be longer.
        self.reads_at_once = fit.min(2 * self.reads_at_once.max(requests)).clamp(1, RUN_REQUESTS_MAX);
    }

    /// Keeps the last requests of a run for the next one.
    pub fn hold(&mut self, asked: Vec<Asked>) {
        for asked in asked.into_iter().rev() {
            self.held.push_front(Asked { was_taken: true, ..asked });
        }
    }

    /// Executes nothing more until the requests of a run are executed elsewhere. If there are several, that may be a
    /// part of them, so all are kept.
    pub fn begin_wait(&mut self, asked: Vec<Asked>) {
        self.is_waiting = true;
        if asked.len() > 1 {
            // Nothing is moved: mostly all are executed. Until then the input keeps their words.
            self.at_work = asked;
        } else {
            self.end_run();
        }
    }

    /// Notes how many of these requests were executed.
    pub fn end_wait(&mut self, executed: usize) {
        let mut at_work = std::mem::take(&mut self.at_work);
        if !at_work.is_empty() {
            let left = at_work.split_off(executed.min(at_work.len()));
            self.hold(left);
            self.end_run();
        }
    }

    /// Removes the requests of the last run from the input.
    pub fn end_run(&mut self) {
        let held_from = self.held.iter().find_map(|held| held.request.words.first());
        let needed_from = held_from.map_or(self.parser.needed_from(), |word| word.start);
        self.input.drain(..needed_from);
        self.parser.removed(needed_from);
        for word in self.held.iter_mut().flat_map(|held| &mut held.request.words) {
            *word = word.start - needed_from..word.end - needed_from;
        }
        release(&mut self.input);
        if self.held.is_empty() && self.held.capacity() > HELD_KEPT {
            self.held = VecDeque::new();
        }
    }

    /// Sends replies, as many as the socket takes. Returns the number of bytes.
    pub fn flush(&mut self) -> io::Result<usize> {
        let bytes = write(&mut self.socket, &self.output[self.sent..], &mut self.is_writable)?;
        self.sent += bytes;
        if self.sent == self.output.len() {
            self.output.clear();
            release(&mut self.output);
            self.sent = 0;
        } else if self.sent >= SENT_BYTES_KEPT && 2 * self.sent >= self.output.len() {
            // A client that is never quite done must not keep all that it got. Fewer bytes are moved than were sent.
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        Ok(bytes)
    }
}

/// Writes bytes to a socket, as many as it takes. Returns their number.
fn write(socket: &mut Socket, bytes: &[u8], is_writable: &mut bool) -> io::Result<usize> {
    let mut written = 0;
    while *is_writable && (written < bytes.len() || socket.has_unsent()) {
        match socket.write(&bytes[written..]) {
            Ok(0) if written < bytes.len() => return Err(ErrorKind::WriteZero.into()),
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => *is_writable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Returns the memory of a buffer that has little, or nothing.
fn release(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    } else if buffer.len() < KEPT_BYTES {
        buffer.shrink_to(KEPT_BYTES);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.is_gone.store(true, Relaxed);
    }
}
/// What a browser sends for a page of another site, with commands in its body.
const HTTP: Failure = Failure::new("ERR this is no server of HTTP; the connection is closed");

fn is_http(words: &[&[u8]]) -> bool {
    let name = words.first().copied().unwrap_or_default();
    [&b"post"[..], b"host:"].iter().any(|other| name.eq_ignore_ascii_case(other))
}

fn turns_replies_on(words: &[&[u8]]) -> bool {
    let wanted: [&[u8]; 3] = [b"client", b"reply", b"on"];
    words.len() == wanted.len()
        && words.iter().zip(wanted).all(|(word, wanted)| word.eq_ignore_ascii_case(wanted))
}

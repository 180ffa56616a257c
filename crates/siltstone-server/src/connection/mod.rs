//! A connection: bytes of requests in, bytes of replies out.
//!
//! ```text
//! socket --read--> input --parse--> run of requests --(worker)--> output --write--> socket
//! ```
//!
//! A turn takes one *run* of a connection: the longest sequence of requests that are executed in the same way. So the
//! order of a connection is kept whatever the worker does with a run. Nothing more is read from a socket while the
//! client does not take its replies, or while a helper thread executes its command: the memory of a connection is that
//! of a run, one request, and the replies of a run.

use crate::command::{Action, COMMANDS, Client, Command, Limits, memcached};
use crate::failure::Failure;
use crate::protocol::{self, Parser, Request, Version};
use mio::net::TcpStream;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// The memory that an idle connection keeps for its buffers, in bytes.
const KEPT_BYTES: usize = 1 << 10;

/// The most requests of a run, and the bytes of their words.
const RUN_REQUESTS_MAX: usize = 1024;
const RUN_BYTES_MAX: usize = 1 << 20;

/// The number of reads that the first run of a connection has, as long as the length of its replies is unknown.
const FIRST_READS: usize = 4;

/// The bytes of replies that a run of reads is meant to have.
const RUN_REPLY_BYTES: usize = 1 << 20;

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
    /// It is no request of the protocol, so the next one cannot be found.
    pub is_last: bool,
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
    socket: TcpStream,
    /// What was read and is not executed.
    input: Vec<u8>,
    parser: Parser,
    /// A request that was parsed for a run and belongs to the next one.
    held: Option<Asked>,
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
    /// It is in the queue of the worker.
    pub is_queued: bool,
    /// A helper thread executes its command.
    pub is_waiting: bool,
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
    pub fn new(socket: TcpStream, client: Client) -> Connection {
        Connection {
            socket,
            input: Vec::new(),
            parser: Parser::new(client.version),
            held: None,
            output: Vec::new(),
            sent: 0,
            client,
            reads_at_once: FIRST_READS,
            used_at: Instant::now(),
            is_readable: true,
            is_half_closed: false,
            is_writable: true,
            is_queued: false,
            is_waiting: false,
            is_input_ended: false,
            wants_input: true,
            is_broken: false,
            is_gone: Arc::default(),
        }
    }

    /// Returns the socket, to register it.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
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

    /// Returns the bytes of replies that are not sent.
    pub fn unsent_bytes(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Returns whether everything is done: nothing is left to execute or to send, and nothing more comes.
    pub fn is_finished(&self) -> bool {
        let is_empty = self.held.is_none() && (self.wants_input || self.is_broken);
        let ends = self.client.is_closing || (self.is_input_ended && is_empty);
        ends && self.unsent_bytes() == 0 && !self.is_waiting
    }

    /// Returns whether the next turn may have work for it.
    pub fn may_work(&self, limits: &Limits) -> bool {
        let may_have_input = self.is_readable || self.held.is_some() || !self.wants_input;
        !self.is_waiting && !self.client.is_closing && may_have_input && self.takes_replies(limits)
    }

    fn takes_replies(&self, limits: &Limits) -> bool {
        self.unsent_bytes() < limits.output_bytes_max
    }

    /// Reads what the socket has, through `buffer`. Stops at the limit, unless no request is complete. Returns the
    /// number of bytes.
    pub fn fill(&mut self, buffer: &mut [u8], limits: &Limits) -> io::Result<usize> {
        let mut filled = 0;
        while self.is_readable && !self.is_input_ended && filled < limits.input_bytes_max {
            if self.input.len() >= limits.input_bytes_max && !self.wants_input {
                break;
            }
            match self.socket.read(buffer) {
                Ok(0) => {
                    self.is_input_ended = true;
                    self.is_readable = false;
                }
                Ok(bytes) => {
                    self.input.extend_from_slice(&buffer[..bytes]);
                    filled += bytes;
                    // A short read has emptied the socket; what comes later is announced. The end was.
                    self.is_readable = bytes == buffer.len() || self.is_half_closed;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.wants_input &= filled == 0;
        Ok(filled)
    }

    /// Takes the next run, if a request is complete.
    pub fn take_run(&mut self, limits: &Limits) -> Option<Run> {
        let mut run: Option<Run> = None;
        let mut bytes = 0;
        while let Some(asked) = self.held.take().or_else(|| self.next(limits)) {
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
                self.held = Some(asked);
                break;
            };
            bytes += of_request;
            // What follows may be allowed, and longer, or is queued, once this one was executed.
            let may_end = self.client.transaction.is_some() && asked.command.is_err();
            let is_alone = !self.client.is_authenticated || may_end || changes_the_rest(&asked);
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
            Ok(Some(request)) => {
                let command = self.command_of(&request);
                Some(Asked { request, command, is_last: false })
            }
            Ok(None) => {
                self.wants_input = true;
                None
            }
            Err(error) => {
                (self.is_broken, self.is_input_ended, self.is_readable) = (true, true, false);
                let command = Err(Failure::from(error));
                Some(Asked { request: Request::default(), command, is_last: true })
            }
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
            Action::BlindIf(..) | Action::ReadIf(..) => RunKind::Update,
            Action::Slow(_) => RunKind::Slow,
            Action::Session(_) => RunKind::Session,
        }
    }

    fn command_of(&self, request: &Request) -> Result<&'static Command, Failure> {
        if self.client.version == Version::Memcached {
            return memcached::find(&request.words(&self.input), self.client.is_authenticated);
        }
        let name = request.words.first().map(|name| &self.input[name.clone()]);
        let command = Command::find(COMMANDS, name.unwrap_or_default());
        if !self.client.is_authenticated && !command.is_some_and(Command::is_open) {
            return Err(Failure::NO_AUTHENTICATION);
        }
        let command = command.ok_or_else(|| Failure::unknown(&request.words(&self.input)))?;
        command.check_words(request.words.len(), |at| &self.input[request.words[at].clone()])?;
        Ok(command)
    }

    /// Notes the length of the replies of some requests, from which the number of requests of the next run follows.
    pub fn note_replies(&mut self, requests: usize, reply_bytes: usize) {
        let fit = RUN_REPLY_BYTES * requests / reply_bytes.max(1);
        // Doubled at most: the next replies may be longer.
        self.reads_at_once = fit.min(2 * self.reads_at_once.max(requests)).clamp(1, RUN_REQUESTS_MAX);
    }

    /// Removes the requests of the last run from the input.
    pub fn end_run(&mut self) {
        let held_from = self.held.as_ref().and_then(|held| held.request.words.first());
        let needed_from = held_from.map_or(self.parser.needed_from(), |word| word.start);
        self.input.drain(..needed_from);
        self.parser.removed(needed_from);
        for word in self.held.iter_mut().flat_map(|held| &mut held.request.words) {
            *word = word.start - needed_from..word.end - needed_from;
        }
        release(&mut self.input);
    }

    /// Sends replies, as many as the socket takes. Returns the number of bytes.
    pub fn flush(&mut self) -> io::Result<usize> {
        let before = self.sent;
        while self.is_writable && self.sent < self.output.len() {
            match self.socket.write(&self.output[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = self.sent - before;
        if self.sent == self.output.len() {
            self.output.clear();
            release(&mut self.output);
            self.sent = 0;
        }
        Ok(bytes)
    }
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

/// Returns whether the command decides how those after it are executed.
fn changes_the_rest(asked: &Asked) -> bool {
    asked.command.as_ref().is_ok_and(|command| ["multi", "exec", "discard", "reset"].contains(&command.name))
}

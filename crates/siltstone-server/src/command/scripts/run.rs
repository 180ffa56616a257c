//! What a script works on: the states of its keys, which the commands that it calls read and change.
//!
//! The states are taken out of the transaction while the script runs, because the functions that Lua calls live as long
//! as the thread, and the transaction does not.

use super::READ_ONLY_SCRIPT;
use super::messages::{Messages, publishes};
use super::numbers::Random;
use crate::command::access::{Denial, User};
use crate::command::arguments::integer;
use crate::command::call::{Action, Command, Context, ScriptCall};
use crate::command::permission;
use crate::command::read::ReadCall;
use crate::command::session;
use crate::command::update::UpdateCall;
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, Version};
use crate::store::{Entry, KeyState};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

/// The memory of a buffer that is kept between two scripts, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// The number of words, and of keys, up to which memory is not allocated for each command.
const FEW: usize = 8;

/// The words of a command, or keys, one after another.
#[derive(Default)]
struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.ends.clear();
        self.ends.shrink_to(KEPT_BYTES / size_of::<usize>());
    }

    fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// What the script of a thread works on.
pub struct Run {
    commands: &'static [Command],
    database: usize,
    /// The time at which it started, in milliseconds since the Unix epoch. It is the same to its end, as in Redis.
    now_ms: u64,
    /// The version in which commands reply to it.
    pub version: Version,
    /// Why it must not write, if it must not.
    refusal: Option<Failure>,
    /// Who calls it, if the user may not do everything.
    user: Option<Arc<User>>,
    /// Its keys, each once, and where they are among them if they are many.
    keys: Words,
    many_keys: HashMap<Vec<u8>, usize>,
    states: Vec<KeyState>,
    /// Which states of the transaction they are.
    numbers: Vec<usize>,
    /// The states before the first write, if there was one.
    before: Vec<KeyState>,
    has_written: bool,
    messages: Messages,
    /// What its user may not.
    denials: Vec<Denial>,
    words: Words,
    reply: Vec<u8>,
    /// The generator of math.random.
    pub random: Random,
}

const UNKNOWN_COMMAND: Failure = Failure::new("ERR Unknown Redis command called from script");
const WRONG_ARITY: Failure = Failure::new("ERR Wrong number of args calling Redis command from script");
const NOT_ALLOWED: Failure = Failure::new("ERR This Redis command is not allowed from script");
const OTHER_DATABASE: Failure =
    Failure::new("ERR a script uses the database of its connection only; call SELECT before the script");

/// Returns the error for a key that the call of the script does not name.
fn undeclared(key: &[u8]) -> Failure {
    let shown = String::from_utf8_lossy(&key[..key.len().min(128)]).into_owned();
    Failure::from(format!(
        "ERR the script uses the key '{shown}', which is not in KEYS; pass all its keys as KEYS"
    ))
}

impl Run {
    /// Makes what no script works on.
    pub fn idle(context: &Context) -> Run {
        Run {
            commands: context.commands,
            database: 0,
            now_ms: 0,
            version: Version::Resp2,
            refusal: None,
            user: None,
            keys: Words::default(),
            many_keys: HashMap::new(),
            states: Vec::new(),
            numbers: Vec::new(),
            before: Vec::new(),
            has_written: false,
            messages: Messages::new(context),
            denials: Vec::new(),
            words: Words::default(),
            reply: Vec::new(),
            random: Random::new(0),
        }
    }

    /// Takes the states of a script's keys.
    pub fn begin(&mut self, call: &mut ScriptCall<'_>, keys: &[&[u8]], refusal: Option<Failure>) {
        (self.database, self.now_ms, self.version) = (call.database, call.now_ms, Version::Resp2);
        (self.refusal, self.has_written) = (refusal, false);
        self.user = call.user.filter(|user| !user.is_unlimited()).cloned();
        self.random = Random::new(fastrand::i32(..));
        for (key, number) in keys.iter().zip(call.keys) {
            if self.number(key).is_none() {
                if keys.len() > FEW {
                    self.many_keys.insert(key.to_vec(), self.states.len());
                }
                self.keys.push(key);
                self.states.push(mem::take(&mut call.states[*number]));
                self.numbers.push(*number);
            }
        }
    }

    /// Returns the number of a key among those of the script.
    fn number(&self, key: &[u8]) -> Option<usize> {
        match self.many_keys.is_empty() {
            true => self.keys.iter().position(|known| known == key),
            false => self.many_keys.get(key).copied(),
        }
    }

    /// Gives back the states as they are, and what the script has published; or the states as they were before it.
    pub fn end(&mut self, call: &mut ScriptCall<'_>, has_effect: bool) {
        if self.has_written && !has_effect {
            let both = self.states.iter_mut().zip(self.before.drain(..));
            both.for_each(|(state, before)| state.restore(before));
        }
        for (number, state) in self.numbers.drain(..).zip(self.states.drain(..)) {
            call.states[number] = state;
        }
        let messages = self.messages.take();
        if has_effect {
            call.outbox.extend(messages);
        }
        call.denials.append(&mut self.denials);
        self.before.clear();
        self.many_keys.clear();
        self.keys.clear();
        self.words.clear();
        self.reply.clear();
        self.reply.shrink_to(KEPT_BYTES);
    }

    /// Begins the words of a command.
    pub fn begin_words(&mut self) {
        self.words.clear();
    }

    /// Adds a word.
    pub fn push_word(&mut self, word: &[u8]) {
        self.words.push(word);
    }

    /// Executes the command of the words, and returns its reply, which may be an error.
    ///
    /// # Errors
    /// The command cannot be called by this script.
    pub fn execute(&mut self) -> Result<&[u8], Failure> {
        let words: SmallVec<[&[u8]; FEW]> = self.words.iter().collect();
        let name = words.first().copied().unwrap_or_default();
        let command = Command::find(self.commands, name).ok_or(UNKNOWN_COMMAND)?;
        if !command.takes(words.len()) {
            return Err(WRONG_ARITY);
        }
        if command.flags.contains(&"noscript") {
            return Err(NOT_ALLOWED);
        }
        // The subcommand.
        command.check_words(words.len(), |at| words[at]).map_err(|failure| {
            if failure.message().starts_with("ERR wrong number") { WRONG_ARITY } else { UNKNOWN_COMMAND }
        })?;
        if let Some(user) = &self.user
            && let Err(denied) = permission::check(user, command, &words)
        {
            let failure = denied.failure_in_script();
            denied.of_request(&words).add_to(&mut self.denials);
            return Err(failure);
        }
        let writes = command.flags.contains(&"write");
        // As in Redis, a script that only reads publishes nothing.
        let is_refused = |refusal: &&Failure| writes || (publishes(command) && **refusal == READ_ONLY_SCRIPT);
        if let Some(refusal) = self.refusal.as_ref().filter(is_refused) {
            return Err(refusal.clone());
        }
        let positions = command.keys.positions(words.len(), |at| words[at]);
        let number = |at: usize| self.number(words[at]).ok_or_else(|| undeclared(words[at]));
        let numbers = positions.map(number).collect::<Result<SmallVec<[usize; FEW]>, _>>()?;
        if writes && !self.has_written {
            self.before.clone_from(&self.states);
            self.has_written = true;
        }
        let (reply, states) = (&mut self.reply, &mut self.states);
        reply.clear();
        let mut written = Reply::new(reply, self.version);
        let now_ms = self.now_ms;
        let outcome = match command.action {
            Action::Read(run) => {
                let found: SmallVec<[Option<Entry<'_>>; FEW]> =
                    numbers.iter().map(|number| states[*number].entry()).collect();
                run(&ReadCall { words: &words, found: &found, now_ms }, &mut written)
            }
            Action::Update(run)
            | Action::Blind(run)
            | Action::BlindIf(run, _)
            | Action::ReadIf(_, run, _)
            | Action::SlowIf(run, ..) => {
                run(&mut UpdateCall { words: &words, states, keys: &numbers, now_ms }, &mut written)
            }
            Action::Session(_) if publishes(command) => self.messages.publish(command, &words, &mut written),
            Action::Session(_) => about_the_server(command.name, &words, self.database, &mut written),
            Action::Slow(_) => Err(may_take_long(command.name)),
            Action::Exec | Action::Script(_) => Err(NOT_ALLOWED),
        };
        let outcome = if written.is_too_long() { Err(Failure::REPLY_TOO_LONG) } else { outcome };
        if let Err(failure) = outcome {
            written.truncate(0);
            written.error(failure.message());
        }
        Ok(&reply[..])
    }
}

fn may_take_long(command: &str) -> Failure {
    Failure::from(format!(
        "ERR {} may read the whole store, so a script cannot call it; call it before the script",
        command.to_uppercase()
    ))
}

/// Executes a command that has no keys and changes nothing.
fn about_the_server(name: &str, words: &[&[u8]], database: usize, reply: &mut Reply<'_>) -> Outcome {
    match name {
        "echo" => reply.bulk(words[1]),
        "ping" => return session::reply_to_ping(words, reply),
        "time" => session::reply_time(reply),
        "select" if integer(words[1])? == database as i64 => reply.ok(),
        "select" => return Err(OTHER_DATABASE),
        _ => return Err(NOT_ALLOWED),
    }
    Ok(())
}

//! The execution of requests and their commands on the states of keys.

use super::answer::Answer;
use super::conclude;
use super::plan::{Call, Plan};
use super::requests::{Request, What};
use crate::command::{
    Action, Client, Command, Context, Denial, Outbox, Patience, ReadCall, ScriptCall, SessionCall,
    UpdateCall, User, Watched,
};
use crate::failure::Failure;
use crate::protocol::Reply;
use crate::store::{Entry, KeyState, now_ms};
use std::ops::Range;
use std::sync::Arc;

/// Replies to a request with a failure.
pub fn reply_failure(context: &Context, request: &Request, answer: &mut Answer, failure: &Failure) {
    let mut reply = Reply::new(&mut answer.reply, answer.version);
    let start = reply.length();
    conclude(context, &mut reply, start, Err(failure.clone()));
    if request.is_silent {
        reply.truncate(start);
    }
}

/// Where commands are executed.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub context: &'a Context,
    pub database: usize,
    /// The states are not written.
    pub is_read_only: bool,
    /// How long scripts may run.
    pub patience: &'a Patience,
    /// Who has sent the request, if a script may be among them.
    pub user: Option<&'a Arc<User>>,
}

/// Executes a request on the states of all keys.
pub fn act_on(
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
        let denials = &mut answer.denials;
        let sender = match &mut client {
            Some(client) => Sender::Client(client, denials),
            None => Sender::Request(&mut answer.outbox, denials),
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

/// Who executes a command: the connection in a transaction of its own, or one of which only what it sends is changed;
/// and what its scripts are denied.
pub enum Sender<'a> {
    Client(&'a mut Client, &'a mut Vec<Denial>),
    Request(&'a mut Outbox, &'a mut Vec<Denial>),
}

/// Executes a command.
pub fn execute(
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
            let (outbox, denials) = match sender {
                Sender::Client(client, denials) => (&mut client.outbox, denials),
                Sender::Request(outbox, denials) => (outbox, denials),
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
                    denials,
                },
                reply,
            )
        }
        (Action::Session(run), Sender::Client(client, _)) => {
            run(&mut SessionCall { words, client, context }, reply)
        }
        (Action::Session(_) | Action::Slow(_) | Action::Exec, _) => Err(Failure::SYNTAX),
    };
    conclude(context, reply, start, outcome);
}

//! The requests of a transaction.

use crate::command::{Action, Client, Command, Context, Queued, Watched};
use crate::failure::Failure;
use std::ops::Range;

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
pub struct Request {
    /// The number of the connection in the job.
    pub connection: usize,
    /// The words, by their numbers in the job.
    pub words: Range<usize>,
    pub what: What,
    /// The client wants no reply.
    pub is_silent: bool,
    /// It is to be executed later.
    pub is_left: bool,
}

impl Request {
    /// Returns whether it is a script alone.
    pub fn is_script(&self) -> bool {
        matches!(self.what, What::Command(Command { action: Action::Script(_), .. }))
    }

    /// Returns whether it deletes keys, whose values it need not have at once.
    pub fn deletes(&self) -> bool {
        matches!(self.what, What::Command(Command { name: "del" | "unlink", .. }))
    }

    /// Returns whether it may succeed in another way after this failure.
    pub fn has_other_way(&self, failure: &Failure) -> bool {
        self.is_script() || (self.deletes() && *failure == Failure::TRANSACTION_TOO_LONG)
    }

    /// Returns whether the keys that the request watches, if it does, have not changed.
    pub fn may_succeed(&self, context: &Context) -> bool {
        match &self.what {
            What::Exec(exec) => context.watches.are_unchanged(&exec.watched),
            What::Command(_) | What::Failed(_) => true,
        }
    }
}

//! Transactions with scripts, which may run for long: the keys are locked for a short time only.
//!
//! ```text
//! locked      read the keys, execute; a script that does not end soon is stopped, and nothing is written
//! unlocked    execute on copies of what was read
//! locked      are the keys as they were read? then write, otherwise again
//! ```

use crate::command::Patience;
use crate::failure::Failure;
use crate::store::{KeyState, Store};
use std::time::Duration;

/// The time of a script while its keys are locked.
const LOCKED_TIME_MAX: Duration = Duration::from_millis(2);

/// How often the requests are executed without locks, before they are with locks for as long as they need.
const UNLOCKED_MAX: usize = 3;

/// A script needs more time than it has with locks.
pub const NEEDS_TIME: Failure = Failure::new("ERR a script needs more time");

/// Requests, some of which are scripts.
pub struct ScriptTransaction<'a> {
    pub store: &'a dyn Store,
    pub keys: &'a [&'a [u8]],
    /// A script may have more time than that with locks. It is the only request then.
    pub may_take_long: bool,
    /// The time of a script.
    pub time_max: Duration,
}

impl ScriptTransaction<'_> {
    /// Executes the requests by `execute`, which changes states. `are_unchanged` returns whether watched keys are as
    /// they were, and `note` is called with the states before they are written.
    ///
    /// # Errors
    /// Those of the store; [`NEEDS_TIME`].
    pub fn run(
        &self,
        execute: &mut dyn FnMut(&mut [KeyState], &Patience),
        are_unchanged: &dyn Fn() -> bool,
        note: &dyn Fn(&[KeyState]),
    ) -> Result<(), Failure> {
        let time_max = self.time_max.min(LOCKED_TIME_MAX);
        let (is_done, mut found) = self.run_locked(execute, time_max, note)?;
        if is_done {
            return Ok(());
        }
        if !self.may_take_long {
            return Err(NEEDS_TIME);
        }
        for _ in 0..UNLOCKED_MAX {
            let mut after = found.clone();
            execute(&mut after, &Patience::new(self.time_max));
            if after.iter().all(|state| state.change().is_none()) {
                return Ok(());
            }
            let mut is_written = false;
            self.transact(&mut |states| {
                let mut both = states.iter().zip(&found);
                is_written = are_unchanged() && both.all(|(now, before)| now.value() == before.value());
                if is_written {
                    note(&after);
                    states.clone_from_slice(&after);
                } else {
                    found = states.to_vec();
                }
            })?;
            if is_written {
                return Ok(());
            }
        }
        self.run_locked(execute, self.time_max, note).map(drop)
    }

    /// Executes the requests while the keys are locked. Returns whether no script needs more time, and the states as
    /// they were read.
    fn run_locked(
        &self,
        execute: &mut dyn FnMut(&mut [KeyState], &Patience),
        time_max: Duration,
        note: &dyn Fn(&[KeyState]),
    ) -> Result<(bool, Vec<KeyState>), Failure> {
        let (mut is_done, mut found) = (false, Vec::new());
        self.transact(&mut |states| {
            let patience = Patience::new(time_max);
            found = states.to_vec();
            execute(states, &patience);
            is_done = !patience.is_exceeded.get();
            if is_done {
                note(states);
            } else {
                states.clone_from_slice(&found);
            }
        })?;
        Ok((is_done, found))
    }

    fn transact(&self, act: &mut dyn FnMut(&mut [KeyState])) -> Result<(), Failure> {
        if self.keys.is_empty() {
            act(&mut []);
            return Ok(());
        }
        self.store.transact(self.keys, act)
    }
}

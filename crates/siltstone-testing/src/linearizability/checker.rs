//! Wing and Gong's search for an order that explains a history (JPDC 1993), just in time, as Lowe has it (Concurrency
//! and Computation 2017): an operation is put into the order no sooner than another's return asks for it, so that what
//! has to be remembered grows with the operations at the same time and not with the history.
//!
//! Keys are independent, so each one's history is checked by itself.

use std::collections::HashSet;
use std::fmt;

/// What a key holds: the number of a value, or nothing.
type State = Option<u64>;

/// What an operation did to a key, as far as its caller can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It was read.
    Read(State),
    /// It was put, or deleted.
    Write(State),
    /// It was put if it was not there.
    InsertIfAbsent {
        /// The value.
        value: u64,
        /// Whether it was put.
        inserted: bool,
    },
    /// It was read and written, with nothing in between.
    Update {
        /// What was read.
        seen: State,
        /// What was written.
        written: State,
    },
}

impl Action {
    /// The state after it; `None` if it cannot have happened in this state.
    fn apply(self, state: State) -> Option<State> {
        match self {
            Action::Read(seen) => (seen == state).then_some(state),
            Action::Write(written) => Some(written),
            Action::InsertIfAbsent { value, inserted } => {
                (inserted == state.is_none()).then_some(state.or(Some(value)))
            }
            Action::Update { seen, written } => (seen == state).then_some(written),
        }
    }
}

/// When an operation returned of which nobody knows whether it happened: its caller was told an error. It may happen at
/// any moment after its call, or never.
pub const NEVER_RETURNED: u64 = u64::MAX;

/// An operation on a key: at moments that are all different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When it was called.
    pub called: u64,
    /// When it returned, or [`NEVER_RETURNED`].
    pub returned: u64,
    /// What it did.
    pub action: Action,
}

/// No order of the operations explains what they saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The operation with whose return that is certain.
    pub event: Event,
    /// Those that were under way then.
    pub concurrent: Vec<Event>,
    /// What the key may have held before all of these.
    pub states: Vec<Option<u64>>,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotLinearizable { event, concurrent, states } = self;
        write!(to, "{event:?} has no place after {states:?} among {concurrent:?}")
    }
}

/// The most operations on a key at the same time.
const CONCURRENT_MAX: usize = u64::BITS as usize;

/// What may be the case: a state, and which of the operations under way have happened, a bit each.
type Case = (State, u64);

/// Whether some order explains the history of a key that held `initial` before it. The order of `history` is of no
/// matter.
///
/// # Errors
/// If there is none.
///
/// # Panics
/// If more than 64 operations are under way at the same time.
pub fn check(initial: Option<u64>, history: &[Event]) -> Result<(), Box<NotLinearizable>> {
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * history.len());
    for (number, event) in history.iter().enumerate() {
        moments.push((event.called, false, number));
        if event.returned != NEVER_RETURNED {
            moments.push((event.returned, true, number));
        }
    }
    moments.sort_unstable();
    let mut under_way: Vec<Option<usize>> = Vec::new();
    let mut cases: HashSet<Case> = HashSet::from([(initial, 0)]);
    for (_, returns, number) in moments {
        let place = under_way.iter().position(|other| *other == returns.then_some(number));
        let place = place.unwrap_or_else(|| {
            assert!(
                under_way.len() < CONCURRENT_MAX,
                "more than {CONCURRENT_MAX} operations at the same time"
            );
            under_way.push(None);
            under_way.len() - 1
        });
        if !returns {
            under_way[place] = Some(number);
            continue;
        }
        let actions: Vec<_> =
            under_way.iter().map(|other| other.map(|other| history[other].action)).collect();
        let after = happen(&cases, &actions, place);
        if after.is_empty() {
            let others = under_way.iter().flatten().filter(|other| **other != number);
            return Err(Box::new(NotLinearizable {
                event: history[number],
                concurrent: others.map(|other| history[*other]).collect(),
                states: cases.iter().map(|(state, _)| *state).collect(),
            }));
        }
        cases = after;
        under_way[place] = None;
    }
    Ok(())
}

/// What may be the case when the operation at `place` has happened, and perhaps others before it.
fn happen(cases: &HashSet<Case>, under_way: &[Option<Action>], place: usize) -> HashSet<Case> {
    let (mut seen, mut after) = (cases.clone(), HashSet::new());
    let mut open: Vec<Case> = cases.iter().copied().collect();
    while let Some((state, happened)) = open.pop() {
        if happened & 1 << place != 0 {
            after.insert((state, happened & !(1 << place)));
            continue;
        }
        for (number, action) in under_way.iter().enumerate() {
            if let Some(action) = action
                && happened & 1 << number == 0
                && let Some(next) = action.apply(state)
                && seen.insert((next, happened | 1 << number))
            {
                open.push((next, happened | 1 << number));
            }
        }
    }
    after
}

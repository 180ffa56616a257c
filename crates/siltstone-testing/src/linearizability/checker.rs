//! The search of Wing and Gong for an order that explains a history (JPDC 1993), with Lowe's just-in-time linearization
//! (Concurrency and Computation 2017): an operation gets its place in the order only when the return of another one
//! requires it. So the memory needed grows with the number of concurrent operations, not with the history.
//!
//! Keys are independent: the history of each key is checked separately.
//!
//! ```text
//! put(1) |-----------|
//! get        |--1--|      possible: put(1), get
//! get                |--none--|   not possible: the put returned before
//! ```

use std::collections::HashSet;
use std::fmt;

/// The state of a key: the number of its value, or `None`.
type State = Option<u64>;

/// An operation on a key, as its caller saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The key was read.
    Read(State),
    /// The key was put or deleted.
    Write(State),
    /// The key was put if it was absent.
    InsertIfAbsent {
        /// The value.
        value: u64,
        /// Whether it was put.
        inserted: bool,
    },
    /// The value of the key was compared with this one and differed.
    Differs(State),
    /// The key was read and written atomically.
    Update {
        /// The value that was read.
        seen: State,
        /// The value that was written.
        written: State,
    },
}

impl Action {
    /// Returns the state after the operation; `None` if it is not possible in this state.
    fn apply(self, state: State) -> Option<State> {
        match self {
            Action::Read(seen) => (seen == state).then_some(state),
            Action::Write(written) => Some(written),
            Action::InsertIfAbsent { value, inserted } => {
                (inserted == state.is_none()).then_some(state.or(Some(value)))
            }
            Action::Differs(compared) => (compared != state).then_some(state),
            Action::Update { seen, written } => (seen == state).then_some(written),
        }
    }
}

/// The return of an operation that returned an error: it may take effect at any moment after its call, or never.
pub const NEVER_RETURNED: u64 = u64::MAX;

/// An operation on a key. All moments are different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When it was called.
    pub called: u64,
    /// When it returned, or [`NEVER_RETURNED`].
    pub returned: u64,
    /// The operation.
    pub action: Action,
}

/// No order of the operations explains what they saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLinearizable {
    /// The operation at whose return this is certain.
    pub event: Event,
    /// The operations that were running then.
    pub concurrent: Vec<Event>,
    /// The possible states of the key before all of these.
    pub states: Vec<Option<u64>>,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotLinearizable { event, concurrent, states } = self;
        write!(to, "{event:?} has no place after {states:?} among {concurrent:?}")
    }
}

/// The maximum number of concurrent operations on a key.
const CONCURRENT_MAX: usize = u64::BITS as usize;

/// A possible state, with a bit for each running operation that has taken effect.
type Case = (State, u64);

/// Checks that some order explains the history of a key with the state `initial` before it. `history` can have any
/// order.
///
/// # Errors
/// If there is no such order.
///
/// # Panics
/// If more than 64 operations run at the same time.
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

/// Returns the possible states in which the operation at `place` has taken effect, perhaps after others.
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

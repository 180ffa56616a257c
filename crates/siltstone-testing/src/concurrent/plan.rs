//! What a seed determines: the database, the operations of each thread, the fault, and the end.

use crate::engines::TestEngine;
use crate::omission::Omission;
use crate::simulated::{Call, Crash, FailingCall};
use siltstone::Durability;
use siltstone::engine::{CommonSettings, EngineSettings};

/// An operation of a thread. Keys are numbers of the thread's own keys, or of those that all threads share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Own keys, put or deleted together.
    Write(Vec<(u32, bool)>, Durability),
    /// A shared counter.
    Increment(u32, Durability),
    /// A shared key, with the database's own durability.
    Insert(u32),
    Get(Key),
    GetMany(Vec<Key>),
    Iterate,
    Sync,
    Compact,
    Verify,
}

/// A key, by the operations on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Written by one thread only, so that the order of its writes is known.
    Own { writer: usize, number: u32 },
    /// A counter that all threads increment.
    Counter(u32),
    /// Inserted by the first thread that tries.
    Inserted(u32),
}

/// The length of all keys, in bytes.
pub(super) const KEY_BYTES: usize = 9;
/// Shared keys of each kind.
pub(super) const SHARED_KEYS: u32 = 3;

impl Key {
    pub fn bytes(self) -> [u8; KEY_BYTES] {
        let (kind, number) = match self {
            Key::Own { writer, number } => (writer as u8, number),
            Key::Counter(number) => (b'c', number),
            Key::Inserted(number) => (b'i', number),
        };
        let mut bytes = [kind; KEY_BYTES];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Key> {
        let number = u32::from_be_bytes(*bytes.first_chunk()?);
        let key = match *bytes.last()? {
            b'c' => Key::Counter(number),
            b'i' => Key::Inserted(number),
            writer => Key::Own { writer: writer.into(), number },
        };
        (key.bytes() == bytes).then_some(key)
    }
}

/// The plan of a run.
#[derive(Clone)]
pub struct Plan {
    pub(super) seed: u64,
    pub(super) common: CommonSettings,
    pub(super) engine: TestEngine,
    /// The seed of the settings of the engine.
    settings_seed: u64,
    /// The minimum and maximum length of values, in bytes.
    pub(super) value_bytes: (usize, usize),
    pub(super) durability: Durability,
    pub(super) writers: usize,
    pub(super) own_keys: u32,
    /// The operations of each thread, the writers first.
    pub(super) threads: Vec<Vec<Action>>,
    pub(super) failing: Option<FailingCall>,
    /// The power fails at this change of the device.
    pub(super) power_off: Option<u64>,
    /// How the database ends if the power does not fail; `None` if it is closed.
    pub(super) ending: Option<Crash>,
}

impl Plan {
    /// Returns the plan of a seed for an engine.
    pub fn from_seed(engine: &TestEngine, seed: u64) -> Plan {
        let random = &mut fastrand::Rng::with_seed(seed);
        let writers = random.usize(2..=3);
        let own_keys = random.u32(6..=24);
        let fixed = random.bool();
        let longest = [30, 100, 400][random.usize(..3)];
        let value_bytes = if fixed { (longest, longest) } else { (8, longest) };
        let actions_max = [12, 25, 50][random.usize(..3)];
        let drawn = Drawn { writers, own_keys, seldom_synced: random.bool() };
        let mut threads: Vec<Vec<Action>> = (0..writers)
            .map(|_| {
                (0..random.usize(actions_max / 2..=actions_max)).map(|_| drawn.writing(random)).collect()
            })
            .collect();
        threads.extend(
            (0..random.usize(..2))
                .map(|_| (0..actions_max).map(|_| drawn.reading(random)).collect::<Vec<_>>()),
        );
        let (failing, power_off) = match random.u8(..8) {
            0 => (None, None),
            1 | 2 => (None, Some(random.u64(1..200))),
            _ => (Some(failing_call(engine, random)), None),
        };
        let settings_seed = random.get_seed();
        let mut common = common_settings(random, fixed.then_some((KEY_BYTES, longest)));
        // Removes the settings that the engine does not have.
        (engine.draw_tiny)(&mut fastrand::Rng::with_seed(settings_seed), &mut common);
        let durability = [Durability::Written, Durability::Synced][random.usize(..2)];
        let ending = (random.u8(..4) > 0).then(|| Crash::random(random));
        // With more than two, several conversions and merges are in progress at once.
        common.threads = random.usize(2..=4);
        Plan {
            seed,
            engine: engine.clone(),
            settings_seed,
            common,
            value_bytes,
            durability,
            writers,
            own_keys,
            threads,
            failing,
            power_off,
            ending,
        }
    }

    /// Returns the settings of the engine.
    pub(super) fn settings(&self) -> Box<dyn EngineSettings> {
        let mut common = self.common.clone();
        (self.engine.draw_tiny)(&mut fastrand::Rng::with_seed(self.settings_seed), &mut common)
    }

    /// Prints the plan, with a line per thread.
    pub fn describe(&self) -> String {
        let threads: Vec<_> = self.threads.iter().map(|actions| format!("  {actions:?}")).collect();
        format!(
            "{:?}\nfails: {:?}, loses power: {:?}, ends: {:?}, writes are {:?}\n{}",
            self.settings(),
            self.failing,
            self.power_off,
            self.ending,
            self.durability,
            threads.join("\n")
        )
    }
}

/// What all threads share.
struct Drawn {
    writers: usize,
    own_keys: u32,
    seldom_synced: bool,
}

impl Drawn {
    fn durability(&self, random: &mut fastrand::Rng) -> Durability {
        match random.u8(..8) {
            0 => Durability::Buffered,
            1 => Durability::Synced,
            2..5 if !self.seldom_synced => Durability::Synced,
            _ => Durability::Written,
        }
    }

    fn key(&self, random: &mut fastrand::Rng) -> Key {
        match random.u8(..6) {
            0 => Key::Counter(random.u32(..SHARED_KEYS)),
            1 => Key::Inserted(random.u32(..SHARED_KEYS)),
            _ => Key::Own { writer: random.usize(..self.writers), number: random.u32(..self.own_keys) },
        }
    }

    fn writing(&self, random: &mut fastrand::Rng) -> Action {
        let write = |random: &mut fastrand::Rng| (random.u32(..self.own_keys), random.u8(..6) > 0);
        match random.u8(..32) {
            0..14 => Action::Write(vec![write(random)], self.durability(random)),
            14..20 => {
                let count = random.usize(2..8);
                let mut writes: Vec<_> = (0..count).map(|_| write(random)).collect();
                writes.sort_unstable();
                writes.dedup_by_key(|(number, _)| *number);
                Action::Write(writes, self.durability(random))
            }
            20..23 => Action::Increment(random.u32(..SHARED_KEYS), self.durability(random)),
            23 | 24 => Action::Insert(random.u32(..SHARED_KEYS)),
            25 => Action::Sync,
            26 if random.bool() => Action::Compact,
            _ => self.reading(random),
        }
    }

    fn reading(&self, random: &mut fastrand::Rng) -> Action {
        match random.u8(..16) {
            0..9 => Action::Get(self.key(random)),
            9..12 => Action::GetMany((0..random.usize(1..6)).map(|_| self.key(random)).collect()),
            12..15 => Action::Iterate,
            _ => Action::Verify,
        }
    }
}

/// Returns a failure of a frequent or a rare call.
fn failing_call(engine: &TestEngine, random: &mut fastrand::Rng) -> FailingCall {
    let call = match random.u8(..8) {
        0..2 => Call::Read,
        2..4 => Call::Write,
        4..6 => Call::Sync,
        _ => Call::ALL[random.usize(..Call::ALL.len())],
    };
    let name_part = match call {
        Call::SyncDirectory => "",
        _ => {
            let synced = engine.omissions.iter().filter_map(|omission| match omission {
                Omission::SyncOf(name_part) => Some(*name_part),
                _ => None,
            });
            let parts: Vec<_> = std::iter::once("").chain(synced).collect();
            parts[random.usize(..parts.len())]
        }
    };
    let frequent = matches!(call, Call::Read | Call::Write | Call::Sync);
    let frequent = frequent && (name_part.is_empty() || name_part == "log-" || call == Call::Read);
    let most = if frequent { 100.0f64 } else { 8.0 };
    FailingCall {
        call: Some(call),
        name_part,
        after: most.powf(random.f64()) as u64 - 1,
        for_ever: random.u8(..3) == 0,
    }
}

fn common_settings(random: &mut fastrand::Rng, fixed: Option<(usize, usize)>) -> CommonSettings {
    let partitions = Some(1 << random.u32(..3));
    CommonSettings { fixed, partitions, block_bytes: Some(512), ..CommonSettings::default() }
}

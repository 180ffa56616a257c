//! Test doubles and simulations for Siltstone, and the command that runs them at length.
//!
//! Everything is driven by seeds: the same seed and the same calls give the same outcome on every machine.
//!
//! | module | contains |
//! |---|---|
//! | [`simulated`] | A directory on a simulated device that loses power, fails, and damages what is stored |
//! | [`intercepted`] | A directory whose calls a test can delay, fail or leave out |
//! | [`operations`] | Random operations on a database |
//! | [`mod@reference`] | The reference model: what a database may return after these operations and crashes |
//! | [`omission`] | Calls that an engine can omit |
//! | [`engines`] | The engines under test, with a row per engine |
//! | [`append_log`] | The smallest engine, the example of `docs/ENGINES.md` |
//! | [`simulation`] | Databases that run random operations on a simulated device, compared with the model |
//! | `concurrent` | The same with several threads, scheduled by Shuttle (`--cfg shuttle`) |
//! | [`linearizability`] | Threads on a real database, and a checker of what they saw |
//! | [`flips`] | Single flipped bits in each kind of file |
//! | [`victim`] | A process that writes and is killed |

pub mod append_log;
#[cfg(shuttle)]
pub mod concurrent;
pub mod engines;
#[cfg(test)]
mod file_damage;
pub mod flips;
#[cfg(test)]
mod forged;
pub mod intercepted;
pub mod linearizability;
pub mod omission;
pub mod operations;
pub mod reference;
pub mod simulated;
pub mod simulation;
pub mod victim;

pub use engines::TestEngine;
pub use intercepted::Intercepted;
pub use operations::{Operation, OperationKind, Workload};
pub use reference::{Ending, Reference, Violation};
pub use simulated::{Call, Crash, Damage, FailingCall, Faults, SimulatedDirectory, Survival};
pub use simulation::Simulation;
pub use victim::Victim;

/// Returns how many seeds per engine a test simulates: `SILTSTONE_SEEDS`, or 500.
///
/// # Panics
/// If the variable is no number.
#[expect(clippy::panic, reason = "only tests call it")]
pub fn seeds() -> u64 {
    match std::env::var("SILTSTONE_SEEDS") {
        Ok(seeds) => seeds.parse().unwrap_or_else(|error| panic!("SILTSTONE_SEEDS: {error}")),
        Err(_) => 500,
    }
}

#[cfg(test)]
mod tests;

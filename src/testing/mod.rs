//! The doubles, each of them once: a simulated device, a generator of operations and a reference model.
//!
//! Tests of all crates, the fuzz targets and the benchmarks use them; nothing here is part of the public face. All is
//! driven by seeds: the same seed and the same calls give the same outcome on every machine.

#[cfg(shuttle)]
pub mod concurrent;
#[cfg(test)]
mod file_damage;
pub mod flips;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod intercepted;
pub mod linearizability;
pub mod operations;
pub mod reference;
pub mod simulated;
pub mod simulation;
pub mod victim;

#[cfg(test)]
pub(crate) use intercepted::Intercepted;
pub use operations::{Operation, OperationKind, Workload};
pub use reference::{Ending, Reference, Violation};
pub use simulated::{Call, Crash, Damage, FailingCall, Faults, SimulatedDirectory, Survival};
pub use simulation::Simulation;
pub use victim::Victim;

#[cfg(test)]
mod tests;

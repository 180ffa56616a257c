//! Shrinks a failing run: leaves out operations as long as the run still fails in the same way.

use super::{Configuration, Failure, Simulation};
use crate::operations::Operation;
use siltstone_device::Access;
use std::path::Path;

/// The maximum number of runs.
const TRIES_MAX: u32 = 3000;

/// Returns a shorter run that fails in the same way, as the first words of the failure show.
pub fn shrink(
    mut simulation: Simulation,
    mut failure: Failure,
    scratch: Option<&Path>,
) -> (Simulation, Failure) {
    let mut tries = 0;
    let kind = first_words(&failure);
    let mut attempt = |candidate: Simulation, simulation: &mut Simulation, failure: &mut Failure| {
        tries += 1;
        match candidate.run(scratch) {
            Err(found) if tries <= TRIES_MAX && first_words(&found) == kind => {
                (*simulation, *failure) = (candidate, found);
                true
            }
            _ => false,
        }
    };
    for simplify in SIMPLER {
        let mut candidate = simulation.clone();
        simplify(&mut candidate.configuration);
        attempt(candidate, &mut simulation, &mut failure);
    }
    let mut chunk = simulation.operations.len().div_ceil(2);
    while chunk > 0 {
        let (before, mut start) = (simulation.operations.len(), 0);
        while start < simulation.operations.len() {
            let mut candidate = simulation.clone();
            candidate.operations.drain(start..(start + chunk).min(candidate.operations.len()));
            if !attempt(candidate, &mut simulation, &mut failure) {
                start += chunk;
            }
        }
        if chunk > 1 || simulation.operations.len() == before {
            chunk /= 2;
        }
    }
    for at in 0..simulation.operations.len() {
        while let Some(simpler) = simpler(&simulation.operations[at]) {
            let mut candidate = simulation.clone();
            candidate.operations[at] = simpler;
            if !attempt(candidate, &mut simulation, &mut failure) {
                break;
            }
        }
    }
    (simulation, failure)
}

/// Simpler configurations.
const SIMPLER: [fn(&mut Configuration); 4] = [
    |configuration| configuration.common.partitions = configuration.common.partitions.map(|_| 1),
    |configuration| configuration.settings_seed = None,
    |configuration| configuration.access = Access::Buffered,
    |configuration| configuration.collisions = None,
];

fn first_words(failure: &Failure) -> String {
    let words = failure.violation.to_string();
    words.split_whitespace().take(if words.starts_with("key ") { 1 } else { 4 }).collect()
}

/// Returns the operation with half of its parts.
fn simpler(operation: &Operation) -> Option<Operation> {
    match operation {
        Operation::Batch { writes, durability } if writes.len() > 1 => {
            let writes = writes[..writes.len() / 2].to_vec();
            Some(Operation::Batch { writes, durability: *durability })
        }
        Operation::GetMany(keys) if keys.len() > 1 => {
            Some(Operation::GetMany(keys[..keys.len() / 2].to_vec()))
        }
        Operation::Step(count) if *count > 1 => Some(Operation::Step(count / 2)),
        _ => None,
    }
}

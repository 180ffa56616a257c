//! Canaries: mistakes and omissions of the engine that simulations must find.

use super::{Failure, Simulation, shrink};
use crate::engines::TestEngine;
use crate::engines::mistakes::{FoundBy, Mistaken, mistaken};
use crate::omission::Omission;

/// The number of seeds within which a mistake must be found.
const SEEDS: u64 = 1500;

/// A failure shrinks to as many operations, at least one of the first failures of a mistake.
const OPERATIONS_MAX: usize = 50;
const FAILURES_MAX: usize = 3;

fn failures(
    engine: &TestEngine,
    omission: Option<Omission>,
) -> impl Iterator<Item = (Simulation, Failure)> + '_ {
    (0..SEEDS).filter_map(move |seed| {
        let mut simulation = Simulation::from_seed(engine, seed);
        simulation.configuration.omission = omission;
        simulation.run(None).err().map(|failure| (simulation, failure))
    })
}

/// Seeds that once failed, of faults that few seeds find.
#[test]
fn seeds_that_have_found_faults_keep_every_guarantee() {
    let seeds = [
        ("flashkey", 29_490),
        ("flashkey", 220_394),
        ("flashstore", 1_051_788),
        ("flashstore", 1_054_423),
        ("flashstore-cache", 500_752),
    ];
    for (name, seed) in seeds {
        let engine = TestEngine::simulated().find(|engine| engine.info.name == name).unwrap();
        let outcome = Simulation::from_seed(&engine, seed).run(None);
        assert!(outcome.is_ok(), "{name}, seed {seed}: {outcome:?}");
    }
}

#[test]
fn every_mistake_is_found_and_shrinks_to_a_few_operations() {
    for Mistaken { engine, mistake, .. } in mistaken(FoundBy::OneThread) {
        let mut found = failures(&engine, None);
        // A failure that needs full segments may take more operations than that of another seed.
        let is_short = (0..FAILURES_MAX).any(|number| {
            let Some((simulation, failure)) = found.next() else { return false };
            let (short, last) = shrink(simulation.clone(), failure, None);
            let (all, left) = (simulation.operations.len(), short.operations.len());
            println!(
                "{engine:?}, {mistake}: {number}: seed {}, {all} operations, shrunk to {left}: {last}",
                simulation.seed
            );
            left <= OPERATIONS_MAX
        });
        assert!(is_short, "{engine:?}, {mistake} was not found, or not with few operations");
    }
}

#[test]
fn every_omission_is_found() {
    for engine in TestEngine::persistent() {
        for omission in engine.omissions {
            let failure = failures(&engine, Some(*omission)).next();
            let found = failure.as_ref().map(|(simulation, failure)| (simulation.seed, failure));
            println!("{engine:?}, {omission:?}: {found:?}");
            assert!(failure.is_some(), "{engine:?}, {omission:?} was not found");
        }
    }
}

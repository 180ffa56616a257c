//! Canaries: mistakes and omissions of the engine that simulations must find.

use super::{Failure, Omission, Simulation, shrink};
use siltstone::engine::silt::Mistake;

/// The number of seeds within which a mistake must be found.
const SEEDS: u64 = 1500;

fn first_failure(change: impl Fn(&mut Simulation)) -> Option<(Simulation, Failure)> {
    (0..SEEDS).find_map(|seed| {
        let mut simulation = Simulation::from_seed(seed);
        change(&mut simulation);
        simulation.run(None).err().map(|failure| (simulation, failure))
    })
}

#[test]
fn a_seed_repeats_itself() {
    for seed in 0..20 {
        let (one, other) = (Simulation::from_seed(seed), Simulation::from_seed(seed));
        assert_eq!(one, other);
        assert_eq!(one.run(None), other.run(None));
    }
}

#[test]
fn every_mistake_of_the_engine_is_found_and_shrinks_to_a_few_operations() {
    for mistake in [
        Mistake::CommitsBeforeTheLog,
        Mistake::ReleasesTooMuch,
        Mistake::GoesOnAfterAFailure,
        Mistake::DropsDeletes,
    ] {
        let failure = first_failure(|simulation| {
            let settings = simulation.configuration.settings.clone();
            simulation.configuration.settings = settings.mistake(Some(mistake));
        });
        let Some((simulation, failure)) = failure else { panic!("{mistake:?} was not found") };
        let (short, last) = shrink(simulation.clone(), failure, None);
        println!(
            "{mistake:?}: seed {}, {} operations, shrunk to {}: {last}",
            simulation.seed,
            simulation.operations.len(),
            short.operations.len()
        );
        assert!(short.operations.len() <= 50, "{mistake:?}: {}", short.describe());
    }
}

#[test]
fn every_omission_is_found() {
    for omission in [
        Omission::SyncOf("log-"),
        Omission::SyncOf("MANIFEST"),
        Omission::SyncOf(".hash"),
        Omission::SyncOf(".sorted"),
        Omission::SyncOfTheDirectory,
        Omission::Truncation,
        Omission::ErrorsOfWrites,
        Omission::ErrorsOfSyncs,
        Omission::Removal,
    ] {
        let failure = first_failure(|simulation| simulation.configuration.omission = Some(omission));
        println!(
            "{omission:?}: {:?}",
            failure.as_ref().map(|(simulation, failure)| (simulation.seed, failure))
        );
        assert!(failure.is_some(), "{omission:?} was not found");
    }
}

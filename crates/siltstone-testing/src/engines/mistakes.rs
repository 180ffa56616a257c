//! The deliberate mistakes of the engines, which simulations must find. The library has them only with the feature
//! `mistakes`, so only tests and builds with Shuttle have this module.

use super::bloomstore::{random_bloomstore, tiny_bloomstore};
use super::flashkey::{random_flashkey, tiny_flashkey};
use super::flashstore::{random_cache, random_flashstore};
use super::silt::{random_silt, tiny_silt};
use super::{Draw, TestEngine};
use siltstone::engine::{bloomstore, flashkey, flashstore, silt};
use std::sync::Arc;

/// The simulations that must find a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// Those with one thread.
    OneThread,
    /// Those with several threads.
    Threads,
    /// Both.
    Both,
}

/// An engine that makes a mistake.
#[derive(Debug, Clone)]
pub struct Mistaken {
    /// The engine with the mistake in its random settings.
    pub engine: TestEngine,
    /// The name of the mistake.
    pub mistake: String,
    found_by: FoundBy,
}

/// Returns the engines with each of their mistakes that simulations with one thread, or else with several, must find.
pub fn mistaken(by: FoundBy) -> impl Iterator<Item = Mistaken> {
    let all = of_silt().chain(of_bloomstore()).chain(of_flashkey()).chain(of_flashstore()).chain(of_cache());
    all.filter(move |mistaken| [by, FoundBy::Both].contains(&mistaken.found_by))
}

fn of_silt() -> impl Iterator<Item = Mistaken> {
    use silt::Mistake::{
        CommitsBeforeTheLog, DropsDeletes, GoesOnAfterAFailure, ReadsBeforeLocking, RecordsFailuresLate,
        ReleasesTooMuch,
    };
    let mistakes = [
        (CommitsBeforeTheLog, FoundBy::Both),
        (ReleasesTooMuch, FoundBy::Both),
        (GoesOnAfterAFailure, FoundBy::Both),
        (DropsDeletes, FoundBy::Both),
        (RecordsFailuresLate, FoundBy::Threads),
        (ReadsBeforeLocking, FoundBy::Threads),
    ];
    mistakes.into_iter().map(|(mistake, found_by)| {
        let draw: Draw =
            Arc::new(move |random, common| random_silt(random, common).mistake(Some(mistake)).into());
        let draw_tiny: Draw =
            Arc::new(move |random, common| tiny_silt(random, common).mistake(Some(mistake)).into());
        let engine = TestEngine { draw, draw_tiny, ..TestEngine::silt() };
        Mistaken { engine, mistake: format!("{mistake:?}"), found_by }
    })
}

/// The mistakes of its chains. It shares the others with SILT.
fn of_bloomstore() -> impl Iterator<Item = Mistaken> {
    use bloomstore::Mistake::{ChainBeforeRun, DropsDeletes, OmitsColumn, OmitsFromPrefilter, ReversesRuns};
    let mistakes = [
        (ChainBeforeRun, FoundBy::OneThread),
        (OmitsColumn, FoundBy::Both),
        (ReversesRuns, FoundBy::Both),
        (OmitsFromPrefilter, FoundBy::OneThread),
        (DropsDeletes, FoundBy::OneThread),
    ];
    mistakes.into_iter().map(|(mistake, found_by)| {
        let draw: Draw = Arc::new(move |random, common| {
            random_bloomstore(random, common).prefilter_bits(4).mistake(Some(mistake)).into()
        });
        let draw_tiny: Draw = Arc::new(move |random, _| {
            tiny_bloomstore(random).prefilter_bits(4).mistake(Some(mistake)).into()
        });
        let engine = TestEngine { draw, draw_tiny, ..TestEngine::bloomstore() };
        Mistaken { engine, mistake: format!("{mistake:?}"), found_by }
    })
}

fn of_flashkey() -> impl Iterator<Item = Mistaken> {
    use flashkey::Mistake::{
        DropsDeletes, GoesOnAfterAFailure, KeepsTheOlder, ReleasesBeforeRedo, WritesRedoBeforeTheLogs,
    };
    let mistakes = [
        (ReleasesBeforeRedo, FoundBy::Both),
        (WritesRedoBeforeTheLogs, FoundBy::OneThread),
        (DropsDeletes, FoundBy::OneThread),
        (KeepsTheOlder, FoundBy::Both),
        (GoesOnAfterAFailure, FoundBy::Both),
    ];
    mistakes.into_iter().map(|(mistake, found_by)| {
        let draw: Draw =
            Arc::new(move |random, common| random_flashkey(random, common).mistake(Some(mistake)).into());
        let draw_tiny: Draw =
            Arc::new(move |random, common| tiny_flashkey(random, common).mistake(Some(mistake)).into());
        let engine = TestEngine { draw, draw_tiny, ..TestEngine::flashkey() };
        Mistaken { engine, mistake: format!("{mistake:?}"), found_by }
    })
}

fn of_flashstore() -> impl Iterator<Item = Mistaken> {
    use flashstore::Mistake::{
        DestagesWithoutSync, GoesOnAfterAFailure, PromotesOverNewer, ReleasesBeforeRedo, RemovesBeforeDestage,
    };
    let mistakes = [
        (DestagesWithoutSync, FoundBy::OneThread),
        (RemovesBeforeDestage, FoundBy::OneThread),
        (PromotesOverNewer, FoundBy::OneThread),
        (ReleasesBeforeRedo, FoundBy::OneThread),
        (GoesOnAfterAFailure, FoundBy::OneThread),
    ];
    mistakes.into_iter().map(|(mistake, found_by)| {
        let draw: Draw =
            Arc::new(move |random, common| random_flashstore(random, common).mistake(Some(mistake)).into());
        let engine = TestEngine { draw: draw.clone(), draw_tiny: draw, ..TestEngine::flashstore() };
        Mistaken { engine, mistake: format!("{mistake:?}"), found_by }
    })
}

/// Those of FlashStore as a cache: in what its puts and deletes remove.
fn of_cache() -> impl Iterator<Item = Mistaken> {
    use flashstore::Mistake::{DropsDeletes, KeepsRejected};
    [DropsDeletes, KeepsRejected].into_iter().map(|mistake| {
        let draw: Draw =
            Arc::new(move |random, common| random_cache(random, common).mistake(Some(mistake)).into());
        let engine = TestEngine { draw: draw.clone(), draw_tiny: draw, ..TestEngine::flashstore_cache() };
        Mistaken { engine, mistake: format!("{mistake:?}"), found_by: FoundBy::OneThread }
    })
}

//! The change feed after kills, losses of power and failures, on a simulated device: a follower that reads it has what
//! the database has.

use fastrand::Rng;
use siltstone::engine::{Change, EngineKind, Step};
use siltstone::{Batch, Bytes, ChangePosition, Database, Durability, Error, Result, WriteOptions};
use siltstone_device::{Access, Directory};
use siltstone_testing::engines::complete_settings;
use siltstone_testing::{Call, Crash, FailingCall, SimulatedDirectory};
use std::collections::BTreeMap;

const ROUNDS: usize = 6;
const SEEDS: u64 = 12;
/// With this one, a failed write loses what a follower has read.
const SEED_OF_LOSS: u64 = 266;

/// What a follower has, and whether it had to read all records again.
struct Follower {
    records: BTreeMap<Bytes, Bytes>,
    position: ChangePosition,
    losses: usize,
}

fn all_records(database: &Database) -> Result<BTreeMap<Bytes, Bytes>> {
    database.iter()?.map(|record| record.map(|record| (record.key, record.value))).collect()
}

impl Follower {
    fn of(database: &Database) -> Result<Follower> {
        let position = database.change_position()?;
        Ok(Follower { records: all_records(database)?, position, losses: 0 })
    }

    /// Applies all changes, or reads all records if some are lost.
    fn follow(&mut self, database: &Database) -> Result<()> {
        loop {
            let changes = match database.changes(self.position, 7) {
                Err(Error::ChangesLost { .. }) => {
                    *self = Follower { losses: self.losses + 1, ..Follower::of(database)? };
                    return Ok(());
                }
                changes => changes?,
            };
            for (key, value) in changes.keys.iter().zip(database.get_many(&changes.keys)?) {
                match value {
                    Some(value) => drop(self.records.insert(key.clone(), value)),
                    None => drop(self.records.remove(key)),
                }
            }
            self.position = changes.next;
            if changes.keys.is_empty() {
                return Ok(());
            }
        }
    }
}

fn open(kind: EngineKind, device: &SimulatedDirectory) -> Result<Database> {
    let builder =
        Database::builder("").engine(complete_settings(kind)).change_feed(64 << 10).background_threads(0);
    builder.open_in(Directory::new(device.clone(), Access::Buffered))
}

/// Returns a call that fails once, after some others.
fn failing_call(random: &mut Rng) -> FailingCall {
    let call = random.choice([Call::Write, Call::Sync, Call::SyncDirectory]);
    FailingCall { call, name_part: "", after: random.u64(..80), for_ever: false }
}

/// Does one random operation.
fn operate(database: &Database, random: &mut Rng, follower: &mut Follower) -> Result<()> {
    let durability = random.choice(Durability::ALL).unwrap_or(Durability::Written);
    let options = WriteOptions::default().durability(durability);
    let key = [random.u8(..60), 1];
    let value = vec![random.u8(..); random.usize(..300)];
    match random.u8(..12) {
        0..5 => database.put_with(key, value, options),
        5 => database.delete_with(key, options),
        6 => {
            let batch: Batch = (0..random.u8(1..40)).map(|n| ([n, 1], value.clone())).collect();
            database.write_with(&batch, options)
        }
        7 => database.update_with(key, options, |found| {
            Ok(if found.is_some() {
                Change::Delete
            } else {
                Change::Put { value: value.clone().into(), expires_at_ms: 0 }
            })
        }),
        8 => database.bulk_load((0..30_u8).map(|n| ([n, 2], [value.len() as u8]))).map(drop),
        9 => follower.follow(database),
        10 => database.sync(),
        _ => (0..20).try_for_each(|_| match database.step()? {
            Step::Idle | Step::Worked => Ok(()),
        }),
    }
}

/// Returns how often the feed lost changes, of all crashes.
fn run(kind: EngineKind, seed: u64) -> Result<(usize, usize)> {
    let mut random = Rng::with_seed(seed);
    let mut device = SimulatedDirectory::new(seed);
    let mut follower = Follower::of(&open(kind, &device)?)?;
    let (mut losses, mut crashes, mut may_lose) = (0, 0, false);
    for round in 0..ROUNDS {
        let database = open(kind, &device)?;
        follower.follow(&database)?;
        let what = format!("{} with seed {seed}, round {round}", kind.name());
        assert!(follower.records == all_records(&database)?, "{what}");
        assert!(
            may_lose || follower.losses == losses,
            "the feed lost changes without a loss of power: {what}"
        );
        losses = follower.losses;
        match random.u8(..4) {
            0..2 => device.power_off_after(random.u64(1..300)),
            2 => device.set_failing_call(Some(failing_call(&mut random))),
            _ => {}
        }
        for _ in 0..random.usize(..120) {
            if operate(&database, &mut random, &mut follower).is_err() {
                assert!(device.is_off() || device.failed_changes() > 0, "{what}");
                break;
            }
        }
        let crash = Crash::random(&mut random);
        // After a failed write or sync, what followers have read may be lost as well.
        may_lose = device.is_off() || device.failed_changes() > 0 || crash != Crash::ProcessKilled;
        if random.u8(..4) > 0 || device.is_off() || device.failed_changes() > 0 {
            let crashed = device.crash(crash, &mut random);
            drop(database);
            device = crashed;
            crashes += 1;
        } else {
            device.power_off_after(u64::MAX);
            device.set_failing_call(None);
            database.close()?;
            may_lose = false;
        }
    }
    Ok((losses, crashes))
}

#[test]
fn no_write_succeeds_unseen_after_an_old_segment_of_the_feed_could_not_be_removed() {
    let device = SimulatedDirectory::new(1);
    let database = open(EngineKind::default(), &device).unwrap();
    let begin = database.change_position().unwrap();
    let call = Some(Call::Remove);
    device.set_failing_call(Some(FailingCall { call, name_part: "changes-", after: 0, for_ever: false }));
    let failed = (0..100_000_u32).find(|number| database.put(number.to_be_bytes(), "value").is_err());
    assert!(failed.is_some(), "no segment was removed");
    let later = database.put("later", "value");
    let position = database.change_position().unwrap();
    assert!(later.is_err(), "it succeeded, and changes are visible up to {position}");
    // Nothing that has ended hides a key: a follower can read up to the end.
    assert!(matches!(database.changes(begin, usize::MAX), Ok(_) | Err(Error::ChangesLost { .. })));
    drop(database);
    let database = open(EngineKind::default(), &device).unwrap();
    let lost = database.changes(position, usize::MAX);
    assert!(matches!(lost, Err(Error::ChangesLost { .. })), "the feed counts as intact");
    let position = database.change_position().unwrap();
    database.put("later", "value").unwrap();
    assert_eq!(database.changes(position, usize::MAX).unwrap().keys, ["later"]);
}

#[test]
fn a_follower_has_what_the_database_has_after_any_crash_and_loses_its_position_only_with_the_power() {
    for kind in EngineKind::ALL.iter().filter(|kind| kind.info().number.is_some()) {
        let (mut losses, mut crashes) = (0, 0);
        for seed in (0..SEEDS).chain([SEED_OF_LOSS]) {
            let of_run = run(*kind, seed).unwrap();
            losses += of_run.0;
            crashes += of_run.1;
        }
        // Both ways are taken.
        assert!(losses > 5 && crashes > losses + 5, "{losses} of {crashes} crashes of {}", kind.name());
    }
}

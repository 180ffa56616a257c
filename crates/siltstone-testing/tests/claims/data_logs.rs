//! Logs of data on the simulated device: what remains of each class after crashes, with segments that are finished,
//! released and used again.

use siltstone::key::RecordLayout;
use siltstone::store::data_logs::{
    CLASSES, DataLogSettings, DataLogs, DataLogsToExamine, FinishedSegment, Unit,
};
use siltstone::store::record::RecordView;
use siltstone::{Durability, Result};
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use siltstone_index::coding::checksum::Secret;
use siltstone_testing::{Crash, SimulatedDirectory};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const SETTINGS: DataLogSettings = DataLogSettings {
    layout: RecordLayout { fixed: None, expiring: false },
    database_id: 1,
    secret: Secret::new(2),
    unit_bytes: 16,
    segment_bytes: 2048,
    moved: 3,
};

/// Records that were appended together.
struct Batch {
    class: u8,
    end: u64,
    is_written: bool,
    base: u64,
    records: Vec<(Unit, Vec<u8>)>,
}

/// What a manifest would keep, which commits change, and what was appended and is not released.
#[derive(Default)]
struct Model {
    finished: Vec<FinishedSegment>,
    finished_to: [u64; CLASSES],
    synced: [u64; CLASSES],
    batches: Vec<Batch>,
    next_key: u64,
    /// The first slots of released segments.
    released: HashSet<u32>,
}

fn value_of(key: &[u8], bytes: usize) -> Vec<u8> {
    key.iter().copied().cycle().take(bytes).collect()
}

impl Model {
    fn open(&self, directory: &Directory) -> Result<DataLogs> {
        let (logs, recovered) = DataLogs::open(
            directory,
            &SETTINGS,
            &self.finished,
            self.finished_to,
            [0; CLASSES],
            &Arc::default(),
            &mut |_, _| true,
        )?;
        assert_eq!(logs.ends(), recovered.ends);
        Ok(logs)
    }

    fn append(&mut self, logs: &DataLogs, random: &mut fastrand::Rng) -> Result<()> {
        let class = random.u8(..4);
        let records: Vec<(Vec<u8>, Vec<u8>)> = (0..random.usize(1..4))
            .map(|_| {
                self.next_key += 1;
                let key = self.next_key.to_le_bytes().to_vec();
                let longest = if random.u8(..30) == 0 { 6000 } else { 400 };
                let value = value_of(&key, random.usize(..longest));
                (key, value)
            })
            .collect();
        let views =
            records.iter().map(|(key, value)| RecordView { key, value: Some(value), expires_at_ms: 0 });
        let is_written = random.bool();
        let durability = if is_written { Durability::Written } else { Durability::Buffered };
        let mut units = Vec::new();
        let outcome = logs.append(class, views, durability, |unit, _| units.push(unit));
        let Some((_, base)) = units.first().and_then(|unit| logs.view().segment_of(*unit)) else {
            return outcome.map(drop);
        };
        // A write that failed may still have reached the device.
        let end = logs.ends()[usize::from(class)];
        let is_written = is_written && outcome.is_ok();
        let records = units.into_iter().zip(records.into_iter().map(|(key, _)| key)).collect();
        self.batches.push(Batch { class, end, is_written, base, records });
        outcome.map(drop)
    }

    fn step(&mut self, logs: &DataLogs, random: &mut fastrand::Rng) -> Result<()> {
        match random.u8(..20) {
            0 => {
                let class = random.u8(..4);
                let end = logs.ends()[usize::from(class)];
                logs.sync_to(class, end)?;
                self.synced[usize::from(class)] = end;
                Ok(())
            }
            1..4 => {
                if let Some(finished) = logs.finish_step()? {
                    self.finished_to[usize::from(finished.class)] = finished.end;
                    self.finished.push(finished);
                    self.finished.sort_unstable_by_key(|segment| (segment.class, segment.base));
                }
                Ok(())
            }
            4 if !self.finished.is_empty() => {
                // The commit comes first, as in a manifest.
                let FinishedSegment { class, base, slot, .. } =
                    self.finished.swap_remove(random.usize(..self.finished.len()));
                self.finished.sort_unstable_by_key(|segment| (segment.class, segment.base));
                self.released.insert(slot);
                self.batches.retain(|batch| (batch.class, batch.base) != (class, base));
                logs.release(class, base)
            }
            _ => self.append(logs, random),
        }
    }

    /// Checks what an open has found, and forgets what was lost.
    fn check(&mut self, logs: &DataLogs, all_written: bool, context: &str) {
        let ends = logs.ends();
        for (class, end) in ends.into_iter().enumerate() {
            assert!(end >= self.synced[class] && end >= self.finished_to[class], "{context}: class {class}");
        }
        let is_kept = |batch: &Batch| batch.end <= ends[usize::from(batch.class)];
        assert!(
            !all_written || self.batches.iter().all(|batch| !batch.is_written || is_kept(batch)),
            "{context}"
        );
        self.batches.retain(is_kept);
        let (view, mut buffer) = (logs.view(), AlignedBuffer::default());
        let mut of_segments = HashMap::new();
        for batch in &self.batches {
            for (unit, key) in &batch.records {
                assert_eq!(view.segment_of(*unit), Some((batch.class, batch.base)), "{context}");
                let span = view.read(Purpose::Get, *unit, &mut buffer).unwrap();
                let record = span.view(&buffer);
                let value = record.value.unwrap();
                assert_eq!((record.key, value), (&key[..], &value_of(key, value.len())[..]), "{context}");
                *of_segments.entry((batch.class, batch.base)).or_insert(0) += 1;
            }
        }
        for segment in view.segments() {
            let expected = of_segments.get(&(segment.class, segment.base)).copied().unwrap_or(0);
            let (mut frames, mut found) = (view.frames(segment.class, segment.base, Purpose::Iterate), 0);
            let mut count = |_, _: &RecordView<'_>, _| {
                found += 1;
                Ok(())
            };
            while frames.next_piece(1000, &mut count).unwrap() {}
            assert_eq!((found, segment.records), (expected, expected), "{context}: {segment:?}");
        }
    }

    fn examine(&self, directory: &Directory, ends: [u64; CLASSES], context: &str) {
        let (finished, finished_to) = (&self.finished[..], self.finished_to);
        let closed =
            DataLogsToExamine { directory, settings: SETTINGS, finished, finished_to, synced: [0; 4] };
        let examined = closed.examine(&mut |_| true, &mut |_| Ok(())).unwrap();
        assert!(examined.damage.is_empty(), "{context}: {:?}", examined.damage);
        assert_eq!(examined.ends, ends, "{context}");
        let records: usize = self.batches.iter().map(|batch| batch.records.len()).sum();
        assert_eq!(examined.records, records as u64, "{context}");
    }
}

#[test]
fn every_crash_leaves_whole_batches_up_to_an_end_after_all_that_was_synced_or_finished() {
    let (mut lost, mut reused) = (0, 0);
    for seed in 0..250 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut device = SimulatedDirectory::new(seed);
        let access = [Access::Buffered, Access::DirectOrBuffered][usize::from(random.bool())];
        let mut directory = Directory::new(device.clone(), access);
        DataLogs::create(&directory, &SETTINGS).unwrap();
        directory.sync(Purpose::Recover).unwrap();
        let mut model = Model::default();
        for round in 0..4 {
            let context = format!("seed {seed}, round {round}");
            let logs = model.open(&directory).unwrap_or_else(|error| panic!("{context}: {error}"));
            model.check(&logs, false, &context);
            device.power_off_after(random.u64(1..400));
            let mut is_whole = true;
            for _ in 0..random.usize(..300) {
                if model.step(&logs, &mut random).is_err() {
                    is_whole = false;
                    break;
                }
            }
            let crash = Crash::random(&mut random);
            device = device.crash(crash, &mut random);
            directory = Directory::new(device.clone(), access);
            drop(logs);
            let before = model.batches.len();
            let all_written = is_whole && crash == Crash::ProcessKilled;
            let logs = model.open(&directory).unwrap_or_else(|error| panic!("{context}: {error}"));
            model.check(&logs, all_written, &context);
            lost += before - model.batches.len();
            let segments = logs.view().segments();
            reused += segments.iter().filter(|segment| model.released.contains(&segment.slot)).count();
            model.examine(&directory, logs.ends(), &context);
        }
    }
    assert!(lost > 1000 && reused > 1000, "{lost} batches lost, {reused} segments in slots of released ones");
}

mod moved;

use super::*;
use crate::key::RecordLayout;
use crate::names::FileName;
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, AlignedBuffer};
use siltstone_index::coding::checksum::Secret;

const VARIABLE: RecordLayout = RecordLayout { fixed: None, expiring: false };
const SETTINGS: DataLogSettings = DataLogSettings {
    layout: VARIABLE,
    database_id: 1,
    secret: Secret::new(2),
    unit_bytes: 16,
    segment_bytes: 4096,
    moved: 3,
};

fn memory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

/// What a manifest keeps.
#[derive(Clone, Default)]
struct Live {
    finished: Vec<FinishedSegment>,
    finished_to: [u64; CLASSES],
}

impl Live {
    fn finish(&mut self, logs: &DataLogs) -> Option<FinishedSegment> {
        let finished = logs.finish_step().unwrap()?;
        self.finished_to[usize::from(finished.class)] = finished.end;
        self.finished.push(finished);
        Some(finished)
    }

    fn finish_all(&mut self, logs: &DataLogs) {
        while self.finish(logs).is_some() {}
        assert_eq!(logs.unfinished(), 0);
    }

    fn release(&mut self, logs: &DataLogs, class: u8, base: u64) {
        self.finished.retain(|segment| (segment.class, segment.base) != (class, base));
        logs.release(class, base).unwrap();
    }

    fn open(&self, directory: &Directory) -> Result<(DataLogs, RecoveredLogs)> {
        self.open_with(directory, &SETTINGS)
    }

    fn open_with(
        &self,
        directory: &Directory,
        settings: &DataLogSettings,
    ) -> Result<(DataLogs, RecoveredLogs)> {
        let (finished, synced, go) = (&self.finished, [0; CLASSES], &mut |_, _| true);
        DataLogs::open(directory, settings, finished, self.finished_to, synced, &Arc::default(), go)
    }
}

fn created(directory: &Directory, settings: &DataLogSettings) -> DataLogs {
    DataLogs::create(directory, settings).unwrap();
    Live::default().open_with(directory, settings).unwrap().0
}

/// A record that was appended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Put {
    unit: Unit,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

fn put(logs: &DataLogs, class: u8, number: u32, value_bytes: usize, durability: Durability) -> Put {
    let (key, value) = (number.to_le_bytes().to_vec(), vec![number as u8; value_bytes]);
    let record = RecordView { key: &key, value: Some(&value), expires_at_ms: 0 };
    let mut place = (0, 0);
    logs.append(class, [record].into_iter(), durability, |unit, bytes| place = (unit, bytes)).unwrap();
    assert_eq!(place.1, logs.frame_bytes(&record));
    Put { unit: place.0, key, value: Some(value) }
}

/// Puts records of various lengths to all classes, some only buffered.
fn fill(logs: &DataLogs, count: u32) -> Vec<Put> {
    let durability = |number| if number % 5 == 0 { Durability::Written } else { Durability::Buffered };
    let put =
        |number: u32| put(logs, (number % 4) as u8, number, (number * 37 % 900) as usize, durability(number));
    (0..count).map(put).collect()
}

fn check_all(logs: &DataLogs, puts: &[Put]) {
    let (view, mut buffer) = (logs.view(), AlignedBuffer::default());
    for put in puts {
        let span = view.read(Purpose::Get, put.unit, &mut buffer).unwrap();
        let record = span.view(&buffer);
        assert_eq!((record.key, record.value), (&put.key[..], put.value.as_deref()));
    }
    let units: Vec<_> = puts.iter().map(|put| put.unit).collect();
    let mut seen = vec![false; units.len()];
    view.read_many(Purpose::Get, &units, &mut |number, record| {
        assert_eq!((record.key, record.value), (&puts[number].key[..], puts[number].value.as_deref()));
        assert!(!std::mem::replace(&mut seen[number], true));
        Ok(())
    })
    .unwrap();
    assert!(seen.iter().all(|&seen| seen));
    for piece_bytes in [1, 1000, 1 << 20] {
        assert_eq!(of_segments(&view, piece_bytes), sorted(puts));
    }
}

fn sorted(puts: &[Put]) -> Vec<Put> {
    let mut puts = puts.to_vec();
    puts.sort_unstable_by_key(|put| put.unit);
    puts
}

/// Returns all records that the segments of a view have, sorted.
fn of_segments(view: &DataView, piece_bytes: usize) -> Vec<Put> {
    let mut found = Vec::new();
    for SegmentInfo { class, base, .. } in view.segments() {
        let mut frames = view.frames(class, base, Purpose::Iterate);
        let mut keep = |unit, record: &RecordView<'_>, _| {
            let (key, value) = (record.key.to_vec(), record.value.map(<[u8]>::to_vec));
            found.push(Put { unit, key, value });
            Ok(())
        };
        while frames.next_piece(piece_bytes, &mut keep).unwrap() {}
    }
    sorted(&found)
}

#[test]
fn records_of_all_classes_are_found_by_their_units_before_and_after_an_opening() {
    let fixed = RecordLayout { fixed: Some((4, 100)), expiring: false };
    let layouts = [(VARIABLE, 16), (VARIABLE, 1), (fixed, 109)];
    for (layout, unit_bytes) in layouts {
        let settings = DataLogSettings { layout, unit_bytes, ..SETTINGS };
        let directory = memory();
        let logs = created(&directory, &settings);
        let puts: Vec<_> = match layout.fixed {
            None => fill(&logs, 200),
            Some((_, bytes)) => (0..200)
                .map(|number| put(&logs, (number % 4) as u8, number, bytes, Durability::Buffered))
                .collect(),
        };
        check_all(&logs, &puts);
        logs.write_buffered().unwrap();
        check_all(&logs, &puts);
        let mut live = Live::default();
        live.finish_all(&logs);
        assert!(live.finished.len() >= 4);
        check_all(&logs, &puts);
        let (ends, infos) = (logs.ends(), logs.view().segments());
        assert_eq!(infos.iter().map(|info| info.records).sum::<u64>(), 200);
        drop(logs);
        let (logs, recovered) = live.open_with(&directory, &settings).unwrap();
        assert_eq!(recovered, RecoveredLogs { ends, lost_tail_bytes: 0 });
        assert_eq!(logs.view().segments(), infos);
        check_all(&logs, &puts);
    }
}

#[test]
fn with_direct_access_finished_segments_are_read_directly_up_to_their_last_record() {
    let program = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let directory = Directory::system(folder.path(), Access::DirectOrBuffered).unwrap();
    let logs = created(&directory, &SETTINGS);
    let mut puts = fill(&logs, 200);
    let mut live = Live::default();
    live.finish_all(&logs);
    check_all(&logs, &puts);
    logs.write_buffered().unwrap();
    let is_open = |view: &DataView| puts.iter().filter(|put| view.is_open(put.unit)).count();
    let open = is_open(&logs.view());
    assert!(open > 0 && open < puts.len());
    drop(logs);
    let (logs, _) = live.open(&directory).unwrap();
    assert_eq!(is_open(&logs.view()), open);
    check_all(&logs, &puts);
    puts.push(put(&logs, 1, 1000, 5000, Durability::Written));
    check_all(&logs, &puts);
}

#[test]
fn a_batch_longer_than_a_segment_gets_one_of_several_slots() {
    for first_bytes in [None, Some(10)] {
        let directory = memory();
        let logs = created(&directory, &SETTINGS);
        let mut puts = Vec::new();
        if let Some(bytes) = first_bytes {
            puts.push(put(&logs, 0, 1, bytes, Durability::Buffered));
        }
        puts.push(put(&logs, 0, 2, 3 * 4096 - 10, Durability::Buffered));
        puts.push(put(&logs, 1, 3, 100, Durability::Written));
        puts.push(put(&logs, 0, 4, 100, Durability::Written));
        let slots: Vec<_> =
            logs.view().segments().iter().map(|info| (info.class, info.slot, info.slots)).collect();
        assert_eq!(slots, [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1), (0, 4, 4)]);
        check_all(&logs, &puts);
        let mut live = Live::default();
        live.finish_all(&logs);
        drop(logs);
        let (logs, _) = live.open(&directory).unwrap();
        check_all(&logs, &puts);
        // A batch is never divided, but it may have several records.
        let long = vec![5; 2000];
        let record = RecordView { key: b"batch", value: Some(&long), expires_at_ms: 0 };
        let mut units = Vec::new();
        logs.append(2, [record; 5].into_iter(), Durability::Written, |unit, _| units.push(unit)).unwrap();
        let segments: std::collections::HashSet<_> =
            units.iter().map(|unit| logs.view().segment_of(*unit).unwrap()).collect();
        assert_eq!(segments.len(), 1);
    }
}

#[test]
fn the_slots_of_released_segments_are_used_again_and_views_from_before_can_be_read() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    let puts = fill(&logs, 300);
    let mut live = Live::default();
    live.finish_all(&logs);
    let before = logs.view();
    assert!(logs.is_current(&before));
    let slots = before.segments().iter().map(|info| info.slot + info.slots).max();
    let released: Vec<_> = live.finished.iter().copied().filter(|segment| segment.base % 3 != 1).collect();
    assert!(released.len() > 3);
    for segment in &released {
        live.release(&logs, segment.class, segment.base);
    }
    assert!(!logs.is_current(&before));
    let is_released = |put: &Put| {
        let (class, base) = before.segment_of(put.unit).unwrap();
        released.iter().any(|segment| (segment.class, segment.base) == (class, base))
    };
    let left: Vec<_> = puts.iter().filter(|put| !is_released(put)).cloned().collect();
    check_all(&logs, &left);
    let written = |number| put(&logs, (number % 4) as u8, number, 900, Durability::Written);
    let more: Vec<_> = (1000..1020).map(written).collect();
    assert_eq!(logs.view().segments().iter().map(|info| info.slot + info.slots).max(), slots);
    assert!(more.iter().any(|put| puts.iter().any(|old| is_released(old) && old.unit == put.unit)));
    check_all(&logs, &[left.clone(), more.clone()].concat());
    let shown = of_segments(&before, 1 << 20);
    assert!(
        sorted(&puts).iter().all(|put| shown.binary_search_by_key(&put.unit, |shown| shown.unit).is_ok())
    );
    live.finish_all(&logs);
    drop((logs, before));
    let (logs, _) = live.open(&directory).unwrap();
    check_all(&logs, &[left, more].concat());
}

#[test]
fn released_segments_that_still_exist_are_removed_and_missing_ones_refused() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    fill(&logs, 300);
    let mut live = Live::default();
    live.finish_all(&logs);
    drop(logs);
    let names = |live: &Live| {
        let mut names: Vec<_> = live
            .finished
            .iter()
            .map(|segment| FileName::Segment {
                class: LogClass::from_number(segment.class).unwrap(),
                base: segment.base,
            })
            .map(|name| name.to_string())
            .collect();
        names.sort_unstable();
        names
    };
    // The last segment of a class too: what follows it is found without it.
    let all = names(&live);
    let mut fewer = live.clone();
    fewer.finished.retain(|segment| segment.class != 2 && segment.base != 0);
    let (logs, _) = fewer.open(&directory).unwrap();
    let listed = directory.list().unwrap();
    let left = names(&fewer);
    assert!(all.iter().all(|name| left.contains(name) == listed.contains(name)));
    drop(logs);
    let refused = |live: &Live| matches!(live.open(&directory), Err(Error::Corrupt { .. }));
    assert!(refused(&live), "a finished segment is missing");
    for (name, is_first_open) in
        [(left[0].clone(), false), (format!("moved2-{:016x}", live.finished_to[2]), true)]
    {
        let copy = directory.open(&name, Access::Buffered).unwrap();
        let mut bytes = AlignedBuffer::default();
        copy.read(Purpose::Recover, 0, copy.length().unwrap() as usize, &mut bytes).unwrap();
        directory.remove(&name).unwrap();
        assert!(refused(&fewer), "{name} is missing");
        let file = directory.create(&name, Access::Buffered).unwrap();
        bytes[14] ^= 1;
        file.write(Purpose::Log, 0, &bytes).unwrap();
        assert!(refused(&fewer), "the header of {name} is damaged, first open: {is_first_open}");
        bytes[14] ^= 1;
        file.write(Purpose::Log, 0, &bytes).unwrap();
        fewer.open(&directory).unwrap();
    }
}

#[test]
fn space_behind_a_complete_segment_is_cut_off_when_it_is_finished() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    let puts = fill(&logs, 100);
    logs.write_buffered().unwrap();
    assert!(logs.unfinished() > 0);
    drop(logs);
    let complete = "log-0000000000000000";
    let file = directory.open(complete, Access::Buffered).unwrap();
    file.write(Purpose::Log, file.length().unwrap(), &[0; 5000]).unwrap();
    let mut live = Live::default();
    let (logs, _) = live.open(&directory).unwrap();
    let lengths = || {
        let length = |name: &String| directory.open(name, Access::Buffered).unwrap().length().unwrap();
        directory.list().unwrap().iter().map(length).sum::<u64>()
    };
    assert_eq!(logs.disk_bytes(), lengths());
    live.finish_all(&logs);
    assert_eq!(logs.disk_bytes(), lengths());
    drop(logs);
    let (logs, _) = live.open(&directory).unwrap();
    assert_eq!(logs.disk_bytes(), lengths());
    check_all(&logs, &puts);
}

#[test]
fn two_segments_with_the_same_slots_are_refused() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    fill(&logs, 100);
    let mut live = Live::default();
    live.finish_all(&logs);
    drop(logs);
    live.open(&directory).unwrap();
    let format = SETTINGS.format().of(LogClass::Moved(1));
    let last = live.finished_to[1];
    let header = format.header(last, Slots { first: live.finished[0].slot, count: 1 });
    let file = directory.open(&format.segment_name(last), Access::Buffered).unwrap();
    file.write(Purpose::Log, 0, &header.encode()).unwrap();
    let refused = live.open(&directory).err().unwrap();
    assert!(matches!(&refused, Error::Corrupt { expected, .. } if expected.contains("slots")), "{refused}");
}

#[test]
fn dead_bytes_and_orders_are_those_of_the_segments() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    put(&logs, 1, 0, 10, Durability::Written);
    let users: Vec<_> = (0..20).map(|number| put(&logs, USER, number, 1000, Durability::Written)).collect();
    logs.start_new_segments().unwrap();
    let moved = put(&logs, 1, 0, 10, Durability::Written);
    logs.add_dead(users[19].unit, 1000);
    logs.add_dead(users[19].unit, 24);
    let view = logs.view();
    let info = |unit| {
        let segment = view.segment_of(unit).unwrap();
        *view.segments().iter().find(|info| (info.class, info.base) == segment).unwrap()
    };
    assert_eq!((info(users[19].unit).dead, info(users[0].unit).dead), (1024, 0));
    let (class, base) = view.segment_of(users[0].unit).unwrap();
    logs.set_dead(class, base, 7);
    assert_eq!(info(users[0].unit).dead, 7);
    // What was moved is newer than all users' segments that were complete.
    let ends: Vec<_> =
        view.segments().iter().filter(|info| info.class == USER).filter_map(|info| info.end).collect();
    let order = view.order_of(moved.unit).unwrap();
    assert!(ends.len() >= 5 && ends.iter().all(|end| *end <= order));
    assert_eq!(view.order_of(users[19].unit), view.segment_of(users[19].unit).map(|(_, base)| base));
    let infos = view.segments();
    let mut live = Live::default();
    live.finish_all(&logs);
    drop((logs, view));
    let (logs, _) = live.open(&directory).unwrap();
    let orders = |infos: &[SegmentInfo]| infos.iter().map(|info| info.order).collect::<Vec<_>>();
    assert_eq!(orders(&logs.view().segments()), orders(&infos));
}

#[test]
fn a_scan_passes_the_records_behind_a_position_with_their_units() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    let mut ends = Vec::new();
    let puts: Vec<_> = (0..50)
        .map(|number| {
            ends.push(logs.ends()[0]);
            put(&logs, USER, number, 500, Durability::Written)
        })
        .collect();
    logs.sync_to(USER, logs.ends()[0]).unwrap();
    assert!(logs.is_synced() && logs.synced(USER) > 0);
    Live::default().finish_all(&logs);
    for from in [0, 10, 49] {
        let mut found = Vec::new();
        logs.scan(USER, ends[from], &mut |unit, record| {
            found.push((unit, record.key.to_vec()));
            Ok(())
        })
        .unwrap();
        let expected: Vec<_> = puts[from..].iter().map(|put| (put.unit, put.key.clone())).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_checkpoint_has_the_records_before_the_ends_under_another_id() {
    let (directory, target) = (memory(), memory());
    let logs = created(&directory, &SETTINGS);
    let mut puts = fill(&logs, 120);
    let mut live = Live::default();
    for _ in 0..5 {
        live.finish(&logs).unwrap();
    }
    logs.write_buffered().unwrap();
    let ends = logs.ends();
    fill(&logs, 50);
    // Finished and not in the manifest.
    logs.finish_step().unwrap().unwrap();
    logs.copy_to(&target, 77, &live.finished, &live.finished_to, &ends).unwrap();
    let settings = DataLogSettings { database_id: 77, ..SETTINGS };
    let (copy, recovered) = live.open_with(&target, &settings).unwrap();
    assert_eq!(recovered, RecoveredLogs { ends, lost_tail_bytes: 0 });
    check_all(&copy, &puts);
    puts.push(put(&copy, 3, 1, 10, Durability::Written));
    live.finish_all(&copy);
    drop(copy);
    check_all(&live.open_with(&target, &settings).unwrap().0, &puts);
}

fn examined(live: &Live, directory: &Directory) -> ExaminedLogs {
    to_examine(live, directory).examine(&mut |_| true, &mut |_| Ok(())).unwrap()
}

fn to_examine<'a>(live: &'a Live, directory: &'a Directory) -> DataLogsToExamine<'a> {
    let Live { finished, finished_to } = live;
    DataLogsToExamine {
        directory,
        settings: SETTINGS,
        finished,
        finished_to: *finished_to,
        synced: [0; CLASSES],
    }
}

/// Returns the units of all intact records, sorted. The key of each is its number.
fn units_of_intact(live: &Live, directory: &Directory, units_by_key: &[Unit]) -> Vec<Unit> {
    let (logs, mut units) = (to_examine(live, directory), Vec::new());
    logs.examine(&mut |_| true, &mut |found| {
        let number = u32::from_le_bytes(found.record.key.try_into().unwrap());
        // It is not known if the header is damaged.
        assert!(found.unit.is_none_or(|unit| unit == units_by_key[number as usize]));
        units.push(units_by_key[number as usize]);
        Ok(())
    })
    .unwrap();
    units.sort_unstable();
    units
}

#[test]
fn an_examination_finds_all_records_and_the_units_of_every_damaged_part() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    let puts = fill(&logs, 300);
    let by_key: Vec<_> = puts.iter().map(|put| put.unit).collect();
    let mut live = Live::default();
    live.finish_all(&logs);
    for segment in [live.finished[0], live.finished[6]] {
        live.release(&logs, segment.class, segment.base);
    }
    // The markers state that nothing is a torn end.
    (0..).zip(logs.ends()).for_each(|(class, end)| logs.sync_to(class, end).unwrap());
    let view = logs.view();
    let left: Vec<_> =
        sorted(&puts).iter().map(|put| put.unit).filter(|unit| view.segment_of(*unit).is_some()).collect();
    let whole = logs.examine(&mut |_| true).unwrap();
    assert_eq!((whole.damage.len(), whole.records), (0, left.len() as u64));
    logs.end_append().unwrap();
    let closed = examined(&live, &directory);
    assert_eq!((closed.damage.len(), closed.records, closed.ends), (0, left.len() as u64, logs.ends()));
    assert_eq!((closed.torn_bytes, closed.files.len()), (0, directory.list().unwrap().len()));
    assert_eq!(units_of_intact(&live, &directory, &by_key), left);
    // A byte of the header, one of a record, the end, the whole file; in finished and in open segments.
    for segment in view.segments() {
        let name =
            FileName::Segment { class: LogClass::from_number(segment.class).unwrap(), base: segment.base };
        let name = name.to_string();
        let file = directory.open(&name, Access::Buffered).unwrap();
        let length = file.length().unwrap();
        let mut bytes = AlignedBuffer::default();
        file.read(Purpose::Recover, 0, length as usize, &mut bytes).unwrap();
        let write = |bytes: &[u8]| {
            directory.remove(&name).unwrap();
            directory.create(&name, Access::Buffered).unwrap().write(Purpose::Log, 0, bytes).unwrap();
        };
        let of_segment = |unit: &&Unit| view.segment_of(**unit) == Some((segment.class, segment.base));
        let own: Vec<_> = left.iter().filter(of_segment).copied().collect();
        let check = |what: &str, lost_max: usize| {
            let live_logs = logs.examine(&mut |_| true).unwrap();
            let closed = examined(&live, &directory);
            let intact = units_of_intact(&live, &directory, &by_key);
            let lost: Vec<_> = left.iter().filter(|unit| intact.binary_search(unit).is_err()).collect();
            assert!(lost.len() <= lost_max, "{name}, {what}: {} lost", lost.len());
            assert!(lost.iter().all(|unit| own.contains(unit)), "{name}, {what}");
            for examined in [live_logs, closed] {
                assert!(!examined.damage.is_empty() || lost.is_empty(), "{name}, {what}");
                assert_eq!(examined.records, (left.len() - lost.len()) as u64, "{name}, {what}");
                let is_reported = |unit: &Unit| examined.damage.iter().any(|part| part.units.contains(unit));
                assert!(lost.iter().all(|unit| is_reported(unit)), "{name}, {what}: {:?}", examined.damage);
            }
            lost.len()
        };
        for at in [20, 64 + own.len()] {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1;
            write(&damaged);
            // An open segment whose header states another database is none of this log.
            check(&format!("byte {at}"), 1);
        }
        if segment.is_finished {
            write(&bytes[..bytes.len() - 1]);
            assert_eq!(check("without its end", 1), 1);
            directory.remove(&name).unwrap();
            assert_eq!(check("without its file", own.len()), own.len());
            directory.create(&name, Access::Buffered).unwrap();
        }
        write(&bytes);
        assert_eq!(examined(&live, &directory).damage.len(), 0);
    }
}

#[test]
fn what_lies_before_a_record_far_ahead_is_neither_read_nor_held() {
    let directory = memory();
    let settings = DataLogSettings { segment_bytes: 1 << 20, ..SETTINGS };
    let logs = created(&directory, &settings);
    logs.limit_reads(8 << 10);
    let puts: Vec<Put> = (0..2_000).map(|number| put(&logs, 0, number, 300, Durability::Buffered)).collect();
    let view = logs.view();
    let place = |put: &Put| view.locate(put.unit).unwrap();
    let ((class, base), _) = place(&puts[0]);
    let before = directory.io().of(Purpose::Collect).read_bytes;
    let mut frames = view.frames(class, base, Purpose::Collect);
    // The last ones are not written yet.
    for number in [0, 1, 700, 701, 1_300, 1_990, 1_999] {
        let mut keys = Vec::new();
        let (_, at) = place(&puts[number]);
        let mut visit = |record: &RecordView<'_>, _| {
            keys.push(record.key.to_vec());
            Ok(())
        };
        frames.record_at(at, &mut visit).unwrap();
        assert_eq!(keys, [puts[number].key.clone()], "record {number}");
        assert!(frames.heap_bytes() < 100 << 10, "record {number}: {} bytes", frames.heap_bytes());
    }
    assert!(frames.record_at(1 << 30, &mut |_, _| Ok(())).is_err(), "behind the end");
    let read = directory.io().of(Purpose::Collect).read_bytes - before;
    assert!(read < 80 << 10, "{read} bytes of {}", logs.bytes());
}

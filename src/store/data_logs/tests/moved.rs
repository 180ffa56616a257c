//! The order of the versions of a key, of which some were moved.

use super::*;

#[test]
fn a_record_that_was_moved_behind_a_newer_one_of_its_key_is_the_older_one() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    let first = put(&logs, USER, 1, 30, Durability::Written);
    logs.start_new_segment(USER).unwrap();
    let newer = put(&logs, USER, 1, 40, Durability::Written);
    let record = RecordView { key: &first.key, value: first.value.as_deref(), expires_at_ms: 0 };
    logs.append_moved(USER, [record].into_iter(), |_, _| ()).unwrap();
    logs.write_buffered().unwrap();
    // An open does not index it.
    let mut scanned = Vec::new();
    logs.scan(USER, 0, &mut |unit, _| {
        scanned.push(unit);
        Ok(())
    })
    .unwrap();
    assert_eq!(scanned, [first.unit, newer.unit]);
    let mut versions = Vec::new();
    let live = Live::default();
    to_examine(&live, &directory)
        .examine(&mut |_| true, &mut |found| {
            versions.push((found.version, found.record.value.unwrap().len()));
            Ok(())
        })
        .unwrap();
    versions.sort_unstable();
    assert_eq!(versions.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [30, 30, 40]);
}

#[test]
fn the_last_version_of_a_record_is_known_without_the_index() {
    let directory = memory();
    let logs = created(&directory, &SETTINGS);
    // In each round some keys are written again; then all that the first segments have is moved, as cleaning does.
    let mut live = Live::default();
    let mut newest = std::collections::HashMap::new();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..12u32 {
        for _ in 0..30 {
            let (key, value) = (random.u32(..40).to_le_bytes(), round.to_le_bytes().repeat(40));
            let record = RecordView { key: &key, value: Some(&value), expires_at_ms: 0 };
            logs.append(USER, [record].into_iter(), Durability::Written, |unit, _| {
                newest.insert(key, unit);
            })
            .unwrap();
        }
        live.finish_all(&logs);
        let victim = live.finished[random.usize(..live.finished.len())];
        let view = logs.view();
        let mut frames = view.frames(victim.class, victim.base, Purpose::Iterate);
        let mut moved = Vec::new();
        let mut keep = |unit, record: &RecordView<'_>, _| {
            if newest.get(record.key) == Some(&unit) {
                moved.push((record.key.to_vec(), record.value.unwrap().to_vec()));
            }
            Ok(())
        };
        while frames.next_piece(1 << 20, &mut keep).unwrap() {}
        for (key, value) in moved {
            let record = RecordView { key: &key, value: Some(&value), expires_at_ms: 0 };
            let class = random.u8(USER..4);
            logs.append_moved(class, [record].into_iter(), |unit, _| {
                newest.insert(key[..].try_into().unwrap(), unit);
            })
            .unwrap();
        }
        live.release(&logs, victim.class, victim.base);
    }
    logs.write_buffered().unwrap();
    let closed = to_examine(&live, &directory);
    let mut versions = std::collections::HashMap::new();
    closed
        .examine(&mut |_| true, &mut |found| {
            let key: [u8; 4] = found.record.key.try_into().unwrap();
            let value = found.record.value.unwrap().to_vec();
            let newest: &mut (Version, Vec<u8>) =
                versions.entry(key).or_insert((found.version, value.clone()));
            if found.version > newest.0 {
                *newest = (found.version, value);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(versions.len(), newest.len());
    let (view, mut buffer) = (logs.view(), AlignedBuffer::default());
    for (key, unit) in newest {
        let span = view.read(Purpose::Get, unit, &mut buffer).unwrap();
        assert_eq!(span.view(&buffer).value, Some(&versions[&key].1[..]), "{key:?}");
    }
}

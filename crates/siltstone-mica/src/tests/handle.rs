//! Handles: the partitions of a store or a cache, in every access mode, through one type.

use super::*;

const PARTITION_BITS: u32 = 2;

fn open(is_cache: bool, mode: AccessMode, threads: usize) -> Result<Vec<Handles>> {
    let (layout, partition_bits) = (ItemLayout::default(), PARTITION_BITS);
    match is_cache {
        true => CacheSettings { partition_bits, ..CacheSettings::for_items(layout, 100, 8, 8) }
            .open_handles(mode, threads),
        false => StoreSettings { partition_bits, ..StoreSettings::for_items(layout, 100, 8, 8) }
            .open_handles(mode, threads),
    }
}

fn reply_of(handle: &mut Handle, key: HashedKey<'_>, operation: Operation<'_>) -> (String, Vec<u8>) {
    let mut replies = Vec::new();
    handle.execute(&[Request { key, operation }], 0, |at, reply| {
        assert_eq!(at, 0);
        let value = if let Reply::Found { value, .. } = reply { value.to_vec() } else { Vec::new() };
        replies.push((format!("{reply:?}"), value));
    });
    assert_eq!(replies.len(), 1);
    replies.remove(0)
}

/// Checks what every thread can do with one partition, after its owner has stored a value.
fn check_partition(mode: AccessMode, threads: &mut [Handles], partition: usize) {
    let owner = partition % threads.len();
    let key = HashedKey { hash: (partition as u64) << (64 - PARTITION_BITS) | 7, bytes: b"a key" };
    let put = |value| Operation::Put { value, expires_at_ms: NEVER };
    let handle = threads[owner][partition].as_mut().unwrap();
    assert!(handle.can_write());
    assert_eq!(reply_of(handle, key, put(b"first")).0, "Stored");
    assert_eq!((handle.items(), handle.account().total_bytes() > 0), (1, true));
    assert_eq!(handle.huge_bytes() % (1 << 20), 0, "whole huge pages, or none");
    for (thread, handles) in threads.iter_mut().enumerate() {
        let is_owner = thread == owner;
        let handle = &mut handles[partition];
        assert_eq!(handle.is_some(), is_owner || mode.allows_any_thread(false), "{mode:?}");
        let Some(handle) = handle else { continue };
        assert_eq!(handle.can_write(), is_owner || mode.allows_any_thread(true), "{mode:?}");
        assert_eq!(reply_of(handle, key, Operation::Get).1, b"first", "{mode:?}");
        if !handle.can_write() {
            assert_eq!(reply_of(handle, key, put(b"other")).0, "ReadOnly");
            assert_eq!(reply_of(handle, key, Operation::Delete).0, "ReadOnly");
            assert_eq!(reply_of(handle, key, Operation::Get).1, b"first", "nothing was done");
        }
        let other = HashedKey { bytes: b"another", ..key };
        assert_eq!(reply_of(handle, other, Operation::Get).0, "Absent");
    }
}

#[test]
fn a_handle_does_what_its_mode_grants_its_thread() {
    for is_cache in [false, true] {
        for mode in AccessMode::ALL {
            for count in [1, 2, 3, 7] {
                let mut threads = open(is_cache, mode, count).unwrap();
                assert_eq!(threads.len(), count);
                assert!(threads.iter().all(|handles| handles.len() == 1 << PARTITION_BITS));
                (0..1 << PARTITION_BITS).for_each(|partition| check_partition(mode, &mut threads, partition));
            }
        }
    }
}

#[test]
fn a_put_that_finds_a_store_full_removes_the_expired_items() {
    for mode in AccessMode::ALL {
        let mut threads = open(false, mode, 1).unwrap();
        let handle = threads[0][0].as_mut().unwrap();
        let mut put = |keys: std::ops::Range<u64>, now_ms| {
            let keys: Vec<[u8; 8]> = keys.map(u64::to_le_bytes).collect();
            let operation = Operation::Put { value: b"a value", expires_at_ms: 5 };
            let request = |key| Request {
                key: HashedKey { hash: spread(key) >> PARTITION_BITS, bytes: key },
                operation,
            };
            let requests: Vec<Request<'_>> = keys.iter().map(|key| request(key)).collect();
            let mut stored = 0;
            handle.execute(&requests, now_ms, |_, reply| stored += usize::from(reply == Reply::Stored));
            stored
        };
        let held = put(0..300, 0);
        assert!((50..200).contains(&held), "{mode:?}: {held}");
        assert_eq!((put(300..301, 1_000), put(300..340, 2_000)), (1, 40), "{mode:?}");
    }
}

#[test]
fn handles_for_no_thread_or_too_many_partitions_are_refused() {
    let store = StoreSettings::for_items(ItemLayout::default(), 100, 8, 8);
    assert!(open(false, AccessMode::Erew, 0).is_err() && open(true, AccessMode::Crcw, 0).is_err());
    for partition_bits in [17, 64, u32::MAX] {
        let settings = StoreSettings { partition_bits, ..store };
        assert!(settings.open_handles(AccessMode::Crew, 1).is_err(), "{partition_bits}");
    }
}

#[test]
fn an_access_mode_is_found_by_its_name() {
    for mode in AccessMode::ALL {
        assert_eq!(AccessMode::from_name(mode.name()), Some(mode));
    }
    assert_eq!(AccessMode::from_name("EREW"), None);
}

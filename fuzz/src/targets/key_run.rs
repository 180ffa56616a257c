//! A run of keys with changed bytes and corrected checksums: opening, examination, ranges in both directions.

use crate::input::{Input, contents, directory, directory_with};
use crate::seal::{VARIABLE, seal_store};
use siltstone::store::ordered_keys::{Direction, KeyRun, KeyState, OrderedKeys, examine};
use std::ops::Bound;

const RUN: KeyRun = KeyRun { number: 1, tag: 1 };

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let written = directory();
    let keys = OrderedKeys::open(&written, &[], None).expect("memory does not fail");
    let length = 1 + usize::from(input.u8() % 16) * usize::from(input.u8());
    for number in 0..u64::from(input.u8()) * 4 {
        let mut key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec();
        key.resize(length, b'k');
        let state = [KeyState::Live, KeyState::Live, KeyState::Expiring, KeyState::Deleted];
        keys.insert(&key, state[number as usize % 4]);
    }
    keys.seal();
    let flushed = keys.write_sealed(RUN).expect("memory does not fail");
    let Some(run) = flushed.and_then(|flushed| flushed.added()) else { return };
    let mut bytes = contents(&written, &run.file_name());
    input.mutate(&mut bytes);
    if input.u8() % 8 > 0 {
        seal_store(&VARIABLE, &mut bytes);
    }
    let directory = directory_with(&run.file_name(), &bytes);
    let damage = examine(&directory, &[run], &mut |_| true).expect("memory does not fail");
    let ascending = range(&directory, Direction::Ascending);
    if damage.is_empty() {
        let ascending = ascending.expect("what has no damage can be read");
        let mut descending = range(&directory, Direction::Descending).expect("also backward");
        assert!(ascending.is_sorted());
        descending.reverse();
        assert_eq!(ascending, descending);
    }
}

/// Returns the keys of the run, unless it cannot be read.
fn range(directory: &siltstone_device::Directory, direction: Direction) -> Option<Vec<(Vec<u8>, bool)>> {
    let opened = OrderedKeys::open(directory, &[RUN], None).ok()?;
    let mut range = opened.snapshot().range((Bound::Unbounded, Bound::Unbounded), direction);
    let mut keys = Vec::new();
    while range.read(100, &mut keys).ok()? {}
    Some(keys)
}

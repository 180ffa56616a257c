//! Verifies a dictionary: the checksum of every block, the order and place of every record, and all counts.

use super::Dictionary;
use crate::damage::{Damage, DamagedPart, KeyRange, VerifyReport};
use crate::error::{CorruptFile, Error, Result};
use crate::key::KeyHash;
use crate::progress::Progress;
use crate::store::examine::{Examined, OpenedStore};
use crate::store::record::RecordView;
use siltstone_device::Purpose;

/// What the records of a dictionary add up to, and what must not be among them.
#[derive(Default)]
struct Records {
    count: u64,
    key_bytes: u64,
    value_bytes: u64,
    tombstones: u64,
    /// The records that do not follow the one before by hash and key.
    unordered: u64,
    last: Option<(KeyHash, Vec<u8>)>,
}

pub(super) fn verify(dictionary: &Dictionary, progress: &mut Progress<'_>) -> Result<VerifyReport> {
    let (store, header) = (dictionary.store(), dictionary.header());
    let file = store.file();
    // The footer of a later index may be overwritten by a still later one while this one is in use.
    let is_first = file.length() == header.first_end;
    let (mut checked_bytes, mut records) = (0, Records::default());
    let mut advance = |bytes| {
        checked_bytes += bytes;
        progress(checked_bytes, file.length())
    };
    let hasher = header.shape.hasher;
    let opened = OpenedStore::of(store, 0, is_first)?;
    let examined = opened.examine(&mut advance, &mut |record| {
        records.add(hasher.hash(record.key), record);
        Ok(())
    })?;
    let Examined { mut damage, .. } = examined;
    // Without the records of damaged blocks, the counts would be wrong as well, and say nothing new.
    if damage.is_empty() {
        damage.extend(records.damage(dictionary));
    }
    let section = file.footer().index;
    // A later index was checked when the dictionary was opened, unless it was opened without.
    if !is_first
        && store.index().is_none()
        && section.kind != 0
        && let Err(error) = file.read_section(&section, Purpose::Maintain)
    {
        damage.push(Damage::of(&error, DamagedPart::Index, section.length()));
    }
    // A dictionary has one version of each key.
    let live_records = damage.is_empty().then_some(records.count);
    let checked_records = records.count;
    Ok(VerifyReport { damage, checked_records, live_records, checked_bytes, ..VerifyReport::default() })
}

impl Records {
    fn add(&mut self, hash: KeyHash, record: &RecordView<'_>) {
        self.count += 1;
        self.key_bytes += record.key.len() as u64;
        match record.value {
            Some(value) => self.value_bytes += value.len() as u64,
            None => self.tombstones += 1,
        }
        let (last_hash, last_key) = match &mut self.last {
            None => self.last.insert((hash, record.key.to_vec())),
            Some(last) => {
                // Keys are unique, so equal ones are out of order as well.
                self.unordered += u64::from((last.0, &last.1[..]) >= (hash, record.key));
                last
            }
        };
        // Into the same memory: this runs for each record.
        *last_hash = hash;
        last_key.clear();
        last_key.extend_from_slice(record.key);
    }

    /// Returns what the records of intact blocks contradict.
    fn damage(&self, dictionary: &Dictionary) -> Option<Damage> {
        let (file, header) = (dictionary.store().file(), dictionary.header());
        let refused = |expected: String, got: String| -> Option<Error> {
            (expected != got).then(|| file.file().corrupt(0, expected, got))
        };
        let counts = |records: u64, key_bytes: u64, value_bytes: u64| {
            format!("{records} records with {key_bytes} bytes of keys and {value_bytes} of values")
        };
        let expected = counts(file.footer().records, header.key_bytes, header.value_bytes);
        let error = refused("0 tombstones".into(), format!("{} tombstones", self.tombstones))
            .or_else(|| {
                refused("0 records out of order".into(), format!("{} records out of order", self.unordered))
            })
            .or_else(|| refused(expected, counts(self.count, self.key_bytes, self.value_bytes)))?;
        Some(Damage { lost: vec![KeyRange::ALL], ..Damage::of(&error, DamagedPart::Records, file.length()) })
    }
}

//! The bytes of the records of the redo log. `docs/formats/redo.md` has the diagrams.
//!
//! The operations of a run are divided into lists. Only the order of the operations of one hash matters, so the first
//! operations of all hashes are sorted by their units, then all second ones, and so on. Records that were appended to a
//! log one after another have adjacent units, so an insertion takes the bytes of the hash and 1.1 more.

use super::operations::{Kind, Operation, Run};
use super::{LogIndexSettings, Unit};
use crate::names::LogClass;
use siltstone_index::coding::{DecodeError, Decoder, push_varint};
use siltstone_index::hash_pages::UNIT_BITS_MAX;

const STRUCTURE: &str = "redo record";
const MAGIC: [u8; 4] = *b"SSRD";
const VERSION: u16 = 1;

/// A record of more bytes is followed by another one with the same number, for other shards.
const RECORD_BYTES: usize = 1 << 20;

/// The bytes of a record of the redo log before its operations.
pub const REDO_HEADER_BYTES: usize = 16 + 8 * CLASSES;

/// The number of logs of data: that of each class.
pub const CLASSES: usize = 1 + LogClass::MOVED_MAX as usize;

/// The position in each log, by the number of its class, before which the index has all records.
pub type Covered = [u64; CLASSES];

/// What a record of the redo log begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RedoHeader {
    /// The number of the flush: all records of one flush have the same.
    pub number: u64,
    /// What the index covers after the flush.
    pub covered: Covered,
}

impl RedoHeader {
    fn encode(&self, settings: &LogIndexSettings) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([settings.shard_hash_bits() as u8, settings.shards_log2 as u8]);
        out.extend(self.number.to_le_bytes());
        self.covered.iter().for_each(|position| out.extend(position.to_le_bytes()));
        out
    }

    /// Encodes the runs of all shards, in as many records as they need, at least one.
    pub fn records(&self, settings: &LogIndexSettings, shards: Vec<Vec<Run>>) -> Vec<Vec<u8>> {
        let mut records = vec![self.encode(settings)];
        for (shard, runs) in shards.into_iter().enumerate().filter(|(_, runs)| !runs.is_empty()) {
            // All runs of a shard are in one record: an open counts them from there.
            let last = match records.pop() {
                Some(full) if full.len() >= RECORD_BYTES => {
                    records.push(full);
                    None
                }
                last => last,
            };
            // Each record has the header, so an open decodes records independently of each other.
            let mut record = last.unwrap_or_else(|| self.encode(settings));
            push_varint(&mut record, shard as u64);
            push_varint(&mut record, runs.len() as u64);
            runs.into_iter().for_each(|run| encode_run(settings.shard_hash_bits(), run, &mut record));
            records.push(record);
        }
        records
    }
}

/// Sorts the operations of a run into lists, each with the number of its operations of the same hash before.
fn encode_run(hash_bits: u32, mut run: Run, out: &mut Vec<u8>) {
    // A stable sort: the operations of one hash keep their order.
    run.sort_by_key(|operation| operation.hash);
    let (mut before, mut depth) = (None, 0);
    let mut listed: Vec<(u32, Kind, Unit, Operation)> = Vec::with_capacity(run.len());
    for operation in run {
        depth = if before == Some(operation.hash) { depth + 1 } else { 0 };
        before = Some(operation.hash);
        listed.push((depth, operation.kind(), operation.units().0, operation));
    }
    // By the depth first, so an open applies an operation after those of its hash that were before it.
    listed.sort_unstable();
    push_varint(out, listed.len() as u64);
    for list in listed.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
        let (_, kind, ..) = list[0];
        push_varint(out, (list.len() as u64) << 2 | kind as u64);
        let (mut last, mut last_replaced) = (0, 0);
        for (.., operation) in list {
            let (unit, replaced) = operation.units();
            // Not negative: within a list the units are sorted.
            push_varint(out, unit - last);
            last = unit;
            if let Some(replaced) = replaced {
                push_varint(out, zigzag(replaced as i64 - last_replaced as i64));
                last_replaced = replaced;
            }
            let hash = (operation.hash >> (64 - hash_bits)).to_le_bytes();
            out.extend_from_slice(&hash[..hash_bits.div_ceil(8) as usize]);
        }
    }
}

/// Numbers of small absolute value become small.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Decodes a record of the redo log: passes its operations to `visit`, with the shard and the number of the run.
///
/// # Errors
/// Bytes that the format does not allow, or records of an index of another shape. Operations may have been passed.
pub(super) fn decode(
    settings: &LogIndexSettings,
    bytes: &[u8],
    visit: &mut impl FnMut(RedoHeader, usize, u32, Operation),
) -> Result<RedoHeader, DecodeError> {
    let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
    let found: [u8; 2] = reader.array("bits of hashes and shards")?;
    let wanted = [settings.shard_hash_bits() as u8, settings.shards_log2 as u8];
    reader.check(2, found == wanted, || format!("{wanted:?} bits"), || format!("{found:?}"))?;
    // From here on the shape is right: it says how many bytes a hash has, and which shards there are.
    let number = reader.u64("the number of a flush")?;
    let mut covered = Covered::default();
    for position in &mut covered {
        *position = reader.u64("a position")?;
    }
    let header = RedoHeader { number, covered };
    while !reader.is_at_end() {
        let shard = reader.varint("a shard")?;
        let is_one = shard < settings.shards() as u64;
        reader.check(1, is_one, || format!("one of {} shards", settings.shards()), || shard.to_string())?;
        let runs = reader.varint("a number of runs")?;
        for run in 0..runs {
            let visit = &mut |operation| visit(header, shard as usize, run as u32, operation);
            decode_run(settings.shard_hash_bits(), &mut reader, visit)?;
        }
    }
    reader.end()?;
    Ok(header)
}

fn decode_run(
    hash_bits: u32,
    reader: &mut Decoder<'_>,
    visit: &mut impl FnMut(Operation),
) -> Result<(), DecodeError> {
    let mut left = reader.varint("a number of operations")?;
    // So each run takes bytes, and a damaged number of runs ends with them.
    reader.check(1, left > 0, || "one or more operations".into(), || "none".into())?;
    while left > 0 {
        let list = reader.varint("a list")?;
        let (count, kind) = (list >> 2, Kind::from_number(list & 3));
        let Some(kind) = kind.filter(|_| (1..=left).contains(&count)) else {
            return Err(
                reader.unexpected(format!("a list of 1 to {left} operations"), format!("list {list}"))
            );
        };
        left -= count;
        let (mut unit, mut replaced) = (0, 0);
        for _ in 0..count {
            unit = next_unit(reader, unit, |delta| i64::try_from(delta).ok())?;
            if kind == Kind::Replace {
                replaced = next_unit(reader, replaced, |delta| Some(unzigzag(delta)))?;
            }
            let mut hash = [0; 8];
            let bytes = hash_bits.div_ceil(8) as usize;
            hash[..bytes].copy_from_slice(reader.take(bytes, "a hash")?);
            let hash = u64::from_le_bytes(hash);
            // The shift below would drop further bits, and the operation would be on another hash.
            let expected = || format!("a hash of {hash_bits} bits");
            reader.check(bytes, hash >> hash_bits == 0, expected, || hash.to_string())?;
            visit(Operation::new(kind, hash << (64 - hash_bits), unit, replaced));
        }
    }
    Ok(())
}

/// Reads the distance to a unit from the one before.
fn next_unit(
    reader: &mut Decoder<'_>,
    before: Unit,
    distance: impl Fn(u64) -> Option<i64>,
) -> Result<Unit, DecodeError> {
    let read = reader.varint("a unit")?;
    let unit = distance(read).and_then(|distance| before.checked_add_signed(distance));
    // No open would read a saved page with a unit of more bits.
    let unit = unit.filter(|unit| unit >> UNIT_BITS_MAX == 0);
    unit.ok_or_else(|| reader.unexpected("a unit of at most 40 bits", format!("{before} and {read}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_index::coding::mix;
    use siltstone_index::hash_pages::HashPages;

    const SETTINGS: LogIndexSettings = LogIndexSettings { hash_bits: 38, shards_log2: 6, slot_units: 1 };

    /// Returns random operations of few hashes that all succeed, in their order, and the pages that they give.
    fn operations(seed: u64, count: u64) -> (Run, HashPages) {
        let mut pages = HashPages::new(32).unwrap();
        let mut run = Run::new();
        for step in 0..count {
            let random = mix(seed << 32 | step);
            let hash = mix(random % (count / 4 + 1)) >> 32 << 32;
            let units: Vec<Unit> = pages.candidates(hash).collect();
            let from = units.get(random as usize % units.len().max(1)).copied();
            let operation = match (random >> 40 & 3, from) {
                (0, Some(from)) => Operation::remove(hash, from),
                (1, Some(from)) => Operation::replace(hash, from, random >> 24),
                _ => Operation::insert(hash, step),
            };
            assert!(operation.apply(&mut pages));
            run.push(operation);
        }
        (run, pages)
    }

    #[test]
    fn decoded_operations_give_the_same_pages_though_they_are_in_another_order() {
        let header = RedoHeader { number: 7, covered: [1, 2, 3, u64::MAX] };
        let (one, wanted_one) = operations(1, 3_000);
        let (mut two, wanted_two) = operations(2, 3_000);
        let rest = two.split_off(1_000);
        let mut shards = vec![Vec::new(); 64];
        (shards[3], shards[63]) = (vec![one], vec![two, rest]);
        let records = header.records(&SETTINGS, shards);
        let mut pages = vec![HashPages::new(32).unwrap(); 64];
        let mut last = (0, 0);
        for record in &records {
            let found = decode(&SETTINGS, record, &mut |_, shard, run, operation| {
                assert!(last <= (shard, run), "runs in their order");
                last = (shard, run);
                assert!(operation.apply(&mut pages[shard]));
            });
            assert_eq!(found.unwrap(), header);
        }
        assert_eq!(last, (63, 1));
        for (shard, wanted) in [(3, wanted_one), (63, wanted_two)] {
            assert!(pages[shard].entries().eq(wanted.entries()));
        }
    }

    #[test]
    fn an_insertion_takes_little_more_than_the_bytes_of_its_hash() {
        let inserts = |shard: u64| -> Vec<Run> {
            let units = (0..64 * 2_000).filter(|&unit| mix(unit) % 64 == shard);
            vec![units.map(|unit| Operation::insert(mix(unit + 9) >> 32 << 32, unit)).collect()]
        };
        let shards: Vec<Vec<Run>> = (0..64).map(inserts).collect();
        let count: usize = shards.iter().flatten().map(Vec::len).sum();
        let header = RedoHeader { number: 1, covered: Covered::default() };
        let bytes: usize = header.records(&SETTINGS, shards).iter().map(Vec::len).sum();
        let each = bytes as f64 / count as f64;
        assert!(each < 5.3, "{each} bytes per insertion");
    }

    #[test]
    fn long_flushes_are_divided_and_empty_ones_have_a_record() {
        let header = RedoHeader { number: 1, covered: Covered::default() };
        assert_eq!(header.records(&SETTINGS, vec![Vec::new(); 64]).len(), 1);
        let run: Run = (0..100_000).map(|unit| Operation::insert(mix(unit) >> 32 << 32, unit)).collect();
        let records = header.records(&SETTINGS, vec![vec![run]; 5]);
        assert_eq!(records.len(), 2);
        let mut count = 0;
        for record in records {
            assert!(decode(&SETTINGS, &record, &mut |_, _, _, _| count += 1).is_ok());
        }
        assert_eq!(count, 500_000);
    }

    #[test]
    fn damaged_bytes_and_those_of_other_indexes_are_refused_or_harmless() {
        let header = RedoHeader { number: 7, covered: Covered::default() };
        let mut shards = vec![Vec::new(); 64];
        shards[5] = vec![operations(3, 60).0];
        let record = header.records(&SETTINGS, shards).remove(0);
        for end in 0..record.len() {
            let is_header = end == 48;
            assert_eq!(
                decode(&SETTINGS, &record[..end], &mut |_, _, _, _| ()).is_ok(),
                is_header,
                "{end} bytes"
            );
        }
        for at in 0..record.len() {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut damaged = record.clone();
                damaged[at] ^= flip;
                let _ = decode(&SETTINGS, &damaged, &mut |_, shard, _, operation| {
                    assert!(shard < 64 && operation.units().0 < 1 << UNIT_BITS_MAX);
                });
            }
        }
        for other in [
            LogIndexSettings { hash_bits: 37, ..SETTINGS },
            LogIndexSettings { hash_bits: 37, shards_log2: 5, slot_units: 1 },
        ] {
            assert!(decode(&other, &record, &mut |_, _, _, _| ()).is_err(), "{other:?}");
        }
    }
}

//! Verifies a dictionary: the checksum of every block, the order and place of every record, and all counts.

use super::{Dictionary, PIECE_BYTES};
use crate::damage::{Damage, DamagedPart, KeyRange, VerifyReport};
use crate::device::{AlignedBuffer, Purpose};
use crate::key::KeyHash;
use crate::progress::Progress;
use crate::store::record::{RecordProblem, RecordView};
use crate::{Error, Result};

/// The maximum number of damaged places that are reported.
const DAMAGE_MAX: usize = 1000;

struct Verifier<'d> {
    dictionary: &'d Dictionary,
    report: VerifyReport,
    /// Bytes of records that were read and not yet decoded, from the beginning of a record on.
    pending: Vec<u8>,
    /// The block in which they begin; `None` if it is unknown where the next record begins.
    begins: Option<u64>,
    last: Option<(KeyHash, Vec<u8>)>,
    key_bytes: u64,
    value_bytes: u64,
}

pub(super) fn verify(dictionary: &Dictionary, progress: &mut Progress<'_>) -> Result<VerifyReport> {
    let file = dictionary.store().file();
    let footer = file.footer();
    let block_bytes = footer.block_bytes as usize;
    let mut verifier = Verifier {
        dictionary,
        report: VerifyReport::default(),
        pending: Vec::new(),
        begins: None,
        last: None,
        key_bytes: 0,
        value_bytes: 0,
    };
    let mut buffer = AlignedBuffer::default();
    let blocks_per_piece = (PIECE_BYTES / block_bytes).max(1) as u64;
    let mut next = 0;
    while next < footer.blocks {
        let blocks = next..(next + blocks_per_piece).min(footer.blocks);
        let bytes = file.read_blocks(Purpose::Maintain, blocks.clone(), &mut buffer)?;
        for (number, bytes) in blocks.clone().zip(bytes.chunks_exact(block_bytes)) {
            verifier.check_block(number, bytes);
        }
        verifier.report.checked_bytes += bytes.len() as u64;
        next = blocks.end;
        if !progress(next * block_bytes as u64, file.length()) {
            return Err(Error::Interrupted);
        }
    }
    verifier.check_end();
    verifier.check_index();
    verifier.check_footer();
    Ok(verifier.report)
}

impl Verifier<'_> {
    fn damage(&mut self, part: DamagedPart, error: &Error) {
        if self.report.damage.len() < DAMAGE_MAX {
            let block_bytes = u64::from(self.dictionary.store().file().footer().block_bytes);
            let has_records = !matches!(part, DamagedPart::Index | DamagedPart::StoreFooter);
            let lost = if has_records { vec![KeyRange::ALL] } else { Vec::new() };
            self.report.damage.push(Damage { lost, ..Damage::of(error, part, block_bytes) });
        }
    }

    /// Reports wrong contents of a block with a correct checksum.
    fn damaged(&mut self, block: u64, expected: impl Into<String>, got: impl Into<String>) {
        let file = self.dictionary.store().file();
        let offset = (block + 1) * u64::from(file.footer().block_bytes);
        let error = file.file().corrupt(offset, expected, got);
        self.damage(DamagedPart::Records, &error);
    }

    fn check_block(&mut self, number: u64, bytes: &[u8]) {
        let block = match self.dictionary.store().block(number, bytes) {
            Ok(block) => block,
            Err(error) => {
                self.damage(DamagedPart::Blocks, &error);
                self.lose_track();
                return;
            }
        };
        if let Some(begins) = self.begins.filter(|_| !self.pending.is_empty()) {
            self.pending.extend_from_slice(block.payload);
            self.check_records(begins, number);
        } else if let Some(first) = block.first_record {
            // If the previous block was intact, the next record begins directly after it.
            if first > 0 && (self.begins.is_some() || number == 0) {
                self.damaged(number, "a record at the beginning", "a gap");
            }
            self.pending.clear();
            self.pending.extend_from_slice(block.payload.get(first..).unwrap_or_default());
            self.check_records(number, number);
        }
    }

    /// Continues, after damage, with the next record whose beginning is known.
    fn lose_track(&mut self) {
        self.pending.clear();
        self.begins = None;
    }

    /// Checks the complete records among the pending bytes. The first one begins in block `begins`, the last byte is in
    /// block `number`.
    fn check_records(&mut self, begins: u64, number: u64) {
        let pending = std::mem::take(&mut self.pending);
        let (mut at, mut begins) = (0, begins);
        loop {
            match self.dictionary.store().decode(&pending[at..]) {
                Ok((record, taken)) => {
                    self.check_record(&record, begins, number);
                    at += taken;
                    begins = number;
                }
                Err(RecordProblem::Short(_)) => break,
                Err(RecordProblem::Malformed(expected)) => {
                    self.damaged(begins, expected, "other bytes");
                    return self.lose_track();
                }
            }
        }
        self.begins = Some(begins);
        self.pending = pending;
        self.pending.drain(..at);
    }

    fn check_record(&mut self, record: &RecordView<'_>, first: u64, last: u64) {
        let Some(value) = record.value else {
            return self.damaged(first, "a record with a value", "a tombstone");
        };
        self.report.checked_records += 1;
        self.key_bytes += record.key.len() as u64;
        self.value_bytes += value.len() as u64;
        let hash = self.dictionary.header().placing().place(record.key);
        let store = self.dictionary.store();
        if let Some((last_hash, last_key)) = &mut self.last {
            let ascends = (*last_hash, &last_key[..]) < (hash, record.key);
            *last_hash = hash;
            last_key.clear();
            last_key.extend_from_slice(record.key);
            if !ascends {
                self.damaged(first, "records in the order of their hashes", "one that should come earlier");
            }
        } else {
            self.last = Some((hash, record.key.to_vec()));
        }
        let Some(located) = store.index().map(|index| index.locate(hash)) else { return };
        if located.start > first || located.end <= last {
            let got = format!("blocks {} to {}", located.start, located.end);
            self.damaged(first, format!("an index that locates blocks {first} to {last}"), got);
        }
    }

    /// Checks that all records were read. Nothing can be said after damage.
    fn check_end(&mut self) {
        let footer = self.dictionary.store().file().footer();
        let header = self.dictionary.header();
        if !self.report.damage.is_empty() {
            return;
        }
        if !self.pending.is_empty() {
            self.damaged(footer.blocks - 1, "the rest of a record", "the end of the last block");
        }
        let expected = (footer.records, header.key_bytes, header.value_bytes);
        let got = (self.report.checked_records, self.key_bytes, self.value_bytes);
        if got != expected {
            let [expected, got] = [expected, got].map(|(records, key_bytes, value_bytes)| {
                format!("{records} records with {key_bytes} bytes of keys and {value_bytes} of values")
            });
            let file = self.dictionary.store().file().file();
            let error = file.corrupt(0, expected, got);
            self.damage(DamagedPart::Records, &error);
        }
    }

    /// Checks the index if the dictionary was opened without it; otherwise it was checked then.
    fn check_index(&mut self) {
        let store = self.dictionary.store();
        let section = store.file().footer().index;
        if store.index().is_none()
            && section.kind != 0
            && let Err(error) = store.file().read_section(&section, Purpose::Maintain)
        {
            self.damage(DamagedPart::Index, &error);
        }
    }

    /// Checks the copy of the first footer. That of a later index may have been overwritten by a still later one.
    fn check_footer(&mut self) {
        let is_first = self.dictionary.store().file().length() == self.dictionary.header().first_end;
        if is_first && let Err(error) = self.dictionary.store().file().check_copy(Purpose::Maintain) {
            self.damage(DamagedPart::StoreFooter, &error);
        }
    }
}

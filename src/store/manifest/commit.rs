//! The bytes of the commits of a manifest. docs/formats/manifest.md draws them.

use super::{KeptSettings, LiveState};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum;

/// The bytes before the body of a commit: its checksum and its length.
pub const COMMIT_HEADER_BYTES: usize = 8;

/// The changes of one commit: all of them take effect or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit<E> {
    /// The log is synced up to this position.
    pub log_synced: u64,
    /// Settings that get a new value.
    pub settings: KeptSettings,
    /// The edits of the live state, in their order.
    pub edits: Vec<E>,
}

impl<E> Commit<E> {
    /// Appends the bytes of the commit with this sequence number. One checksum covers all edits, because the sectors of
    /// one write may become durable in any order.
    pub fn encode<S: LiveState<Edit = E>>(&self, sequence: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; COMMIT_HEADER_BYTES]);
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&self.log_synced.to_le_bytes());
        out.extend_from_slice(&(self.settings.len() as u16).to_le_bytes());
        for text in self.settings.iter().flat_map(|(name, value)| [name, value]) {
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(&(self.edits.len() as u32).to_le_bytes());
        self.edits.iter().for_each(|edit| S::encode(edit, out));
        let length = (out.len() - start - COMMIT_HEADER_BYTES) as u32;
        out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        let crc = checksum::crc32c(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes the commit with this sequence number from the start of `bytes`. Returns it with its length in bytes;
    /// `None` if the bytes are not those of a whole commit with this number.
    ///
    /// # Errors
    /// [`Unknown`] for a whole commit, with a correct checksum, that has other fields than these.
    pub fn decode<S: LiveState<Edit = E>>(
        sequence: u64,
        bytes: &[u8],
    ) -> Result<Option<(Commit<E>, usize)>, Unknown> {
        let Some(body) = whole_body(sequence, bytes) else { return Ok(None) };
        // It took effect, so it must not be taken for one that a crash cut off, which is truncated.
        let commit = Commit::decode_body::<S>(body).ok_or(Unknown)?;
        Ok(Some((commit, COMMIT_HEADER_BYTES + body.len())))
    }

    fn decode_body<S: LiveState<Edit = E>>(body: &[u8]) -> Option<Commit<E>> {
        let mut fields = Reader::new(body);
        let _sequence = fields.u64()?;
        let log_synced = fields.u64()?;
        let mut settings = KeptSettings::new();
        for _ in 0..fields.u16()? {
            settings.insert(decode_text(&mut fields)?, decode_text(&mut fields)?);
        }
        let mut edits = Vec::new();
        for _ in 0..fields.u32()? {
            edits.push(S::decode(&mut fields)?);
        }
        // Bytes that are left would be edits that this program does not know.
        (fields.at() == body.len()).then_some(Commit { log_synced, settings, edits })
    }
}

/// A whole commit has fields that this program does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

/// Returns the verified bytes of the commit with this sequence number, from the number on.
fn whole_body(sequence: u64, bytes: &[u8]) -> Option<&[u8]> {
    let mut fields = Reader::new(bytes);
    let (crc, length) = (fields.u32()?, fields.u32()? as usize);
    let body = fields.bytes(length)?;
    // The sequence number is part of what is verified, so no commit is taken for one at another place.
    let is_whole = Reader::new(body).u64()? == sequence
        && checksum::crc32c(&bytes[4..COMMIT_HEADER_BYTES + length]) == crc;
    is_whole.then_some(body)
}

fn decode_text(fields: &mut Reader<'_>) -> Option<String> {
    let length = usize::from(fields.u8()?);
    String::from_utf8(fields.bytes(length)?.to_vec()).ok()
}

/// The fields of a commit that are read before its checksum is verified.
pub struct CommitClaim {
    /// The checksum of the bytes after it.
    pub crc: u32,
    /// The number of bytes that the checksum covers.
    pub covered_bytes: u64,
    /// The sequence number of the commit.
    pub sequence: u64,
}

impl CommitClaim {
    /// Reads the fields at the start of `bytes`.
    pub fn of(bytes: &[u8]) -> Option<CommitClaim> {
        let mut fields = Reader::new(bytes);
        let (crc, length, sequence) = (fields.u32()?, fields.u32()?, fields.u64()?);
        // The length may be any number: `RangeChecksums` has no checksum of a range beyond the file.
        Some(CommitClaim { crc, covered_bytes: u64::from(length) + 4, sequence })
    }
}

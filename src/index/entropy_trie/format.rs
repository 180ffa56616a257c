//! The bytes of an entropy-coded trie; `docs/formats/entropy_trie.md` has the diagram.

use super::{Body, Coder, EntropyTrie, TrieSettings, fast::FastTrie, paper::PaperTrie};
use crate::index::DecodeError;

const STRUCTURE: &str = "entropy-coded trie";
const MAGIC: [u8; 8] = *b"ECTRIE\r\n";
const VERSION: u16 = 1;

const CODER_PAPER: u8 = 0;
const CODER_FAST: u8 = 1;

impl EntropyTrie {
    /// Appends the trie to `out`, about [`heap_bytes`](crate::index::PlacementIndex::heap_bytes) bytes.
    ///
    /// The bytes carry no checksum: whoever stores them covers them with one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let settings = &self.settings;
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(match settings.coder {
            Coder::Paper => CODER_PAPER,
            Coder::Fast => CODER_FAST,
        });
        out.push(0);
        out.extend_from_slice(&settings.bucket_keys.to_le_bytes());
        out.extend_from_slice(&settings.huffman_max.to_le_bytes());
        out.extend_from_slice(&settings.records_per_block.to_le_bytes());
        out.extend_from_slice(&settings.expected_keys.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        match &self.body {
            Body::Paper(trie) => trie.encode(out),
            Body::Fast(trie) => trie.encode(out),
        }
    }

    /// Reads back the bytes that [`encode`](Self::encode) wrote; nothing may follow them. Nothing is rebuilt: the cost
    /// is that of copying the bytes and of one pass over the bucket index.
    ///
    /// # Errors
    ///
    /// [`DecodeError`], if the bytes are not what `encode` writes. Bytes that are damaged in a way that goes unseen
    /// give a trie that locates placements wrongly, but within its records.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor { bytes, offset: 0 };
        cursor.literal("magic", &MAGIC)?;
        cursor.literal("version", &VERSION.to_le_bytes())?;
        let coder = match cursor.array()? {
            [CODER_PAPER, 0] => Coder::Paper,
            [CODER_FAST, 0] => Coder::Fast,
            other => return Err(cursor.error("a coder, 0 or 1, and a zero", format!("{other:?}"))),
        };
        let settings = TrieSettings {
            coder,
            bucket_keys: u32::from_le_bytes(cursor.array()?),
            huffman_max: u32::from_le_bytes(cursor.array()?),
            records_per_block: u32::from_le_bytes(cursor.array()?),
            expected_keys: u64::from_le_bytes(cursor.array()?),
        };
        settings.check().map_err(|error| cursor.error("settings within their limits", error))?;
        let len = u64::from_le_bytes(cursor.array()?);
        if len >= 1 << 62 {
            return Err(cursor.error("fewer than 2^62 keys", len));
        }
        let body = match coder {
            Coder::Paper => Body::Paper(PaperTrie::decode(&mut cursor, &settings, len)?),
            Coder::Fast => Body::Fast(FastTrie::decode(&mut cursor, &settings, len)?),
        };
        if cursor.offset != bytes.len() {
            return Err(cursor.error("the end", format!("{} more bytes", bytes.len() - cursor.offset)));
        }
        Ok(Self { settings, buckets: settings.buckets(), len, body })
    }
}

/// Takes fields off untrusted bytes.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// The error that something else was expected before the current offset.
    pub(super) fn error(&self, expected: impl ToString, got: impl ToString) -> DecodeError {
        DecodeError {
            structure: STRUCTURE,
            offset: self.offset,
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// Takes `count` bytes.
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], DecodeError> {
        let rest = self.bytes.get(self.offset..).unwrap_or(&[]);
        match usize::try_from(count).ok().and_then(|count| rest.get(..count)) {
            Some(taken) => {
                self.offset += taken.len();
                Ok(taken)
            }
            None => Err(self.error(format!("{count} bytes"), format!("{} bytes", rest.len()))),
        }
    }

    /// Takes `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let short = self.error(format!("{N} bytes"), "fewer");
        self.take(N as u64)?.first_chunk().copied().ok_or(short)
    }

    /// Takes `count` arrays of `N` bytes.
    pub(super) fn arrays<const N: usize>(&mut self, count: u64) -> Result<&'a [[u8; N]], DecodeError> {
        let bytes = self.take(count.saturating_mul(N as u64))?;
        Ok(bytes.as_chunks().0)
    }

    /// Takes a 64-bit number that is at most `limit`.
    pub(super) fn at_most(&mut self, name: &str, limit: u64) -> Result<u64, DecodeError> {
        let got = u64::from_le_bytes(self.array()?);
        if got > limit {
            return Err(self.error(format!("{name}: at most {limit}"), got));
        }
        Ok(got)
    }

    fn literal(&mut self, name: &str, expected: &[u8]) -> Result<(), DecodeError> {
        let error = |got: &[u8]| DecodeError {
            structure: STRUCTURE,
            offset: self.offset,
            expected: format!("{name} {expected:02x?}"),
            got: format!("{got:02x?}"),
        };
        let got = self.bytes.get(self.offset..).unwrap_or(&[]);
        let got = got.get(..expected.len()).unwrap_or(got);
        if got != expected {
            return Err(error(got));
        }
        self.offset += expected.len();
        Ok(())
    }
}

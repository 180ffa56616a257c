//! The bytes of an entropy-coded trie; `docs/formats/entropy_trie.md` has the diagram.

use super::{
    Coder, EntropyTrie, TrieSettings,
    bucket_index::{BucketIndex, Offsets},
    code_string::CodeString,
    codes::Codes,
};
use crate::coding::{DecodeError, Decoder};

const STRUCTURE: &str = "entropy-coded trie";
const MAGIC: [u8; 8] = *b"ECTRIE\r\n";
const VERSION: u16 = 1;

const CODER_PAPER: u8 = 0;
const CODER_FAST: u8 = 1;

impl EntropyTrie {
    /// Appends the encoded trie, about [`heap_bytes`](crate::PlacementIndex::heap_bytes) bytes.
    ///
    /// The bytes have no checksum of their own; the file they are stored in has to add one.
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
        out.extend_from_slice(&self.bits.len().to_le_bytes());
        self.index.encode(out);
        out.extend_from_slice(self.bits.as_bytes());
    }

    /// Decodes what [`encode`](Self::encode) wrote; no bytes may follow. The trie is not rebuilt: the cost is that of
    /// copying the bytes and of one pass over the bucket index.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if `encode` cannot have written the bytes. Damage that is not detected leads to a trie that
    /// returns wrong ranges, but always ranges within its records.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let coder = match decoder.array("a coder")? {
            [CODER_PAPER, 0] => Coder::Paper,
            [CODER_FAST, 0] => Coder::Fast,
            other => return Err(decoder.unexpected("a coder, 0 or 1, and a zero", format!("{other:?}"))),
        };
        let settings = TrieSettings {
            coder,
            bucket_keys: decoder.u32("bucket_keys")?,
            huffman_max: decoder.u32("huffman_max")?,
            records_per_block: decoder.u32("records_per_block")?,
            expected_keys: decoder.u64("expected_keys")?,
        };
        // Before the number of buckets is computed from them.
        settings.check().map_err(|error| decoder.unexpected("settings within their limits", error))?;
        // Limited, so that sums of positions do not overflow.
        let len = decoder.at_most((1 << 62) - 1, "a number of keys")?;
        let bit = decoder.at_most(u64::MAX / 2, "bits of code")?;
        // Checks that every bucket is within the records and the code, on which lookups rely.
        let index = BucketIndex::decode(&mut decoder, settings.buckets(), Offsets { position: len, bit })?;
        let code = decoder.take(usize::try_from(bit.div_ceil(8)).unwrap_or(usize::MAX), "code")?;
        let bits = CodeString::from_bytes(code, bit);
        decoder.end()?;
        Ok(Self { settings, codes: Codes::new(&settings), len, index, bits })
    }
}

//! The bytes of compressed values. docs/formats/compression.md draws them.
//!
//! The first byte of a stored value says how the rest is coded, so that values which do not shrink are stored as they
//! are, and values from before the dictionary remain readable.

use super::{Compression, DICTIONARIES};
use crate::key::VALUE_LENGTH_MAX;
use siltstone_device::sync::Mutex;
use siltstone_index::coding::checksum::crc32c;
use siltstone_index::coding::{Reader, push_varint};
use std::cell::RefCell;
use std::sync::OnceLock;
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DDict, DParameter, FrameFormat, compress_bound, get_error_name,
};

/// The maximum length of a value, in bytes: the first byte belongs to the limit on what is stored.
pub const VALUE_LENGTH_COMPRESSED_MAX: usize = VALUE_LENGTH_MAX - 1;
/// The maximum length of a dictionary, in bytes.
pub const DICTIONARY_BYTES_MAX: usize = 32 << 10;

/// Zstandard ignores shorter dictionaries.
const DICTIONARY_BYTES_MIN: usize = 8;
/// Shorter values are stored as they are.
const LENGTH_MIN: usize = 12;
/// The bytes before the data of a compressed value, at most: the first byte, and the length.
const FRAME_BYTES_MAX: usize = 6;
/// The bytes that a compressed block of Zstandard has at least, and those that it can become.
const ZSTD_BLOCK_BYTES: (usize, usize) = (3, 128 << 10);
/// The bytes that a byte of LZ4 can become.
const LZ4_RATIO_MAX: usize = 255;

const RAW: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

thread_local! {
    static DECODER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// A dictionary in use.
struct Dictionary {
    number: u8,
    bytes: Vec<u8>,
    decoder: DDict<'static>,
}

/// Codes values of one database.
pub struct Codec {
    compression: Compression,
    dictionary: OnceLock<Dictionary>,
    /// Contexts that no thread uses at present, without and with the dictionary.
    encoders: Mutex<Vec<CCtx<'static>>>,
    encoders_with_dictionary: Mutex<Vec<CCtx<'static>>>,
}

/// Returns the number of a dictionary. Most others have another number.
fn number_of(dictionary: &[u8]) -> u8 {
    DICTIONARIES + (crc32c(dictionary) % u32::from(u8::MAX - DICTIONARIES + 1)) as u8
}

/// Trains a dictionary on samples that follow each other. If they are too few or have too little in common, the last of
/// them are the dictionary. Returns `None` if that is not possible either.
pub fn train(samples: &[u8], lengths: &[usize]) -> Option<Vec<u8>> {
    let trained = zstd::dict::from_continuous(samples, lengths, DICTIONARY_BYTES_MAX);
    let last = || samples[samples.len().saturating_sub(DICTIONARY_BYTES_MAX)..].to_vec();
    let dictionary = trained.unwrap_or_else(|_| last());
    let is_usable = dictionary.len() >= DICTIONARY_BYTES_MIN && DDict::try_create(&dictionary).is_some();
    is_usable.then_some(dictionary)
}

/// Returns the value of a stored one that is not compressed.
pub fn raw_value(stored: &[u8]) -> Option<&[u8]> {
    stored.split_first().filter(|(first, _)| **first == RAW).map(|(_, value)| value)
}

impl Codec {
    /// Makes a codec without a dictionary.
    pub fn new(compression: Compression) -> Codec {
        Codec {
            compression,
            dictionary: OnceLock::new(),
            encoders: Mutex::default(),
            encoders_with_dictionary: Mutex::default(),
        }
    }

    /// Sets the dictionary, once: later values are compressed with it. Returns false if it is none.
    pub fn set_dictionary(&self, bytes: Vec<u8>) -> bool {
        let Some(decoder) = DDict::try_create(&bytes) else { return false };
        let dictionary = Dictionary { number: number_of(&bytes), bytes, decoder };
        let is_set = self.dictionary.set(dictionary).is_ok();
        // After the dictionary is set, so that no thread takes one of them any more.
        self.encoders.lock().clear();
        is_set
    }

    /// Returns the dictionary.
    pub fn dictionary(&self) -> Option<&[u8]> {
        self.dictionary.get().map(|dictionary| &dictionary.bytes[..])
    }

    /// Returns the memory of the dictionary and of idle contexts, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let contexts = |of: &Mutex<Vec<CCtx<'static>>>| of.lock().iter().map(CCtx::sizeof).sum::<usize>();
        let dictionary = self
            .dictionary
            .get()
            .map_or(0, |dictionary| dictionary.bytes.capacity() + dictionary.decoder.sizeof());
        dictionary + contexts(&self.encoders) + contexts(&self.encoders_with_dictionary)
    }

    /// Appends the stored form of a value, which has at most one byte more than it.
    pub fn encode(&self, value: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let is_coded = value.len() >= LENGTH_MIN
            && match self.compression {
                Compression::None => false,
                Compression::Lz4 => encode_lz4(value, out).is_some(),
                Compression::Zstd { level } => self.encode_zstd(value, level, out).is_some(),
            };
        if !is_coded || out.len() - start > value.len() {
            out.truncate(start);
            out.push(RAW);
            out.extend_from_slice(value);
        }
    }

    fn encode_zstd(&self, value: &[u8], level: u8, out: &mut Vec<u8>) -> Option<()> {
        let dictionary = self.dictionary.get();
        // By the dictionary that was read once: another thread may set it meanwhile, and context and number must fit
        // together.
        let idle = if dictionary.is_some() { &self.encoders_with_dictionary } else { &self.encoders };
        // The lock ends with this statement, so others compress at the same time.
        let popped = idle.lock().pop();
        let mut encoder = match popped {
            Some(encoder) => encoder,
            None => new_encoder(level, dictionary)?,
        };
        out.push(dictionary.map_or(ZSTD, |dictionary| dictionary.number));
        let written =
            append(value.len(), compress_bound(value.len()), out, |to| encoder.compress2(to, value).ok());
        // One that has no dictionary is not used any more once there is one.
        let mut idle = idle.lock();
        if dictionary.is_some() || self.dictionary.get().is_none() {
            idle.push(encoder);
        }
        written
    }

    /// Appends the value of its stored form to `out`; with an error, `out` is as before.
    ///
    /// # Errors
    /// What is wrong with the bytes. What is allocated is bounded by their number and by the limit on values.
    pub fn decode(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        let decoded = self.append_decoded(stored, out);
        if decoded.is_err() {
            out.truncate(start);
        }
        decoded
    }

    fn append_decoded(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        if let Some(value) = raw_value(stored) {
            out.reserve_exact(value.len());
            out.extend_from_slice(value);
            return Ok(());
        }
        let Some((first, rest)) = stored.split_first() else { return Err("no bytes".into()) };
        let mut fields = Reader::new(rest);
        let length = fields.varint().and_then(|length| usize::try_from(length).ok());
        let data = &rest[fields.at()..];
        let possible = match *first {
            LZ4 => data.len().saturating_mul(LZ4_RATIO_MAX),
            _ => (data.len() / ZSTD_BLOCK_BYTES.0).saturating_mul(ZSTD_BLOCK_BYTES.1),
        };
        let possible = possible.min(VALUE_LENGTH_COMPRESSED_MAX);
        // Before memory is allocated: the length may be damaged.
        let Some(length) = length.filter(|length| *length <= possible) else {
            return Err(format!("{} bytes of a value that is too long for them", data.len()));
        };
        let start = out.len();
        out.reserve_exact(length);
        out.resize(start + length, 0);
        let to = &mut out[start..];
        let written = match *first {
            LZ4 => lz4_flex::block::decompress_into(data, to).map_err(|error| error.to_string())?,
            ZSTD => decode_zstd(|decoder| decoder.decompress(to, data))?,
            number => {
                let dictionary = self.dictionary.get().filter(|dictionary| dictionary.number == number);
                let Some(dictionary) = dictionary else {
                    return Err(format!(
                        "a value of the dictionary {number}, which the database does not have"
                    ));
                };
                decode_zstd(|decoder| decoder.decompress_using_ddict(to, data, &dictionary.decoder))?
            }
        };
        if written == length { Ok(()) } else { Err(format!("{written} bytes instead of {length}")) }
    }
}

/// Appends the length of a value, and its coded bytes, at most `bound` of them.
fn append(
    length: usize,
    bound: usize,
    out: &mut Vec<u8>,
    code: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<()> {
    out.reserve(FRAME_BYTES_MAX + bound);
    push_varint(out, length as u64);
    let start = out.len();
    out.resize(start + bound, 0);
    let written = code(&mut out[start..])?;
    out.truncate(start + written);
    Some(())
}

fn encode_lz4(value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    use lz4_flex::block::{compress_into, get_maximum_output_size};
    out.push(LZ4);
    let bound = get_maximum_output_size(value.len());
    append(value.len(), bound, out, |to| compress_into(value, to).ok())
}

/// Makes a context. Its frames have neither magic number, checksum, content size nor number of a dictionary.
fn new_encoder(level: u8, dictionary: Option<&Dictionary>) -> Option<CCtx<'static>> {
    let mut encoder = CCtx::try_create()?;
    let parameters = [
        CParameter::CompressionLevel(level.into()),
        CParameter::Format(FrameFormat::Magicless),
        CParameter::ContentSizeFlag(false),
        CParameter::ChecksumFlag(false),
        CParameter::DictIdFlag(false),
    ];
    for parameter in parameters {
        encoder.set_parameter(parameter).ok()?;
    }
    if let Some(dictionary) = dictionary {
        encoder.load_dictionary(&dictionary.bytes).ok()?;
    }
    Some(encoder)
}

/// Calls `decode` with the context of the thread.
fn decode_zstd(decode: impl FnOnce(&mut DCtx<'static>) -> Result<usize, usize>) -> Result<usize, String> {
    DECODER.with_borrow_mut(|decoder| {
        let decoder = match decoder {
            Some(decoder) => decoder,
            None => {
                let mut made = DCtx::try_create().ok_or("no memory for Zstandard")?;
                made.set_parameter(DParameter::Format(FrameFormat::Magicless)).map_err(get_error_name)?;
                decoder.insert(made)
            }
        };
        decode(decoder).map_err(|code| get_error_name(code).to_owned())
    })
}

#[cfg(test)]
mod tests;

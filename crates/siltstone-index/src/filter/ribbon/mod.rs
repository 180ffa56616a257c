//! A filter near the information bound: bumped ribbon retrieval.
//!
//! Each key is a linear equation over bits: the XOR of some of 64 consecutive rows, chosen by its hash, is its
//! fingerprint of `bits` bits. The rows are computed such that all equations hold. A key that is not in the set
//! satisfies its equation with a probability of 2^-`bits`.
//!
//! ```text
//! rows               r0 r1 r2 r3 r4 r5 ..
//! key a, start 0      1  0  1  1                r0 ^ r2 ^ r3 = fingerprint of a
//! key b, start 1         1  1  0  1             r1 ^ r2 ^ r4 = fingerprint of b
//! key c, start 2            1  0  0  1          r2 ^ r5      = fingerprint of c
//! ```
//!
//! There are fewer rows than keys, so nearly no row remains free. In every bucket of 128 starting rows, the keys that
//! start before the bucket's *threshold* are *bumped* to the next layer, which is a filter of its own.
//!
//! Deviations: the placement of a key determines where it starts in the first layer, so keys pushed in order need not
//! be sorted; thresholds have 4 bits; the last few keys are listed. Its bytes: `docs/formats/ribbon_filter.md`.
//!
//! P. C. Dillinger, L. Hübschle-Schneider, P. Sanders, S. Walzer, "Fast Succinct Retrieval and Approximate Membership
//! Using Ribbon", SEA 2022.

mod band;
mod builder;
mod rows;
#[cfg(test)]
mod tests;

use super::Filter;
use crate::coding::Decoder;
use crate::coding::mix;
use crate::{BuildError, DecodeError};
pub use builder::RibbonBuilder;
use rows::Rows;

const STRUCTURE: &str = "ribbon filter";
const MAGIC: [u8; 4] = *b"SSRF";
const VERSION: u16 = 1;

/// The rows that an equation extends over, and the rows of a block. A block has a word per column.
const ROWS_PER_BLOCK: u64 = 64;

/// The starting rows that share a threshold.
const ROWS_PER_BUCKET: u64 = 128;

/// The unit of thresholds, which have 4 bits.
const ROWS_PER_THRESHOLD: u64 = 8;

/// The threshold that bumps every key of its bucket.
const BUMP_ALL: u8 = 15;

/// The keys per row of a layer, more than it can hold: measured to take the least memory.
const KEYS_PER_ROW: f64 = 1.06;

/// Up to this number of keys, their hashes are listed instead of a layer.
const LISTED_MAX: usize = 12;

/// The maximum number of layers. A layer takes about 95 % of its keys, so only keys made to collide reach it.
const LAYERS_MAX: usize = 32;

/// A filter of 12.04 bits per key at a false-positive rate of 2^-12 for a million keys, 12.2 for 15,000, 12.5 for 4,000
/// and 13.7 for 1,000; the bound is 12 bits. At other rates the excess is about the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RibbonFilter {
    bits: u32,
    len: u64,
    layers: Box<[Layer]>,
    /// The first blocks of the first layer that are not in memory.
    left_out: u64,
    /// The thresholds of all layers, two per byte.
    thresholds: Box<[u8]>,
    /// The blocks of all layers.
    blocks: Box<[u64]>,
    /// The hashes of the keys that no layer took, after all layers, ascending.
    listed: Box<[u64]>,
}

/// A layer: its range of the thresholds and of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layer {
    first_bucket: u64,
    first_block: u64,
    blocks: u64,
}

/// A key as a layer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LayerKey {
    /// Where it starts, from 0 at the first row to 2^64 at the last.
    position: u64,
    /// A hash that determines coefficients, fingerprint and the key of the next layer.
    hash: u64,
}

/// An equation: the rows from `start` on whose bits are set in `coefficients` add up to `value`. The first bit is
/// always set.
#[derive(Debug, Clone, Copy)]
struct Equation {
    start: u64,
    coefficients: u64,
    value: u32,
}

impl RibbonFilter {
    /// Makes a filter of these keys (placement and fingerprint) with a false-positive rate of 2^-`bits`; `bits` is 1 to
    /// 32. Equal keys count once. Takes about 100 ns per key for 12 bits, and the time and memory to sort the keys; a
    /// [`RibbonBuilder`] takes keys in order.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if `bits` is outside its limits.
    pub fn new(keys: impl IntoIterator<Item = (u64, u64)>, bits: u8) -> Result<Self, BuildError> {
        let mut keys: Vec<(u64, u64)> = keys.into_iter().collect();
        keys.sort_unstable();
        // Before they are counted, because the number of rows follows from the number of keys.
        keys.dedup();
        let mut builder = RibbonBuilder::new(keys.len() as u64, bits)?;
        keys.into_iter().try_for_each(|(placement, fingerprint)| builder.push(placement, fingerprint))?;
        Ok(builder.finish())
    }

    fn without_layers(bits: u32, len: u64) -> Self {
        let (layers, left_out, thresholds, blocks, listed) = Default::default();
        Self { bits, len, layers, left_out, thresholds, blocks, listed }
    }

    /// Decodes what [`Filter::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let bits = u32::from(reader.u8("bits")?);
        reader.check(1, (1..=32).contains(&bits), || "1 to 32 bits".into(), || bits.to_string())?;
        let layer_count = usize::from(reader.u8("a number of layers")?);
        let allowed = layer_count <= LAYERS_MAX;
        reader.check(1, allowed, || format!("at most {LAYERS_MAX} layers"), || layer_count.to_string())?;
        let mut filter = Self::without_layers(bits, reader.u64("a number of keys")?);
        let listed = reader.u32("a number of listed keys")?;
        let mut layers = Vec::with_capacity(layer_count);
        for _ in 0..layer_count {
            let blocks = reader.u32("the blocks of a layer")?;
            // `Layer::start` subtracts one.
            reader.check(4, blocks > 0, || "at least one block".into(), || "none".into())?;
            layers.push(Layer::after(layers.last(), blocks.into()));
        }
        let (buckets, block_count) =
            layers.last().map_or((0, 0), |last| (last.buckets_end(), last.blocks_end()));
        // Their numbers follow from the layers, so the bytes do not state them.
        filter.thresholds = reader.take(buckets.div_ceil(2) as usize, "thresholds")?.into();
        filter.blocks = reader.words((block_count as usize).saturating_mul(bits as usize), "blocks")?.into();
        filter.listed = reader.words(listed as usize, "listed keys")?.into();
        reader.check(
            0,
            // Lookups search them by bisection.
            filter.listed.is_sorted(),
            || "listed keys in order".into(),
            || "keys out of order".into(),
        )?;
        filter.layers = layers.into();
        reader.end()?;
        Ok(filter)
    }

    /// Returns whether an equation holds.
    #[inline]
    fn holds(&self, layer: &Layer, equation: Equation) -> bool {
        let columns = self.bits as usize;
        let block = layer.first_block + equation.start / ROWS_PER_BLOCK;
        // Its rows are not in memory, so the key may be in the set.
        let Some(block) = block.checked_sub(self.left_out) else { return true };
        let block = block as usize * columns;
        let shift = equation.start % ROWS_PER_BLOCK;
        let (here, beyond) = (equation.coefficients << shift, (equation.coefficients >> 1) >> (63 - shift));
        let (first, behind) = self.blocks[block..].split_at(columns);
        // An equation in the very last block starts at its first row, so it has no rows beyond the block.
        let second = if behind.is_empty() { first } else { &behind[..columns] };
        rows::give(first, second, Rows { here, beyond }, equation.value)
    }

    /// Returns the filter without most of what only keys of lower placements need: it may contain every such key. It
    /// cannot be encoded.
    #[must_use]
    pub fn without_before(&self, placement: u64) -> Self {
        let Some(first) = self.layers.first() else { return self.clone() };
        // Blocks that were left out before are not there any more.
        let left_out = (first.start(placement) / ROWS_PER_BLOCK).max(self.left_out);
        let freed = (left_out - self.left_out) as usize * self.bits as usize;
        let (layers, thresholds) = (self.layers.clone(), self.thresholds.clone());
        let (blocks, listed) = (self.blocks[freed..].into(), self.listed.clone());
        Self { left_out, layers, thresholds, blocks, listed, ..*self }
    }

    fn threshold(&self, bucket: u64) -> u8 {
        self.thresholds[(bucket / 2) as usize] >> (bucket % 2 * 4) & 0x0f
    }
}

impl Filter for RibbonFilter {
    fn may_contain(&self, placement: u64, fingerprint: u64) -> bool {
        let mut key = LayerKey::first(placement, fingerprint);
        for layer in &self.layers {
            let equation = layer.equation(key, self.bits);
            let threshold = self.threshold(layer.first_bucket + equation.start / ROWS_PER_BUCKET);
            if !is_bumped(equation.start, threshold) {
                return self.holds(layer, equation);
            }
            // The next layer has another position and hash of the key, independent of the one that failed.
            key = key.next();
        }
        // Every layer has bumped the key, so only the list may have it.
        self.listed.binary_search(&key.hash).is_ok()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.layers)
            + size_of_val(&*self.thresholds)
            + size_of_val(&*self.blocks)
            + size_of_val(&*self.listed)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(self.left_out, 0, "a part of a filter");
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.push(self.bits as u8);
        out.push(self.layers.len() as u8);
        out.extend(self.len.to_le_bytes());
        out.extend((self.listed.len() as u32).to_le_bytes());
        for layer in &self.layers {
            out.extend((layer.blocks as u32).to_le_bytes());
        }
        out.extend(&self.thresholds);
        out.extend(self.blocks.iter().chain(&self.listed).flat_map(|word| word.to_le_bytes()));
    }
}

/// Returns the blocks of a layer for this number of keys. In a single block all keys start at the same row, so it has
/// to take all of them or none.
fn blocks_for(keys: usize) -> u64 {
    let blocks = (keys as f64 / KEYS_PER_ROW / ROWS_PER_BLOCK as f64).ceil() as u64;
    if keys as u64 <= ROWS_PER_BLOCK - 6 { 1 } else { blocks.max(2) }
}

impl Layer {
    fn after(before: Option<&Layer>, blocks: u64) -> Self {
        let first_bucket = before.map_or(0, Layer::buckets_end);
        Self { first_bucket, first_block: before.map_or(0, Layer::blocks_end), blocks }
    }

    fn blocks_end(&self) -> u64 {
        self.first_block + self.blocks
    }

    fn buckets(&self) -> u64 {
        (self.blocks * ROWS_PER_BLOCK).div_ceil(ROWS_PER_BUCKET)
    }

    fn buckets_end(&self) -> u64 {
        self.first_bucket + self.buckets()
    }

    #[inline]
    fn start(&self, position: u64) -> u64 {
        // The last start is the first row of the last block, so no equation reaches beyond the layer.
        let starts = (self.blocks - 1) * ROWS_PER_BLOCK + 1;
        ((u128::from(position) * u128::from(starts)) >> 64) as u64
    }

    #[inline]
    fn equation(&self, key: LayerKey, bits: u32) -> Equation {
        let start = self.start(key.position);
        let value = (key.hash.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32 >> (32 - bits);
        Equation { start, coefficients: key.hash | 1, value }
    }
}

/// Returns whether a key with this starting row goes to the next layer.
#[inline]
fn is_bumped(start: u64, threshold: u8) -> bool {
    threshold == BUMP_ALL || start % ROWS_PER_BUCKET < u64::from(threshold) * ROWS_PER_THRESHOLD
}

impl LayerKey {
    #[inline]
    fn first(placement: u64, fingerprint: u64) -> Self {
        Self { position: placement, hash: mix(placement.rotate_left(32) ^ fingerprint) }
    }

    #[inline]
    fn next(self) -> Self {
        let hash = mix(self.hash.wrapping_add(0x9e37_79b9_7f4a_7c15));
        Self { position: mix(hash.wrapping_add(0x9e37_79b9_7f4a_7c15)), hash }
    }
}

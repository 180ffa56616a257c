//! Static Huffman codes for |Left|, the number of keys in the left subtrie (ECT 3.1.4).
//!
//! A subtrie of `size` keys has `size` symbols: |Left| from 1 to `size` − 1, with the weights of the binomial
//! distribution, and [`MERGED`], which means |Left| = 0 or |Left| = `size`.
//!
//! Deviation: codes are at most [`CODE_BITS_MAX`] bits long, so at most two table lookups decode one. This costs less
//! than 0.001 bits per key.

use super::code_string::CodeWriter;
use std::sync::LazyLock;

/// The largest subtrie with a Huffman code, in keys. Binomial coefficients up to it fit in 64 bits.
pub(super) const SIZE_MAX: usize = 64;

/// The symbol for "all keys are on one side".
pub(super) const MERGED: u64 = 0;

/// The maximum length of a code, in bits.
pub(super) const CODE_BITS_MAX: u32 = 12;

/// The bits that index the first table; longer codes have a second table, indexed by the remaining bits.
const FIRST_BITS: u32 = 8;
const SECOND_BITS: u32 = CODE_BITS_MAX - FIRST_BITS;

/// The codes of all subtrie sizes, shared by all tries of the process: about 60 KiB.
static CODES: LazyLock<Vec<HuffmanCode>> =
    LazyLock::new(|| (0..=SIZE_MAX).map(|size| HuffmanCode::new(&binomial_weights(size))).collect());

/// Returns the Huffman codes of |Left| for subtries of at most `size` keys, indexed by their size; the first two are
/// empty.
pub(super) fn codes_up_to(size: u32) -> &'static [HuffmanCode] {
    CODES.get(..=size as usize).unwrap_or(&CODES)
}

/// A code word, its first bit lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CodeWord {
    pub bits: u16,
    pub len: u8,
}

/// The meaning of the next bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CodeEntry {
    /// The symbol, or the number of the second table if `len` is [`IN_SECOND`].
    symbol: u8,
    /// The length of the code, in bits.
    len: u8,
}

/// The length of an entry of the first table whose code continues in a second one.
const IN_SECOND: u8 = u8::MAX;

/// A Huffman code.
#[derive(Debug)]
pub(super) struct HuffmanCode {
    words: Vec<CodeWord>,
    first: [CodeEntry; 1 << FIRST_BITS],
    second: Vec<[CodeEntry; 1 << SECOND_BITS]>,
}

impl HuffmanCode {
    /// Makes the code of symbols with these weights, at most 256.
    pub(super) fn new(weights: &[u64]) -> Self {
        // Canonical, so that the lengths alone decide on the code words: the format does not store them.
        let words = canonical_words(&limited_lengths(weights, CODE_BITS_MAX));
        let mut code = Self { words, first: [CodeEntry::default(); 1 << FIRST_BITS], second: Vec::new() };
        for symbol in 0..code.words.len() {
            code.enter(symbol);
        }
        code
    }

    /// Returns the code words by symbol.
    #[cfg(test)]
    pub(super) fn words(&self) -> &[CodeWord] {
        &self.words
    }

    /// Writes the code of a symbol.
    #[inline]
    pub(super) fn write(&self, writer: &mut CodeWriter, symbol: u64) {
        let word = self.words[symbol as usize];
        writer.write(u64::from(word.bits), u32::from(word.len));
    }

    /// Decodes the symbol at the start of `bits`. Returns it and the length of its code.
    #[inline(always)]
    pub(super) fn decode(&self, bits: u64) -> (u64, u32) {
        // The code is complete, so any bits decode to a symbol, also those of damaged bytes.
        let mut entry = self.first[(bits & ((1 << FIRST_BITS) - 1)) as usize];
        if entry.len == IN_SECOND {
            let second = &self.second[usize::from(entry.symbol)];
            entry = second[((bits >> FIRST_BITS) & ((1 << SECOND_BITS) - 1)) as usize];
        }
        (u64::from(entry.symbol), u32::from(entry.len))
    }

    fn enter(&mut self, symbol: usize) {
        let CodeWord { bits, len } = self.words[symbol];
        let (bits, entry) = (usize::from(bits), CodeEntry { symbol: symbol as u8, len });
        if u32::from(len) <= FIRST_BITS {
            for slot in self.first.iter_mut().skip(bits).step_by(1 << len) {
                *slot = entry;
            }
            return;
        }
        let head = &mut self.first[bits & ((1 << FIRST_BITS) - 1)];
        if head.len != IN_SECOND {
            *head = CodeEntry { symbol: self.second.len() as u8, len: IN_SECOND };
            self.second.push([CodeEntry::default(); 1 << SECOND_BITS]);
        }
        let second = &mut self.second[usize::from(head.symbol)];
        for slot in second.iter_mut().skip(bits >> FIRST_BITS).step_by(1 << (u32::from(len) - FIRST_BITS)) {
            *slot = entry;
        }
    }
}

/// Returns the frequency of each symbol of |Left|, times 2^`size`.
fn binomial_weights(size: usize) -> Vec<u64> {
    let mut weights = Vec::with_capacity(size);
    let mut choose: u128 = 1;
    // In 128 bits, because the product before the division exceeds 64.
    for left in 0..size {
        weights.push(if left == 0 { 2 } else { choose as u64 });
        choose = choose * (size - left) as u128 / (left as u128 + 1);
    }
    weights
}

/// Returns the lengths of an optimal prefix code whose words are not longer than `limit`, by the package-merge
/// algorithm (Larmore and Hirschberg, "A fast algorithm for optimal length-limited Huffman codes", J. ACM 37(3), 1990).
/// Among equal weights a symbol precedes a package, and a lower symbol a higher one.
fn limited_lengths(weights: &[u64], limit: u32) -> Vec<u8> {
    let mut lengths = vec![0u8; weights.len()];
    // A single symbol needs no bits.
    if weights.len() < 2 {
        return lengths;
    }
    let mut leaves: Vec<(u128, Vec<usize>)> =
        weights.iter().enumerate().map(|(symbol, &weight)| (u128::from(weight), vec![symbol])).collect();
    // Stable, as the sort below: which of equal weights comes first decides on the code, and so on the format.
    leaves.sort_by_key(|leaf| leaf.0);
    let mut row = leaves.clone();
    for _ in 1..limit {
        let packages = row.chunks_exact(2).map(|pair| {
            let symbols = pair.iter().flat_map(|item| item.1.iter().copied()).collect();
            (pair.iter().map(|item| item.0).sum(), symbols)
        });
        let mut next: Vec<_> = leaves.iter().cloned().chain(packages).collect();
        next.sort_by_key(|item| item.0);
        row = next;
    }
    for (_, symbols) in row.iter().take(2 * weights.len() - 2) {
        for &symbol in symbols {
            lengths[symbol] += 1;
        }
    }
    lengths
}

/// Returns the canonical code words of these lengths: shorter ones first, then lower symbols first.
fn canonical_words(lengths: &[u8]) -> Vec<CodeWord> {
    let mut words = vec![CodeWord::default(); lengths.len()];
    let mut next = 0u16;
    for len in 1..=CODE_BITS_MAX as u8 {
        next <<= 1;
        for (word, _) in words.iter_mut().zip(lengths).filter(|(_, of)| **of == len) {
            *word = CodeWord { bits: next.reverse_bits() >> (16 - len), len };
            next += 1;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_complete_and_prefix_free() {
        for code in &codes_up_to(64)[2..] {
            let space: u64 = code.words().iter().map(|word| 1 << (CODE_BITS_MAX - u32::from(word.len))).sum();
            assert_eq!(space, 1 << CODE_BITS_MAX);
            for bits in 0..1 << CODE_BITS_MAX {
                let (symbol, len) = code.decode(bits);
                let word = code.words()[symbol as usize];
                assert_eq!(u32::from(word.len), len);
                assert_eq!(u64::from(word.bits), bits & ((1 << len) - 1));
            }
        }
    }

    #[test]
    fn codes_are_within_a_tenth_of_a_bit_of_the_entropy() {
        for size in 2..=SIZE_MAX {
            let weights = binomial_weights(size);
            assert_eq!(weights.iter().map(|&weight| u128::from(weight)).sum::<u128>(), 1 << size);
            let total = (size as f64).exp2();
            let (mut mean, mut entropy) = (0.0, 0.0);
            for (word, weight) in codes_up_to(64)[size].words().iter().zip(weights) {
                let probability = weight as f64 / total;
                mean += probability * f64::from(word.len);
                entropy -= probability * probability.log2();
            }
            assert!(mean >= entropy - 1e-9 && mean < entropy + 0.1, "size {size}: {mean} against {entropy}");
        }
    }

    #[test]
    fn a_limit_that_does_not_bind_gives_huffmans_own_lengths() {
        // Weights 1, 1, 2, 4, 8 force every merge.
        assert_eq!(limited_lengths(&[8, 4, 2, 1, 1], 12), [1, 2, 3, 4, 4]);
        assert_eq!(limited_lengths(&[8, 4, 2, 1, 1], 3), [1, 3, 3, 3, 3]);
    }
}

//! The expected bits of one trie by the number of its keys, with the paper's codes and by their entropy (Figure 3.3).
//!
//! A node of n keys writes |Left|, which is binomially distributed with probability 1/2; 0 and n are one symbol, after
//! which the same n keys follow. With c(n) bits for that symbol, a trie has
//!
//! ```text
//! E(n) = c(n) + 2^(1-n) E(n) + sum of p(k) (E(k) + E(n - k)) for k from 1 to n - 1,    E(0) = E(1) = 0
//! ```
//!
//! c(n) is the mean length of a Huffman code up to 64 keys and of the Elias gamma code of the deviation from n / 2
//! above, or the entropy.

use crate::Result;
use crate::conditions::Conditions;
use crate::point::Points;
use crate::quantity::{BitsPerKey, Quantity};
use crate::registry::Experiment;

const ITEM: &str = "ect/figure-3.3";
const KEYS_MAX: usize = 1024;
/// The largest subtrie with a Huffman code.
const HUFFMAN_MAX: usize = 64;

const SIZE: Quantity<BitsPerKey> = Quantity::lower("expected size of a trie");

/// Figure 3.3.
pub static EXPERIMENT: Experiment =
    Experiment { name: "ect-single-trie", cost_s: 1, direct: false, counts: true, rates: false, run };

fn run(_: &Conditions, points: &mut Points) -> Result<()> {
    for (series, bits_of) in
        [("Huffman and Elias gamma codes", coded as fn(&[f64]) -> f64), ("entropy", entropy)]
    {
        let expected = expected_bits(KEYS_MAX, bits_of);
        let mut keys = 2;
        while keys <= KEYS_MAX {
            let bits = expected[keys] / keys as f64;
            points.add(ITEM, SIZE.at(series, keys as f64).calculated(bits));
            keys *= 2;
        }
    }
    Ok(())
}

/// Returns the expected bits of tries of 0 to `keys` keys, where `bits_of` returns the mean bits of a symbol.
fn expected_bits(keys: usize, bits_of: fn(&[f64]) -> f64) -> Vec<f64> {
    let mut expected = vec![0.0; 2];
    // The distribution of |Left| of a node of one key, from which those of more keys follow.
    let mut binomial = vec![0.5, 0.5];
    for _ in 2..=keys {
        let shifted = std::iter::once(&0.0).chain(&binomial);
        binomial =
            binomial.iter().chain([&0.0]).zip(shifted).map(|(less, more)| (less + more) / 2.0).collect();
        let below: f64 = binomial.iter().zip(&expected).map(|(share, bits)| share * bits).sum();
        let merged = 2.0 * binomial[0];
        expected.push((bits_of(&binomial) + 2.0 * below) / (1.0 - merged));
    }
    expected
}

/// Returns the shares of the symbols: that of 0 and n first.
fn symbols(binomial: &[f64]) -> Vec<f64> {
    let inner = binomial.get(1..binomial.len().saturating_sub(1)).unwrap_or_default();
    std::iter::once(2.0 * binomial[0]).chain(inner.iter().copied()).collect()
}

fn entropy(binomial: &[f64]) -> f64 {
    symbols(binomial).into_iter().filter(|share| *share > 0.0).map(|share| -share * share.log2()).sum()
}

/// Returns the mean bits of the paper's code.
fn coded(binomial: &[f64]) -> f64 {
    let size = binomial.len() - 1;
    if size <= HUFFMAN_MAX {
        return huffman(symbols(binomial));
    }
    let bits = |left: usize| {
        let deviation = left as i64 - (size / 2) as i64;
        let folded = (deviation << 1) ^ (deviation >> 63);
        f64::from(2 * (folded + 1).ilog2() + 1)
    };
    binomial.iter().enumerate().map(|(left, share)| share * bits(left % size)).sum()
}

/// Returns the mean length of a Huffman code, which is the sum of the weights of its inner nodes.
fn huffman(mut weights: Vec<f64>) -> f64 {
    let mut mean = 0.0;
    while weights.len() > 1 {
        weights.sort_by(|one, other| other.total_cmp(one));
        let least: f64 = weights.drain(weights.len() - 2..).sum();
        mean += least;
        weights.push(least);
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_codes_have_their_known_lengths() {
        assert_eq!(huffman(vec![1.0]), 0.0);
        assert_eq!(huffman(vec![0.5, 0.25, 0.25]), 1.5);
        // Two keys: "both on one side" or "one on each", one bit, until they part.
        assert_eq!(expected_bits(2, coded)[2], 2.0);
        assert_eq!(expected_bits(2, entropy)[2], 2.0);
        // Three keys: (merged, 1, 2) with 1/4, 3/8, 3/8.
        let of_three = (1.0 + 0.625 + 2.0 * 0.375 * 2.0) / 0.75;
        assert!((expected_bits(3, coded)[3] - of_three).abs() < 1e-12);
    }

    #[test]
    fn no_code_is_shorter_than_the_entropy_and_bits_per_key_are_near_those_of_tries() {
        let (coded, entropy) = (expected_bits(256, coded), expected_bits(256, entropy));
        assert!(coded.iter().zip(&entropy).all(|(coded, entropy)| *coded >= entropy - 1e-9));
        let bits_per_key = coded[256] / 256.0;
        assert!((2.3..2.5).contains(&bits_per_key), "{bits_per_key}");
    }
}

//! Joint codes for small subtries: one Huffman code word for the shape of a whole subtrie of 3 to 6 keys.
//!
//! A Huffman code of single nodes wastes most on small ones, whose few symbols have odd probabilities: 0.06 to 0.09 bit
//! a node of 3 to 5 keys. A joint code spreads the waste over all nodes of the subtrie and saves 0.02 bit a key. What is
//! coded *apart*, after the code word, needs none: a pair of keys, whose nodes have two symbols of equal probability and
//! take one bit each, and what is below a node with all of its keys on one side.
//!
//! The symbols of `size` keys are numbered like this: 0 is "all on one side"; then come, by |Left| from 1 on, all pairs
//! of a symbol of the left and a symbol of the right subtrie, in order. Subtries of 1 and 2 keys have one symbol, 0.

use super::{
    huffman::{HuffmanCode, MERGED},
    subtrie::left_len,
};
use crate::index::bits::BitWriter;
use std::sync::LazyLock;

/// The largest subtrie that has a joint code, in keys.
pub(super) const JOINT_MAX: usize = 6;

/// A shape leaves at most so many subtries to be coded apart: as many as there are pairs.
const APART_MAX: usize = JOINT_MAX / 2;

/// The bits of one subtrie in [`Apart`].
pub(super) const APART_BITS: u32 = 6;

static JOINT_CODES: LazyLock<JointCodes> = LazyLock::new(JointCodes::new);

/// The joint codes, shared by all tries of the process: about 6 KiB.
pub(super) fn joint_codes() -> &'static JointCodes {
    &JOINT_CODES
}

/// Subtries of 2 to 64 keys whose codes follow each other: their sizes less one, the first one lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Apart {
    /// [`APART_BITS`] for each subtrie.
    pub sizes: u32,
    /// The bits that are used of it.
    pub bits: u8,
}

impl Apart {
    pub(super) fn one(size: usize) -> Self {
        if size < 2 { Self::default() } else { Self { sizes: size as u32 - 1, bits: APART_BITS as u8 } }
    }

    /// Those of `self` and then those of `other`, three in all at most.
    pub(super) fn then(self, other: Self) -> Self {
        Self { sizes: self.sizes | other.sizes << self.bits, bits: self.bits + other.bits }
    }
}

/// The shape of a subtrie as far as its code word tells.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    /// The keys.
    pub size: u8,
    /// |Left|; [`MERGED`] if this is a key, a pair, or a node with all keys on one side.
    pub left: u8,
    /// The shapes of the left and the right subtrie.
    pub sides: [u8; 2],
    /// What is coded apart.
    pub apart: Apart,
}

/// The codes of the shapes of 3 to [`JOINT_MAX`] keys.
#[derive(Debug)]
pub(super) struct JointCodes {
    /// By number; the shapes of a size follow each other in the order of their symbols.
    shapes: [Shape; 256],
    sizes: [SizeCode; JOINT_MAX + 1],
}

/// The code of the shapes of one size.
#[derive(Debug)]
struct SizeCode {
    code: HuffmanCode,
    /// How many symbols there are.
    symbols: usize,
    /// The number of the first shape.
    first_shape: u8,
    /// The first symbol with so many keys on the left.
    first_symbol: [usize; JOINT_MAX],
    /// How often each symbol occurs, times 2^`weight_bits`.
    weights: Vec<u64>,
    weight_bits: usize,
}

impl JointCodes {
    fn new() -> Self {
        let mut shapes = [Shape::default(); 256];
        let mut sizes: Vec<SizeCode> = Vec::with_capacity(JOINT_MAX + 1);
        let mut next_shape = 0;
        for size in 0..=JOINT_MAX {
            let size_code = SizeCode::new(size, next_shape as u8, &sizes, &mut shapes);
            next_shape += size_code.symbols;
            sizes.push(size_code);
        }
        let mut sizes = sizes.into_iter();
        let sizes = std::array::from_fn(|_| sizes.next().unwrap_or_else(|| SizeCode::trivial(0, 0)));
        Self { shapes, sizes }
    }

    /// The shape with this number.
    #[inline(always)]
    pub(super) fn shape(&self, number: u8) -> &Shape {
        &self.shapes[usize::from(number)]
    }

    /// The shape of a subtrie of `size` keys, from 3 to [`JOINT_MAX`], whose code is at the head of `bits`, and the
    /// length of its code word.
    #[inline(always)]
    pub(super) fn decode(&self, size: usize, bits: u64) -> (&Shape, u32) {
        let size = &self.sizes[size];
        let (symbol, len) = size.code.decode(bits);
        (self.shape(size.first_shape.wrapping_add(symbol as u8)), len)
    }

    /// Writes the subtrie of up to [`JOINT_MAX`] keys, which ascend, are alike in `depth` bits and no two equal.
    pub(super) fn write(&self, writer: &mut BitWriter, keys: &[u64], depth: u32) {
        match keys {
            [] | [_] => {}
            [low, high] => {
                let alike = (low ^ high).leading_zeros() - depth;
                writer.write(1 << alike, alike + 1);
            }
            _ => {
                let mut apart = [(keys, depth); APART_MAX];
                let mut apart_len = 0;
                let symbol = self.symbol(keys, depth, &mut |keys, depth| {
                    apart[apart_len] = (keys, depth);
                    apart_len += 1;
                });
                self.sizes[keys.len()].code.write(writer, symbol as u64);
                for (keys, depth) in &apart[..apart_len] {
                    self.write(writer, keys, *depth);
                }
            }
        }
    }

    /// The symbol of a subtrie; shows what it leaves apart to `visit`.
    fn symbol<'a>(&self, keys: &'a [u64], depth: u32, visit: &mut impl FnMut(&'a [u64], u32)) -> usize {
        if keys.len() < 3 {
            if keys.len() == 2 {
                visit(keys, depth);
            }
            return 0;
        }
        let left = left_len(keys, depth);
        if left == MERGED {
            visit(keys, depth + 1);
            return 0;
        }
        let (left_keys, right_keys) = keys.split_at(left as usize);
        let left_symbol = self.symbol(left_keys, depth + 1, visit);
        let right_symbol = self.symbol(right_keys, depth + 1, visit);
        self.sizes[keys.len()].first_symbol[left as usize]
            + left_symbol * self.sizes[right_keys.len()].symbols
            + right_symbol
    }
}

impl SizeCode {
    /// The code of one symbol of no length.
    fn trivial(size: usize, first_shape: u8) -> Self {
        Self {
            code: HuffmanCode::new(&[]),
            symbols: size.min(1),
            first_shape,
            first_symbol: [0; JOINT_MAX],
            weights: vec![1],
            weight_bits: 0,
        }
    }

    /// Makes the code and the shapes of `size` keys out of those of fewer keys.
    fn new(size: usize, first_shape: u8, smaller: &[Self], shapes: &mut [Shape; 256]) -> Self {
        let mut made = Self::trivial(size, first_shape);
        let mut add = |symbol: usize, left: usize, sides: [u8; 2], apart: Apart| {
            shapes[usize::from(first_shape) + symbol] =
                Shape { size: size as u8, left: left as u8, sides, apart };
        };
        if size > 0 {
            add(0, 0, [0; 2], Apart::one(size));
        }
        if size < 3 {
            return made;
        }
        let side_bits = |left: usize| smaller[left].weight_bits + smaller[size - left].weight_bits;
        made.weight_bits = size + (1..size).map(side_bits).max().unwrap_or(0);
        made.weights = vec![2 << (made.weight_bits - size)];
        let mut choose = 1;
        for left in 1..size {
            choose = choose * (size - left + 1) as u64 / left as u64;
            made.first_symbol[left] = made.weights.len();
            let (lefts, rights) = (&smaller[left], &smaller[size - left]);
            let scale = made.weight_bits - size - side_bits(left);
            for (left_symbol, left_weight) in lefts.weights.iter().enumerate() {
                for (right_symbol, right_weight) in rights.weights.iter().enumerate() {
                    let sides =
                        [lefts.first_shape + left_symbol as u8, rights.first_shape + right_symbol as u8];
                    let [left_apart, right_apart] = sides.map(|side| shapes[usize::from(side)].apart);
                    shapes[usize::from(first_shape) + made.weights.len()] = Shape {
                        size: size as u8,
                        left: left as u8,
                        sides,
                        apart: left_apart.then(right_apart),
                    };
                    made.weights.push((choose * left_weight * right_weight) << scale);
                }
            }
        }
        made.symbols = made.weights.len();
        made.code = HuffmanCode::new(&made.weights);
        made
    }
}

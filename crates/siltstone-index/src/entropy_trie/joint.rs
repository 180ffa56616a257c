//! Joint codes for small subtries: one Huffman code word for the shape of a whole subtrie of 3 to 6 keys.
//!
//! A Huffman code of single nodes wastes most on small nodes, whose few symbols have probabilities far from powers of
//! two: 0.06 to 0.09 bits per node of 3 to 5 keys. A joint code spreads the waste over all nodes of the subtrie, which
//! saves 0.02 bits per key. Two things are coded *apart*, after the code word, because a code cannot shorten them:
//! pairs, whose nodes have two symbols of equal probability and take one bit each, and everything below a node with all
//! keys on one side.
//!
//! ```text
//!       |4|              one code word for  4 = (1 + 3),  3 = (2 + 1)
//!      /   \
//!   key    |3|
//!         /   \
//!       pair   key       the pair is coded apart: one bit per node
//! ```
//!
//! The symbols of `size` keys are numbered as follows: 0 is "all on one side"; then follow, for |Left| from 1 on, all
//! pairs of a symbol of the left and a symbol of the right subtrie, in order. Subtries of 1 and 2 keys have one symbol,
//! 0.

use super::{
    KEY_BITS,
    code_string::CodeWriter,
    huffman::{HuffmanCode, MERGED},
    subtrie::left_len,
};
use std::sync::LazyLock;

/// The largest subtrie with a joint code, in keys.
pub(super) const JOINT_MAX: usize = 6;

/// The maximum number of subtries that a shape leaves to be coded apart: one per pair.
const APART_MAX: usize = JOINT_MAX / 2;

/// The bits per subtrie in [`Apart`].
pub(super) const APART_BITS: u32 = 6;

/// A bound of the number of shapes, which is 108.
const SHAPES_MAX: usize = 128;

/// The number of bits of a key that lead through any shape.
const PATH_BITS: u32 = JOINT_MAX as u32 - 1;

static JOINT_CODES: LazyLock<Box<JointCodes>> = LazyLock::new(|| Box::new(JointCodes::new()));

/// Returns the joint codes, shared by all tries of the process: about 24 KiB.
pub(super) fn joint_codes() -> &'static JointCodes {
    &JOINT_CODES
}

/// Up to three subtries of 2 to 64 keys whose codes follow each other: their sizes minus one, the first one lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Apart {
    /// [`APART_BITS`] per subtrie.
    pub sizes: u32,
    /// The number of bits used.
    pub bits: u8,
}

impl Apart {
    /// Returns one subtrie of `size` keys; none for a single key, which has no code.
    pub(super) fn one(size: usize) -> Self {
        if size < 2 { Self::default() } else { Self { sizes: size as u32 - 1, bits: APART_BITS as u8 } }
    }

    /// Returns the subtries that follow a node of `size` keys with the symbol `left`.
    pub(super) fn of_node(size: usize, left: usize) -> Self {
        if left as u64 == MERGED { Self::one(size) } else { Self::one(left).then(Self::one(size - left)) }
    }

    /// Returns the subtries of `self` followed by those of `other`.
    pub(super) fn then(self, other: Self) -> Self {
        Self { sizes: self.sizes | other.sizes << self.bits, bits: self.bits + other.bits }
    }
}

/// The number of a shape. The shapes of a size are consecutive, in the order of their symbols.
type ShapeNumber = u8;

/// The shape of a subtrie, as far as its code word determines it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    /// |Left|; [`MERGED`] for a key, a pair, or a node with all keys on one side.
    pub left: u8,
    /// The shapes of the left and the right subtrie.
    pub sides: [ShapeNumber; 2],
    /// The number of keys.
    size: u8,
    /// The subtries that are coded apart.
    pub apart: Apart,
}

/// Where the bits of a key lead in a shape, packed in 27 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Path(u32);

impl Path {
    fn new(before: Apart, first: u8, size: u8, depth: u32) -> Self {
        Self(before.sizes | u32::from(first) << 18 | u32::from(size) << 21 | depth << 24)
    }

    /// Returns the subtries coded apart before the end of the path, as [`Apart::sizes`].
    #[inline(always)]
    pub(super) fn before(self) -> u32 {
        self.0 & ((1 << 18) - 1)
    }

    /// Returns the number of keys before the end of the path.
    #[inline(always)]
    pub(super) fn first(self) -> u64 {
        u64::from(self.0 >> 18 & 7)
    }

    /// Returns the number of keys at the end of the path: one, a pair, or those of a node that has them all on one
    /// side.
    #[inline(always)]
    pub(super) fn size(self) -> u64 {
        u64::from(self.0 >> 21 & 7)
    }

    /// Returns the number of bits of the key that the path uses.
    #[inline(always)]
    pub(super) fn depth(self) -> u32 {
        self.0 >> 24
    }
}

/// The codes of the shapes of 3 to [`JOINT_MAX`] keys.
#[derive(Debug)]
pub(super) struct JointCodes {
    sizes: [SizeCode; JOINT_MAX + 1],
    shapes: [Shape; SHAPES_MAX],
    /// The paths, by shape and by the next bits of the key.
    paths: [[Path; 1 << PATH_BITS]; SHAPES_MAX],
}

impl JointCodes {
    fn new() -> Self {
        let mut codes = Self {
            sizes: std::array::from_fn(|_| SizeCode::trivial(0)),
            shapes: [Shape::default(); SHAPES_MAX],
            paths: [[Path::default(); 1 << PATH_BITS]; SHAPES_MAX],
        };
        let mut shapes = 0;
        for size in 1..=JOINT_MAX {
            codes.add_size(size, shapes);
            shapes += codes.sizes[size].weights.len();
        }
        // After all shapes, because a path leads through those of fewer keys.
        for number in 0..shapes {
            codes.paths[number] = std::array::from_fn(|bits| codes.find_path(number as u8, bits));
        }
        codes
    }

    /// Decodes a shape of `size` keys, from 3 to [`JOINT_MAX`], from the first of `bits`. Returns its number and the
    /// length of its code word.
    #[inline(always)]
    pub(super) fn decode(&self, size: usize, bits: u64) -> (ShapeNumber, u32) {
        let size = &self.sizes[size];
        let (symbol, len) = size.code.decode(bits);
        (size.first_shape.wrapping_add(symbol as u8), len)
    }

    /// Returns a shape by its number.
    #[inline(always)]
    pub(super) fn shape(&self, number: ShapeNumber) -> &Shape {
        // Damaged bytes may give any number.
        &self.shapes[usize::from(number) % SHAPES_MAX]
    }

    /// Returns the path in a shape of a key whose next bit is the highest one.
    #[inline(always)]
    pub(super) fn path(&self, number: ShapeNumber, key: u64) -> Path {
        self.paths[usize::from(number) % SHAPES_MAX][(key >> (KEY_BITS - PATH_BITS)) as usize]
    }

    /// Writes the subtrie of up to [`JOINT_MAX`] distinct ascending keys that share their first `depth` bits.
    pub(super) fn write(&self, writer: &mut CodeWriter, keys: &[u64], depth: u32) {
        match keys {
            [] | [_] => {}
            [low, high] => {
                let alike = (low ^ high).leading_zeros() - depth;
                // A 0 for each bit that both keys share, then a 1: the codes of the pair's nodes in order.
                writer.write(1 << alike, alike + 1);
            }
            _ => {
                let mut apart = [(keys, depth); APART_MAX];
                // Each has two keys or more, so of six keys there are at most three.
                let mut apart_len = 0;
                let symbol = self.symbol(keys, depth, &mut |keys, depth| {
                    apart[apart_len] = (keys, depth);
                    apart_len += 1;
                });
                // The code word first: it says which subtries are coded apart behind it.
                self.sizes[keys.len()].code.write(writer, symbol as u64);
                for (keys, depth) in &apart[..apart_len] {
                    self.write(writer, keys, *depth);
                }
            }
        }
    }

    /// Returns the symbol of a subtrie, and calls `visit` with the subtries that are coded apart.
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
        let rights = self.sizes[right_keys.len()].weights.len();
        self.sizes[keys.len()].first_symbol[left as usize] + left_symbol * rights + right_symbol
    }

    /// Makes the code and the shapes of `size` keys from those of fewer keys.
    fn add_size(&mut self, size: usize, first_shape: usize) {
        let mut made = SizeCode::trivial(first_shape);
        let merged = Shape { left: MERGED as u8, sides: [0; 2], size: size as u8, apart: Apart::one(size) };
        self.shapes[first_shape] = merged;
        if size >= 3 {
            let side_bits = |left: usize| self.sizes[left].weight_bits + self.sizes[size - left].weight_bits;
            // One scale for all symbols, so that the weights stay integers and every machine computes the same code.
            made.weight_bits = size + (1..size).map(side_bits).max().unwrap_or(0);
            made.weights = vec![2 << (made.weight_bits - size)];
            let mut choose = 1;
            for left in 1..size {
                // Exact, because the product is a multiple of the divisor: each value is a binomial coefficient.
                choose = choose * (size - left + 1) as u64 / left as u64;
                made.first_symbol[left] = made.weights.len();
                let scale = choose << (made.weight_bits - size - side_bits(left));
                for (left_shape, left_weight) in self.sizes[left].shapes() {
                    for (right_shape, right_weight) in self.sizes[size - left].shapes() {
                        let sides = [left_shape, right_shape];
                        let [left_apart, right_apart] = sides.map(|side| self.shape(side).apart);
                        let apart = left_apart.then(right_apart);
                        self.shapes[first_shape + made.weights.len()] =
                            Shape { left: left as u8, sides, size: size as u8, apart };
                        made.weights.push(scale * left_weight * right_weight);
                    }
                }
            }
            made.code = HuffmanCode::new(&made.weights);
        }
        self.sizes[size] = made;
    }

    /// Follows the bits of a key through a shape.
    fn find_path(&self, number: ShapeNumber, bits: usize) -> Path {
        let (mut before, mut first, mut depth) = (Apart::default(), 0, 0);
        let mut shape = self.shape(number);
        while u64::from(shape.left) != MERGED {
            let [left, right] = shape.sides.map(|side| self.shape(side));
            depth += 1;
            if bits >> (PATH_BITS - depth) & 1 == 0 {
                shape = left;
            } else {
                before = before.then(left.apart);
                first += left.size;
                shape = right;
            }
        }
        // A node with all keys on one side uses a bit as well.
        Path::new(before, first, shape.size, depth + u32::from(shape.size > 2))
    }
}

/// The code of the shapes of one size.
#[derive(Debug)]
struct SizeCode {
    code: HuffmanCode,
    first_shape: ShapeNumber,
    /// The first symbol with this many keys on the left.
    first_symbol: [usize; JOINT_MAX],
    /// The frequency of each symbol, times 2^`weight_bits`.
    weights: Vec<u64>,
    weight_bits: usize,
}

impl SizeCode {
    /// Makes the code of a single symbol.
    fn trivial(first_shape: usize) -> Self {
        Self {
            code: HuffmanCode::new(&[1]),
            first_shape: first_shape as u8,
            first_symbol: [0; JOINT_MAX],
            weights: vec![1],
            weight_bits: 0,
        }
    }

    /// Iterates over the shapes and their weights.
    fn shapes(&self) -> impl Iterator<Item = (ShapeNumber, u64)> {
        (self.first_shape..).zip(self.weights.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_of_a_size_have_all_probability() {
        for (size, symbols) in [(1, 1), (2, 1), (3, 3), (4, 8), (5, 23), (6, 72)] {
            let code = &joint_codes().sizes[size];
            assert_eq!(code.weights.len(), symbols);
            assert_eq!(code.weights.iter().sum::<u64>(), 1 << code.weight_bits);
        }
    }

    #[test]
    fn joint_codes_come_nearer_to_the_entropy_than_codes_of_single_nodes() {
        // Huffman codes of single nodes take 4.17, 6.38, 8.61 and 10.83 bits for 3 to 6 keys, including pairs; the
        // entropy is 4.08, 6.23, 8.41 and 10.62 bits.
        let mut means = vec![0.0, 0.0, 2.0];
        for (size, limit) in [(3, 4.17), (4, 6.32), (5, 8.44), (6, 10.72)] {
            let codes = joint_codes();
            let code = &codes.sizes[size];
            let (mut mean, mut again) = (0.0, 0.0);
            for ((shape, weight), word) in code.shapes().zip(code.code.words()) {
                let probability = weight as f64 / (code.weight_bits as f64).exp2();
                mean += probability * f64::from(word.len);
                let mut apart = codes.shape(shape).apart.sizes;
                while apart > 0 {
                    match (apart & 63) as usize + 1 {
                        same if same == size => again += probability,
                        smaller => mean += probability * means[smaller],
                    }
                    apart >>= APART_BITS;
                }
            }
            means.push(mean / (1.0 - again));
            assert!(means[size] < limit, "{} bits for {size} keys", means[size]);
        }
    }

    #[test]
    fn every_shape_is_read_as_it_was_written() {
        // All subtries of 3 to 6 keys of 4 bits, that is, all such sets of numbers below 16.
        let codes = joint_codes();
        for set in 0u32..1 << 16 {
            let keys: Vec<u64> = (0..16).filter(|bit| set >> bit & 1 == 1).map(|key| key << 60).collect();
            if !(3..=JOINT_MAX).contains(&keys.len()) {
                continue;
            }
            let mut writer = CodeWriter::new();
            codes.write(&mut writer, &keys, 0);
            let (shape, _) = codes.decode(keys.len(), writer.finish().peek(0));
            for (position, key) in keys.iter().enumerate() {
                let path = codes.path(shape, *key);
                let apart = path.first() as usize..(path.first() + path.size()) as usize;
                assert!(apart.contains(&position));
                let alike = (keys[apart.start] ^ keys[apart.end - 1]).leading_zeros();
                assert!(path.depth() <= alike, "{keys:x?}");
            }
        }
    }
}

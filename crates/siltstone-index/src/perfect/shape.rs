//! The splitting tree of a bucket: how many keys go to each side of a node, and how many bits its seed has. It is
//! computed from a few constants in integer arithmetic, so every reader of the format derives the same tree.

use std::sync::OnceLock;

/// Bit counts are in units of 2^-16 bits.
pub(super) const FRACTION_BITS: u32 = 16;

/// The average number of keys per bucket. With fewer, counts and slack take more memory; with more, the first splits
/// take more time.
pub const BUCKET_KEYS: u32 = 512;

/// The minimum number of blocks per bucket on average.
const BUCKET_PARTS_MIN: u32 = 4;

/// A bucket with this many times the average number of parts is not solved. It would run out of bits earlier.
const BUCKET_PARTS_FACTOR_MAX: u32 = 3;

/// The bits of a bucket in addition to those of its seeds; the seed at its root uses them. With fewer, more buckets
/// would need a salt.
const SLACK: u64 = 3 << FRACTION_BITS;

/// The keys per group, which one seed maps to as many slots. Larger groups have fewer seeds, but each is much harder to
/// find.
pub(super) const GROUP_KEYS: u32 = 5;

/// The bits of a group's seed in addition to its average.
const GROUP_SPARE_BITS: u64 = 1 << (FRACTION_BITS - 4);

/// The maximum number of keys per block.
const BLOCK_KEYS_MAX: usize = 256;

/// What keys are mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Blocks of this number of keys, 2 to 256. A block may have keys of several buckets.
    Blocks(u32),
    /// One slot per key. The parts of the splitting tree are groups of [`GROUP_KEYS`] slots.
    Slots,
}

impl Target {
    /// Returns the target for blocks of 1 to 256 records; a block of one record is a slot.
    pub(super) fn of(records_per_block: u32) -> Target {
        if records_per_block == 1 { Target::Slots } else { Target::Blocks(records_per_block) }
    }

    /// Returns the keys of a full part.
    fn part_len(self) -> u32 {
        match self {
            Target::Blocks(len) => len,
            Target::Slots => GROUP_KEYS,
        }
    }

    /// Returns the keys per unit, block or slot.
    pub(super) fn unit_len(self) -> u64 {
        match self {
            Target::Blocks(len) => len.into(),
            Target::Slots => 1,
        }
    }

    /// Returns the average number of keys per bucket.
    pub(super) fn bucket_len(self) -> u32 {
        BUCKET_KEYS.max(self.bucket_len_min())
    }

    /// Returns the minimum of the average number of keys per bucket.
    pub(super) fn bucket_len_min(self) -> u32 {
        BUCKET_PARTS_MIN * self.part_len()
    }

    /// Returns the bits of the seed of a split of `parts` parts in addition to its average. They shorten the search.
    /// Splits of many keys get the most, since they take the longest and are the fewest.
    fn spare_bits(self, parts: u32) -> u64 {
        let of_all = match self {
            Target::Blocks(len) => u64::from(len.min(64)) << (FRACTION_BITS - 7),
            Target::Slots => 1 << (FRACTION_BITS - 6),
        };
        of_all + (log2(parts.into()) - log2(2)) / 12
    }
}

/// The keys of one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) number: u64,
    /// The number of keys before it.
    pub(super) first: u64,
    /// The number of its keys.
    pub(super) len: u32,
}

/// The bits of a node of the splitting tree.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Split {
    /// The bits of its own seed.
    pub(super) width: u32,
    /// The bits of its seed and of all seeds below it.
    pub(super) subtree: u32,
}

/// The numbers that all trees of a target share.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) target: Target,
    /// By the number of parts that are split.
    splits: Box<[Split]>,
    /// The bits of the seed of a group, by its number of keys.
    groups: [u32; GROUP_KEYS as usize + 1],
    /// The bits that a bucket has per unit that it completes.
    bits_per_unit: u64,
}

impl Shape {
    /// Returns the shape of a target. It is computed once.
    pub(super) fn of(target: Target) -> &'static Self {
        static BLOCKS: [OnceLock<Shape>; BLOCK_KEYS_MAX + 1] =
            [const { OnceLock::new() }; BLOCK_KEYS_MAX + 1];
        static SLOTS: OnceLock<Shape> = OnceLock::new();
        let shape = match target {
            Target::Blocks(len) => &BLOCKS[(len as usize).min(BLOCK_KEYS_MAX)],
            Target::Slots => &SLOTS,
        };
        shape.get_or_init(|| Self::new(target))
    }

    fn new(target: Target) -> Self {
        let part_len = target.part_len();
        let parts_on_average = target.bucket_len().div_ceil(part_len);
        let mut splits = vec![Split::default(); 2];
        // Larger buckets have no tree, so they are not solved.
        for parts in 2..=parts_on_average * BUCKET_PARTS_FACTOR_MAX {
            let (left, right) = (left_parts(parts), parts - left_parts(parts));
            let bits = split_bits(u64::from(left * part_len), u64::from(right * part_len));
            // Fractions of a bit are kept here. They are rounded down where the seeds are.
            let width = (bits + target.spare_bits(parts)) as u32;
            let below = splits[left as usize].subtree + splits[right as usize].subtree;
            splits.push(Split { width, subtree: width + below });
        }
        let groups = std::array::from_fn(|len| match len {
            0 | 1 => 0,
            _ => (bijection_bits(len as u64) + GROUP_SPARE_BITS) as u32,
        });
        let mut shape = Self { target, splits: splits.into(), groups, bits_per_unit: 0 };
        // Enough for buckets of up to twice the average: the bits per unit hardly grow with the bucket.
        let parts = 2 * parts_on_average;
        shape.bits_per_unit = match target {
            Target::Blocks(_) => shape.splits_bits(parts) / u64::from(parts - 1),
            Target::Slots => {
                (shape.splits_bits(parts) + shape.groups_bits(parts, part_len)) / u64::from(parts * part_len)
            }
        };
        shape
    }

    /// Returns where the bits of a bucket begin, in units of 2^-16: determined by the buckets and keys before it.
    pub(super) fn start(&self, buckets: u64, keys: u64) -> u64 {
        self.bits_per_unit * (keys / self.target.unit_len()) + SLACK * buckets
    }

    /// Returns the bits of a split of `parts` parts, which must occur in the tree.
    pub(super) fn split(&self, parts: u32) -> Split {
        self.splits[parts as usize]
    }

    fn splits_bits(&self, parts: u32) -> u64 {
        self.splits[parts as usize].subtree.into()
    }

    /// Returns the bits of the seeds of `groups` groups, at least one. All are full but the last one, which has
    /// `last_len` keys.
    pub(super) fn groups_bits(&self, groups: u32, last_len: u32) -> u64 {
        let bits = |len: u32| u64::from(self.groups[len as usize]);
        bits(GROUP_KEYS) * u64::from(groups - 1) + bits(last_len)
    }

    /// Returns the tree of a bucket; `None` if it has no keys, too many parts or too few bits.
    pub(super) fn tree(&self, bucket: Bucket) -> Option<Tree> {
        let part_len = self.target.part_len();
        let offset = match self.target {
            Target::Blocks(len) => (bucket.first % u64::from(len)) as u32,
            Target::Slots => 0,
        };
        // Checked, because damaged counts may be any numbers.
        let parts = offset.checked_add(bucket.len)?.div_ceil(part_len);
        let splits = u64::from(self.splits.get(parts as usize).filter(|_| bucket.len > 0)?.subtree);
        let groups = match self.target {
            Target::Blocks(_) => 0,
            // The last group has 1 to 5 keys, because the number of parts is rounded up.
            Target::Slots => self.groups_bits(parts, bucket.len - (parts - 1) * part_len),
        };
        let end = self.start(bucket.number + 1, bucket.first + u64::from(bucket.len));
        // The seeds end where those of the next bucket may begin, so the slack is before the root's seed.
        let seeds_start = end.checked_sub(splits + groups)?;
        // Its seeds would overlap those of the bucket before.
        if seeds_start < self.start(bucket.number, bucket.first) {
            return None;
        }
        Some(Tree {
            part_len,
            offset,
            parts,
            len: bucket.len,
            seeds_start,
            groups_start: seeds_start + splits,
        })
    }
}

/// The parts of a bucket, and where their seeds are: those of the splits in preorder, then those of the groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree {
    part_len: u32,
    offset: u32,
    pub(super) parts: u32,
    len: u32,
    /// Where the seed of the root would begin if it had no slack.
    pub(super) seeds_start: u64,
    pub(super) groups_start: u64,
}

impl Tree {
    /// Returns the number of keys of the bucket in the parts before `part`.
    pub(super) fn keys_before(&self, part: u32) -> u32 {
        (part * self.part_len).saturating_sub(self.offset).min(self.len)
    }
}

/// Returns the number of parts on the left of a node.
pub(super) fn left_parts(parts: u32) -> u32 {
    parts.div_ceil(2)
}

/// Returns the binary logarithm of 1 / p, where p is the probability that exactly `left` keys fall to the left if each
/// does with probability `left` / (`left` + `right`). Uses Stirling's formula with its first correction.
fn split_bits(left: u64, right: u64) -> u64 {
    const HALF_LOG2_2_PI: u64 = 86_884;
    const CORRECTION: u64 = 7_879;
    let all = left + right;
    // In integers, because all readers of the format must derive the same widths.
    let half_log2 = HALF_LOG2_2_PI + (log2(left) + log2(right)) / 2 - log2(all) / 2;
    half_log2 + CORRECTION / left + CORRECTION / right - CORRECTION / all
}

/// Returns the binary logarithm of 1 / p, where p is the probability that `keys` keys fall to different ones of as many
/// slots.
fn bijection_bits(keys: u64) -> u64 {
    keys * log2(keys.max(1)) - (1..=keys).map(log2).sum::<u64>()
}

/// Returns the binary logarithm of a positive number, rounded down to a multiple of 2^-16.
fn log2(number: u64) -> u64 {
    let integer = number.ilog2();
    // A number from 1 to 2, in units of 2^-63. Squaring it yields the next bit of its logarithm.
    let mut fraction = number << (63 - integer);
    let mut bits = 0;
    for _ in 0..FRACTION_BITS {
        let square = u128::from(fraction) * u128::from(fraction);
        let doubled = (square >> 127) as u64;
        bits = (bits << 1) | doubled;
        fraction = (square >> (63 + doubled)) as u64;
    }
    (u64::from(integer) << FRACTION_BITS) | bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(bits: u64) -> f64 {
        bits as f64 / f64::from(1 << FRACTION_BITS)
    }

    #[test]
    fn logarithms_are_right_to_the_last_bit() {
        for number in (1..2_000).chain([u64::MAX, 1 << 63, 12_345_678_901]) {
            let error = (number as f64).log2() - real(log2(number));
            assert!((-1e-9..2e-5).contains(&error), "{number}: {error}");
        }
    }

    #[test]
    fn split_and_bijection_probabilities_are_those_of_counting() {
        let log2_factorial = |n: u64| (1..=n).map(|i| (i as f64).log2()).sum::<f64>();
        for (left, right) in [(1, 1), (1, 2), (4, 4), (5, 10), (64, 64), (64, 128), (500, 524)] {
            let part = |n: u64| n as f64 * (n as f64 / (left + right) as f64).log2() - log2_factorial(n);
            let wanted = -(part(left) + part(right) + log2_factorial(left + right));
            let got = real(split_bits(left, right));
            assert!((got - wanted).abs() < 0.01, "{left}, {right}: {got}, {wanted}");
        }
        for keys in 0..10u64 {
            let wanted = keys as f64 * (keys.max(1) as f64).log2() - log2_factorial(keys);
            assert!((real(bijection_bits(keys)) - wanted).abs() < 1e-3);
        }
    }
}

//! Finds the seeds of a bucket.
//!
//! Each seed has only a fraction of a bit more than finding one takes on average, so often no seed fits. Because a hash
//! also depends on the preceding seeds, the search can backtrack: another seed for the previous node gives fresh hashes
//! to this one.
//!
//! Lehmann, Sanders, Walzer, Ziegler, "Combined Search and Encoding for Seeds", ESA 2025, section 3.

use super::shape::{FRACTION_BITS, Shape, Target, Tree, left_parts};

/// The number of hashes per key after which a bucket is given up, about ten times the average.
const HASHES_PER_KEY_MAX: u64 = 1 << 13;

/// The maximum width of a seed. If the root has more bits, the first ones are 0.
const SEED_BITS_MAX: u32 = 20;

/// The hash function of a window of 64 bits that ends with a seed. Hashes have 32 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hasher(u64);

impl Hasher {
    #[inline]
    pub(super) fn new(window: u64) -> Self {
        let mixed = window.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    #[inline]
    fn hash(self, key: u64) -> u64 {
        key.wrapping_mul(self.0)
    }

    /// Returns the first 32 bits of the hash, scaled to a number below `end`.
    #[inline]
    pub(super) fn below(self, end: u32, key: u64) -> u32 {
        (((self.hash(key) >> 32) * u64::from(end)) >> 32) as u32
    }
}

/// A seed to be found.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// The range of keys that it applies to.
    start: u32,
    end: u32,
    task: Task,
    /// The distance of its window from that of the previous seed, and how many of these bits it may choose.
    advance: u32,
    width: u32,
    seed: u64,
    window: u64,
}

#[derive(Debug, Clone, Copy)]
enum Task {
    /// `left` keys must have a hash below the threshold.
    Split { left: u32, threshold: u64 },
    /// All keys must have different hashes below their number.
    Biject,
}

/// The memory of a search, reused for all buckets.
#[derive(Debug, Default)]
pub(super) struct SeedSearch {
    keys: Vec<u64>,
    nodes: Vec<Node>,
}

impl SeedSearch {
    /// Finds the seeds of a bucket whose bits begin at bit `start`, after the window `before`. Returns each seed with
    /// the number of zeros before it and its width; `None` if none were found.
    pub(super) fn solve(
        &mut self,
        shape: &Shape,
        tree: &Tree,
        start: u64,
        before: u64,
        hashes: impl Iterator<Item = u64>,
    ) -> Option<impl Iterator<Item = (u32, u64, u32)> + '_> {
        self.keys.clear();
        self.keys.extend(hashes);
        self.nodes.clear();
        let mut end_before = start;
        let splits_end = self.add_splits(shape, tree, (0, tree.parts), tree.seeds_start, &mut end_before)?;
        debug_assert_eq!(splits_end, tree.groups_start);
        if let Target::Slots = shape.target {
            for part in 0..tree.parts {
                let (first, end) = (tree.keys_before(part), tree.keys_before(part + 1));
                let bits_end = tree.groups_start + shape.groups_bits(part + 1, end - first);
                self.add_node(first, end, Task::Biject, bits_end, &mut end_before)?;
            }
        }
        self.search(before)?;
        Some(self.nodes.iter().map(|node| (node.advance - node.width, node.seed, node.width)))
    }

    /// Adds the splits of the parts of a subtree in preorder. Returns where their bits end.
    fn add_splits(
        &mut self,
        shape: &Shape,
        tree: &Tree,
        parts: (u32, u32),
        position: u64,
        end_before: &mut u64,
    ) -> Option<u64> {
        let (first, count) = parts;
        if count < 2 {
            return Some(position);
        }
        let left = left_parts(count);
        let keys = |part| tree.keys_before(first + part);
        let (left_keys, all_keys) = (keys(left) - keys(0), keys(count) - keys(0));
        // Selects the hashes whose first 32 bits, scaled to the number of keys, are below `left_keys`.
        let threshold = (u64::from(left_keys) << 32).div_ceil(u64::from(all_keys)) << 32;
        let position = position + u64::from(shape.split(count).width);
        let task = Task::Split { left: left_keys, threshold };
        self.add_node(keys(0), keys(count), task, position, end_before)?;
        let position = self.add_splits(shape, tree, (first, left), position, end_before)?;
        self.add_splits(shape, tree, (first + left, count - left), position, end_before)
    }

    fn add_node(
        &mut self,
        start: u32,
        end: u32,
        task: Task,
        bits_end: u64,
        end_before: &mut u64,
    ) -> Option<()> {
        let bits_end = bits_end >> FRACTION_BITS;
        // With fewer bits than its seeds need, the bucket is given up before the search.
        let advance = u32::try_from(bits_end.checked_sub(*end_before)?).ok()?;
        *end_before = bits_end;
        self.nodes.push(Node {
            start,
            end,
            task,
            advance,
            width: advance.min(SEED_BITS_MAX),
            seed: 0,
            window: 0,
        });
        Some(())
    }

    fn search(&mut self, before: u64) -> Option<()> {
        let mut hashes_left = self.keys.len() as u64 * HASHES_PER_KEY_MAX;
        let (mut at, mut first_seed) = (0, 0);
        while at < self.nodes.len() {
            let window_before = if at == 0 { before } else { self.nodes[at - 1].window };
            let node = &mut self.nodes[at];
            let keys = &mut self.keys[node.start as usize..node.end as usize];
            // The window slides by the bits since the previous seed; the new seed is in its highest bits.
            let base = window_before.checked_shr(node.advance).unwrap_or(0);
            let window_of = |seed: u64| base | seed.checked_shl(64 - node.width).unwrap_or(0);
            let mut seeds = first_seed..1 << node.width;
            let found = seeds.find(|&seed| node.task.is_done(keys, Hasher::new(window_of(seed))));
            let tried = found.map_or(1 << node.width, |seed| seed + 1) - first_seed;
            // The limit ends the search in buckets that have no solution.
            hashes_left = hashes_left.checked_sub(tried * keys.len() as u64)?;
            if let Some(seed) = found {
                (node.seed, node.window) = (seed, window_of(seed));
                if let Task::Split { threshold, .. } = node.task {
                    partition(keys, Hasher::new(node.window), threshold);
                }
                (at, first_seed) = (at + 1, 0);
            } else {
                // Backtrack: no seed of this node fits after the seeds before it. The previous node continues with its
                // next seed. The order of its keys is no longer that of the bucket, which does not matter to a hash of
                // each key.
                at = at.checked_sub(1)?;
                first_seed = self.nodes[at].seed + 1;
            }
        }
        Some(())
    }
}

impl Task {
    #[inline]
    fn is_done(self, keys: &[u64], hasher: Hasher) -> bool {
        match self {
            Task::Split { left, threshold } => {
                keys.iter().map(|&key| u32::from(hasher.hash(key) < threshold)).sum::<u32>() == left
            }
            Task::Biject => match keys {
                [_] => true,
                // A complete group; its length is known to the compiler.
                &[a, b, c, d, e] => are_bijective([a, b, c, d, e], hasher),
                _ => {
                    let slots = keys
                        .iter()
                        .fold(0, |slots, &key| slots | 1u64 << hasher.below(keys.len() as u32, key));
                    slots == (1 << keys.len()) - 1
                }
            },
        }
    }
}

#[inline]
fn are_bijective<const LEN: usize>(keys: [u64; LEN], hasher: Hasher) -> bool {
    let slots = keys.iter().fold(0u32, |slots, &key| slots | 1 << hasher.below(LEN as u32, key));
    slots == (1 << LEN) - 1
}

/// Moves the keys of the left side before the others.
fn partition(keys: &mut [u64], hasher: Hasher, threshold: u64) {
    let mut left = 0;
    // Without a branch: every key is swapped to the end of the left side, which grows only if the key belongs there.
    for at in 0..keys.len() {
        keys.swap(at, left);
        left += usize::from(hasher.hash(keys[left]) < threshold);
    }
}

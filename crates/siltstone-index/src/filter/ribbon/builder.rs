//! Builds the filter: the first layer while keys are pushed in order, each other layer from the keys that the previous
//! one bumped.

use super::band::{Band, Outcome};
use super::{
    BUMP_ALL, Equation, LAYERS_MAX, LISTED_MAX, Layer, LayerKey, ROWS_PER_BUCKET, ROWS_PER_THRESHOLD,
    RibbonFilter, blocks_for, is_bumped,
};
use crate::{BuildError, list_bytes};

/// Takes the keys of a [`RibbonFilter`] in the order of their placements, with about 13 bytes of memory per key.
#[derive(Debug)]
pub struct RibbonBuilder {
    bits: u32,
    len: u64,
    /// None if all expected keys can be listed.
    first: Option<LayerBuilder>,
    /// The keys for the following layers.
    rest: Vec<LayerKey>,
}

impl RibbonBuilder {
    /// Makes a builder for about `expected_keys` keys, with a false-positive rate of 2^-`bits`. Keys beyond the
    /// expected number go to further layers; each missing key makes the filter `bits` bits larger than necessary.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if `bits` is not 1 to 32.
    pub fn new(expected_keys: u64, bits: u8) -> Result<Self, BuildError> {
        if !(1..=32).contains(&bits) {
            return Err(BuildError::Setting { name: "bits", got: bits.into(), limit: "1 to 32" });
        }
        let layer = |expected| LayerBuilder::new(Layer::after(None, blocks_for(expected)), bits.into());
        let expected = expected_keys as usize;
        let first = (expected > LISTED_MAX).then(|| layer(expected));
        Ok(Self { bits: bits.into(), len: 0, first, rest: Vec::new() })
    }

    /// Adds a key. Equal keys count once. Takes about 100 ns for 12 bits.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] if a key of a later bucket was added before.
    pub fn push(&mut self, placement: u64, fingerprint: u64) -> Result<(), BuildError> {
        let key = LayerKey::first(placement, fingerprint);
        match &mut self.first {
            Some(layer) => layer.push(key),
            None => {
                self.rest.push(key);
                Ok(())
            }
        }
    }

    /// Returns the filter.
    pub fn finish(mut self) -> RibbonFilter {
        let (mut layers, mut thresholds, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = self.rest;
        if let Some(first) = self.first.take() {
            layers.push(first.layer);
            self.len += first.finish(&mut thresholds, &mut blocks, &mut rest);
            // The bumped keys get a position and an equation in the next layer.
            rest.iter_mut().for_each(|key| *key = key.next());
        }
        rest.sort_unstable();
        if layers.is_empty() {
            // Without a layer no bucket has removed equal keys.
            rest.dedup();
            self.len = rest.len() as u64;
        }
        // Each further layer holds what the previous one bumped. The last few keys take less memory as a list.
        while rest.len() > LISTED_MAX && layers.len() < LAYERS_MAX {
            let layer = Layer::after(layers.last(), blocks_for(rest.len()));
            let mut builder = LayerBuilder::new(layer, self.bits);
            rest.drain(..).for_each(|key| builder.push_in_order(key));
            builder.finish(&mut thresholds, &mut blocks, &mut rest);
            layers.push(layer);
            rest.iter_mut().for_each(|key| *key = key.next());
            rest.sort_unstable();
        }
        let mut listed: Box<[u64]> = rest.into_iter().map(|key| key.hash).collect();
        listed.sort_unstable();
        RibbonFilter {
            bits: self.bits,
            len: self.len,
            layers: layers.into(),
            left_out: 0,
            thresholds: thresholds
                .chunks(2)
                .map(|pair| pair[0] | pair.get(1).map_or(0, |high| high << 4))
                .collect(),
            blocks: blocks.into(),
            listed,
        }
    }

    /// Returns the memory of the builder, in bytes, also while it finishes, without that of the filter.
    pub fn heap_bytes(&self) -> usize {
        let first = self.first.as_ref().map_or(0, LayerBuilder::heap_bytes);
        first + list_bytes(&self.rest)
    }
}

/// Takes the keys of a layer, bucket by bucket.
#[derive(Debug)]
struct LayerBuilder {
    layer: Layer,
    bits: u32,
    band: Band,
    thresholds: Vec<u8>,
    bumped: Vec<LayerKey>,
    /// The keys of the current bucket.
    pending: Vec<LayerKey>,
    last: u64,
    len: u64,
}

impl LayerBuilder {
    fn new(layer: Layer, bits: u32) -> Self {
        let (thresholds, bumped, pending) = Default::default();
        Self { layer, bits, band: Band::new(layer.blocks), thresholds, bumped, pending, last: 0, len: 0 }
    }

    fn push(&mut self, key: LayerKey) -> Result<(), BuildError> {
        if self.layer.start(key.position) / ROWS_PER_BUCKET < self.thresholds.len() as u64 {
            return Err(BuildError::OutOfOrder { last: self.last, got: key.position });
        }
        self.last = key.position;
        self.push_in_order(key);
        Ok(())
    }

    fn push_in_order(&mut self, key: LayerKey) {
        let bucket = self.layer.start(key.position) / ROWS_PER_BUCKET;
        // Keys arrive in the order of buckets, so a key of a later bucket completes all buckets before.
        while (self.thresholds.len() as u64) < bucket {
            self.fill_bucket();
        }
        self.pending.push(key);
    }

    /// Solves the layer and appends its thresholds, its blocks and the bumped keys. Returns the number of keys pushed.
    fn finish(mut self, thresholds: &mut Vec<u8>, blocks: &mut Vec<u64>, bumped: &mut Vec<LayerKey>) -> u64 {
        while (self.thresholds.len() as u64) < self.layer.buckets() {
            self.fill_bucket();
        }
        self.band.solve(self.bits, blocks);
        thresholds.append(&mut self.thresholds);
        bumped.append(&mut self.bumped);
        self.len
    }

    fn fill_bucket(&mut self) {
        let mut keys = std::mem::take(&mut self.pending);
        keys.sort_unstable();
        // Equal keys are in one bucket, so this removes all of them.
        keys.dedup();
        self.len += keys.len() as u64;
        let threshold = self.take_from(&keys);
        let start = |key: &LayerKey| self.layer.start(key.position);
        self.bumped.extend(keys.iter().take_while(|key| is_bumped(start(key), threshold)));
        self.thresholds.push(threshold);
        keys.clear();
        self.pending = keys;
    }

    /// Takes the keys of a bucket, the last one first. Keys at the begin of a bucket meet most of the rows that the
    /// previous bucket took, so they fail most often, and a threshold bumps the keys at the begin. Returns the
    /// threshold that the first failure requires.
    fn take_from(&mut self, keys: &[LayerKey]) -> u8 {
        let mut taken = Vec::with_capacity(keys.len());
        for &key in keys.iter().rev() {
            let equation: Equation = self.layer.equation(key, self.bits);
            match self.band.add(equation) {
                Outcome::Taken(row) => taken.push((equation.start, row)),
                Outcome::Implied => {}
                Outcome::Contradicted => {
                    let threshold = equation.start % ROWS_PER_BUCKET / ROWS_PER_THRESHOLD + 1;
                    let threshold = threshold.min(BUMP_ALL.into()) as u8;
                    // Keys below the threshold are bumped, so their equations must leave no trace. Equations are
                    // removed in the reverse order of their addition.
                    while let Some((_, row)) = taken.pop_if(|&mut (start, _)| is_bumped(start, threshold)) {
                        self.band.remove_last(row);
                    }
                    return threshold;
                }
            }
        }
        0
    }

    fn heap_bytes(&self) -> usize {
        self.band.heap_bytes()
            + list_bytes(&self.thresholds)
            + list_bytes(&self.bumped)
            + list_bytes(&self.pending)
    }
}

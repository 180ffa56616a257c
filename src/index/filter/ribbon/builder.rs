//! Making the filter: the first layer while the keys come in order, the others of what the one before bumped.

use super::band::{Band, Outcome};
use super::{
    BUMP_ALL, Equation, LAYERS_MAX, LISTED_MAX, Layer, LayerKey, ROWS_PER_BUCKET, ROWS_PER_THRESHOLD,
    RibbonFilter, blocks_for, is_bumped,
};
use crate::index::BuildError;

/// Takes the keys of a [`RibbonFilter`] in the order of their placements, in some 13 bytes of memory a key.
#[derive(Debug)]
pub struct RibbonBuilder {
    bits: u32,
    len: u64,
    /// None if so few keys are expected that they are not worth a layer.
    first: Option<LayerBuilder>,
    /// The keys for the layers that follow.
    rest: Vec<LayerKey>,
}

impl RibbonBuilder {
    /// For about so many keys, and wrong about one in 2^`bits` others. More keys than were expected go to further
    /// layers; for each one fewer the filter is `bits` larger than it need be.
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

    /// Adds a key. Equal keys count once. Some 100 ns for 12 bits.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] if a key of a higher placement, not too near, was added before.
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

    /// No more keys will come.
    pub fn finish(mut self) -> RibbonFilter {
        let (mut layers, mut thresholds, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = self.rest;
        if let Some(first) = self.first.take() {
            layers.push(first.layer);
            self.len += first.finish(&mut thresholds, &mut blocks, &mut rest);
            rest.iter_mut().for_each(|key| *key = key.next());
        }
        rest.sort_unstable();
        if layers.is_empty() {
            rest.dedup();
            self.len = rest.len() as u64;
        }
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
            thresholds: thresholds
                .chunks(2)
                .map(|pair| pair[0] | pair.get(1).map_or(0, |high| high << 4))
                .collect(),
            blocks: blocks.into(),
            listed,
        }
    }

    /// The memory held, in bytes, while it is finished too, without the filter.
    pub fn heap_bytes(&self) -> usize {
        let first = self.first.as_ref().map_or(0, LayerBuilder::heap_bytes);
        first + self.rest.capacity() * size_of::<LayerKey>()
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
    /// The keys of the bucket that is not whole yet.
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
        while (self.thresholds.len() as u64) < bucket {
            self.fill_bucket();
        }
        self.pending.push(key);
    }

    /// Solves what can be solved, appends it, and the keys that were bumped. Answers the number of keys.
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
        keys.dedup();
        self.len += keys.len() as u64;
        let threshold = self.take_from(&keys);
        let start = |key: &LayerKey| self.layer.start(key.position);
        self.bumped.extend(keys.iter().take_while(|key| is_bumped(start(key), threshold)));
        self.thresholds.push(threshold);
        keys.clear();
        self.pending = keys;
    }

    /// Takes the keys of a bucket, the last one first: those at its start meet the most rows that the bucket before it
    /// took. Answers the threshold that the first failure demands.
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
            + self.thresholds.capacity()
            + (self.bumped.capacity() + self.pending.capacity()) * size_of::<LayerKey>()
    }
}

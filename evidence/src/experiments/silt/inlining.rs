//! Figure 7, which section 3 calls inlining: records of any length in slots of a fixed size. A record that does not fit
//! has its first part in its slot, and the rest elsewhere, where a get needs a second read.
//!
//! ```text
//!   | header, 4 B | record ......................... |     fits into the slot: one read
//!   | header, 4 B | offset, 4 B | first part ....... |     two reads; the rest is at the offset
//! ```
//!
//! Lengths are those of the paper: 4 B to 1 MiB, with a probability that is a power of the length. The paper draws the
//! figure without its numbers, so the exponents are chosen here.

use crate::Result;
use crate::conditions::Conditions;
use crate::point::Points;
use crate::quantity::{PerGet, Quantity};
use crate::registry::Experiment;
use std::ops::RangeInclusive;

const ITEM: &str = "silt/figure-7";
/// The lengths of records, in bytes.
const LENGTHS: RangeInclusive<usize> = 4..=1 << 20;
const HEADER_BYTES: usize = 4;
const OFFSET_BYTES: usize = 4;
/// The sizes of slots, as powers of two.
const SLOTS: RangeInclusive<u32> = 4..=21;
const EXPONENTS: [f64; 3] = [1.0, 1.5, 2.0];

const READS: Quantity<PerGet> = Quantity::equal("read amplification");

/// Figure 7.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-inlining", cost_s: 1, direct: false, counts: true, rates: false, run };

fn run(_: &Conditions, points: &mut Points) -> Result<()> {
    for exponent in EXPONENTS {
        let weights: Vec<f64> = LENGTHS.map(|length| (length as f64).powf(-exponent)).collect();
        for slot in SLOTS {
            let (space, reads) = cost(&weights, 1 << slot);
            points.add(ITEM, READS.at(format!("exponent {exponent}"), space).calculated(reads));
        }
    }
    Ok(())
}

/// Returns the bytes of flash per byte of records, and the reads per get, with slots of this size. There is a weight
/// for each length.
fn cost(weights: &[f64], slot_bytes: usize) -> (f64, f64) {
    let (mut all, mut data, mut flash, mut second) = (0.0, 0.0, 0.0, 0.0);
    for (length, weight) in LENGTHS.zip(weights) {
        let fits = HEADER_BYTES + length <= slot_bytes;
        let rest = if fits { 0 } else { HEADER_BYTES + OFFSET_BYTES + length - slot_bytes };
        all += weight;
        data += weight * length as f64;
        flash += weight * (slot_bytes + rest) as f64;
        second += if fits { 0.0 } else { *weight };
    }
    (flash / data, 1.0 + second / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_slots_take_space_and_save_reads() {
        for exponent in EXPONENTS {
            let weights: Vec<f64> = LENGTHS.map(|length| (length as f64).powf(-exponent)).collect();
            let costs: Vec<_> = SLOTS.map(|slot| cost(&weights, 1 << slot)).collect();
            assert!(costs.windows(2).all(|pair| pair[0].1 > pair[1].1), "{exponent}: {costs:?}");
            // A slot that is larger than the largest record needs no second read.
            let (space, reads) = *costs.last().unwrap();
            assert!(reads == 1.0 && space > costs[0].0, "{exponent}: {costs:?}");
        }
        // Records of 4 to 8 B are all that fit into a slot of 12 B, if each length is as frequent.
        let weights: Vec<f64> = LENGTHS.map(|_| 1.0).collect();
        let (fit, all) = (5.0, weights.len() as f64);
        assert!((cost(&weights, 12).1 - (2.0 - fit / all)).abs() < 1e-9);
    }
}

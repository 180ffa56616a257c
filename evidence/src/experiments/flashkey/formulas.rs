//! The formulas of VI-C, and the paper's example: a drive of 4 TB, keys of 20 bytes, values of 800, 18 % more space
//! than data.

use crate::Result;
use crate::conditions::Conditions;
use crate::experiments::quantities::{READ_AMPLIFICATION, SPACE_AMPLIFICATION, WRITE_AMPLIFICATION};
use crate::literature::FlashKey;
use crate::point::Points;
use crate::quantity::{Keys, Quantity, Quoted};
use crate::registry::Experiment;
use siltstone_model::Popularity;

const ITEM: &str = "flashkey/section-vi-c";
const DRIVE_BYTES: f64 = 4e12;

const KEYS: Quantity<Keys> = Quantity::equal("keys on a drive of 4 TB");

/// The example of VI-C.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashkey-formulas", cost_s: 1, direct: false, counts: true, rates: false, run };

fn run(_: &Conditions, points: &mut Points) -> Result<()> {
    let flashkey = FlashKey::paper(4e9, 20.0, 800.0, 0.18);
    let mut add = |point| points.add(ITEM, point);
    add(KEYS.of("").paper(Quoted::text(4.05e9)).calculated(flashkey.keys_max(DRIVE_BYTES)));
    let space = flashkey.space_amplification_of(DRIVE_BYTES);
    add(SPACE_AMPLIFICATION.of("").paper(Quoted::text(1.22)).calculated(space));
    add(READ_AMPLIFICATION.of("").paper(Quoted::text(1.1)).calculated(flashkey.read_amplification()));
    let sequential = flashkey.write_amplification_sequential();
    add(WRITE_AMPLIFICATION.of("sequential puts").paper(Quoted::text(1.1)).calculated(sequential));
    let random = flashkey.write_amplification_random();
    add(WRITE_AMPLIFICATION.of("random puts").paper(Quoted::text(3.81)).calculated(random));
    let zipf = flashkey.write_amplification(&Popularity::zipf(4_000_000_000, 0.99)?)?;
    add(WRITE_AMPLIFICATION.of("Zipf 0.99, oldest band first").calculated(zipf));
    Ok(())
}

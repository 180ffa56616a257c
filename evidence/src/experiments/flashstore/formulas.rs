//! The example of 4.4: the records to which an index of 4 GB points, by the paper's formula and by the layout of the
//! engine.

use crate::Result;
use crate::conditions::Conditions;
use crate::literature::FlashStore;
use crate::point::Points;
use crate::quantity::{Keys, Quantity, Quoted};
use crate::registry::Experiment;
use siltstone_model::{FlashStoreLayout, Popularity};

const ITEM: &str = "flashstore/section-4.4";
const RAM_BYTES: f64 = 4.0 * (1u64 << 30) as f64;
const RECORD_BYTES: f64 = 64.0;
/// The keys with which the memory of the engine is calculated.
const KEYS: f64 = 100e6;

const RECORDS: Quantity<Keys> = Quantity::higher("records in 4 GiB of index");

/// The example of 4.4.
pub static EXPERIMENT: Experiment =
    Experiment { name: "flashstore-formulas", cost_s: 1, direct: false, counts: true, rates: false, run };

fn run(_: &Conditions, points: &mut Points) -> Result<()> {
    let paper = FlashStore::paper(RECORD_BYTES, 160e9).index_items_max(RAM_BYTES);
    points.add(ITEM, RECORDS.of("the paper's formula").paper(Quoted::text(715e6)).calculated(paper));
    // Flash for all keys, so that all of them are in the index.
    let layout = FlashStoreLayout::new(16.0, RECORD_BYTES - 16.0, 2.0 * KEYS * RECORD_BYTES);
    let store = layout.store(&Popularity::uniform(KEYS as u64)?, 1.0)?;
    let ram = store.ram();
    let per_key = (ram.total() - ram.disk) / KEYS;
    points.add(ITEM, RECORDS.of("the engine, all of its memory").calculated(RAM_BYTES / per_key));
    Ok(())
}

//! Figure 8 and the example of section 5, by the formulas.

use crate::Result;
use crate::conditions::Conditions;
use crate::experiments::msls::curves;
use crate::point::Points;
use crate::quantity::{BytesPerByte, BytesPerKey, Keys, PerGet, Quantity, Quoted, Years};
use crate::registry::Experiment;
use siltstone_model::{Flash, Silt, YEAR_S};

const ITEM: &str = "silt/figure-8";

const WRITES: Quantity<BytesPerByte> = Quantity::equal("write amplification");
const READS: Quantity<PerGet> = Quantity::equal("read amplification");
const MEMORY: Quantity<BytesPerKey> = Quantity::equal("memory");
const STORES: Quantity<Keys> = Quantity::equal("HashStores of a partition");
const LIFETIME: Quantity<Years> = Quantity::equal("lifetime of the flash");

/// Figure 8 and the example.
pub static EXPERIMENT: Experiment =
    Experiment { name: "silt-trade-off", cost_s: 1, direct: false, counts: true, rates: false, run };

fn run(_: &Conditions, points: &mut Points) -> Result<()> {
    let mut add = |point| points.add(ITEM, point);
    for (name, curve) in curves::silt_trade_off() {
        for (x, y) in curve {
            add(match name.as_str() {
                "WA" => WRITES.at(&name, x).calculated(y),
                _ => READS.at(&name, x).calculated(y),
            });
        }
    }
    let silt = Silt::paper(1e8, 1024.0, 4.0, 7.5e6);
    let flash = Flash { bytes: 256.0 * f64::from(1 << 30), erase_cycles: 10_000.0 };
    let (writes, memory) = (silt.writes_at_worst().total(), silt.ram_bytes_per_key());
    let example = "the example of section 5";
    add(WRITES.at(example, memory).paper(Quoted::text(5.4)).calculated(writes));
    add(READS.at(example, memory).paper(Quoted::text(1.008)).calculated(silt.reads_per_get_at_worst()));
    add(MEMORY.at(example, memory).paper(Quoted::text(0.73)).calculated(memory));
    add(STORES.at(example, memory).paper(Quoted::text(31.0)).calculated(silt.hash_stores_mean()));
    let years = flash.lifetime_s(5000.0, 1024.0, writes) / YEAR_S;
    add(LIFETIME.at(example, memory).paper(Quoted::text(3.0)).calculated(years));
    Ok(())
}

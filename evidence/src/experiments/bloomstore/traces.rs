//! Table I: the operations of the traces, as the generator makes them at the paper's length.

use crate::Result;
use crate::conditions::Conditions;
use crate::point::Points;
use crate::quantity::{Keys, Quantity, Quoted, Times};
use crate::registry::Experiment;
use crate::synthetic::Synthetic;
use siltstone_bench::trace::Kind;

const ITEM: &str = "bloomstore/table-i";
/// The generator is read for as many keys at scale 1.
const KEYS: u64 = 500_000;

const LOOKUPS_PER_INSERT: Quantity<Times> = Quantity::equal("lookups per insert");
const OPERATIONS: Quantity<Keys> = Quantity::equal("lookups and inserts of the whole trace");

/// The statistics of the traces.
pub static EXPERIMENT: Experiment =
    Experiment { name: "bloomstore-traces", cost_s: 2, direct: false, counts: true, rates: false, run };

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    for (trace, ratio, operations) in
        [(Synthetic::Linux, 4.1, 12_427_697.0), (Synthetic::Vx, 1.6, 14_628_873.0)]
    {
        let keys = trace.keys(1.0).min(conditions.number(KEYS));
        let scale = keys as f64 / trace.keys(1.0) as f64;
        let (mut lookups, mut inserts) = (0u64, 0u64);
        for operation in trace.open(scale, conditions.seed)? {
            conditions.check()?;
            *if operation?.kind == Kind::Get { &mut lookups } else { &mut inserts } += 1;
        }
        let per_insert = lookups as f64 / inserts.max(1) as f64;
        let name = trace.name();
        points.add(ITEM, LOOKUPS_PER_INSERT.of(name).paper(Quoted::text(ratio)).calculated(per_insert));
        let whole = (lookups + inserts) as f64 / scale;
        points.add(ITEM, OPERATIONS.of(name).paper(Quoted::text(operations)).calculated(whole));
    }
    Ok(())
}

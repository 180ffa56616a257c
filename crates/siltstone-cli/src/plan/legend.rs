//! What the columns of a plan's table mean, and why its rows may differ from what one expects of an engine.

use crate::quantity::{show_bytes, show_count};
use siltstone_model::planner::{self, Demand, Goal, Plan, System, Value};
use std::io::{self, Write};

const COLUMNS: &str = "
memory: at most; B/key: the same per key. reads/get, reads/miss: reads of flash per get of a key that exists, and of
one that does not. WA: bytes written to flash per byte put. SA: bytes on flash per byte of items. lifetime: until the
flash is worn out. busy: the share of the time in which the flash works. bound by: the limit of which the most is used,
and the used share; above 100 % the engine does not fit.";

/// Prints the meaning of the columns, and notes on the rows.
pub fn print(
    out: &mut impl Write,
    demand: &Demand,
    plans: &[Plan],
    is_memory_assumed: bool,
) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    let memory = show_bytes(demand.ram_bytes);
    if is_memory_assumed {
        writeln!(out, "The {memory} of memory are an assumption; --memory states yours.")?;
    }
    let of = |system: System| plans.iter().find(|plan| plan.system == system);
    if let Some(share) = of(System::FLASHKEY).and_then(index_in_memory) {
        print_flashkey(out, demand, share)?;
    }
    if demand.disk.is_none() {
        writeln!(
            out,
            "flashstore, which keeps the rest of the data on a slow disk, is planned with --disk."
        )?;
    }
    Ok(())
}

/// Returns the share of the index that FlashKey has in memory, unless it has all of it there.
fn index_in_memory(plan: &Plan) -> Option<f64> {
    plan.settings.iter().find_map(|(name, value)| match value {
        Value::Ratio(share) if *name == "index_in_memory" => Some(*share),
        _ => None,
    })
}

/// Prints why the index of FlashKey is on flash, and what it takes in memory.
fn print_flashkey(out: &mut impl Write, demand: &Demand, share: f64) -> io::Result<()> {
    let why = match demand.goal {
        Goal::LeastRam => "to take the least memory".to_owned(),
        _ => format!("to fit into {}", show_bytes(demand.ram_bytes)),
    };
    writeln!(out, "flashkey has {:.0} % of its index in memory here, {why}.", 100.0 * share)?;
    let all = planner::in_unlimited_memory(demand, System::FLASHKEY);
    let Some(whole) = all.filter(|plan| index_in_memory(plan).is_none()) else { return Ok(()) };
    let predicted = &whole.prediction;
    writeln!(
        out,
        "With all of it there it takes {}, {} B/key, with {:.4} reads/get and {:.4} reads/miss.",
        show_bytes(predicted.ram_bytes),
        show_count(predicted.ram_bytes_per_key),
        predicted.reads_per_get,
        predicted.reads_per_miss,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_model::Popularity;

    fn notes(change: impl FnOnce(&mut Demand), is_memory_assumed: bool) -> String {
        let mut demand = Demand::new(Popularity::uniform(1_000_000_000).unwrap(), 20.0, 100.0);
        change(&mut demand);
        let plans = planner::plan(&demand).unwrap();
        let mut out = Vec::new();
        print(&mut out, &demand, &plans, is_memory_assumed).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_explained_and_the_index_on_flash_has_its_reason() {
        let assumed = notes(|_| {}, true);
        for wanted in
            ["WA: bytes", "SA: bytes", "busy:", "bound by:", "1 GiB of memory are an assumption", "--disk"]
        {
            assert!(assumed.contains(wanted), "{wanted} in\n{assumed}");
        }
        assert!(
            assumed.contains("0 % of its index in memory here, to fit into 1 GiB.\nWith all"),
            "{assumed}"
        );
        let ample = notes(|demand| demand.ram_bytes = 64e9, false);
        assert!(!ample.contains("assumption") && !ample.contains("of its index"), "{ample}");
    }
}

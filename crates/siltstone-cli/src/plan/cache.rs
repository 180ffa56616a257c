//! `siltstone plan --cache`: what a cache on flash serves.

use super::load::Load;
use super::{Data, Gets, PlanArgs};
use crate::outcome::{Outcome, Result, wrong_usage};
use crate::quantity::{show_bytes, show_count, show_time};
use serde_json::{Value, json};
use siltstone_model::Flash;
use siltstone_model::planner::{CacheDemand, CachePlan, plan_cache};
use std::io::{self, Write, stdout};

/// The options of `plan` that have no effect on a cache.
pub const WITHOUT_EFFECT: [&str; 12] = [
    "missing",
    "scans",
    "durability",
    "space",
    "reads",
    "read_bandwidth",
    "writes",
    "disk",
    "disk_reads",
    "disk_bandwidth",
    "goal",
    "plot",
];

/// The default number of gets per second.
const GETS_PER_S: f64 = 10_000.0;

/// Returns the gets per second: those that are stated, or those of the load until now.
fn gets_per_s(asked: Option<Gets>, load: Option<Load>) -> anyhow::Result<f64> {
    match (asked, load.and_then(|load| load.counted_gets_per_s())) {
        (Some(Gets::Rate(rate)), _) => Ok(rate),
        (Some(Gets::Share(_)), _) => {
            Err(wrong_usage("state the gets of a cache as a rate, such as --gets 20k/s"))
        }
        (None, Some(0.0)) => Err(wrong_usage("the load of --db or --trace has no gets: state --gets")),
        (None, counted) => Ok(counted.unwrap_or(GETS_PER_S)),
    }
}

fn demand(args: &PlanArgs, data: Data) -> anyhow::Result<CacheDemand> {
    let updates_per_s = args.load.updates.unwrap_or(0.0);
    let gets_per_s = gets_per_s(args.load.gets, data.load)?;
    let hardware = &args.hardware;
    Ok(CacheDemand {
        popularity: data.popularity,
        key_bytes: data.key_bytes,
        value_bytes: data.value_bytes,
        fixed: data.fixed,
        gets_per_s,
        updates_per_s,
        ram_bytes: hardware.memory.unwrap_or(super::MEMORY_BYTES),
        flash: Flash { bytes: hardware.flash, erase_cycles: hardware.endurance },
        lifetime_s: hardware.lifetime,
    })
}

pub fn run(args: &PlanArgs, data: Data) -> Result {
    let demand = demand(args, data)?;
    let plan = plan_cache(&demand)?;
    let mut out = stdout().lock();
    if args.json {
        let mut planned = json!(plan);
        if let Some(object) = planned.as_object_mut() {
            let settings = plan.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
            object.insert("settings".to_owned(), Value::Object(settings.collect()));
            object.insert("builder_call".to_owned(), json!(plan.builder_call()));
        }
        writeln!(out, "{}", json!({ "cache": planned }))?;
    } else {
        print(&mut out, &demand, &plan)?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn print(out: &mut impl Write, demand: &CacheDemand, plan: &CachePlan) -> io::Result<()> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    writeln!(
        out,
        "a cache of {} objects of {:.0} + {:.0} B, {} gets per second, {} of memory, {}B of flash for {}",
        show_count(demand.popularity.keys()),
        demand.key_bytes,
        demand.value_bytes,
        show_count(demand.gets_per_s),
        show_bytes(demand.ram_bytes),
        show_count(demand.flash.bytes),
        show_time(demand.lifetime_s),
    )?;
    let mut row = |what: &str, value: String| writeln!(out, "  {what:<18} {value}");
    row("hits", format!("{} of the gets", percent(plan.hit_ratio)))?;
    row("from memory", format!("{} of the gets, as an LRU", percent(plan.ram_hits)))?;
    row("reads of flash", format!("{:.3} per get", plan.reads_per_get))?;
    row(
        "on flash",
        format!(
            "{} of {} objects in {}",
            percent(plan.objects / demand.popularity.keys()),
            show_count(demand.popularity.keys()),
            show_bytes(plan.flash_bytes)
        ),
    )?;
    let caches = show_bytes(plan.record_cache_bytes);
    row(
        "memory",
        format!("{} for the index and buffers, {caches} caches records", show_bytes(plan.ram_bytes)),
    )?;
    row(
        "written to flash",
        format!("{}/s, which lasts {}", show_bytes(plan.written_per_s), show_time(plan.lifetime_s)),
    )?;
    if plan.admitted < 1.0 {
        row(
            "admitted puts",
            format!("at most {}, so that it lasts as long as it has to", percent(plan.admitted)),
        )?;
    }
    if plan.flash_bytes < FLASH_USED_MIN * demand.flash.bytes {
        row("bound by", "memory: the index of more objects does not fit".to_owned())?;
    }
    writeln!(out, "\n  {}", plan.builder_call())
}

/// With less than this share of the flash in use, the memory is what limits the cache.
const FLASH_USED_MIN: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_model::Popularity;

    #[test]
    fn gets_are_those_that_are_stated_or_else_those_of_the_load() {
        let load = Load { gets: 100.0, misses: 0.0, writes: 50.0, seconds: 2.0 };
        assert_eq!(gets_per_s(None, Some(load)).unwrap(), 50.0);
        assert_eq!(gets_per_s(Some(Gets::Rate(7.0)), Some(load)).unwrap(), 7.0);
        // A load that did not last has no rate.
        for unknown in [None, Some(Load { seconds: 0.0, ..load })] {
            assert_eq!(gets_per_s(None, unknown).unwrap(), GETS_PER_S);
        }
        assert!(gets_per_s(None, Some(Load { gets: 0.0, ..load })).is_err());
    }

    #[test]
    fn the_report_has_the_hits_and_what_bounds_them() {
        let demand = CacheDemand {
            popularity: Popularity::zipf(1_000_000, 0.9).unwrap(),
            key_bytes: 16.0,
            value_bytes: 84.0,
            fixed: true,
            gets_per_s: 1_000.0,
            updates_per_s: 0.0,
            ram_bytes: 4e6,
            flash: Flash { bytes: 80e6, erase_cycles: 3_000.0 },
            lifetime_s: 3e8,
        };
        let plan = plan_cache(&demand).unwrap();
        let mut out = Vec::new();
        print(&mut out, &demand, &plan).unwrap();
        let report = String::from_utf8(out).unwrap();
        for wanted in ["a cache of 1M objects", "of the gets", "bound by", ".cache(true).flash_bytes("] {
            assert!(report.contains(wanted), "{wanted} in\n{report}");
        }
    }
}

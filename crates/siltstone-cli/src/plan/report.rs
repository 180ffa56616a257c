//! Prints plans as tables, JSON and charts.

use super::legend;
use crate::quantity::{show_bytes, show_count, show_time};
use serde_json::{Value, json};
use siltstone::{Stats, Usage};
use siltstone_bench::chart::{Axis, Chart, Series, Style};
use siltstone_model::planner::{
    self, Bound, Demand, Goal, Limit, Plan, Prediction, System, TradeOff, Unfit, Value as Setting,
};
use std::io::{self, Write};

/// The maximum number of keys of the `bench db` command that tries a plan.
const TRIED_KEYS_MAX: f64 = 1e7;

/// Puts per key after which cleaning has reached its steady state.
const FLASHKEY_OVERWRITES: usize = 4;

/// Returns the demand as JSON.
pub fn demand(demand: &Demand) -> Value {
    json!({
        "items": demand.keys(),
        "key_bytes": demand.key_bytes,
        "value_bytes": demand.value_bytes,
        "gets_per_s": demand.gets_per_s,
        "missing_gets": demand.missing_gets,
        "puts_per_s": demand.puts_per_s,
        "scans": demand.scans,
        "persistent": demand.persistent,
        "synced": demand.synced,
        "ram_bytes": demand.ram_bytes,
        "flash": demand.flash,
        "space": demand.space.is_finite().then_some(demand.space),
        "lifetime_s": demand.lifetime_s,
        "reads_per_s": demand.reads_per_s,
        "read_bytes_per_s": demand.read_bytes_per_s,
        "write_bytes_per_s": demand.write_bytes_per_s,
        "disk": demand.disk,
        "goal": demand.goal,
    })
}

/// Returns a plan as JSON, with the builder call, the flags, and the command that tries it.
pub fn plan(demand: &Demand, plan: &Plan) -> Value {
    let mut value = json!(plan);
    let trial = trial(demand, plan).filter(|_| plan.is_recommended());
    if let Some(object) = value.as_object_mut() {
        let settings = plan.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        object.insert("settings".to_owned(), Value::Object(settings.collect()));
        object.insert("recommended".to_owned(), json!(plan.is_recommended()));
        object.insert("builder_call".to_owned(), json!(plan.builder_call()));
        object.insert("flags".to_owned(), json!(plan.flags()));
        let command = trial.as_ref().map(|trial| trial.command.clone());
        object.insert("trial".to_owned(), json!(command));
        object.insert("trial_prediction".to_owned(), json!(trial.map(|trial| trial.plan.prediction)));
    }
    value
}

fn name_of(bound: Bound) -> &'static str {
    match bound {
        Bound::Ram => "memory",
        Bound::FlashSpace => "flash space",
        Bound::Space => "space per item",
        Bound::Lifetime => "lifetime",
        Bound::DeviceTime => "device time",
        Bound::DiskSpace => "disk space",
        Bound::DiskTime => "disk time",
    }
}

fn reason(unfit: &Unfit) -> String {
    match unfit {
        Unfit::NoScans => "no scans".to_owned(),
        Unfit::NotPersistent => "not persistent".to_owned(),
        Unfit::Exceeds(bound) => format!("{} exceeded", name_of(*bound)),
    }
}

fn verdict(plan: &Plan) -> String {
    match plan.unfit.as_slice() {
        [] => "fits".to_owned(),
        unfit => unfit.iter().map(reason).collect::<Vec<_>>().join(", "),
    }
}

/// Prints the counters of a database, and its current size unless another process has it open.
pub fn print_database(out: &mut impl Write, usage: Option<&Usage>, now: Option<&Stats>) -> io::Result<()> {
    if let Some(usage) = usage {
        writeln!(
            out,
            "The database counted {} gets, {} of them of missing keys, {} puts and {} deletes in {}.",
            usage.gets,
            usage.misses,
            usage.puts,
            usage.deletes,
            show_time(usage.open_ms as f64 / 1e3),
        )?;
    }
    match now {
        Some(stats) => writeln!(
            out,
            "It has {} of memory and {} on disk now.",
            show_bytes(stats.ram.total_bytes() as f64),
            show_bytes(stats.disk_bytes as f64)
        ),
        None if usage.is_some() => writeln!(out, "It is in use: this is what it kept last."),
        None => Ok(()),
    }
}

/// Prints the engines, best first, what the columns mean, and how to use the best one.
pub fn print(
    out: &mut impl Write,
    demand: &Demand,
    plans: &[Plan],
    is_memory_assumed: bool,
) -> io::Result<()> {
    let disk = demand.disk.map_or(String::new(), |disk| match disk.bytes.is_finite() {
        true => format!(", {}B of disk", show_count(disk.bytes)),
        false => ", a disk".to_owned(),
    });
    writeln!(
        out,
        "{} items of {:.0} + {:.0} B, {} gets and {} updates per second, {} of memory, {}B of flash for {}{disk}",
        show_count(demand.keys()),
        demand.key_bytes,
        demand.value_bytes,
        show_count(demand.gets_per_s),
        show_count(demand.puts_per_s),
        show_bytes(demand.ram_bytes),
        show_count(demand.flash.bytes),
        show_time(demand.lifetime_s),
    )?;
    writeln!(
        out,
        "\n{:<11} {:>10} {:>8} {:>9} {:>10} {:>6} {:>6} {:>9} {:>5}  bound by",
        "engine", "memory", "B/key", "reads/get", "reads/miss", "WA", "SA", "lifetime", "busy"
    )?;
    for plan in plans {
        print_row(out, plan)?;
    }
    legend::print(out, demand, plans, is_memory_assumed)?;
    match plans.iter().find(|plan| plan.is_recommended()) {
        Some(best) => print_recommended(out, demand, best),
        None => print_remedies(out, demand, plans),
    }
}

fn print_row(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let Prediction { ram_bytes, ram_bytes_per_key, .. } = plan.prediction;
    let predicted = &plan.prediction;
    let bound = plan
        .binding()
        .map_or(String::new(), |limit| format!("{} ({:.0} %)", name_of(limit.bound), 100.0 * limit.used));
    writeln!(
        out,
        "{:<11} {:>10} {:>8} {:>9.4} {:>10.4} {:>6.2} {:>6.2} {:>9} {:>4.0}%  {bound}; {}",
        plan.system.name(),
        show_bytes(ram_bytes),
        show_count(ram_bytes_per_key),
        predicted.reads_per_get,
        predicted.reads_per_miss,
        predicted.write_amplification,
        predicted.space_amplification,
        show_time(predicted.lifetime_s),
        100.0 * predicted.device_busy,
        verdict(plan),
    )
}

/// A database small enough to try, with the settings of a plan.
struct Trial {
    keys: u64,
    command: String,
    plan: Plan,
}

fn trial(demand: &Demand, plan: &Plan) -> Option<Trial> {
    let keys = demand.keys().min(TRIED_KEYS_MAX) as u64;
    let scaled = planner::trial(demand, plan, keys).ok()?;
    let has_lengths = |(_, value): &(&str, Setting)| matches!(value, Setting::Lengths(..));
    let sizes = match scaled.settings.iter().any(has_lengths) {
        true => String::new(),
        false => format!(" --key-size {:.0} --value-size {:.0}", demand.key_bytes, demand.value_bytes),
    };
    // Merges reach a steady state after each partition has been merged once or twice.
    let ratio = scaled.settings.iter().find_map(|(name, value)| match value {
        Setting::Ratio(ratio) if *name == "merge_ratio" => Some(*ratio),
        _ => None,
    });
    let overwrites = match plan.system {
        System::SILT => ",overwrite".repeat(2 + ratio.unwrap_or(0.0).ceil() as usize),
        System::FLASHKEY | System::FLASHSTORE => ",overwrite".repeat(FLASHKEY_OVERWRITES),
        _ => ",overwrite".to_owned(),
    };
    let command = format!(
        "siltstone bench db --num {keys}{sizes} {} --benchmarks filluniquerandom{overwrites},readrandom,readmissing",
        scaled.flags()
    );
    Some(Trial { keys, command, plan: scaled })
}

fn print_recommended(out: &mut impl Write, demand: &Demand, best: &Plan) -> io::Result<()> {
    writeln!(out, "\nRecommended: {}", best.system.name())?;
    writeln!(out, "  {}", best.builder_call())?;
    if best.prediction.open_files > 0.0 {
        writeln!(out, "  up to {:.0} open files at the same time (ulimit -n)", best.prediction.open_files)?;
    }
    print_disk(out, best)?;
    print_equal_space(out, demand, best)?;
    let Some(trial) = trial(demand, best) else { return Ok(()) };
    writeln!(out, "\nTo try it:\n  {}", trial.command)?;
    if demand.keys() > TRIED_KEYS_MAX {
        let [tried, all] = [trial.keys as f64, demand.keys()].map(show_count);
        let scaled = match best.system {
            System::MICA => "memory_budget is scaled with them",
            System::FLASHKEY => "segment_bytes is smaller if they need it",
            System::FLASHSTORE => {
                "flash_bytes is scaled with them, and the disk is a directory of the database"
            }
            _ => "log_slots_min is scaled with them",
        };
        writeln!(out, "  these are {tried} keys instead of {all}; {scaled}")?;
    }
    let Prediction { ram_bytes, reads_per_get, reads_per_miss, write_amplification, .. } =
        trial.plan.prediction;
    writeln!(
        out,
        "  expected of the last overwrite, whose keys are all equally popular: WA {write_amplification:.2}, memory {}, \
         {reads_per_get:.4} reads per get, {reads_per_miss:.4} per miss",
        show_bytes(ram_bytes),
    )
}

/// Prints what the disk does, if the plan has one.
fn print_disk(out: &mut impl Write, best: &Plan) -> io::Result<()> {
    let Prediction { disk_gets, disk_reads_per_get, disk_writes, disk_bytes, disk_busy, .. } =
        best.prediction;
    if disk_bytes == 0.0 {
        return Ok(());
    }
    writeln!(
        out,
        "  the flash serves {:.0} % of the gets; the disk has up to {}, reads {disk_reads_per_get:.3} times per get, \
         writes {disk_writes:.2} bytes per byte put, and is busy for {:.0} % of the time",
        100.0 * (1.0 - disk_gets),
        show_bytes(disk_bytes),
        100.0 * disk_busy,
    )
}

/// Prints what the other engines that keep data on flash cost in the space of the best one.
fn print_equal_space(out: &mut impl Write, demand: &Demand, best: &Plan) -> io::Result<()> {
    if best.system == System::MICA || best.system == System::FLASHSTORE {
        return Ok(());
    }
    for other in &planner::in_equal_space(demand, best) {
        writeln!(
            out,
            "  in equal space ({:.2}), {} has WA {:.2} and takes {} of memory",
            best.prediction.space_amplification,
            other.system.name(),
            other.prediction.write_amplification,
            show_bytes(other.prediction.ram_bytes),
        )?;
    }
    Ok(())
}

/// Prints which requirements the nearest existing engine would need relaxed.
fn print_remedies(out: &mut impl Write, demand: &Demand, plans: &[Plan]) -> io::Result<()> {
    writeln!(out, "\nNone of the existing engines meets all requirements.")?;
    let Some(nearest) = plans.first() else { return Ok(()) };
    writeln!(out, "The nearest is {}, which would do with all of:", nearest.system.name())?;
    for unfit in &nearest.unfit {
        match unfit {
            Unfit::NoScans => writeln!(out, "  --scans no")?,
            Unfit::NotPersistent => writeln!(out, "  --durability buffered")?,
            Unfit::Exceeds(bound) => {
                let limit = nearest.limits.iter().find(|limit| limit.bound == *bound);
                limit.map_or(Ok(()), |limit| writeln!(out, "  {}", remedy(demand, limit)))?;
            }
        }
    }
    Ok(())
}

/// Relaxes a demand until one limit is met.
fn remedy(demand: &Demand, limit: &Limit) -> String {
    // Rounded up to three digits, so that the printed value is enough.
    let enough = |value: f64| {
        let unit = 10f64.powf(value.max(1.0).log10().floor() - 2.0);
        (value / unit).ceil() * unit
    };
    let times = limit.used;
    let bytes = |bytes: f64| format!("{:.0}", enough(bytes * times));
    match limit.bound {
        Bound::Ram => format!("--memory {}: {times:.2} times as much", bytes(demand.ram_bytes)),
        Bound::FlashSpace => format!("--flash {}: {times:.2} times as much", bytes(demand.flash.bytes)),
        Bound::Space => format!("--space {:.2}", enough(100.0 * demand.space * times) / 100.0),
        Bound::Lifetime => {
            let (cycles, years) = (enough(demand.flash.erase_cycles * times), demand.lifetime_s / times);
            format!(
                "--lifetime {} or --endurance {cycles:.0}, or {times:.2} times as much flash",
                show_time(years)
            )
        }
        Bound::DeviceTime => format!(
            "one {times:.2}th of the requests (--gets, --updates), or {times:.2} times the flash's --reads, \
             --read-bandwidth and --writes"
        ),
        Bound::DiskSpace => {
            format!("--disk {}: {times:.2} times as much", bytes(demand.disk.map_or(0.0, |disk| disk.bytes)))
        }
        Bound::DiskTime => {
            let of = |rate: fn(&planner::Disk) -> f64| enough(demand.disk.as_ref().map_or(0.0, rate) * times);
            let (reads, bytes) = (of(|disk| disk.reads_per_s), of(|disk| disk.bytes_per_s));
            format!("--disk-reads {reads:.0} --disk-bandwidth {bytes:.0}: {times:.2} times as many")
        }
    }
}

fn goal(goal: Goal) -> &'static str {
    match goal {
        Goal::LeastDeviceTime => "least device time",
        Goal::LeastRam => "least memory",
        Goal::LeastWrites => "least writes",
    }
}

/// Figure 2.8 for all engines: write amplification and reads over memory.
pub fn charts(demand: &Demand, plans: &[Plan], trade_offs: &[TradeOff]) -> [Chart; 2] {
    let chart = |title: &str, y: &str, logarithmic: bool, value: fn(&Prediction) -> f64| {
        let point = |prediction: &Prediction| (prediction.ram_bytes_per_key, value(prediction));
        let series = |trade_off: &TradeOff| Series {
            name: trade_off.system.name().to_owned(),
            points: trade_off.points.iter().map(point).collect(),
            style: Style::Line,
        };
        let chosen = plans.iter().find(|plan| plan.is_recommended()).map(|plan| Series {
            // The curves show the least writes for each amount of memory; other goals may choose a point above them.
            name: format!("recommended: {}, {}", plan.system.name(), goal(demand.goal)),
            points: vec![point(&plan.prediction)],
            style: Style::Line,
        });
        Chart {
            title: title.to_owned(),
            x: Axis { label: "memory, bytes per key".to_owned(), logarithmic: true },
            y: Axis { label: y.to_owned(), logarithmic },
            series: trade_offs.iter().map(series).chain(chosen).collect(),
        }
    };
    [
        chart(
            "Least write amplification for the memory, default filters",
            "write amplification",
            true,
            |prediction| prediction.write_amplification,
        ),
        chart("Reads per get at these points", "reads per get", false, |prediction| prediction.reads_per_get),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_model::{Popularity, planner};

    fn planned() -> (Demand, Vec<Plan>) {
        let demand = Demand::new(Popularity::uniform(10_000_000).unwrap(), 20.0, 44.0);
        let plans = planner::plan(&demand).unwrap();
        (demand, plans)
    }

    #[test]
    fn the_table_names_every_engine_and_how_to_set_the_best_one_up() {
        let (demand, plans) = planned();
        let mut out = Vec::new();
        print(&mut out, &demand, &plans, true).unwrap();
        let table = String::from_utf8(out).unwrap();
        for wanted in
            ["silt", "flashkey", "mica", "bloomstore", "Recommended: silt", ".fixed(20, 44)", "--key-size 20"]
        {
            assert!(table.contains(wanted), "{wanted} in\n{table}");
        }
    }

    #[test]
    fn json_has_the_settings_by_name() {
        let (demand, plans) = planned();
        let best = plan(&demand, &plans[0]);
        assert_eq!(best["recommended"], true);
        assert_eq!(best["settings"]["fixed"], json!([20, 44]));
        assert!(best["prediction"]["write_amplification"].as_f64().unwrap() > 1.0);
    }

    #[test]
    fn the_charts_have_a_line_for_each_engine() {
        let (demand, plans) = planned();
        let [writes, reads] = charts(&demand, &plans, &planner::trade_off(&demand).unwrap());
        for chart in [writes, reads] {
            // Without a disk there is no plan for FlashStore; one more is what is recommended.
            assert_eq!(chart.series.len(), System::all().count());
            assert!(chart.series.iter().any(|series| series.name == "silt" && series.points.len() > 10));
        }
    }
}

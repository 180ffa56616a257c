//! Plans as a table, as JSON and as charts.

use crate::chart::{Axis, Chart, Line};
use crate::quantity::{show_bytes, show_count, show_time};
use serde_json::{Value, json};
use siltstone::model::planner::{Bound, Demand, Plan, Prediction, System, TradeOff, Unfit};
use siltstone::{Stats, Usage};
use std::io::{self, Write};

/// The keys that `bench db` is given to try a plan with, at the most.
const TRIED_KEYS_MAX: f64 = 1e7;

/// What was asked for, as JSON.
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
        "ram_bytes": demand.ram_bytes,
        "flash": demand.flash,
        "lifetime_s": demand.lifetime_s,
        "reads_per_s": demand.reads_per_s,
        "write_bytes_per_s": demand.write_bytes_per_s,
        "disk_reads_per_s": demand.disk_reads_per_s,
        "goal": demand.goal,
        "built": demand.built,
    })
}

/// A plan as JSON, with the call and the flags that set it up.
pub fn plan(plan: &Plan) -> Value {
    let mut value = json!(plan);
    if let Some(object) = value.as_object_mut() {
        let settings = plan.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        object.insert("settings".to_owned(), Value::Object(settings.collect()));
        object.insert("recommended".to_owned(), json!(plan.is_recommended()));
        object.insert("builder_call".to_owned(), json!(plan.builder_call()));
        object.insert("flags".to_owned(), json!(plan.flags()));
    }
    value
}

fn name_of(bound: Bound) -> &'static str {
    match bound {
        Bound::Ram => "memory",
        Bound::FlashSpace => "flash space",
        Bound::Lifetime => "lifetime",
        Bound::DeviceTime => "device time",
        Bound::DiskTime => "disk time",
    }
}

fn reason(unfit: &Unfit) -> String {
    match unfit {
        Unfit::NotBuilt => "not built".to_owned(),
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

/// Prints what was read from a database, and what it has now if nobody else has it open.
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

/// Prints the engines, the best first, and how to set the best one up.
pub fn print(out: &mut impl Write, demand: &Demand, plans: &[Plan]) -> io::Result<()> {
    writeln!(
        out,
        "{} items of {:.0} + {:.0} B, {} gets and {} updates a second, {} of memory, {}B of flash for {}",
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
    match plans.iter().find(|plan| plan.is_recommended()) {
        Some(best) => print_recommended(out, demand, best),
        None => writeln!(out, "\nNone of the engines that are built does all of this."),
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

fn print_recommended(out: &mut impl Write, demand: &Demand, best: &Plan) -> io::Result<()> {
    writeln!(out, "\nRecommended: {}", best.system.name())?;
    writeln!(out, "  {}", best.builder_call())?;
    let sizes = match demand.silt_layout.fixed && best.system == System::Silt {
        true => String::new(),
        false => format!(" --key_size {:.0} --value_size {:.0}", demand.key_bytes, demand.value_bytes),
    };
    let num = demand.keys().min(TRIED_KEYS_MAX);
    writeln!(out, "  siltstone bench db --num {num:.0}{sizes} {}", best.flags())
}

/// Figure 2.8 with all engines: write amplification and reads over memory.
pub fn charts(demand: &Demand, plans: &[Plan], trade_offs: &[TradeOff]) -> [Chart; 2] {
    let chart = |title: &str, y: &str, logarithmic: bool, value: fn(&Prediction) -> f64| {
        let point = |prediction: &Prediction| (prediction.ram_bytes_per_key, value(prediction));
        let line = |trade_off: &TradeOff| {
            let is_built = demand.built.contains(&trade_off.system);
            let not_built = if is_built { "" } else { " (not built)" };
            Line {
                name: format!("{}{not_built}", trade_off.system.name()),
                points: trade_off.points.iter().map(point).collect(),
                faint: !is_built,
            }
        };
        let chosen = plans.iter().find(|plan| plan.is_recommended()).map(|plan| Line {
            name: "recommended".to_owned(),
            points: vec![point(&plan.prediction)],
            faint: false,
        });
        Chart {
            title: title.to_owned(),
            x: Axis { label: "memory, bytes a key".to_owned(), logarithmic: true },
            y: Axis { label: y.to_owned(), logarithmic },
            lines: trade_offs.iter().map(line).chain(chosen).collect(),
        }
    };
    [
        chart("Write amplification over memory", "write amplification", true, |prediction| {
            prediction.write_amplification
        }),
        chart("Reads a get over memory", "reads a get", false, |prediction| prediction.reads_per_get),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone::model::{Popularity, planner};

    fn planned() -> (Demand, Vec<Plan>) {
        let demand = Demand::new(Popularity::uniform(10_000_000).unwrap(), 20.0, 44.0);
        let plans = planner::plan(&demand).unwrap();
        (demand, plans)
    }

    #[test]
    fn the_table_names_every_engine_and_how_to_set_the_best_one_up() {
        let (demand, plans) = planned();
        let mut out = Vec::new();
        print(&mut out, &demand, &plans).unwrap();
        let table = String::from_utf8(out).unwrap();
        for wanted in
            ["silt", "flashkey", "mica", "not built", "Recommended: silt", ".fixed(20, 44)", "--key_size 20"]
        {
            assert!(table.contains(wanted), "{wanted} in\n{table}");
        }
    }

    #[test]
    fn json_has_the_settings_by_name() {
        let (_, plans) = planned();
        let best = plan(&plans[0]);
        assert_eq!(best["recommended"], true);
        assert_eq!(best["settings"]["fixed"], json!([20, 44]));
        assert!(best["prediction"]["write_amplification"].as_f64().unwrap() > 1.0);
    }

    #[test]
    fn the_charts_mark_what_is_not_built() {
        let (demand, plans) = planned();
        let [writes, reads] = charts(&demand, &plans, &planner::trade_off(&demand).unwrap());
        for chart in [writes, reads] {
            assert_eq!(chart.lines.len(), System::ALL.len() + 1);
            assert!(chart.lines.iter().any(|line| line.name == "mica (not built)" && line.faint));
            assert!(chart.lines.iter().any(|line| line.name == "silt" && line.points.len() > 10));
        }
    }
}

//! The planner: chooses an engine and its parameters for given data, load and hardware, and predicts the cost.
//!
//! [`plan`] evaluates the sensible parameters of every engine (`candidates.rs` and the files of the engines), keeps the
//! best for each engine, and ranks the engines. [`trade_off`] returns the range of costs of every engine: Figure 2.8 of
//! Lim's dissertation, for all engines. [`trial`] scales a plan down to a database that can be filled quickly.
//! [`plan_cache`] is for a cache on flash.

mod bloomstore;
mod cache;
mod candidates;
mod demand;
mod flashkey;
mod flashstore;
mod parameters;
mod plan;
mod silt;
mod system;

pub use cache::{CacheDemand, CachePlan, plan_cache};
pub use demand::{Demand, Disk, Goal};
pub use parameters::Value;
pub use plan::{Bound, Limit, Plan, Prediction, Unfit};
pub use system::System;

use super::error::ModelError;
use super::popularity::Popularity;
use candidates::candidates;
use parameters::{Candidate, Parameters};

/// Costs that differ by less than this share count as equal.
const COST_STEP: f64 = 0.003;
/// A device that is busy for less than this share of the time counts as idle.
const BUSY_MIN: f64 = 0.001;
/// The penalty for an exceeded limit, added to the logarithm of the excess: no limit is exceeded for a small gain.
const EXCEEDED: f64 = 0.1;

/// Returns a plan for each engine that can hold the data, best first. FlashStore is planned if there is a disk. Plans
/// that can be recommended come before the others; within both groups they are ordered by the [`Goal`]. If no
/// parameters fit, an engine's plan is the one that exceeds its limits least, and engines closer to their limits come
/// first.
///
/// Takes some tenths of a second.
pub fn plan(demand: &Demand) -> Result<Vec<Plan>, ModelError> {
    demand.check()?;
    let mut plans: Vec<Plan> = System::all().filter_map(|system| best(system, demand)).collect();
    let rank = |plan: &Plan| {
        let exceeds = |unfit: &&Unfit| matches!(unfit, Unfit::Exceeds(_));
        let others = plan.unfit.len() - plan.unfit.iter().filter(exceeds).count();
        (!plan.is_recommended(), others, excess(&plan.limits), cost(demand.goal, &plan.prediction))
    };
    plans.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
    Ok(plans)
}

/// Returns the best plans of the other engines that keep data on flash, in no more space than a plan takes.
pub fn in_equal_space(demand: &Demand, plan: &Plan) -> Vec<Plan> {
    let demand = Demand { space: demand.space.min(plan.prediction.space_amplification), ..demand.clone() };
    let others = [System::SILT, System::FLASHKEY].into_iter().filter(|system| *system != plan.system);
    others.filter_map(|system| best(system, &demand)).collect()
}

/// Returns the best plan of an engine if memory does not limit it and has no cost.
pub fn in_unlimited_memory(demand: &Demand, system: System) -> Option<Plan> {
    best(system, &Demand { ram_bytes: f64::MAX, goal: Goal::LeastDeviceTime, ..demand.clone() })
}

/// Returns the plan of a Siltstone engine scaled to this many keys of equal popularity, with all settings that depend
/// on the number of keys: a prediction for a benchmark of that size.
pub fn trial(demand: &Demand, plan: &Plan, keys: u64) -> Result<Plan, ModelError> {
    let demand = Demand { popularity: Popularity::uniform(keys)?, synced: false, ..demand.clone() };
    let times = demand.keys() / plan_keys(plan);
    let candidate = match &plan.parameters {
        Parameters::Silt(layout) => silt::of_layout(&demand, &silt::scaled(layout, times)),
        Parameters::FlashKey(layout) => flashkey::of_layout(&demand, &flashkey::scaled(&demand, layout)),
        Parameters::FlashStore(layout) => {
            // Its keys are put, then read.
            let demand = Demand { gets_per_s: 0.0, ..demand.clone() };
            flashstore::of_layout(&demand, &flashstore::scaled(layout, times))
        }
        Parameters::Named(_) => candidates::mica(&demand).filter(|_| plan.system == System::MICA),
    };
    let error =
        ModelError { name: "keys of a trial", got: keys as f64, limit: "a number that the engine can hold" };
    candidate.map(|candidate| evaluate(plan.system, &demand, candidate)).ok_or(error)
}

/// Returns the number of keys that a plan was made for.
fn plan_keys(plan: &Plan) -> f64 {
    plan.prediction.ram_bytes / plan.prediction.ram_bytes_per_key
}

/// The costs of an engine over a range of memory sizes.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct TradeOff {
    /// The engine.
    pub system: System,
    /// Its best predictions by ascending memory. Each has a lower write amplification than the one before it.
    pub points: Vec<Prediction>,
}

/// Returns the curves of write amplification (and reads) over memory, for all engines that can hold the data.
pub fn trade_off(demand: &Demand) -> Result<Vec<TradeOff>, ModelError> {
    demand.check()?;
    let all = System::all().map(|system| TradeOff { system, points: frontier(system, demand) });
    Ok(all.filter(|curve| !curve.points.is_empty()).collect())
}

fn frontier(system: System, demand: &Demand) -> Vec<Prediction> {
    let mut points: Vec<Prediction> = candidates(system, demand)
        .into_iter()
        .filter(|candidate| silt::is_standard(demand, candidate))
        .map(|candidate| Prediction::new(demand, candidate.costs))
        .collect();
    let key = |point: &Prediction| (point.ram_bytes, point.write_amplification);
    points.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    let mut least = f64::INFINITY;
    points.retain(|point| {
        let better = point.write_amplification < least;
        least = least.min(point.write_amplification);
        better
    });
    points
}

fn best(system: System, demand: &Demand) -> Option<Plan> {
    let rank = |candidate: &Candidate| {
        let prediction = Prediction::new(demand, candidate.costs);
        (excess(&limits(demand, &prediction)), cost(demand.goal, &prediction))
    };
    let ranked = candidates(system, demand).into_iter().map(|candidate| (rank(&candidate), candidate));
    let best = ranked.min_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    best.map(|(_, candidate)| evaluate(system, demand, candidate))
}

fn evaluate(system: System, demand: &Demand, candidate: Candidate) -> Plan {
    let prediction = Prediction::new(demand, candidate.costs);
    let limits = limits(demand, &prediction);
    let mut unfit = Vec::new();
    if demand.scans && system != System::FLASHKEY {
        unfit.push(Unfit::NoScans);
    }
    if demand.persistent && system == System::MICA {
        unfit.push(Unfit::NotPersistent);
    }
    unfit.extend(limits.iter().filter(|limit| limit.used > 1.0).map(|limit| Unfit::Exceeds(limit.bound)));
    let parameters = candidate.parameters;
    Plan { system, settings: parameters.settings(), prediction, limits, unfit, parameters }
}

fn limits(demand: &Demand, prediction: &Prediction) -> Vec<Limit> {
    let disk_bytes = demand.disk.map_or(f64::INFINITY, |disk| disk.bytes);
    let mut limits: Vec<Limit> = [
        (Bound::Ram, prediction.ram_bytes / demand.ram_bytes),
        (Bound::FlashSpace, prediction.flash_bytes / demand.flash.bytes),
        (Bound::Space, prediction.space_amplification / demand.space),
        (Bound::Lifetime, demand.lifetime_s / prediction.lifetime_s),
        (Bound::DeviceTime, prediction.device_busy),
        (Bound::DiskSpace, prediction.disk_bytes / disk_bytes),
        (Bound::DiskTime, prediction.disk_busy),
    ]
    .map(|(bound, used)| Limit { bound, used })
    .into();
    limits.sort_by(|a, b| b.used.total_cmp(&a.used));
    limits
}

/// Returns the sum of the excess over all limits, in logarithms: 0 if no limit is exceeded.
fn excess(limits: &[Limit]) -> f64 {
    limits.iter().filter(|limit| limit.used > 1.0).map(|limit| EXCEEDED + limit.used.ln()).sum()
}

/// Returns the value to minimize: the quantity named by the goal, rounded to [`COST_STEP`]; among equals memory, space,
/// writes and device time.
fn cost(goal: Goal, prediction: &Prediction) -> (f64, f64) {
    // The busier one of flash and disk.
    let busy = prediction.device_busy.max(prediction.disk_busy).max(BUSY_MIN);
    let aimed_at = match goal {
        Goal::LeastDeviceTime => busy,
        Goal::LeastRam => prediction.ram_bytes,
        Goal::LeastWrites => prediction.write_amplification,
    };
    let taken = prediction.ram_bytes.max(1.0).ln() + prediction.flash_bytes.max(1.0).ln() + 2.0 * busy.ln();
    ((aimed_at.ln() / COST_STEP).round(), taken + prediction.write_amplification.max(1.0).ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flash, Popularity, YEAR_S};

    /// The example of 2.4 as a demand: 100 M items, 5,000 puts per second; items and flash are an eighth as large.
    fn demand() -> Demand {
        let mut demand = Demand::new(Popularity::uniform(100_000_000).unwrap(), 24.0, 104.0);
        demand.puts_per_s = 5_000.0;
        demand.flash = Flash { bytes: 32.0 * f64::from(1 << 30), erase_cycles: 10_000.0 };
        demand.ram_bytes = 120e6;
        demand
    }

    #[test]
    fn the_store_of_2_4_is_found_for_its_demand() {
        let mut demand = demand();
        demand.goal = Goal::LeastRam;
        let plans = plan(&demand).unwrap();
        let silt = &plans[0];
        assert_eq!(silt.system, System::SILT);
        assert!(silt.is_recommended(), "{silt:?}");
        let prediction = silt.prediction;
        assert!((3.0..3.2).contains(&(prediction.lifetime_s / YEAR_S)), "{prediction:?}");
        assert!((5.3..5.7).contains(&prediction.write_amplification), "{prediction:?}");
        assert_eq!(silt.binding().unwrap().bound, Bound::Lifetime);
        assert!(
            silt.builder_call()
                .starts_with("Database::builder(path).engine(SiltSettings::default().merge_ratio(")
        );
        assert!(
            silt.flags().starts_with("--engine silt --key-size 24 --value-size 104 --fixed --partitions ")
        );
    }

    #[test]
    fn more_memory_is_turned_into_fewer_writes() {
        let writes = |ram_bytes| {
            let plans = plan(&Demand { ram_bytes, goal: Goal::LeastWrites, ..demand() }).unwrap();
            let silt = plans.into_iter().find(|plan| plan.system == System::SILT).unwrap();
            assert!(silt.prediction.ram_bytes <= ram_bytes);
            silt.prediction.write_amplification
        };
        assert!(writes(150e6) < 0.8 * writes(20e6));
    }

    #[test]
    fn every_engine_but_that_above_a_disk_is_planned_without_one() {
        let demand = Demand { ram_bytes: 1e12, persistent: false, ..demand() };
        let plans = plan(&demand).unwrap();
        assert_eq!(plans.len(), System::all().filter(|system| *system != System::FLASHSTORE).count());
        let best = &plans[0];
        assert_eq!((best.system, best.is_recommended()), (System::MICA, true));
    }

    /// In twice the space of the data, cleaning writes less than merging.
    #[test]
    fn flashkey_is_recommended_where_writes_count_and_memory_suffices_for_its_index() {
        let demand = Demand { goal: Goal::LeastWrites, ram_bytes: 2e9, ..demand() };
        let flash = Flash { bytes: 1e12, ..demand.flash };
        let demand = Demand { flash, space: 2.0, ..demand };
        let best = plan(&demand).unwrap().swap_remove(0);
        assert_eq!((best.system, best.is_recommended()), (System::FLASHKEY, true));
        assert!(best.prediction.space_amplification <= 2.0, "{best:?}");
        let flags = best.flags();
        assert!(flags.starts_with("--engine flashkey --key-size 24 --value-size 104 --fixed --set space=1."));
        assert!(best.builder_call().contains(".engine(FlashKeySettings::default().space(1."));
        let others = in_equal_space(&demand, &best);
        assert_eq!(others.iter().map(|plan| plan.system).collect::<Vec<_>>(), [System::SILT]);
        assert!(others[0].prediction.space_amplification <= best.prediction.space_amplification * 1.001);
        let [ours, other] = [best.prediction, others[0].prediction].map(|one| one.write_amplification);
        assert!(other > 1.3 * ours, "{other} for {ours}");
    }

    #[test]
    fn with_less_memory_than_its_index_takes_flashkey_keeps_it_on_flash() {
        let of_flashkey = |ram_bytes| {
            let plans = plan(&Demand { ram_bytes, ..demand() }).unwrap();
            plans.into_iter().find(|plan| plan.system == System::FLASHKEY).unwrap()
        };
        let [in_memory, ample, on_flash, without] = [3e9, 300e6, 80e6, 20e6].map(of_flashkey);
        let on_flash_share = |plan: &Plan| plan.settings.iter().any(|(name, _)| *name == "index_in_memory");
        assert!(in_memory.unfit.is_empty() && !on_flash_share(&in_memory), "{in_memory:?}");
        for plan in [&ample, &on_flash] {
            assert!(plan.unfit.is_empty() && on_flash_share(plan), "{plan:?}");
            assert!(plan.prediction.reads_per_get > 2.0, "{plan:?}");
        }
        assert!(in_memory.prediction.ram_bytes_per_key > 4.0 && in_memory.prediction.reads_per_get < 1.1);
        assert!(on_flash.prediction.ram_bytes_per_key < 0.7);
        assert!(without.unfit.contains(&Unfit::Exceeds(Bound::Ram)), "{without:?}");
    }

    #[test]
    fn scans_and_persistence_rule_engines_out() {
        let demand = Demand { scans: true, ram_bytes: 1e12, ..demand() };
        for plan in plan(&demand).unwrap() {
            assert_eq!(plan.unfit.contains(&Unfit::NoScans), plan.system != System::FLASHKEY);
            if plan.system == System::FLASHKEY {
                assert!(plan.flags().contains(" --set ordered=true"), "{plan:?}");
            }
            assert_eq!(plan.unfit.contains(&Unfit::NotPersistent), plan.system == System::MICA);
        }
    }

    #[test]
    fn where_nothing_fits_the_nearest_is_shown_with_what_is_exceeded() {
        let demand = Demand { ram_bytes: 1e6, ..demand() };
        let plans = plan(&demand).unwrap();
        let silt = plans.iter().find(|plan| plan.system == System::SILT).unwrap();
        assert!(silt.unfit.contains(&Unfit::Exceeds(Bound::Ram)));
        assert!(silt.prediction.ram_bytes_per_key < 0.9, "{silt:?}");
    }

    #[test]
    fn a_skewed_load_needs_less_memory_for_the_same_lifetime() {
        let ram = |popularity| {
            let demand = Demand { popularity, goal: Goal::LeastRam, ..demand() };
            plan(&demand)
                .unwrap()
                .into_iter()
                .find(|plan| plan.system == System::SILT)
                .unwrap()
                .prediction
                .ram_bytes
        };
        let uniform = ram(Popularity::uniform(100_000_000).unwrap());
        let zipf = ram(Popularity::zipf(100_000_000, 0.99).unwrap());
        assert!(zipf < 0.85 * uniform, "{zipf} {uniform}");
    }

    fn above_a_disk() -> Demand {
        let disk = Disk { bytes: 4e12, reads_per_s: 200.0, bytes_per_s: 150e6 };
        let popularity = Popularity::zipf(2_000_000_000, 0.99).unwrap();
        let flash = Flash { bytes: 100e9, erase_cycles: 3_000.0 };
        let load = Demand { gets_per_s: 500.0, puts_per_s: 500.0, ram_bytes: 16e9, ..demand() };
        Demand { popularity, disk: Some(disk), flash, ..load }
    }

    #[test]
    fn flashstore_is_recommended_for_data_that_does_not_fit_on_flash_above_a_disk() {
        let demand = above_a_disk();
        let plans = plan(&demand).unwrap();
        let best = &plans[0];
        assert_eq!((best.system, best.is_recommended()), (System::FLASHSTORE, true), "{plans:#?}");
        let prediction = &best.prediction;
        assert!(
            prediction.flash_bytes <= 100e9 && prediction.disk_bytes >= demand.data_bytes(),
            "{prediction:?}"
        );
        assert!(prediction.disk_gets < 0.4 && prediction.disk_busy < 1.0, "{prediction:?}");
        assert!((1.0..2.0).contains(&prediction.write_amplification), "{prediction:?}");
        let call = best.builder_call();
        assert!(call.contains(".engine(FlashStoreSettings::default().flash_bytes("), "{call}");
        assert!(call.contains(").disk(Disk::at(disk_path))"), "{call}");
        assert!(best.flags().contains(" --set disk=disk"), "{best:?}");
        for other in plans.iter().skip(1) {
            assert!(!other.is_recommended(), "{other:?}");
        }
        // Without the disk, nothing fits.
        let without = plan(&Demand { disk: None, ..demand }).unwrap();
        assert!(without.iter().all(|plan| plan.system != System::FLASHSTORE && !plan.is_recommended()));
    }

    #[test]
    fn the_filter_of_the_disk_is_as_large_as_missing_gets_and_memory_want_it() {
        let best = |missing_gets, ram_bytes| {
            let demand = Demand { missing_gets, ram_bytes, ..above_a_disk() };
            let best = plan(&demand).unwrap().swap_remove(0);
            assert_eq!((best.system, best.is_recommended()), (System::FLASHSTORE, true), "{best:#?}");
            best
        };
        // 2.5 GB of filter do not fit.
        let none = best(0.0, 3.5e9);
        assert!(none.builder_call().ends_with(".set(\"disk.filter_last_store\", 0).open()?"), "{none:?}");
        assert!(none.flags().ends_with(" --set disk.filter_last_store=0"), "{none:?}");
        // Without it, the disk would be read for each missing key.
        let all = best(0.5, 16e9);
        assert!(!all.flags().contains("disk.filter_last_store=0"), "{all:?}");
    }

    #[test]
    fn what_a_disk_cannot_hold_or_serve_is_not_recommended() {
        let demand = above_a_disk();
        let unfit = |disk: Disk| {
            let plans = plan(&Demand { disk: Some(disk), ..demand.clone() }).unwrap();
            plans.into_iter().find(|plan| plan.system == System::FLASHSTORE).unwrap().unfit
        };
        let disk = demand.disk.unwrap();
        assert_eq!(unfit(Disk { bytes: 100e9, ..disk }), [Unfit::Exceeds(Bound::DiskSpace)]);
        assert_eq!(unfit(Disk { reads_per_s: 20.0, ..disk }), [Unfit::Exceeds(Bound::DiskTime)]);
    }

    #[test]
    fn data_that_fits_on_flash_stays_there_although_there_is_a_disk() {
        let best = |disk| plan(&Demand { disk, ..demand() }).unwrap().swap_remove(0);
        let (without, with) = (best(None), best(above_a_disk().disk));
        assert_eq!((without.system, without.settings), (with.system, with.settings));
    }

    #[test]
    fn loads_that_mostly_miss_get_a_filter_on_the_last_store_if_there_is_memory() {
        let silt = |missing_gets, ram_bytes| {
            let demand = Demand { missing_gets, ram_bytes, gets_per_s: 50_000.0, ..demand() };
            plan(&demand).unwrap().into_iter().find(|plan| plan.system == System::SILT).unwrap()
        };
        let has_filter = |plan: &Plan| !plan.settings.contains(&("filter_last_store", Value::Chosen(0)));
        assert!(!has_filter(&silt(0.0, 1e9)) && !has_filter(&silt(0.9, 40e6)));
        let filtered = silt(0.9, 1e9);
        assert!(has_filter(&filtered) && filtered.prediction.reads_per_miss < 0.1, "{filtered:?}");
        assert!(filtered.flags().contains("--set filter_last_store="));
        assert!(filtered.builder_call().contains(".filter_last_store(Some("));
    }

    #[test]
    fn settings_are_written_as_the_builder_takes_them() {
        let plan = plan(&demand()).unwrap().into_iter().find(|plan| plan.system == System::SILT).unwrap();
        let settings = vec![("partitions", Value::Count(16)), ("merge_ratio", Value::Ratio(1.0))];
        let plan = Plan { settings, ..plan };
        let call = "Database::builder(path).engine(SiltSettings::default().merge_ratio(1.000)).partitions(16).open()?";
        assert_eq!(plan.builder_call(), call);
        assert_eq!(plan.flags(), "--engine silt --partitions 16 --set merge_ratio=1.000");
    }

    #[test]
    fn the_trade_off_falls_with_memory() {
        for curve in trade_off(&demand()).unwrap() {
            assert!(!curve.points.is_empty());
            assert!(curve.points.is_sorted_by(|a, b| {
                a.ram_bytes < b.ram_bytes && a.write_amplification > b.write_amplification
            }));
        }
    }

    #[test]
    fn a_load_without_puts_wears_nothing_out() {
        let plans = plan(&Demand { puts_per_s: 0.0, ..demand() }).unwrap();
        assert!(plans.iter().all(|plan| plan.prediction.lifetime_s.is_infinite()));
        assert!(plan(&Demand { puts_per_s: f64::NAN, ..demand() }).is_err());
    }
}

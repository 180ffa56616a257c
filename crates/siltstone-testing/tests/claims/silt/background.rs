//! The order of background work.

use super::simulated::{self, Expected};
use super::{key, open};
use siltstone::Durability;
use siltstone::engine::silt::SiltSettings;
use siltstone_device::memory::MemoryDirectory;
use siltstone_testing::{Faults, SimulatedDirectory};

/// Simulation seed 33739: a merge that was running when a compaction was requested cleared the request.
#[test]
fn a_compaction_also_merges_records_that_came_too_late_for_the_running_merge() {
    let settings = SiltSettings::default().merge_ratio(0.1).step_records(5);
    for count in 100..300u64 {
        let setup = |builder: siltstone::Builder| {
            builder.partitions(1).engine(settings.clone()).set("log_slots_min", 16)
        };
        let (database, _) = open(&MemoryDirectory::default(), setup);
        for number in 0..count {
            database.put(key(number), "value").unwrap();
            database.step().unwrap();
        }
        database.compact().unwrap();
        let stats = database.stats();
        assert_eq!((stats.records, stats.merged_records), (count, count));
    }
}

/// Simulation seed 9219: a commit that had failed and was written nevertheless was taken for damage.
#[test]
fn a_failed_commit_that_may_be_written_is_no_damage() {
    let mut failures = 0;
    for seed in 0..300 {
        let device = SimulatedDirectory::new(seed);
        let database = simulated::open(&device).unwrap();
        Expected::default().put(&database, 0..60, Durability::Written);
        device.set_faults(Faults { write_error: 0.1, sync_error: 0.05, ..Faults::default() });
        failures += u32::from(database.compact().is_err());
        device.set_faults(Faults::default());
        if device.failed_syncs() == 0 {
            let report = database.verify().unwrap();
            assert!(report.damage.is_empty(), "seed {seed}: {:?}", report.damage);
        }
    }
    assert!(failures > 100, "{failures}");
}

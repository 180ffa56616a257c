use super::*;
use crate::engine::jobs::step_furthest_behind;
use crate::engine::silt::partition_settings::filter_bits;
use crate::key::KeyHash;
use crate::store::FilterKind;

fn counts(hash_records: &[u64], sorted_records: u64) -> Counts {
    let partition = |&hash_records| PartitionCounts { hash_records, sorted_records, ..Default::default() };
    let partitions = hash_records.iter().map(partition).collect();
    Counts { partitions, ..Counts::default() }
}

fn settings() -> PartitionSettings {
    PartitionSettings { log_slots_min: 16, ..PartitionSettings::for_tests() }
}

/// Makes a merge of a partition, without its LogStores, have passed this many records.
fn pass(counts: &mut Counts, partition: usize, passed_records: u64) {
    counts.partitions[partition].work.merge = Some(Merging { with_frozen: false, passed_records });
}

fn chain() -> ChainSettings {
    ChainSettings {
        chain_length: 8,
        buffered_filters: 2,
        filter_bits: 20,
        old_filter_bits: 10,
        prefilter_bits: 0,
        space: 1.25,
        expected_keys: 1,
    }
}

#[test]
fn a_partition_with_a_full_chain_is_merged_and_its_files_are_counted() {
    let settings = PartitionSettings { chain: Some(chain()), ..settings() };
    let of_runs = |hash_stores| PartitionCounts { hash_stores, hash_records: 100, ..Default::default() };
    let counts = |runs: [usize; 2]| Counts { partitions: runs.map(of_runs).to_vec(), ..Counts::default() };
    assert_eq!(counts([8, 3]).choose_merge(&settings), None);
    assert_eq!(counts([8, 9]).choose_merge(&settings), Some(1));
    // Two partitions of 16 runs, a chain and an old run each, and the log.
    let files = |threads| {
        let common = CommonSettings { partitions: Some(2), threads, ..CommonSettings::default() };
        open_files(&settings, &common, 1_000_000, 64)
    };
    assert!(files(2) >= 2 * (16 + 1 + 1));
    assert_eq!([0, 1, 2, 3, 4, 200].map(|threads| files(threads) - files(2)), [0, 0, 0, 3, 6, 21]);
}

#[test]
fn a_partition_is_merged_before_it_has_more_hash_stores_than_the_memory_budget_can_merge() {
    let settings = settings();
    let of_stores = |hash_stores| PartitionCounts {
        hash_stores,
        hash_records: 100,
        sorted_records: 1 << 30,
        ..Default::default()
    };
    let counts = |stores: [usize; 2], hash_stores_max| Counts {
        partitions: stores.map(of_stores).to_vec(),
        hash_stores_max,
        ..Counts::default()
    };
    let choose = |stores, most| counts(stores, most).choose_merge(&settings);
    assert_eq!(choose([3, 40], None), None);
    assert_eq!((choose([3, 29], Some(40)), choose([3, 30], Some(40))), (None, Some(1)));
    let pressure = |stores| counts(stores, Some(40)).pressure(&settings).merge;
    assert_eq!((pressure([3, 30]), pressure([40, 3])), (0.0, 1.0));
    assert_eq!(counts([3, 40], Some(40)).slack(&settings), 0.0);
}

#[test]
fn the_open_files_are_those_of_the_bound_of_the_log_and_of_the_jobs() {
    let settings = PartitionSettings { log_segment_bytes: 1 << 20, ..settings() };
    let common =
        |partitions| CommonSettings { partitions: Some(partitions), threads: 2, ..CommonSettings::default() };
    // A million keys per partition: LogStores of 10,000 slots, and HashStores of 9,300 records, of 0.3 · 5/8 of the
    // keys and 10 % more. The log has two generations of LogStores in segments, and a first and a last one.
    let (hash_stores, segments) = (89, 2 * 4 * 10_000 * 64 / (1 << 20) + 2);
    assert_eq!(open_files(&settings, &common(4), 4_000_000, 64), 4 + hash_stores + segments + 9);
    // As many keys in a fourth of the partitions: LogStores are four times as large.
    let hash_stores = 36;
    assert_eq!(open_files(&settings, &common(1), 4_000_000, 64), 1 + hash_stores + segments + 9);
    // Large records reach over more than a tenth of the data, to which a generation is limited.
    let few = PartitionSettings { keys_per_log_slot: 5, log_bytes_max: 1 << 20, ..settings };
    let segments = 2 * (1_000_000 * 1_000 / 10) / (1 << 20) + 2;
    let hash_stores = 2;
    assert_eq!(open_files(&few, &common(1), 1_000_000, 1_000), 1 + hash_stores + segments + 9);
}

#[test]
fn transfers_of_merges_grow_with_the_keys_within_their_limits() {
    let settings = PartitionSettings { piece_bytes_max: 1 << 20, ..settings() };
    let of = |keys, record_bytes, access| piece_bytes(&settings, keys, record_bytes, access);
    let buffered = [0, 1 << 24, (1 << 26) + 2048, u64::MAX].map(|keys| of(keys, 64, Access::Buffered));
    assert_eq!(buffered, [8 << 10, 8 << 10, 64 << 10, 1 << 20]);
    let direct = [1, 64, 256, 1_000, 1 << 40].map(|record_bytes| of(0, record_bytes, Access::Direct));
    assert_eq!(direct, [64 << 10, 64 << 10, 128 << 10, 512 << 10, 512 << 10]);
    let least = PartitionSettings { piece_bytes_max: 1, ..settings.clone() };
    assert_eq!(piece_bytes(&least, u64::MAX, 64, Access::Direct), PIECE_BYTES_MIN);
}

#[test]
fn without_space_a_partition_is_merged_for_a_fourth_of_young_records_and_writers_wait_for_a_half() {
    let short = |hash_records: &[u64]| Counts { is_short: true, ..counts(hash_records, 1000) };
    let chosen =
        |counts: &Counts| (counts.choose_merge(&settings()), counts.pressure(&settings()).merge >= 1.0);
    assert_eq!(chosen(&short(&[0, 250, 0, 0])), (None, false));
    assert_eq!(chosen(&short(&[0, 251, 0, 0])), (Some(1), false));
    assert_eq!(chosen(&short(&[0, 251, 500, 0])), (Some(2), false));
    assert_eq!(chosen(&short(&[0, 251, 501, 0])), (Some(2), true));
    assert_eq!(chosen(&counts(&[0, 251, 501, 0], 1000)), (None, false), "there is space");
    // LogStores alone are no reason: a merge would not free the log.
    let mut only_frozen = short(&[0; 4]);
    only_frozen.partitions[0].frozen_records = 600;
    assert_eq!(chosen(&only_frozen), (None, false));
    only_frozen.partitions[0].hash_records = 1;
    assert_eq!(chosen(&only_frozen).0, Some(0));
}

#[test]
fn runs_are_merged_for_their_garbage_and_for_their_number_before_writers_wait() {
    let of = |expected_keys| PartitionSettings {
        chain: Some(ChainSettings { expected_keys, ..chain() }),
        ..settings()
    };
    let counts = |hash_stores, hash_records, new_key_ratio| {
        let partition =
            PartitionCounts { hash_stores, hash_records, sorted_records: 1000, ..Default::default() };
        Counts { partitions: vec![partition; 2], new_key_ratio, ..Counts::default() }
    };
    // Of the young records half are of new keys: 1,000 and n are more than 1.25 · (1,000 + n/2) from 667 on.
    let chosen = |counts: Counts| counts.choose_merge(&of(1)).is_some();
    assert!(!chosen(counts(2, 666, 0.5)) && chosen(counts(2, 667, 0.5)));
    assert!(!chosen(counts(1, 667, 0.5)), "a single run has no garbage");
    // Without an expected number of keys, the fullest is merged when there are half of all runs that may be.
    let chosen = |runs: [usize; 2]| {
        let mut counts = counts(0, 10, 1.0);
        counts.partitions.iter_mut().zip(runs).for_each(|(partition, runs)| partition.hash_stores = runs);
        counts.partitions[1].hash_records = 11;
        (counts.choose_merge(&of(0)), counts.choose_merge(&of(1)))
    };
    assert_eq!((chosen([4, 4]), chosen([4, 5])), ((None, None), (Some(1), None)));
    // Writers wait for eight runs more than a chain has; until then merges are ahead.
    let behind = |runs| {
        let counts = counts(runs, 10, 1.0);
        (counts.pressure(&of(1)).merge, counts.slack(&of(1)))
    };
    assert_eq!([8, 12, 16, 17].map(behind), [(0.0, 16.0), (0.5, 8.0), (1.0, 0.0), (1.125, 0.0)]);
}

#[test]
fn a_damaged_chain_is_written_first_and_others_when_they_have_enough_runs() {
    let mut counts = counts(&[0; 4], 0);
    for (partition, unchained) in counts.partitions.iter_mut().zip([1, 2, 3, 0]) {
        partition.unchained = unchained;
    }
    assert_eq!(counts.choose_chain(&chain()), Some(2));
    assert_eq!(counts.choose_chain(&ChainSettings { buffered_filters: 4, ..chain() }), None);
    assert_eq!(counts.choose_chain(&ChainSettings { buffered_filters: 0, ..chain() }), Some(2));
    counts.partitions[3].chain_is_damaged = true;
    assert_eq!(counts.choose_chain(&chain()), Some(3));
    counts.partitions[3].compact = true;
    counts.partitions[2].work.merge = Some(Merging::default());
    assert_eq!(counts.choose_chain(&chain()), Some(1));
}

#[test]
fn the_fullest_partition_is_merged_once_the_bound_is_reached() {
    // d·P = 0.3 · 4000 = 1200, so the bound is 1200 · 5 / 8 = 750, and an eighth of a LogStore per partition, 7.
    assert_eq!(counts(&[100, 307, 200, 150], 1000).choose_merge(&settings()), None);
    assert_eq!(counts(&[100, 308, 200, 150], 1000).choose_merge(&settings()), Some(1));
}

/// Before the first merge all records are taken to be new keys.
#[test]
fn a_store_that_was_never_merged_is_merged_under_every_ratio() {
    for partitions in [1, 4, 16] {
        for merge_ratio in [0.3, 1.0, 2.0, 10.0] {
            let settings = PartitionSettings { merge_ratio, ..settings() };
            let counts = Counts { new_key_ratio: 1.0, ..counts(&vec![100_000; partitions], 0) };
            assert!(counts.choose_merge(&settings).is_some(), "{partitions} partitions, {merge_ratio}");
        }
    }
}

#[test]
fn steady_overwriting_merges_as_often_as_the_paper_has_it() {
    let (partitions, keys) = (16, 1_000_000u64);
    let mut counts = counts(&vec![0; partitions], keys / partitions as u64);
    let (mut written, mut merged) = (0u64, 0u64);
    for step in 0..40_000usize {
        let partition = (step * 7919) % partitions;
        counts.partitions[partition].hash_records += 500;
        written += 500;
        if let Some(fullest) = counts.choose_merge(&settings()) {
            counts.partitions[fullest].hash_records = 0;
            merged += counts.partitions[fullest].sorted_records;
        }
    }
    let measured = merged as f64 / written as f64;
    assert!((measured - 1.0 / 0.3).abs() < 0.1, "N/(d·P) is {measured}");
}

#[test]
fn as_many_hash_stores_are_kept_as_the_ratio_takes_and_small_ones_are_merged() {
    let settings = PartitionSettings { merge_ratio: 1.0, ..PartitionSettings::for_tests() };
    let keys = 6_250_000;
    let chosen = |hash_stores: u64, records_each: u64| {
        let mut counts = counts(&[0, 0], keys);
        counts.partitions[1].hash_stores = hash_stores as usize;
        counts.partitions[1].hash_records = hash_stores * records_each;
        counts.choose_merge(&settings)
    };
    let full = keys / u64::from(settings.keys_per_log_slot);
    assert_eq!(chosen(99, full), None);
    assert_eq!(chosen(49, full / 17), Some(1));
    assert_eq!(chosen(48, full / 17), None);
}

#[test]
fn fewer_hash_stores_have_shorter_filters_and_as_many_false_positives_together() {
    let bits = [0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 60.0].map(|hash_stores| filter_bits(11, hash_stores));
    assert_eq!(bits, [7, 7, 8, 9, 10, 11, 11]);
    assert_eq!(filter_bits(2, 1.0), 1);
    let settings = PartitionSettings::for_tests();
    for (keys, least, most) in [(1_000_000, 3.0, 5.0), (10_000_000, 15.0, 20.0)] {
        let mut counts = counts(&[0; 16], keys / 16);
        let hash_stores = counts.hash_stores_mean(&settings);
        assert!((least..most).contains(&hash_stores), "{keys} keys: {hash_stores}");
        let in_vain = hash_stores / f64::from(filter_bits(11, hash_stores)).exp2();
        assert!((0.005..0.0115).contains(&in_vain), "{keys} keys: {in_vain}");
        // LogStores may be smaller than expected.
        counts.partitions.iter_mut().for_each(|partition| partition.hash_stores = 100);
        assert_eq!(counts.hash_stores_mean(&settings), 50.0);
    }
}

#[test]
fn a_log_store_reaches_over_a_share_of_the_data_and_not_over_much_more_than_it_needs() {
    let settings = PartitionSettings::for_tests();
    let of = |data_bytes, full_bytes| log_reach_bytes(&settings, data_bytes, full_bytes);
    assert_eq!([1 << 30, 100 << 30].map(|data_bytes| of(data_bytes, 0)), [512 << 20, 10 << 30]);
    // Of little data half as much again as full LogStores need, and a mebibyte in any case.
    assert_eq!(
        [0, 1 << 20, 2 << 20, 1 << 40].map(|full| of(0, full)),
        [1 << 20, 3 << 19, 3 << 20, 512 << 20]
    );
    assert_eq!(of(5 << 20, 2 << 20), 5 << 20);
}

#[test]
fn pressure_rises_with_what_waits() {
    let mut counts = counts(&[300, 300, 100, 50], 1000);
    assert_eq!(counts.pressure(&settings()), Pressure { convert: 0.0, merge: 0.0 });
    counts.partitions[0].frozen = 3;
    counts.partitions[1].hash_records = 600;
    let pressure = counts.pressure(&settings());
    assert!(pressure.convert >= 1.0 && pressure.merge > 1.0);
}

#[test]
fn writers_are_delayed_by_what_is_left_of_a_conversion_before_they_wait_for_it() {
    let mut counts = counts(&[0; 4], 1000);
    counts.partitions[0].frozen = 3;
    let mut pressure = |converted| {
        counts.partitions[0].work.converted = converted;
        counts.pressure(&settings()).convert
    };
    assert_eq!([0.0, 0.25, 0.5, 1.0].map(&mut pressure), [1.0, 0.875, 0.75, 0.5]);
    counts.partitions[0].frozen = 0;
    assert_eq!(counts.pressure(&settings()).convert, 0.0);
    // Neither the LogStores nor the conversion of a partition that is compacted delay writers.
    counts.partitions[0].compact = true;
    counts.partitions[1].frozen = 3;
    assert_eq!(counts.pressure(&settings()).convert, 1.0);
}

#[test]
fn indexes_are_read_back_before_other_work_unless_that_is_behind() {
    let order = |frozen, hash_records| {
        let mut counts = counts(&[hash_records, 300, 100, 50], 1000);
        counts.partitions[0].frozen = frozen;
        let mut tried = Vec::new();
        let tries = |job| {
            tried.push(job);
            Ok(false)
        };
        assert!(!step_furthest_behind(counts.due(&settings()), tries).unwrap());
        tried
    };
    assert_eq!(order(1, 300), [Job::Load, Job::Convert, Job::Merge]);
    assert_eq!(order(2, 300), [Job::Convert, Job::Load, Job::Merge]);
    assert_eq!(order(2, 900), [Job::Merge, Job::Convert, Job::Load]);
}

#[test]
fn writers_as_slow_as_the_merge_are_not_delayed() {
    let mut counts = counts(&[300, 300, 205, 50], 1000);
    assert!(counts.pressure(&settings()).merge >= 1.0);
    pass(&mut counts, 0, 100);
    assert_eq!(counts.pressure(&settings()).merge, 0.0);
}

#[test]
fn a_merge_is_ahead_by_the_records_it_has_passed_unless_other_work_waits() {
    let mut counts = counts(&[300, 300, 100, 100], 1000);
    assert_eq!(counts.slack(&settings()), 0.0);
    pass(&mut counts, 0, 150);
    pass(&mut counts, 1, 50);
    let log_store = 16.0 * OCCUPANCY;
    let bound = 750.0 + LOG_STORES_ADDED * 4.0 * log_store;
    assert_eq!(counts.slack(&settings()), (bound - 600.0) / log_store);
    counts.partitions[2].frozen = 1;
    assert_eq!(counts.slack(&settings()), 0.0);
}

#[test]
fn a_log_store_grows_with_its_partition() {
    let settings =
        PartitionSettings { log_slots_min: 8192, keys_per_log_slot: 40, ..PartitionSettings::for_tests() };
    let shape = |settings: &PartitionSettings, keys| {
        let LogStoreSettings { table, tables, .. } = log_store_settings(settings, 0, keys, 1 << 24, 32);
        (tables, table.regions, table.buckets_per_region_log2)
    };
    let tags = PartitionSettings { filter: FilterKind::CuckooTags, ..settings.clone() };
    assert_eq!(shape(&tags, 0), (1, 4, 9));
    assert_eq!(shape(&settings, 0), (4, 4, 7));
    assert_eq!(shape(&tags, 40 * 100_000), (1, 3, 13));
    assert_eq!(shape(&settings, 40 * 100_000), (4, 3, 11));
    let small = PartitionSettings { log_slots_min: 64, ..settings.clone() };
    assert_eq!(shape(&small, 0), (1, 1, 4), "few slots are one table");
    let bounded = |slots_max| {
        let settings = log_store_settings(&settings, 0, 40 * 100_000, slots_max, 32);
        (settings.tables, settings.slots())
    };
    assert_eq!((bounded(20_000), bounded(100)), ((4, 16_384), (1, 64)));
}

#[test]
fn log_stores_of_large_records_have_up_to_twice_the_slots() {
    let settings = PartitionSettings::for_tests();
    let slots = |record_bytes| log_store_settings(&settings, record_bytes, 0, 1 << 24, 32).slots();
    assert_eq!([0, 64, 512, 768, 1024, 1 << 20].map(slots), [3072, 3072, 3072, 4096, 6144, 6144]);
    let bound = |record_bytes| Counts { record_bytes, ..counts(&[0; 4], 0) }.hash_records_max(&settings);
    assert_eq!(bound(1 << 20), 2.0 * bound(64));
}

#[test]
fn partitions_that_are_merged_are_not_chosen_again_and_others_need_their_share_of_the_bound() {
    // The bound is 757, and a fourth of it 189.
    let mut counts = counts(&[400, 300, 190, 180], 1000);
    let mut chosen = Vec::new();
    while let Some(number) = counts.choose_merge(&settings()) {
        chosen.push(number);
        pass(&mut counts, number, 0);
    }
    assert_eq!(chosen, [0, 1, 2]);
    assert_eq!(counts.merges().collect::<Vec<_>>(), [0, 1, 2]);
    // The merges have passed what exceeds the bound.
    let mut counts = Counts { partitions: counts.partitions, ..Counts::default() };
    counts.partitions[2].work = Work::default();
    pass(&mut counts, 0, 320);
    assert_eq!(counts.choose_merge(&settings()), None);
}

#[test]
fn a_compaction_merges_all_partitions_at_once_and_nothing_else_does_before_writers_are_delayed() {
    let of = counts;
    let mut counts = of(&[0; 4], 1000);
    assert_eq!(counts.urgent(&settings()), Urgent::default());
    counts.partitions.iter_mut().for_each(|partition| partition.compact = true);
    for _ in 0..4 {
        assert_eq!(counts.urgent(&settings()), Urgent { convert: false, merge: true });
        let number = counts.choose_merge(&settings()).unwrap();
        pass(&mut counts, number, 0);
    }
    assert_eq!(counts.choose_merge(&settings()), None);
    assert_eq!(counts.urgent(&settings()), Urgent::default());
    // The bound is 757: it is exceeded by 5 and by 7 %, of the 10 % at which writers wait.
    let urgent = |hash_records| of(&[hash_records, 0, 0, 0], 1000).urgent(&settings()).merge;
    assert_eq!([795, 810].map(urgent), [false, true]);
}

#[test]
fn a_partition_is_converted_once_at_a_time_and_the_oldest_log_store_is_the_first() {
    let mut counts = counts(&[0; 4], 1000);
    for (partition, start) in counts.partitions.iter_mut().zip([70, 50, 60, 40]) {
        (partition.frozen, partition.oldest_frozen) = (2, Some(start));
    }
    counts.partitions[3].compact = true;
    let merging = |with_frozen| Some(Merging { with_frozen, passed_records: 0 });
    counts.partitions[0].work.merge = merging(false);
    counts.partitions[2].work.merge = merging(true);
    assert_eq!(counts.choose_conversion(), Some(1));
    counts.partitions[1].work.converts = true;
    assert_eq!(counts.choose_conversion(), Some(0));
    counts.partitions[0].work.converts = true;
    assert_eq!((counts.choose_conversion(), counts.conversions()), (None, 2));
}

#[test]
fn a_further_log_store_is_converted_before_writers_wait_for_it() {
    let urgent = |partitions: usize, frozen| {
        let mut counts = counts(&vec![0; partitions], 1000);
        counts.partitions[0].frozen = frozen;
        (counts.urgent(&settings()).convert, counts.pressure(&settings()).convert >= 1.0)
    };
    assert_eq!([1, 2, 3].map(|frozen| urgent(16, frozen)), [(false, false), (true, false), (true, true)]);
    assert_eq!([4, 5, 9].map(|frozen| urgent(64, frozen)), [(false, false), (true, false), (true, true)]);
}

/// Each merge freezes the LogStore of its partition, and with it one that is merged and not converted.
#[test]
fn writers_do_not_wait_for_log_stores_because_several_partitions_are_merged() {
    let mut counts = counts(&[0; 4], 1000);
    for partition in &mut counts.partitions {
        partition.frozen = 1;
        partition.work.merge = Some(Merging { with_frozen: true, passed_records: 0 });
    }
    assert_eq!(counts.pressure(&settings()).convert, 0.0);
    counts.partitions[0].frozen = 3;
    assert_eq!(counts.pressure(&settings()).convert, 1.0);
}

#[test]
fn jobs_that_need_the_columns_of_a_partition_keep_it_from_a_merge_and_a_merge_keeps_it_from_them() {
    let settings = PartitionSettings { chain: Some(chain()), ..settings() };
    let of_runs = |hash_stores| PartitionCounts {
        hash_stores,
        unchained: hash_stores,
        hash_records: 100,
        ..Default::default()
    };
    let mut counts = Counts { partitions: [10, 9, 3].map(of_runs).to_vec(), ..Counts::default() };
    assert_eq!(counts.choose_merge(&settings), Some(1));
    for work in [Work { converts: true, ..Work::default() }, Work { chains: true, ..Work::default() }] {
        counts.partitions[1].work = work;
        assert_eq!(counts.choose_merge(&settings), Some(0));
    }
    counts.partitions[1].work = Work::default();
    pass(&mut counts, 0, 0);
    assert_eq!(counts.choose_merge(&settings), Some(1));
    assert_eq!(counts.choose_chain(&chain()), Some(1));
    pass(&mut counts, 1, 0);
    assert_eq!((counts.choose_merge(&settings), counts.choose_chain(&chain())), (None, Some(2)));
}

#[test]
fn a_partition_has_a_job_whichever_of_the_three_it_is() {
    let merge = Some(Merging::default());
    let works = [
        Work { converts: true, ..Work::default() },
        Work { chains: true, ..Work::default() },
        Work { merge, ..Work::default() },
    ];
    assert!(works.iter().all(Work::is_any) && !Work::default().is_any());
}

#[test]
fn young_records_count_as_keys_by_the_share_that_is_new_also_in_the_bound() {
    let of = |merge_ratio, sorted_records| {
        let settings = PartitionSettings { merge_ratio, ..settings() };
        let counts = Counts { new_key_ratio: 0.25, ..counts(&[400, 1600], sorted_records) };
        (counts.keys(), counts.hash_records_max(&settings))
    };
    // Of 2,000 merged keys and 500 new ones 0.3 · 3/4, and an eighth of the 14.88 records of each LogStore.
    let (keys, bound) = of(0.3, 1000);
    assert!(keys == 2500.0 && (bound - (0.225 * 2500.0 + 3.72)).abs() < 0.001, "{keys} and {bound}");
    // With a high ratio, three fourths of the new keys at most.
    let (_, bound) = of(4.0, 1000);
    assert!((bound - (3.0 * 2000.0 + 0.75 * 500.0 + 3.72)).abs() < 0.001, "{bound}");
    // Half of a LogStore for each partition, however few keys there are.
    let empty = counts(&[0; 2], 0).hash_records_max(&settings());
    assert!((empty - 14.88).abs() < 0.001, "{empty}");
}

#[test]
fn a_partition_is_merged_when_its_records_exceed_the_bound_and_not_when_they_reach_it() {
    let settings = PartitionSettings { merge_ratio: 0.5, log_slots_min: 0, ..settings() };
    let chosen = |hash_records| counts(&[hash_records], 1000).choose_merge(&settings);
    assert_eq!([500, 501].map(chosen), [None, Some(0)]);
}

#[test]
fn a_partition_is_splintered_if_its_many_hash_stores_are_small_for_all_its_records() {
    let settings = PartitionSettings { keys_per_log_slot: 5, ..settings() };
    let is_splintered = |hash_stores, hash_records, sorted_records| {
        PartitionCounts { hash_stores, hash_records, sorted_records, ..Default::default() }
            .is_splintered(&settings, 0)
    };
    // A regular LogStore has 16 slots at least: a record for each HashStore is enough.
    assert_eq!([48, 49].map(|records| is_splintered(49, records, 0)), [true, false]);
    assert!(!is_splintered(48, 47, 0), "as many as may be");
    // It has a slot for every fifth record of the partition, merged or not.
    assert!(is_splintered(49, 1000, 1000) && !is_splintered(49, 1000, 100));
}

#[test]
fn a_further_merge_of_chains_needs_its_share_of_the_runs_that_all_may_have() {
    let settings =
        PartitionSettings { chain: Some(ChainSettings { expected_keys: 0, ..chain() }), ..settings() };
    let of_runs = |hash_stores| PartitionCounts {
        hash_stores,
        hash_records: 100 * hash_stores as u64,
        ..Default::default()
    };
    // Three partitions with chains of 8 may have 12 runs, each 4 of them.
    let mut counts = Counts { partitions: [10, 4, 3].map(of_runs).to_vec(), ..Counts::default() };
    let mut chosen = Vec::new();
    while let Some(number) = counts.choose_merge(&settings) {
        chosen.push(number);
        pass(&mut counts, number, 0);
    }
    assert_eq!(chosen, [0, 1]);
}

#[test]
fn runs_have_garbage_if_they_exceed_the_space_of_their_keys() {
    let partition = |sorted_records, hash_stores, hash_records| PartitionCounts {
        sorted_records,
        hash_stores,
        hash_records,
        ..Default::default()
    };
    // Of overwrites alone, half as many as the keys fit.
    let chosen = [500, 501].map(|young| partition(1000, 2, young).has_garbage(0.0, 1.5));
    assert_eq!(chosen, [false, true]);
    assert!(!partition(0, 2, 501).has_garbage(0.0, 1.5), "nothing was merged before");
}

#[test]
fn a_log_store_has_several_tables_from_1024_slots_on_each_of_whole_regions() {
    let of = |log_slots_min, region_slots_max| {
        let settings =
            PartitionSettings { log_slots_min, region_slots_max, ..PartitionSettings::for_tests() };
        let LogStoreSettings { table, tables, .. } = log_store_settings(&settings, 0, 0, 1 << 24, 32);
        (tables, table.regions, 4 << table.buckets_per_region_log2)
    };
    assert_eq!([1023, 1024].map(|slots| of(slots, 1024).0), [1, LOG_TABLES_MAX]);
    // A region is a table, but not larger than its maximum or a fourth of its slots.
    assert_eq!(of(512, 1024), (1, 1, 512));
    assert_eq!(of(512, 256), (1, 2, 256));
    assert_eq!(of(1000, 64), (1, 4, 256));
    // The tables share the maximum, and their slots are rounded to whole regions.
    assert_eq!(of(1600, 1024), (4, 2, 256));
    assert_eq!(of(1400, 1024), (4, 1, 256));
}

/// Returns a LogStore of the log from 1,000 on.
fn log_store(records: u32) -> LogStore {
    let table = CuckooSettings { regions: 1, buckets_per_region_log2: 6, tag_bits: 15 };
    let mut store = LogStore::new(LogStoreSettings { table, tables: 1, position_bits: 20 }, 1_000).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for position in 0..u64::from(records) {
        let hash = KeyHash { placement: random.u64(..), fingerprint: random.u64(..) };
        assert!(store.insert(hash, 1_000 + position).unwrap());
    }
    store
}

#[test]
fn a_log_store_spans_twice_the_log_that_the_records_of_the_last_one_need() {
    // With 100 bytes of log for each record, 1,000 slots need 100,000 bytes: 2^18 have space for twice as much.
    let end = 1_000 + 64 * 100;
    let last = log_store(64);
    assert_eq!(log_bytes_per_record(&last, end), Some(100.0));
    assert_eq!([1, 1_000, 2_000, u32::MAX].map(|slots| position_bits(&last, end, slots)), [16, 18, 19, 32]);
    // A few records say nothing of the others.
    let few = log_store(63);
    assert_eq!((log_bytes_per_record(&few, end), position_bits(&few, end, 1_000)), (None, 20));
}

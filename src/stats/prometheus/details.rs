//! The metrics of what only an engine counts: [`Stats::details`](crate::Stats::details).

/// The metric of the values that are not in [`DETAILS`].
pub const OTHER: &str = "engine_value";

/// A value of an engine as a sample of a metric.
pub struct Detail {
    /// The name of the value in the statistics.
    pub name: &'static str,
    /// The name of the metric. If it ends with `_total`, the value is a count since the database was opened.
    pub metric: &'static str,
    /// A further label, and its value, if several values belong to the metric.
    pub label: Option<(&'static str, &'static str)>,
    /// The meaning of the metric.
    pub help: &'static str,
}

const fn one(name: &'static str, metric: &'static str, help: &'static str) -> Detail {
    Detail { name, metric, label: None, help }
}

const fn of(
    name: &'static str,
    metric: &'static str,
    label: (&'static str, &'static str),
    help: &'static str,
) -> Detail {
    Detail { name, metric, label: Some(label), help }
}

const PARTITIONS: &str = "Parts of the database that are written and merged independently";
const RECORDS: &str = "Records by kind of store, with older versions that are not merged yet";
const STORES: &str = "Stores whose records are not merged yet, by kind";
const JOBS: &str = "Jobs in the background that have ended, by kind";
const FURTHER: &str = "Jobs that began while another of their kind was in progress, by kind";
const ON_FLASH: &str = "Indexes and filters that are on flash although they could be in memory";
const CACHE: &str = "Lookups in the cache of records by outcome";
const FLASH: &str = "Lookups of a cache or a tier on flash by outcome";
const MOVED: &str = "Records of a cache or a tier on flash: promoted to flash, left flash, rejected when put";
const LOG: &str = "Bytes of the logs of data: all, and those of live records";
const VALUES: &str = "Bytes of the values that were put, before and after compression";
const TIER_OPERATIONS: &str = "Operations on the device of the lower tier";
const TIER_BYTES: &str = "Bytes read from and written to the device of the lower tier";

/// All values of the engines of this crate. Those of a metric follow each other.
pub const DETAILS: &[Detail] = &[
    one("partitions", "partitions", PARTITIONS),
    of("log_records", "store_records", ("store", "log"), RECORDS),
    of("hash_records", "store_records", ("store", "hash"), RECORDS),
    of("sorted_records", "store_records", ("store", "sorted"), RECORDS),
    of("log_stores_frozen", "unmerged_stores", ("store", "frozen_log"), STORES),
    of("hash_stores", "unmerged_stores", ("store", "hash"), STORES),
    of("conversions", "background_jobs_total", ("job", "conversion"), JOBS),
    of("merges", "background_jobs_total", ("job", "merge"), JOBS),
    of("chains", "background_jobs_total", ("job", "chain"), JOBS),
    of("cleanings", "background_jobs_total", ("job", "cleaning"), JOBS),
    of("confirmed_segments", "background_jobs_total", ("job", "confirmation"), JOBS),
    of("saves", "background_jobs_total", ("job", "index_save"), JOBS),
    of("key_merges", "background_jobs_total", ("job", "key_merge"), JOBS),
    of("further_conversions", "concurrent_jobs_total", ("job", "conversion"), FURTHER),
    of("further_merges", "concurrent_jobs_total", ("job", "merge"), FURTHER),
    one("full_tables", "full_tables_total", "Hash tables of the log that a put found full"),
    one("full_table_occupancy", "full_table_occupancy", "The mean share of used slots in these tables"),
    one("pressure", "background_pressure", "Work that waits in the background; puts are delayed near 1"),
    one("reserve_bytes", "reserve_bytes", "Bytes of the file system that puts leave free"),
    of("indexes_on_flash", "parts_on_flash", ("part", "index"), ON_FLASH),
    of("filters_on_flash", "parts_on_flash", ("part", "filter"), ON_FLASH),
    one("filter_last_store_bits", "filter_last_store_bits", "Bits per key of the filters of the last stores"),
    one("unreadable_sections", "unreadable_sections", "Indexes and filters on flash that cannot be read"),
    one("record_cache_records", "record_cache_records", "Records in the cache of records"),
    of("record_cache_hits", "record_cache_lookups_total", ("outcome", "hit"), CACHE),
    of("record_cache_misses", "record_cache_lookups_total", ("outcome", "miss"), CACHE),
    one("open_files", "open_files", "Open files of the database"),
    one("open_files_max", "open_files_max", "The most files that the database keeps open"),
    of("log_bytes", "log_bytes", ("bytes", "all"), LOG),
    of("live_bytes", "log_bytes", ("bytes", "live"), LOG),
    one("unconfirmed", "unconfirmed_overwrites", "Overwrites whose older entry is still in the index"),
    one("confirmed", "confirmed_overwrites_total", "Older entries of overwrites that were removed"),
    one("clean_records", "clean_records", "Records on flash that the lower tier has as well"),
    one("index_shards_in_memory", "index_shards_in_memory", "Shards of the index that are in memory"),
    one(
        "index_shards_to_load",
        "index_shards_to_load",
        "Shards of the index that are still read into memory",
    ),
    one("index_pages_on_flash", "index_pages_on_flash", "Pages of the index that are on flash"),
    one("index_changes_bytes", "index_changes_bytes", "Bytes of memory of changes of pages on flash"),
    one("index_page_reads", "index_page_reads_total", "Pages of the index that lookups have read"),
    one("key_runs", "key_runs", "Runs of keys in order"),
    one("keys_in_runs", "keys_in_runs", "Keys in these runs"),
    one(
        "deleted_keys_passed",
        "deleted_keys_passed_total",
        "Deleted keys that scans in key order have passed",
    ),
    of("flash_hits", "flash_lookups_total", ("outcome", "hit"), FLASH),
    of("flash_misses", "flash_lookups_total", ("outcome", "miss"), FLASH),
    of("promoted", "flash_records_total", ("event", "promoted"), MOVED),
    of("left", "flash_records_total", ("event", "left"), MOVED),
    of("rejected", "flash_records_total", ("event", "rejected"), MOVED),
    one("disk_hits", "lower_tier_hits_total", "Lookups that the lower tier has served"),
    one("disk_records", "lower_tier_records", "Records in the lower tier"),
    one("disk_bytes", "lower_tier_bytes", "Bytes of all files of the lower tier"),
    one("disk_writes", "lower_tier_puts_total", "Puts and deletes of the lower tier"),
    one("disk_user_bytes", "lower_tier_user_bytes_total", "Bytes of keys and values in these writes"),
    of("disk_read_operations", "lower_tier_operations_total", ("operation", "read"), TIER_OPERATIONS),
    of("disk_write_operations", "lower_tier_operations_total", ("operation", "write"), TIER_OPERATIONS),
    of("disk_read_bytes", "lower_tier_device_bytes_total", ("operation", "read"), TIER_BYTES),
    of("disk_write_bytes", "lower_tier_device_bytes_total", ("operation", "write"), TIER_BYTES),
    one("huge_page_bytes", "huge_page_bytes", "Bytes of memory in huge pages"),
    of("value_bytes", "value_bytes_total", ("form", "given"), VALUES),
    of("stored_value_bytes", "value_bytes_total", ("form", "stored"), VALUES),
    one("dictionary_bytes", "dictionary_bytes", "Bytes of the dictionary of the compression"),
    one("keys_clustered", "keys_clustered", "1 if keys that were declared as hashes are not uniform"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_values_of_a_metric_follow_each_other_and_have_one_meaning_and_labels_that_differ() {
        let (mut metrics, mut names, mut samples) = (HashSet::new(), HashSet::new(), HashSet::new());
        for group in DETAILS.chunk_by(|one, next| one.metric == next.metric) {
            assert!(metrics.insert(group[0].metric), "{} is in two places", group[0].metric);
            for Detail { name, metric, label, help } in group {
                assert!(names.insert(name) && samples.insert((metric, label)), "{name}");
                assert_eq!(help, &group[0].help, "{name}");
                assert!(label.is_some() || group.len() == 1, "{name}");
            }
        }
    }
}

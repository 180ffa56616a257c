/* Every function and every type of leveldb/c.h that a program can use is there, by the name of LevelDB's file. */

#define SILTSTONE_LEVELDB_QUIET
#include "leveldb/c.h"

typedef void function(void);

static function *const functions[] = {
    (function *)leveldb_approximate_sizes,
    (function *)leveldb_cache_create_lru,
    (function *)leveldb_cache_destroy,
    (function *)leveldb_close,
    (function *)leveldb_compact_range,
    (function *)leveldb_comparator_create,
    (function *)leveldb_comparator_destroy,
    (function *)leveldb_create_default_env,
    (function *)leveldb_create_iterator,
    (function *)leveldb_create_snapshot,
    (function *)leveldb_delete,
    (function *)leveldb_destroy_db,
    (function *)leveldb_env_destroy,
    (function *)leveldb_env_get_test_directory,
    (function *)leveldb_filterpolicy_create,
    (function *)leveldb_filterpolicy_create_bloom,
    (function *)leveldb_filterpolicy_destroy,
    (function *)leveldb_free,
    (function *)leveldb_get,
    (function *)leveldb_iter_destroy,
    (function *)leveldb_iter_get_error,
    (function *)leveldb_iter_key,
    (function *)leveldb_iter_next,
    (function *)leveldb_iter_prev,
    (function *)leveldb_iter_seek,
    (function *)leveldb_iter_seek_to_first,
    (function *)leveldb_iter_seek_to_last,
    (function *)leveldb_iter_valid,
    (function *)leveldb_iter_value,
    (function *)leveldb_major_version,
    (function *)leveldb_minor_version,
    (function *)leveldb_open,
    (function *)leveldb_options_create,
    (function *)leveldb_options_destroy,
    (function *)leveldb_options_set_block_restart_interval,
    (function *)leveldb_options_set_block_size,
    (function *)leveldb_options_set_cache,
    (function *)leveldb_options_set_comparator,
    (function *)leveldb_options_set_compression,
    (function *)leveldb_options_set_create_if_missing,
    (function *)leveldb_options_set_env,
    (function *)leveldb_options_set_error_if_exists,
    (function *)leveldb_options_set_filter_policy,
    (function *)leveldb_options_set_info_log,
    (function *)leveldb_options_set_max_file_size,
    (function *)leveldb_options_set_max_open_files,
    (function *)leveldb_options_set_paranoid_checks,
    (function *)leveldb_options_set_write_buffer_size,
    (function *)leveldb_property_value,
    (function *)leveldb_put,
    (function *)leveldb_readoptions_create,
    (function *)leveldb_readoptions_destroy,
    (function *)leveldb_readoptions_set_fill_cache,
    (function *)leveldb_readoptions_set_snapshot,
    (function *)leveldb_readoptions_set_verify_checksums,
    (function *)leveldb_release_snapshot,
    (function *)leveldb_repair_db,
    (function *)leveldb_write,
    (function *)leveldb_writebatch_append,
    (function *)leveldb_writebatch_clear,
    (function *)leveldb_writebatch_create,
    (function *)leveldb_writebatch_delete,
    (function *)leveldb_writebatch_destroy,
    (function *)leveldb_writebatch_iterate,
    (function *)leveldb_writebatch_put,
    (function *)leveldb_writeoptions_create,
    (function *)leveldb_writeoptions_destroy,
    (function *)leveldb_writeoptions_set_sync,
};

/* As handles: LevelDB does not say what they have. */
static const struct {
    leveldb_cache_t *cache;
    leveldb_comparator_t *comparator;
    leveldb_env_t *env;
    leveldb_filterpolicy_t *filterpolicy;
    leveldb_iterator_t *iterator;
    leveldb_logger_t *logger;
    leveldb_options_t *options;
    leveldb_readoptions_t *readoptions;
    leveldb_snapshot_t *snapshot;
    leveldb_t *database;
    leveldb_writebatch_t *writebatch;
    leveldb_writeoptions_t *writeoptions;
} handles = {0};

int main(void) {
    size_t i, count = sizeof functions / sizeof *functions;
    for (i = 0; i < count; i++) {
        if (functions[i] == NULL) return 1;
    }
    printf("%d functions, %d types\n", (int)count, (int)(sizeof handles / sizeof(void *)));
    return leveldb_no_compression != 0 || leveldb_snappy_compression != 1;
}

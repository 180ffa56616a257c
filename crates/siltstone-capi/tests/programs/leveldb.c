/* A program as one for leveldb/c.h, without ordered iteration: the cases of LevelDB's own test of its C interface, but
 * for those of comparators, of filters of the program, of approximate sizes, and of seeking. */

#define _POSIX_C_SOURCE 200809L /* setenv */

#define SILTSTONE_LEVELDB_UNORDERED
#include "siltstone/leveldb_compat.h"

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static char *err;
static leveldb_t *db;
static leveldb_options_t *options;
static leveldb_readoptions_t *reading;
static leveldb_writeoptions_t *writing;

static void check_no_error(int line) {
    if (err != NULL) {
        fprintf(stderr, "line %d: %s\n", line, err);
        exit(1);
    }
}
#define OK() check_no_error(__LINE__)

static void check_get(const char *key, const char *expected) {
    size_t length = 0;
    char *value = leveldb_get(db, reading, key, strlen(key), &length, &err);
    OK();
    if (expected == NULL) {
        CHECK(value == NULL);
    } else {
        CHECK(value != NULL && length == strlen(expected) && memcmp(value, expected, length) == 0);
    }
    leveldb_free(value);
}

static void put(const char *key, const char *value) {
    leveldb_put(db, writing, key, strlen(key), value, strlen(value), &err);
    OK();
}

struct seen {
    int puts, deletes;
};

static void on_put(void *state, const char *key, size_t klen, const char *value, size_t vlen) {
    CHECK(klen == 3 && memcmp(key, "bar", 3) == 0 && vlen == 1 && (*value == 'b' || *value == 'c'));
    ((struct seen *)state)->puts++;
}

static void on_delete(void *state, const char *key, size_t klen) {
    CHECK(klen == 3 && memcmp(key, "box", 3) == 0);
    ((struct seen *)state)->deletes++;
}

static void opening(const char *path) {
    leveldb_destroy_db(options, path, &err);
    OK();
    CHECK(leveldb_open(options, path, &err) == NULL && err != NULL);
    leveldb_free(err);
    err = NULL;
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_error_if_exists(options, 1);
    db = leveldb_open(options, path, &err);
    OK();
    CHECK(db != NULL);
    check_get("foo", NULL);
    leveldb_close(db);
    CHECK(leveldb_open(options, path, &err) == NULL && strstr(err, "exists") != NULL);
    leveldb_free(err);
    err = NULL;
    leveldb_options_set_error_if_exists(options, 0);
    db = leveldb_open(options, path, &err);
    OK();
}

static void writing_and_compacting(void) {
    put("foo", "hello");
    check_get("foo", "hello");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    check_get("foo", "hello");
    leveldb_compact_range(db, "a", 1, "z", 1);
    check_get("foo", "hello");
    /* Unlike LevelDB, a key has at least one byte. */
    leveldb_put(db, writing, "", 0, "x", 1, &err);
    CHECK(err != NULL);
    leveldb_free(err);
    err = NULL;
}

static void batches(void) {
    leveldb_writebatch_t *batch = leveldb_writebatch_create(), *second = leveldb_writebatch_create();
    struct seen seen = {0, 0};
    leveldb_writebatch_put(batch, "foo", 3, "a", 1);
    leveldb_writebatch_clear(batch);
    leveldb_writebatch_put(batch, "bar", 3, "b", 1);
    leveldb_writebatch_put(batch, "box", 3, "c", 1);
    leveldb_writebatch_clear(batch);
    leveldb_writebatch_put(batch, "bar", 3, "b", 1);
    leveldb_writebatch_delete(second, "box", 3);
    leveldb_writebatch_put(second, "bar", 3, "c", 1);
    leveldb_writebatch_append(batch, second);
    put("box", "x");
    leveldb_write(db, writing, batch, &err);
    OK();
    check_get("foo", "hello");
    check_get("bar", "c");
    check_get("box", NULL);
    leveldb_writebatch_iterate(batch, &seen, on_put, on_delete);
    CHECK(seen.puts == 2 && seen.deletes == 1);
    leveldb_writebatch_destroy(batch);
    leveldb_writebatch_destroy(second);
}

static int count(leveldb_iterator_t *it) {
    int records = 0;
    for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
        size_t klen, vlen;
        const char *key = leveldb_iter_key(it, &klen), *value = leveldb_iter_value(it, &vlen);
        CHECK((klen == 3 && memcmp(key, "foo", 3) == 0 && vlen == 5 && memcmp(value, "hello", 5) == 0) ||
              (klen == 3 && memcmp(key, "bar", 3) == 0 && vlen == 1 && *value == 'c'));
        records++;
    }
    leveldb_iter_get_error(it, &err);
    OK();
    return records;
}

static void iterators_and_snapshots(void) {
    leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
    const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(db);
    CHECK(!leveldb_iter_valid(it));
    leveldb_delete(db, writing, "foo", 3, &err);
    OK();
    put("new", "n");
    CHECK(count(it) == 2 && count(it) == 2);
    leveldb_iter_destroy(it);
    check_get("foo", NULL);
    leveldb_readoptions_set_snapshot(reading, snapshot);
    check_get("foo", "hello");
    check_get("new", NULL);
    it = leveldb_create_iterator(db, reading);
    CHECK(count(it) == 2);
    leveldb_iter_destroy(it);
    leveldb_readoptions_set_snapshot(reading, NULL);
    leveldb_release_snapshot(db, snapshot);
    check_get("new", "n");
}

static void properties(void) {
    char *stats = leveldb_property_value(db, "leveldb.stats");
    CHECK(stats != NULL && strstr(stats, "\"engine\":\"silt\"") != NULL);
    leveldb_free(stats);
    CHECK(leveldb_property_value(db, "nosuchprop") == NULL);
    CHECK(leveldb_major_version() == 1 && leveldb_minor_version() >= 0);
}

/* The records of a test of filters, in a store that a filter is made for. */
static void filtered_records(const char *path) {
    leveldb_close(db);
    leveldb_destroy_db(options, path, &err);
    OK();
    db = leveldb_open(options, path, &err);
    OK();
    put("foo", "foovalue");
    put("bar", "barvalue");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    check_get("foo", "foovalue");
    check_get("bar", "barvalue");
    check_get("box", NULL);
}

static void filters(const char *path) {
    leveldb_filterpolicy_t *policy = leveldb_filterpolicy_create_bloom(20);
    leveldb_options_set_filter_policy(options, NULL);
    filtered_records(path);
    leveldb_options_set_filter_policy(options, policy);
    filtered_records(path);
    leveldb_options_set_filter_policy(options, NULL);
    leveldb_filterpolicy_destroy(policy);
}

static void test_directory(leveldb_env_t *env, const char *path) {
    char *directory, *expected = (char *)malloc(strlen(path) + 8);
    struct stat status;
    CHECK(expected != NULL);
    sprintf(expected, "%s-tests", path);
    CHECK(setenv("TEST_TMPDIR", expected, 1) == 0);
    directory = leveldb_env_get_test_directory(env);
    CHECK(directory != NULL && strcmp(directory, expected) == 0);
    CHECK(stat(directory, &status) == 0 && S_ISDIR(status.st_mode) && rmdir(directory) == 0);
    leveldb_free(directory);
    free(expected);
}

static void repair(const char *path) {
    leveldb_close(db);
    leveldb_options_set_create_if_missing(options, 0);
    leveldb_repair_db(options, path, &err);
    OK();
    db = leveldb_open(options, path, &err);
    OK();
    check_get("foo", NULL);
    check_get("bar", "c");
    leveldb_options_set_create_if_missing(options, 1);
}

static void destroying(const char *path) {
    leveldb_close(db);
    leveldb_destroy_db(options, path, &err);
    OK();
    leveldb_options_set_create_if_missing(options, 0);
    CHECK(leveldb_open(options, path, &err) == NULL);
    leveldb_free(err);
    err = NULL;
}

int main(int argc, char **argv) {
    leveldb_cache_t *cache = leveldb_cache_create_lru(100000);
    leveldb_env_t *env = leveldb_create_default_env();
    leveldb_filterpolicy_t *policy = leveldb_filterpolicy_create_bloom(10);
    CHECK(argc == 2);
    options = leveldb_options_create();
    leveldb_options_set_cache(options, cache);
    leveldb_options_set_env(options, env);
    leveldb_options_set_info_log(options, NULL);
    leveldb_options_set_filter_policy(options, policy);
    leveldb_options_set_paranoid_checks(options, 1);
    leveldb_options_set_max_open_files(options, 10);
    leveldb_options_set_block_size(options, 1000);
#ifdef SILTSTONE_LEVELDB_QUIET
    leveldb_options_set_write_buffer_size(options, 100000);
    leveldb_options_set_block_restart_interval(options, 8);
    leveldb_options_set_max_file_size(options, 3 << 20);
    leveldb_options_set_compression(options, leveldb_no_compression);
#endif
    reading = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(reading, 1);
#ifdef SILTSTONE_LEVELDB_QUIET
    leveldb_readoptions_set_fill_cache(reading, 0);
#endif
    writing = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(writing, 1);

    opening(argv[1]);
    writing_and_compacting();
    batches();
    iterators_and_snapshots();
    properties();
    repair(argv[1]);
    filters(argv[1]);
    destroying(argv[1]);
    test_directory(env, argv[1]);

    leveldb_readoptions_destroy(reading);
    leveldb_writeoptions_destroy(writing);
    leveldb_options_destroy(options);
    leveldb_cache_destroy(cache);
    leveldb_env_destroy(env);
    leveldb_filterpolicy_destroy(policy);
    puts("leveldb: ok");
    return 0;
}

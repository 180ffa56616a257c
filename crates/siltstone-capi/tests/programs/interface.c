/* Every function of the interface: what it returns, and how it fails. */

#include <siltstone.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s (error: %s)\n", __FILE__, __LINE__, #condition, err ? err : "none");  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define COUNT 3

static char *err;
static char directory[4096];

static const char *in(const char *name) {
    static char path[2][8192];
    static int which;
    which = !which;
    snprintf(path[which], sizeof path[which], "%s/%s", directory, name);
    return path[which];
}

/* Whether the last call failed in this way. Frees the message. */
static bool failed(uint32_t code, const char *part) {
    bool is = err != NULL && siltstone_error_code(err) == code && strstr(err, part) != NULL;
    if (is) {
        siltstone_free(err);
        err = NULL;
    }
    return is;
}

static bool is(char *value, const size_t *length, const char *expected) {
    bool same = value != NULL && *length == strlen(expected) && memcmp(value, expected, *length) == 0;
    siltstone_free(value);
    return same && err == NULL;
}

static bool has(const siltstone_t *db, const char *key, const char *expected) {
    size_t length = 9;
    char *value = siltstone_get(db, key, strlen(key), &length, &err);
    return expected != NULL ? is(value, &length, expected) : value == NULL && length == 0 && err == NULL;
}

static bool contains_text(char *text, const char *part) {
    bool found = text != NULL && strstr(text, part) != NULL;
    siltstone_free(text);
    return found && err == NULL;
}

static siltstone_t *open_with(const char *path, const char *settings[][2], int count) {
    siltstone_options_t *options = siltstone_options_create();
    for (int i = 0; i < count; i++) siltstone_options_set(options, settings[i][0], settings[i][1]);
    siltstone_t *db = siltstone_open(path, options, &err);
    siltstone_options_destroy(options);
    return db;
}

static bool stop(void *state, uint64_t done, uint64_t total) {
    ++*(int *)state;
    return done > total;
}

static void errors(void) {
    int calls = 0;
    CHECK(siltstone_abi_version() == SILTSTONE_ABI_VERSION && strlen(siltstone_version()) >= 5);
    CHECK(siltstone_error_code(NULL) == SILTSTONE_OK);
    CHECK(siltstone_open(NULL, NULL, &err) == NULL && failed(SILTSTONE_ERROR_ARGUMENT, "silt"));
    CHECK(siltstone_open(in("\xff"), NULL, &err) == NULL && failed(SILTSTONE_ERROR_ARGUMENT, "UTF-8"));
    CHECK(open_with(in("none"), (const char *[][2]){{"create", "false"}}, 1) == NULL);
    CHECK(failed(SILTSTONE_ERROR_NOT_FOUND, "no database here; create one with the setting `create`"));
    CHECK(open_with(in("none"), (const char *[][2]){{"durability", "always"}}, 1) == NULL);
    CHECK(failed(SILTSTONE_ERROR_ARGUMENT, "durability"));
    CHECK(open_with(in("none"), (const char *[][2]){{"colour", "red"}}, 1) == NULL);
    CHECK(failed(SILTSTONE_ERROR_ARGUMENT, "colour"));
    CHECK(open_with(in("none"), (const char *[][2]){{"engine", NULL}}, 1) == NULL);
    CHECK(failed(SILTSTONE_ERROR_ARGUMENT, "NULL"));
    CHECK(!siltstone_put(NULL, "k", 1, "v", 1, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "NULL"));
    /* A message in *errptr is replaced, and without errptr nothing is stored. */
    CHECK(!siltstone_sync(NULL, &err) && !siltstone_settle(NULL, &err) && !siltstone_compact(NULL, NULL));
    CHECK(failed(SILTSTONE_ERROR_ARGUMENT, "the handle is NULL"));
    CHECK(!siltstone_destroy(in("none"), &err) && failed(SILTSTONE_ERROR_NOT_FOUND, "none"));
    CHECK(siltstone_verify_closed(in("none"), NULL, NULL, NULL, &err) == NULL);
    CHECK(failed(SILTSTONE_ERROR_NOT_FOUND, "none"));
    CHECK(siltstone_repair(in("none"), stop, &calls, &err) == NULL && failed(SILTSTONE_ERROR_NOT_FOUND, ""));
    CHECK(siltstone_close(NULL, &err) && err == NULL);
}

static void single_records(siltstone_t *db) {
    char buffer[8] = "";
    size_t length = 0;
    uint64_t expires = 1, soon = siltstone_expires_in_ms(100000);
    CHECK(has(db, "rose", NULL));
    CHECK(!siltstone_may_contain(db, "rose", 4, &err) && err == NULL);
    CHECK(siltstone_put(db, "rose", 4, "red", 3, &err) && has(db, "rose", "red"));
    CHECK(siltstone_may_contain(db, "rose", 4, &err) && siltstone_contains(db, "rose", 4, &err));
    CHECK(!siltstone_contains(db, "iris", 4, &err) && err == NULL);
    CHECK(siltstone_put(db, "empty", 5, NULL, 0, &err) && has(db, "empty", ""));
    CHECK(!siltstone_put(db, NULL, 0, "v", 1, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "the key is empty"));
    CHECK(!siltstone_put(db, NULL, 4, "v", 1, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "NULL"));
    CHECK(!siltstone_put(db, "k", SIZE_MAX, "v", 1, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "not possible"));
    CHECK(siltstone_get_into(db, "rose", 4, buffer, sizeof buffer, &length, &err));
    CHECK(length == 3 && strcmp(buffer, "red") == 0);
    CHECK(siltstone_get_into(db, "rose", 4, buffer + 4, 2, &length, &err) && length == 3 && buffer[4] == 0);
    CHECK(!siltstone_get_into(db, "iris", 4, buffer, sizeof buffer, &length, &err) && err == NULL);

    CHECK(siltstone_put_with(db, "dew", 3, "wet", 3, SILTSTONE_DURABILITY_SYNCED, soon, &err));
    CHECK(is(siltstone_get_with_expiry(db, "dew", 3, &length, &expires, &err), &length, "wet") && expires == soon);
    CHECK(is(siltstone_get_with_expiry(db, "rose", 4, &length, &expires, &err), &length, "red") && expires == 0);
    CHECK(siltstone_put_with(db, "old", 3, "v", 1, SILTSTONE_DURABILITY_BUFFERED, 1, &err) && has(db, "old", NULL));
    CHECK(!siltstone_put_with(db, "k", 1, "v", 1, 4, 0, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "durability"));
    CHECK(siltstone_delete_with(db, "dew", 3, SILTSTONE_DURABILITY_WRITTEN, &err) && has(db, "dew", NULL));
    CHECK(siltstone_delete(db, "nothing", 7, &err) && siltstone_delete(db, "empty", 5, &err));
    CHECK(has(db, "empty", NULL));
}

static void many_records(siltstone_t *db) {
    const void *keys[COUNT] = {"rose", "none", "iris"}, *values[COUNT] = {"white", "0", "blue"};
    size_t key_lengths[COUNT] = {4, 4, 4}, value_lengths[COUNT] = {5, 1, 4}, lengths[COUNT];
    char *read[COUNT], rows[COUNT][4];
    bool flags[COUNT];
    CHECK(siltstone_insert_many_if_absent(db, keys, key_lengths, values, value_lengths, COUNT, flags, &err));
    CHECK(!flags[0] && flags[1] && flags[2] && siltstone_delete(db, "none", 4, &err));
    CHECK(siltstone_get_many(db, keys, key_lengths, COUNT, read, lengths, &err));
    CHECK(is(read[0], &lengths[0], "red") && read[1] == NULL && lengths[1] == 0 && is(read[2], &lengths[2], "blue"));
    CHECK(siltstone_contains_many(db, keys, key_lengths, COUNT, flags, &err) && flags[0] && !flags[1] && flags[2]);
    key_lengths[1] = 0;
    CHECK(!siltstone_get_many(db, keys, key_lengths, COUNT, read, lengths, &err));
    CHECK(failed(SILTSTONE_ERROR_ARGUMENT, "empty"));
    CHECK(siltstone_get_many(db, NULL, NULL, 0, NULL, NULL, &err));
    CHECK(!siltstone_get_rows(db, "roseiris", 4, 2, rows, 4, flags, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "3 bytes"));
    CHECK(siltstone_put(db, "rose", 4, "red_", 4, &err));
    memset(rows, '?', sizeof rows);
    CHECK(siltstone_get_rows(db, "rosenoneiris", 4, COUNT, rows, 4, flags, &err));
    CHECK(memcmp(rows, "red_????blue", 12) == 0 && flags[0] && !flags[1] && flags[2]);
    CHECK(!siltstone_get_rows(db, "rose", 0, 1, rows, 4, flags, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "0 bytes"));
    CHECK(!siltstone_get_rows(db, "rose", SIZE_MAX, 2, rows, 4, flags, &err) && failed(SILTSTONE_ERROR_ARGUMENT, ""));
    CHECK(siltstone_put(db, "rose", 4, "red", 3, &err));
}

static void on_put(void *state, const char *key, size_t key_length, const char *value, size_t value_length,
                   uint64_t expires_at_ms) {
    size_t *seen = state;
    CHECK(key_length == 2 && key[0] == 'b' && value_length == 1 && *value == 'v' && expires_at_ms == 0);
    seen[0]++;
}

static void on_delete(void *state, const char *key, size_t key_length) {
    CHECK(key_length == 2 && memcmp(key, "b3", 2) == 0);
    ((size_t *)state)[1]++;
}

static void batches(siltstone_t *db) {
    size_t seen[2] = {0, 0};
    siltstone_batch_t *batch = siltstone_batch_create(), *other = siltstone_batch_create();
    siltstone_batch_put(batch, "b1", 2, "v", 1, 0);
    siltstone_batch_put(other, "b2", 2, "v", 1, 0);
    siltstone_batch_delete(other, "b3", 2);
    siltstone_batch_append(batch, other);
    siltstone_batch_append(batch, batch);
    CHECK(siltstone_batch_length(batch) == 3 && siltstone_batch_length(NULL) == 0);
    siltstone_batch_iterate(batch, seen, on_put, on_delete);
    siltstone_batch_iterate(batch, seen, NULL, on_delete);
    CHECK(seen[0] == 2 && seen[1] == 2);
    CHECK(siltstone_write(db, batch, SILTSTONE_DURABILITY_SYNCED, &err) && has(db, "b1", "v") && has(db, "b2", "v"));
    siltstone_batch_clear(batch);
    siltstone_batch_delete(batch, "b1", 2);
    siltstone_batch_put(batch, NULL, 0, "v", 1, 0);
    siltstone_batch_delete(batch, "b2", 2);
    CHECK(!siltstone_write(db, batch, 0, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "empty") && has(db, "b1", "v"));
    siltstone_batch_clear(batch);
    siltstone_batch_delete(batch, "b1", 2);
    siltstone_batch_delete(batch, "b2", 2);
    CHECK(siltstone_write(db, batch, SILTSTONE_DURABILITY_DEFAULT, &err) && has(db, "b1", NULL));
    CHECK(!siltstone_write(db, batch, 9, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "durability"));
    siltstone_batch_destroy(batch);
    siltstone_batch_destroy(other);
    siltstone_batch_destroy(NULL);
}

/* Moves a coin from the first record to the second; stops if there is none. */
static bool move(void *state, siltstone_update_t *records) {
    size_t from, to;
    const char *value = siltstone_update_value(records, 0, &from);
    CHECK(siltstone_update_expires_at_ms(records, 0) == 0 && !siltstone_update_put(records, 2, "x", 1, 0));
    CHECK(siltstone_update_value(records, 2, NULL) == NULL && !siltstone_update_delete(records, 2));
    siltstone_update_value(records, 1, &to);
    if (value == NULL) return false;
    CHECK(siltstone_update_put(records, 1, state, to + 1, 0));
    return from > 1 ? siltstone_update_put(records, 0, state, from - 1, 0) : siltstone_update_delete(records, 0);
}

static bool keep(void *state, siltstone_update_t *records) {
    return siltstone_update_value(records, 0, state) == NULL;
}

static uint64_t expiry_of(siltstone_t *db, const char *key) {
    uint64_t expires_at_ms = 1;
    siltstone_free(siltstone_get_with_expiry(db, key, strlen(key), NULL, &expires_at_ms, &err));
    return expires_at_ms;
}

static void atomic(siltstone_t *db) {
    const void *keys[2] = {"from", "to"};
    size_t lengths[2] = {4, 2}, length;
    CHECK(siltstone_insert_if_absent(db, "from", 4, "cc", 2, &err));
    CHECK(!siltstone_insert_if_absent(db, "from", 4, "c", 1, &err) && err == NULL);
    CHECK(siltstone_length(db, &err) > 0 && err == NULL);
    uint64_t soon = siltstone_expires_in_ms(60000);
    CHECK(siltstone_insert_if_absent_with(db, "seen", 4, "", 0, SILTSTONE_DURABILITY_SYNCED, soon, &err));
    CHECK(!siltstone_insert_if_absent_with(db, "seen", 4, "", 0, SILTSTONE_DURABILITY_DEFAULT, 0, &err) && err == NULL);
    const void *seen_keys[] = {"seen", "new", "new"};
    const size_t seen_lengths[] = {4, 3, 3}, no_lengths[] = {0, 0, 0};
    const void *no_values[] = {"", "", ""};
    bool seen_flags[3];
    CHECK(siltstone_insert_many_if_absent_with(db, seen_keys, seen_lengths, no_values, no_lengths, 3, seen_flags,
                                               SILTSTONE_DURABILITY_DEFAULT, soon, &err));
    CHECK(!seen_flags[0] && seen_flags[1] && !seen_flags[2]);
    CHECK(siltstone_delete(db, "seen", 4, &err) && siltstone_delete(db, "new", 3, &err));
    CHECK(siltstone_update_many(db, keys, lengths, 2, 0, move, "cccc", &err));
    CHECK(has(db, "from", "c") && has(db, "to", "c"));
    CHECK(siltstone_update_many(db, keys, lengths, 2, SILTSTONE_DURABILITY_SYNCED, move, "cccc", &err));
    CHECK(has(db, "from", NULL) && has(db, "to", "cc"));
    CHECK(!siltstone_update_many(db, keys, lengths, 2, 0, move, "cccc", &err));
    CHECK(failed(SILTSTONE_ERROR_INTERRUPTED, "") && has(db, "to", "cc"));
    CHECK(siltstone_update(db, "none", 4, 0, keep, &length, &err) && length == 0 && has(db, "none", NULL));
    CHECK(!siltstone_update(db, "to", 2, 0, NULL, NULL, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "callback"));
    CHECK(!siltstone_compare_and_swap(db, "to", 2, NULL, 0, "x", 1, &err) && err == NULL);
    CHECK(siltstone_compare_and_swap(db, "to", 2, "cc", 2, "", 0, &err) && has(db, "to", ""));
    CHECK(siltstone_compare_and_swap(db, "to", 2, "", 0, NULL, 0, &err) && has(db, "to", NULL));
    CHECK(siltstone_compare_and_swap(db, "to", 2, NULL, 0, "new", 3, &err));
    CHECK(is(siltstone_remove(db, "to", 2, &length, &err), &length, "new"));
    CHECK(siltstone_compare_and_swap_with(db, "to", 2, NULL, 0, "soon", 4, SILTSTONE_DURABILITY_SYNCED, soon, &err));
    CHECK(expiry_of(db, "to") == soon);
    CHECK(!siltstone_compare_and_swap_with(db, "to", 2, "x", 1, "", 0, 9, 0, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "9"));
    CHECK(siltstone_compare_and_swap(db, "to", 2, "soon", 4, "new", 3, &err));
    CHECK(expiry_of(db, "to") == 0);
    CHECK(is(siltstone_remove(db, "to", 2, &length, &err), &length, "new"));
    CHECK(siltstone_remove(db, "to", 2, &length, &err) == NULL && length == 0 && err == NULL);
}

static bool stop_at_once(void *calls, uint64_t deleted, uint64_t read) {
    CHECK(deleted > 0 && deleted <= read);
    ++*(int *)calls;
    return false;
}

static void prefixes(siltstone_t *db) {
    char key[16];
    int calls = 0;
    for (int number = 0; number < 3000; number++) {
        int length = snprintf(key, sizeof key, "prefix:%d", number);
        CHECK(siltstone_put(db, key, (size_t)length, "", 0, &err));
    }
    CHECK(siltstone_delete_prefix(db, "prefix:1", 8, 0, NULL, NULL, &err) == 1111 && err == NULL);
    CHECK(has(db, "prefix:1", NULL) && has(db, "prefix:2", ""));
    CHECK(siltstone_delete_prefix(db, "prefix:1", 8, 0, NULL, NULL, &err) == 0 && err == NULL);
    CHECK(siltstone_delete_prefix(db, "prefix:", 7, SILTSTONE_DURABILITY_SYNCED, stop_at_once, &calls, &err) == 0);
    CHECK(failed(SILTSTONE_ERROR_INTERRUPTED, "") && calls == 1);
    CHECK(siltstone_delete_prefix(db, "prefix:", 7, 0, NULL, NULL, &err) < 1889 && err == NULL);
    CHECK(siltstone_delete_prefix(NULL, "p", 1, 0, NULL, NULL, &err) == 0 && failed(SILTSTONE_ERROR_ARGUMENT, ""));
    CHECK(siltstone_delete_prefix(db, "", 0, 0, NULL, NULL, &err) == 0);
    CHECK(failed(SILTSTONE_ERROR_ARGUMENT, "siltstone_clear"));
    CHECK(siltstone_delete_prefix(db, NULL, 0, 0, NULL, NULL, &err) == 0);
    CHECK(failed(SILTSTONE_ERROR_ARGUMENT, "siltstone_clear"));
}

static int count(siltstone_iterator_t *records) {
    int found = 0;
    size_t length = 1;
    CHECK(records != NULL && siltstone_iterator_key(records, &length) == NULL && length == 0);
    while (siltstone_iterator_next(records, &err)) {
        CHECK(siltstone_iterator_key(records, &length) != NULL && length > 0);
        CHECK(siltstone_iterator_value(records, &length) != NULL);
        CHECK(siltstone_iterator_expires_at_ms(records) == 0);
        found++;
    }
    CHECK(err == NULL && !siltstone_iterator_next(records, &err) && err == NULL);
    CHECK(siltstone_iterator_value(records, NULL) == NULL);
    siltstone_iterator_destroy(records);
    return found;
}

static void snapshots_and_iterators(siltstone_t *db) {
    const void *keys[2] = {"rose", "none"};
    size_t lengths[2] = {4, 4}, length;
    char *values[2];
    uint64_t next = 7;
    siltstone_snapshot_t *snapshot = siltstone_snapshot_create(db, &err);
    CHECK(siltstone_put(db, "none", 4, "now", 3, &err));
    CHECK(is(siltstone_snapshot_get(snapshot, "rose", 4, &length, &err), &length, "red"));
    CHECK(siltstone_snapshot_get(snapshot, "none", 4, &length, &err) == NULL && err == NULL);
    CHECK(siltstone_snapshot_get_many(snapshot, keys, lengths, 2, values, lengths, &err));
    CHECK(is(values[0], &lengths[0], "red") && values[1] == NULL);
    CHECK(count(siltstone_snapshot_iterate(snapshot, &err)) == 2 && count(siltstone_iterate(db, &err)) == 3);
    siltstone_snapshot_destroy(snapshot);
    CHECK(count(siltstone_scan(db, 0, UINT64_MAX, 100, &next, &err)) == 3 && next == 0);
    CHECK(count(siltstone_scan(db, 0, UINT64_MAX, 1, &next, &err)) == 1 && next != 0);
    CHECK(count(siltstone_scan(db, next, UINT64_MAX, 100, &next, &err)) == 2 && next == 0);
    CHECK(siltstone_range(db, NULL, 0, NULL, 0, false, 0, &err) == NULL);
    CHECK(failed(SILTSTONE_ERROR_UNSUPPORTED, "order"));
    siltstone_snapshot_t *unordered = siltstone_snapshot_create(db, &err);
    CHECK(siltstone_snapshot_iterate_ordered(unordered, &err) == NULL);
    CHECK(failed(SILTSTONE_ERROR_UNSUPPORTED, "order"));
    siltstone_snapshot_destroy(unordered);
    CHECK(siltstone_delete(db, "none", 4, &err));
}

static void changes(siltstone_t *db) {
    char *since = siltstone_change_position(db, &err), *next = NULL;
    CHECK(err == NULL && since != NULL);
    CHECK(siltstone_put(db, "fed", 3, "1", 1, &err) && siltstone_delete(db, "fed", 3, &err));
    CHECK(count(siltstone_changes(db, since, 100, &next, &err)) == 1 && next != NULL);
    siltstone_free(since);
    CHECK(count(siltstone_changes(db, next, 100, &since, &err)) == 0);
    siltstone_free(since);
    siltstone_free(next);
    CHECK(siltstone_changes(db, "0000000000000007-7", 100, &next, &err) == NULL);
    CHECK(failed(SILTSTONE_ERROR_NOT_FOUND, "read all records"));
}

static void maintenance(siltstone_t *db) {
    bool intact = false, worked = true;
    int calls = 0;
    CHECK(siltstone_sync(db, &err) && siltstone_settle(db, &err) && siltstone_compact(db, &err));
    CHECK(siltstone_step(db, &worked, &err) && !worked);
    CHECK(siltstone_approximate_length(db, &err) == 2 && err == NULL);
    CHECK(siltstone_set_memory_budget(db, 8 << 20, &err) && siltstone_set_memory_budget(db, 0, &err));
    CHECK(!siltstone_set_memory_budget(db, 1, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "memory_budget"));
    CHECK(contains_text(siltstone_stats_json(db, &err), "\"engine\":\"silt\""));
    CHECK(contains_text(siltstone_stats_prometheus(db, &err), "# TYPE siltstone"));
    CHECK(contains_text(siltstone_verify(db, NULL, NULL, &intact, &err), "\"damage\":[]") && intact);
    CHECK(siltstone_verify(db, stop, &calls, NULL, &err) == NULL && calls == 1);
    CHECK(failed(SILTSTONE_ERROR_INTERRUPTED, ""));
    CHECK(siltstone_checkpoint(db, in("copy"), &err));
    CHECK(!siltstone_checkpoint(db, in("copy"), &err) && failed(SILTSTONE_ERROR_ARGUMENT, "not empty"));
}

static void damage_and_repair(void) {
    bool intact = true;
    int calls = 0;
    FILE *file;
    CHECK(contains_text(siltstone_verify_closed(in("copy"), NULL, NULL, &intact, &err), "\"damage\":[]") && intact);
    file = fopen(in("copy/MANIFEST"), "r+b");
    CHECK(file != NULL && fputc(255, file) == 255 && fclose(file) == 0);
    CHECK(contains_text(siltstone_verify_closed(in("copy"), NULL, NULL, &intact, &err), "manifest") && !intact);
    CHECK(contains_text(siltstone_verify_closed(in("copy"), NULL, NULL, NULL, &err), "\"live_records\":null"));
    CHECK(siltstone_repair(in("copy"), stop, &calls, &err) == NULL || calls > 0);
    CHECK(failed(SILTSTONE_ERROR_INTERRUPTED, ""));
    CHECK(contains_text(siltstone_repair(in("copy"), NULL, NULL, &err), "manifest"));
    CHECK(contains_text(siltstone_verify_closed(in("copy"), NULL, NULL, &intact, &err), "\"damage\":[]") && intact);
}

static void silt(void) {
    const char *reading[][2] = {{"read_only", "true"}};
    siltstone_options_t *options = siltstone_options_create();
    int calls = 0;
    siltstone_options_set(options, "memory_budget", "16MiB");
    siltstone_options_set(options, "change_feed", "1MiB");
    siltstone_options_set_progress(options, NULL, &calls);
    siltstone_t *db = siltstone_open(in("db"), options, &err);
    CHECK(db != NULL && err == NULL);
    CHECK(siltstone_open(in("db"), options, &err) == NULL && failed(SILTSTONE_ERROR_LOCKED, "db"));
    single_records(db);
    many_records(db);
    batches(db);
    atomic(db);
    prefixes(db);
    snapshots_and_iterators(db);
    changes(db);
    maintenance(db);
    siltstone_iterator_t *records = siltstone_iterate(db, &err);
    siltstone_snapshot_t *snapshot = siltstone_snapshot_create(db, &err);
    CHECK(siltstone_close(db, &err) && err == NULL);
    CHECK(siltstone_snapshot_get(snapshot, "rose", 4, NULL, &err) == NULL && failed(SILTSTONE_ERROR_CLOSED, ""));
    siltstone_iterator_destroy(records);
    siltstone_snapshot_destroy(snapshot);

    damage_and_repair();
    db = open_with(in("copy"), reading, 1);
    CHECK(db != NULL && has(db, "rose", "red"));
    CHECK(!siltstone_put(db, "k", 1, "v", 1, &err) && failed(SILTSTONE_ERROR_READ_ONLY, "without the setting"));
    siltstone_t *second = open_with(in("copy"), reading, 1);
    CHECK(second != NULL && siltstone_close(second, &err) && siltstone_close(db, &err));
    siltstone_options_set_progress(options, stop, &calls);
    db = siltstone_open(in("db"), options, &err);
    CHECK(db != NULL ? siltstone_close(db, &err) : failed(SILTSTONE_ERROR_INTERRUPTED, ""));
    siltstone_options_destroy(options);
    CHECK(siltstone_destroy(in("db"), &err) && siltstone_destroy(in("copy"), &err));
    CHECK(open_with(in("copy"), reading, 1) == NULL && failed(SILTSTONE_ERROR_NOT_FOUND, "copy"));
}

/* Whether the iterator moved to the record with a key; NULL for none. */
static bool moved(bool has_moved, const siltstone_iterator_t *at, const char *key) {
    size_t length;
    const char *own = siltstone_iterator_key(at, &length);
    if (key == NULL || err != NULL) return !has_moved && own == NULL && err == NULL;
    return has_moved && length == strlen(key) && memcmp(own, key, length) == 0;
}

static void walk_in_order(siltstone_t *db) {
    size_t length;
    siltstone_snapshot_t *snapshot = siltstone_snapshot_create(db, &err);
    siltstone_iterator_t *at = siltstone_snapshot_iterate_ordered(snapshot, &err);
    siltstone_iterator_t *forward = siltstone_snapshot_iterate(snapshot, &err);
    siltstone_snapshot_destroy(snapshot);
    CHECK(at != NULL && siltstone_put(db, "b15", 3, "", 0, &err) && siltstone_delete(db, "b2", 2, &err));
    CHECK(moved(siltstone_iterator_previous(at, &err), at, NULL));
    CHECK(moved(siltstone_iterator_next(at, &err), at, "a1"));
    CHECK(moved(siltstone_iterator_next(at, &err), at, "b1"));
    CHECK(moved(siltstone_iterator_next(at, &err), at, "b2"));
    CHECK(moved(siltstone_iterator_previous(at, &err), at, "b1"));
    CHECK(moved(siltstone_iterator_previous(at, &err), at, "a1"));
    CHECK(moved(siltstone_iterator_previous(at, &err), at, NULL));
    CHECK(moved(siltstone_iterator_next(at, &err), at, NULL) && moved(siltstone_iterator_previous(at, &err), at, NULL));
    CHECK(moved(siltstone_iterator_seek(at, "b", 1, &err), at, "b1"));
    CHECK(moved(siltstone_iterator_seek(at, siltstone_iterator_key(at, &length), 2, &err), at, "b1"));
    CHECK(moved(siltstone_iterator_seek(at, "b11", 3, &err), at, "b2"));
    CHECK(moved(siltstone_iterator_seek(at, "d", 1, &err), at, NULL));
    CHECK(moved(siltstone_iterator_seek(at, NULL, 0, &err), at, "a1"));
    CHECK(moved(siltstone_iterator_seek_last(at, &err), at, "c"));
    CHECK(moved(siltstone_iterator_previous(at, &err), at, "b2") && moved(siltstone_iterator_next(at, &err), at, "c"));
    CHECK(moved(siltstone_iterator_next(at, &err), at, NULL) && moved(siltstone_iterator_previous(at, &err), at, NULL));
    CHECK(!siltstone_iterator_seek(forward, NULL, 0, &err) && failed(SILTSTONE_ERROR_UNSUPPORTED, "forward"));
    CHECK(!siltstone_iterator_seek_last(forward, &err) && failed(SILTSTONE_ERROR_UNSUPPORTED, "forward"));
    CHECK(siltstone_iterator_next(forward, &err) && !siltstone_iterator_previous(forward, &err));
    CHECK(failed(SILTSTONE_ERROR_UNSUPPORTED, "forward") && siltstone_iterator_key(forward, &length) != NULL);
    CHECK(siltstone_delete(db, "b15", 3, &err));
    CHECK(siltstone_put(db, "b2", 2, "", 0, &err));
    siltstone_iterator_destroy(forward);
    siltstone_iterator_destroy(at);
}

static void ordered_ranges(void) {
    siltstone_t *db = open_with(in("ordered"), (const char *[][2]){{"engine", "flashkey"}, {"ordered", "true"}}, 2);
    size_t length;
    CHECK(db != NULL && siltstone_put(db, "a1", 2, "", 0, &err) && siltstone_put(db, "b1", 2, "", 0, &err));
    CHECK(siltstone_put(db, "b2", 2, "", 0, &err) && siltstone_put(db, "c", 1, "", 0, &err));
    CHECK(count(siltstone_prefix(db, "b", 1, false, 0, &err)) == 2);
    CHECK(count(siltstone_range(db, "b1", 2, "c", 1, false, 0, &err)) == 2);
    CHECK(count(siltstone_range(db, NULL, 0, NULL, 0, false, 3, &err)) == 3);
    siltstone_iterator_t *down = siltstone_range(db, NULL, 0, NULL, 0, true, 0, &err);
    CHECK(siltstone_iterator_next(down, &err) && *siltstone_iterator_key(down, &length) == 'c' && length == 1);
    siltstone_iterator_destroy(down);
    walk_in_order(db);
    siltstone_iterator_t *begun[5], *fresh[5];
    uint64_t position;
    siltstone_snapshot_t *snapshot = siltstone_snapshot_create(db, &err);
    for (int i = 0; i < 2; i++) {
        siltstone_iterator_t **made = i == 0 ? begun : fresh;
        made[0] = siltstone_iterate(db, &err);
        made[1] = siltstone_snapshot_iterate(snapshot, &err);
        made[2] = siltstone_range(db, NULL, 0, NULL, 0, i == 0, 0, &err);
        made[3] = siltstone_prefix(db, "b", 1, false, 0, &err);
        made[4] = siltstone_scan(db, 0, UINT64_MAX, 100, &position, &err);
    }
    for (int i = 0; i < 5; i++) CHECK(siltstone_iterator_next(begun[i], &err) && err == NULL);
    CHECK(siltstone_clear(NULL, 0, NULL, NULL, &err) == 0 && failed(SILTSTONE_ERROR_ARGUMENT, "NULL"));
    CHECK(siltstone_clear(db, SILTSTONE_DURABILITY_SYNCED, NULL, NULL, &err) == 4 && err == NULL);
    CHECK(count(siltstone_iterate(db, &err)) == 0);
    siltstone_iterator_t *ended = siltstone_iterate(db, &err);
    CHECK(!siltstone_iterator_next(ended, &err) && err == NULL);
    CHECK(siltstone_close(db, &err));
    for (int i = 0; i < 10; i++) {
        siltstone_iterator_t *records = i < 5 ? begun[i] : fresh[i - 5];
        for (int again = 0; again < 2; again++) {
            CHECK(!siltstone_iterator_next(records, &err) && failed(SILTSTONE_ERROR_CLOSED, ""));
            CHECK(siltstone_iterator_key(records, NULL) == NULL);
        }
        siltstone_iterator_destroy(records);
    }
    CHECK(!siltstone_iterator_next(ended, &err) && err == NULL);
    siltstone_iterator_destroy(ended);
    CHECK(siltstone_snapshot_get(snapshot, "c", 1, NULL, &err) == NULL && failed(SILTSTONE_ERROR_CLOSED, ""));
    siltstone_snapshot_destroy(snapshot);
    CHECK(siltstone_destroy(in("ordered"), &err));
}

static void memory(void) {
    const char *settings[][2] = {{"engine", "mica"}, {"memory_budget", "16MiB"}, {"eviction", "lru"}};
    siltstone_t *db = open_with(NULL, settings, 3);
    CHECK(db != NULL && siltstone_put(db, "k", 1, "v", 1, &err) && has(db, "k", "v"));
    CHECK(!siltstone_checkpoint(db, in("copy2"), &err) && failed(SILTSTONE_ERROR_UNSUPPORTED, "mica"));
    CHECK(siltstone_close(db, &err) && err == NULL);
}

static void dictionaries(void) {
    const void *keys[2] = {"Chad", "Rome"};
    size_t lengths[2] = {4, 4}, length;
    char *values[2], rows[2][4], buffer[4];
    bool flags[2], intact = false;
    siltstone_options_t *options = siltstone_options_create();
    siltstone_options_set(options, "fixed", "4, 4");
    siltstone_options_set(options, "refuse_duplicates", "true");
    siltstone_options_set(options, "memory_bytes", "1MiB");
    siltstone_options_set(options, "block_bytes", "4KiB");
    siltstone_dictionary_writer_t *writer = siltstone_dictionary_create(in("d"), options, &err);
    CHECK(writer != NULL && siltstone_dictionary_writer_put(writer, "Chad", 4, "Ndja", 4, &err));
    CHECK(!siltstone_dictionary_writer_put(writer, "Chad", 4, "N", 1, &err) && failed(SILTSTONE_ERROR_ARGUMENT, "4"));
    CHECK(siltstone_dictionary_writer_put(writer, "Peru", 4, "Lima", 4, &err));
    siltstone_dictionary_t *d = siltstone_dictionary_writer_finish(writer, &err);
    CHECK(d != NULL && siltstone_dictionary_length(d, &err) == 2 && siltstone_dictionary_index_bytes(d, &err) < 100);
    CHECK(is(siltstone_dictionary_get(d, "Peru", 4, &length, &err), &length, "Lima"));
    CHECK(siltstone_dictionary_get(d, "Rome", 4, &length, &err) == NULL && err == NULL);
    CHECK(siltstone_dictionary_get_into(d, "Peru", 4, buffer, 4, &length, &err) && memcmp(buffer, "Lima", 4) == 0);
    CHECK(siltstone_dictionary_get_many(d, keys, lengths, 2, values, lengths, &err));
    CHECK(is(values[0], &lengths[0], "Ndja") && values[1] == NULL);
    lengths[1] = 4;
    CHECK(siltstone_dictionary_contains_many(d, keys, lengths, 2, flags, &err) && flags[0] && !flags[1]);
    CHECK(siltstone_dictionary_get_rows(d, "RomePeru", 4, 2, rows, 4, flags, &err) && !flags[0] && flags[1]);
    CHECK(memcmp(rows[1], "Lima", 4) == 0 && count(siltstone_dictionary_iterate(d, &err)) == 2);
    CHECK(contains_text(siltstone_dictionary_verify(d, NULL, NULL, &intact, &err), "\"live_records\":2") && intact);
    CHECK(siltstone_dictionary_reindex(in("d"), "dense_trie", &err));
    CHECK(!siltstone_dictionary_reindex(in("d"), "magic", &err) && failed(SILTSTONE_ERROR_ARGUMENT, "sparse_trie"));

    writer = siltstone_dictionary_update(d, in("d2"), NULL, &err);
    siltstone_dictionary_close(d);
    CHECK(siltstone_dictionary_writer_delete(writer, "Chad", 4, &err));
    siltstone_dictionary_close(siltstone_dictionary_writer_finish(writer, &err));
    CHECK(siltstone_dictionary_open(in("d2"), options, &err) == NULL && failed(SILTSTONE_ERROR_ARGUMENT, "without_index"));
    siltstone_options_destroy(options);
    d = siltstone_dictionary_open(in("d2"), NULL, &err);
    CHECK(d != NULL && siltstone_dictionary_length(d, &err) == 1);
    siltstone_dictionary_close(d);
    siltstone_dictionary_writer_destroy(siltstone_dictionary_create(in("d3"), NULL, &err));
    CHECK(siltstone_dictionary_open(in("d3"), NULL, &err) == NULL && failed(SILTSTONE_ERROR_NOT_FOUND, "d3"));
    CHECK(siltstone_dictionary_writer_finish(NULL, &err) == NULL && failed(SILTSTONE_ERROR_ARGUMENT, "NULL"));
    const char *impossible[][3] = {{"memory_bytes", "64MB", "64KiB"}, {"block_bytes", "4k", "bytes"},
                                   {"fixed", "4", "20,44"}, {"hashed_keys", "yes", "true"},
                                   {"index", "magic", "fences"}, {"memory_byte", "1MiB", "memory_bytes"}};
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
        siltstone_options_t *refused = siltstone_options_create();
        siltstone_options_set(refused, impossible[i][0], impossible[i][1]);
        CHECK(siltstone_dictionary_create(in("d3"), refused, &err) == NULL);
        CHECK(failed(SILTSTONE_ERROR_ARGUMENT, impossible[i][2]));
        siltstone_options_destroy(refused);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2 && strlen(argv[1]) < sizeof directory);
    strcpy(directory, argv[1]);
    errors();
    silt();
    ordered_ranges();
    memory();
    dictionaries();
    CHECK(err == NULL);
    puts("interface: ok");
    return 0;
}

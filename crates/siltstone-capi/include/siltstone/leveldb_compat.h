/*
 * The names of leveldb/c.h over Siltstone.
 *
 * Include this file in place of leveldb/c.h, or compile with -I for the directory that it is in, which has a
 * leveldb/c.h, and link with siltstone. Databases are made by the engine flashkey with its setting ordered. A program
 * that does not need the order of the keys may define SILTSTONE_LEVELDB_UNORDERED before, for the default engine, which
 * takes less memory: iterators then return all records, in no order of the keys, and a call that needs the order does
 * not compile. Settings without a counterpart have no effect, and the compiler warns of them; define
 * SILTSTONE_LEVELDB_QUIET to silence it. docs/C.md has the table.
 */

#ifndef SILTSTONE_LEVELDB_COMPAT_H
#define SILTSTONE_LEVELDB_COMPAT_H

#include "../siltstone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__GNUC__) && !defined(SILTSTONE_LEVELDB_QUIET)
#define SILTSTONE_NO_EFFECT __attribute__((deprecated("this setting has no effect with Siltstone")))
#else
#define SILTSTONE_NO_EFFECT
#endif

#if !defined(SILTSTONE_LEVELDB_UNORDERED)
#define SILTSTONE_IN_ORDER static inline
#define SILTSTONE_OF_BLOCKS SILTSTONE_NO_EFFECT
#else
#define SILTSTONE_OF_BLOCKS
#if defined(__GNUC__)
#define SILTSTONE_IN_ORDER __attribute__((error("no order of the keys: SILTSTONE_LEVELDB_UNORDERED is defined")))
#else
#define SILTSTONE_IN_ORDER
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef siltstone_t leveldb_t;
typedef siltstone_batch_t leveldb_writebatch_t;
typedef siltstone_snapshot_t leveldb_snapshot_t;

/* The memory besides the record cache that a database with a cache may use, in bytes. */
#define SILTSTONE_LEVELDB_MEMORY ((size_t)16 << 20)

typedef struct leveldb_cache_t {
    size_t capacity;
} leveldb_cache_t;

typedef struct leveldb_filterpolicy_t {
    int bits_per_key;
    void *state;
    void (*destructor)(void *);
} leveldb_filterpolicy_t;

typedef struct leveldb_comparator_t {
    void *state;
    void (*destructor)(void *);
    const char *(*name)(void *);
} leveldb_comparator_t;

typedef struct leveldb_env_t {
    char is_default;
} leveldb_env_t;

/* LevelDB has no function that makes one. */
typedef struct leveldb_logger_t leveldb_logger_t;

typedef struct leveldb_options_t {
    bool create_if_missing;
    bool error_if_exists;
    int max_open_files;
    size_t block_size;
    size_t cache_bytes;
    int bits_per_key;
    const leveldb_comparator_t *comparator;
} leveldb_options_t;

typedef struct leveldb_readoptions_t {
    const leveldb_snapshot_t *snapshot;
} leveldb_readoptions_t;

typedef struct leveldb_writeoptions_t {
    uint32_t durability;
} leveldb_writeoptions_t;

typedef struct leveldb_iterator_t {
    siltstone_iterator_t *records;
    bool valid;
    char *error;
    leveldb_snapshot_t *own;
    const leveldb_snapshot_t *snapshot;
} leveldb_iterator_t;

enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };

#define SILTSTONE_LEVELDB_NEW(type) ((type *)calloc(1, sizeof(type)))

/* Stores a copy of a message, with the byte of its kind behind the zero. */
static inline void siltstone_leveldb_refuse(char **errptr, const char *message) {
    size_t length = strlen(message);
    char *copy = errptr != NULL ? (char *)malloc(length + 2) : NULL;
    if (copy == NULL) return;
    memcpy(copy, message, length + 1);
    copy[length + 1] = SILTSTONE_ERROR_ARGUMENT;
    siltstone_free(*errptr);
    *errptr = copy;
}

/* Opening and closing. */

static inline void siltstone_leveldb_set(siltstone_options_t *to, const char *name, size_t value) {
    char text[32];
    snprintf(text, sizeof text, "%zu", value);
    siltstone_options_set(to, name, text);
}

static inline leveldb_t *leveldb_open(const leveldb_options_t *options, const char *name, char **errptr) {
    siltstone_options_t *with = siltstone_options_create();
    leveldb_t *opened;
    if (options->comparator != NULL) {
        const char *order = options->comparator->name(options->comparator->state);
        if (strcmp(order, "leveldb.BytewiseComparator") != 0) {
            char text[300];
            snprintf(text, sizeof text, "the comparator \"%.100s\" cannot be used: keys are in the order of their bytes", order);
            siltstone_options_destroy(with);
            siltstone_leveldb_refuse(errptr, text);
            return NULL;
        }
    }
    if (options->error_if_exists) {
        siltstone_options_set(with, "read_only", "true");
        opened = siltstone_open(name, with, NULL);
        siltstone_options_destroy(with);
        if (opened != NULL) {
            siltstone_close(opened, NULL);
            siltstone_leveldb_refuse(errptr, "the database exists, and error_if_exists is set");
            return NULL;
        }
        with = siltstone_options_create();
    }
    siltstone_options_set(with, "create", options->create_if_missing ? "true" : "false");
    if (options->max_open_files > 0) {
        siltstone_leveldb_set(with, "open_files_max",
                              options->max_open_files < 64 ? 64 : (size_t)options->max_open_files);
    }
    if (options->cache_bytes > 0) {
        siltstone_leveldb_set(with, "memory_budget", options->cache_bytes + SILTSTONE_LEVELDB_MEMORY);
    }
#ifndef SILTSTONE_LEVELDB_UNORDERED
    siltstone_options_set(with, "engine", "flashkey");
    siltstone_options_set(with, "ordered", "true");
#else
    if (options->block_size > 0) {
        size_t bytes = 512;
        while (bytes < options->block_size && bytes < 65536) bytes *= 2;
        siltstone_leveldb_set(with, "block_bytes", bytes);
    }
    if (options->bits_per_key > 0) {
        siltstone_leveldb_set(with, "filter_last_store",
                              options->bits_per_key > 32 ? 32 : (size_t)options->bits_per_key);
    }
#endif
    opened = siltstone_open(name, with, errptr);
    siltstone_options_destroy(with);
    return opened;
}

static inline void leveldb_close(leveldb_t *db) { siltstone_close(db, NULL); }

static inline void leveldb_destroy_db(const leveldb_options_t *options, const char *name, char **errptr) {
    char *error = NULL;
    (void)options;
    if (!siltstone_destroy(name, &error) && siltstone_error_code(error) != SILTSTONE_ERROR_NOT_FOUND &&
        errptr != NULL) {
        siltstone_free(*errptr);
        *errptr = error;
        return;
    }
    siltstone_free(error);
}

static inline void leveldb_repair_db(const leveldb_options_t *options, const char *name, char **errptr) {
    (void)options;
    siltstone_free(siltstone_repair(name, NULL, NULL, errptr));
}

static inline void leveldb_free(void *pointer) { siltstone_free(pointer); }

/* The version of LevelDB whose interface this is. */
static inline int leveldb_major_version(void) { return 1; }
static inline int leveldb_minor_version(void) { return 23; }

/* Reading and writing. */

static inline void leveldb_put(leveldb_t *db, const leveldb_writeoptions_t *options, const char *key,
                               size_t keylen, const char *val, size_t vallen, char **errptr) {
    siltstone_put_with(db, key, keylen, val, vallen, options->durability, 0, errptr);
}

static inline void leveldb_delete(leveldb_t *db, const leveldb_writeoptions_t *options, const char *key,
                                  size_t keylen, char **errptr) {
    siltstone_delete_with(db, key, keylen, options->durability, errptr);
}

static inline void leveldb_write(leveldb_t *db, const leveldb_writeoptions_t *options,
                                 leveldb_writebatch_t *batch, char **errptr) {
    siltstone_write(db, batch, options->durability, errptr);
}

static inline char *leveldb_get(leveldb_t *db, const leveldb_readoptions_t *options, const char *key,
                                size_t keylen, size_t *vallen, char **errptr) {
    return options->snapshot != NULL ? siltstone_snapshot_get(options->snapshot, key, keylen, vallen, errptr)
                                     : siltstone_get(db, key, keylen, vallen, errptr);
}

/* NULL on an error, for which LevelDB has no place. */
static inline const leveldb_snapshot_t *leveldb_create_snapshot(leveldb_t *db) {
    return siltstone_snapshot_create(db, NULL);
}

static inline void leveldb_release_snapshot(leveldb_t *db, const leveldb_snapshot_t *snapshot) {
    (void)db;
    siltstone_snapshot_destroy((leveldb_snapshot_t *)snapshot);
}

/* "leveldb.stats" is one line of JSON. There are no other properties. */
static inline char *leveldb_property_value(leveldb_t *db, const char *propname) {
    return strcmp(propname, "leveldb.stats") == 0 ? siltstone_stats_json(db, NULL) : NULL;
}

/* Compacts all records, also for a range. */
static inline void leveldb_compact_range(leveldb_t *db, const char *start_key, size_t start_key_len,
                                         const char *limit_key, size_t limit_key_len) {
    (void)start_key, (void)start_key_len, (void)limit_key, (void)limit_key_len;
    siltstone_compact(db, NULL);
}

/* Iterators: over the records of the moment when they were made, or of a snapshot. */

static inline leveldb_iterator_t *leveldb_create_iterator(leveldb_t *db,
                                                          const leveldb_readoptions_t *options) {
    leveldb_iterator_t *it = SILTSTONE_LEVELDB_NEW(leveldb_iterator_t);
    const leveldb_snapshot_t *snapshot = options->snapshot;
    if (it == NULL) return NULL;
    if (snapshot == NULL) snapshot = it->own = siltstone_snapshot_create(db, &it->error);
#ifdef SILTSTONE_LEVELDB_UNORDERED
    it->snapshot = snapshot;
#else
    if (snapshot != NULL) it->records = siltstone_snapshot_iterate_ordered(snapshot, &it->error);
    /* The iterator has what it needs of it. */
    siltstone_snapshot_destroy(it->own);
    it->own = NULL;
#endif
    return it;
}

static inline void leveldb_iter_destroy(leveldb_iterator_t *it) {
    siltstone_iterator_destroy(it->records);
    siltstone_snapshot_destroy(it->own);
    siltstone_free(it->error);
    free(it);
}

static inline unsigned char leveldb_iter_valid(const leveldb_iterator_t *it) { return it->valid; }

static inline void leveldb_iter_next(leveldb_iterator_t *it) {
    it->valid = siltstone_iterator_next(it->records, &it->error);
}

#ifndef SILTSTONE_LEVELDB_UNORDERED

SILTSTONE_IN_ORDER void leveldb_iter_seek(leveldb_iterator_t *it, const char *k, size_t klen) {
    /* The lowest key: an empty one is none of Siltstone. */
    it->valid = it->records != NULL && siltstone_iterator_seek(it->records, klen > 0 ? k : NULL, klen, &it->error);
}

static inline void leveldb_iter_seek_to_first(leveldb_iterator_t *it) { leveldb_iter_seek(it, NULL, 0); }

SILTSTONE_IN_ORDER void leveldb_iter_seek_to_last(leveldb_iterator_t *it) {
    it->valid = it->records != NULL && siltstone_iterator_seek_last(it->records, &it->error);
}

SILTSTONE_IN_ORDER void leveldb_iter_prev(leveldb_iterator_t *it) {
    it->valid = siltstone_iterator_previous(it->records, &it->error);
}

/* The bytes of the keys and values of each range, which are read. */
SILTSTONE_IN_ORDER void leveldb_approximate_sizes(leveldb_t *db, int num_ranges, const char *const *range_start_key,
                                                  const size_t *range_start_key_len,
                                                  const char *const *range_limit_key,
                                                  const size_t *range_limit_key_len, uint64_t *sizes) {
    int i;
    for (i = 0; i < num_ranges; i++) {
        siltstone_iterator_t *records =
            siltstone_range(db, range_start_key[i], range_start_key_len[i], range_limit_key[i],
                            range_limit_key_len[i], false, 0, NULL);
        sizes[i] = 0;
        while (records != NULL && siltstone_iterator_next(records, NULL)) {
            size_t klen, vlen;
            siltstone_iterator_key(records, &klen);
            siltstone_iterator_value(records, &vlen);
            sizes[i] += klen + vlen;
        }
        siltstone_iterator_destroy(records);
    }
}

#else

static inline void leveldb_iter_seek_to_first(leveldb_iterator_t *it) {
    siltstone_iterator_destroy(it->records);
    it->valid = false;
    it->records = it->snapshot != NULL ? siltstone_snapshot_iterate(it->snapshot, &it->error) : NULL;
    if (it->records != NULL) leveldb_iter_next(it);
}

SILTSTONE_IN_ORDER void leveldb_iter_seek(leveldb_iterator_t *it, const char *k, size_t klen);
SILTSTONE_IN_ORDER void leveldb_iter_seek_to_last(leveldb_iterator_t *it);
SILTSTONE_IN_ORDER void leveldb_iter_prev(leveldb_iterator_t *it);
SILTSTONE_IN_ORDER void leveldb_approximate_sizes(leveldb_t *db, int num_ranges, const char *const *range_start_key,
                                                  const size_t *range_start_key_len,
                                                  const char *const *range_limit_key,
                                                  const size_t *range_limit_key_len, uint64_t *sizes);

#endif

static inline const char *leveldb_iter_key(const leveldb_iterator_t *it, size_t *klen) {
    return siltstone_iterator_key(it->records, klen);
}

static inline const char *leveldb_iter_value(const leveldb_iterator_t *it, size_t *vlen) {
    return siltstone_iterator_value(it->records, vlen);
}

static inline void leveldb_iter_get_error(const leveldb_iterator_t *it, char **errptr) {
    if (it->error != NULL && errptr != NULL) {
        /* With the byte of the kind behind the zero. */
        size_t bytes = strlen(it->error) + 2;
        char *copy = (char *)malloc(bytes);
        if (copy != NULL) memcpy(copy, it->error, bytes);
        siltstone_free(*errptr);
        *errptr = copy;
    }
}

/* Batches. */

static inline leveldb_writebatch_t *leveldb_writebatch_create(void) { return siltstone_batch_create(); }
static inline void leveldb_writebatch_destroy(leveldb_writebatch_t *b) { siltstone_batch_destroy(b); }
static inline void leveldb_writebatch_clear(leveldb_writebatch_t *b) { siltstone_batch_clear(b); }

static inline void leveldb_writebatch_put(leveldb_writebatch_t *b, const char *key, size_t klen,
                                          const char *val, size_t vlen) {
    siltstone_batch_put(b, key, klen, val, vlen, 0);
}

static inline void leveldb_writebatch_delete(leveldb_writebatch_t *b, const char *key, size_t klen) {
    siltstone_batch_delete(b, key, klen);
}

static inline void leveldb_writebatch_append(leveldb_writebatch_t *to, const leveldb_writebatch_t *from) {
    siltstone_batch_append(to, from);
}

struct siltstone_leveldb_visit {
    void *state;
    void (*put)(void *, const char *, size_t, const char *, size_t);
    void (*deleted)(void *, const char *, size_t);
};

static inline void siltstone_leveldb_put(void *state, const char *key, size_t klen, const char *val,
                                         size_t vlen, uint64_t expires_at_ms) {
    const struct siltstone_leveldb_visit *to = (const struct siltstone_leveldb_visit *)state;
    (void)expires_at_ms;
    to->put(to->state, key, klen, val, vlen);
}

static inline void siltstone_leveldb_deleted(void *state, const char *key, size_t klen) {
    const struct siltstone_leveldb_visit *to = (const struct siltstone_leveldb_visit *)state;
    to->deleted(to->state, key, klen);
}

static inline void leveldb_writebatch_iterate(const leveldb_writebatch_t *b, void *state,
                                              void (*put)(void *, const char *, size_t, const char *, size_t),
                                              void (*deleted)(void *, const char *, size_t)) {
    struct siltstone_leveldb_visit to;
    to.state = state, to.put = put, to.deleted = deleted;
    siltstone_batch_iterate(b, &to, siltstone_leveldb_put, siltstone_leveldb_deleted);
}

/* Options. */

static inline leveldb_options_t *leveldb_options_create(void) {
    return SILTSTONE_LEVELDB_NEW(leveldb_options_t);
}
static inline void leveldb_options_destroy(leveldb_options_t *o) { free(o); }
static inline void leveldb_options_set_create_if_missing(leveldb_options_t *o, unsigned char v) {
    o->create_if_missing = v != 0;
}
static inline void leveldb_options_set_error_if_exists(leveldb_options_t *o, unsigned char v) {
    o->error_if_exists = v != 0;
}
/* At least 64. */
static inline void leveldb_options_set_max_open_files(leveldb_options_t *o, int n) { o->max_open_files = n; }
/* The next power of two from 512 to 65,536, fixed when the database is created. The engine flashkey has no blocks. */
SILTSTONE_OF_BLOCKS static inline void leveldb_options_set_block_size(leveldb_options_t *o, size_t n) { o->block_size = n; }
/* The memory budget is the capacity and SILTSTONE_LEVELDB_MEMORY. */
static inline void leveldb_options_set_cache(leveldb_options_t *o, leveldb_cache_t *c) {
    o->cache_bytes = c != NULL ? c->capacity : 0;
}
/* With SILTSTONE_LEVELDB_UNORDERED the setting filter_last_store. The index of flashkey has every key. */
static inline void leveldb_options_set_filter_policy(leveldb_options_t *o, leveldb_filterpolicy_t *p) {
    o->bits_per_key = p != NULL ? p->bits_per_key : 0;
}
/* There is one environment. */
static inline void leveldb_options_set_env(leveldb_options_t *o, leveldb_env_t *e) { (void)o, (void)e; }
/* The program can only have NULL. */
static inline void leveldb_options_set_info_log(leveldb_options_t *o, leveldb_logger_t *l) {
    (void)o, (void)l;
}
/* Everything is always checked. */
static inline void leveldb_options_set_paranoid_checks(leveldb_options_t *o, unsigned char v) {
    (void)o, (void)v;
}
SILTSTONE_NO_EFFECT static inline void leveldb_options_set_write_buffer_size(leveldb_options_t *o, size_t n) {
    (void)o, (void)n;
}
SILTSTONE_NO_EFFECT static inline void leveldb_options_set_block_restart_interval(leveldb_options_t *o, int n) {
    (void)o, (void)n;
}
SILTSTONE_NO_EFFECT static inline void leveldb_options_set_max_file_size(leveldb_options_t *o, size_t n) {
    (void)o, (void)n;
}
SILTSTONE_NO_EFFECT static inline void leveldb_options_set_compression(leveldb_options_t *o, int kind) {
    (void)o, (void)kind;
}

static inline leveldb_readoptions_t *leveldb_readoptions_create(void) {
    return SILTSTONE_LEVELDB_NEW(leveldb_readoptions_t);
}
static inline void leveldb_readoptions_destroy(leveldb_readoptions_t *o) { free(o); }
static inline void leveldb_readoptions_set_snapshot(leveldb_readoptions_t *o, const leveldb_snapshot_t *s) {
    o->snapshot = s;
}
/* Checksums are always verified. */
static inline void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t *o, unsigned char v) {
    (void)o, (void)v;
}
SILTSTONE_NO_EFFECT static inline void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t *o,
                                                                         unsigned char v) {
    (void)o, (void)v;
}

static inline leveldb_writeoptions_t *leveldb_writeoptions_create(void) {
    leveldb_writeoptions_t *o = SILTSTONE_LEVELDB_NEW(leveldb_writeoptions_t);
    if (o != NULL) o->durability = SILTSTONE_DURABILITY_WRITTEN;
    return o;
}
static inline void leveldb_writeoptions_destroy(leveldb_writeoptions_t *o) { free(o); }
static inline void leveldb_writeoptions_set_sync(leveldb_writeoptions_t *o, unsigned char v) {
    o->durability = v ? SILTSTONE_DURABILITY_SYNCED : SILTSTONE_DURABILITY_WRITTEN;
}

static inline leveldb_cache_t *leveldb_cache_create_lru(size_t capacity) {
    leveldb_cache_t *c = SILTSTONE_LEVELDB_NEW(leveldb_cache_t);
    if (c != NULL) c->capacity = capacity;
    return c;
}
static inline void leveldb_cache_destroy(leveldb_cache_t *c) { free(c); }

static inline leveldb_filterpolicy_t *leveldb_filterpolicy_create_bloom(int bits_per_key) {
    leveldb_filterpolicy_t *p = SILTSTONE_LEVELDB_NEW(leveldb_filterpolicy_t);
    if (p != NULL) p->bits_per_key = bits_per_key;
    return p;
}
/* Its filter is never made: a filter only saves reads. */
SILTSTONE_NO_EFFECT static inline leveldb_filterpolicy_t *leveldb_filterpolicy_create(
    void *state, void (*destructor)(void *),
    char *(*create_filter)(void *, const char *const *, const size_t *, int, size_t *),
    unsigned char (*key_may_match)(void *, const char *, size_t, const char *, size_t),
    const char *(*name)(void *)) {
    leveldb_filterpolicy_t *p = SILTSTONE_LEVELDB_NEW(leveldb_filterpolicy_t);
    (void)create_filter, (void)key_may_match, (void)name;
    if (p != NULL) p->state = state, p->destructor = destructor;
    return p;
}
static inline void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t *p) {
    if (p != NULL && p->destructor != NULL) p->destructor(p->state);
    free(p);
}

/* Keys are in the order of their bytes: a database opens only with the comparator "leveldb.BytewiseComparator". */
static inline leveldb_comparator_t *leveldb_comparator_create(
    void *state, void (*destructor)(void *),
    int (*compare)(void *, const char *, size_t, const char *, size_t), const char *(*name)(void *)) {
    leveldb_comparator_t *c = SILTSTONE_LEVELDB_NEW(leveldb_comparator_t);
    (void)compare;
    if (c != NULL) c->state = state, c->destructor = destructor, c->name = name;
    return c;
}
static inline void leveldb_comparator_destroy(leveldb_comparator_t *c) {
    if (c != NULL && c->destructor != NULL) c->destructor(c->state);
    free(c);
}
static inline void leveldb_options_set_comparator(leveldb_options_t *o, leveldb_comparator_t *c) {
    o->comparator = c;
}

static inline leveldb_env_t *leveldb_create_default_env(void) { return SILTSTONE_LEVELDB_NEW(leveldb_env_t); }
static inline void leveldb_env_destroy(leveldb_env_t *e) { free(e); }

/* The directory that $TEST_TMPDIR names, or one below /tmp. It is created; the caller frees its name. */
static inline char *leveldb_env_get_test_directory(leveldb_env_t *e) {
    const char *given = getenv("TEST_TMPDIR");
    char text[64];
    size_t bytes;
    char *name;
    (void)e;
    snprintf(text, sizeof text, "/tmp/siltstone-test-%lu", (unsigned long)geteuid());
    if (given == NULL || *given == 0) given = text;
    bytes = strlen(given) + 1;
    name = (char *)malloc(bytes);
    if (name == NULL) return NULL;
    mkdir(given, 0755);
    return (char *)memcpy(name, given, bytes);
}

#ifdef __cplusplus
}
#endif

#endif

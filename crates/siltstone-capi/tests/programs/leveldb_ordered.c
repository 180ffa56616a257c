/* A program as one for leveldb/c.h that iterates in the order of the keys: the cases of LevelDB's own test of its C interface
 * for seeking, going back, approximate sizes, comparators and filters of the program, and the calls of Go's levigo. */

#define SILTSTONE_LEVELDB_QUIET
#include "leveldb/c.h"

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, err != NULL ? err : "");     \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static char *err;
static leveldb_t *db;
static leveldb_options_t *options;
static leveldb_readoptions_t *reading;
static leveldb_writeoptions_t *writing;

static void put(const char *key, const char *value) {
    leveldb_put(db, writing, key, strlen(key), value, strlen(value), &err);
    CHECK(err == NULL);
}

/* Whether the iterator is at a record; NULL for none. */
static bool at(const leveldb_iterator_t *it, const char *key, const char *value) {
    size_t klen, vlen;
    const char *own;
    leveldb_iter_get_error(it, &err);
    CHECK(err == NULL);
    if (key == NULL || !leveldb_iter_valid(it)) return key == NULL && !leveldb_iter_valid(it);
    own = leveldb_iter_key(it, &klen);
    if (klen != strlen(key) || memcmp(own, key, klen) != 0) return false;
    own = leveldb_iter_value(it, &vlen);
    return vlen == strlen(value) && memcmp(own, value, vlen) == 0;
}

static void iterate(void) {
    leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
    CHECK(!leveldb_iter_valid(it));
    leveldb_iter_seek_to_first(it);
    CHECK(at(it, "box", "c"));
    leveldb_iter_next(it);
    CHECK(at(it, "foo", "hello"));
    leveldb_iter_prev(it);
    CHECK(at(it, "box", "c"));
    leveldb_iter_prev(it);
    CHECK(at(it, NULL, NULL));
    leveldb_iter_seek_to_last(it);
    CHECK(at(it, "foo", "hello"));
    leveldb_iter_prev(it);
    leveldb_iter_next(it);
    CHECK(at(it, "foo", "hello"));
    leveldb_iter_next(it);
    CHECK(at(it, NULL, NULL));
    leveldb_iter_seek(it, "b", 1);
    CHECK(at(it, "box", "c"));
    leveldb_iter_seek(it, "box", 3);
    CHECK(at(it, "box", "c"));
    leveldb_iter_seek(it, "boxe", 4);
    CHECK(at(it, "foo", "hello"));
    leveldb_iter_seek(it, "zzz", 3);
    CHECK(at(it, NULL, NULL));
    leveldb_iter_seek(it, "", 0);
    CHECK(at(it, "box", "c"));
    leveldb_iter_destroy(it);
}

/* Walks to and fro over 100 keys, as a counter says. */
static void walk(void) {
    char key[8];
    unsigned random = 1;
    int position = 0;
    leveldb_iterator_t *it;
    for (int number = 0; number < 100; number++) {
        snprintf(key, sizeof key, "n%03d", number);
        put(key, key);
    }
    it = leveldb_create_iterator(db, reading);
    leveldb_iter_seek(it, "n000", 4);
    for (int step = 0; step < 500; step++) {
        random = random * 1103515245u + 12345u;
        switch (random >> 16 & 3) {
        case 0:
            if (position < 99) leveldb_iter_next(it), position++;
            break;
        case 1:
            if (position > 0) leveldb_iter_prev(it), position--;
            break;
        default:
            position = (int)(random >> 18) % 100;
            snprintf(key, sizeof key, "n%03d", position);
            leveldb_iter_seek(it, key, 4);
        }
        snprintf(key, sizeof key, "n%03d", position);
        CHECK(at(it, key, key));
    }
    leveldb_iter_destroy(it);
}

static void sizes(void) {
    const char *start[2] = {"a", "k00000000000000010000"}, *limit[2] = {"k00000000000000010000", "z"};
    size_t start_length[2] = {1, 21}, limit_length[2] = {21, 1};
    uint64_t bytes[2] = {7, 7};
    char key[100], value[100];
    for (int number = 0; number < 20000; number++) {
        snprintf(key, sizeof key, "k%020d", number);
        snprintf(value, sizeof value, "v%020d", number);
        put(key, value);
    }
    leveldb_approximate_sizes(db, 2, start, start_length, limit, limit_length, bytes);
    CHECK(bytes[0] > 5000 && bytes[1] > 5000);
    start[0] = "y", limit[0] = "z", limit_length[0] = 1;
    leveldb_approximate_sizes(db, 1, start, start_length, limit, limit_length, bytes);
    CHECK(bytes[0] == 0);
}

static int compare(void *state, const char *a, size_t alen, const char *b, size_t blen) {
    (void)state, (void)a, (void)alen, (void)b, (void)blen;
    return 0;
}

static int destroyed;
static void destructor(void *state) { destroyed += *(int *)state; }
static const char *own_name(void *state) { return (void)state, "of the program"; }
static const char *bytewise_name(void *state) { return (void)state, "leveldb.BytewiseComparator"; }
static char *make_filter(void *state, const char *const *keys, const size_t *lengths, int count, size_t *length) {
    (void)state, (void)keys, (void)lengths, (void)count;
    *length = 0;
    return NULL;
}
static unsigned char may_match(void *state, const char *key, size_t klen, const char *filter, size_t flen) {
    return (void)state, (void)key, (void)klen, (void)filter, (void)flen, 0;
}

static void comparators_and_filters(const char *path) {
    int one = 1, two = 2;
    leveldb_comparator_t *own = leveldb_comparator_create(&one, destructor, compare, own_name);
    leveldb_comparator_t *bytewise = leveldb_comparator_create(&one, destructor, compare, bytewise_name);
    leveldb_filterpolicy_t *filter = leveldb_filterpolicy_create(&two, destructor, make_filter, may_match, own_name);
    leveldb_options_set_comparator(options, own);
    CHECK(leveldb_open(options, path, &err) == NULL && err != NULL && strstr(err, "of the program") != NULL);
    leveldb_free(err);
    err = NULL;
    leveldb_options_set_comparator(options, bytewise);
    leveldb_options_set_filter_policy(options, filter);
    db = leveldb_open(options, path, &err);
    CHECK(db != NULL);
    put("box", "c");
    put("foo", "hello");
    iterate();
    leveldb_options_set_comparator(options, NULL);
    leveldb_options_set_filter_policy(options, NULL);
    leveldb_comparator_destroy(own);
    leveldb_comparator_destroy(bytewise);
    leveldb_filterpolicy_destroy(filter);
    CHECK(destroyed == 4);
}

/* An iterator has the records of the moment when it was made, or of its snapshot, wherever it goes. */
static void snapshots(void) {
    const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(db);
    leveldb_iterator_t *it;
    put("between", "1");
    it = leveldb_create_iterator(db, reading);
    leveldb_delete(db, writing, "box", 3, &err);
    put("foo", "later");
    put("zone", "later");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_iter_seek(it, "c", 1);
    CHECK(at(it, "foo", "hello"));
    leveldb_iter_prev(it);
    CHECK(at(it, "box", "c"));
    leveldb_iter_prev(it);
    CHECK(at(it, "between", "1"));
    leveldb_iter_seek_to_last(it);
    CHECK(at(it, "foo", "hello"));
    leveldb_iter_destroy(it);
    leveldb_readoptions_set_snapshot(reading, snapshot);
    iterate();
    it = leveldb_create_iterator(db, reading);
    leveldb_readoptions_set_snapshot(reading, NULL);
    leveldb_release_snapshot(db, snapshot);
    leveldb_iter_seek_to_last(it);
    CHECK(at(it, "foo", "hello"));
    leveldb_iter_prev(it);
    CHECK(at(it, "box", "c"));
    leveldb_iter_destroy(it);
    it = leveldb_create_iterator(db, reading);
    leveldb_iter_seek_to_first(it);
    CHECK(at(it, "between", "1"));
    leveldb_iter_next(it);
    CHECK(at(it, "foo", "later"));
    leveldb_iter_destroy(it);
}

static void after_close(void) {
    leveldb_iterator_t *it = leveldb_create_iterator(db, reading);
    leveldb_iter_seek_to_first(it);
    CHECK(leveldb_iter_valid(it));
    leveldb_close(db);
    leveldb_iter_next(it);
    CHECK(!leveldb_iter_valid(it));
    leveldb_iter_get_error(it, &err);
    CHECK(siltstone_error_code(err) == SILTSTONE_ERROR_CLOSED);
    leveldb_free(err);
    err = NULL;
    leveldb_iter_destroy(it);
}

int main(int argc, char **argv) {
    leveldb_cache_t *cache = leveldb_cache_create_lru(64 << 20);
    CHECK(argc == 2);
    options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_cache(options, cache);
    leveldb_options_set_write_buffer_size(options, 100000);
    reading = leveldb_readoptions_create();
    writing = leveldb_writeoptions_create();

    comparators_and_filters(argv[1]);
    snapshots();
    walk();
    sizes();
    after_close();

    leveldb_destroy_db(options, argv[1], &err);
    leveldb_readoptions_destroy(reading);
    leveldb_writeoptions_destroy(writing);
    leveldb_options_destroy(options);
    leveldb_cache_destroy(cache);
    puts("leveldb_ordered: ok");
    return 0;
}

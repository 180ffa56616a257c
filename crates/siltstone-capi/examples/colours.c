/* A tour in C: open, put, get, a batch, a counter, all records. `docs/C.md` says how to compile it. */

#include <siltstone.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program on an error. */
static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

/* Adds one to a number of 8 bytes. No other write to the key comes in between. */
static bool increment(void *state, siltstone_update_t *records) {
    uint64_t count = 0;
    size_t length;
    const char *value = siltstone_update_value(records, 0, &length);
    (void)state;
    if (value != NULL) {
        if (length != sizeof count) return false;
        memcpy(&count, value, sizeof count);
    }
    count++;
    return siltstone_update_put(records, 0, &count, sizeof count, 0);
}

int main(int argc, char **argv) {
    char *error = NULL, *value;
    size_t length, key_length;
    siltstone_options_t *options = siltstone_options_create();
    siltstone_options_set(options, "memory_budget", "16MiB");
    siltstone_t *db = siltstone_open(argc > 1 ? argv[1] : "colours.db", options, &error);
    siltstone_options_destroy(options);
    check(error);

    siltstone_put(db, "rose", 4, "red", 3, &error);
    check(error);
    value = siltstone_get(db, "rose", 4, &length, &error);
    check(error);
    printf("a rose is %.*s\n", (int)length, value);
    siltstone_free(value);

    siltstone_batch_t *batch = siltstone_batch_create();
    siltstone_batch_put(batch, "violet", 6, "blue", 4, 0);
    siltstone_batch_put(batch, "dew", 3, "silver", 6, siltstone_expires_in_ms(3600 * 1000));
    siltstone_batch_delete(batch, "rose", 4);
    siltstone_write(db, batch, SILTSTONE_DURABILITY_SYNCED, &error);
    siltstone_batch_destroy(batch);
    check(error);

    for (int i = 0; i < 3; i++) siltstone_update(db, "visits", 6, 0, increment, NULL, &error);
    check(error);

    siltstone_iterator_t *records = siltstone_iterate(db, &error);
    check(error);
    int count = 0;
    while (siltstone_iterator_next(records, &error)) {
        const char *key = siltstone_iterator_key(records, &key_length);
        siltstone_iterator_value(records, &length);
        if (strncmp(key, "visits", key_length) != 0) count++;
    }
    siltstone_iterator_destroy(records);
    check(error);
    printf("%d colours\n", count);

    siltstone_close(db, &error);
    check(error);
    return 0;
}

/* A database of two directories: what handles a directory by its path handles both. */

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

static int count_all(const siltstone_t *db) {
    int found = 0;
    siltstone_iterator_t *records = siltstone_iterate(db, &err);
    while (siltstone_iterator_next(records, &err)) found++;
    siltstone_iterator_destroy(records);
    CHECK(err == NULL);
    return found;
}

static void two_directories(void) {
    CHECK(open_with(in("flash"), (const char *[][2]){{"engine", "flashstore"}}, 1) == NULL);
    CHECK(failed(SILTSTONE_ERROR_ARGUMENT, "or use the engine `flashkey`"));
    const char *settings[][2] = {
        {"engine", "flashstore"}, {"disk", in("disk")}, {"flash_bytes", "4MiB"}, {"segment_bytes", "128KiB"}};
    siltstone_t *db = open_with(in("flash"), settings, 4);
    bool intact = false;
    char key[16], value[500] = {'x'};
    CHECK(db != NULL);
    for (int number = 0; number < 20000; number++) {
        int length = snprintf(key, sizeof key, "%d", number);
        CHECK(siltstone_put(db, key, (size_t)length, value, sizeof value, &err));
    }
    CHECK(siltstone_checkpoint(db, in("both"), &err) && siltstone_close(db, &err));
    CHECK(contains_text(siltstone_verify_closed(in("both"), NULL, NULL, &intact, &err), "\"damage\":[]") && intact);
    CHECK(siltstone_destroy(in("flash"), &err));
    CHECK(open_with(in("disk"), (const char *[][2]){{"create", "false"}}, 1) == NULL);
    CHECK(failed(SILTSTONE_ERROR_NOT_FOUND, "disk"));
    siltstone_free(siltstone_repair(in("both"), NULL, NULL, &err));
    db = open_with(in("both"), (const char *[][2]){{"read_only", "true"}}, 1);
    CHECK(db != NULL && count_all(db) == 20000);
    CHECK(siltstone_close(db, &err) && siltstone_destroy(in("both"), &err));
}

int main(int argc, char **argv) {
    CHECK(argc == 2 && strlen(argv[1]) < sizeof directory);
    strcpy(directory, argv[1]);
    two_directories();
    puts("directories: ok");
    return 0;
}

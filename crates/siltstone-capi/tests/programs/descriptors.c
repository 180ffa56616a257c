/* A daemon that has closed its standard descriptors: no file of a database takes their numbers, and what is written to them
 * damages nothing. It says by its exit code which engine failed. */

#define _POSIX_C_SOURCE 200809L /* readlink */

#include <siltstone.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const ENGINES[] = {"silt", "flashkey", "flashstore", "bloomstore"};

/* Whether a descriptor is that of a file below the directory. */
static bool is_own(int descriptor, const char *directory) {
    char name[64], target[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(name, target, sizeof target - 1);
    if (length <= 0) return false;
    target[length] = 0;
    return strstr(target, directory) != NULL;
}

static siltstone_t *open_engine(const char *directory, const char *engine, const char *name) {
    char path[8192];
    siltstone_options_t *options = siltstone_options_create();
    siltstone_options_set(options, "engine", engine);
    if (strcmp(engine, "flashstore") == 0) {
        siltstone_options_set(options, "disk", "disk");
        siltstone_options_set(options, "flash_bytes", "4MiB");
        siltstone_options_set(options, "segment_bytes", "128KiB");
    }
    snprintf(path, sizeof path, "%s/%s-%s", directory, engine, name);
    siltstone_t *db = siltstone_open(path, options, NULL);
    siltstone_options_destroy(options);
    return db;
}

static bool is_safe(const char *directory, const char *engine) {
    siltstone_t *first = open_engine(directory, engine, "first"), *second = open_engine(directory, engine, "second");
    bool intact = false, safe = true;
    char key[16], value[200] = {'x'};
    if (first == NULL || second == NULL) return false;
    siltstone_close(first, NULL);
    for (int number = 0; number < 5000; number++) {
        int length = snprintf(key, sizeof key, "%d", number);
        if (!siltstone_put(second, key, (size_t)length, value, sizeof value, NULL)) return false;
        if (number % 1000 != 999) continue;
        siltstone_compact(second, NULL);
        for (int descriptor = 0; descriptor < 3; descriptor++) {
            safe = safe && !is_own(descriptor, directory);
            if (write(descriptor, "a message of another library\n", 29) < 0) continue;
        }
    }
    siltstone_free(siltstone_verify(second, NULL, NULL, &intact, NULL));
    return siltstone_close(second, NULL) && intact && safe;
}

int main(int argc, char **argv) {
    if (argc != 2) return 9;
    for (int descriptor = 0; descriptor < 3; descriptor++) close(descriptor);
    for (int engine = 0; engine < 4; engine++) {
        if (!is_safe(argv[1], ENGINES[engine])) return engine + 1;
    }
    return 0;
}

/* LevelDB's options. Those without a counterpart have no effect, and the compiler warns of their use; define
 * SILTSTONE_LEVELDB_QUIET to silence it. */

#ifndef SILTSTONE_LEVELDB_OPTIONS_H
#define SILTSTONE_LEVELDB_OPTIONS_H

#include "../leveldb_compat.h"
#include "cache.h"
#include "comparator.h"
#include "env.h"
#include "filter_policy.h"

namespace leveldb {

class Snapshot;

enum CompressionType { kNoCompression = 0, kSnappyCompression = 1, kZstdCompression = 2 };

/* The options are used by their constructors here, which is no use of the program. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif

struct Options {
    Options() {}
    Options(const Options &other) = default;
    Options &operator=(const Options &other) = default;

    const Comparator *comparator = BytewiseComparator();
    bool create_if_missing = false;
    bool error_if_exists = false;
    /* Everything is always checked. */
    bool paranoid_checks = false;
    /* There is no other. */
    Env *env = Env::Default();
    SILTSTONE_NO_EFFECT Logger *info_log = nullptr;
    SILTSTONE_NO_EFFECT size_t write_buffer_size = 4 << 20;
    /* At least 64; the default is that of Siltstone. */
    int max_open_files = 1000;
    /* The memory budget is its capacity and SILTSTONE_LEVELDB_MEMORY. */
    Cache *block_cache = nullptr;
    SILTSTONE_NO_EFFECT size_t block_size = 4096;
    SILTSTONE_NO_EFFECT int block_restart_interval = 16;
    SILTSTONE_NO_EFFECT size_t max_file_size = 2 << 20;
    SILTSTONE_NO_EFFECT CompressionType compression = kSnappyCompression;
    SILTSTONE_NO_EFFECT int zstd_compression_level = 1;
    SILTSTONE_NO_EFFECT bool reuse_logs = false;
    /* Never called. */
    const FilterPolicy *filter_policy = nullptr;
};

struct ReadOptions {
    ReadOptions() {}
    ReadOptions(const ReadOptions &other) = default;
    ReadOptions &operator=(const ReadOptions &other) = default;

    /* Checksums are always verified. */
    bool verify_checksums = false;
    SILTSTONE_NO_EFFECT bool fill_cache = true;
    const Snapshot *snapshot = nullptr;
};

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

struct WriteOptions {
    /* Whether a write survives a power loss; else it survives the process. */
    bool sync = false;
};

} // namespace leveldb

#endif

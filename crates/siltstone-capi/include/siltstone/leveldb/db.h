/*
 * The names of LevelDB's C++ interface over Siltstone.
 *
 * Compile a program for LevelDB with -I for the directory above this one, so that its #include "leveldb/db.h" finds
 * this file, and link with siltstone. The keys are in the order of their bytes: databases are made by the engine
 * flashkey with its setting ordered. docs/C.md has the table of what maps to what, and of what does not exist.
 */

#ifndef SILTSTONE_LEVELDB_DB_H
#define SILTSTONE_LEVELDB_DB_H

#ifdef SILTSTONE_LEVELDB_UNORDERED
#error "SILTSTONE_LEVELDB_UNORDERED is for programs in C: iterators of leveldb::DB are in the order of the keys"
#endif

#include "../leveldb_compat.h"
#include "iterator.h"
#include "options.h"
#include "write_batch.h"

#include <cstdint>

namespace leveldb {

/* The version of LevelDB whose interface this is. */
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

/* All records at one moment. */
class Snapshot {
protected:
    virtual ~Snapshot() {}
};

/* The keys from `start` on and below `limit`. */
struct Range {
    Range() {}
    Range(const Slice &first, const Slice &end) : start(first), limit(end) {}

    Slice start;
    Slice limit;
};

/* A database that is open. All threads may use it at once. Iterators and snapshots are freed before it. */
class DB {
public:
    /* Opens a database, or creates it. `delete` closes it. */
    static Status Open(const Options &options, const std::string &name, DB **opened);

    DB() {}
    DB(const DB &) = delete;
    DB &operator=(const DB &) = delete;
    virtual ~DB() {}

    virtual Status Put(const WriteOptions &options, const Slice &key, const Slice &value) = 0;
    virtual Status Delete(const WriteOptions &options, const Slice &key) = 0;
    /* Applies all writes or none. */
    virtual Status Write(const WriteOptions &options, WriteBatch *updates) = 0;
    virtual Status Get(const ReadOptions &options, const Slice &key, std::string *value) = 0;
    /* Over the records of this moment, or of the snapshot of the options. */
    virtual Iterator *NewIterator(const ReadOptions &options) = 0;
    virtual const Snapshot *GetSnapshot() = 0;
    virtual void ReleaseSnapshot(const Snapshot *snapshot) = 0;
    /* "leveldb.stats": one line of JSON. There are no others. */
    virtual bool GetProperty(const Slice &property, std::string *value) = 0;
    /* The bytes of the keys and values of each range, which are read. */
    virtual void GetApproximateSizes(const Range *ranges, int count, uint64_t *sizes) = 0;
    /* Compacts all records, also for a range. */
    virtual void CompactRange(const Slice *begin, const Slice *end) = 0;
};

namespace detail {

class OwnSnapshot : public Snapshot {
public:
    explicit OwnSnapshot(leveldb_t *db) : error_(nullptr), handle_(siltstone_snapshot_create(db, &error_)) {}
    ~OwnSnapshot() override {
        siltstone_snapshot_destroy(handle_);
        siltstone_free(error_);
    }
    leveldb_snapshot_t *handle() const { return handle_; }
    Status status() const { return error_ == nullptr ? Status() : Status::IOError("no snapshot was taken", error_); }

private:
    char *error_;
    leveldb_snapshot_t *handle_;
};

class RecordIterator : public Iterator {
public:
    explicit RecordIterator(leveldb_iterator_t *records) : records_(records) {}
    ~RecordIterator() override { leveldb_iter_destroy(records_); }
    bool Valid() const override { return leveldb_iter_valid(records_) != 0; }
    void SeekToFirst() override { leveldb_iter_seek_to_first(records_); }
    void SeekToLast() override { leveldb_iter_seek_to_last(records_); }
    void Seek(const Slice &target) override { leveldb_iter_seek(records_, target.data(), target.size()); }
    void Next() override { leveldb_iter_next(records_); }
    void Prev() override { leveldb_iter_prev(records_); }
    Slice key() const override {
        size_t length = 0;
        const char *bytes = leveldb_iter_key(records_, &length);
        return Slice(bytes, length);
    }
    Slice value() const override {
        size_t length = 0;
        const char *bytes = leveldb_iter_value(records_, &length);
        return Slice(bytes, length);
    }
    Status status() const override {
        char *error = nullptr;
        leveldb_iter_get_error(records_, &error);
        return TakeError(error);
    }

private:
    leveldb_iterator_t *records_;
};

/* A batch as the library has it. */
class Batch : public WriteBatch::Handler {
public:
    Batch() : handle_(leveldb_writebatch_create()) {}
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;
    ~Batch() override { leveldb_writebatch_destroy(handle_); }
    void Put(const Slice &key, const Slice &value) override {
        leveldb_writebatch_put(handle_, key.data(), key.size(), value.data(), value.size());
    }
    void Delete(const Slice &key) override { leveldb_writebatch_delete(handle_, key.data(), key.size()); }
    leveldb_writebatch_t *handle() const { return handle_; }

private:
    leveldb_writebatch_t *handle_;
};

class Database : public DB {
public:
    explicit Database(leveldb_t *db) : db_(db) {}
    ~Database() override { leveldb_close(db_); }

    Status Put(const WriteOptions &options, const Slice &key, const Slice &value) override {
        leveldb_writeoptions_t with = Writing(options);
        char *error = nullptr;
        leveldb_put(db_, &with, key.data(), key.size(), value.data(), value.size(), &error);
        return TakeError(error);
    }
    Status Delete(const WriteOptions &options, const Slice &key) override {
        leveldb_writeoptions_t with = Writing(options);
        char *error = nullptr;
        leveldb_delete(db_, &with, key.data(), key.size(), &error);
        return TakeError(error);
    }
    Status Write(const WriteOptions &options, WriteBatch *updates) override {
        leveldb_writeoptions_t with = Writing(options);
        char *error = nullptr;
        Batch batch;
        updates->Iterate(&batch);
        leveldb_write(db_, &with, batch.handle(), &error);
        return TakeError(error);
    }
    Status Get(const ReadOptions &options, const Slice &key, std::string *value) override {
        leveldb_readoptions_t with;
        Status status = Reading(options, &with);
        if (!status.ok()) return status;
        size_t length = 0;
        char *error = nullptr;
        char *found = leveldb_get(db_, &with, key.data(), key.size(), &length, &error);
        if (found == nullptr) return error != nullptr ? TakeError(error) : Status::NotFound(Slice());
        value->assign(found, length);
        leveldb_free(found);
        return Status();
    }
    Iterator *NewIterator(const ReadOptions &options) override {
        leveldb_readoptions_t with;
        Status status = Reading(options, &with);
        leveldb_iterator_t *records = status.ok() ? leveldb_create_iterator(db_, &with) : nullptr;
        if (status.ok() && records == nullptr) status = Status::IOError("there is no memory for an iterator");
        return records != nullptr ? new RecordIterator(records) : NewErrorIterator(status);
    }
    const Snapshot *GetSnapshot() override { return new OwnSnapshot(db_); }
    void ReleaseSnapshot(const Snapshot *snapshot) override { delete static_cast<const OwnSnapshot *>(snapshot); }
    bool GetProperty(const Slice &property, std::string *value) override {
        char *text = leveldb_property_value(db_, property.ToString().c_str());
        if (text == nullptr) return false;
        *value = text;
        leveldb_free(text);
        return true;
    }
    void GetApproximateSizes(const Range *ranges, int count, uint64_t *sizes) override {
        for (int i = 0; i < count; i++) {
            const char *start = ranges[i].start.data(), *limit = ranges[i].limit.data();
            size_t start_bytes = ranges[i].start.size(), limit_bytes = ranges[i].limit.size();
            leveldb_approximate_sizes(db_, 1, &start, &start_bytes, &limit, &limit_bytes, &sizes[i]);
        }
    }
    void CompactRange(const Slice *, const Slice *) override { leveldb_compact_range(db_, nullptr, 0, nullptr, 0); }

private:
    static leveldb_writeoptions_t Writing(const WriteOptions &options) {
        leveldb_writeoptions_t with;
        leveldb_writeoptions_set_sync(&with, options.sync);
        return with;
    }
    /* Fails if the snapshot could not be taken: without it the present records would be read. */
    static Status Reading(const ReadOptions &options, leveldb_readoptions_t *with) {
        const OwnSnapshot *snapshot = static_cast<const OwnSnapshot *>(options.snapshot);
        leveldb_readoptions_set_snapshot(with, snapshot != nullptr ? snapshot->handle() : nullptr);
        return snapshot != nullptr ? snapshot->status() : Status();
    }

    leveldb_t *db_;
};

inline const char *NameOf(void *comparator) { return static_cast<const Comparator *>(comparator)->Name(); }

} // namespace detail

inline Status DB::Open(const Options &options, const std::string &name, DB **opened) {
    *opened = nullptr;
    const Options defaults;
    leveldb_comparator_t order = leveldb_comparator_t();
    order.state = const_cast<Comparator *>(options.comparator);
    order.name = detail::NameOf;
    leveldb_options_t with = leveldb_options_t();
    with.create_if_missing = options.create_if_missing;
    with.error_if_exists = options.error_if_exists;
    with.comparator = options.comparator != nullptr ? &order : nullptr;
    with.cache_bytes = options.block_cache != nullptr ? options.block_cache->capacity() : 0;
    // What the program does not set is left to Siltstone.
    if (options.max_open_files != defaults.max_open_files) with.max_open_files = options.max_open_files;
    char *error = nullptr;
    leveldb_t *db = leveldb_open(&with, name.c_str(), &error);
    if (db != nullptr) {
        *opened = new detail::Database(db);
        return Status();
    }
    Status status = detail::TakeError(error);
    // As LevelDB: a program that asks for what is not there makes an error.
    if (!status.IsNotFound()) return status;
    return Status::InvalidArgument(name, "does not exist, and create_if_missing is false");
}

/* Removes a database with all its records. Nothing happens if there is none. */
inline Status DestroyDB(const std::string &name, const Options &) {
    char *error = nullptr;
    leveldb_destroy_db(nullptr, name.c_str(), &error);
    return detail::TakeError(error);
}

/* Repairs a database that is not open, and keeps every intact record. */
inline Status RepairDB(const std::string &name, const Options &) {
    char *error = nullptr;
    leveldb_repair_db(nullptr, name.c_str(), &error);
    return detail::TakeError(error);
}

} // namespace leveldb

#endif

/* A program as one for LevelDB in C++: every class and function of db.h that Siltstone has. */

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                             \
            std::exit(1);                                                                                    \
        }                                                                                                    \
    } while (0)

using Model = std::map<std::string, std::string>;

static std::unique_ptr<leveldb::DB> open(const leveldb::Options &options, const std::string &path) {
    leveldb::DB *db = nullptr;
    leveldb::Status status = leveldb::DB::Open(options, path, &db);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    CHECK(status.ok() && db != nullptr);
    return std::unique_ptr<leveldb::DB>(db);
}

static void slices_and_statuses() {
    leveldb::Slice slice("hello"), empty;
    CHECK(slice.size() == 5 && slice[1] == 'e' && empty.empty() && slice.starts_with("hell"));
    CHECK(slice == std::string("hello") && slice != "hell" && !slice.starts_with("hello!"));
    CHECK(leveldb::Slice("a").compare("b") < 0 && leveldb::Slice("b").compare("a") > 0);
    CHECK(leveldb::Slice("ab").compare("a") > 0 && leveldb::Slice("a").compare("a") == 0);
    slice.remove_prefix(4);
    CHECK(slice.ToString() == "o" && std::string(slice.begin(), slice.end()) == "o");
    slice.clear();
    CHECK(slice.empty());
    leveldb::Status status = leveldb::Status::Corruption("a file", "its head"), ok;
    CHECK(!status.ok() && status.IsCorruption() && status.ToString() == "Corruption: a file: its head");
    leveldb::Status copy = status;
    CHECK(copy.IsCorruption() && ok.ok() && ok.ToString() == "OK" && leveldb::Status::OK().ok());
    CHECK(leveldb::Status::NotFound("x").IsNotFound() && leveldb::Status::IOError("x").IsIOError());
    CHECK(leveldb::Status::NotSupported("x").IsNotSupportedError());
    CHECK(leveldb::Status::InvalidArgument("x").IsInvalidArgument());
}

static void opening(leveldb::Options options, const std::string &path) {
    leveldb::DB *db = nullptr;
    options.create_if_missing = false;
    leveldb::Status status = leveldb::DB::Open(options, path, &db);
    CHECK(status.IsInvalidArgument() && db == nullptr && status.ToString().find("does not exist") != std::string::npos);
    options.create_if_missing = true;
    open(options, path);
    options.error_if_exists = true;
    status = leveldb::DB::Open(options, path, &db);
    CHECK(status.IsInvalidArgument() && db == nullptr && status.ToString().find("exists") != std::string::npos);
    options.error_if_exists = false;
    auto first = open(options, path);
    CHECK(leveldb::DB::Open(options, path, &db).IsIOError() && db == nullptr);
}

class Backwards : public leveldb::Comparator {
public:
    int Compare(const leveldb::Slice &a, const leveldb::Slice &b) const override { return b.compare(a); }
    const char *Name() const override { return "backwards"; }
    void FindShortestSeparator(std::string *, const leveldb::Slice &) const override {}
    void FindShortSuccessor(std::string *) const override {}
};

static void comparators(leveldb::Options options, const std::string &path) {
    Backwards backwards;
    leveldb::DB *db = nullptr;
    CHECK(leveldb::BytewiseComparator()->Compare("a", "b") < 0);
    options.comparator = &backwards;
    leveldb::Status status = leveldb::DB::Open(options, path, &db);
    CHECK(status.IsInvalidArgument() && db == nullptr && status.ToString().find("backwards") != std::string::npos);
}

static std::string get(leveldb::DB *db, const std::string &key, const leveldb::Snapshot *snapshot = nullptr) {
    leveldb::ReadOptions options;
    options.snapshot = snapshot;
    std::string value = "as before";
    leveldb::Status status = db->Get(options, key, &value);
    CHECK(status.ok() || (status.IsNotFound() && value == "as before"));
    return status.ok() ? value : "NOT_FOUND";
}

static void put(leveldb::DB *db, const std::string &key, const std::string &value) {
    CHECK(db->Put(leveldb::WriteOptions(), key, value).ok());
}

static void reading_and_writing(leveldb::DB *db) {
    leveldb::WriteOptions synced;
    synced.sync = true;
    put(db, "foo", "v1");
    CHECK(get(db, "foo") == "v1");
    CHECK(db->Put(synced, "foo", "v2").ok() && get(db, "foo") == "v2");
    put(db, std::string("nul\0l", 5), "");
    CHECK(get(db, std::string("nul\0l", 5)) == "" && get(db, "nul") == "NOT_FOUND");
    CHECK(db->Delete(synced, "foo").ok() && get(db, "foo") == "NOT_FOUND");
    /* Unlike LevelDB, a key has at least one byte. */
    CHECK(db->Put(leveldb::WriteOptions(), "", "v").IsInvalidArgument());
}

class Printer : public leveldb::WriteBatch::Handler {
public:
    void Put(const leveldb::Slice &key, const leveldb::Slice &value) override {
        text += "put " + key.ToString() + " " + value.ToString() + ", ";
    }
    void Delete(const leveldb::Slice &key) override { text += "delete " + key.ToString() + ", "; }
    std::string text;
};

static void batches(leveldb::DB *db) {
    leveldb::WriteBatch batch, second;
    size_t empty = batch.ApproximateSize();
    batch.Put("foo", "a");
    batch.Clear();
    batch.Put("bar", "b");
    batch.Put("box", "c");
    CHECK(batch.ApproximateSize() > empty);
    leveldb::WriteBatch copy = batch;
    second.Delete("bar");
    batch.Append(second);
    Printer printer;
    CHECK(batch.Iterate(&printer).ok() && printer.text == "put bar b, put box c, delete bar, ");
    CHECK(db->Write(leveldb::WriteOptions(), &batch).ok());
    CHECK(get(db, "foo") == "NOT_FOUND" && get(db, "bar") == "NOT_FOUND" && get(db, "box") == "c");
    CHECK(db->Write(leveldb::WriteOptions(), &copy).ok() && get(db, "bar") == "b");
    /* All or none. */
    copy.Put("other", "x");
    copy.Put("", "x");
    CHECK(db->Write(leveldb::WriteOptions(), &copy).IsInvalidArgument() && get(db, "other") == "NOT_FOUND");
}

static void check_at(leveldb::Iterator *it, const Model &model, Model::const_iterator expected) {
    CHECK(it->status().ok());
    CHECK(it->Valid() == (expected != model.end()));
    if (it->Valid()) CHECK(it->key() == expected->first && it->value() == expected->second);
}

/* Walks through the records as a random number says, next to the model of their moment. */
static void walk(leveldb::Iterator *it, const Model &model, unsigned seed) {
    std::vector<std::string> keys;
    for (auto &record : model) keys.push_back(record.first);
    auto expected = model.end();
    for (int step = 0; step < 2000; step++) {
        seed = seed * 1103515245u + 12345u;
        unsigned choice = seed >> 16 & 15, at = seed >> 20;
        if (choice == 0) {
            it->SeekToFirst(), expected = model.begin();
        } else if (choice == 1) {
            it->SeekToLast(), expected = std::prev(model.end());
        } else if (choice <= 4 || expected == model.end()) {
            std::string target = keys[at % keys.size()];
            if (at & 1) target += "\1";
            it->Seek(target), expected = model.lower_bound(target);
        } else if (choice <= 9) {
            it->Next(), ++expected;
        } else {
            it->Prev(), expected = expected == model.begin() ? model.end() : std::prev(expected);
        }
        check_at(it, model, expected);
    }
}

static void change(leveldb::DB *db, Model *model, unsigned round) {
    for (unsigned i = 0; i < 1500; i++) {
        char key[16];
        std::snprintf(key, sizeof key, "key%05u", (i * 7919 + round * 131) % 4000);
        if (i % 5 == 4) {
            CHECK(db->Delete(leveldb::WriteOptions(), key).ok());
            model->erase(key);
        } else {
            std::string value = std::to_string(round) + std::string(i % 100, 'v');
            put(db, key, value);
            (*model)[key] = value;
        }
    }
}

static void iterators_and_snapshots(leveldb::DB *db) {
    Model model;
    std::unique_ptr<leveldb::Iterator> it(db->NewIterator(leveldb::ReadOptions()));
    for (it->SeekToFirst(); it->Valid(); it->Next()) model[it->key().ToString()] = it->value().ToString();
    CHECK(it->status().ok() && !model.empty());
    std::vector<Model> models;
    std::vector<const leveldb::Snapshot *> snapshots;
    std::vector<std::unique_ptr<leveldb::Iterator>> iterators;
    for (unsigned round = 0; round < 4; round++) {
        change(db, &model, round);
        models.push_back(model);
        snapshots.push_back(db->GetSnapshot());
        iterators.emplace_back(db->NewIterator(leveldb::ReadOptions()));
        CHECK(!iterators.back()->Valid());
        if (round == 1) db->CompactRange(nullptr, nullptr);
    }
    for (unsigned round = 0; round < 4; round++) {
        walk(iterators[round].get(), models[round], round);
        leveldb::ReadOptions options;
        options.snapshot = snapshots[round];
        std::unique_ptr<leveldb::Iterator> of_snapshot(db->NewIterator(options));
        db->ReleaseSnapshot(snapshots[round]);
        walk(of_snapshot.get(), models[round], round + 10);
    }
    put(db, "key", "now");
    const leveldb::Snapshot *snapshot = db->GetSnapshot();
    put(db, "key", "later");
    CHECK(get(db, "key", snapshot) == "now" && get(db, "key") == "later");
    db->ReleaseSnapshot(snapshot);
}

static void cleanups(leveldb::DB *db) {
    static int calls = 0;
    leveldb::Iterator *it = db->NewIterator(leveldb::ReadOptions());
    int three = 3, four = 4;
    auto add = [](void *first, void *second) { calls += *static_cast<int *>(first) * *static_cast<int *>(second); };
    it->RegisterCleanup(add, &three, &four);
    it->RegisterCleanup(add, &three, &three);
    delete it;
    CHECK(calls == 21);
    std::unique_ptr<leveldb::Iterator> empty(leveldb::NewEmptyIterator());
    std::unique_ptr<leveldb::Iterator> failed(leveldb::NewErrorIterator(leveldb::Status::IOError("x")));
    empty->SeekToFirst();
    CHECK(!empty->Valid() && empty->status().ok() && !failed->Valid() && failed->status().IsIOError());
}

static void properties_and_sizes(leveldb::DB *db) {
    std::string value;
    CHECK(db->GetProperty("leveldb.stats", &value) && value.find("flashkey") != std::string::npos);
    CHECK(!db->GetProperty("nosuchproperty", &value));
    leveldb::Range ranges[2] = {leveldb::Range("key", "kez"), leveldb::Range("x", "y")};
    uint64_t sizes[2] = {7, 7};
    db->GetApproximateSizes(ranges, 2, sizes);
    CHECK(sizes[0] > 10000 && sizes[1] == 0);
}

static void environment(const std::string &path) {
    leveldb::Env *env = leveldb::Env::Default();
    std::string directory;
    uint64_t before = env->NowMicros();
    env->SleepForMicroseconds(1);
    CHECK(env->NowMicros() >= before && env->FileExists(path) && !env->FileExists(path + "/none"));
    CHECK(env->GetTestDirectory(&directory).ok() && env->FileExists(directory));
    CHECK(env->CreateDir(path).IsIOError());
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const std::string path = std::string(argv[1]) + "/db";
    std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(8 << 20));
    std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
    leveldb::Options options;
    options.env = leveldb::Env::Default();
    options.block_cache = cache.get();
    options.filter_policy = filter.get();
    options.max_open_files = 100;
    options.paranoid_checks = true;
    CHECK(leveldb::kMajorVersion == 1 && leveldb::kMinorVersion >= 0);

    slices_and_statuses();
    opening(options, path);
    comparators(options, path);
    auto db = open(options, path);
    reading_and_writing(db.get());
    batches(db.get());
    iterators_and_snapshots(db.get());
    cleanups(db.get());
    properties_and_sizes(db.get());
    environment(argv[1]);
    db.reset();
    CHECK(leveldb::RepairDB(path, options).ok());
    db = open(options, path);
    CHECK(get(db.get(), "key") == "later");
    db.reset();
    CHECK(leveldb::DestroyDB(path, options).ok() && leveldb::DestroyDB(path, options).ok());
    options.create_if_missing = false;
    leveldb::DB *none = nullptr;
    CHECK(leveldb::DB::Open(options, path, &none).IsInvalidArgument());
    std::puts("leveldb in C++: ok");
    return 0;
}

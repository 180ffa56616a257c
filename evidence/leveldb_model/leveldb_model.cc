// Counts what the real LevelDB writes, to be held against its model (docs/MODELS.md).
//
//   leveldb_model DIR KEYS SKEW [PUTS_PER_KEY] [caught-up|free] [WARM_PUTS_PER_KEY]
//
// All keys are loaded in their order; then come WARM_PUTS_PER_KEY puts for each key (0 if not given) that are not counted,
// and PUTS_PER_KEY (3 if not given) that are, drawn from Zipf's law with that skew (0 is uniform). Keys have 16 bytes and values 966: with LevelDB's own 18 an item takes 1,000.
// No compression, no filters, LevelDB's default sizes. "caught-up" (the default) holds puts back until all compactions
// are done, once for each memtable, as the model and the simulator have it; "free" leaves the pace to LevelDB.
//
// Prints one line of JSON: the bytes that LevelDB passed to its files, for each 1,000 bytes put.

#include <leveldb/db.h>
#include <leveldb/env.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr double kItemBytes = 1000.0;
constexpr size_t kValueBytes = 966;
constexpr uint64_t kPutsPerMemtable = (4 << 20) / 1000;

struct Counts {
  std::atomic<uint64_t> log{0}, tables{0}, others{0};
  void Reset() { log = tables = others = 0; }
};

class CountingFile : public leveldb::WritableFile {
 public:
  CountingFile(leveldb::WritableFile* file, std::atomic<uint64_t>* bytes) : file_(file), bytes_(bytes) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes_->fetch_add(data.size(), std::memory_order_relaxed);
    return file_->Append(data);
  }
  leveldb::Status Close() override { return file_->Close(); }
  leveldb::Status Flush() override { return file_->Flush(); }
  // Nothing here has to survive.
  leveldb::Status Sync() override { return file_->Flush(); }

 private:
  std::unique_ptr<leveldb::WritableFile> file_;
  std::atomic<uint64_t>* bytes_;
};

// Counts bytes by what the file is for, and knows whether background work is under way.
class CountingEnv : public leveldb::EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(leveldb::Env::Default()) {}

  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    return Wrap(name, file, target()->NewWritableFile(name, file));
  }
  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile** file) override {
    return Wrap(name, file, target()->NewAppendableFile(name, file));
  }

  // LevelDB schedules its next compaction before the one that runs has ended: none outstanding means none left to do.
  void Schedule(void (*function)(void*), void* argument) override {
    outstanding_.fetch_add(1);
    target()->Schedule(&CountingEnv::Run, new Job{this, function, argument});
  }
  void WaitUntilIdle() const {
    while (outstanding_.load() > 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  Counts counts;

 private:
  struct Job {
    CountingEnv* env;
    void (*function)(void*);
    void* argument;
  };

  static void Run(void* job_pointer) {
    std::unique_ptr<Job> job(static_cast<Job*>(job_pointer));
    job->function(job->argument);
    job->env->outstanding_.fetch_sub(1);
  }

  leveldb::Status Wrap(const std::string& name, leveldb::WritableFile** file, leveldb::Status status) {
    if (status.ok()) *file = new CountingFile(*file, &BytesFor(name));
    return status;
  }

  std::atomic<uint64_t>& BytesFor(const std::string& name) {
    auto ends_with = [&](const char* suffix) {
      size_t length = std::strlen(suffix);
      return name.size() >= length && name.compare(name.size() - length, length, suffix) == 0;
    };
    if (ends_with(".log")) return counts.log;
    return ends_with(".ldb") || ends_with(".sst") ? counts.tables : counts.others;
  }

  std::atomic<int> outstanding_{0};
};

// Keys drawn by Zipf's law, with ranks scattered over the key space.
class Keys {
 public:
  Keys(uint32_t count, double skew) : random_(301), sums_(skew == 0 ? 0 : count), places_(count) {
    for (uint32_t key = 0; key < count; key++) places_[key] = key;
    std::shuffle(places_.begin(), places_.end(), random_);
    double sum = 0;
    for (uint32_t rank = 0; rank < sums_.size(); rank++) sums_[rank] = sum += std::pow(rank + 1.0, -skew);
  }

  uint32_t Next() {
    if (sums_.empty()) return places_[random_() % places_.size()];
    double value = std::uniform_real_distribution<double>(0, sums_.back())(random_);
    size_t rank = std::upper_bound(sums_.begin(), sums_.end(), value) - sums_.begin();
    return places_[std::min(rank, places_.size() - 1)];
  }

 private:
  std::mt19937_64 random_;
  std::vector<double> sums_;
  std::vector<uint32_t> places_;
};

void Check(const leveldb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "leveldb_model: %s\n", status.ToString().c_str());
  std::exit(1);
}

void Put(leveldb::DB* db, uint32_t key, std::string* value) {
  char text[32];
  std::snprintf(text, sizeof text, "%016u", key);
  std::memcpy(&(*value)[0], text, 16);
  Check(db->Put(leveldb::WriteOptions(), leveldb::Slice(text, 16), *value));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: leveldb_model DIR KEYS SKEW [PUTS_PER_KEY] [caught-up|free] [WARM_PUTS_PER_KEY]\n");
    return 2;
  }
  const std::string directory = argv[1];
  const uint32_t keys = static_cast<uint32_t>(std::strtod(argv[2], nullptr));
  const double skew = std::strtod(argv[3], nullptr);
  const uint64_t puts = static_cast<uint64_t>((argc > 4 ? std::strtod(argv[4], nullptr) : 3.0) * keys);
  const uint64_t warm = static_cast<uint64_t>((argc > 6 ? std::strtod(argv[6], nullptr) : 0.0) * keys);
  const bool caught_up = argc <= 5 || std::strcmp(argv[5], "free") != 0;

  CountingEnv env;
  leveldb::Options options;
  options.env = &env;
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.compression = leveldb::kNoCompression;
  leveldb::DB* opened = nullptr;
  Check(leveldb::DB::Open(options, directory, &opened));
  std::unique_ptr<leveldb::DB> db(opened);

  std::string value(kValueBytes, 'v');
  for (uint32_t key = 0; key < keys; key++) {
    Put(db.get(), key, &value);
    if (key % kPutsPerMemtable == 0) env.WaitUntilIdle();
  }
  env.WaitUntilIdle();
  env.counts.Reset();
  Keys stream(keys, skew);
  for (uint64_t put = 0; put < warm + puts; put++) {
    if (put == warm && warm > 0) {
      env.WaitUntilIdle();
      env.counts.Reset();
    }
    Put(db.get(), stream.Next(), &value);
    if (caught_up && put % kPutsPerMemtable == 0) env.WaitUntilIdle();
  }
  env.WaitUntilIdle();
  const double user = puts * kItemBytes;
  const double log = env.counts.log / user, tables = env.counts.tables / user, others = env.counts.others / user;
  std::printf("{\"system\":\"leveldb\",\"keys\":%u,\"skew\":%g,\"puts\":%llu,\"warm_puts\":%llu,\"caught_up\":%s,"
              "\"write_amplification\":%.4f,\"log\":%.4f,\"tables\":%.4f,\"others\":%.5f}\n",
              keys, skew, static_cast<unsigned long long>(puts), static_cast<unsigned long long>(warm),
              caught_up ? "true" : "false",
              log + tables + others, log, tables, others);
  return 0;
}

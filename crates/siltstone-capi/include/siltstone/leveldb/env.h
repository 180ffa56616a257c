/* LevelDB's Env: the one of the system, with what programs ask it for. A program cannot make another. */

#ifndef SILTSTONE_LEVELDB_ENV_H
#define SILTSTONE_LEVELDB_ENV_H

#include "../leveldb_compat.h"
#include "status.h"

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <thread>

namespace leveldb {

/* Can be derived from, but a database calls none. */
class Logger {
public:
    Logger() {}
    Logger(const Logger &) = delete;
    Logger &operator=(const Logger &) = delete;
    virtual ~Logger() {}
    virtual void Logv(const char *format, std::va_list arguments) = 0;
};

class Env final {
public:
    Env(const Env &) = delete;
    Env &operator=(const Env &) = delete;

    static Env *Default() {
        static Env *const env = new Env;
        return env;
    }
    bool FileExists(const std::string &name) { return access(name.c_str(), F_OK) == 0; }
    Status CreateDir(const std::string &name) {
        return mkdir(name.c_str(), 0755) == 0 ? Status() : Status::IOError(name, std::strerror(errno));
    }
    /* The directory $TEST_TMPDIR, or one below /tmp, which is created. */
    Status GetTestDirectory(std::string *path) {
        char *name = leveldb_env_get_test_directory(nullptr);
        if (name == nullptr) return Status::IOError("there is no memory");
        *path = name;
        leveldb_free(name);
        return Status();
    }
    uint64_t NowMicros() {
        using namespace std::chrono;
        return static_cast<uint64_t>(
            duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
    }
    void SleepForMicroseconds(int microseconds) {
        std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    }

private:
    Env() {}
};

} // namespace leveldb

#endif

// Siltstone for C++17: handles that free themselves, errors as exceptions. Header only, over siltstone.h.

#ifndef SILTSTONE_HPP
#define SILTSTONE_HPP

#include "siltstone.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace siltstone {

// An error of the library. `code` is one of SILTSTONE_ERROR_...
class Error : public std::runtime_error {
public:
    Error(const char *message, std::uint32_t code) : std::runtime_error(message), code(code) {}
    const std::uint32_t code;
};

enum class Durability : std::uint32_t {
    Default = SILTSTONE_DURABILITY_DEFAULT,
    Buffered = SILTSTONE_DURABILITY_BUFFERED,
    Written = SILTSTONE_DURABILITY_WRITTEN,
    Synced = SILTSTONE_DURABILITY_SYNCED,
};

namespace detail {

struct Free {
    void operator()(void *pointer) const { siltstone_free(pointer); }
};

// Calls a function with its `errptr`, and throws its error.
template <typename Call> auto checked(Call call) {
    char *error = nullptr;
    auto result = call(&error);
    if (error != nullptr) {
        std::unique_ptr<char, Free> message(error);
        throw Error(error, siltstone_error_code(error));
    }
    return result;
}

template <typename Handle, void (*destroy)(Handle *)> struct Destroy {
    void operator()(Handle *handle) const { destroy(handle); }
};

template <typename Handle, void (*destroy)(Handle *)>
using Owned = std::unique_ptr<Handle, Destroy<Handle, destroy>>;

inline void close(siltstone_t *database) { siltstone_close(database, nullptr); }

inline std::string text(char *owned) {
    std::unique_ptr<char, Free> text(owned);
    return std::string(text.get());
}

// The value that `get` returns with its length.
template <typename Get> std::optional<std::string> value(Get get) {
    size_t length = 0;
    std::unique_ptr<char, Free> value(checked([&](char **error) { return get(&length, error); }));
    if (!value) return std::nullopt;
    return std::string(value.get(), length);
}

// The arrays that stand for several keys.
struct Keys {
    std::vector<const void *> pointers;
    std::vector<size_t> lengths;
    explicit Keys(const std::vector<std::string_view> &keys) {
        for (auto key : keys) pointers.push_back(key.data()), lengths.push_back(key.size());
    }
    size_t size() const { return pointers.size(); }
};

template <typename GetMany>
std::vector<std::optional<std::string>> values(const std::vector<std::string_view> &keys, GetMany get_many) {
    Keys of(keys);
    std::vector<char *> values(of.size());
    std::vector<size_t> lengths(of.size());
    checked([&](char **error) { return get_many(of, values.data(), lengths.data(), error); });
    std::vector<std::unique_ptr<char, Free>> owned(values.begin(), values.end());
    std::vector<std::optional<std::string>> found(of.size());
    for (size_t i = 0; i < of.size(); i++) {
        if (values[i] != nullptr) found[i].emplace(values[i], lengths[i]);
    }
    return found;
}

} // namespace detail

// When a record expires after this time. After no time, or less, it has expired already.
inline std::uint64_t expires_in(std::chrono::milliseconds time) {
    return siltstone_expires_in_ms(static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
}

// The settings of an open, by name: Options{{"engine", "flashkey"}, {"memory_budget", "64MiB"}}.
class Options {
public:
    Options() : handle_(siltstone_options_create()) {}
    Options(std::initializer_list<std::pair<const char *, const char *>> settings) : Options() {
        for (auto &[name, value] : settings) set(name, value);
    }
    Options &set(const std::string &name, const std::string &value) {
        siltstone_options_set(handle_.get(), name.c_str(), value.c_str());
        return *this;
    }
    const siltstone_options_t *handle() const { return handle_.get(); }

private:
    detail::Owned<siltstone_options_t, siltstone_options_destroy> handle_;
};

// A record of an iterator, valid until it moves.
struct Record {
    std::string_view key;
    std::string_view value;
    std::uint64_t expires_at_ms;
};

// for (auto record : database.records()) ...
class Records {
public:
    explicit Records(siltstone_iterator_t *handle) : handle_(handle) {}

    // Moves to the next record; false after the last one.
    bool next() {
        return detail::checked([&](char **error) { return siltstone_iterator_next(handle_.get(), error); });
    }
    Record record() const {
        size_t key_length = 0, value_length = 0;
        const char *key = siltstone_iterator_key(handle_.get(), &key_length);
        const char *value = siltstone_iterator_value(handle_.get(), &value_length);
        return {{key, key_length},
                {value, value_length},
                siltstone_iterator_expires_at_ms(handle_.get())};
    }

    struct End {};
    class Position {
    public:
        explicit Position(Records *records) : records_(records->next() ? records : nullptr) {}
        Record operator*() const { return records_->record(); }
        Position &operator++() {
            if (!records_->next()) records_ = nullptr;
            return *this;
        }
        bool operator!=(End) const { return records_ != nullptr; }

    private:
        Records *records_;
    };
    Position begin() { return Position(this); }
    End end() const { return {}; }

private:
    detail::Owned<siltstone_iterator_t, siltstone_iterator_destroy> handle_;
};

// Writes that are applied together.
class Batch {
public:
    Batch() : handle_(siltstone_batch_create()) {}
    Batch &put(std::string_view key, std::string_view value, std::uint64_t expires_at_ms = 0) {
        siltstone_batch_put(handle_.get(), key.data(), key.size(), value.data(), value.size(), expires_at_ms);
        return *this;
    }
    Batch &remove(std::string_view key) {
        siltstone_batch_delete(handle_.get(), key.data(), key.size());
        return *this;
    }
    void clear() { siltstone_batch_clear(handle_.get()); }
    size_t size() const { return siltstone_batch_length(handle_.get()); }
    const siltstone_batch_t *handle() const { return handle_.get(); }

private:
    detail::Owned<siltstone_batch_t, siltstone_batch_destroy> handle_;
};

// All records at one moment.
class Snapshot {
public:
    explicit Snapshot(siltstone_snapshot_t *handle) : handle_(handle) {}
    std::optional<std::string> get(std::string_view key) const {
        return detail::value([&](size_t *length, char **error) {
            return siltstone_snapshot_get(handle_.get(), key.data(), key.size(), length, error);
        });
    }
    Records records() const {
        return Records(
            detail::checked([&](char **error) { return siltstone_snapshot_iterate(handle_.get(), error); }));
    }

private:
    detail::Owned<siltstone_snapshot_t, siltstone_snapshot_destroy> handle_;
};

// A database. The destructor closes it and loses the error of that; `close` throws it.
class Database {
public:
    explicit Database(const std::string &path, const Options &options = Options())
        : handle_(detail::checked(
              [&](char **error) { return siltstone_open(path.c_str(), options.handle(), error); })) {}

    // An empty database of an engine that keeps all data in memory.
    static Database in_memory(const Options &options = Options{{"engine", "mica"}}) {
        return Database(
            detail::checked([&](char **error) { return siltstone_open(nullptr, options.handle(), error); }));
    }

    void close() {
        detail::checked([&](char **error) { return siltstone_close(handle_.release(), error); });
    }

    std::optional<std::string> get(std::string_view key) const {
        return detail::value([&](size_t *length, char **error) {
            return siltstone_get(handle(), key.data(), key.size(), length, error);
        });
    }
    std::vector<std::optional<std::string>> get_many(const std::vector<std::string_view> &keys) const {
        return detail::values(keys, [&](auto &of, char **values, size_t *lengths, char **error) {
            return siltstone_get_many(handle(), of.pointers.data(), of.lengths.data(), of.size(), values, lengths,
                                      error);
        });
    }
    bool contains(std::string_view key) const {
        return detail::checked(
            [&](char **error) { return siltstone_contains(handle(), key.data(), key.size(), error); });
    }
    void put(std::string_view key, std::string_view value, std::uint64_t expires_at_ms = 0,
             Durability durability = Durability::Default) {
        detail::checked([&](char **error) {
            return siltstone_put_with(handle(), key.data(), key.size(), value.data(), value.size(),
                                      static_cast<std::uint32_t>(durability), expires_at_ms, error);
        });
    }
    void remove(std::string_view key, Durability durability = Durability::Default) {
        detail::checked([&](char **error) {
            return siltstone_delete_with(handle(), key.data(), key.size(), static_cast<std::uint32_t>(durability),
                                         error);
        });
    }
    void write(const Batch &batch, Durability durability = Durability::Default) {
        detail::checked([&](char **error) {
            return siltstone_write(handle(), batch.handle(), static_cast<std::uint32_t>(durability), error);
        });
    }
    bool insert_if_absent(std::string_view key, std::string_view value, std::uint64_t expires_at_ms = 0,
                          Durability durability = Durability::Default) {
        return detail::checked([&](char **error) {
            return siltstone_insert_if_absent_with(handle(), key.data(), key.size(), value.data(), value.size(),
                                                   static_cast<std::uint32_t>(durability), expires_at_ms, error);
        });
    }
    // Replaces the value of a key if it is `expected`. nullopt is an absent key, for both.
    bool compare_and_swap(std::string_view key, std::optional<std::string_view> expected,
                          std::optional<std::string_view> value, std::uint64_t expires_at_ms = 0,
                          Durability durability = Durability::Default) {
        // An empty string may have no address; that of another one says that it is there.
        auto data = [](const auto &of) { return !of ? nullptr : of->data() != nullptr ? of->data() : ""; };
        auto size = [](const auto &of) { return of ? of->size() : 0; };
        return detail::checked([&](char **error) {
            return siltstone_compare_and_swap_with(handle(), key.data(), key.size(), data(expected), size(expected),
                                                   data(value), size(value), static_cast<std::uint32_t>(durability),
                                                   expires_at_ms, error);
        });
    }

    // Sets the value of a key to what `change` returns for the present one, or deletes it for nullopt, in one atomic
    // step. `change` must not use the database. If it throws, nothing changes, and its exception continues here.
    using Change = std::function<std::optional<std::string>(std::optional<std::string_view>)>;
    void update(std::string_view key, const Change &change) {
        Changing changing{change, nullptr};
        char *error = nullptr;
        siltstone_update(handle(), key.data(), key.size(), SILTSTONE_DURABILITY_DEFAULT, Changing::call, &changing,
                         &error);
        std::unique_ptr<char, detail::Free> message(error);
        if (changing.thrown) std::rethrow_exception(changing.thrown);
        if (error != nullptr) throw Error(error, siltstone_error_code(error));
    }

    Snapshot snapshot() const {
        return Snapshot(
            detail::checked([&](char **error) { return siltstone_snapshot_create(handle(), error); }));
    }
    Records records() const {
        return Records(detail::checked([&](char **error) { return siltstone_iterate(handle(), error); }));
    }
    // In the order of the keys, for engines that keep it.
    Records prefix(std::string_view prefix, bool reverse = false, size_t limit = 0) const {
        return Records(detail::checked([&](char **error) {
            return siltstone_prefix(handle(), prefix.data(), prefix.size(), reverse, limit, error);
        }));
    }
    void sync() {
        detail::checked([&](char **error) { return siltstone_sync(handle(), error); });
    }
    void compact() {
        detail::checked([&](char **error) { return siltstone_compact(handle(), error); });
    }
    void checkpoint(const std::string &path) const {
        detail::checked([&](char **error) { return siltstone_checkpoint(handle(), path.c_str(), error); });
    }
    std::string stats_json() const {
        return detail::text(detail::checked([&](char **error) { return siltstone_stats_json(handle(), error); }));
    }
    // For what is not here.
    siltstone_t *handle() const { return handle_.get(); }

private:
    struct Changing {
        const Change &change;
        std::exception_ptr thrown;

        // No exception may leave it.
        static bool call(void *state, siltstone_update_t *records) noexcept {
            auto &self = *static_cast<Changing *>(state);
            try {
                size_t length = 0;
                const char *value = siltstone_update_value(records, 0, &length);
                std::optional<std::string_view> found;
                if (value != nullptr) found.emplace(value, length);
                auto changed = self.change(found);
                if (!changed) return siltstone_update_delete(records, 0);
                return siltstone_update_put(records, 0, changed->data(), changed->size(),
                                            siltstone_update_expires_at_ms(records, 0));
            } catch (...) {
                self.thrown = std::current_exception();
                return false;
            }
        }
    };

    explicit Database(siltstone_t *handle) : handle_(handle) {}
    detail::Owned<siltstone_t, detail::close> handle_;
};

// A read-only file of records.
class Dictionary {
public:
    explicit Dictionary(const std::string &path, const Options &options = Options())
        : handle_(detail::checked(
              [&](char **error) { return siltstone_dictionary_open(path.c_str(), options.handle(), error); })) {}
    explicit Dictionary(siltstone_dictionary_t *handle) : handle_(handle) {}

    std::optional<std::string> get(std::string_view key) const {
        return detail::value([&](size_t *length, char **error) {
            return siltstone_dictionary_get(handle_.get(), key.data(), key.size(), length, error);
        });
    }
    std::vector<std::optional<std::string>> get_many(const std::vector<std::string_view> &keys) const {
        return detail::values(keys, [&](auto &of, char **values, size_t *lengths, char **error) {
            return siltstone_dictionary_get_many(handle_.get(), of.pointers.data(), of.lengths.data(), of.size(),
                                                 values, lengths, error);
        });
    }
    std::uint64_t size() const { return siltstone_dictionary_length(handle_.get(), nullptr); }
    Records records() const {
        return Records(detail::checked(
            [&](char **error) { return siltstone_dictionary_iterate(handle_.get(), error); }));
    }

private:
    detail::Owned<siltstone_dictionary_t, siltstone_dictionary_close> handle_;
};

// Builds a dictionary. Without `finish`, no file remains.
class DictionaryWriter {
public:
    explicit DictionaryWriter(const std::string &path, const Options &options = Options())
        : handle_(detail::checked(
              [&](char **error) { return siltstone_dictionary_create(path.c_str(), options.handle(), error); })) {}
    void put(std::string_view key, std::string_view value) {
        detail::checked([&](char **error) {
            return siltstone_dictionary_writer_put(handle_.get(), key.data(), key.size(), value.data(), value.size(),
                                                   error);
        });
    }
    Dictionary finish() {
        return Dictionary(detail::checked(
            [&](char **error) { return siltstone_dictionary_writer_finish(handle_.release(), error); }));
    }

private:
    detail::Owned<siltstone_dictionary_writer_t, siltstone_dictionary_writer_destroy> handle_;
};

} // namespace siltstone

#endif

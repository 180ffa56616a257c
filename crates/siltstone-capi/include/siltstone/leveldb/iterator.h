/* LevelDB's Iterator: a position among the records in the order of their keys. */

#ifndef SILTSTONE_LEVELDB_ITERATOR_H
#define SILTSTONE_LEVELDB_ITERATOR_H

#include "slice.h"
#include "status.h"

#include <utility>
#include <vector>

namespace leveldb {

class Iterator {
public:
    Iterator() {}
    Iterator(const Iterator &) = delete;
    Iterator &operator=(const Iterator &) = delete;
    virtual ~Iterator() {
        for (const Cleanup &cleanup : cleanups_) cleanup.function(cleanup.first, cleanup.second);
    }

    virtual bool Valid() const = 0;
    virtual void SeekToFirst() = 0;
    virtual void SeekToLast() = 0;
    /* To the first key that is `target` or above it. */
    virtual void Seek(const Slice &target) = 0;
    virtual void Next() = 0;
    virtual void Prev() = 0;
    /* Valid until the iterator moves. */
    virtual Slice key() const = 0;
    virtual Slice value() const = 0;
    virtual Status status() const = 0;

    /* Calls a function when the iterator is destroyed. */
    using CleanupFunction = void (*)(void *first, void *second);
    void RegisterCleanup(CleanupFunction function, void *first, void *second) {
        cleanups_.push_back({function, first, second});
    }

private:
    struct Cleanup {
        CleanupFunction function;
        void *first;
        void *second;
    };
    std::vector<Cleanup> cleanups_;
};

namespace detail {

class EmptyIterator : public Iterator {
public:
    explicit EmptyIterator(Status status) : status_(std::move(status)) {}
    bool Valid() const override { return false; }
    void SeekToFirst() override {}
    void SeekToLast() override {}
    void Seek(const Slice &) override {}
    void Next() override {}
    void Prev() override {}
    Slice key() const override { return Slice(); }
    Slice value() const override { return Slice(); }
    Status status() const override { return status_; }

private:
    Status status_;
};

} // namespace detail

inline Iterator *NewEmptyIterator() { return new detail::EmptyIterator(Status()); }
inline Iterator *NewErrorIterator(const Status &status) { return new detail::EmptyIterator(status); }

} // namespace leveldb

#endif

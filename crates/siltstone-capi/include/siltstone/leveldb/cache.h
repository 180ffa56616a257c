/* LevelDB's Cache as the size of one: the records in it are those of the database that is opened with it. */

#ifndef SILTSTONE_LEVELDB_CACHE_H
#define SILTSTONE_LEVELDB_CACHE_H

#include <cstddef>

namespace leveldb {

class Cache {
public:
    explicit Cache(size_t capacity) : capacity_(capacity) {}
    Cache(const Cache &) = delete;
    Cache &operator=(const Cache &) = delete;
    virtual ~Cache() {}
    size_t capacity() const { return capacity_; }

private:
    size_t capacity_;
};

inline Cache *NewLRUCache(size_t capacity) { return new Cache(capacity); }

} // namespace leveldb

#endif

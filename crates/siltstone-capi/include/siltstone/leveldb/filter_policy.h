/* LevelDB's FilterPolicy. A database never calls it: a filter saves reads of missing keys, which the index of the engine
 * flashkey saves as well. */

#ifndef SILTSTONE_LEVELDB_FILTER_POLICY_H
#define SILTSTONE_LEVELDB_FILTER_POLICY_H

#include "slice.h"

namespace leveldb {

class FilterPolicy {
public:
    virtual ~FilterPolicy() {}
    virtual const char *Name() const = 0;
    virtual void CreateFilter(const Slice *keys, int count, std::string *filter) const = 0;
    virtual bool KeyMayMatch(const Slice &key, const Slice &filter) const = 0;
};

namespace detail {

/* The filter that every key matches. */
class EmptyFilter : public FilterPolicy {
public:
    const char *Name() const override { return "leveldb.BuiltinBloomFilter2"; }
    void CreateFilter(const Slice *, int, std::string *) const override {}
    bool KeyMayMatch(const Slice &, const Slice &) const override { return true; }
};

} // namespace detail

inline const FilterPolicy *NewBloomFilterPolicy(int bits_per_key) {
    (void)bits_per_key;
    return new detail::EmptyFilter;
}

} // namespace leveldb

#endif

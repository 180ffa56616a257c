/* LevelDB's Comparator. A database opens only with one whose name is that of BytewiseComparator: the order on flash is
 * that of bytes. */

#ifndef SILTSTONE_LEVELDB_COMPARATOR_H
#define SILTSTONE_LEVELDB_COMPARATOR_H

#include "slice.h"

namespace leveldb {

class Comparator {
public:
    virtual ~Comparator() {}
    virtual int Compare(const Slice &a, const Slice &b) const = 0;
    virtual const char *Name() const = 0;
    /* Never called by a database. */
    virtual void FindShortestSeparator(std::string *start, const Slice &limit) const = 0;
    virtual void FindShortSuccessor(std::string *key) const = 0;
};

namespace detail {

class Bytewise : public Comparator {
public:
    int Compare(const Slice &a, const Slice &b) const override { return a.compare(b); }
    const char *Name() const override { return "leveldb.BytewiseComparator"; }
    /* A key is a separator and a successor of itself. */
    void FindShortestSeparator(std::string *, const Slice &) const override {}
    void FindShortSuccessor(std::string *) const override {}
};

} // namespace detail

inline const Comparator *BytewiseComparator() {
    // Never destroyed: other objects may use it at the end of the process.
    static const Comparator *const bytewise = new detail::Bytewise;
    return bytewise;
}

} // namespace leveldb

#endif

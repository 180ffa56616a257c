/* LevelDB's Slice: bytes that belong to someone else. */

#ifndef SILTSTONE_LEVELDB_SLICE_H
#define SILTSTONE_LEVELDB_SLICE_H

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

namespace leveldb {

class Slice {
public:
    Slice() : data_(""), size_(0) {}
    Slice(const char *data, size_t size) : data_(data), size_(size) {}
    Slice(const std::string &text) : data_(text.data()), size_(text.size()) {}
    Slice(const char *text) : data_(text), size_(std::strlen(text)) {}

    const char *data() const { return data_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    const char *begin() const { return data_; }
    const char *end() const { return data_ + size_; }
    char operator[](size_t index) const {
        assert(index < size_);
        return data_[index];
    }
    void clear() { *this = Slice(); }
    void remove_prefix(size_t bytes) {
        assert(bytes <= size_);
        data_ += bytes;
        size_ -= bytes;
    }
    std::string ToString() const { return std::string(data_, size_); }

    /* Byte by byte: negative, 0 or positive. */
    int compare(const Slice &other) const {
        int order = std::memcmp(data_, other.data_, size_ < other.size_ ? size_ : other.size_);
        return order != 0 ? order : (size_ > other.size_) - (size_ < other.size_);
    }
    bool starts_with(const Slice &prefix) const {
        return size_ >= prefix.size_ && std::memcmp(data_, prefix.data_, prefix.size_) == 0;
    }

private:
    const char *data_;
    size_t size_;
};

inline bool operator==(const Slice &a, const Slice &b) { return a.size() == b.size() && a.starts_with(b); }
inline bool operator!=(const Slice &a, const Slice &b) { return !(a == b); }

} // namespace leveldb

#endif

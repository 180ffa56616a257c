/* LevelDB's WriteBatch: writes that are applied together. */

#ifndef SILTSTONE_LEVELDB_WRITE_BATCH_H
#define SILTSTONE_LEVELDB_WRITE_BATCH_H

#include "slice.h"
#include "status.h"

namespace leveldb {

class WriteBatch {
public:
    class Handler {
    public:
        virtual ~Handler() {}
        virtual void Put(const Slice &key, const Slice &value) = 0;
        virtual void Delete(const Slice &key) = 0;
    };

    void Put(const Slice &key, const Slice &value) {
        Add({true, key.size(), value.size()});
        bytes_.append(key.data(), key.size());
        bytes_.append(value.data(), value.size());
    }
    void Delete(const Slice &key) {
        Add({false, key.size(), 0});
        bytes_.append(key.data(), key.size());
    }
    void Clear() { bytes_.clear(); }
    /* The bytes of the keys and values, and of a head for each. */
    size_t ApproximateSize() const { return bytes_.size(); }
    void Append(const WriteBatch &source) { bytes_.append(source.bytes_); }

    /* Calls the handler for each write, in their order. */
    Status Iterate(Handler *handler) const {
        for (const char *at = bytes_.data(), *end = at + bytes_.size(); at < end;) {
            Head head;
            std::memcpy(&head, at, sizeof head);
            Slice key(at + sizeof head, head.key_bytes), value(key.end(), head.value_bytes);
            at = value.end();
            if (head.is_put) {
                handler->Put(key, value);
            } else {
                handler->Delete(key);
            }
        }
        return Status();
    }

private:
    /* What is before the key and the value of a write. */
    struct Head {
        bool is_put;
        size_t key_bytes;
        size_t value_bytes;
    };

    void Add(const Head &head) { bytes_.append(reinterpret_cast<const char *>(&head), sizeof head); }

    std::string bytes_;
};

} // namespace leveldb

#endif

/* LevelDB's Status: success, or the kind of an error and its message. */

#ifndef SILTSTONE_LEVELDB_STATUS_H
#define SILTSTONE_LEVELDB_STATUS_H

#include "../../siltstone.h"
#include "slice.h"

namespace leveldb {

class Status {
public:
    Status() noexcept : kind_(Kind::Ok) {}

    static Status OK() { return Status(); }
    static Status NotFound(const Slice &text, const Slice &more = Slice()) {
        return Status(Kind::NotFound, text, more);
    }
    static Status Corruption(const Slice &text, const Slice &more = Slice()) {
        return Status(Kind::Corruption, text, more);
    }
    static Status NotSupported(const Slice &text, const Slice &more = Slice()) {
        return Status(Kind::NotSupported, text, more);
    }
    static Status InvalidArgument(const Slice &text, const Slice &more = Slice()) {
        return Status(Kind::InvalidArgument, text, more);
    }
    static Status IOError(const Slice &text, const Slice &more = Slice()) {
        return Status(Kind::IOError, text, more);
    }

    bool ok() const { return kind_ == Kind::Ok; }
    bool IsNotFound() const { return kind_ == Kind::NotFound; }
    bool IsCorruption() const { return kind_ == Kind::Corruption; }
    bool IsIOError() const { return kind_ == Kind::IOError; }
    bool IsNotSupportedError() const { return kind_ == Kind::NotSupported; }
    bool IsInvalidArgument() const { return kind_ == Kind::InvalidArgument; }

    std::string ToString() const {
        static const char *const names[] = {
            "OK", "NotFound: ", "Corruption: ", "Not implemented: ", "Invalid argument: ", "IO error: ",
        };
        return names[static_cast<int>(kind_)] + message_;
    }

private:
    enum class Kind { Ok, NotFound, Corruption, NotSupported, InvalidArgument, IOError };

    Status(Kind kind, const Slice &text, const Slice &more) : kind_(kind), message_(text.ToString()) {
        if (!more.empty()) message_.append(": ").append(more.data(), more.size());
    }

    Kind kind_;
    std::string message_;
};

namespace detail {

/* Returns a message of the library as a status, and frees it. */
inline Status TakeError(char *error) {
    if (error == nullptr) return Status();
    Slice text(error);
    Status status;
    switch (siltstone_error_code(error)) {
    case SILTSTONE_ERROR_NOT_FOUND:
        status = Status::NotFound(text);
        break;
    case SILTSTONE_ERROR_CORRUPT:
        status = Status::Corruption(text);
        break;
    case SILTSTONE_ERROR_UNSUPPORTED:
        status = Status::NotSupported(text);
        break;
    case SILTSTONE_ERROR_ARGUMENT:
        status = Status::InvalidArgument(text);
        break;
    default:
        status = Status::IOError(text);
    }
    siltstone_free(error);
    return status;
}

} // namespace detail

} // namespace leveldb

#endif

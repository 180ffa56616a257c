/*
 * Siltstone, a key-value store for flash: the C interface.
 *
 * Made by cbindgen from the crate siltstone-capi. `SILTSTONE_BLESS=1 cargo test --package siltstone-capi --test header`
 * writes it.
 *
 * Keys and values are a pointer and a length in bytes. They may contain any bytes, and NULL is an empty one. The library
 * copies what it keeps. Keys have 1 to 65,535 bytes, values up to 256 MiB. Paths, names and texts are in UTF-8 and end
 * with a zero byte.
 *
 * Errors: the last argument of a function that can fail is `char **errptr`. Unless `errptr` is NULL, `*errptr` has to be
 * NULL or a message of this library. On an error, the function frees that message, stores a new one, and returns false,
 * NULL or 0. Without an error it leaves `*errptr` as it is. `siltstone_free` frees a message, and `siltstone_error_code`
 * returns its kind. A NULL where a handle is required is an error, also `SILTSTONE_ERROR_ARGUMENT`.
 *
 * Memory: a `char *` that is returned belongs to the caller, who frees it with `siltstone_free`. A `const char *` belongs
 * to the handle, for as long as the function says. A handle ends with the function that says so, and must not be used
 * after it. The functions that free do nothing with NULL.
 *
 * Threads: a database, a snapshot and a dictionary can be used by any number of threads at once. Any other handle is for
 * one thread at a time. Handles may be passed on between threads.
 *
 * Callbacks must not throw exceptions, and must not leave by longjmp.
 */

#ifndef SILTSTONE_H
#define SILTSTONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The version of the interface, and the number in the name of the shared library. It changes when a program has to be
 * compiled again.
 */
#define SILTSTONE_ABI_VERSION 0

/**
 * No error: the code of NULL.
 */
#define SILTSTONE_OK 0

/**
 * An argument, a setting, a key or a value is not possible.
 */
#define SILTSTONE_ERROR_ARGUMENT 1

/**
 * There is no such database or file, or its change feed does not have the position.
 */
#define SILTSTONE_ERROR_NOT_FOUND 2

/**
 * Another process, or another handle of this one, has the database open.
 */
#define SILTSTONE_ERROR_LOCKED 3

/**
 * The operating system refused an operation.
 */
#define SILTSTONE_ERROR_IO 4

/**
 * A file is damaged.
 */
#define SILTSTONE_ERROR_CORRUPT 5

/**
 * The database was opened read-only.
 */
#define SILTSTONE_ERROR_READ_ONLY 6

/**
 * The database is closed.
 */
#define SILTSTONE_ERROR_CLOSED 7

/**
 * An earlier write failed, and the database accepts no more of them until it is opened again.
 */
#define SILTSTONE_ERROR_POISONED 8

/**
 * The process was forked from the one that opened the database.
 */
#define SILTSTONE_ERROR_FORKED 9

/**
 * The engine, or this version, does not support the operation.
 */
#define SILTSTONE_ERROR_UNSUPPORTED 10

/**
 * A callback stopped the operation.
 */
#define SILTSTONE_ERROR_INTERRUPTED 11

/**
 * There is no space left: in a store in memory, within the capacity of a database, in the file system besides its
 * reserve, or for a value that is returned.
 */
#define SILTSTONE_ERROR_FULL 12

/**
 * A defect of the library.
 */
#define SILTSTONE_ERROR_INTERNAL 13

/**
 * What a write survives: what the option "durability" of the database says.
 */
#define SILTSTONE_DURABILITY_DEFAULT 0

/**
 * What a write survives: nothing; it may be lost with the process.
 */
#define SILTSTONE_DURABILITY_BUFFERED 1

/**
 * What a write survives: the end of the process, but not a power loss.
 */
#define SILTSTONE_DURABILITY_WRITTEN 2

/**
 * What a write survives: a power loss. Concurrent writers share a sync.
 */
#define SILTSTONE_DURABILITY_SYNCED 3

/**
 * Writes that are applied together. If several have the same key, the last one applies.
 */
typedef struct siltstone_batch_t siltstone_batch_t;

/**
 * A database that is open. All threads may use it at once.
 */
typedef struct siltstone_t siltstone_t;

/**
 * A dictionary that is open. All threads may use it at once, and after a fork all processes.
 */
typedef struct siltstone_dictionary_t siltstone_dictionary_t;

/**
 * A dictionary that is being built.
 */
typedef struct siltstone_dictionary_writer_t siltstone_dictionary_writer_t;

/**
 * A position in a series of records; at first before the first one.
 */
typedef struct siltstone_iterator_t siltstone_iterator_t;

/**
 * The settings of a database or a dictionary that is opened. They may be used for any number of opens.
 */
typedef struct siltstone_options_t siltstone_options_t;

/**
 * All records of a database at one moment. All threads may use it at once.
 */
typedef struct siltstone_snapshot_t siltstone_snapshot_t;

/**
 * The records of an update, in the order of their keys, and what happens to them.
 */
typedef struct siltstone_update_t siltstone_update_t;

/**
 * Called from time to time during a long operation with the bytes done and the bytes in total. Returns whether to
 * continue; false ends the operation with `SILTSTONE_ERROR_INTERRUPTED`.
 */
typedef bool (*siltstone_progress_fn)(void *state, uint64_t done, uint64_t total);

/**
 * Sets the changes of an update: `siltstone_update_put` and `siltstone_update_delete`. Returns whether to apply them;
 * false ends the update with `SILTSTONE_ERROR_INTERRUPTED`. It must not use the database, or it deadlocks.
 */
typedef bool (*siltstone_update_fn)(void *state, siltstone_update_t *records);

/**
 * A put of a batch.
 */
typedef void (*siltstone_batch_put_fn)(void *state,
                                       const char *key,
                                       size_t key_length,
                                       const char *value,
                                       size_t value_length,
                                       uint64_t expires_at_ms);

/**
 * A delete of a batch.
 */
typedef void (*siltstone_batch_delete_fn)(void *state, const char *key, size_t key_length);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns `SILTSTONE_ABI_VERSION` of the library that the program runs with.
 */
uint32_t siltstone_abi_version(void);

/**
 * Returns the version of the library, such as "0.1.0". The text is constant.
 */
const char *siltstone_version(void);

/**
 * Frees a value, a text or a message of this library. NULL is allowed.
 */
void siltstone_free(void *pointer);

/**
 * Returns the kind of an error: one of `SILTSTONE_ERROR_...`, and `SILTSTONE_OK` for NULL. `error` has to be a message
 * of this library, not a copy of one.
 */
uint32_t siltstone_error_code(const char *error);

/**
 * Returns the time in this many milliseconds, for records that expire then.
 */
uint64_t siltstone_expires_in_ms(uint64_t milliseconds);

/**
 * Opens the database in the directory `path`, or creates it. `options` may be NULL for the defaults, and may be freed
 * afterwards. With a `path` of NULL, opens an empty database of an engine that keeps all data in memory ("mica"),
 * without a directory. `siltstone_close` closes it. Returns NULL on an error.
 *
 * A database that was not closed, because the process ended or lost power, is recovered; nothing that was durable is
 * lost.
 */
siltstone_t *siltstone_open(const char *path,
                            const siltstone_options_t *options,
                            char **errptr);

/**
 * Closes the database and frees its handle, also on an error. Waits for running background work and makes everything
 * durable. No other thread may use the handle any more. Iterators, snapshots and batches are freed on their own,
 * before or after; the former return `SILTSTONE_ERROR_CLOSED` from now on. NULL is allowed.
 */
bool siltstone_close(siltstone_t *database,
                     char **errptr);

/**
 * Removes the database in the directory `path` with all its records, and the directory if it contains nothing else.
 * The database must not be open.
 */
bool siltstone_destroy(const char *path,
                       char **errptr);

/**
 * Makes all earlier writes durable: they survive a power failure.
 */
bool siltstone_sync(const siltstone_t *database, char **errptr);

/**
 * Blocks until there is no background work left.
 */
bool siltstone_settle(const siltstone_t *database, char **errptr);

/**
 * Merges everything into the last store, and returns when that is done.
 */
bool siltstone_compact(const siltstone_t *database, char **errptr);

/**
 * Executes one bounded piece of background work, for databases that were opened with "background_threads" of "0". Sets
 * `*worked` to whether there was any.
 */
bool siltstone_step(const siltstone_t *database,
                    bool *worked,
                    char **errptr);

/**
 * Writes a consistent copy to the directory `path`, which must be empty or not exist. The copy is an independent
 * database. Files are hard-linked where the file system supports it, so it takes little time and space.
 */
bool siltstone_checkpoint(const siltstone_t *database,
                          const char *path,
                          char **errptr);

/**
 * Changes the limit on the memory, in bytes; 0 removes it, and the record cache.
 */
bool siltstone_set_memory_budget(const siltstone_t *database, uint64_t bytes, char **errptr);

/**
 * Returns the approximate number of keys, with a standard error of at most 0.6 %. Reads some blocks of each store.
 */
uint64_t siltstone_approximate_length(const siltstone_t *database,
                                      char **errptr);

/**
 * Returns the exact number of keys. Reads all records, or all keys of a database that keeps their order.
 */
uint64_t siltstone_length(const siltstone_t *database,
                          char **errptr);

/**
 * Returns the statistics as one line of JSON, with the names of `siltstone stats --json`: engine, settings, records,
 * memory by item, operations and bytes of the device by purpose, usage since the database was created.
 */
char *siltstone_stats_json(const siltstone_t *database,
                           char **errptr);

/**
 * Returns the statistics in the text format of Prometheus.
 */
char *siltstone_stats_prometheus(const siltstone_t *database, char **errptr);

/**
 * Reads everything and looks for damage. Returns the report as one line of JSON, as `siltstone verify --json`; its
 * list "damage" is empty if the database is intact. "live_records" is the number of live records, each key once; null
 * if there is damage. Sets `*intact`. `progress` and `intact` may be NULL.
 */
char *siltstone_verify(const siltstone_t *database,
                       siltstone_progress_fn progress,
                       void *state,
                       bool *intact,
                       char **errptr);

/**
 * Like `siltstone_verify`, for a database that is not open, also if it cannot be opened. Changes nothing.
 */
char *siltstone_verify_closed(const char *path,
                              siltstone_progress_fn progress,
                              void *state,
                              bool *intact,
                              char **errptr);

/**
 * Repairs a database that is not open: keeps every intact record, and moves damaged files to a subdirectory. Returns
 * the report as one line of JSON, as `siltstone repair --json`: what was damaged, and which keys may be lost. An
 * intact database is not changed.
 */
char *siltstone_repair(const char *path,
                       siltstone_progress_fn progress,
                       void *state,
                       char **errptr);

/**
 * Opens the dictionary in the file `path`. `siltstone_dictionary_close` closes it. `options` may be NULL, or have the
 * settings "without_index" ("true" leaves the index on flash), "access" and "queue_depth".
 */
siltstone_dictionary_t *siltstone_dictionary_open(const char *path,
                                                  const siltstone_options_t *options,
                                                  char **errptr);

/**
 * Closes a dictionary and frees its handle. No other thread may use it any more.
 */
void siltstone_dictionary_close(siltstone_dictionary_t *dictionary);

/**
 * Starts to build a dictionary. The file `path` appears, or is replaced, when `siltstone_dictionary_writer_finish`
 * returns. `options` may be NULL, or have the settings "fixed", "hashed_keys" and "block_bytes" as databases, "index"
 * ("fences", "sparse_trie", "dense_trie" or "none"), "memory_bytes" for sorting, such as "64MiB",
 * "temporary_directory" and "refuse_duplicates".
 */
siltstone_dictionary_writer_t *siltstone_dictionary_create(const char *path,
                                                           const siltstone_options_t *options,
                                                           char **errptr);

/**
 * Like `siltstone_dictionary_create`, for a new file with the records of a dictionary and the changes of the writer.
 * The dictionary stays as it is and may be closed, also if the new file has its path.
 */
siltstone_dictionary_writer_t *siltstone_dictionary_update(const siltstone_dictionary_t *dictionary,
                                                           const char *path,
                                                           const siltstone_options_t *options,
                                                           char **errptr);

/**
 * Adds a record. Records may come in any order; the last one of a key wins.
 */
bool siltstone_dictionary_writer_put(siltstone_dictionary_writer_t *writer,
                                     const void *key,
                                     size_t key_length,
                                     const void *value,
                                     size_t value_length,
                                     char **errptr);

/**
 * Removes a key of the dictionary that is updated, or one that was put before.
 */
bool siltstone_dictionary_writer_delete(siltstone_dictionary_writer_t *writer,
                                        const void *key,
                                        size_t key_length,
                                        char **errptr);

/**
 * Writes the dictionary, frees the writer, also on an error, and returns the dictionary, open.
 */
siltstone_dictionary_t *siltstone_dictionary_writer_finish(siltstone_dictionary_writer_t *writer,
                                                           char **errptr);

/**
 * Frees a writer without finishing. No file remains.
 */
void siltstone_dictionary_writer_destroy(siltstone_dictionary_writer_t *writer);

/**
 * Gives the dictionary in the file `path` another index: "fences", "sparse_trie", "dense_trie" or "none". Handles that
 * are open keep the index that they have.
 */
bool siltstone_dictionary_reindex(const char *path,
                                  const char *index,
                                  char **errptr);

/**
 * Returns the number of records.
 */
uint64_t siltstone_dictionary_length(const siltstone_dictionary_t *dictionary, char **errptr);

/**
 * Returns the memory of the index, in bytes.
 */
size_t siltstone_dictionary_index_bytes(const siltstone_dictionary_t *dictionary, char **errptr);

/**
 * Like `siltstone_get`, of a dictionary. A key of another length than the fixed one is absent.
 */
char *siltstone_dictionary_get(const siltstone_dictionary_t *dictionary,
                               const void *key,
                               size_t key_length,
                               size_t *value_length,
                               char **errptr);

/**
 * Like `siltstone_get_into`, of a dictionary.
 */
bool siltstone_dictionary_get_into(const siltstone_dictionary_t *dictionary,
                                   const void *key,
                                   size_t key_length,
                                   void *buffer,
                                   size_t capacity,
                                   size_t *value_length,
                                   char **errptr);

/**
 * Like `siltstone_get_many`, of a dictionary.
 */
bool siltstone_dictionary_get_many(const siltstone_dictionary_t *dictionary,
                                   const void *const *keys,
                                   const size_t *key_lengths,
                                   size_t count,
                                   char **values,
                                   size_t *value_lengths,
                                   char **errptr);

/**
 * Like `siltstone_contains_many`, of a dictionary.
 */
bool siltstone_dictionary_contains_many(const siltstone_dictionary_t *dictionary,
                                        const void *const *keys,
                                        const size_t *key_lengths,
                                        size_t count,
                                        bool *found,
                                        char **errptr);

/**
 * Like `siltstone_get_rows`, of a dictionary.
 */
bool siltstone_dictionary_get_rows(const siltstone_dictionary_t *dictionary,
                                   const void *keys,
                                   size_t key_length,
                                   size_t count,
                                   void *values,
                                   size_t value_length,
                                   bool *found,
                                   char **errptr);

/**
 * Returns an iterator over all records, in the order of their hashes. It may outlive the handle.
 */
siltstone_iterator_t *siltstone_dictionary_iterate(const siltstone_dictionary_t *dictionary,
                                                   char **errptr);

/**
 * Reads the complete file and looks for damage, like `siltstone_verify`.
 */
char *siltstone_dictionary_verify(const siltstone_dictionary_t *dictionary,
                                  siltstone_progress_fn progress,
                                  void *state,
                                  bool *intact,
                                  char **errptr);

/**
 * Takes a snapshot of all records: reads from it do not see later writes. `siltstone_snapshot_destroy` frees it. It
 * keeps what it reads from, so files and memory that are no longer needed otherwise are freed after it.
 */
siltstone_snapshot_t *siltstone_snapshot_create(const siltstone_t *database,
                                                char **errptr);

/**
 * Frees a snapshot.
 */
void siltstone_snapshot_destroy(siltstone_snapshot_t *snapshot);

/**
 * Like `siltstone_get`, as of the snapshot.
 */
char *siltstone_snapshot_get(const siltstone_snapshot_t *snapshot,
                             const void *key,
                             size_t key_length,
                             size_t *value_length,
                             char **errptr);

/**
 * Like `siltstone_get_many`, as of the snapshot.
 */
bool siltstone_snapshot_get_many(const siltstone_snapshot_t *snapshot,
                                 const void *const *keys,
                                 const size_t *key_lengths,
                                 size_t count,
                                 char **values,
                                 size_t *value_lengths,
                                 char **errptr);

/**
 * Returns an iterator over all records of a snapshot, in the order of the engine. It may outlive the snapshot.
 */
siltstone_iterator_t *siltstone_snapshot_iterate(const siltstone_snapshot_t *snapshot,
                                                 char **errptr);

/**
 * Returns an iterator over all records of a snapshot in the order of their keys, byte by byte. It can seek and move in
 * both directions, and always reads the records of the snapshot, which it may outlive. A database that does not keep
 * the order returns `SILTSTONE_ERROR_UNSUPPORTED`, as for `siltstone_range`.
 */
siltstone_iterator_t *siltstone_snapshot_iterate_ordered(const siltstone_snapshot_t *snapshot,
                                                         char **errptr);

/**
 * Returns an iterator over all records as they are at this moment, in the order of the engine.
 * `siltstone_iterator_destroy` frees it.
 */
siltstone_iterator_t *siltstone_iterate(const siltstone_t *database, char **errptr);

/**
 * Returns an iterator over the records whose keys are from `first` on and below `end`, byte by byte; NULL for either
 * is no bound. With `reverse`, from the highest to the lowest. At most `limit` records, 0 for all. An engine that does
 * not keep the order returns `SILTSTONE_ERROR_UNSUPPORTED`; "flashkey" keeps it if the database was created with its
 * setting "ordered".
 */
siltstone_iterator_t *siltstone_range(const siltstone_t *database,
                                      const void *first,
                                      size_t first_length,
                                      const void *end,
                                      size_t end_length,
                                      bool reverse,
                                      size_t limit,
                                      char **errptr);

/**
 * Like `siltstone_range`, with the records whose keys begin with `prefix`.
 */
siltstone_iterator_t *siltstone_prefix(const siltstone_t *database,
                                       const void *prefix,
                                       size_t prefix_length,
                                       bool reverse,
                                       size_t limit,
                                       char **errptr);

/**
 * Returns an iterator over one page of a scan: about `limit` records from `position` to `last` in the order of their
 * scan positions, which are hashes of the keys. Sets `*next` to the position of the next page, or to 0 after the last
 * one. A scan of everything begins with 0 and has UINT64_MAX as `last`. Nothing is held between two pages, so a scan
 * can continue after a restart, and parts of it can run at the same time.
 */
siltstone_iterator_t *siltstone_scan(const siltstone_t *database,
                                     uint64_t position,
                                     uint64_t last,
                                     size_t limit,
                                     uint64_t *next,
                                     char **errptr);

/**
 * Returns the present position in the change feed, as text that can be kept. A database has a feed if the option
 * "change_feed" was set.
 */
char *siltstone_change_position(const siltstone_t *database,
                                char **errptr);

/**
 * Returns an iterator over up to `limit` different keys that were put or deleted since a position; their values are
 * empty. Sets `*next` to the position of the next call, which the caller frees. A key may be returned although nothing
 * has changed. If changes since the position are lost, returns `SILTSTONE_ERROR_NOT_FOUND`: read all records again.
 */
siltstone_iterator_t *siltstone_changes(const siltstone_t *database,
                                        const char *since,
                                        size_t limit,
                                        char **next,
                                        char **errptr);

/**
 * Moves to the next record, at first to the first one, and returns true; false after the last one and on an error. If
 * the database is closed, the error is `SILTSTONE_ERROR_CLOSED`.
 */
bool siltstone_iterator_next(siltstone_iterator_t *iterator,
                             char **errptr);

/**
 * Moves an iterator of `siltstone_snapshot_iterate_ordered` to the record before the current one, and returns true;
 * false before the first one, if there is no current record, and on an error. A change of direction costs as much as a
 * seek. Others return `SILTSTONE_ERROR_UNSUPPORTED`.
 */
bool siltstone_iterator_previous(siltstone_iterator_t *iterator,
                                 char **errptr);

/**
 * Moves an iterator of `siltstone_snapshot_iterate_ordered` to the first record whose key is `key` or above it, byte
 * by byte, and returns true; false if there is none, and on an error. NULL is the first record of all. `key` may be
 * that of the current record. Others return `SILTSTONE_ERROR_UNSUPPORTED`.
 */
bool siltstone_iterator_seek(siltstone_iterator_t *iterator,
                             const void *key,
                             size_t key_length,
                             char **errptr);

/**
 * Like `siltstone_iterator_seek`, to the last record of all.
 */
bool siltstone_iterator_seek_last(siltstone_iterator_t *iterator, char **errptr);

/**
 * Returns the key of the current record, and sets `*length`; NULL if there is none. It is valid until the iterator
 * moves.
 */
const char *siltstone_iterator_key(const siltstone_iterator_t *iterator,
                                   size_t *length);

/**
 * Returns the value of the current record, and sets `*length`; NULL if there is none. It is valid until the iterator
 * moves.
 */
const char *siltstone_iterator_value(const siltstone_iterator_t *iterator,
                                     size_t *length);

/**
 * Returns the time when the current record expires, in milliseconds since 1970; 0 if never, or if there is none.
 */
uint64_t siltstone_iterator_expires_at_ms(const siltstone_iterator_t *iterator);

/**
 * Frees an iterator.
 */
void siltstone_iterator_destroy(siltstone_iterator_t *iterator);

/**
 * Makes options with the defaults. `siltstone_options_destroy` frees them.
 */
siltstone_options_t *siltstone_options_create(void);

/**
 * Frees options. What was opened with them stays as it is.
 */
void siltstone_options_destroy(siltstone_options_t *options);

/**
 * Sets a setting by its name, to a value as text. Of a database:
 *
 * - "engine": "silt", "flashkey", "flashstore", "bloomstore" or "mica". Default: that of the database in the
 *   directory, "silt" for a new one.
 * - "create": "true" or "false", whether to create a database if there is none. Default: "true".
 * - "read_only": "true" or "false". Several processes may read at the same time. Default: "false".
 * - "fixed": the lengths of all keys and all values, such as "32,8"; they are not stored then.
 * - "hashed_keys": "true" if keys are uniform hashes of 8 bytes or more.
 * - "expiring": "true" if records of fixed lengths may expire.
 * - "durability": what a write survives once it returns: "buffered", "written" (default) or "synced".
 * - "memory_budget": the most memory, in bytes, such as "64MiB".
 * - "partitions", "block_bytes", "access", "verify_checksums", "background_threads", "open_files_max", "change_feed",
 *   and the settings of the engine, which `siltstone engines` and docs/SETTINGS.md list.
 *
 * `siltstone_dictionary_create`, `siltstone_dictionary_update` and `siltstone_dictionary_open` list those of
 * dictionaries. A name or a value that is not possible is an error of the function that the options are given to.
 */
void siltstone_options_set(siltstone_options_t *options,
                           const char *name,
                           const char *value);

/**
 * Sets a callback for opens that take long. NULL removes it. It is called in the thread that opens, with `state`.
 */
void siltstone_options_set_progress(siltstone_options_t *options,
                                    siltstone_progress_fn progress,
                                    void *state);

/**
 * Returns a copy of the value of a key, and sets `*value_length`. Returns NULL if there is no such key. The value has
 * no zero byte at its end. Takes one flash read, rarely more.
 */
char *siltstone_get(const siltstone_t *database,
                    const void *key,
                    size_t key_length,
                    size_t *value_length,
                    char **errptr);

/**
 * Like `siltstone_get`, and sets `*expires_at_ms` to when the record expires, in milliseconds since 1970, or to 0 if
 * it never does.
 */
char *siltstone_get_with_expiry(const siltstone_t *database,
                                const void *key,
                                size_t key_length,
                                size_t *value_length,
                                uint64_t *expires_at_ms,
                                char **errptr);

/**
 * Copies the value of a key to `buffer`, and returns true; false if there is no such key. Sets `*value_length`. A
 * value of more than `capacity` bytes is not copied: compare the two. Allocates nothing.
 */
bool siltstone_get_into(const siltstone_t *database,
                        const void *key,
                        size_t key_length,
                        void *buffer,
                        size_t capacity,
                        size_t *value_length,
                        char **errptr);

/**
 * Returns whether the key exists. Costs as much as a get.
 */
bool siltstone_contains(const siltstone_t *database,
                        const void *key,
                        size_t key_length,
                        char **errptr);

/**
 * Returns false only if the key is certainly absent. Reads nothing from the device.
 */
bool siltstone_may_contain(const siltstone_t *database,
                           const void *key,
                           size_t key_length,
                           char **errptr);

/**
 * Gets the values of `count` keys, with overlapping reads. Sets `values[i]` to a copy of the value of `keys[i]`, which
 * the caller frees, or to NULL, and `value_lengths[i]`. On an error there is nothing to free.
 */
bool siltstone_get_many(const siltstone_t *database,
                        const void *const *keys,
                        const size_t *key_lengths,
                        size_t count,
                        char **values,
                        size_t *value_lengths,
                        char **errptr);

/**
 * Sets `found[i]` to whether `keys[i]` exists, for `count` keys, with overlapping reads.
 */
bool siltstone_contains_many(const siltstone_t *database,
                             const void *const *keys,
                             const size_t *key_lengths,
                             size_t count,
                             bool *found,
                             char **errptr);

/**
 * Gets the values of `count` keys of `key_length` bytes each, which follow each other from `keys` on. Copies each
 * value to its row of `value_length` bytes from `values` on, and sets `found[i]`. Rows of absent keys stay as they
 * are. A value of another length is an error. For embeddings, features and the like.
 */
bool siltstone_get_rows(const siltstone_t *database,
                        const void *keys,
                        size_t key_length,
                        size_t count,
                        void *values,
                        size_t value_length,
                        bool *found,
                        char **errptr);

/**
 * Puts the record if the key is absent, in one atomic step, and returns whether it did.
 */
bool siltstone_insert_if_absent(const siltstone_t *database,
                                const void *key,
                                size_t key_length,
                                const void *value,
                                size_t value_length,
                                char **errptr);

/**
 * Like `siltstone_insert_if_absent`, with a durability, `SILTSTONE_DURABILITY_...`, and with the time when the record
 * expires, in milliseconds since 1970; 0 for never. A record that is present keeps its time.
 */
bool siltstone_insert_if_absent_with(const siltstone_t *database,
                                     const void *key,
                                     size_t key_length,
                                     const void *value,
                                     size_t value_length,
                                     uint32_t durability,
                                     uint64_t expires_at_ms,
                                     char **errptr);

/**
 * Puts those of `count` records whose keys are absent, all in one atomic step, and sets `inserted[i]`. Of records with
 * the same key, the first one wins. The reads overlap.
 */
bool siltstone_insert_many_if_absent(const siltstone_t *database,
                                     const void *const *keys,
                                     const size_t *key_lengths,
                                     const void *const *values,
                                     const size_t *value_lengths,
                                     size_t count,
                                     bool *inserted,
                                     char **errptr);

/**
 * Like `siltstone_insert_many_if_absent`, with a durability and a time when the records expire: see
 * `siltstone_insert_if_absent_with`.
 */
bool siltstone_insert_many_if_absent_with(const siltstone_t *database,
                                          const void *const *keys,
                                          const size_t *key_lengths,
                                          const void *const *values,
                                          const size_t *value_lengths,
                                          size_t count,
                                          bool *inserted,
                                          uint32_t durability,
                                          uint64_t expires_at_ms,
                                          char **errptr);

/**
 * Replaces the value of a key if it is `expected`, in one atomic step, and returns whether it did. NULL means an
 * absent key: as `expected`, the key must be absent; as `value`, it is deleted. An empty value is a pointer that is
 * not NULL, and a length of 0. The new record never expires.
 */
bool siltstone_compare_and_swap(const siltstone_t *database,
                                const void *key,
                                size_t key_length,
                                const void *expected,
                                size_t expected_length,
                                const void *value,
                                size_t value_length,
                                char **errptr);

/**
 * Like `siltstone_compare_and_swap`, with a durability, `SILTSTONE_DURABILITY_...`, and with the time when the new
 * record expires, in milliseconds since 1970; 0 for never.
 */
bool siltstone_compare_and_swap_with(const siltstone_t *database,
                                     const void *key,
                                     size_t key_length,
                                     const void *expected,
                                     size_t expected_length,
                                     const void *value,
                                     size_t value_length,
                                     uint32_t durability,
                                     uint64_t expires_at_ms,
                                     char **errptr);

/**
 * Removes a key in one atomic step, and returns its value as `siltstone_get`; NULL if it was absent.
 */
char *siltstone_remove(const siltstone_t *database,
                       const void *key,
                       size_t key_length,
                       size_t *value_length,
                       char **errptr);

/**
 * Calls `change` once with the record of a key, which has the index 0, and applies the change that it sets. No other
 * write to the key happens in between. What is not changed is kept. `durability` is `SILTSTONE_DURABILITY_...`.
 */
bool siltstone_update(const siltstone_t *database,
                      const void *key,
                      size_t key_length,
                      uint32_t durability,
                      siltstone_update_fn change,
                      void *state,
                      char **errptr);

/**
 * Like `siltstone_update`, for `count` keys: applies all changes or none. The reads overlap. If a key is given twice,
 * its later change wins.
 */
bool siltstone_update_many(const siltstone_t *database,
                           const void *const *keys,
                           const size_t *key_lengths,
                           size_t count,
                           uint32_t durability,
                           siltstone_update_fn change,
                           void *state,
                           char **errptr);

/**
 * Returns the value of a record of an update, and sets `*value_length`; NULL if the key is absent. It is valid until
 * the callback returns.
 */
const char *siltstone_update_value(const siltstone_update_t *records,
                                   size_t index,
                                   size_t *value_length);

/**
 * Returns the time when a record of an update expires, in milliseconds since 1970; 0 if never or if the key is absent.
 */
uint64_t siltstone_update_expires_at_ms(const siltstone_update_t *records,
                                        size_t index);

/**
 * Puts a value, a copy of which is made, with its expiry time; 0 for never. Returns false if there is no such record.
 */
bool siltstone_update_put(siltstone_update_t *records,
                          size_t index,
                          const void *value,
                          size_t value_length,
                          uint64_t expires_at_ms);

/**
 * Deletes the key. Returns false if there is no such record.
 */
bool siltstone_update_delete(siltstone_update_t *records, size_t index);

/**
 * Sets the value of a key.
 */
bool siltstone_put(const siltstone_t *database,
                   const void *key,
                   size_t key_length,
                   const void *value,
                   size_t value_length,
                   char **errptr);

/**
 * Like `siltstone_put`, with a durability, `SILTSTONE_DURABILITY_...`, and with the time when the record expires, in
 * milliseconds since 1970; 0 for never. `siltstone_expires_in_ms` returns such a time.
 */
bool siltstone_put_with(const siltstone_t *database,
                        const void *key,
                        size_t key_length,
                        const void *value,
                        size_t value_length,
                        uint32_t durability,
                        uint64_t expires_at_ms,
                        char **errptr);

/**
 * Removes a key, if it exists.
 */
bool siltstone_delete(const siltstone_t *database,
                      const void *key,
                      size_t key_length,
                      char **errptr);

/**
 * Like `siltstone_delete`, with a durability, `SILTSTONE_DURABILITY_...`.
 */
bool siltstone_delete_with(const siltstone_t *database,
                           const void *key,
                           size_t key_length,
                           uint32_t durability,
                           char **errptr);

/**
 * Deletes all keys that begin with a prefix, which must not be empty: `siltstone_clear` deletes all keys. Returns how
 * many there were; 0 on an error.
 * Keys are deleted in batches of up to 1,024, each of them atomic, with a durability,
 * `SILTSTONE_DURABILITY_...`. After each batch, `progress` is called with the number of deleted keys and the number of
 * records or keys that were read; if it returns false, nothing more is deleted, and the error is
 * `SILTSTONE_ERROR_INTERRUPTED`. It may be NULL. Reads all records, unless the database keeps the order of its keys.
 */
uint64_t siltstone_delete_prefix(const siltstone_t *database,
                                 const void *prefix,
                                 size_t prefix_length,
                                 uint32_t durability,
                                 siltstone_progress_fn progress,
                                 void *state,
                                 char **errptr);

/**
 * Deletes all records, with the arguments and the costs of `siltstone_delete_prefix`. Records that others put
 * meanwhile may remain. If no other thread uses the database, `siltstone_destroy` and a new one cost much less.
 */
uint64_t siltstone_clear(const siltstone_t *database,
                         uint32_t durability,
                         siltstone_progress_fn progress,
                         void *state,
                         char **errptr);

/**
 * Applies all writes of a batch or none, with a durability, `SILTSTONE_DURABILITY_...`. The batch stays as it is. If
 * one of its writes is not possible, returns its error and writes nothing.
 */
bool siltstone_write(const siltstone_t *database,
                     const siltstone_batch_t *batch,
                     uint32_t durability,
                     char **errptr);

/**
 * Makes an empty batch. `siltstone_batch_destroy` frees it.
 */
siltstone_batch_t *siltstone_batch_create(void);

/**
 * Frees a batch.
 */
void siltstone_batch_destroy(siltstone_batch_t *batch);

/**
 * Removes all writes of a batch, and keeps its memory.
 */
void siltstone_batch_clear(siltstone_batch_t *batch);

/**
 * Returns the number of writes of a batch.
 */
size_t siltstone_batch_length(const siltstone_batch_t *batch);

/**
 * Adds a put of a record that expires at a time in milliseconds since 1970; 0 for never.
 */
void siltstone_batch_put(siltstone_batch_t *batch,
                         const void *key,
                         size_t key_length,
                         const void *value,
                         size_t value_length,
                         uint64_t expires_at_ms);

/**
 * Adds a delete.
 */
void siltstone_batch_delete(siltstone_batch_t *batch, const void *key, size_t key_length);

/**
 * Adds the writes of the batch `from` to `batch`.
 */
void siltstone_batch_append(siltstone_batch_t *batch, const siltstone_batch_t *from);

/**
 * Calls `put` or `delete_key` for each write of a batch, in their order, with `state`. NULL for either leaves those
 * out.
 */
void siltstone_batch_iterate(const siltstone_batch_t *batch,
                             void *state,
                             siltstone_batch_put_fn put,
                             siltstone_batch_delete_fn delete_key);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SILTSTONE_H */

/* What of BerkeleyDB the comparison uses, as plain functions: its own interface is made of structures of pointers to
 * functions, whose layout only its header knows. All functions return 0 or BerkeleyDB's error. */

#include <db.h>
#include <stdlib.h>
#include <string.h>

struct bench_db {
    DB_ENV *environment;
    DB *database;
};

void bench_db_close(struct bench_db *db) {
    if (db->database != NULL) db->database->close(db->database, 0);
    if (db->environment != NULL) db->environment->close(db->environment, 0);
    free(db);
}

static int open_environment(struct bench_db *db, const char *directory, unsigned long long cache_bytes) {
    int error = db_env_create(&db->environment, 0);
    if (error != 0) return error;
    DB_ENV *environment = db->environment;
    const unsigned gigabyte = 1u << 30;
    error = environment->set_cachesize(environment, cache_bytes / gigabyte, cache_bytes % gigabyte, 1);
    if (error != 0) return error;
    return environment->open(environment, directory,
                             DB_CREATE | DB_PRIVATE | DB_INIT_MPOOL | DB_INIT_CDB | DB_THREAD, 0);
}

/* Opens or creates a hash database for so many records of that size. */
int bench_db_open(const char *directory, unsigned long long cache_bytes, unsigned records,
                  unsigned record_bytes, struct bench_db **opened) {
    struct bench_db *db = calloc(1, sizeof *db);
    if (db == NULL) return -1;
    int error = open_environment(db, directory, cache_bytes);
    if (error == 0) error = db_create(&db->database, db->environment, 0);
    if (error == 0) {
        /* What its manual advises: (page size - 32) / (record size + 8) records a page. */
        const unsigned page_bytes = 4096, fill = (page_bytes - 32) / (record_bytes + 8);
        DB *database = db->database;
        database->set_pagesize(database, page_bytes);
        database->set_h_ffactor(database, fill > 0 ? fill : 1);
        database->set_h_nelem(database, records);
        error = database->open(database, NULL, "records.db", NULL, DB_HASH, DB_CREATE | DB_THREAD, 0);
    }
    if (error != 0) {
        bench_db_close(db);
        return error;
    }
    *opened = db;
    return 0;
}

static DBT entry(const void *bytes, unsigned length) {
    DBT entry;
    memset(&entry, 0, sizeof entry);
    entry.data = (void *)bytes;
    entry.size = length;
    return entry;
}

/* Copies the value into `value`, which has room for `*length` bytes, and sets the length. */
int bench_db_get(struct bench_db *db, const void *key, unsigned key_length, void *value, unsigned *length) {
    DBT key_entry = entry(key, key_length), value_entry = entry(value, 0);
    value_entry.flags = DB_DBT_USERMEM;
    value_entry.ulen = *length;
    int error = db->database->get(db->database, NULL, &key_entry, &value_entry, 0);
    *length = value_entry.size;
    return error;
}

int bench_db_put(struct bench_db *db, const void *key, unsigned key_length, const void *value, unsigned length) {
    DBT key_entry = entry(key, key_length), value_entry = entry(value, length);
    return db->database->put(db->database, NULL, &key_entry, &value_entry, 0);
}

int bench_db_sync(struct bench_db *db) {
    return db->database->sync(db->database, 0);
}

int bench_db_not_found(void) {
    return DB_NOTFOUND;
}

const char *bench_db_message(int error) {
    return db_strerror(error);
}

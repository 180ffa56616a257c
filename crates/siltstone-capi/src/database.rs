//! Opening, closing and maintenance of databases.

use crate::border::{body, disown, give_text, handle, own, set, text};
use crate::options::{Options, Progress, ProgressFn, go_on, options_or_default};
use siltstone::{Database, RepairOptions};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A database that is open. All threads may use it at once.
pub struct Db(pub(crate) Database, pub(crate) IsClosed);

/// Whether a database was closed. Its iterators know it, also those whose records are in memory.
pub type IsClosed = Arc<AtomicBool>;

/// Opens the database in the directory `path`, or creates it. `options` may be NULL for the defaults, and may be freed
/// afterwards. With a `path` of NULL, opens an empty database of an engine that keeps all data in memory ("mica"),
/// without a directory. `siltstone_close` closes it. Returns NULL on an error.
///
/// A database that was not closed, because the process ended or lost power, is recovered; nothing that was durable is
/// lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_open(
    path: *const c_char,
    options: *const Options,
    errptr: *mut *mut c_char,
) -> *mut Db {
    body!(errptr, {
        let default = Options::default();
        let options = options_or_default(options, &default);
        let opened = match path.is_null() {
            true => options.builder("")?.open_in_memory()?,
            false => options.builder(text("the path", path)?)?.open()?,
        };
        Ok(own(Db(opened, IsClosed::default())))
    })
}

/// Closes the database and frees its handle, also on an error. Waits for running background work and makes everything
/// durable. No other thread may use the handle any more. Iterators, snapshots and batches are freed on their own,
/// before or after; the former return `SILTSTONE_ERROR_CLOSED` from now on. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_close(database: *mut Db, errptr: *mut *mut c_char) -> bool {
    body!(errptr, {
        if let Some(Db(database, is_closed)) = disown(database) {
            is_closed.store(true, Ordering::Release);
            database.close()?;
        }
        Ok(true)
    })
}

/// Removes the database in the directory `path` with all its records, and the directory if it contains nothing else.
/// The database must not be open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_destroy(path: *const c_char, errptr: *mut *mut c_char) -> bool {
    body!(errptr, {
        Database::destroy(text("the path", path)?)?;
        Ok(true)
    })
}

/// Makes all earlier writes durable: they survive a power failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_sync(database: *const Db, errptr: *mut *mut c_char) -> bool {
    body!(errptr, {
        handle(database)?.0.sync()?;
        Ok(true)
    })
}

/// Blocks until there is no background work left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_settle(database: *const Db, errptr: *mut *mut c_char) -> bool {
    body!(errptr, {
        handle(database)?.0.settle()?;
        Ok(true)
    })
}

/// Merges everything into the last store, and returns when that is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_compact(database: *const Db, errptr: *mut *mut c_char) -> bool {
    body!(errptr, {
        handle(database)?.0.compact()?;
        Ok(true)
    })
}

/// Executes one bounded piece of background work, for databases that were opened with "background_threads" of "0". Sets
/// `*worked` to whether there was any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_step(
    database: *const Db,
    worked: *mut bool,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let step = handle(database)?.0.step()?;
        set(worked, step == siltstone::Step::Worked);
        Ok(true)
    })
}

/// Writes a consistent copy to the directory `path`, which must be empty or not exist. The copy is an independent
/// database. Files are hard-linked where the file system supports it, so it takes little time and space.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_checkpoint(
    database: *const Db,
    path: *const c_char,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        handle(database)?.0.checkpoint(text("the path", path)?)?;
        Ok(true)
    })
}

/// Changes the limit on the memory, in bytes; 0 removes it, and the record cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_set_memory_budget(
    database: *const Db,
    bytes: u64,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        handle(database)?.0.set_memory_budget((bytes > 0).then_some(bytes))?;
        Ok(true)
    })
}

/// Returns the approximate number of keys, with a standard error of at most 0.6 %. Reads some blocks of each store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_approximate_length(database: *const Db, errptr: *mut *mut c_char) -> u64 {
    body!(errptr, { Ok(handle(database)?.0.approximate_len()?) })
}

/// Returns the exact number of keys. Reads all records, or all keys of a database that keeps their order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_length(database: *const Db, errptr: *mut *mut c_char) -> u64 {
    body!(errptr, { Ok(handle(database)?.0.len()?) })
}

/// Returns the statistics as one line of JSON, with the names of `siltstone stats --json`: engine, settings, records,
/// memory by item, operations and bytes of the device by purpose, usage since the database was created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_stats_json(database: *const Db, errptr: *mut *mut c_char) -> *mut c_char {
    body!(errptr, { give_text(&handle(database)?.0.stats().to_json()) })
}

/// Returns the statistics in the text format of Prometheus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_stats_prometheus(
    database: *const Db,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, { give_text(&handle(database)?.0.stats().to_prometheus(&[])) })
}

/// Reads everything and looks for damage. Returns the report as one line of JSON, as `siltstone verify --json`; its
/// list "damage" is empty if the database is intact. "live_records" is the number of live records, each key once; null
/// if there is damage. Sets `*intact`. `progress` and `intact` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_verify(
    database: *const Db,
    progress: ProgressFn,
    state: *mut c_void,
    intact: *mut bool,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, {
        let report = handle(database)?.0.verify_with(&mut go_on(Progress::new(progress, state)))?;
        set(intact, report.damage.is_empty());
        give_text(&report.to_json())
    })
}

/// Like `siltstone_verify`, for a database that is not open, also if it cannot be opened. Changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_verify_closed(
    path: *const c_char,
    progress: ProgressFn,
    state: *mut c_void,
    intact: *mut bool,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, {
        let progress = &mut go_on(Progress::new(progress, state));
        let report = Database::verify_closed(text("the path", path)?, progress)?;
        set(intact, report.damage.is_empty());
        give_text(&report.to_json())
    })
}

/// Repairs a database that is not open: keeps every intact record, and moves damaged files to a subdirectory. Returns
/// the report as one line of JSON, as `siltstone repair --json`: what was damaged, and which keys may be lost. An
/// intact database is not changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_repair(
    path: *const c_char,
    progress: ProgressFn,
    state: *mut c_void,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, {
        let progress = &mut go_on(Progress::new(progress, state));
        let report = Database::repair(text("the path", path)?, &RepairOptions::default(), progress)?;
        give_text(&report.to_json())
    })
}

//! What the types of the interface implement of the standard library's traits.

use super::{Database, Iter, KeyIter, OrderedDatabase, Snapshot, Table, TableIter};
use crate::batch::NEVER;
use crate::engine::{Found, Record};
use crate::error::{Error, Result};
use bytes::Bytes;
use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

// A panic inside the engine poisons it: later writes return an error, and nothing half done is visible.
impl UnwindSafe for Database {}
impl RefUnwindSafe for Database {}

impl fmt::Debug for Database {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, engine) = (self.path(), self.engine().name());
        to.debug_struct("Database").field("path", &path).field("engine", &engine).finish_non_exhaustive()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Snapshot").field("database", &self.database).finish_non_exhaustive()
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Iter").field("database", &self.database).finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyIter {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("KeyIter").field("database", &self.database).finish_non_exhaustive()
    }
}

impl<K: ?Sized, V: ?Sized> fmt::Debug for Table<K, V> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Table").field("name", &self.name()).field("database", &self.database).finish()
    }
}

impl<K: ?Sized, V: ?Sized> fmt::Debug for TableIter<K, V> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("TableIter").field("table", &self.table).finish_non_exhaustive()
    }
}

impl fmt::Debug for OrderedDatabase<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("OrderedDatabase").field("database", &self.database).finish_non_exhaustive()
    }
}

/// All records, as [`Database::iter`] returns them. If that fails, its error is the only item.
impl IntoIterator for &Database {
    type Item = Result<Record>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter().unwrap_or_else(|error| Iter::new(Box::new(std::iter::once(Err(error))), self.clone()))
    }
}

/// The key and the value.
impl From<Record> for (Bytes, Bytes) {
    fn from(record: Record) -> (Bytes, Bytes) {
        (record.key, record.value)
    }
}

impl Found {
    /// Returns the time when the record expires; `None` if it never does.
    #[doc(alias = "ttl")]
    pub fn expires_at(&self) -> Option<SystemTime> {
        let after = Duration::from_millis(self.expires_at_ms);
        // A time that the system cannot represent counts as never.
        if self.expires_at_ms == NEVER { None } else { UNIX_EPOCH.checked_add(after) }
    }
}

/// The error with all that it says; of errors of the system, the kind is kept.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Io { source, .. } => source.kind(),
            Error::NotFound { .. } => io::ErrorKind::NotFound,
            Error::Corrupt { .. } | Error::TableType { .. } => io::ErrorKind::InvalidData,
            Error::Interrupted => io::ErrorKind::Interrupted,
            Error::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            Error::Unsupported { .. } => io::ErrorKind::Unsupported,
            Error::KeyLength { .. }
            | Error::ValueLength { .. }
            | Error::RecordSize { .. }
            | Error::Setting { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Builder, Change};

    fn is_send_and_sync<T: Send + Sync + UnwindSafe + RefUnwindSafe + fmt::Debug>() {}

    #[test]
    fn handles_are_usable_wherever_rust_wants_a_trait() {
        fn is_send<T: Send + fmt::Debug>() {}
        is_send_and_sync::<Database>();
        is_send::<Builder>();
        is_send::<Snapshot>();
        is_send::<Iter>();
        is_send_and_sync::<Table<str, [u8]>>();
        is_send::<TableIter<u64, String>>();
        #[derive(Debug)]
        struct Holder {
            _database: Database,
        }
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path().join("db")).unwrap();
        let shown = format!("{:?}", Holder { _database: database.clone() });
        assert!(shown.contains("silt") && shown.contains("db"), "{shown}");
        let stopped = std::panic::catch_unwind(|| {
            let change = |_: Option<&Found>| -> Result<Change> { std::panic::panic_any("stopped") };
            database.update("key", change)
        });
        assert!(stopped.is_err());
        let batch: Batch = [("a", "1"), ("b", "2")].into_iter().collect();
        database.write(&batch).unwrap();
        assert_eq!((&database).into_iter().filter_map(Result::ok).count(), 2);
        database.close().unwrap();
        let failed = (&database).into_iter().next().unwrap();
        assert!(matches!(failed, Err(Error::Closed)));
    }

    #[test]
    fn errors_become_those_of_the_standard_library() {
        let missing = Database::open_read_only("/no/such/database").unwrap_err();
        let text = missing.to_string();
        let error = io::Error::from(missing);
        assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::NotFound, text));
    }
}

//! The options of a write: durability and expiry time.

use crate::batch::{Durability, NEVER, TimestampMs, Write};
use crate::error::{Error, Result};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The options of a write that differ from the database's defaults.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What the write survives once it returns; the database's default if `None`.
    pub durability: Option<Durability>,
    /// The expiry time of the record, in milliseconds since the Unix epoch; 0 for never. In a call that writes several
    /// records, that of each put that has none of its own. A delete with an expiry time is refused.
    pub expires_at_ms: TimestampMs,
}

impl WriteOptions {
    /// Sets the expiry time of a put that has none of its own.
    pub(super) fn expire(&self, of_put: &mut TimestampMs) {
        if *of_put == NEVER {
            *of_put = self.expires_at_ms;
        }
    }

    /// Returns the write, with the expiry time if it is a put that has none of its own.
    pub(super) fn expiring<'a>(&self, mut write: Write<'a>) -> Write<'a> {
        if let Write::Put { expires_at_ms, .. } = &mut write {
            self.expire(expires_at_ms);
        }
        write
    }

    /// Refuses an expiry time, which a delete does not have.
    pub(super) fn check_without_expiry(&self) -> Result<()> {
        if self.expires_at_ms == NEVER {
            return Ok(());
        }
        let problem = "a delete has no expiry time; leave it out, or put a record that expires".into();
        Err(Error::Setting { name: "expires_at_ms", problem })
    }

    /// Sets the durability.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::{Durability, WriteOptions};
    ///
    /// database.put_with("key", "value", WriteOptions::default().durability(Durability::Synced))?;
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias = "sync")]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets the expiry time, in milliseconds since the Unix epoch.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::WriteOptions;
    ///
    /// database.put_with("key", "value", WriteOptions::default().expires_at_ms(4_102_444_800_000))?;
    /// assert_eq!(database.get_found("key")?.unwrap().expires_at_ms, 4_102_444_800_000);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    pub fn expires_at_ms(mut self, expires_at_ms: TimestampMs) -> Self {
        self.expires_at_ms = expires_at_ms;
        self
    }

    /// Sets the expiry time to this long after this call. A time that is too far away to be represented is the latest
    /// one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let database = siltstone::Database::open(directory.path().join("db"))?;
    /// use siltstone::WriteOptions;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let options = WriteOptions::default().expires_in(Duration::from_secs(3600));
    /// database.put_with("session:9", "token", options)?;
    /// let found = database.get_found("session:9")?.unwrap();
    /// assert!(found.expires_at().unwrap() > SystemTime::now());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    #[doc(alias = "ttl")]
    pub fn expires_in(self, time: Duration) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let then_ms = now.saturating_add(time).as_millis();
        self.expires_at_ms(then_ms.try_into().unwrap_or(TimestampMs::MAX))
    }
}

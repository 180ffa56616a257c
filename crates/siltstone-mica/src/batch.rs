//! Batches of requests with multi-stage prefetching (dissertation 5.3.3). While a request is executed, the items of a
//! later request and the bucket of a still later one are on their way from memory, so their cache misses overlap:
//!
//! ```text
//! step            0    1   ..   12   13  ..   24   25
//! fetch bucket    r0   r1  ..  r12  r13  ..  r24  r25
//! fetch items                   r0   r1  ..  r12  r13
//! execute                                    r0   r1
//! ```

use super::buckets::Mode;
use super::table::{Table, Value};
use super::{Full, HashedKey, Partition, Space, StateAccess, WriterState};
use crate::TimestampMs;

/// The requests between two stages, and so the number of concurrent misses.
const STAGE: usize = 12;
/// The bytes of a value that are fetched for a get, whose length is not known in advance.
const FETCHED_VALUE_BYTES: usize = 8;

/// One request of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The key.
    pub key: HashedKey<'a>,
    /// What to do with it.
    pub operation: Operation<'a>,
}

/// The operation of a request.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// Read the value of the key.
    Get,
    /// Set the value of the key.
    Put {
        /// The value.
        value: &'a [u8],
        /// When the item expires, or [`NEVER`](crate::NEVER).
        expires_at_ms: TimestampMs,
    },
    /// Remove the key.
    Delete,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The value of the key.
    Found {
        /// The value, valid only during the callback.
        value: &'a [u8],
        /// When the item expires, or [`NEVER`](crate::NEVER).
        expires_at_ms: TimestampMs,
    },
    /// The key is absent.
    Absent,
    /// The value was stored.
    Stored,
    /// The value was not stored, for this reason.
    Refused(Full),
    /// The key was present and is removed.
    Deleted,
    /// The request writes, and the handle only reads: nothing was done. The owner of the partition can execute it.
    ReadOnly,
}

/// Looks up `count` keys, each in its own table, with their cache misses overlapped. `place` returns the table and the
/// key of a number; `show` receives each number with the value and its metadata, in ascending order. As
/// [`get`](Table::get), this does not count for the policy of a cache.
#[inline]
pub fn get_many<'t, 'k, S: Space, M: Mode>(
    count: usize,
    place: impl Fn(usize) -> (&'t Table<S, M>, HashedKey<'k>),
    now_ms: TimestampMs,
    mut show: impl FnMut(usize, Option<(&[u8], Value)>),
) {
    let mut value = Vec::new();
    // The last steps fetch nothing: they execute what is on its way.
    for step in 0..count + 2 * STAGE {
        if step < count {
            let (table, key) = place(step);
            table.fetch_bucket(key.hash);
        }
        // `STAGE` steps after the bucket, which this reads.
        if let Some(second) = step.checked_sub(STAGE)
            && second < count
        {
            let (table, key) = place(second);
            table.fetch_items(key.hash, key.bytes.len() + FETCHED_VALUE_BYTES);
        }
        if let Some(at) = step.checked_sub(2 * STAGE) {
            let (table, key) = place(at);
            value.clear();
            let found = table.get(key, now_ms, &mut value);
            show(at, found.map(|found| (&value[..], found)));
        }
    }
}

impl<S: Space, M: Mode> Table<S, M> {
    /// Fetches what two requests of a batch of `count` need, at one step of the batch. `need` returns the hash of a
    /// request's key, and the bytes of its item.
    #[inline]
    fn fetch_ahead(&self, step: usize, count: usize, need: impl Fn(usize) -> (u64, usize)) {
        // `STAGE` steps before `fetch_items`, which reads the bucket.
        if step < count {
            self.fetch_bucket(need(step).0);
        }
        if let Some(second) = step.checked_sub(STAGE)
            && second < count
        {
            let (hash, bytes) = need(second);
            self.fetch_items(hash, bytes);
        }
    }

    /// Executes the gets among the requests, as [`Partition::execute`]; the reply to others is [`Reply::ReadOnly`].
    #[inline]
    pub fn execute(
        &self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        mut answer: impl FnMut(usize, Reply<'_>),
    ) {
        let place = |at: usize| (self, requests[at].key);
        get_many(requests.len(), place, now_ms, |at, found| {
            let reply = match (requests[at].operation, found) {
                (Operation::Get, Some((value, found))) => {
                    Reply::Found { value, expires_at_ms: found.expires_at_ms }
                }
                (Operation::Get, None) => Reply::Absent,
                (Operation::Put { .. } | Operation::Delete, _) => Reply::ReadOnly,
            };
            answer(at, reply);
        });
    }
}

impl<S: Space, M: Mode, A: StateAccess<WriterState<S>>> Partition<S, M, A> {
    /// Executes requests in their order, with their cache misses overlapped; `answer` receives the number and the reply
    /// of each request. If the memory is full, a put removes the expired items first, at most once in a second.
    #[inline]
    pub fn execute(
        &mut self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        mut answer: impl FnMut(usize, Reply<'_>),
    ) {
        let need = |at: usize| {
            let Request { key, operation } = &requests[at];
            let value_bytes = match operation {
                Operation::Put { value, .. } => value.len(),
                Operation::Get | Operation::Delete => FETCHED_VALUE_BYTES,
            };
            (key.hash, key.bytes.len() + value_bytes)
        };
        // A reference of its own for the batch: through `self` the address of the table is read again for each access.
        let table = self.table.clone();
        let mut value_bytes = Vec::new();
        for step in 0..requests.len() + 2 * STAGE {
            // Only a hint: an earlier request of the batch may still replace the item.
            table.fetch_ahead(step, requests.len(), need);
            if let Some(at) = step.checked_sub(2 * STAGE) {
                answer(at, self.carry_out(&table, &requests[at], now_ms, &mut value_bytes));
            }
        }
    }

    #[inline]
    fn carry_out<'a>(
        &mut self,
        table: &Table<S, M>,
        request: &Request<'_>,
        now_ms: TimestampMs,
        bytes: &'a mut Vec<u8>,
    ) -> Reply<'a> {
        let key = request.key;
        match request.operation {
            Operation::Get => {
                bytes.clear();
                let Some(found) = table.get(key, now_ms, bytes) else { return Reply::Absent };
                self.keep(key, found);
                Reply::Found { value: bytes, expires_at_ms: found.expires_at_ms }
            }
            Operation::Put { value, expires_at_ms } => {
                match self.with_room(now_ms, |partition| partition.put(key, value, expires_at_ms)) {
                    Ok(()) => Reply::Stored,
                    Err(full) => Reply::Refused(full),
                }
            }
            Operation::Delete if self.remove(key) => Reply::Deleted,
            Operation::Delete => Reply::Absent,
        }
    }
}

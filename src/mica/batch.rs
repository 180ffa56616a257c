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
use super::{Full, HashedKey, Space, StateAccess};
use crate::batch::TimestampMs;

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
        /// When the item expires, or [`NEVER`](crate::batch::NEVER).
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
        /// When the item expires, or [`NEVER`](crate::batch::NEVER).
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

impl<S: Space, M: Mode> Table<S, M> {
    /// Executes `count` requests, and fetches what each one needs in advance.
    #[inline]
    fn pipeline(&self, count: usize, need: impl Fn(usize) -> (u64, usize), mut carry_out: impl FnMut(usize)) {
        for step in 0..count + 2 * STAGE {
            if step < count {
                self.fetch_bucket(need(step).0);
            }
            if let Some(second) = step.checked_sub(STAGE)
                && second < count
            {
                let (hash, bytes) = need(second);
                self.fetch_items(hash, bytes);
            }
            if let Some(last) = step.checked_sub(2 * STAGE) {
                carry_out(last);
            }
        }
    }

    /// Looks up many keys: `show` receives the number of each, its value and the value's metadata.
    #[inline]
    pub fn get_many<'a>(
        &self,
        count: usize,
        key: impl Fn(usize) -> HashedKey<'a>,
        now_ms: TimestampMs,
        mut show: impl FnMut(usize, Option<(&[u8], Value)>),
    ) {
        let need = |at| {
            let key = key(at);
            (key.hash, key.bytes.len() + FETCHED_VALUE_BYTES)
        };
        let mut value = Vec::new();
        self.pipeline(count, need, |at| {
            value.clear();
            let found = self.get(key(at), now_ms, &mut value);
            show(at, found.map(|found| (&value[..], found)));
        });
    }

    /// Executes the gets among the requests; the reply to others is [`Reply::ReadOnly`].
    #[inline]
    pub fn execute_gets(
        &self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        mut answer: impl FnMut(usize, Reply<'_>),
    ) {
        let key = |at: usize| requests[at].key;
        self.get_many(requests.len(), key, now_ms, |at, found| {
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

    /// Executes requests in their order; `answer` receives the number and the reply of each.
    #[inline]
    pub fn execute(
        &self,
        access: &mut impl StateAccess<State = S::State>,
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
        let mut value_bytes = Vec::new();
        self.pipeline(requests.len(), need, |at| {
            let Request { key, operation } = requests[at];
            answer(at, self.carry_out(access, key, operation, now_ms, &mut value_bytes));
        });
    }

    #[inline]
    fn carry_out<'a>(
        &self,
        access: &mut impl StateAccess<State = S::State>,
        key: HashedKey<'_>,
        operation: Operation<'_>,
        now_ms: TimestampMs,
        bytes: &'a mut Vec<u8>,
    ) -> Reply<'a> {
        match operation {
            Operation::Get => {
                bytes.clear();
                let Some(found) = self.get(key, now_ms, bytes) else { return Reply::Absent };
                if S::LOSSY {
                    self.reinsert(access, key, found);
                }
                Reply::Found { value: bytes, expires_at_ms: found.expires_at_ms }
            }
            Operation::Put { value, expires_at_ms } => match self.put(access, key, value, expires_at_ms) {
                Ok(()) => Reply::Stored,
                Err(full) => Reply::Refused(full),
            },
            Operation::Delete => {
                if self.remove(access, key) {
                    Reply::Deleted
                } else {
                    Reply::Absent
                }
            }
        }
    }
}

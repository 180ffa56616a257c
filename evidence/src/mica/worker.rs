//! The threads of the benchmark.

use super::Settings;
use super::trace::{Asked, HASHER, Traces, partition};
use crate::{Error, Result};
use siltstone::batch::NEVER;
use siltstone_bench::clock::{spawn_scoped, thread_time};
use siltstone_mica::{Handle, HashedKey, Operation, Reply, Request};
use std::sync::OnceLock;
use std::time::Instant;

/// The results of requests.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestResults {
    pub found: u64,
    pub absent: u64,
    stored: u64,
    refused: u64,
    wrong: u64,
}

impl RequestResults {
    pub fn add(&mut self, other: &RequestResults) {
        self.found += other.found;
        self.absent += other.absent;
        self.stored += other.stored;
        self.refused += other.refused;
        self.wrong += other.wrong;
    }

    pub fn check(&self) -> Result<()> {
        match (self.wrong, self.refused) {
            (0, 0) => Ok(()),
            (0, refused) => {
                Err(Error::wrong_results(format!("{refused} items were refused: the partitions are full")))
            }
            (wrong, _) => {
                Err(Error::wrong_results(format!("{wrong} values were not those that had been put")))
            }
        }
    }

    /// Counts a get. A right value begins with the bytes of its key, as far as it is long enough.
    #[inline]
    pub fn count_get(&mut self, key: &[u8], value: Option<&[u8]>) {
        let Some(value) = value else {
            self.absent += 1;
            return;
        };
        self.found += 1;
        let right = match (value.first_chunk::<8>(), key.first_chunk::<8>()) {
            (Some(value), Some(key)) => u64::from_le_bytes(*value) == u64::from_le_bytes(*key),
            _ => key.starts_with(value),
        };
        self.wrong += u64::from(!right);
    }

    /// Counts a put.
    pub fn count_put(&mut self) {
        self.stored += 1;
    }

    #[inline]
    fn count(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        match reply {
            Reply::Found { value, .. } => self.count_get(request.key.bytes, Some(value)),
            Reply::Absent | Reply::Deleted => self.absent += 1,
            Reply::Stored => self.stored += 1,
            Reply::Refused(_) | Reply::ReadOnly => self.refused += 1,
        }
    }
}

/// Counts results. The closure is inlined into the handle's code: there is no virtual call per request.
#[inline]
fn execute(handle: &mut Handle, requests: &[Request<'_>], results: &mut RequestResults) {
    handle.execute(requests, 0, |at, reply| results.count(&requests[at], reply));
}

/// The durations of requests, in seconds.
#[derive(Debug, Clone)]
pub(super) struct Seconds {
    /// CPU time of the thread that took longest.
    pub processor: f64,
    /// CPU time of each thread.
    pub of_threads: Vec<f64>,
    /// Wall-clock time until the last thread ended.
    pub wall: f64,
}

/// Starts all threads at once. Each does `work` with what it has, and its requests.
pub(super) fn run<T: Send>(
    threads: &mut [T],
    traces: &Traces,
    work: impl Fn(&mut T, &[Asked]) -> Result<RequestResults> + Sync,
) -> Result<(RequestResults, Seconds)> {
    let begin = OnceLock::new();
    let (outcomes, wall) = std::thread::scope(|scope| {
        let workers = threads.iter_mut().zip(traces).map(|(thread, trace)| {
            let (begin, work) = (&begin, &work);
            spawn_scoped(scope, move || {
                let is_complete = *begin.wait();
                let begun = thread_time();
                let results = if is_complete { work(thread, trace) } else { Ok(RequestResults::default()) };
                (results, (thread_time() - begun).as_secs_f64())
            })
        });
        let workers = workers.collect::<siltstone_bench::Result<Vec<_>>>();
        // Those that wait end without all others.
        let _ = begin.set(workers.is_ok());
        let begun = Instant::now();
        let outcomes: Vec<_> = workers?.into_iter().map(|worker| worker.join()).collect();
        Ok::<_, Error>((outcomes, begun.elapsed().as_secs_f64()))
    })?;
    let mut all = RequestResults::default();
    let mut of_threads = Vec::new();
    for outcome in outcomes {
        let (results, seconds) = outcome.map_err(|_| siltstone_bench::Error::Panicked)?;
        all.add(&results?);
        of_threads.push(seconds);
    }
    let processor = of_threads.iter().copied().fold(0.0, f64::max);
    Ok((all, Seconds { processor, of_threads, wall }))
}

/// Executes requests in batches by the handles of a thread.
pub(super) fn through_handles(
    settings: &Settings,
    handles: &mut [Option<Handle>],
    trace: &[Asked],
) -> RequestResults {
    let Settings { key_size, value_size, batch_size, hash_outside, .. } = *settings;
    let mut results = RequestResults::default();
    let mut keys = vec![0; key_size * batch_size];
    let mut values = vec![0; value_size * batch_size];
    let partitions = handles.len();
    for batch in trace.chunks(batch_size) {
        for (asked, key) in batch.iter().zip(keys.chunks_exact_mut(key_size)) {
            key[..8].copy_from_slice(&asked.key);
        }
        for (asked, value) in batch.iter().zip(values.chunks_exact_mut(value_size.max(1))) {
            match value.first_chunk_mut::<8>() {
                Some(value) => *value = asked.key,
                None => value.copy_from_slice(&asked.key[..value.len()]),
            }
        }
        let request = |(at, asked): (usize, &Asked)| {
            let bytes = &keys[at * key_size..(at + 1) * key_size];
            let hash = if hash_outside { asked.hash } else { HASHER.hash(bytes).placement };
            let value = &values[at * value_size..(at + 1) * value_size];
            let operation = match asked.is_put {
                true => Operation::Put { value, expires_at_ms: NEVER },
                false => Operation::Get,
            };
            Request { key: HashedKey { hash, bytes }, operation }
        };
        let requests: Vec<Request<'_>> = batch.iter().enumerate().map(request).collect();
        if let [Some(handle)] = handles {
            execute(handle, &requests, &mut results);
            continue;
        }
        let mut sorted: Vec<Vec<Request<'_>>> =
            (0..partitions).map(|_| Vec::with_capacity(batch_size)).collect();
        requests
            .into_iter()
            .for_each(|request| sorted[partition(request.key.hash, partitions)].push(request));
        for (handle, requests) in handles.iter_mut().zip(&sorted) {
            if let Some(handle) = handle {
                execute(handle, requests, &mut results);
            }
        }
    }
    results
}

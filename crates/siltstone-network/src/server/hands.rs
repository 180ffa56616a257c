//! What a core has of each partition, by the mode of access (dissertation 5.3.1).

use super::ServerSettings;
use crate::Access;
use siltstone::Error;
use siltstone::batch::TimestampMs;
use siltstone::mica::{
    Account, CacheSettings, CircularLog, Crcw, Crew, Erew, Full, HashedKey, ItemShape, Mode, Operation,
    Partition, Reader, Reply, Request, SegregatedFits, Shared, Space, StoreSettings,
};

/// Expired items are not looked for again within this time.
const COLLECTION_INTERVAL_MS: u64 = 1_000;

/// A partition as a core has it.
pub(super) trait Hand: Send {
    /// Whether it may write.
    fn writes(&self) -> bool {
        true
    }
    /// Carries out requests in their order; `answer` is given the number of each and what came of it.
    fn execute(
        &mut self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: &mut dyn FnMut(usize, Reply<'_>),
    );
    /// The items of the partition.
    fn items(&self) -> u64;
}

/// What a core has of all partitions, in their order, if anything.
pub(super) type Hands = Vec<Option<Box<dyn Hand>>>;

/// A partition that can be written.
trait Writable: Send {
    fn execute(&mut self, requests: &[Request<'_>], now_ms: u64, answer: impl FnMut(usize, Reply<'_>));
    fn put(&mut self, key: HashedKey<'_>, value: &[u8], expires_at_ms: u64) -> Result<(), Full>;
    fn collect(&mut self, now_ms: u64) -> u64;
    fn items(&self) -> u64;
}

impl<S: Space, M: Mode> Writable for Partition<S, M> {
    #[inline]
    fn execute(&mut self, requests: &[Request<'_>], now_ms: u64, answer: impl FnMut(usize, Reply<'_>)) {
        Partition::execute(self, requests, now_ms, answer);
    }

    fn put(&mut self, key: HashedKey<'_>, value: &[u8], expires_at_ms: u64) -> Result<(), Full> {
        Partition::put(self, key, value, expires_at_ms)
    }

    fn collect(&mut self, now_ms: u64) -> u64 {
        Partition::collect(self, 0..self.buckets(), now_ms)
    }

    fn items(&self) -> u64 {
        self.len()
    }
}

impl<S: Space> Writable for Shared<S> {
    #[inline]
    fn execute(&mut self, requests: &[Request<'_>], now_ms: u64, answer: impl FnMut(usize, Reply<'_>)) {
        Shared::execute(self, requests, now_ms, answer);
    }

    fn put(&mut self, key: HashedKey<'_>, value: &[u8], expires_at_ms: u64) -> Result<(), Full> {
        Shared::put(self, key, value, expires_at_ms)
    }

    fn collect(&mut self, now_ms: u64) -> u64 {
        Shared::collect(self, 0..self.buckets(), now_ms)
    }

    fn items(&self) -> u64 {
        self.len()
    }
}

/// One who may write, and removes what has expired when the memory is full.
struct Writer<W> {
    partition: W,
    /// When expired items were last removed, or 0.
    collected_at_ms: TimestampMs,
}

impl<W: Writable> Writer<W> {
    fn boxed(partition: W) -> Option<Box<dyn Hand>>
    where
        W: 'static,
    {
        Some(Box::new(Writer { partition, collected_at_ms: 0 }))
    }

    /// Whether there was anything to remove; not looked for if that was done just now.
    fn collect(&mut self, now_ms: TimestampMs) -> bool {
        if now_ms.saturating_sub(self.collected_at_ms) < COLLECTION_INTERVAL_MS {
            return false;
        }
        self.collected_at_ms = now_ms;
        self.partition.collect(now_ms) > 0
    }
}

impl<W: Writable> Hand for Writer<W> {
    fn execute(
        &mut self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: &mut dyn FnMut(usize, Reply<'_>),
    ) {
        let mut refused = Vec::new();
        self.partition.execute(requests, now_ms, |at, reply| match reply {
            Reply::Refused(full @ (Full::Memory | Full::Index)) => refused.push((at, full)),
            reply => answer(at, reply),
        });
        if refused.is_empty() {
            return;
        }
        let has_room = self.collect(now_ms);
        for (at, full) in refused {
            let Request { key, operation } = requests[at];
            let outcome = match operation {
                // Once more, unless a later request of the batch has given the key another value meanwhile.
                Operation::Put { value, expires_at_ms }
                    if has_room && !requests[at + 1..].iter().any(|later| later.key.bytes == key.bytes) =>
                {
                    self.partition.put(key, value, expires_at_ms)
                }
                _ => Err(full),
            };
            answer(at, outcome.map_or_else(Reply::Refused, |()| Reply::Stored));
        }
    }

    fn items(&self) -> u64 {
        self.partition.items()
    }
}

impl<S: Space> Hand for Reader<S> {
    fn writes(&self) -> bool {
        false
    }

    /// All of them are gets: whoever calls has seen to that.
    fn execute(
        &mut self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: &mut dyn FnMut(usize, Reply<'_>),
    ) {
        let key = |at: usize| requests[at].key;
        self.get_many(requests.len(), key, now_ms, |at, found| {
            answer(
                at,
                found.map_or(Reply::Absent, |(bytes, value)| Reply::Found {
                    value: bytes,
                    expires_at_ms: value.expires_at_ms,
                }),
            );
        });
    }

    fn items(&self) -> u64 {
        0
    }
}

/// Makes partitions in every mode.
trait Opener {
    type Space: Space;
    fn open<M: Mode>(&self) -> Result<Partition<Self::Space, M>, Error>;
}

impl Opener for StoreSettings {
    type Space = SegregatedFits;
    fn open<M: Mode>(&self) -> Result<Partition<SegregatedFits, M>, Error> {
        StoreSettings::open(self)
    }
}

impl Opener for CacheSettings {
    type Space = CircularLog;
    fn open<M: Mode>(&self) -> Result<Partition<CircularLog, M>, Error> {
        CacheSettings::open(self)
    }
}

/// Partition `number` belongs to core `number` modulo the cores. Answers also the memory of all partitions.
pub(super) fn open(settings: &ServerSettings) -> Result<(Vec<Hands>, Account), Error> {
    let partition_bits = settings.partitions.ilog2();
    let memory_bytes = settings.memory_bytes / u64::from(settings.partitions);
    let shape: ItemShape = settings.shape;
    let fixed = shape.fixed.map(|(key_length, value_length)| (key_length + value_length) as usize);
    let record_bytes = fixed.unwrap_or(settings.record_bytes);
    match settings.eviction {
        Some(eviction) => {
            let cache = CacheSettings::for_memory(shape, memory_bytes, record_bytes);
            open_with(settings, &CacheSettings { eviction, partition_bits, ..cache })
        }
        None => {
            let store = StoreSettings::for_memory(shape, memory_bytes, record_bytes);
            open_with(settings, &StoreSettings { partition_bits, ..store })
        }
    }
}

fn open_with<O: Opener>(settings: &ServerSettings, opener: &O) -> Result<(Vec<Hands>, Account), Error> {
    let cores = settings.cores;
    let mut account = Account::default();
    let mut count = |one: Account| {
        account.index_bytes += one.index_bytes;
        account.item_bytes += one.item_bytes;
        account.writer_bytes += one.writer_bytes;
    };
    let mut all: Vec<Hands> = (0..cores).map(|_| Vec::new()).collect();
    for number in 0..settings.partitions as usize {
        let owner = number % cores;
        match settings.access {
            Access::Erew => {
                let partition = opener.open::<Erew>()?;
                count(partition.account());
                let mut partition = Some(partition);
                for (core, hands) in all.iter_mut().enumerate() {
                    let own = (core == owner).then(|| partition.take()).flatten();
                    hands.push(own.and_then(Writer::boxed));
                }
            }
            Access::Crew => {
                let partition = opener.open::<Crew>()?;
                count(partition.account());
                let reader = partition.reader();
                let mut partition = Some(partition);
                for (core, hands) in all.iter_mut().enumerate() {
                    let own = (core == owner).then(|| partition.take()).flatten();
                    let read = || Some(Box::new(reader.clone()) as Box<dyn Hand>);
                    hands.push(own.map_or_else(read, Writer::boxed));
                }
            }
            Access::Crcw => {
                let partition = opener.open::<Crcw>()?;
                count(partition.account());
                let shared = partition.share();
                all.iter_mut().for_each(|hands| hands.push(Writer::boxed(shared.clone())));
            }
        }
    }
    Ok((all, account))
}

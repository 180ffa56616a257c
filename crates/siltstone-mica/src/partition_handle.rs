//! A partition of a store or of a cache, in any access mode, as one type. The kind of partition is matched once per
//! batch of requests, not for each request.

use super::buckets::PARTITION_BITS_MAX;
use super::partition::Parts;
use super::{
    AccessMode, Account, CircularLog, Crew, Erew, Partition, Reader, Reply, Request, SegregatedFits, Shared,
    Space,
};
use crate::TimestampMs;
use crate::{Error, Result};

/// The access of one thread to one partition.
pub struct Handle(pub(super) AnySpace);

/// The handles of one thread, in the order of the partitions. `None` where the mode grants the thread no access.
pub type Handles = Vec<Option<Handle>>;

pub(super) enum AnySpace {
    Store(AnyMode<SegregatedFits>),
    Cache(AnyMode<CircularLog>),
}

pub(super) enum AnyMode<S: Space> {
    Erew(Partition<S, Erew>),
    Crew(Partition<S, Crew>),
    Reader(Reader<S>),
    Crcw(Shared<S>),
}

/// Evaluates an expression with the partition in a handle.
macro_rules! with_partition {
    ($handle:expr, $partition:ident => $result:expr) => {
        match $handle {
            AnySpace::Store(AnyMode::Erew($partition)) => $result,
            AnySpace::Store(AnyMode::Crew($partition)) => $result,
            AnySpace::Store(AnyMode::Reader($partition)) => $result,
            AnySpace::Store(AnyMode::Crcw($partition)) => $result,
            AnySpace::Cache(AnyMode::Erew($partition)) => $result,
            AnySpace::Cache(AnyMode::Crew($partition)) => $result,
            AnySpace::Cache(AnyMode::Reader($partition)) => $result,
            AnySpace::Cache(AnyMode::Crcw($partition)) => $result,
        }
    };
}

/// Opens the partitions of a store or of a cache, and returns the handles of each thread.
pub(super) fn open_handles<S: Space>(
    mode: AccessMode,
    threads: usize,
    partition_bits: u32,
    parts: impl Fn() -> Result<Parts<S>>,
    handle: fn(AnyMode<S>) -> Handle,
) -> Result<Vec<Handles>> {
    if threads == 0 {
        return Err(Error::Setting { name: "threads", problem: "0 is out of range; use at least 1".into() });
    }
    let mut all: Vec<Handles> = (0..threads).map(|_| Vec::new()).collect();
    // `parts` refuses more bits.
    for number in 0..1usize << partition_bits.min(PARTITION_BITS_MAX) {
        // Once per partition: the handles of the other threads share its memory, or there are none.
        let own = AnyMode::open(parts()?, mode);
        all.iter_mut().for_each(|handles| handles.push(own.of_another_thread().map(handle)));
        all[number % threads][number] = Some(handle(own));
    }
    Ok(all)
}

impl Handle {
    /// Returns whether the handle may write. If not, it replies [`Reply::ReadOnly`] to puts and deletes.
    #[inline]
    pub fn can_write(&self) -> bool {
        !matches!(self.0, AnySpace::Store(AnyMode::Reader(_)) | AnySpace::Cache(AnyMode::Reader(_)))
    }

    /// Executes requests in their order, with their cache misses overlapped. `answer` receives the number and the reply
    /// of each request.
    #[inline]
    pub fn execute(
        &mut self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: impl FnMut(usize, Reply<'_>),
    ) {
        with_partition!(&mut self.0, partition => partition.execute(requests, now_ms, answer));
    }

    /// Returns the number of items of the partition, including expired ones. In a cache this reads the complete index,
    /// about 10 ns per bucket.
    pub fn items(&self) -> u64 {
        with_partition!(&self.0, partition => partition.len())
    }

    /// Returns the memory of the partition, which all its handles share.
    pub fn account(&self) -> Account {
        with_partition!(&self.0, partition => partition.account())
    }

    /// Returns the number of bytes of the partition that are in huge pages now. Asks the operating system, which takes
    /// milliseconds.
    pub fn huge_bytes(&self) -> u64 {
        with_partition!(&self.0, partition => partition.huge_bytes())
    }
}

impl<S: Space> AnyMode<S> {
    /// Returns the access of the owner.
    fn open(parts: Parts<S>, mode: AccessMode) -> Self {
        match mode {
            AccessMode::Erew => AnyMode::Erew(Partition::new(parts)),
            AccessMode::Crew => AnyMode::Crew(Partition::new(parts)),
            AccessMode::Crcw => AnyMode::Crcw(Partition::new(parts).share()),
        }
    }

    /// Returns the access of a thread that is not the owner, if the mode grants it any.
    fn of_another_thread(&self) -> Option<Self> {
        match self {
            AnyMode::Erew(_) => None,
            AnyMode::Crew(partition) => Some(AnyMode::Reader(partition.reader())),
            AnyMode::Reader(reader) => Some(AnyMode::Reader(reader.clone())),
            AnyMode::Crcw(shared) => Some(AnyMode::Crcw(shared.clone())),
        }
    }
}

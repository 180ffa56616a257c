//! The samples on which the dictionary of a database is trained.

use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicU8, Ordering};

/// The dictionary is trained on values of this many bytes, unless a test wants fewer.
pub const SAMPLE_BYTES: usize = 1 << 20;
/// Longer values are no samples: there would be too few, and a dictionary hardly helps them.
const SAMPLE_LENGTH_MAX: usize = 16 << 10;

const COLLECTING: u8 = 0;
const FULL: u8 = 1;
const ENDED: u8 = 2;

/// Values that follow each other, and their lengths.
#[derive(Default)]
pub struct Samples {
    pub bytes: Vec<u8>,
    pub lengths: Vec<usize>,
}

/// Collects samples until there are enough.
pub struct Training {
    state: AtomicU8,
    sample_bytes: usize,
    samples: Mutex<Samples>,
}

impl Training {
    /// Begins to collect this many bytes, or does not.
    pub fn new(sample_bytes: Option<usize>) -> Training {
        let state = if sample_bytes.is_some() { COLLECTING } else { ENDED };
        let sample_bytes = sample_bytes.unwrap_or_default();
        Training { state: AtomicU8::new(state), sample_bytes, samples: Mutex::default() }
    }

    /// Returns whether samples are wanted. Cheap.
    #[inline]
    pub fn is_collecting(&self) -> bool {
        self.state.load(Ordering::Relaxed) == COLLECTING
    }

    /// Returns whether there are enough samples. Cheap.
    pub fn is_full(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FULL
    }

    /// Adds a sample, if it is wanted.
    #[inline]
    pub fn add(&self, value: &[u8]) {
        if self.is_collecting() && (1..=SAMPLE_LENGTH_MAX).contains(&value.len()) {
            self.collect(value);
        }
    }

    #[cold]
    fn collect(&self, value: &[u8]) {
        let mut samples = self.samples.lock();
        // Again, under the lock: another thread may have added the last sample.
        if !self.is_collecting() {
            return;
        }
        samples.bytes.extend_from_slice(value);
        samples.lengths.push(value.len());
        if samples.bytes.len() >= self.sample_bytes {
            // Relaxed: the samples themselves are read under the lock.
            self.state.store(FULL, Ordering::Relaxed);
        }
    }

    /// Ends collecting, and returns the samples.
    pub fn end(&self) -> Samples {
        let mut samples = self.samples.lock();
        // Under the lock, so that no sample is added after they were taken.
        self.state.store(ENDED, Ordering::Relaxed);
        std::mem::take(&mut *samples)
    }

    /// Returns the memory of the samples, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let samples = self.samples.lock();
        samples.bytes.capacity() + samples.lengths.capacity() * size_of::<usize>()
    }
}

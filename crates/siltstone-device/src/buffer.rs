//! Memory with the alignment of direct I/O.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The alignment of buffers, in bytes: the largest that devices require.
const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

/// A growable buffer, aligned to 4,096 bytes, that is reused from read to read.
#[derive(Default)]
pub struct AlignedBuffer {
    /// At least the pages of `length`. Further pages are kept, so growing again costs nothing.
    pages: Vec<Page>,
    length: usize,
}

impl AlignedBuffer {
    /// Makes an empty buffer with this capacity, in bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        AlignedBuffer { pages: Vec::with_capacity(capacity.div_ceil(ALIGNMENT)), length: 0 }
    }

    /// Sets the length. New bytes are zero; old ones are kept.
    pub fn resize(&mut self, length: usize) {
        let old = self.length;
        self.resize_for_overwrite(length);
        if let Some(new) = self.get_mut(old..) {
            new.fill(0);
        }
    }

    /// Sets the length for a caller who overwrites all bytes: new bytes have arbitrary old contents.
    pub(super) fn resize_for_overwrite(&mut self, length: usize) {
        let pages = length.div_ceil(ALIGNMENT).max(self.pages.len());
        self.pages.resize(pages, Page([0; ALIGNMENT]));
        self.length = length;
    }

    /// Returns the length, in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.length;
        self.resize_for_overwrite(start + bytes.len());
        self[start..].copy_from_slice(bytes);
    }

    /// Sets the length to 0 and keeps the memory.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Returns the memory of the buffer, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.pages.capacity() * ALIGNMENT
    }

    /// Frees memory beyond `capacity` bytes or the length, whichever is more.
    pub fn shrink_to(&mut self, capacity: usize) {
        let pages = capacity.max(self.length).div_ceil(ALIGNMENT);
        self.pages.truncate(pages);
        self.pages.shrink_to(pages);
    }
}

impl std::ops::Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `pages` holds at least `length` initialised bytes without padding between pages, and the borrow of
        // `self` keeps them alive and unchanged.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.length) }
    }
}

impl std::ops::DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the exclusive borrow of `self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), self.length) }
    }
}

/// The memory that a thread keeps in its buffer between two uses, in bytes.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// The memory of the buffers of all threads, in bytes.
static SCRATCH_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Scratch(AlignedBuffer);

impl Drop for Scratch {
    fn drop(&mut self) {
        SCRATCH_BYTES.fetch_sub(self.0.heap_bytes(), Relaxed);
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch(AlignedBuffer::default()));
}

/// Calls `work` with the thread's own buffer, so a read allocates nothing. A nested call gets a new buffer.
pub fn with_scratch<T>(work: impl FnOnce(&mut AlignedBuffer) -> T) -> T {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            let before = scratch.0.heap_bytes();
            let outcome = work(&mut scratch.0);
            if scratch.0.heap_bytes() > SCRATCH_BYTES_MAX {
                scratch.0.clear();
                scratch.0.shrink_to(SCRATCH_BYTES_MAX);
            }
            let after = scratch.0.heap_bytes();
            if after != before {
                SCRATCH_BYTES.fetch_add(after.wrapping_sub(before), Relaxed);
            }
            outcome
        }
        Err(_) => work(&mut AlignedBuffer::default()),
    })
}

/// Other memory of a thread, which counts with the buffers while this value exists.
pub(super) struct CountedMemory(usize);

impl CountedMemory {
    /// Counts this many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        SCRATCH_BYTES.fetch_add(bytes, Relaxed);
        CountedMemory(bytes)
    }
}

impl Drop for CountedMemory {
    fn drop(&mut self) {
        SCRATCH_BYTES.fetch_sub(self.0, Relaxed);
    }
}

/// Returns the memory of the buffers of all threads, and of the stacks of the threads of this module, in bytes.
pub fn scratch_bytes() -> usize {
    SCRATCH_BYTES.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_aligned_and_growing_keeps_the_bytes() {
        let mut buffer = AlignedBuffer::default();
        buffer.extend_from_slice(&[7; 5000]);
        buffer.extend_from_slice(&[8; 5000]);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!((buffer.len(), buffer[4999], buffer[5000], buffer[9999]), (10_000, 7, 8, 8));
    }

    #[test]
    fn bytes_that_resizing_adds_are_zero_even_after_other_contents() {
        let mut buffer = AlignedBuffer::default();
        buffer.extend_from_slice(&[7; 10_000]);
        buffer.resize(10);
        buffer.resize(9_000);
        assert!(buffer[..10] == [7; 10] && buffer[10..].iter().all(|&byte| byte == 0));
    }

    /// In a thread of its own, whose buffer is new.
    #[test]
    fn a_thread_keeps_a_short_buffer_and_the_beginning_of_a_long_one_and_both_are_counted() {
        let used = |bytes: usize| with_scratch(|buffer| buffer.resize(bytes));
        let kept = || with_scratch(|buffer| buffer.heap_bytes());
        let check = || {
            assert_eq!(kept(), 0);
            for (bytes, least) in [(40_000, 40_960), (1_000_000, SCRATCH_BYTES_MAX), (1, SCRATCH_BYTES_MAX)] {
                used(bytes);
                assert!((least..=SCRATCH_BYTES_MAX).contains(&kept()), "{bytes}: {}", kept());
                // Other threads may have buffers as well.
                assert!(scratch_bytes() >= kept());
            }
            let nested = with_scratch(|buffer| {
                buffer.resize(10);
                with_scratch(|other| other.heap_bytes())
            });
            assert_eq!(nested, 0, "a nested call has another buffer");
        };
        std::thread::scope(|scope| scope.spawn(check).join().unwrap());
    }

    #[test]
    fn memory_is_kept_until_it_is_freed() {
        let mut buffer = AlignedBuffer::with_capacity(64 << 10);
        buffer.extend_from_slice(&[7; 40_000]);
        buffer.clear();
        assert!(buffer.heap_bytes() >= 64 << 10);
        buffer.shrink_to(4096);
        assert_eq!(buffer.heap_bytes(), 4096);
    }
}

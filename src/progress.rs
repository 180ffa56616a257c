//! Progress of long operations.

/// Called periodically with the bytes processed and the total. Returns `false` to stop the operation.
pub type Progress<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// The progress over everything that is read, including what is read a second time.
pub(crate) struct ProgressCounter<'a, 'p> {
    pub progress: &'a mut Progress<'p>,
    pub done: u64,
    pub total: u64,
}

impl<'a, 'p> ProgressCounter<'a, 'p> {
    /// Begins with a total of 0, which the user sets.
    pub fn new(progress: &'a mut Progress<'p>) -> ProgressCounter<'a, 'p> {
        ProgressCounter { progress, done: 0, total: 0 }
    }

    /// Reports that further bytes were read. Returns `false` to stop.
    pub fn advance(&mut self, bytes: u64) -> bool {
        self.done = (self.done + bytes).min(self.total);
        (self.progress)(self.done, self.total)
    }
}

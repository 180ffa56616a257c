//! Pieces of sequential streams that are read and written in the background, while their users work on other bytes.
//!
//! ```text
//! merge   | work on piece 4 | wait | work on piece 5 | ..
//! drive        | read 5 | write 3 |     | read 6 | write 4 | ..
//! ```
//!
//! A directory has a queue for each purpose of background work, so that merges and conversions do not wait for each
//! other. Those of one purpose share it: who waits for a piece takes over what ends meanwhile for the others. A piece
//! owns its buffer and keeps its file open until it has completed, also if its user has dropped it. A [`PieceExecutor`]
//! of the directory's backend executes pieces, in any order: `io_uring` for real files, or threads where the system has
//! none; a random order in tests. Without one, a piece is executed when it begins.
//!
//! A get queues behind what the drive was given before. So pieces are small while gets read from the directory. The
//! queue learns this from the counter of gets. A piece is then at most 32 KiB, and is executed when it begins: a job
//! has one piece at the drive. Of a batch of reads in the background, four overlap. The log is sent to the drive in
//! pieces of 64 KiB instead of 1 MiB. Some pieces after the last get, all of this ends.
//!
//! Where the system has no `io_uring`, or refuses it as containers often do, a queue has up to four threads
//! (`device/system/threads.rs`). A thread begins when a piece finds all others at work, and ends when the directory is
//! closed; a queue without pieces has none. If no thread can be started, pieces are executed when they begin. Files in
//! the page cache have no queue: the system reads ahead and writes behind.

use super::counters::RecentGets;
use super::{AlignedBuffer, FileBackend, IoCounters};
use crate::sync::Mutex;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// The maximum length of a piece that is not overlapped, in bytes: gets wait for each. With twice as much the 99.9th
/// percentile of a get during writes at full speed is 40 % longer, and there are 25 % more puts.
pub(super) const SHARED_PIECE_BYTES_MAX: usize = 32 << 10;
/// The maximum number of reads of a batch that overlap then.
pub(super) const SHARED_READS_MAX: usize = 4;

/// A read or a write that is executed in the background, with its own buffer.
pub struct Piece {
    /// The file, open as long as the piece exists.
    pub file: Arc<dyn FileBackend>,
    /// Whether the buffer is written to the file, or read from it.
    pub is_write: bool,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The bytes. All are transferred.
    pub buffer: AlignedBuffer,
}

impl Piece {
    /// Executes the piece. Returns the number of bytes, as [`FileBackend::read_at`] does.
    ///
    /// # Errors
    /// Those of the file.
    pub fn execute(&mut self) -> io::Result<usize> {
        match self.is_write {
            true => self.file.write_at(self.offset, &self.buffer).map(|()| self.buffer.len()),
            false => self.file.read_at(self.offset, &mut self.buffer),
        }
    }

    /// Returns whether a number of transferred bytes completes it. A read may end within a block, at the end of the
    /// file.
    fn is_complete(&self, count: usize) -> bool {
        count == self.buffer.len() || !self.is_write && !count.is_multiple_of(self.file.alignment())
    }
}

/// A piece that has ended, by its number, and the number of transferred bytes or the error.
pub type EndedPiece = (u64, Piece, io::Result<usize>);

/// Executes pieces, overlapped and in any order. Dropping it ends all pieces first.
pub trait PieceExecutor: Send {
    /// Begins a piece. May wait for others.
    fn begin(&mut self, number: u64, piece: Piece);
    /// Returns a piece that has ended, and waits for one if necessary; `None` if none is left. It may have transferred
    /// fewer bytes than requested.
    fn wait(&mut self) -> Option<EndedPiece>;
}

/// A queue of pieces. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub(super) struct PieceQueue(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    executor: Option<Box<dyn PieceExecutor>>,
    next: u64,
    ended: Vec<EndedPiece>,
    /// Checked about twice for each piece.
    gets: RecentGets,
}

/// A piece in a queue. Dropping it waits for the piece and ignores its outcome.
pub(super) struct Ticket {
    queue: PieceQueue,
    /// `None` once the piece was taken.
    number: Option<u64>,
}

impl PieceQueue {
    /// Makes a queue. Without an executor, pieces are executed when they begin.
    pub(super) fn new(executor: Option<Box<dyn PieceExecutor>>) -> Self {
        PieceQueue(Arc::new(Mutex::new(Queue { executor, ..Queue::default() })))
    }

    /// Returns whether pieces are overlapped now: whether there is an executor, and no get has read from the directory
    /// recently.
    pub(super) fn overlaps(&self, counters: &IoCounters) -> bool {
        self.0.lock().overlaps(counters)
    }

    /// Begins a piece.
    pub(super) fn begin(&self, mut piece: Piece, counters: &IoCounters) -> Ticket {
        let mut queue = self.0.lock();
        let number = queue.next;
        queue.next += 1;
        let overlaps = queue.overlaps(counters);
        match &mut queue.executor {
            Some(executor) if overlaps => executor.begin(number, piece),
            _ => {
                // What is in flight ends first, so that gets queue behind one piece at a time.
                while queue.wait_for_one() {}
                let outcome = piece.execute();
                queue.ended.push((number, piece, outcome));
            }
        }
        Ticket { queue: self.clone(), number: Some(number) }
    }
}

impl Queue {
    fn overlaps(&mut self, counters: &IoCounters) -> bool {
        !self.gets.check(counters) && self.executor.is_some()
    }

    /// Waits until a piece has ended. Returns false if none is in flight.
    fn wait_for_one(&mut self) -> bool {
        match self.executor.as_mut().and_then(|executor| executor.wait()) {
            Some(ended) => self.ended.push(ended),
            None => return false,
        }
        true
    }

    fn take(&mut self, number: u64) -> Option<(Piece, io::Result<usize>)> {
        loop {
            if let Some(at) = self.ended.iter().position(|(ended, ..)| *ended == number) {
                let (_, piece, outcome) = self.ended.swap_remove(at);
                return Some((piece, outcome));
            }
            if !self.wait_for_one() {
                return None;
            }
        }
    }
}

impl Ticket {
    /// Waits for the piece. Returns its buffer, and the number of transferred bytes or the error.
    pub(super) fn wait(mut self) -> (AlignedBuffer, io::Result<usize>) {
        let taken = self.number.take().and_then(|number| self.queue.0.lock().take(number));
        let Some((mut piece, outcome)) = taken else {
            return (AlignedBuffer::default(), Err(io::Error::other("a piece in flight was lost")));
        };
        let outcome = match outcome {
            Ok(count) if piece.is_complete(count) => Ok(count),
            // As if nothing had been transferred: the file transfers everything, or finds the error.
            Ok(_) => piece.execute(),
            Err(error) if was_not_executed(&error) => piece.execute(),
            Err(error) => Err(error),
        };
        (piece.buffer, outcome)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            drop(self.queue.0.lock().take(number));
        }
    }
}

/// Returns whether the system gave up a piece without a failure of the device. It cancels pieces when the thread that
/// began them ends (`ECANCELED`).
fn was_not_executed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
        || error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Appender, Directory, File, FileState, Purpose, ReadAhead, SystemDirectory};
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const PIECE_BYTES: usize = 64 << 10;

    fn folder() -> tempfile::TempDir {
        let program = std::env::current_exe().unwrap();
        tempfile::tempdir_in(program.parent().unwrap()).unwrap()
    }

    fn create(folder: &tempfile::TempDir) -> File {
        let directory = Directory::new(SystemDirectory::open(folder.path()).unwrap(), Access::Buffered);
        directory.create("data", Access::DirectOrBuffered).unwrap()
    }

    fn filled(byte: u8) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::default();
        buffer.extend_from_slice(&[byte; PIECE_BYTES]);
        buffer
    }

    fn begin(file: &File, pieces: Range<u8>) -> Vec<Ticket> {
        let begin = |piece: u8| {
            file.begin_write(Purpose::Merge, PIECE_BYTES as u64 * u64::from(piece), filled(piece))
        };
        pieces.map(begin).collect()
    }

    fn check(file: &File, pieces: u8) {
        for piece in 0..pieces {
            let offset = PIECE_BYTES as u64 * u64::from(piece);
            let (ticket, extent) =
                file.begin_read(Purpose::Merge, offset, PIECE_BYTES, AlignedBuffer::default()).unwrap();
            assert_eq!(&file.finish_read(ticket, &extent).unwrap()[..], [piece; PIECE_BYTES]);
        }
    }

    #[test]
    fn more_pieces_than_fit_into_a_ring_complete_in_any_order_of_waiting() {
        let folder = folder();
        let file = create(&folder);
        let mut tickets = begin(&file, 0..200);
        fastrand::Rng::with_seed(5).shuffle(&mut tickets);
        for ticket in tickets {
            assert_eq!(file.finish_write(ticket).unwrap().len(), PIECE_BYTES);
        }
        check(&file, 200);
    }

    #[test]
    fn pieces_that_are_dropped_in_flight_are_executed_with_their_buffers() {
        let folder = folder();
        let file = create(&folder);
        drop(begin(&file, 0..20));
        check(&file, 20);
        // The file outlives its user, and the buffer the stream.
        let mut appender = Appender::new(file, Purpose::Merge, PIECE_BYTES);
        appender.append(&[7; 3 * PIECE_BYTES]).unwrap();
        drop(appender);
        assert_eq!(
            std::fs::read(folder.path().join("data")).unwrap()[..3 * PIECE_BYTES],
            [7; 3 * PIECE_BYTES]
        );
    }

    #[test]
    fn an_appender_says_what_is_written_and_counts_the_memory_of_the_piece_in_flight() {
        let folder = folder();
        let file = create(&folder);
        let in_flight = if file.overlaps(Purpose::Merge) { PIECE_BYTES } else { 0 };
        let mut appender = Appender::new(file, Purpose::Merge, PIECE_BYTES);
        let mut state = |bytes: usize| {
            appender.append(&vec![7; bytes]).unwrap();
            (appender.readable_bytes() as usize, appender.heap_bytes())
        };
        assert_eq!(state(PIECE_BYTES - 1), (0, PIECE_BYTES));
        assert_eq!(state(2), (PIECE_BYTES - in_flight, PIECE_BYTES + in_flight));
        assert_eq!(state(PIECE_BYTES), (2 * PIECE_BYTES - in_flight, PIECE_BYTES + in_flight));
    }

    /// A direct file that counts the calls.
    #[derive(Default)]
    struct Direct(AtomicUsize);

    impl FileBackend for Direct {
        fn read_at(&self, _offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.fetch_add(1, Relaxed);
            Ok(buffer.len())
        }

        fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
            self.0.fetch_add(1, Relaxed);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&self, _length: u64) -> io::Result<()> {
            Ok(())
        }

        fn state(&self) -> io::Result<FileState> {
            Ok(FileState { length: 0, names: None })
        }

        fn alignment(&self) -> usize {
            512
        }
    }

    /// An executor that leaves pieces as they are, with the outcome that its function gives.
    struct Idle<F>(F, Vec<(u64, Piece)>);

    impl<F: Fn() -> io::Result<usize> + Send> PieceExecutor for Idle<F> {
        fn begin(&mut self, number: u64, piece: Piece) {
            self.1.push((number, piece));
        }

        fn wait(&mut self) -> Option<EndedPiece> {
            self.1.pop().map(|(number, piece)| (number, piece, self.0()))
        }
    }

    #[test]
    fn a_piece_that_was_cut_short_or_not_executed_is_executed_by_who_waits_for_it() {
        // Returns the outcome of a piece of two sectors, and how many calls of the file it took.
        fn outcome(
            is_write: bool,
            executed: impl Fn() -> io::Result<usize> + Send + 'static,
        ) -> (Option<usize>, usize) {
            let (file, mut buffer) = (Arc::new(Direct::default()), AlignedBuffer::default());
            buffer.resize(1024);
            let queue = PieceQueue::new(Some(Box::new(Idle(executed, Vec::new()))));
            let piece = Piece { file: file.clone(), is_write, offset: 0, buffer };
            let (_, outcome) = queue.begin(piece, &IoCounters::default()).wait();
            (outcome.ok(), file.0.load(Relaxed))
        }
        for is_write in [true, false] {
            assert_eq!(outcome(is_write, || Ok(1024)), (Some(1024), 0));
            assert_eq!(outcome(is_write, || Ok(512)), (Some(1024), 1));
            for kind in [ErrorKind::Interrupted, ErrorKind::WouldBlock] {
                assert_eq!(outcome(is_write, move || Err(kind.into())), (Some(1024), 1));
            }
            let canceled = rustix::io::Errno::CANCELED.raw_os_error();
            let executed = move || Err(io::Error::from_raw_os_error(canceled));
            assert_eq!(outcome(is_write, executed), (Some(1024), 1));
            assert_eq!(outcome(is_write, || Err(ErrorKind::StorageFull.into())), (None, 0));
        }
        // Only the end of a file is within a sector.
        assert_eq!(outcome(false, || Ok(700)), (Some(700), 0));
        assert_eq!(outcome(true, || Ok(700)), (Some(1024), 1));
    }

    /// The system cancels pieces of a thread that ends.
    #[test]
    fn pieces_outlive_the_thread_that_began_them() {
        let folder = folder();
        let file = create(&folder);
        let tickets = std::thread::scope(|scope| scope.spawn(|| begin(&file, 0..50)).join().unwrap());
        tickets.into_iter().for_each(|ticket| drop(file.finish_write(ticket).unwrap()));
        check(&file, 50);
    }

    #[test]
    fn a_panic_with_pieces_in_flight_leaves_complete_pieces() {
        let folder = folder();
        let file = create(&folder);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _tickets = begin(&file, 0..20);
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(outcome.is_err());
        check(&file, 20);
    }

    #[test]
    fn a_read_beyond_the_end_is_an_error_of_its_piece_only() {
        let folder = folder();
        let file = create(&folder);
        begin(&file, 0..4).into_iter().for_each(|ticket| drop(file.finish_write(ticket).unwrap()));
        let mut reader = ReadAhead::new(Purpose::Merge, PIECE_BYTES, 1);
        let end = 6 * PIECE_BYTES as u64;
        let mut at = 0;
        for piece in 0..4 {
            let take = |_, bytes: &[u8]| {
                assert!(bytes.iter().all(|&byte| byte == piece));
                Ok::<(), crate::Error>(())
            };
            at = reader.read(&file, at..end, 0, take).unwrap();
        }
        assert!(reader.read(&file, at..end, 0, |_, _| Ok::<(), crate::Error>(())).is_err());
        check(&file, 4);
    }

    #[test]
    fn the_next_piece_is_read_ahead_where_pieces_overlap_and_its_memory_is_counted() {
        let folder = folder();
        let file = create(&folder);
        begin(&file, 0..4).into_iter().for_each(|ticket| drop(file.finish_write(ticket).unwrap()));
        let end = 4 * PIECE_BYTES as u64;
        let mut reader = ReadAhead::new(Purpose::Merge, PIECE_BYTES, 1);
        let (mut at, mut pieces) = (0, 0);
        while at < end {
            assert_eq!(at, pieces * PIECE_BYTES as u64);
            at = reader.read(&file, at..end, 0, |_, _| Ok::<(), crate::Error>(())).unwrap();
            pieces += 1;
            let is_ahead = at < end && file.overlaps(Purpose::Merge);
            assert_eq!(reader.heap_bytes(), if is_ahead { PIECE_BYTES } else { 0 });
        }
        // More than a piece is read if it is needed, and a piece of elsewhere is of no use.
        let mut read = Vec::new();
        let mut take = |offset, bytes: &[u8]| {
            read.push((offset, bytes.len(), bytes[0]));
            Ok::<(), crate::Error>(())
        };
        reader.read(&file, 0..end, 0, &mut take).unwrap();
        let second = PIECE_BYTES as u64;
        assert_eq!(reader.read(&file, 2 * second..end, PIECE_BYTES + 1, &mut take).unwrap(), 3 * second + 1);
        assert_eq!(read, [(0, PIECE_BYTES, 0), (2 * second, PIECE_BYTES + 1, 2)]);
    }

    /// Runs the tests of this module, with this one, in a process in which the system refuses `io_uring`.
    #[cfg(target_os = "linux")]
    #[test]
    fn where_io_uring_is_refused_threads_execute_the_pieces() {
        use crate::{IoBackend, io_backend};
        use std::os::unix::process::CommandExt;
        const REFUSED: &str = "SILTSTONE_TEST_WITHOUT_IO_URING";
        if std::env::var_os(REFUSED).is_some() {
            assert_eq!(io_backend(), IoBackend::Pread);
            let folder = folder();
            let file = create(&folder);
            let mut tickets = begin(&file, 0..20).into_iter();
            // A thread that has executed a piece has its name.
            tickets.by_ref().take(1).for_each(|ticket| drop(file.finish_write(ticket).unwrap()));
            let is_ours = |task: std::fs::DirEntry| {
                std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "siltstone-io\n")
            };
            assert!(std::fs::read_dir("/proc/self/task").unwrap().flatten().any(is_ours));
            tickets.for_each(|ticket| drop(file.finish_write(ticket).unwrap()));
            return check(&file, 20);
        }
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.arg("queue::tests").env(REFUSED, "");
        // SAFETY: the function only makes system calls.
        unsafe { command.pre_exec(refuse_io_uring) };
        let outcome = command.output().unwrap();
        let printed = String::from_utf8_lossy(&outcome.stdout);
        assert!(outcome.status.success() && printed.contains("where_io_uring_is_refused"), "{printed}");
    }

    /// Makes the system refuse `io_uring` to this process, as containers do.
    #[cfg(target_os = "linux")]
    fn refuse_io_uring() -> io::Result<()> {
        let word = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        let is_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let end = (libc::BPF_RET | libc::BPF_K) as u16;
        let line = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
        let mut lines = [
            line(word, 0, 0),
            line(is_equal, libc::SYS_io_uring_setup as u32, 1),
            line(end, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0),
            line(end, libc::SECCOMP_RET_ALLOW, 0),
        ];
        let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
        // SAFETY: the filter points to `lines`, which the system copies during the call.
        let refused = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
        };
        if refused { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_leaves_the_pieces_in_flight_to_its_parent() {
        let folder = folder();
        let file = create(&folder);
        let tickets = begin(&file, 0..50);
        // SAFETY: the child only writes and reads, allocates (which the C library allows after a fork), and ends by
        // `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(tickets);
            let own = begin(&file, 50..60).into_iter().all(|ticket| file.finish_write(ticket).is_ok());
            // SAFETY: it ends this process, whose memory is not shared, without running the code of the parent.
            unsafe { libc::_exit(if own { 0 } else { 1 }) };
        }
        assert!(child > 0);
        tickets.into_iter().for_each(|ticket| drop(file.finish_write(ticket).unwrap()));
        let mut status = 0;
        // SAFETY: the process is our child, and `status` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
        check(&file, 60);
    }
}

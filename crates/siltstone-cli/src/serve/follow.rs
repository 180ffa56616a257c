//! `siltstone follow`: a copy of a database that another server has, for reads and for a start elsewhere.
//!
//! 1. The position of the source's change feed is taken, and all records are copied; what the source does not have is
//!    deleted.
//! 2. The keys that were written since the position are read again and again, and their records copied.
//! 3. About each second the copy is synced and then the position saved: a copy that is started again continues there.
//!    If the feed has lost it, everything is copied again.
//!
//! A key of the copy never becomes older than it was. Keys of one transaction may arrive one after the other.

use crate::import_redis::{Copied, Page, Source, without_password};
use crate::outcome::wrong_usage;
use anyhow::{Context, anyhow};
use siltstone_command::database::expiry_after;
use siltstone_command::outcome::complain;
use siltstone_server::{FollowStatus, KeyState, NewValue, Server, Store};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The keys of a page of changes.
const PAGE_KEYS: usize = 4096;

/// The time between two questions for changes, if there were none.
const PAUSE: Duration = Duration::from_millis(20);

/// The time between two attempts to reach the source.
const RETRY: Duration = Duration::from_secs(1);

/// How long a thread that copies may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The time between two positions that are saved.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// What copies a database.
pub struct Follower {
    address: String,
    status: Arc<FollowStatus>,
    /// The file of the position.
    file: PathBuf,
}

/// A thread that copies.
pub struct Copying {
    is_stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Copying {
    /// Ends the thread, and waits for it for some seconds.
    pub fn stop(self) {
        self.is_stopping.store(true, Relaxed);
        self.thread.thread().unpark();
        let end = Instant::now() + STOP_PATIENCE;
        // One that waits for a machine that has gone ends with the process.
        while !self.thread.is_finished() && Instant::now() < end {
            thread::park_timeout(PAUSE);
        }
    }
}

impl Follower {
    /// Makes a follower of the source, whose copy is below a directory.
    ///
    /// # Errors
    /// The source cannot be reached, or there is no directory.
    pub fn new(address: &str, directory: Option<&Path>) -> anyhow::Result<Follower> {
        let directory = directory.ok_or_else(|| wrong_usage("state the directory of the copy"))?;
        // A wrong address is seen at once.
        let (host, port) = Source::connect(address)?.host();
        let status = Arc::new(FollowStatus::new(host, port));
        Ok(Follower { address: address.to_owned(), status, file: position_file(directory) })
    }

    /// Returns what the server says of the source.
    pub fn status(&self) -> Arc<FollowStatus> {
        self.status.clone()
    }

    /// Starts to copy into the database 0 of a server.
    pub fn start(self, server: &Server) -> anyhow::Result<Copying> {
        let store = server.store(0).map_err(|error| anyhow!(error))?;
        let store = store.ok_or_else(|| anyhow!("the server has no database 0"))?;
        let is_stopping = Arc::<AtomicBool>::default();
        let stopping = is_stopping.clone();
        let thread = thread::Builder::new().name("follower".to_owned());
        let thread = thread.spawn(move || self.run(&*store, &stopping))?;
        Ok(Copying { is_stopping, thread })
    }

    fn run(&self, store: &dyn Store, is_stopping: &AtomicBool) {
        let mut last = String::new();
        while !is_stopping.load(Relaxed) {
            if let Err(error) = self.follow(store, is_stopping) {
                self.status.set_connected(false);
                let problem = format!("{error:#}");
                // Said once, and not each second.
                if problem != last {
                    complain(format_args!("{}: {problem}; trying again", without_password(&self.address)));
                }
                last = problem;
                thread::park_timeout(RETRY);
            }
        }
    }

    /// Copies until there is an error or the server stops.
    fn follow(&self, store: &dyn Store, is_stopping: &AtomicBool) -> anyhow::Result<()> {
        let mut source = Source::connect(&self.address)?;
        self.status.set_connected(true);
        let found = store.count().map_err(|failure| anyhow!("{failure}"))?;
        let mut position = match self.saved()? {
            // A database that was removed, and its position was not, needs all records.
            Some(position) if found.keys > 0 => position,
            _ => self.copy_all(&mut source, store, is_stopping)?,
        };
        let (mut saved, mut saved_at) = (position.clone(), Instant::now());
        while !is_stopping.load(Relaxed) {
            let asked_at_ms = expiry_after(Duration::ZERO)?;
            let Some((keys, next)) = source.changes(&position, PAGE_KEYS)? else {
                position = self.copy_all(&mut source, store, is_stopping)?;
                continue;
            };
            source.read(&keys, &mut |page| self.write(store, page))?;
            // A page that is not full has all that was written before it was asked for. Under steady writes none is
            // empty.
            if keys.len() < PAGE_KEYS {
                self.status.set_complete(asked_at_ms);
            }
            if keys.is_empty() {
                thread::park_timeout(PAUSE);
            }
            position = next;
            if position != saved && saved_at.elapsed() >= SAVE_INTERVAL {
                self.save(store, &position)?;
                (saved, saved_at) = (position.clone(), Instant::now());
            }
        }
        self.save(store, &position)
    }

    /// Copies all records, deletes what the source does not have, and returns the position before that.
    fn copy_all(
        &self,
        source: &mut Source,
        store: &dyn Store,
        is_stopping: &AtomicBool,
    ) -> anyhow::Result<String> {
        let check = || match is_stopping.load(Relaxed) {
            true => Err(anyhow!("the copy is not complete")),
            false => Ok(()),
        };
        let position = source.position()?;
        let mut next = 0;
        loop {
            check()?;
            next = source.scan(next, &mut |page| self.write(store, page))?;
            if next == 0 {
                break;
            }
        }
        let mut own = Some(0);
        while let Some(from) = own {
            check()?;
            let page = store.keys(from, PAGE_KEYS).map_err(|failure| anyhow!("{failure}"))?;
            // What exists was copied, or is among the changes.
            self.write(store, source.absent(&page.keys)?)?;
            own = page.next;
        }
        self.save(store, &position)?;
        Ok(position)
    }

    /// Writes the records of a page, and deletes its other keys.
    fn write(&self, store: &dyn Store, page: Page) -> anyhow::Result<()> {
        let Page { records, absent, .. } = page;
        let (keys, values): (Vec<Vec<u8>>, Vec<NewValue>) = records.into_iter().map(value).unzip();
        let all: Vec<&[u8]> = keys.iter().chain(&absent).map(Vec::as_slice).collect();
        if all.is_empty() {
            return Ok(());
        }
        let mut outcome = Ok(());
        let mut act = |states: &mut [KeyState]| {
            let values = values.iter().cloned().map(Some).chain(absent.iter().map(|_| None));
            outcome = states.iter_mut().zip(values).try_for_each(|(state, value)| state.replace(value));
        };
        store.write(&all, &mut act).and(outcome).map_err(|failure| anyhow!("{failure}"))?;
        self.status.add_keys(all.len() as u64);
        Ok(())
    }

    /// Returns the saved position, if there is one.
    fn saved(&self) -> anyhow::Result<Option<String>> {
        match fs::read_to_string(&self.file) {
            Ok(text) => Ok(Some(text.trim_end().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.file.display())),
        }
    }

    /// Saves a position. What is before it survives a power loss then.
    fn save(&self, store: &dyn Store, position: &str) -> anyhow::Result<()> {
        store.sync().map_err(|failure| anyhow!("{failure}"))?;
        let new = self.file.with_extension("position.new");
        let write = || {
            fs::write(&new, format!("{position}\n"))?;
            fs::File::open(&new)?.sync_all()?;
            fs::rename(&new, &self.file)
        };
        write().with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// Returns the file of the position of a copy below a directory.
fn position_file(directory: &Path) -> PathBuf {
    directory.join("0.position")
}

/// Removes the position of a copy that is about to be served for writes: it is no copy any more, so a later one needs
/// all records.
pub fn forget_position(directory: &Path) -> anyhow::Result<()> {
    let file = position_file(directory);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the key and the value of a record, as a store has them.
fn value(record: Copied) -> (Vec<u8>, NewValue) {
    let Copied { key, value_type, value, expires_at_ms } = record;
    (key, NewValue { value_type, bytes: value.into(), expires_at_ms, mark: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_server::MapStore;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// A source whose changes the test states.
    struct FakeSource {
        stream: BufReader<TcpStream>,
        /// What each key has.
        value: String,
    }

    impl FakeSource {
        fn number(&mut self) -> usize {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            line.trim_end()[1..].parse().unwrap()
        }

        fn request(&mut self) -> Vec<String> {
            let words = self.number();
            (0..words)
                .map(|_| {
                    let mut word = vec![0; self.number() + 2];
                    self.stream.read_exact(&mut word).unwrap();
                    String::from_utf8_lossy(&word[..word.len() - 2]).into_owned()
                })
                .collect()
        }

        fn reply(&mut self, reply: &str) {
            self.stream.get_mut().write_all(reply.as_bytes()).unwrap();
        }

        /// Replies to all requests until the next one for changes since a position.
        fn wait_until_asked(&mut self) {
            let value = format!("${}\r\n{}\r\n", self.value.len(), self.value);
            loop {
                let words = self.request();
                let reply = match words[0].as_str() {
                    "SILTSTONE" if words.len() > 2 => return,
                    "SILTSTONE" | "SCAN" => "*2\r\n$1\r\n0\r\n*0\r\n",
                    "TYPE" => "+string\r\n",
                    "GET" => &value[..],
                    "PEXPIRETIME" => ":-1\r\n",
                    _ => "+OK\r\n",
                };
                self.reply(reply);
            }
        }

        /// Replies with a page of this many changed keys.
        fn reply_changes(&mut self, keys: usize) {
            let keys: String = (0..keys).map(|number| format!("$8\r\n{number:08}\r\n")).collect();
            let count = keys.lines().count() / 2;
            self.reply(&format!("*2\r\n$1\r\n1\r\n*{count}\r\n{keys}"));
        }
    }

    #[test]
    fn a_copy_is_as_of_the_request_whose_page_was_not_full() {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let status = Arc::new(FollowStatus::new("127.0.0.1".to_owned(), 0));
        let follower = Follower { address, status: status.clone(), file: position_file(directory.path()) };
        let (store, is_stopping) = (MapStore::default(), AtomicBool::new(false));
        let (after_full, after_other) = thread::scope(|scope| {
            scope.spawn(|| follower.run(&store, &is_stopping));
            let stream = BufReader::new(listener.accept().unwrap().0);
            let mut source = FakeSource { stream, value: "v".to_owned() };
            // The page before was copied when the next one is asked for.
            let mut lag_after = |keys| {
                source.wait_until_asked();
                source.reply_changes(keys);
                source.wait_until_asked();
                let lag_ms = status.lag_ms();
                source.reply_changes(keys);
                lag_ms
            };
            let lags_ms = (lag_after(PAGE_KEYS), lag_after(1));
            source.wait_until_asked();
            is_stopping.store(true, Relaxed);
            source.reply_changes(0);
            lags_ms
        });
        assert_eq!(after_full, None, "a page that is full may have others after it");
        assert!(after_other.is_some(), "under steady writes no page is empty");
        assert_eq!(store.count().unwrap().keys, PAGE_KEYS as u64);
    }

    #[test]
    fn long_values_are_copied_some_at_a_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::scope(|scope| {
            scope.spawn(|| {
                let stream = BufReader::new(listener.accept().unwrap().0);
                FakeSource { stream, value: "v".repeat(5 << 20) }.wait_until_asked();
            });
            let mut source = Source::connect(&address).unwrap();
            let keys = ["a", "b", "c"].map(|key| key.as_bytes().to_vec());
            let mut parts = Vec::new();
            let mut take = |page: Page| {
                parts.push(page.records.len());
                Ok(())
            };
            source.read(&keys, &mut take).unwrap();
            assert_eq!(parts, [2, 1], "8 MiB, and the value that exceeds them");
            assert!(source.changes("0", 1).is_err(), "the source has ended");
        });
    }
}

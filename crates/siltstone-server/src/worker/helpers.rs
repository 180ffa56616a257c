//! Threads for commands that may take long.

use super::account;
use super::mailbox::{Mailbox, Message};
use super::pace::Pace;
use super::updates::Updates;
use crate::command::{Action, Command, Context, Outbox, SlowCall, Tally};
use crate::connection::RunKind;
use crate::failure::Failure;
use crate::protocol::{Reply, Version};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// What a helper thread does for a worker.
pub enum Job {
    /// A command that may take long.
    Slow(SlowJob),
    /// The updates of a turn.
    Updates(Updates, Arc<Mailbox>),
}

/// A command that may take long.
pub struct SlowJob {
    pub command: &'static Command,
    pub words: Vec<Vec<u8>>,
    pub database: usize,
    pub version: Version,
    /// The number of the connection in its worker, and of the client.
    pub connection: usize,
    pub client: u64,
    /// The client wants no reply.
    pub is_silent: bool,
    /// The client has gone: the reply is not needed.
    pub is_gone: Arc<AtomicBool>,
    /// The number of the worker.
    pub worker: usize,
    pub mailbox: Arc<Mailbox>,
}

/// Jobs that wait, at most one per connection, and what their threads need.
pub struct Helpers {
    context: Arc<Context>,
    jobs: Mutex<VecDeque<Job>>,
    added: Condvar,
    is_cancelled: AtomicBool,
    is_stopping: AtomicBool,
    /// The number of threads.
    pub threads: usize,
}

impl Helpers {
    /// Starts threads.
    ///
    /// # Errors
    /// The system's error if a thread cannot be started.
    pub fn start(context: Arc<Context>, threads: usize) -> io::Result<(Arc<Helpers>, Vec<JoinHandle<()>>)> {
        let helpers = Arc::new(Helpers {
            context,
            jobs: Mutex::default(),
            added: Condvar::new(),
            is_cancelled: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            threads,
        });
        let start = |number: usize| {
            let helpers = helpers.clone();
            thread::Builder::new().name(format!("helper {number}")).spawn(move || helpers.run())
        };
        let threads = (0..threads).map(start).collect::<io::Result<Vec<_>>>()?;
        Ok((helpers, threads))
    }

    /// Adds a job.
    pub fn add(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.added.notify_one();
    }

    /// Ends commands that take long.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
    }

    /// Ends the threads, after the jobs that were added.
    pub fn stop(&self) {
        self.cancel();
        // Under the lock: a thread that is about to wait would miss it otherwise.
        let _jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_stopping.store(true, Relaxed);
        self.added.notify_all();
    }

    fn run(&self) {
        while let Some(job) = self.next() {
            match job {
                Job::Slow(job) => {
                    let executed = catch_unwind(AssertUnwindSafe(|| self.execute(&job)));
                    let SlowJob { connection, client, mailbox, .. } = job;
                    mailbox.send(match executed {
                        Ok((reply, outbox)) => Message::Answered { connection, client, reply, outbox },
                        Err(_) => Message::Broken { places: vec![(connection, client)], kind: None },
                    });
                }
                Job::Updates(updates, mailbox) => {
                    let ((database, kind), places, keys) = (updates.kind(), updates.places(), updates.keys());
                    let execute = || updates.execute(&self.context, true);
                    let (executed, pace) = Pace::measure(keys, || catch_unwind(AssertUnwindSafe(execute)));
                    let lookup = (kind == RunKind::Read).then_some((database, pace));
                    mailbox.send(match executed {
                        Ok(answers) => {
                            Message::Executed { answers: answers.unwrap_or_default(), kind, lookup }
                        }
                        Err(_) => Message::Broken { places, kind: Some(kind) },
                    });
                }
            }
        }
    }

    /// Waits for a job. `None` when the server stops, and there is none.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match jobs.pop_front() {
                Some(job) => return Some(job),
                None if self.is_stopping.load(Relaxed) => return None,
                None => jobs = self.added.wait(jobs).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn execute(&self, job: &SlowJob) -> (Vec<u8>, Outbox) {
        let words: Vec<&[u8]> = job.words.iter().map(Vec::as_slice).collect();
        let (begin, mut tally) = (Instant::now(), Tally::default());
        tally.add(job.command.number);
        let (mut out, outbox) = (Vec::new(), RefCell::default());
        let mut reply = Reply::new(&mut out, job.version);
        let is_cancelled = || self.is_cancelled.load(Relaxed) || job.is_gone.load(Relaxed);
        let outcome = self.context.places.on_current(job.database, |store| {
            reply.truncate(0);
            let (database, context) = (job.database, &*self.context);
            let (is_cancelled, outbox) = (&is_cancelled, &outbox);
            let call = SlowCall { words: &words, database, store, context, is_cancelled, outbox };
            match job.command.action {
                Action::Slow(execute) | Action::SlowIf(_, execute, _) => execute(&call, &mut reply),
                _ => Err(Failure::SYNTAX),
            }
        });
        super::conclude(&self.context, &mut reply, 0, outcome);
        if job.is_silent {
            reply.truncate(0);
        }
        let longest = || Some((job.client, words.clone()));
        account::note(&self.context, job.worker, &tally, begin.elapsed(), longest);
        (out, outbox.into_inner())
    }
}

//! One thread of a workload: chooses requests, times each, and verifies each result.

use super::{Chooser, Inserts, Records, Request, Settings};
use crate::random::{self, Rng};
use crate::timings::Timings;
use crate::{Error, Result};
use siltstone::{Bytes, Change, Database};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What all threads share.
pub struct Shared<'a> {
    pub settings: &'a Settings,
    pub database: &'a Database,
    pub records: &'a Records,
    pub inserts: &'a Inserts,
    pub deadline: Option<Instant>,
}

/// The results of a thread.
#[derive(Default)]
pub struct Work {
    pub timings: Timings,
    /// Keys that were looked up, including those of updates.
    pub lookups: u64,
}

impl Work {
    /// Adds the results of another thread.
    pub fn merge(&mut self, other: &Work) {
        self.timings.merge(&other.timings);
        self.lookups += other.lookups;
    }
}

/// Returns the error of workload e, which scans records in key order, for a database without it.
pub fn no_order() -> Error {
    Error::settings(
        "workload e scans records in the order of their keys, and this database has no order: choose a, b, c, d or f, or --engine flashkey --set ordered=true",
    )
}

pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    chooser: Chooser,
    random: Rng,
    key: Vec<u8>,
    value: Vec<u8>,
    work: Work,
}

impl<'a> Worker<'a> {
    /// Creates the worker with this number.
    pub fn new(shared: &'a Shared<'a>, chooser: &Chooser, thread: u64) -> Self {
        Worker {
            shared,
            chooser: chooser.clone(),
            random: random::stream(shared.settings.seed, thread),
            key: Vec::new(),
            value: Vec::new(),
            work: Work::default(),
        }
    }

    fn must_stop(&self) -> bool {
        self.shared.settings.stop.load(Relaxed)
            || self.shared.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn done(&mut self, request: Request, started: Instant) {
        self.work.timings.record(request.name(), started.elapsed());
    }

    /// Loads records.
    pub fn load(mut self, numbers: Range<u64>) -> Result<Work> {
        for number in numbers {
            if self.must_stop() {
                break;
            }
            self.put(Request::Insert, number, 0)?;
        }
        Ok(self.work)
    }

    /// Sends this many requests.
    pub fn run(mut self, requests: u64) -> Result<Work> {
        let Settings { workload, write_all_fields, .. } = self.shared.settings;
        for _ in 0..requests {
            if self.must_stop() {
                break;
            }
            match workload.request(self.random.f64()) {
                Request::Read => self.read(),
                Request::Insert => self.insert(),
                Request::Update if *write_all_fields => self.overwrite(),
                request @ (Request::Update | Request::ReadModifyWrite) => self.modify(request),
                Request::Scan => self.scan(),
            }?;
        }
        Ok(self.work)
    }

    /// Chooses an existing record.
    fn choose(&mut self) -> u64 {
        self.chooser.choose(self.shared.inserts.last(), &mut self.random)
    }

    fn put(&mut self, request: Request, number: u64, write: u64) -> Result<()> {
        self.shared.records.write_key(number, &mut self.key);
        self.shared.records.write_value(number, write, &mut self.value);
        let started = Instant::now();
        self.shared.database.put(&self.key, &self.value)?;
        self.done(request, started);
        Ok(())
    }

    fn insert(&mut self) -> Result<()> {
        let number = self.shared.inserts.begin();
        self.put(Request::Insert, number, 0)?;
        self.shared.inserts.end(number);
        Ok(())
    }

    fn overwrite(&mut self) -> Result<()> {
        let number = self.choose();
        let write = self.random.u64(..);
        self.put(Request::Update, number, write)
    }

    fn read(&mut self) -> Result<()> {
        let number = self.choose();
        self.shared.records.write_key(number, &mut self.key);
        let started = Instant::now();
        let value = self.shared.database.get(&self.key)?;
        self.done(Request::Read, started);
        self.check(number, value.as_ref())
    }

    /// Reads some records in the order of their keys, from an existing one on.
    fn scan(&mut self) -> Result<()> {
        let number = self.choose();
        let length = self.random.usize(1..=self.shared.settings.max_scan_length.max(1));
        self.shared.records.write_key(number, &mut self.key);
        let started = Instant::now();
        let ordered = self.shared.database.ordered().ok_or_else(no_order)?;
        let range = ordered.limit(length).range(&self.key[..]..)?;
        let scanned = range.collect::<siltstone::Result<Vec<_>>>()?;
        self.done(Request::Scan, started);
        let first = scanned.first().filter(|first| first.key == self.key);
        self.check(number, first.map(|first| &first.value))?;
        self.work.lookups += scanned.len() as u64 - 1;
        let value_bytes = self.shared.records.value_bytes();
        let is_right = scanned.is_sorted_by(|one, next| one.key < next.key)
            && scanned.iter().all(|record| record.value.len() == value_bytes);
        if is_right { Ok(()) } else { Err(Error::WrongValue { benchmark: "ycsb", number }) }
    }

    /// Reads a record and writes it back with one new field or all new fields, atomically.
    fn modify(&mut self, request: Request) -> Result<()> {
        let number = self.choose();
        let draw = self.random.u64(..);
        let Shared { settings, database, records, .. } = self.shared;
        records.write_key(number, &mut self.key);
        let mut before = None;
        let started = Instant::now();
        database.update(&self.key, |found| {
            let Some(found) = found else { return Ok(Change::Keep) };
            let mut value = found.value.to_vec();
            if settings.write_all_fields {
                records.write_value(number, draw, &mut value);
            } else {
                records.update_field(number, draw, &mut value);
            }
            before = Some(found.value.clone());
            Ok(Change::Put { value: Bytes::from(value), expires_at_ms: found.expires_at_ms })
        })?;
        self.done(request, started);
        self.check(number, before.as_ref())
    }

    fn check(&mut self, number: u64, value: Option<&Bytes>) -> Result<()> {
        self.work.lookups += 1;
        match value {
            None => Err(Error::Lost { benchmark: "ycsb", number }),
            Some(value) if !self.shared.records.is_of(number, value) => {
                Err(Error::WrongValue { benchmark: "ycsb", number })
            }
            Some(_) => Ok(()),
        }
    }
}

//! `siltstone import --redis`: copies the strings and the hashes of a running Redis.
//!
//! 1. SCAN returns a page of keys, and TYPE the type of each, in one pipeline.
//! 2. GET reads each string of the page, HGETALL each hash, and PEXPIRETIME when it expires, in one pipeline.
//! 3. The page is one batch of writes, while a second thread reads the next one.
//!
//! Keys that are written meanwhile are copied before or after that write, or not at all if they are new: it is a copy
//! of no single moment.

use crate::interrupt::Interrupt;
use crate::outcome::{Outcome, Result, complain, wrong_usage};
use crate::progress::{Stopwatch, item_bar};
use crate::quantity::counted;
use crate::values::Values;
use anyhow::{Context, anyhow, bail};
use redis::io::tcp::TcpSettings;
use redis::{Connection, IntoConnectionInfo, RedisResult, Value};
use siltstone::key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
use siltstone::{Batch, Database, NEVER};
use siltstone_command::database::expiry_after;
use siltstone_server::{Fields, ValueType};
use socket2::TcpKeepalive;
use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// The number of keys of a page, and the bytes of its values above which the next page has fewer keys.
const PAGE_KEYS_MAX: usize = 1024;
const PAGE_BYTES: usize = 8 << 20;

/// The pages that are read ahead.
const PAGES_AHEAD: usize = 2;

/// How long the server may take to accept the connection, and about how long a machine that has gone is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The replies of PEXPIRETIME and PTTL for a key that does not expire, and for one that does not exist.
const NO_EXPIRY: i64 = -1;
const ABSENT: i64 = -2;

/// A record as Redis has it.
pub struct Copied {
    pub key: Vec<u8>,
    pub value_type: ValueType,
    pub value: Vec<u8>,
    pub expires_at_ms: u64,
}

/// What was found of some keys.
#[derive(Default)]
pub struct Page {
    pub records: Vec<Copied>,
    /// The keys that do not exist.
    pub absent: Vec<Vec<u8>>,
    /// The number of keys that were left out, by the reason.
    left_out: BTreeMap<String, u64>,
}

impl Page {
    fn leave_out(&mut self, reason: &str) {
        *self.left_out.entry(reason.to_owned()).or_default() += 1;
    }

    /// Adds a value, unless it is too long for a database.
    fn add(&mut self, key: &[u8], value_type: ValueType, value: Vec<u8>, expires_at_ms: u64) {
        if key.is_empty() || key.len() > KEY_LENGTH_MAX {
            self.leave_out(&format!("keys that have no or more than {KEY_LENGTH_MAX} bytes"));
        } else if value.len() >= VALUE_LENGTH_MAX {
            self.leave_out(&format!("values that have {VALUE_LENGTH_MAX} bytes or more"));
        } else {
            self.records.push(Copied { key: key.to_vec(), value_type, value, expires_at_ms });
        }
    }
}

/// A Redis that is read.
pub struct Source {
    address: String,
    host: redis::ConnectionAddr,
    connection: Connection,
    keys_at_once: usize,
    /// The server has PEXPIRETIME, as from 7.0 on. PTTL, which all have, needs the time of this machine.
    has_expiry_times: bool,
}

impl Source {
    /// Connects to `HOST:PORT`, or to a URL with a password and the number of a database.
    ///
    /// # Errors
    /// The address is none, or nothing replies there.
    pub fn connect(address: &str) -> anyhow::Result<Source> {
        let shown = without_password(address);
        let url = match address.contains("://") {
            true => address.to_owned(),
            false => format!("redis://{address}"),
        };
        // No time limit of reads: the system interrupts those, also for the completions of other I/O of the thread.
        let keepalive = TcpKeepalive::new().with_time(PATIENCE).with_interval(PATIENCE / 6);
        let settings = TcpSettings::default().set_keepalive(keepalive);
        let parsed = url.into_connection_info().map(|info| info.set_tcp_settings(settings));
        let client = parsed.and_then(redis::Client::open).map_err(|error| {
            wrong_usage(format_args!(
                "{shown}: {error}; expected HOST:PORT, or redis://USER:PASSWORD@HOST:PORT/DATABASE"
            ))
        })?;
        let unreachable = || format!("cannot connect to {shown}");
        let mut connection = client.get_connection_with_timeout(PATIENCE).with_context(unreachable)?;
        // A node of a cluster then shows what it has, and others refuse.
        let _: RedisResult<()> = redis::cmd("READONLY").query(&mut connection);
        // An absent command is an error that does not depend on the key.
        let probe: RedisResult<i64> = redis::cmd("PEXPIRETIME").arg("").query(&mut connection);
        let host = client.get_connection_info().addr().clone();
        Ok(Source {
            address: shown.to_owned(),
            host,
            connection,
            keys_at_once: PAGE_KEYS_MAX,
            has_expiry_times: probe.is_ok(),
        })
    }

    /// Returns about how many keys there are.
    fn keys(&mut self) -> anyhow::Result<u64> {
        Ok(redis::cmd("DBSIZE").query(&mut self.connection)?)
    }

    /// Returns the host and the port of the server.
    pub fn host(&self) -> (String, u16) {
        match &self.host {
            redis::ConnectionAddr::Tcp(host, port) => (host.clone(), *port),
            other => (other.to_string(), 0),
        }
    }

    /// Returns the present position of the change feed of a server of this program.
    pub fn position(&mut self) -> anyhow::Result<String> {
        let (position, _): (String, Vec<Vec<u8>>) =
            redis::cmd("SILTSTONE").arg("CHANGES").query(&mut self.connection)?;
        Ok(position)
    }

    /// Returns the keys that were written since a position, and the position after them; `None` if the feed no longer
    /// has the position.
    pub fn changes(
        &mut self,
        since: &str,
        keys_max: usize,
    ) -> anyhow::Result<Option<(Vec<Vec<u8>>, String)>> {
        let mut command = redis::cmd("SILTSTONE");
        command.arg("CHANGES").arg(since).arg("COUNT").arg(keys_max);
        let page: RedisResult<(String, Vec<Vec<u8>>)> = command.query(&mut self.connection);
        match page {
            Ok((next, keys)) => Ok(Some((keys, next))),
            Err(error) if error.code() == Some("CHANGESLOST") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a page from a position on, and returns where the next one begins: 0 after the last one.
    pub fn page(&mut self, position: u64) -> anyhow::Result<(Page, u64)> {
        let mut scan = redis::cmd("SCAN");
        let (next, mut keys): (u64, Vec<Vec<u8>>) =
            scan.arg(position).arg("COUNT").arg(self.keys_at_once).query(&mut self.connection)?;
        // SCAN may return a key twice.
        keys.sort_unstable();
        keys.dedup();
        let mut page = Page::default();
        if !keys.is_empty() {
            self.read(&keys, &mut page)?;
        }
        let bytes: usize = page.records.iter().map(|record| record.value.len()).sum();
        let fit = match bytes > PAGE_BYTES {
            true => self.keys_at_once / 2,
            false => self.keys_at_once * 2,
        };
        self.keys_at_once = fit.clamp(1, PAGE_KEYS_MAX);
        Ok((page, next))
    }

    /// Reads keys, each of which is given once.
    pub fn read(&mut self, keys: &[Vec<u8>], page: &mut Page) -> anyhow::Result<()> {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("TYPE").arg(key);
        }
        let types: Vec<String> = pipe.query(&mut self.connection)?;
        let mut wanted = Vec::new();
        for (key, found) in keys.iter().zip(&types) {
            match found.as_str() {
                "string" => wanted.push((key, ValueType::String)),
                "hash" => wanted.push((key, ValueType::Hash)),
                // A key that has gone since then has the type `none`.
                other => {
                    page.absent.push(key.clone());
                    if other != "none" {
                        page.leave_out(&format!("keys of the type {other}"));
                    }
                }
            }
        }

        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        let expiry = if self.has_expiry_times { "PEXPIRETIME" } else { "PTTL" };
        // One command for each key: those of a node of a cluster have different slots.
        for (key, value_type) in &wanted {
            pipe.cmd(if *value_type == ValueType::String { "GET" } else { "HGETALL" }).arg(*key);
            pipe.cmd(expiry).arg(*key);
        }
        let replies: Vec<RedisResult<Value>> = pipe.query(&mut self.connection)?;
        let now_ms = expiry_after(Duration::ZERO)?;
        let mut replies = replies.into_iter();
        for (key, value_type) in wanted {
            let value = match next(&mut replies)? {
                Err(error) if error.code() == Some("WRONGTYPE") => {
                    page.leave_out("keys that got another type meanwhile");
                    next(&mut replies)??;
                    continue;
                }
                value => value?,
            };
            let expires_at_ms = match redis::from_redis_value(next(&mut replies)??)? {
                ABSENT => {
                    page.absent.push(key.clone());
                    continue;
                }
                NO_EXPIRY => NEVER,
                time if self.has_expiry_times => time as u64,
                left_ms => now_ms.saturating_add(left_ms as u64),
            };
            match (value_type, value) {
                (ValueType::String, Value::BulkString(value)) => {
                    page.add(key, value_type, value, expires_at_ms)
                }
                (ValueType::Hash, Value::Array(fields)) if !fields.is_empty() => match packed(fields)? {
                    Ok(value) => page.add(key, value_type, value, expires_at_ms),
                    Err(reason) => page.leave_out(&reason),
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Copies all keys into a database, whose values are stored in this way, and closes it.
    pub fn copy(mut self, database: &Database, values: Values, interrupt: &Interrupt) -> Result {
        let watch = Stopwatch::start();
        let bar = item_bar("importing", self.keys()?);
        let (mut imported, mut left_out) = (0, BTreeMap::<String, u64>::new());
        let outcome = thread::scope(|scope| {
            let (pages, read) = sync_channel(PAGES_AHEAD);
            let source = &mut self;
            let reader = scope.spawn(move || read_all(source, &pages));
            for page in read {
                if interrupt.is_raised() {
                    // The reader ends when its page is refused.
                    bail!(siltstone::Error::Interrupted);
                }
                imported += write(database, values, &page.records, &mut left_out)?;
                bar.inc(page.records.len() as u64);
                page.left_out
                    .into_iter()
                    .for_each(|(reason, keys)| *left_out.entry(reason).or_default() += keys);
            }
            reader.join().map_err(|_| anyhow!("the thread that reads has panicked"))?
        });
        bar.finish_and_clear();
        database.close()?;
        complain(format_args!("{} imported{watch}", counted(imported, "record")));
        for (reason, keys) in &left_out {
            complain(format_args!("left out: {} {reason}", keys));
        }
        outcome.with_context(|| format!("cannot read {}", self.address)).map(|()| Outcome::Done)
    }
}

/// Returns an address without the password that it may have, for messages.
pub fn without_password(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, host)| host)
}

/// Returns the next reply of a pipeline.
fn next(replies: &mut impl Iterator<Item = RedisResult<Value>>) -> anyhow::Result<RedisResult<Value>> {
    replies.next().ok_or_else(|| anyhow!("the server has replied to fewer commands than it got"))
}

/// Returns the bytes of a hash, or why it is left out.
fn packed(fields: Vec<Value>) -> anyhow::Result<std::result::Result<Vec<u8>, String>> {
    let words: Vec<Vec<u8>> =
        fields.into_iter().map(redis::from_redis_value).collect::<std::result::Result<_, _>>()?;
    let fields = Fields::of_distinct(words.chunks_exact(2).map(|pair| (&pair[0][..], &pair[1][..])));
    Ok(fields.encode().map_err(|_| "hashes with more than 1 MiB".to_owned()))
}

/// Reads all pages, until they are refused.
fn read_all(source: &mut Source, pages: &SyncSender<Page>) -> anyhow::Result<()> {
    let mut position = 0;
    loop {
        let (page, next) = source.page(position)?;
        if pages.send(page).is_err() || next == 0 {
            return Ok(());
        }
        position = next;
    }
}

/// Writes records. Returns their number, without those that the form of the values cannot have.
fn write(
    database: &Database,
    values: Values,
    records: &[Copied],
    left_out: &mut BTreeMap<String, u64>,
) -> anyhow::Result<u64> {
    let (mut batch, mut written) = (Batch::new(), 0);
    for Copied { key, value_type, value, expires_at_ms } in records {
        match values.encode(*value_type, value) {
            Some(stored) => {
                batch.put_until(key, &stored, *expires_at_ms)?;
                written += 1;
            }
            None => {
                let reason = "hashes, because the database has plain values; import into a new one";
                *left_out.entry(reason.to_owned()).or_default() += 1;
            }
        }
    }
    database.write(&batch)?;
    Ok(written)
}

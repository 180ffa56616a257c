//! `siltstone import --redis`: copies the strings and the hashes of a running Redis.
//!
//! 1. SCAN returns a page of keys, and TYPE the type of each, in pipelines of some keys.
//! 2. GET reads each string, HGETALL each hash, and PEXPIRETIME when it expires, in pipelines too.
//! 3. Some megabytes of records are one batch of writes, while a second thread reads the next ones.
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

/// The number of keys that a SCAN asks for.
const SCAN_KEYS: usize = 1024;

/// The bytes of the values of a page, besides one that is longer.
const PAGE_BYTES: usize = 8 << 20;

/// The bytes of the requests for values of a pipeline, besides those for one key. All are sent before a reply is read,
/// and a server whose replies are not read may read no more requests: they are so few that the sockets hold them.
const VALUE_PIPELINE_BYTES: usize = 64 << 10;

/// The bytes of the requests for types of a pipeline. The replies are so short that the sockets hold them.
const TYPE_PIPELINE_BYTES: usize = 1 << 20;

/// The bytes of the two requests for a value, besides the key.
const REQUESTS_BYTES: usize = 64;

/// The number of values that the first pipeline asks for, when their lengths are not known.
const FIRST_KEYS: usize = 8;

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

/// What takes the pages that are read.
pub type Take<'a> = dyn FnMut(Page) -> anyhow::Result<()> + 'a;

/// What was found of some keys.
#[derive(Default)]
pub struct Page {
    pub records: Vec<Copied>,
    /// The bytes of the values.
    bytes: usize,
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
            self.bytes += value.len();
            self.records.push(Copied { key: key.to_vec(), value_type, value, expires_at_ms });
        }
    }

    /// Adds a record, by the replies that say what it is. `now_ms` is the time if the second one is that of PTTL.
    fn add_replies(
        &mut self,
        key: &[u8],
        value_type: ValueType,
        value: RedisResult<Value>,
        expiry: RedisResult<Value>,
        now_ms: Option<u64>,
    ) -> anyhow::Result<()> {
        let value = match value {
            Err(error) if error.code() == Some("WRONGTYPE") => {
                self.leave_out("keys that got another type meanwhile");
                return Ok(());
            }
            value => value?,
        };
        let expires_at_ms = match (redis::from_redis_value::<i64>(expiry?)?, now_ms) {
            (ABSENT, _) => {
                self.absent.push(key.to_vec());
                return Ok(());
            }
            (NO_EXPIRY, _) => NEVER,
            (time_ms, None) => time_ms as u64,
            (left_ms, Some(now_ms)) => now_ms.saturating_add(left_ms as u64),
        };
        let stored = match (value_type, value) {
            (ValueType::String, Value::BulkString(value)) => Ok(value),
            (ValueType::Hash, Value::Array(fields)) if !fields.is_empty() => packed(fields)?,
            // The form of RESP 3.
            (ValueType::Hash, Value::Map(pairs)) if !pairs.is_empty() => {
                packed(pairs.into_iter().flat_map(|(field, value)| [field, value]).collect())?
            }
            // It has gone since it had a type.
            (ValueType::String, Value::Nil) | (ValueType::Hash, Value::Array(_) | Value::Map(_)) => {
                self.absent.push(key.to_vec());
                return Ok(());
            }
            (value_type, _) => bail!("the reply for a {} is none of its type", value_type.name()),
        };
        match stored {
            Ok(value) => self.add(key, value_type, value, expires_at_ms),
            Err(reason) => self.leave_out(&reason),
        }
        Ok(())
    }
}

/// A Redis that is read.
pub struct Source {
    address: String,
    host: redis::ConnectionAddr,
    connection: Connection,
    /// The server has PEXPIRETIME, as from 7.0 on. PTTL, which all have, needs the time of this machine.
    has_expiry_times: bool,
    /// How many values a pipeline asks for: a server may hold all its replies.
    keys_at_once: usize,
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
        let (address, has_expiry_times) = (shown.to_owned(), probe.is_ok());
        Ok(Source { address, host, connection, has_expiry_times, keys_at_once: FIRST_KEYS })
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

    /// Passes all records of a SCAN from a position on to `take`, in pages. Returns where the next ones begin: 0 after
    /// the last one.
    pub fn scan(&mut self, position: u64, take: &mut Take<'_>) -> anyhow::Result<u64> {
        let mut scan = redis::cmd("SCAN");
        let (next, mut keys): (u64, Vec<Vec<u8>>) =
            scan.arg(position).arg("COUNT").arg(SCAN_KEYS).query(&mut self.connection)?;
        // SCAN may return a key twice.
        keys.sort_unstable();
        keys.dedup();
        self.read(&keys, take)?;
        Ok(next)
    }

    /// Reads keys, each of which is given once, and passes what was found to `take`, in pages. After an error the
    /// connection cannot be used.
    pub fn read(&mut self, keys: &[Vec<u8>], take: &mut Take<'_>) -> anyhow::Result<()> {
        let mut page = Page::default();
        for keys in type_pipelines(keys) {
            let wanted = self.with_values(keys, &mut page)?;
            let mut rest = &wanted[..];
            while !rest.is_empty() {
                let some = rest.iter().map(|(key, _)| *key).take(self.keys_at_once);
                let (some, others) = rest.split_at(fitting(some, VALUE_PIPELINE_BYTES));
                self.read_values(some, &mut page, take)?;
                rest = others;
            }
        }
        take(page)
    }

    /// Returns a page of those of some keys that have no value which is copied.
    pub fn absent(&mut self, keys: &[Vec<u8>]) -> anyhow::Result<Page> {
        let mut page = Page::default();
        for keys in type_pipelines(keys) {
            self.with_values(keys, &mut page)?;
        }
        Ok(page)
    }

    /// Returns the keys that have values which are copied, with their types. The others are added to the page.
    fn with_values<'a>(
        &mut self,
        keys: &'a [Vec<u8>],
        page: &mut Page,
    ) -> anyhow::Result<Vec<(&'a [u8], ValueType)>> {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("TYPE").arg(key);
        }
        let types: Vec<String> = pipe.query(&mut self.connection)?;
        let mut wanted = Vec::new();
        for (key, found) in keys.iter().zip(&types) {
            match found.as_str() {
                "string" => wanted.push((&key[..], ValueType::String)),
                "hash" => wanted.push((&key[..], ValueType::Hash)),
                // A key that has gone since then has the type `none`.
                other => {
                    page.absent.push(key.clone());
                    if other != "none" {
                        page.leave_out(&format!("keys of the type {other}"));
                    }
                }
            }
        }
        Ok(wanted)
    }

    /// Adds the records of keys to a page. Each time it is full, it is passed to `take`.
    fn read_values(
        &mut self,
        wanted: &[(&[u8], ValueType)],
        page: &mut Page,
        take: &mut Take<'_>,
    ) -> anyhow::Result<()> {
        let mut pipe = redis::pipe();
        let expiry = if self.has_expiry_times { "PEXPIRETIME" } else { "PTTL" };
        // One command for each key: those of a node of a cluster have different slots.
        for (key, value_type) in wanted {
            pipe.cmd(if *value_type == ValueType::String { "GET" } else { "HGETALL" }).arg(*key);
            pipe.cmd(expiry).arg(*key);
        }
        // Before any of the replies: reading them may take long.
        let now_ms = if self.has_expiry_times { None } else { Some(expiry_after(Duration::ZERO)?) };
        self.connection.send_packed_command(&pipe.get_packed_pipeline())?;
        let mut bytes = 0;
        for (key, value_type) in wanted {
            // One by one: together they may be too long.
            let (value, expiry) = (self.reply()?, self.reply()?);
            bytes += value.as_ref().map_or(0, length);
            page.add_replies(key, *value_type, value, expiry, now_ms)?;
            if page.bytes >= PAGE_BYTES {
                take(std::mem::take(page))?;
            }
        }
        self.keys_at_once = keys_after(self.keys_at_once, wanted.len(), bytes);
        Ok(())
    }

    /// Returns the next reply, which may be an error of the server.
    fn reply(&mut self) -> anyhow::Result<RedisResult<Value>> {
        Ok(self.connection.recv_response()?.extract_error())
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

/// Splits keys into those of the pipelines that ask for their types.
fn type_pipelines(mut keys: &[Vec<u8>]) -> impl Iterator<Item = &[Vec<u8>]> {
    std::iter::from_fn(move || {
        let fit = fitting(keys.iter().map(Vec::as_slice), TYPE_PIPELINE_BYTES);
        let (of_one, rest) = keys.split_at(fit.min(keys.len()));
        keys = rest;
        (!of_one.is_empty()).then_some(of_one)
    })
}

/// Returns how many keys, from the first one on, a pipeline has whose requests may have some bytes: at least one.
fn fitting<'a>(keys: impl Iterator<Item = &'a [u8]>, bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fits = |key: &&[u8]| {
        bytes += 2 * key.len() + REQUESTS_BYTES;
        bytes <= bytes_max
    };
    keys.take_while(fits).count().max(1)
}

/// Returns how many values the next pipeline asks for, after one of some keys whose values had these bytes.
fn keys_after(at_once: usize, keys: usize, bytes: usize) -> usize {
    match bytes > PAGE_BYTES {
        true => (keys / 2).max(1),
        // What was not asked for yet may be longer.
        false => at_once.max((2 * keys).min(SCAN_KEYS)),
    }
}

/// Returns the bytes of the strings of a reply.
fn length(reply: &Value) -> usize {
    match reply {
        Value::BulkString(bytes) => bytes.len(),
        Value::Array(replies) => replies.iter().map(length).sum(),
        Value::Map(pairs) => pairs.iter().map(|(field, value)| length(field) + length(value)).sum(),
        _ => 0,
    }
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
        position = source.scan(position, &mut |page| {
            pages.send(page).map_err(|_| anyhow!("the records that were read are not written"))
        })?;
        if position == 0 {
            return Ok(());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_of_a_pipeline_are_few_and_each_key_is_in_one() {
        let lengths = [1, 30_000, 2, 40_000, 65_535, 3, 3];
        let keys: Vec<Vec<u8>> = lengths.iter().map(|length| vec![b'k'; *length]).collect();
        let fit = |from: usize| fitting(keys[from..].iter().map(Vec::as_slice), VALUE_PIPELINE_BYTES);
        assert_eq!([0, 3, 4, 5].map(fit), [3, 1, 1, 2]);
        let short = [&b"8 bytes."[..]; 4096];
        assert_eq!(fitting(short.into_iter(), VALUE_PIPELINE_BYTES), 819);
        let long = vec![vec![b'k'; 60_000]; 20];
        let parts: Vec<usize> = type_pipelines(&long).map(<[_]>::len).collect();
        assert_eq!(parts, [8, 8, 4]);
        assert_eq!(type_pipelines(&[]).count(), 0);
    }

    #[test]
    fn a_pipeline_asks_for_fewer_values_after_long_ones() {
        let after = |at_once, value_bytes: usize| keys_after(at_once, at_once, at_once * value_bytes);
        assert_eq!(after(8, 100), 16);
        assert_eq!(after(SCAN_KEYS, 100), SCAN_KEYS);
        assert_eq!(keys_after(512, 3, 300), 512, "the last ones of a page");
        assert_eq!(keys_after(8, 3, 300), 8);
        assert_eq!([8, 4, 2, 1].map(|at_once| after(at_once, 10 << 20)), [4, 2, 1, 1]);
        let fields = vec![(Value::BulkString(vec![b'f'; 3]), Value::BulkString(vec![b'v'; 4]))];
        assert_eq!(length(&Value::Array(vec![Value::Map(fields), Value::Nil])), 7);
    }

    #[test]
    fn replies_are_records_gone_keys_left_out_or_errors() {
        let mut page = Page::default();
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let mut add = |key: &str, value_type, value, expiry, now_ms| {
            page.add_replies(key.as_bytes(), value_type, Ok(value), Ok(Value::Int(expiry)), now_ms)
        };
        let (string, hash) = (ValueType::String, ValueType::Hash);
        add("resp2", hash, Value::Array(vec![text("f"), text("v")]), NO_EXPIRY, None).unwrap();
        add("resp3", hash, Value::Map(vec![(text("f"), text("v"))]), NO_EXPIRY, Some(1)).unwrap();
        add("time", string, text("v"), 500, None).unwrap();
        add("time left", string, text("v"), 500, Some(1000)).unwrap();
        let gone = [
            (string, text("v"), ABSENT),
            (string, Value::Nil, NO_EXPIRY),
            (hash, Value::Array(Vec::new()), NO_EXPIRY),
            (hash, Value::Map(Vec::new()), NO_EXPIRY),
        ];
        for (value_type, value, expiry) in gone {
            add("gone", value_type, value, expiry, None).unwrap();
        }
        for (value_type, value) in [(string, Value::Int(1)), (hash, text("v")), (hash, Value::Nil)] {
            assert!(add("other", value_type, value, NO_EXPIRY, None).is_err());
        }
        assert_eq!(page.absent, vec![b"gone".to_vec(); 4]);
        let expiry: Vec<u64> = page.records.iter().map(|record| record.expires_at_ms).collect();
        assert_eq!(expiry, [NEVER, NEVER, 500, 1500]);
        assert_eq!(page.records[0].value, page.records[1].value);
        assert!(page.left_out.is_empty());
    }
}

//! Metrics over HTTP, and a page that draws them.
//!
//! | path | contents |
//! |---|---|
//! | `/metrics` | counters of the server and the statistics of each database, in the text format of Prometheus |
//! | `/` | `page.html`, which reads `/metrics` every two seconds and needs no other host |
//!
//! One thread serves one request at a time, because a scraper asks every few seconds. A slow client is given up.

use crate::command::{Context, Distribution, all_commands, memcached};
use crate::store::DATABASES;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The kinds of responses.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const PAGE: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// The number of headers of a request.
const HEADERS_MAX: usize = 64;

/// How long a client may take to send its request, and how long to take the whole response.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the thread looks whether the server stops, while it waits for a client.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Serves the metrics.
pub struct MetricsServer {
    poll: Poll,
    listener: TcpListener,
    context: Arc<Context>,
    is_stopping: Arc<AtomicBool>,
}

/// Ends a metrics server.
pub struct StopMetrics {
    is_stopping: Arc<AtomicBool>,
    waker: Waker,
}

impl StopMetrics {
    /// Ends the thread.
    pub fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        // It fails only for a thread that has ended.
        let _ = self.waker.wake();
    }
}

impl MetricsServer {
    /// Serves at the socket.
    pub fn new(mut listener: TcpListener, context: Arc<Context>) -> io::Result<(MetricsServer, StopMetrics)> {
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), STOP)?;
        let is_stopping: Arc<AtomicBool> = Arc::default();
        let stop = StopMetrics { is_stopping: is_stopping.clone(), waker };
        Ok((MetricsServer { poll, listener, context, is_stopping }, stop))
    }

    /// Serves until it is stopped.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(16);
        while !self.is_stopping.load(Relaxed) {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => outcome?,
            }
            while !self.is_stopping.load(Relaxed)
                && let Ok((socket, _)) = self.listener.accept()
            {
                // A client that fails gets nothing; the next one is served.
                let _ = self.serve(TcpStream::from(socket));
            }
        }
        Ok(())
    }

    fn serve(&self, mut socket: TcpStream) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        let path = read_path(&mut socket, &Patience::begin(&self.is_stopping))?;
        let (status, kind, body): (_, _, Cow<'_, str>) = match path.as_deref() {
            Some("/metrics") => ("200 OK", METRICS, self.context.metrics().into()),
            Some("/") => ("200 OK", PAGE, include_str!("page.html").into()),
            Some(_) => ("404 Not Found", TEXT, "the metrics are at /metrics, and a page at /\n".into()),
            None => ("400 Bad Request", TEXT, "this is no request of HTTP\n".into()),
        };
        let length = body.len();
        // The page runs its own script, and reads from this server only.
        let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data:; connect-src 'self'";
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Content-Security-Policy: {policy}\r\nConnection: close\r\n\r\n"
        );
        let patience = Patience::begin(&self.is_stopping);
        let limit = |socket: &TcpStream, time| socket.set_write_timeout(Some(time));
        write(&mut socket, head.as_bytes(), &patience, limit)?;
        write(&mut socket, body.as_bytes(), &patience, limit)
    }
}

/// How long the thread waits for a client, with all its reads or writes together.
struct Patience<'a> {
    end: Instant,
    is_stopping: &'a AtomicBool,
}

impl Patience<'_> {
    fn begin(is_stopping: &AtomicBool) -> Patience<'_> {
        Patience { end: Instant::now() + PATIENCE, is_stopping }
    }

    /// Returns how long the next read or write may take.
    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() || self.is_stopping.load(Relaxed) {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(left.min(LOOK_INTERVAL)),
        }
    }
}

/// Returns the number of bytes of a read or a write; `None` if it is to be repeated, because it has taken as long as it
/// may, or was interrupted.
fn unless_late(outcome: io::Result<usize>) -> io::Result<Option<usize>> {
    let is_repeated = |error: &io::Error| {
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
    };
    match outcome {
        Err(error) if is_repeated(&error) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Writes all bytes, each part of them after `limit` has set how long it may take.
fn write<S: Write>(
    socket: &mut S,
    mut bytes: &[u8],
    patience: &Patience<'_>,
    limit: impl Fn(&S, Duration) -> io::Result<()>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        limit(socket, patience.left()?)?;
        match unless_late(socket.write(bytes))? {
            Some(0) => return Err(ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written.unwrap_or(0)..],
        }
    }
    Ok(())
}

/// Reads a request. Returns the path of a GET; `None` for anything else.
fn read_path(socket: &mut TcpStream, patience: &Patience<'_>) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    while bytes.len() < REQUEST_BYTES_MAX {
        socket.set_read_timeout(Some(patience.left()?))?;
        let Some(read) = unless_late(socket.read(&mut buffer))? else { continue };
        bytes.extend_from_slice(&buffer[..read]);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(parsed) if parsed.is_complete() => {
                let is_get = request.method == Some("GET");
                return Ok(request.path.filter(|_| is_get).map(str::to_owned));
            }
            Ok(_) if read > 0 => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

impl Context {
    /// Returns all metrics.
    fn metrics(&self) -> String {
        let counters = &self.counters;
        let mut text = String::new();
        for (name, kind, help, counter) in [
            ("connections", "gauge", "Open connections", &counters.open_connections),
            ("connections_total", "counter", "Connections that were accepted", &counters.connections),
            (
                "rejected_connections_total",
                "counter",
                "Connections above the limit",
                &counters.rejected_connections,
            ),
            (
                "evicted_connections_total",
                "counter",
                "Connections that were closed because buffers had too many bytes",
                &counters.evicted_connections,
            ),
            ("buffer_bytes", "gauge", "Bytes of the buffers of connections", &counters.buffer_bytes),
            (
                "idle_closed_total",
                "counter",
                "Connections without a request for too long",
                &counters.idle_connections,
            ),
            (
                "held_back_total",
                "counter",
                "Connections that took no replies",
                &counters.held_back_connections,
            ),
            (
                "protocol_errors_total",
                "counter",
                "Connections with bad or too large requests",
                &counters.protocol_errors,
            ),
            (
                "failed_handshakes_total",
                "counter",
                "Handshakes of TLS that ended early",
                &counters.failed_handshakes,
            ),
            (
                "late_handshakes_total",
                "counter",
                "Handshakes of TLS that took too long",
                &counters.late_handshakes,
            ),
            (
                "denied_authentications_total",
                "counter",
                "Wrong names and passwords",
                &counters.denied_authentications,
            ),
            ("denied_commands_total", "counter", "Requests with a denied command", &counters.denied_commands),
            ("denied_keys_total", "counter", "Requests with a denied key", &counters.denied_keys),
            ("denied_channels_total", "counter", "Requests with a denied channel", &counters.denied_channels),
            ("commands_total", "counter", "Commands that were executed", &counters.commands),
            ("error_replies_total", "counter", "Replies that are errors", &counters.errors),
            ("hits_total", "counter", "Keys that lookups found", &counters.hits),
            ("lookup_misses_total", "counter", "Keys that lookups did not find", &counters.misses),
            ("input_bytes_total", "counter", "Bytes of requests", &counters.input_bytes),
            ("output_bytes_total", "counter", "Bytes of replies", &counters.output_bytes),
            (
                "pushes_total",
                "counter",
                "Messages of channels and lines of monitors, by receivers",
                &counters.pushes,
            ),
            (
                "slow_receivers_total",
                "counter",
                "Subscribers and monitors that were disconnected because they took too little",
                &counters.slow_receivers,
            ),
        ] {
            add(&mut text, name, kind, help, counter.load(Relaxed));
        }
        if let Some(limit) = self.runtime.memory() {
            let help = "Memory of databases, dictionaries and buffers together";
            add(&mut text, "memory_limit_bytes", "gauge", help, limit);
        }
        self.measures_of_executions(&mut text);
        let stores = (0..DATABASES).filter_map(|number| Some((number.to_string(), self.places.get(number)?)));
        let of_stores = stores.map(|(number, store)| store.metrics(&[("database", &number)]));
        text + &joined(&of_stores.collect::<Vec<_>>())
    }

    /// Appends how long commands take, and how many requests turns have.
    fn measures_of_executions(&self, text: &mut String) {
        declare(text, TIMES, "Times of the executions that commands were part of");
        for command in all_commands() {
            let times = self.measures.times_ns(command.number);
            if times.count > 0 {
                let is_of_memcached = command.number >= memcached::COMMANDS[0].number;
                let protocol = if is_of_memcached { "memcached" } else { "redis" };
                let labels = format!("command=\"{}\",protocol=\"{protocol}\"", command.name);
                push_histogram(text, TIMES, &labels, &times, 1e9);
            }
        }
        declare(text, TURNS, "Requests that a worker executes in a turn");
        push_histogram(text, TURNS, "", &self.measures.turns(), 1.0);
    }
}

const TIMES: &str = "siltstone_server_command_seconds";
const TURNS: &str = "siltstone_server_turn_requests";

fn declare(text: &mut String, name: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
}

/// Appends a histogram, with its values divided by this number.
fn push_histogram(text: &mut String, name: &str, labels: &str, values: &Distribution, divisor: f64) {
    let separator = if labels.is_empty() { "" } else { "," };
    let with_labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    // Writing to a string does not fail.
    for (bound, count) in &values.cumulative {
        let bound = *bound as f64 / divisor;
        let _ = writeln!(text, "{name}_bucket{{{labels}{separator}le=\"{bound:?}\"}} {count}");
    }
    let _ = writeln!(text, "{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {}", values.count);
    let _ = writeln!(text, "{name}_sum{with_labels} {:?}", values.sum as f64 / divisor);
    let _ = writeln!(text, "{name}_count{with_labels} {}", values.count);
}

/// Adds a metric of the server.
fn add(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let name = format_args!("siltstone_server_{name}");
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
}

/// Joins texts of metrics: each metric is declared once, with the samples of all texts.
pub fn joined(texts: &[String]) -> String {
    let mut declared: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        if line.starts_with('#') {
            match declared.iter().position(|(other, _)| *other == line) {
                // The samples that follow are added to the last metric.
                Some(at) => {
                    let known = declared.remove(at);
                    declared.push(known);
                }
                None => declared.push((line, Vec::new())),
            }
        } else if let Some((_, samples)) = declared.last_mut() {
            samples.push(line);
        }
    }
    let lines = declared.into_iter().flat_map(|(declaration, samples)| [vec![declaration], samples].concat());
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_several_databases_are_declared_once() {
        let of = |name: &str| {
            format!(
                "# TYPE a gauge\na{{database=\"{name}\"}} 1\n# TYPE b gauge\nb{{database=\"{name}\"}} 2\n"
            )
        };
        let expected = "# TYPE a gauge\na{database=\"x\"} 1\na{database=\"y\"} 1\n\
                        # TYPE b gauge\nb{database=\"x\"} 2\nb{database=\"y\"} 2\n";
        assert_eq!(joined(&[of("x"), of("y")]), expected);
        assert_eq!(joined(&[]), "");
    }

    /// A client that takes a byte at a time, and after some of them the server stops.
    struct Dripping<'a> {
        taken: usize,
        is_stopping: &'a AtomicBool,
    }

    impl Write for Dripping<'_> {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.taken += 1;
            self.is_stopping.store(self.taken == 10, Relaxed);
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_response_that_is_taken_byte_by_byte_ends_in_time_and_with_the_server() {
        let is_stopping = AtomicBool::new(false);
        let mut slow = Dripping { taken: 0, is_stopping: &is_stopping };
        let mut patience = Patience::begin(&is_stopping);
        let limit = |_: &Dripping<'_>, time: Duration| {
            assert!(time <= LOOK_INTERVAL);
            Ok(())
        };
        let ended = write(&mut slow, &[b'x'; 100], &patience, limit);
        assert_eq!((ended.unwrap_err().kind(), slow.taken), (ErrorKind::TimedOut, 10));
        is_stopping.store(false, Relaxed);
        patience.end = Instant::now();
        let ended = write(&mut slow, &[b'x'; 100], &patience, limit);
        assert_eq!((ended.unwrap_err().kind(), slow.taken), (ErrorKind::TimedOut, 10));
    }

    #[test]
    fn a_histogram_has_cumulative_buckets_a_sum_and_a_count() {
        let values = Distribution { cumulative: vec![(1024, 2), (2048, 3)], count: 4, sum: 10_000 };
        let mut text = String::new();
        push_histogram(&mut text, "a", "b=\"c\"", &values, 1e3);
        let expected = "a_bucket{b=\"c\",le=\"1.024\"} 2\na_bucket{b=\"c\",le=\"2.048\"} 3\n\
                        a_bucket{b=\"c\",le=\"+Inf\"} 4\na_sum{b=\"c\"} 10.0\na_count{b=\"c\"} 4\n";
        assert_eq!(text, expected);
    }
}

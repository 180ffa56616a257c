//! A load generator: one thread with several connections, each with some requests in flight.
//!
//! redis-benchmark has no memcached, and prints no longest time. This one is for the rows that need them.

use anyhow::{Context, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a server may take for a reply.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is sent, and how a reply ends.
pub struct Load<'a> {
    /// Makes a request of a number.
    pub request: &'a dyn Fn(u64) -> Vec<u8>,
    /// Returns whether a line, without its end, is the last one of a reply.
    pub ends: fn(&[u8]) -> bool,
    pub connections: usize,
    /// The requests of a connection that are in flight at once.
    pub pipeline: usize,
    /// The number of requests in total.
    pub requests: u64,
}

/// The times of a load.
pub struct Times {
    pub per_second: f64,
    /// The times of all pipelines, in order.
    sorted: Vec<Duration>,
}

impl Times {
    /// Returns the time that a part of the pipelines did not exceed, in milliseconds.
    pub fn quantile_ms(&self, part: f64) -> f64 {
        let at = (part * self.sorted.len() as f64) as usize;
        let time = self.sorted.get(at.min(self.sorted.len().saturating_sub(1)));
        time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

struct Connection {
    socket: TcpStream,
    output: Vec<u8>,
    /// The part of a line that has arrived.
    line: Vec<u8>,
    /// The replies that have not arrived.
    missing: usize,
    sent_at: Instant,
}

/// Sends all requests, and returns how long they took.
pub fn run(address: SocketAddr, load: &Load<'_>) -> anyhow::Result<Times> {
    let mut poll = Poll::new()?;
    let mut connections = Vec::new();
    for number in 0..load.connections {
        let mut socket = TcpStream::from_std({
            let socket = std::net::TcpStream::connect(address).context("cannot connect")?;
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            socket
        });
        poll.registry().register(&mut socket, Token(number), Interest::READABLE | Interest::WRITABLE)?;
        let (output, line, missing, sent_at) = (Vec::new(), Vec::new(), 0, Instant::now());
        connections.push(Connection { socket, output, line, missing, sent_at });
    }
    let (mut next, mut done, mut sorted) = (0, 0, Vec::new());
    let start = Instant::now();
    for connection in &mut connections {
        connection.begin(load, &mut next)?;
    }
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 64 << 10];
    while done < load.requests {
        poll.poll(&mut events, Some(PATIENCE))?;
        if events.is_empty() {
            bail!("the server has not replied for {} s", PATIENCE.as_secs());
        }
        for event in &events {
            let connection = &mut connections[event.token().0];
            connection.flush()?;
            done += connection.read(load.ends, &mut buffer)?;
            if connection.missing == 0 && next < load.requests {
                sorted.push(connection.sent_at.elapsed());
                connection.begin(load, &mut next)?;
            }
        }
    }
    let per_second = done as f64 / start.elapsed().as_secs_f64();
    sorted.sort_unstable();
    Ok(Times { per_second, sorted })
}

impl Connection {
    /// Sends the next requests.
    fn begin(&mut self, load: &Load<'_>, next: &mut u64) -> anyhow::Result<()> {
        let requests = (load.pipeline as u64).min(load.requests - *next);
        for number in *next..*next + requests {
            self.output.extend((load.request)(number));
        }
        *next += requests;
        self.missing = requests as usize;
        self.sent_at = Instant::now();
        self.flush()
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        while !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(bytes) => drop(self.output.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what has arrived. Returns the number of replies that have ended.
    fn read(&mut self, ends: fn(&[u8]) -> bool, buffer: &mut [u8]) -> anyhow::Result<u64> {
        let mut ended = 0;
        loop {
            let bytes = match self.socket.read(buffer) {
                Ok(0) => bail!("the server has closed a connection"),
                Ok(bytes) => &buffer[..bytes],
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(ended),
                Err(error) => return Err(error.into()),
            };
            for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                self.line.extend_from_slice(part);
                if self.line.ends_with(b"\n") {
                    let line = self.line.strip_suffix(b"\r\n").unwrap_or(&self.line);
                    if ends(line) && self.missing > 0 {
                        self.missing -= 1;
                        ended += 1;
                    }
                    self.line.clear();
                }
            }
        }
    }
}

//! The servers that are measured, as processes.

use anyhow::{Context, anyhow};
use serde::Serialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Redis,
    Memcached,
    Mica,
    Silt,
}

impl Side {
    pub const ALL: [Side; 4] = [Side::Redis, Side::Memcached, Side::Mica, Side::Silt];

    pub fn name(self) -> &'static str {
        match self {
            Side::Redis => "redis",
            Side::Memcached => "memcached",
            Side::Mica => "mica",
            Side::Silt => "silt",
        }
    }
}

/// A server that is ended when it is dropped.
pub struct Running {
    child: Child,
    /// The address of Redis's protocol, if it is served.
    pub redis: Option<SocketAddr>,
    /// That of memcached's.
    pub memcached: Option<SocketAddr>,
}

impl Running {
    /// Starts a server on an empty directory.
    pub fn start(side: Side, directory: &Path, options: &[&str]) -> anyhow::Result<Running> {
        std::fs::create_dir_all(directory).context("cannot create a directory")?;
        let (redis, memcached) = (free_address()?, free_address()?);
        match side {
            Side::Redis => {
                let mut command = Command::new("redis-server");
                command.args(["--port", &redis.port().to_string(), "--save", "", "--dir"]).arg(directory);
                Running::wait(command, Some(redis), None)
            }
            Side::Memcached => {
                let mut command = Command::new("memcached");
                command.args(["-l", "127.0.0.1", "-p", &memcached.port().to_string(), "-m", "4096"]);
                // It refuses to run as root without a user.
                Running::wait_memcached(command.args(["-u", "nobody", "-t", "4"]), memcached)
            }
            Side::Mica | Side::Silt => {
                let databases = directory.join("databases");
                let mut all = vec!["--engine", side.name(), "--databases", "1"];
                if side == Side::Mica && options.is_empty() {
                    // Keys of 16 bytes, values of 8, and the byte of the type.
                    all.extend(["--set", "record_bytes=25"]);
                }
                all.extend_from_slice(options);
                Running::serve(&[databases.to_str().context("the directory is no text")?], &all)
            }
        }
    }

    /// Starts this program.
    pub fn serve(places: &[&str], options: &[&str]) -> anyhow::Result<Running> {
        let (redis, memcached) = (free_address()?, free_address()?);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", "data"]).args(places).args(["--redis", &redis.to_string()]);
        command.args(["--memcached", &memcached.to_string()]).args(options);
        Running::wait(command, Some(redis), Some(memcached))
    }

    fn wait_memcached(command: &mut Command, address: SocketAddr) -> anyhow::Result<Running> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Running {
            child: child.context("cannot start memcached")?,
            redis: None,
            memcached: Some(address),
        };
        wait_until(|| TcpStream::connect(address).is_ok())?;
        Ok(server)
    }

    fn wait(
        mut command: Command,
        redis: Option<SocketAddr>,
        memcached: Option<SocketAddr>,
    ) -> anyhow::Result<Running> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Running { child: child.context("cannot start a server")?, redis, memcached };
        wait_until(|| server.ask("PING").is_ok())?;
        Ok(server)
    }

    /// Returns the reply to an inline command, without the line of its length.
    pub fn ask(&self, command: &str) -> anyhow::Result<String> {
        let mut socket = TcpStream::connect(self.redis.context("there is no Redis")?)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(format!("{command}\r\n").as_bytes())?;
        let mut input = BufReader::new(socket);
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some(length) = line.strip_prefix('$').and_then(|length| length.trim().parse::<usize>().ok())
        else {
            return Ok(line);
        };
        let mut text = vec![0; length];
        input.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns a number of INFO.
    pub fn info(&self, section: &str, name: &str) -> anyhow::Result<f64> {
        let text = self.ask(&format!("INFO {section}"))?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| anyhow!("INFO has no {name}"))
    }

    /// Returns the resident memory of the process without the pages of files, which the system takes back.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // As by kill -9.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns an address of this machine that no server has.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Waits for a server that starts.
fn wait_until(is_ready: impl Fn() -> bool) -> anyhow::Result<()> {
    let start = Instant::now();
    while !is_ready() {
        if start.elapsed() > PATIENCE {
            return Err(anyhow!("a server has not started within {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

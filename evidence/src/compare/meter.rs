//! The work of this process and its device, as the kernel counts it.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The counts at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    at: Instant,
    user_s: f64,
    system_s: f64,
    process: ProcessBytes,
    device: DeviceCounts,
}

#[derive(Debug, Clone, Copy, Default)]
struct ProcessBytes {
    read: u64,
    written: u64,
    cancelled: u64,
    write_calls: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct DeviceCounts {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
}

/// The work between two moments.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Spent {
    /// The elapsed time, in seconds.
    pub seconds: f64,
    /// CPU time of the process in user mode, in seconds.
    pub cpu_user_s: f64,
    /// CPU time of the process in the kernel, in seconds.
    pub cpu_system_s: f64,
    /// Bytes that the device read for the process.
    pub read_bytes: u64,
    /// Bytes that the process wrote to the device or left dirty in the page cache.
    pub write_bytes: u64,
    /// The part of these bytes that belonged to files removed before they reached the device.
    pub cancelled_bytes: u64,
    /// System calls that wrote.
    pub write_calls: u64,
    /// Reads of the device, by all processes.
    pub device_reads: u64,
    /// Bytes of these reads.
    pub device_read_bytes: u64,
    /// Writes of the device, by all processes.
    pub device_writes: u64,
    /// Bytes of these writes.
    pub device_write_bytes: u64,
}

impl Spent {
    /// Returns the total CPU time, in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.cpu_user_s + self.cpu_system_s
    }
}

impl Reading {
    /// Returns the counts of the process.
    pub fn of_process() -> Result<Reading> {
        let (user_s, system_s) = cpu_seconds();
        let process = process_bytes()?;
        Ok(Reading { at: Instant::now(), user_s, system_s, process, device: DeviceCounts::default() })
    }

    /// Returns the counts of the process and of the device.
    pub fn of_process_and(device: &Device) -> Result<Reading> {
        Ok(Reading { device: device.counts()?, ..Reading::of_process()? })
    }

    /// Returns the work since an earlier moment.
    pub fn since(&self, earlier: &Reading) -> Spent {
        let (now, then) = (&self.process, &earlier.process);
        let (device, device_then) = (&self.device, &earlier.device);
        Spent {
            seconds: (self.at - earlier.at).as_secs_f64(),
            cpu_user_s: self.user_s - earlier.user_s,
            cpu_system_s: self.system_s - earlier.system_s,
            read_bytes: now.read - then.read,
            write_bytes: now.written - then.written,
            cancelled_bytes: now.cancelled - then.cancelled,
            write_calls: now.write_calls - then.write_calls,
            device_reads: device.reads - device_then.reads,
            device_read_bytes: device.read_bytes - device_then.read_bytes,
            device_writes: device.writes - device_then.writes,
            device_write_bytes: device.write_bytes - device_then.write_bytes,
        }
    }
}

fn cpu_seconds() -> (f64, f64) {
    // SAFETY: the structure consists of plain numbers, and the call fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// Parses lines of a name, a colon and a number.
fn numbers(path: &str) -> Result<HashMap<String, u64>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        Some((name.to_owned(), rest.split_whitespace().next()?.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

fn process_bytes() -> Result<ProcessBytes> {
    let numbers = numbers("/proc/self/io")?;
    let of = |name: &str| numbers.get(name).copied().unwrap_or(0);
    Ok(ProcessBytes {
        read: of("read_bytes"),
        written: of("write_bytes"),
        cancelled: of("cancelled_write_bytes"),
        write_calls: of("syscw"),
    })
}

/// The memory of this process, in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Memory {
    /// All resident memory.
    pub resident_bytes: u64,
    /// The part without a file: heap and stacks.
    pub anonymous_bytes: u64,
}

impl Memory {
    /// Returns the present memory.
    pub fn now() -> Result<Memory> {
        let numbers = numbers("/proc/self/status")?;
        let of = |name: &str| numbers.get(name).copied().unwrap_or(0) * 1024;
        Ok(Memory { resident_bytes: of("VmRSS"), anonymous_bytes: of("RssAnon") })
    }
}

/// The block device of a directory.
pub struct Device {
    major: u64,
    minor: u64,
}

impl Device {
    /// Returns the device of the file system that contains `path`.
    pub fn under(path: &Path) -> Result<Device> {
        let number = std::fs::metadata(path)?.st_dev();
        Ok(Device { major: u64::from(libc::major(number)), minor: u64::from(libc::minor(number)) })
    }

    fn counts(&self) -> Result<DeviceCounts> {
        let text = std::fs::read_to_string("/proc/diskstats").context("cannot read /proc/diskstats")?;
        for line in text.lines() {
            let fields: Vec<u64> = line
                .split_whitespace()
                .enumerate()
                .filter(|(at, _)| *at != 2)
                .flat_map(|(_, field)| field.parse())
                .collect();
            if let [major, minor, reads, _, sectors_read, _, writes, _, sectors_written, ..] = fields[..]
                && (major, minor) == (self.major, self.minor)
            {
                let (read_bytes, write_bytes) = (512 * sectors_read, 512 * sectors_written);
                return Ok(DeviceCounts { reads, read_bytes, writes, write_bytes });
            }
        }
        Ok(DeviceCounts::default())
    }
}

/// Returns all files below a directory.
pub fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in
        std::fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?
    {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())?),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    Ok(files)
}

/// Returns the device space of all files below a directory, in bytes.
pub fn disk_bytes(directory: &Path) -> Result<u64> {
    let bytes = |path: PathBuf| match std::fs::metadata(path) {
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    Ok(files_below(directory)?.into_iter().map(bytes).sum())
}

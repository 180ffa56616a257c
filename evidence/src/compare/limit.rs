//! Limits the memory of one process, page cache included: a control group below that of this process.
//!
//! A process is charged for what it touches after it has joined, so a child that joins late is charged for the store,
//! but not for its code or the benchmark's own tables.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file names of a version of control groups.
struct Names {
    limit: &'static str,
    peak: &'static str,
}

const FIRST: Names = Names { limit: "memory.limit_in_bytes", peak: "memory.max_usage_in_bytes" };
const SECOND: Names = Names { limit: "memory.max", peak: "memory.peak" };

/// A control group with a limit, removed when it is dropped.
pub struct Group {
    path: PathBuf,
    names: &'static Names,
}

/// What a child has to know to join.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Membership {
    path: PathBuf,
}

impl Group {
    /// Makes a group whose processes together may use this many bytes.
    pub fn with_limit(bytes: u64) -> Result<Group> {
        let (own, names) = own_group()?;
        let path = own.join(format!("siltstone-evidence-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let group = Group { path, names };
        write(&group.path.join(names.limit), bytes)?;
        Ok(group)
    }

    /// Returns the description that a member needs.
    pub fn membership(&self) -> Membership {
        Membership { path: self.path.clone() }
    }

    /// Returns the peak usage of the group, in bytes.
    pub fn peak_bytes(&self) -> Option<u64> {
        std::fs::read_to_string(self.path.join(self.names.peak)).ok()?.trim().parse().ok()
    }
}

impl Membership {
    /// Moves this process to the group.
    pub fn join(&self) -> Result<()> {
        write(&self.path.join("cgroup.procs"), u64::from(std::process::id()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group whose process has just ended may still be busy. It then remains, empty.
        let _ = std::fs::remove_dir(&self.path);
    }
}

fn write(path: &Path, number: u64) -> Result<()> {
    std::fs::write(path, number.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the group of this process, where memory is limited.
fn own_group() -> Result<(PathBuf, &'static Names)> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").context("this system has no control groups")?;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let relative = path.trim_start_matches('/');
        if controllers.split(',').any(|controller| controller == "memory") {
            return Ok((Path::new("/sys/fs/cgroup/memory").join(relative), &FIRST));
        }
        let unified = Path::new("/sys/fs/cgroup").join(relative);
        if controllers.is_empty() && unified.join(SECOND.limit).exists() {
            return Ok((unified, &SECOND));
        }
    }
    bail!("no control group of this system limits memory")
}

//! The destination of a command's results: standard output, or a file that gets its name only once it is complete.

use crate::interrupt::{Interrupt, RemovedAtExit};
use crate::notation::Notation;
use anyhow::{Context, bail};
use siltstone_bench::chart::{self, Chart};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The maximum number of symbolic links that are followed, as in the system.
const LINKS_MAX: usize = 40;

/// Calls `write` with `output`, or with standard output if there is none.
///
/// A plain file gets its name when it is complete and synced, and replaces an existing one; errors, Ctrl-C and SIGTERM
/// leave nothing behind. Symbolic links are followed. Devices, pipes and /dev/stdout are written to directly and remain
/// what they are.
pub fn deliver<T>(
    output: Option<&Path>,
    is_binary: bool,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Some(path) = output else {
        if is_binary && stdout().is_terminal() {
            bail!(
                "the output is binary and standard output is a terminal; use --output FILE, a pipe, or --format jsonl"
            );
        }
        return write(&mut stdout().lock());
    };
    let written = match target(path) {
        Ok(Target::Replaced(path)) => replace(&path, write),
        Ok(Target::Written(mut file)) => write(&mut file),
        Ok(Target::StandardOutput) => write(&mut stdout().lock()),
        Err(error) => Err(error.into()),
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes charts to a file, as an HTML page with the text or as SVG, whichever its name says.
pub fn deliver_charts(path: &Path, title: &str, text: &str, charts: &[Chart]) -> anyhow::Result<()> {
    let document = chart::document(path, title, text, charts)?;
    deliver(Some(path), false, |out| Ok(out.write_all(document.as_bytes())?))
}

/// Prints a value, and a newline on a terminal and after every notation except the bytes themselves.
pub fn print_value(value: &[u8], notation: Notation) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(&notation.bytes(value))?;
    if out.is_terminal() || notation != Notation::Plain {
        out.write_all(b"\n")?;
    }
    out.flush()
}

enum Target {
    /// A plain file, or nothing yet: the output is renamed to it.
    Replaced(PathBuf),
    /// Something that keeps its identity: a device, a pipe, an open file of a process.
    Written(File),
    /// Standard output under another name. Opening it by that name would write from its beginning.
    StandardOutput,
}

/// Returns what is at a path, after following symbolic links.
fn target(path: &Path) -> io::Result<Target> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if is_of_the_system(&fs::canonicalize(&parent)?) {
            return through(&path);
        }
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => path = parent.join(fs::read_link(&path)?),
            Ok(metadata) if metadata.is_file() => return Ok(Target::Replaced(path)),
            Ok(_) => return through(&path),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Target::Replaced(path)),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns whether nothing in this directory may be replaced: devices, and open files of processes, which can be links
/// to plain files.
fn is_of_the_system(directory: &Path) -> bool {
    [Path::new("/dev"), Path::new("/dev/fd")].contains(&directory) || directory.starts_with("/proc")
}

fn through(path: &Path) -> io::Result<Target> {
    let own = File::from(stdout().as_fd().try_clone_to_owned()?).metadata()?;
    let found = fs::metadata(path)?;
    if (own.dev(), own.ino()) == (found.dev(), found.ino()) {
        return Ok(Target::StandardOutput);
    }
    Ok(Target::Written(OpenOptions::new().append(true).open(path)?))
}

fn replace<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let interrupt = Interrupt::listen()?;
    let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let prefix = path.file_name().context("the path has no file name")?.to_string_lossy();
    let partial = tempfile::Builder::new()
        .prefix(&format!("{prefix}."))
        .suffix(".partial")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(parent)?;
    // Registered until the file has its name: a second signal ends the process without unwinding.
    let removed = RemovedAtExit::new(partial.path());
    let mut file = Stoppable { file: partial, interrupt };
    let value = write(&mut file)?;
    let partial = file.file;
    if let Ok(replaced) = fs::metadata(path) {
        partial.as_file().set_permissions(replaced.permissions())?;
    }
    partial.as_file().sync_all()?;
    partial.persist(path).map_err(|error| error.error)?;
    drop(removed);
    // The name survives a power failure only once the directory is synced.
    File::open(parent)?.sync_all()?;
    Ok(value)
}

/// A file whose writing is ended by a signal.
struct Stoppable {
    file: NamedTempFile,
    interrupt: Interrupt,
}

impl Write for Stoppable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.interrupt.check()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

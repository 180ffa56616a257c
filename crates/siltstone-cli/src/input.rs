//! Sources of keys and values: arguments, files, standard input.

use crate::notation::{Notation, NotationArgs};
use crate::outcome::wrong_usage;
use crate::stream::{self, KEY_LINE_BYTES_MAX, Lines};
use anyhow::{Context, bail};
use clap::Args;
use siltstone::key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX, check_key};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The number of keys of a file that are used in one call of the library.
const KEYS_PER_BATCH: usize = 4096;

/// The notation of keys and values in arguments.
#[derive(Debug, Clone, Copy, Args)]
pub struct ArgumentArgs {
    #[command(flatten)]
    pub notation: NotationArgs,
    /// Use keys and values literally, even if they begin with `@` or are `-`; for scripts
    #[arg(long)]
    literal: bool,
}

impl ArgumentArgs {
    /// Returns the bytes of an argument.
    ///
    /// # Errors
    /// See [`argument`].
    pub fn argument(&self, text: &OsStr) -> anyhow::Result<Vec<u8>> {
        match self.literal {
            true => typed(text.as_bytes(), self.notation.typed()),
            false => argument(text, self.notation.typed()),
        }
    }
}

/// Returns the bytes of an argument.
///
/// # Errors
/// Wrong usage if the text is not valid in the notation; I/O errors if the argument names a file.
fn argument(argument: &OsStr, notation: Notation) -> anyhow::Result<Vec<u8>> {
    match argument.as_bytes() {
        b"-" => notation.parse(&read_within(stdin().lock(), "standard input")?),
        [b'@', typed @ ..] if typed.first() == Some(&b'@') => self::typed(typed, notation),
        [b'@', path @ ..] => notation.parse(&file(Path::new(OsStr::from_bytes(path)))?),
        bytes => typed(bytes, notation),
    }
}

/// Returns the bytes of a literal argument.
fn typed(text: &[u8], notation: Notation) -> anyhow::Result<Vec<u8>> {
    notation.parse(text).map_err(wrong_usage)
}

/// Reads a file; `-` is standard input.
pub fn file(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        return read_within(stdin().lock(), "standard input");
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    read_within(file, &name)
}

/// Calls `take` with the keys of a file, one per line, `KEYS_PER_BATCH` at a time; `-` is standard input.
pub fn for_each_batch_of_keys(
    path: &Path,
    notation: Notation,
    mut take: impl FnMut(&[Vec<u8>]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut keys = Vec::with_capacity(KEYS_PER_BATCH);
    for_each_key(path, notation, |key| {
        keys.push(key);
        if keys.len() == KEYS_PER_BATCH {
            take(&keys)?;
            keys.clear();
        }
        Ok(())
    })?;
    if keys.is_empty() { Ok(()) } else { take(&keys) }
}

/// Calls `take` with the keys of a file, one per line; `-` is standard input. The file may be compressed, and its lines
/// may end with a carriage return. Empty lines are skipped.
///
/// # Errors
/// Name the file, and the line of a key that is too long or not in the notation.
pub fn for_each_key(
    path: &Path,
    notation: Notation,
    mut take: impl FnMut(Vec<u8>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let named = || format!("cannot use the keys in {}", path.display());
    let source: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(stdin()),
        _ => Box::new(File::open(path).with_context(named)?),
    };
    let source = stream::text(BufReader::new(stream::decompressed(source).with_context(named)?));
    let mut lines = Lines::new(source.with_context(named)?, KEY_LINE_BYTES_MAX);
    loop {
        let Some(line) = lines.next().with_context(named)? else { return Ok(()) };
        let key = match line {
            Ok([]) => continue,
            line => line.and_then(|line| notation.parse(line)).and_then(|key| {
                check_key(&key)?;
                Ok(key)
            }),
        };
        let at = || format!("{}: line {}", named(), lines.number());
        take(key.with_context(at)?).with_context(at)?;
    }
}

/// Reads to the end. Input longer than any value is refused before all of it is in memory.
fn read_within(source: impl Read, name: &str) -> anyhow::Result<Vec<u8>> {
    let limit = 2 * VALUE_LENGTH_MAX.max(KEY_LENGTH_MAX) as u64;
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > limit {
        bail!("{name} is longer than the maximum of a value (256 MiB); split it over several keys");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_arguments_are_literal_unless_they_name_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("value");
        std::fs::write(&path, b"6869\n").unwrap();
        let named = format!("@{}", path.display());
        let parse = |text: &str, notation| argument(OsStr::new(text), notation).unwrap();
        assert_eq!(parse("plain", Notation::Plain), b"plain");
        assert_eq!(parse("@@plain", Notation::Plain), b"@plain");
        assert_eq!(parse(&named, Notation::Plain), b"6869\n");
        assert_eq!(parse(&named, Notation::Hex), b"hi");
        let missing = argument(OsStr::new("@/no/such/file"), Notation::Plain).unwrap_err();
        assert!(format!("{missing:#}").contains("/no/such/file"));
    }
}

//! Where keys and values come from: arguments, files, standard input.

use crate::notation::Notation;
use anyhow::{Context, bail};
use siltstone::key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How arguments may be written, for the help texts.
pub const ARGUMENT_HELP: &str = "\
A key or a value is taken as it is typed; `@FILE` means the contents of a file, `-` standard input, `@@…` a text that \
begins with one @. With --hex or --escaped what is typed or read is decoded first.";

/// The bytes that an argument stands for.
pub fn argument(argument: &OsStr, notation: Notation) -> anyhow::Result<Vec<u8>> {
    let bytes = argument.as_bytes();
    let read = match bytes {
        b"-" => read_within(stdin().lock(), "standard input")?,
        [b'@', b'@', ..] => bytes[1..].to_vec(),
        [b'@', path @ ..] => file(Path::new(OsStr::from_bytes(path)))?,
        _ => bytes.to_vec(),
    };
    notation.parse(&read)
}

/// The contents of a file, `-` being standard input.
pub fn file(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        return read_within(stdin().lock(), "standard input");
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    read_within(file, &name)
}

/// Shows `take` each line of a file, `-` being standard input, without its end. A line is no longer than any key typed
/// in hex.
pub fn for_each_line(path: &Path, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let source: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(stdin()),
        _ => Box::new(File::open(path).with_context(|| format!("cannot open {}", path.display()))?),
    };
    let mut source = BufReader::new(source);
    let limit = 4 * KEY_LENGTH_MAX as u64 + 1;
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        if (&mut source).take(limit).read_until(b'\n', &mut line).context("cannot read it")? == 0 {
            break;
        }
        if line.len() as u64 == limit {
            bail!("line {number} is longer than any key may be");
        }
        let end = line.strip_suffix(b"\n").unwrap_or(&line);
        take(end).with_context(|| format!("line {number}"))?;
    }
    Ok(())
}

/// Reads to the end; refuses what is longer than any value may be before it is all in memory.
fn read_within(source: impl Read, name: &str) -> anyhow::Result<Vec<u8>> {
    let limit = 2 * VALUE_LENGTH_MAX.max(KEY_LENGTH_MAX) as u64;
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > limit {
        bail!("{name} is longer than any value may be (256 MiB): split it over several keys");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_literal_unless_they_name_a_file() {
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

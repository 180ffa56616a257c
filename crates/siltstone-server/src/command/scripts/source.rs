//! A script: its text, its SHA-1, and what its first line says.

use crate::failure::Failure;
use sha1::{Digest as _, Sha1};

/// The SHA-1 of a script's text.
pub type Digest = [u8; 20];

/// The most bytes of a script.
const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// A script.
#[derive(Debug)]
pub struct Script {
    /// The SHA-1 of the text.
    pub digest: Digest,
    text: Box<[u8]>,
    /// Where the code begins: after a first line with flags.
    code_start: usize,
    /// Whether it has such a line.
    pub has_flags: bool,
    /// The flag `no-writes`.
    pub only_reads: bool,
}

/// The flags that Redis knows. Only the first has an effect: this server has no replicas, no cluster, and no limit of
/// memory for values.
const FLAGS: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

impl Script {
    /// Takes a text, and reads its first line if that has flags: `#!lua flags=no-writes`.
    ///
    /// # Errors
    /// Redis's errors for such a line; a text that is too long.
    pub fn parse(text: &[u8]) -> Result<Script, Failure> {
        if text.len() > SCRIPT_BYTES_MAX {
            return Err(Failure::from(format!(
                "ERR the script has {} bytes; use at most {SCRIPT_BYTES_MAX}, and pass data as arguments",
                text.len()
            )));
        }
        let mut script = Script {
            digest: digest_of(text),
            text: text.into(),
            code_start: 0,
            has_flags: text.starts_with(b"#!"),
            only_reads: false,
        };
        if script.has_flags {
            let end = text.iter().position(|byte| *byte == b'\n');
            // The line break stays, so that lines keep their numbers.
            script.code_start = end.ok_or(Failure::new("ERR Invalid script shebang"))?;
            script.read_flags(&String::from_utf8_lossy(&text[..script.code_start]))?;
        }
        Ok(script)
    }

    fn read_flags(&mut self, line: &str) -> Result<(), Failure> {
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(Failure::from(format!("ERR Unexpected engine in script shebang: {engine}")));
        }
        for word in words {
            let unknown = || Failure::from(format!("ERR Unknown lua shebang option: {word}"));
            for flag in word.strip_prefix("flags=").ok_or_else(unknown)?.split(',') {
                if !FLAGS.contains(&flag) {
                    return Err(Failure::from(format!("ERR Unexpected flag in script shebang: {flag}")));
                }
                self.only_reads |= flag == FLAGS[0];
            }
        }
        Ok(())
    }

    /// Returns the code of Lua.
    pub fn code(&self) -> &[u8] {
        &self.text[self.code_start..]
    }

    /// Returns the memory that it takes, in bytes, about.
    pub fn bytes(&self) -> usize {
        self.text.len() + size_of::<Script>() + 2 * size_of::<Digest>()
    }
}

/// Returns the SHA-1 of a text.
pub fn digest_of(text: &[u8]) -> Digest {
    Sha1::digest(text).into()
}

/// Returns a digest in hexadecimal.
pub fn hexadecimal(digest: &Digest) -> String {
    let mut text = String::with_capacity(2 * digest.len());
    for byte in digest {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or_default());
        }
    }
    text
}

/// Returns the digest that a word names, in hexadecimal of any case.
pub fn named(word: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    if word.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(word.chunks_exact(2)) {
        let digit = |letter: u8| char::from(letter).to_digit(16);
        *byte = (16 * digit(pair[0])? + digit(pair[1])?) as u8;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_named_in_any_case() {
        let digest = digest_of(b"return 1");
        let text = hexadecimal(&digest);
        assert_eq!(text, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(named(text.as_bytes()), Some(digest));
        assert_eq!(named(text.to_uppercase().as_bytes()), Some(digest));
        assert_eq!(named(&text.as_bytes()[1..]), None);
        assert_eq!(named(&[b'x'; 40]), None);
    }

    #[test]
    fn the_first_line_has_flags() {
        let script = Script::parse(b"#!lua flags=allow-stale,no-writes\nreturn 1").unwrap();
        assert!(script.has_flags && script.only_reads);
        assert_eq!(script.code(), b"\nreturn 1");
        let plain = Script::parse(b"return 1").unwrap();
        assert!(!plain.has_flags && !plain.only_reads);
        for (text, expected) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!python\n", "ERR Unexpected engine in script shebang: #!python"),
            ("#!lua flags=bad\n", "ERR Unexpected flag in script shebang: bad"),
            ("#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
        ] {
            assert_eq!(Script::parse(text.as_bytes()).unwrap_err().message(), expected);
        }
    }
}

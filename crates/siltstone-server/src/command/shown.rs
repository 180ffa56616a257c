//! The words of commands as the slow log and monitors show them: without passwords.

use super::arguments::is;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// What is shown in place of a secret.
const HIDDEN: &[u8] = b"(redacted)";

/// The most words of an entry of the slow log, and bytes of a word.
const WORDS_MAX: usize = 32;
const WORD_BYTES_MAX: usize = 128;

/// Returns the words of a command, with others in place of names and passwords of users.
pub fn without_secrets<'a>(words: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let name = words.first().copied().unwrap_or_default();
    let mut shown = words.to_vec();
    let hidden = if is(name, "AUTH") {
        1..words.len()
    } else if is(name, "ACL") {
        2..words.len()
    } else if is(name, "HELLO") {
        hide_passwords_of_hello(&mut shown);
        0..0
    } else {
        0..0
    };
    shown.iter_mut().enumerate().filter(|(at, _)| hidden.contains(at)).for_each(|(_, word)| *word = HIDDEN);
    shown
}

/// Hides what follows each AUTH, and all that is no option.
fn hide_passwords_of_hello(words: &mut [&[u8]]) {
    let mut at = 2;
    while let Some(option) = words.get(at) {
        // How many words are shown, and how many after them are not.
        let (shown, hidden) = match *option {
            option if is(option, "AUTH") => (1, 2),
            option if is(option, "SETNAME") => (2, 0),
            _ => (0, words.len()),
        };
        words.iter_mut().skip(at + shown).take(hidden).for_each(|word| *word = HIDDEN);
        at += shown + hidden;
    }
}

/// Returns the words of a command for the slow log: without secrets, and not more and not longer than in Redis.
pub fn shortened(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if words.len() > WORDS_MAX { WORDS_MAX - 1 } else { words.len() };
    let shorten = |word: &[u8]| match word.len().checked_sub(WORD_BYTES_MAX) {
        None | Some(0) => word.to_vec(),
        Some(more) => [&word[..WORD_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    };
    let mut shown: Vec<Vec<u8>> = without_secrets(words)[..kept].iter().map(|word| shorten(word)).collect();
    if words.len() > kept {
        shown.push(format!("... ({} more arguments)", words.len() - kept).into_bytes());
    }
    shown
}

/// Appends the line of a command for monitors.
pub fn push_monitor_line(
    out: &mut Vec<u8>,
    now: Duration,
    database: usize,
    peer: Option<SocketAddr>,
    words: &[&[u8]],
) {
    let mut line = format!("+{}.{:06} [{database} ", now.as_secs(), now.subsec_micros());
    // Writing to a string does not fail.
    let _ = match peer {
        Some(peer) => write!(line, "{peer}]"),
        None => write!(line, "unix:]"),
    };
    for word in without_secrets(words) {
        line.push_str(" \"");
        word.iter().for_each(|byte| push_escaped(&mut line, *byte));
        line.push('"');
    }
    line.push_str("\r\n");
    out.extend_from_slice(line.as_bytes());
}

fn push_escaped(line: &mut String, byte: u8) {
    match byte {
        b'\\' | b'"' => line.extend(['\\', char::from(byte)]),
        b'\n' => line.push_str("\\n"),
        b'\r' => line.push_str("\\r"),
        b'\t' => line.push_str("\\t"),
        7 => line.push_str("\\a"),
        8 => line.push_str("\\b"),
        b' '..=b'~' => line.push(char::from(byte)),
        // Writing to a string does not fail.
        _ => drop(write!(line, "\\x{byte:02x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let shown: Vec<_> = without_secrets(&words).into_iter().map(String::from_utf8_lossy).collect();
        shown.join(" ")
    }

    #[test]
    fn passwords_are_not_shown() {
        for (line, expected) in [
            ("auth secret", "auth (redacted)"),
            ("AUTH user secret", "AUTH (redacted) (redacted)"),
            ("HELLO 3 AUTH user secret SETNAME me", "HELLO 3 AUTH (redacted) (redacted) SETNAME me"),
            ("HELLO 3 SETNAME me auth user secret", "HELLO 3 SETNAME me auth (redacted) (redacted)"),
            ("HELLO 3", "HELLO 3"),
            ("HELLO 3 SETNAME auth AUTH a secret", "HELLO 3 SETNAME auth AUTH (redacted) (redacted)"),
            (
                "HELLO 3 AUTH a pw1 AUTH b pw2",
                "HELLO 3 AUTH (redacted) (redacted) AUTH (redacted) (redacted)",
            ),
            ("HELLO 3 AUTH a", "HELLO 3 AUTH (redacted)"),
            ("HELLO 3 AUHT a secret", "HELLO 3 (redacted) (redacted) (redacted)"),
            ("ACL SETUSER user >secret", "ACL SETUSER (redacted) (redacted)"),
            ("GET auth", "GET auth"),
        ] {
            assert_eq!(shown(line), expected);
        }
        assert!(without_secrets(&[]).is_empty());
    }

    #[test]
    fn many_and_long_words_are_cut_as_in_redis() {
        let long = [b'v'; 130];
        let words: Vec<&[u8]> = [&b"DEL"[..], &long].into_iter().chain([&b"k"[..]; 38]).collect();
        let shown = shortened(&words);
        assert_eq!(shown.len(), 32);
        assert_eq!(shown[1], [&long[..128], b"... (2 more bytes)"].concat());
        assert_eq!(shown[31], b"... (9 more arguments)");
        assert_eq!(shortened(&words[2..34]).len(), 32);
    }

    #[test]
    fn a_line_of_a_monitor_has_the_time_the_database_the_client_and_the_words() {
        let mut out = Vec::new();
        let peer = "127.0.0.1:60866".parse().ok();
        push_monitor_line(
            &mut out,
            Duration::from_micros(1_339_518_083_107_412),
            9,
            peer,
            &[b"SET", b"a\"\x00"],
        );
        let expected = "+1339518083.107412 [9 127.0.0.1:60866] \"SET\" \"a\\\"\\x00\"\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

//! Inline requests: words between spaces, with quotes as in Redis.

use std::ops::Range;

/// Splits a line of the buffer into words. The words of a line with quotes are written over it, which they are never
/// longer than. Returns `None` if a quote is not closed, or closed before the end of a word.
pub(super) fn split(buffer: &mut [u8], line: Range<usize>) -> Option<Vec<Range<usize>>> {
    let mut words = Vec::new();
    let (mut from, mut to) = (line.start, line.start);
    loop {
        while from < line.end && is_space(buffer[from]) {
            from += 1;
        }
        if from == line.end {
            return Some(words);
        }
        let start = to;
        let mut quote = None;
        while from < line.end {
            let byte = buffer[from];
            from += 1;
            let written = match (quote, byte) {
                (None, byte) if is_space(byte) => break,
                (None, b'"' | b'\'') => {
                    quote = Some(byte);
                    continue;
                }
                (Some(open), byte) if open == byte => {
                    // Another word may only begin after a space.
                    if from < line.end && !is_space(buffer[from]) {
                        return None;
                    }
                    quote = None;
                    break;
                }
                (Some(b'"'), b'\\') if from < line.end => {
                    let (escaped, taken) = unescape(&buffer[from..line.end]);
                    from += taken;
                    escaped
                }
                (Some(b'\''), b'\\') if from < line.end && buffer[from] == b'\'' => {
                    from += 1;
                    b'\''
                }
                (_, byte) => byte,
            };
            buffer[to] = written;
            to += 1;
        }
        if quote.is_some() {
            return None;
        }
        words.push(start..to);
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0
}

/// Returns the byte of an escape after a backslash, and the bytes that the escape takes.
fn unescape(text: &[u8]) -> (u8, usize) {
    let digit = |at: usize| text.get(at).and_then(|byte| (*byte as char).to_digit(16));
    match (text.first(), digit(1), digit(2)) {
        (Some(b'x'), Some(high), Some(low)) => ((high * 16 + low) as u8, 3),
        (Some(b'n'), ..) => (b'\n', 1),
        (Some(b'r'), ..) => (b'\r', 1),
        (Some(b't'), ..) => (b'\t', 1),
        (Some(b'b'), ..) => (8, 1),
        (Some(b'a'), ..) => (7, 1),
        (Some(byte), ..) => (*byte, 1),
        (None, ..) => (b'\\', 0),
    }
}

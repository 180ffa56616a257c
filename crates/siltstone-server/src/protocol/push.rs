//! Messages of channels as bytes. They are pushed: no request of their receiver asks for them.
//!
//! ```text
//! *3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n         RESP 2
//! >3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n         RESP 3
//! ```
//!
//! The versions differ in the first byte only, so a message is encoded once, whatever its receivers have.

use super::Version;

/// Returns a message of a channel, for [`append`].
pub fn message(channel: &[u8], text: &[u8]) -> Vec<u8> {
    encode(&[b"message", channel, text])
}

/// Returns a message of a channel that matches a pattern, for [`append`].
pub fn pattern_message(pattern: &[u8], channel: &[u8], text: &[u8]) -> Vec<u8> {
    encode(&[b"pmessage", pattern, channel, text])
}

/// Returns a message of a channel that belongs to a slot, for [`append`].
pub fn shard_message(channel: &[u8], text: &[u8]) -> Vec<u8> {
    encode(&[b"smessage", channel, text])
}

/// Returns what a connection gets when the server ends its subscription to a channel that belongs to a slot, for
/// [`append`]: as SUNSUBSCRIBE replies, with the number of subscriptions of this kind that are left.
pub fn shard_unsubscribed(channel: &[u8], left: usize) -> Vec<u8> {
    let mut out = encode_first(3, &[b"sunsubscribe", channel]);
    out.extend_from_slice(format!(":{left}\r\n").as_bytes());
    out
}

/// Appends a message to the output of a connection.
pub fn append(out: &mut Vec<u8>, message: &[u8], version: Version) {
    let first = out.len();
    out.extend_from_slice(message);
    if let Some(byte) = out.get_mut(first).filter(|_| version == Version::Resp3) {
        *byte = b'>';
    }
}

fn encode(words: &[&[u8]]) -> Vec<u8> {
    encode_first(words.len(), words)
}

/// Returns the first words of a number of items.
fn encode_first(items: usize, words: &[&[u8]]) -> Vec<u8> {
    // Besides its bytes a word has a length, of some 10 digits at most, and two ends of lines.
    let bytes = words.iter().map(|word| word.len() + 16).sum();
    let mut out = Vec::with_capacity(bytes);
    let head = |out: &mut Vec<u8>, kind: u8, number: usize| {
        out.push(kind);
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    head(&mut out, b'*', items);
    for word in words {
        head(&mut out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_an_array_in_resp_2_and_a_push_in_resp_3() {
        let rest = "3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\n\r\n\r\n";
        for (version, first) in [(Version::Resp2, '*'), (Version::Resp3, '>')] {
            let mut out = b"+OK\r\n".to_vec();
            append(&mut out, &message(b"news", b"\r\n"), version);
            assert_eq!(String::from_utf8(out).unwrap(), format!("+OK\r\n{first}{rest}"));
        }
    }

    #[test]
    fn a_message_of_a_pattern_names_the_pattern_and_the_channel() {
        let mut out = Vec::new();
        append(&mut out, &pattern_message(b"n*", b"news", b""), Version::Resp3);
        assert_eq!(out, b">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$0\r\n\r\n");
    }

    #[test]
    fn the_end_of_a_subscription_has_the_number_of_those_that_are_left() {
        let mut out = Vec::new();
        append(&mut out, &shard_unsubscribed(b"news", 12), Version::Resp3);
        assert_eq!(out, b">3\r\n$12\r\nsunsubscribe\r\n$4\r\nnews\r\n:12\r\n");
    }
}

//! Reads the metrics of a server: over HTTP, in the text format of Prometheus.

use anyhow::{Context, ensure};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a server may take to accept a connection, and between two parts of its reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest reply that is read, in bytes.
const REPLY_BYTES_MAX: u64 = 64 << 20;

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

impl Sample {
    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| &**value)
    }
}

/// Reads the metrics of the server at an address.
pub fn read(address: &str) -> anyhow::Result<Vec<Sample>> {
    let read = || {
        let reply = reply(address)?;
        let (head, body) = reply.split_once("\r\n\r\n").context("the reply is not HTTP")?;
        let status = head.lines().next().unwrap_or_default();
        ensure!(status.contains(" 200 "), "the reply is {status}");
        parse(body).context("the reply is not the text format of Prometheus")
    };
    read().with_context(|| {
        format!("cannot read metrics at {address}; state the address of --metrics of `siltstone serve data`")
    })
}

fn reply(address: &str) -> anyhow::Result<String> {
    let place = address.to_socket_addrs()?.next().context("the name has no address")?;
    let mut socket = TcpStream::connect_timeout(&place, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut reply = String::new();
    socket.take(REPLY_BYTES_MAX).read_to_string(&mut reply)?;
    Ok(reply)
}

/// Returns all samples; comments are skipped. `None` if a line is neither.
fn parse(text: &str) -> Option<Vec<Sample>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(sample).collect()
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, quoted) = rest.split_once("=\"")?;
            let (value, after) = unquoted(quoted)?;
            labels.push((label.trim_start_matches(',').to_owned(), value));
            rest = after;
        }
        rest = &rest[1..];
    }
    // A time of the sample may follow its value.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Returns the text up to the closing quote, without its escapes, and what follows the quote.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut letters) = (String::new(), text.char_indices());
    loop {
        match letters.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, letter) => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_their_labels_without_escapes() {
        let text = "# HELP a b.\n# TYPE a counter\na{x=\"1,2}\",y=\"q\\\"\\\\\\n\"} 3\nb 4.5 1700000000\n\nc{} +Inf\n";
        let samples = parse(text).unwrap();
        assert_eq!((&*samples[0].name, samples[0].value, samples[1].value), ("a", 3.0, 4.5));
        assert_eq!((samples[0].label("x"), samples[0].label("y")), (Some("1,2}"), Some("q\"\\\n")));
        assert!(samples[1].labels.is_empty() && samples[2].value.is_infinite());
        for wrong in ["a", "a{x=\"1\"", "a{x} 1", "a one"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}

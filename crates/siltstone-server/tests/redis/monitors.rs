//! MONITOR: a line for each command of all connections.

use crate::client::Answer;
use crate::served::{fill, serve_with};
use siltstone::EngineKind;

/// Returns what a line has after the time and the address of the client.
fn shown(answer: &Answer) -> String {
    let Answer::Status(line) = answer else { panic!("{answer:?} is no line") };
    let (time, rest) = line.split_once(" [").unwrap();
    let (seconds, micros) = time.split_once('.').unwrap();
    assert!(seconds.parse::<u64>().unwrap() > 1_600_000_000 && micros.len() == 6, "{line}");
    let (from, words) = rest.split_once("] ").unwrap();
    let (database, address) = from.split_once(' ').unwrap();
    address.parse::<std::net::SocketAddr>().unwrap();
    format!("{database} {words}")
}

#[test]
fn a_monitor_gets_a_line_for_each_command_without_passwords() {
    let served = serve_with(fill, EngineKind::Silt, |settings| settings.password = Some("secret".to_owned()));
    let mut monitor = served.client();
    assert_eq!(monitor.line("AUTH secret"), Answer::ok());
    assert_eq!(monitor.line("MONITOR"), Answer::ok());
    let mut client = served.client();
    client.line("AUTH secret");
    client.line("HELLO 3 AUTH default secret");
    client.line("SELECT 3");
    client.ask(&[&b"SET"[..], b"k\"\\", b"\r\n\x00\xff"]);
    client.line("get k");
    client.line("NOSUCH x");
    client.line("CONFIG GET save");
    client.line("MULTI");
    client.line("INCR n");
    client.line("EXEC");
    client.line("KEYS *");
    for expected in [
        "0 \"AUTH\" \"(redacted)\"",
        "0 \"HELLO\" \"3\" \"AUTH\" \"(redacted)\" \"(redacted)\"",
        "0 \"SELECT\" \"3\"",
        "3 \"SET\" \"k\\\"\\\\\" \"\\r\\n\\x00\\xff\"",
        "3 \"get\" \"k\"",
        "3 \"MULTI\"",
        "3 \"INCR\" \"n\"",
        "3 \"EXEC\"",
        "3 \"KEYS\" \"*\"",
    ] {
        assert_eq!(shown(&monitor.answer()), expected);
    }
    assert_eq!(monitor.line("RESET"), Answer::Status("RESET".to_owned()));
    client.line("PING");
    assert_eq!(monitor.line("AUTH secret"), Answer::ok(), "it gets no more lines");
}

#[test]
fn a_monitor_that_takes_nothing_is_disconnected_at_the_limit() {
    let served = serve_with(fill, EngineKind::Silt, |settings| {
        (settings.limits.push_bytes_max, settings.workers) = (1 << 20, 2)
    });
    let mut monitor = served.client();
    assert_eq!(monitor.line("MONITOR"), Answer::ok());
    let mut client = served.client();
    let text = "v".repeat(50_000);
    while client.line("CLIENT LIST").text().contains("flags=O") {
        assert_eq!(client.ask(&["ECHO", &text]), Answer::bulk(&text));
    }
    let info = client.line("INFO stats").text();
    assert!(info.contains("client_output_buffer_limit_disconnections:1\r\n"), "{info}");
}

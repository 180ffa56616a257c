//! Metrics over HTTP.

use crate::client::Answer;
use crate::served::{serve, serve_with};
use siltstone::EngineKind;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends bytes, and returns the whole response.
pub fn respond(address: std::net::SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn metrics_have_the_counters_of_the_server_and_the_statistics_of_each_database() {
    let served = serve();
    let mut client = served.client();
    assert_eq!(client.line("GET key:1"), Answer::bulk("value:1"));
    assert_eq!(client.line("GET missing"), Answer::Null);
    assert_eq!(client.line("SELECT 2"), Answer::ok());
    assert_eq!(client.line("SET a 1"), Answer::ok());
    let address = served.server.metrics_address().unwrap();
    let response = respond(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    for line in [
        "siltstone_server_commands_total 4\n",
        "siltstone_server_hits_total 1\n",
        "siltstone_server_lookup_misses_total 1\n",
        "siltstone_server_command_seconds_count{command=\"get\",protocol=\"redis\"} 2\n",
        "siltstone_server_command_seconds_bucket{command=\"set\",protocol=\"redis\",le=\"+Inf\"} 1\n",
        "siltstone_server_turn_requests_bucket{le=\"1.0\"} 4\n",
        "siltstone_server_turn_requests_sum 4.0\n",
        "siltstone_server_slow_receivers_total 0\n",
        "siltstone_gets_total{database=\"0\",engine=\"silt\"} 2\n",
        "siltstone_puts_total{database=\"2\",engine=\"silt\"} 1\n",
    ] {
        assert!(response.contains(line), "{line} in {response}");
    }
    assert_eq!(response.matches("# TYPE siltstone_puts_total").count(), 1, "each metric is declared once");
    assert!(respond(address, "GET /no HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(respond(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(respond(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
}

#[test]
fn the_page_and_the_dashboard_draw_metrics_that_exist_and_the_page_needs_no_other_host() {
    let served = serve_with(|_| {}, EngineKind::Silt, |settings| settings.memory = Some(64 << 20));
    let mut client = served.client();
    assert_eq!(client.line("SET a 1"), Answer::ok());
    let address = served.server.metrics_address().unwrap();
    let page = respond(address, "GET / HTTP/1.1\r\n\r\n");
    assert!(page.contains("Content-Type: text/html"), "{page}");
    let metrics = respond(address, "GET /metrics HTTP/1.1\r\n\r\n");
    for drawn in [&page, include_str!("../../../../docs/grafana.json")] {
        let names = drawn.split(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric());
        let names = names.filter(|word| word.starts_with("siltstone_"));
        let names: Vec<&str> = names.map(|name| name.strip_suffix("_bucket").unwrap_or(name)).collect();
        assert!(names.len() > 15, "{names:?}");
        for name in names {
            assert!(metrics.contains(&format!("# TYPE {name} ")), "{name} is drawn");
        }
    }
    for outside in ["http://", "https://", "src="] {
        let of_page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!of_page.contains(outside), "{outside}");
    }
}

#[test]
fn a_slow_client_holds_neither_others_up_nor_the_end_of_the_server() {
    let served = serve();
    let address = served.server.metrics_address().unwrap();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
    let (to, ended) = std::sync::mpsc::channel::<()>();
    let dripping = std::thread::spawn(move || {
        // A byte in less than the patience for one read, until the server gives up.
        while ended.recv_timeout(std::time::Duration::from_millis(300)).is_err()
            && slow.write_all(b"x").is_ok()
        {}
    });
    let begin = std::time::Instant::now();
    assert!(respond(address, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    served.server.stop().unwrap();
    assert!(begin.elapsed() < std::time::Duration::from_secs(30), "{:?}", begin.elapsed());
    drop(to);
    dripping.join().unwrap();
}

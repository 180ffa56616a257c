//! Metrics over HTTP.

use crate::client::Answer;
use crate::served::serve;
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
        "siltstone_gets_total{database=\"0\",engine=\"silt\"} 2\n",
        "siltstone_puts_total{database=\"2\",engine=\"silt\"} 1\n",
    ] {
        assert!(response.contains(line), "{line} in {response}");
    }
    assert_eq!(response.matches("# TYPE siltstone_puts_total").count(), 1, "each metric is declared once");
    assert!(respond(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(respond(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(respond(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
}

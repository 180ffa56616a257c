//! A server over AF_XDP at one end of a pair of virtual network cards, and a client over the system's sockets at the
//! other, each in a network namespace of its own. Requires root, the command `ip` and virtual network cards (veth).
//! Where these cannot be created the test is skipped and reports that on standard error:
//!
//! ```text
//! cargo test -p siltstone-network --features af-xdp --test af_xdp
//! ```

#![cfg(feature = "af-xdp")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nix::sched::{CloneFlags, setns};
use siltstone_network::transport::XdpSettings;
use siltstone_network::{Answer, Client, ClientSettings, Command, Server, ServerSettings};
use std::fs::File;
use std::io::Write;
use std::process;
use std::time::Duration;

/// Two namespaces connected by a pair of network cards; removed on drop.
struct Pair {
    server: String,
    client: String,
}

fn ip(arguments: &str) -> Result<(), String> {
    let outcome = process::Command::new("ip").args(arguments.split(' ')).output();
    let output = outcome.map_err(|error| format!("ip: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {}", told.trim())) }
}

/// Reports on standard error that the test is skipped, even if test output is captured.
fn skip(reason: &str) {
    let mut uncaptured = std::io::stderr();
    writeln!(uncaptured, "SKIPPED: tests/af_xdp.rs: {reason}").unwrap();
}

impl Pair {
    fn new() -> Result<Pair, String> {
        let id = process::id();
        let pair = Pair { server: format!("siltstone-s{id}"), client: format!("siltstone-c{id}") };
        let Pair { server, client } = &pair;
        ip(&format!("netns add {server}"))?;
        ip(&format!("netns add {client}"))?;
        ip(&format!("link add veth0 netns {server} type veth peer name veth0 netns {client}"))?;
        for (namespace, address) in [(server, "10.213.7.1/24"), (client, "10.213.7.2/24")] {
            ip(&format!("-n {namespace} addr add {address} dev veth0"))?;
            ip(&format!("-n {namespace} link set veth0 up"))?;
        }
        Ok(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.client] {
            let _ = process::Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

/// Moves this thread, and threads that it starts, to a namespace.
fn enter(namespace: &str) {
    setns(File::open(format!("/var/run/netns/{namespace}")).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
}

#[test]
fn a_server_over_af_xdp_serves_a_client_over_sockets() {
    let pair = match Pair::new() {
        Ok(pair) => pair,
        Err(reason) => return skip(&format!("network cards cannot be created here: {reason}")),
    };
    // Each server starts when the one before was just stopped.
    for generic in [true, false, false, true, false] {
        enter(&pair.server);
        let settings = ServerSettings {
            address: [10, 213, 7, 1].into(),
            port: 11_411,
            memory_bytes: 16 << 20,
            ..ServerSettings::default()
        };
        let xdp = XdpSettings { interface: "veth0".to_owned(), first_queue: 0, generic };
        let server = Server::start_xdp(&settings, &xdp).unwrap_or_else(|error| panic!("{error}"));
        enter(&pair.client);
        let patient = ClientSettings { time_limit: Duration::from_secs(20), ..ClientSettings::default() };
        let mut client = Client::connect(server.addresses()[0], patient).unwrap();
        let keys: Vec<[u8; 4]> = (0..5_000u32).map(u32::to_le_bytes).collect();
        let put = |key| Command::Put { key, value: key, expires_at_ms: 0 };
        let puts: Vec<Command<'_>> = keys.iter().map(|key| put(key)).collect();
        assert!(client.execute(&puts).unwrap().iter().all(|answer| *answer == Answer::Stored));
        let values = client.get_many(&keys).unwrap();
        assert!(values.iter().zip(&keys).all(|(value, key)| value.as_deref() == Some(&key[..])));
        let long = vec![7; 1_400];
        client.put(b"long", &long).unwrap();
        assert_eq!(client.get(b"long").unwrap(), Some(long));
        let stats = server.stop().unwrap();
        assert_eq!((stats.items, stats.counts.malformed_packets), (Some(5_001), 0));
        assert!(stats.counts.received_packets >= 2 * 5_000 / 32);
    }
    let nowhere = XdpSettings { interface: "nowhere".to_owned(), first_queue: 0, generic: true };
    let settings = ServerSettings { port: 11_411, memory_bytes: 1 << 20, ..ServerSettings::default() };
    let Err(error) = Server::start_xdp(&settings, &nowhere) else {
        panic!("an interface that does not exist was accepted")
    };
    assert!(error.to_string().contains("no interface nowhere"), "{error}");
}

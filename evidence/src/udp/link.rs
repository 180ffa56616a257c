//! Two pairs of virtual network cards between two network namespaces, one for the store and one for the echo. AF_XDP is
//! measured on them if there is no real card. They are removed when the benchmark ends.

use crate::{Error, Result};
use std::net::Ipv4Addr;
use std::process::Command;

/// The namespaces, and the cards of the server.
pub(super) struct Link {
    server: String,
    client: String,
}

/// The server's cards for the store and for the echo, with their addresses. The client's cards have the following
/// addresses.
pub(super) const CARDS: [(&str, Ipv4Addr); 2] =
    [("store0", Ipv4Addr::new(10, 213, 8, 1)), ("echo0", Ipv4Addr::new(10, 213, 9, 1))];

fn ip(arguments: &str) -> Result<()> {
    let failed = |what: String| {
        Error::wrong_results(format!(
            "ip {arguments}: {what}; this requires root, and the command ip of iproute2"
        ))
    };
    let output =
        Command::new("ip").args(arguments.split(' ')).output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

impl Link {
    pub fn new() -> Result<Link> {
        let id = std::process::id();
        let link =
            Link { server: format!("siltstone-server-{id}"), client: format!("siltstone-client-{id}") };
        let Link { server, client } = &link;
        ip(&format!("netns add {server}"))?;
        ip(&format!("netns add {client}"))?;
        for (card, address) in CARDS {
            ip(&format!("link add {card} netns {server} type veth peer name {card} netns {client}"))?;
            let next = Ipv4Addr::from(u32::from(address) + 1);
            for (namespace, address) in [(server, address), (client, next)] {
                ip(&format!("-n {namespace} addr add {address}/24 dev {card}"))?;
                ip(&format!("-n {namespace} link set {card} up"))?;
            }
        }
        Ok(link)
    }

    /// Moves this thread, and the threads that it starts later, to the server's namespace.
    #[cfg(feature = "af-xdp")]
    pub fn enter_server(&self) -> Result<()> {
        enter(&self.server)
    }

    /// Moves the thread to the namespace of the client.
    #[cfg(feature = "af-xdp")]
    pub fn enter_client(&self) -> Result<()> {
        enter(&self.client)
    }
}

#[cfg(feature = "af-xdp")]
fn enter(namespace: &str) -> Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    use std::os::fd::AsFd;
    let file = std::fs::File::open(format!("/var/run/netns/{namespace}"))?;
    let moved = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
    Ok(moved.map_err(std::io::Error::from)?)
}

impl Drop for Link {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.client] {
            // What was not created cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
    }
}

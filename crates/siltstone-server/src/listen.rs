//! Where a server listens: a protocol at an address.
//!
//! ```text
//! 127.0.0.1:6379              TCP
//! tls:0.0.0.0:6380            TLS over TCP
//! unix:/run/siltstone.sock    a Unix socket
//! ```

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// That of Redis.
    Redis,
    /// The text protocol of memcached. Its clients see database 0.
    Memcached,
}

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// TCP. With port 0 the system chooses one.
    Tcp(SocketAddr),
    /// TLS over TCP. With port 0 the system chooses one.
    Tls(SocketAddr),
    /// A Unix socket with this path, of less than 108 bytes.
    Unix(PathBuf),
}

/// A protocol at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The protocol.
    pub protocol: Protocol,
    /// The address.
    pub address: ListenAddress,
}

impl Protocol {
    /// Returns the name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Redis => "redis",
            Protocol::Memcached => "memcached",
        }
    }
}

impl Listen {
    /// Redis's protocol at an address.
    pub fn redis(address: impl Into<ListenAddress>) -> Listen {
        Listen { protocol: Protocol::Redis, address: address.into() }
    }

    /// memcached's protocol at an address.
    pub fn memcached(address: impl Into<ListenAddress>) -> Listen {
        Listen { protocol: Protocol::Memcached, address: address.into() }
    }
}

impl ListenAddress {
    /// Returns whether its connections begin with a handshake of TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, ListenAddress::Tls(_))
    }

    /// Returns the address and the port, unless it is that of a Unix socket.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            ListenAddress::Tcp(address) | ListenAddress::Tls(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Returns whether only processes of this machine reach the address.
    pub fn is_local(&self) -> bool {
        self.socket_address().is_none_or(|address| address.ip().is_loopback())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> ListenAddress {
        ListenAddress::Tcp(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => write!(to, "{address}"),
            ListenAddress::Tls(address) => write!(to, "tls:{address}"),
            ListenAddress::Unix(path) => write!(to, "unix:{}", path.display()),
        }
    }
}

/// A text is no address to listen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected ADDRESS:PORT, tls:ADDRESS:PORT or unix:PATH, such as 127.0.0.1:6379")]
pub struct NotAnAddress;

impl FromStr for ListenAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<ListenAddress, NotAnAddress> {
        let socket_address = |text: &str| text.parse().map_err(|_| NotAnAddress);
        match text.split_once(':') {
            Some(("unix", "")) => Err(NotAnAddress),
            Some(("unix", path)) => Ok(ListenAddress::Unix(path.into())),
            Some(("tls", address)) => Ok(ListenAddress::Tls(socket_address(address)?)),
            _ => Ok(ListenAddress::Tcp(socket_address(text)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_after_it_was_printed() {
        for text in
            ["127.0.0.1:6379", "[::1]:0", "tls:0.0.0.0:6380", "tls:[::]:1", "unix:/run/a.sock", "unix:b"]
        {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.is_local(), !text.starts_with("tls"), "{text}");
        }
        for wrong in ["", "6379", "localhost:6379", "unix:", "tls:", "tls:unix:/a", "ssl:127.0.0.1:1"] {
            assert_eq!(wrong.parse::<ListenAddress>(), Err(NotAnAddress), "{wrong}");
        }
    }
}

//! Sockets that another process has bound before this one began, as systemd does: clients can connect before there is a
//! server, and while it is restarted.
//!
//! Such a socket takes the place of the one that a setting names: that with the same address, or the same path. One
//! that no setting names would never be served, so it is an error.

use crate::listen::ListenAddress;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Sockets that listen already.
#[derive(Debug, Default)]
pub struct Inherited {
    tcp: Vec<TcpListener>,
    unix: Vec<UnixListener>,
}

impl Inherited {
    /// Adds a socket of TCP.
    pub fn add_tcp(&mut self, socket: TcpListener) {
        self.tcp.push(socket);
    }

    /// Adds a Unix socket. Its file stays when the server ends: it is that of the process that bound it.
    pub fn add_unix(&mut self, socket: UnixListener) {
        self.unix.push(socket);
    }

    /// Removes the socket that listens at an address, and returns it.
    pub(crate) fn take_tcp(&mut self, address: SocketAddr) -> io::Result<Option<TcpListener>> {
        let is_it = |socket: &TcpListener| socket.local_addr().is_ok_and(|own| own == address);
        let Some(at) = self.tcp.iter().position(is_it) else { return Ok(None) };
        let socket = self.tcp.swap_remove(at);
        socket.set_nonblocking(true)?;
        Ok(Some(socket))
    }

    /// Removes the socket with a path, and returns it.
    pub(crate) fn take_unix(&mut self, path: &Path) -> io::Result<Option<UnixListener>> {
        let is_it =
            |socket: &UnixListener| socket.local_addr().is_ok_and(|own| own.as_pathname() == Some(path));
        let Some(at) = self.unix.iter().position(is_it) else { return Ok(None) };
        let socket = self.unix.swap_remove(at);
        socket.set_nonblocking(true)?;
        Ok(Some(socket))
    }

    /// Returns the address of a socket that is left, if there is one.
    pub(crate) fn left(&self) -> Option<ListenAddress> {
        let tcp = self.tcp.first().and_then(|socket| socket.local_addr().ok()).map(ListenAddress::Tcp);
        let path = |socket: &UnixListener| Some(socket.local_addr().ok()?.as_pathname()?.to_owned());
        tcp.or_else(|| self.unix.first().and_then(path).map(ListenAddress::Unix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_taken_by_its_own_address_once_and_one_that_is_left_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let mut inherited = Inherited::default();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        inherited.add_tcp(tcp);
        inherited.add_unix(UnixListener::bind(&path).unwrap());
        assert!(inherited.take_tcp("127.0.0.1:1".parse().unwrap()).unwrap().is_none());
        assert_eq!(inherited.left(), Some(ListenAddress::Tcp(address)));
        assert!(
            inherited.take_tcp(address).unwrap().is_some() && inherited.take_tcp(address).unwrap().is_none()
        );
        assert_eq!(inherited.left(), Some(ListenAddress::Unix(path.clone())));
        assert!(inherited.take_unix(&path).unwrap().is_some());
        assert_eq!(inherited.left(), None);
    }
}

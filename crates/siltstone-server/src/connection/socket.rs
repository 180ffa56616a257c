//! The socket of a connection: TCP, a Unix socket, or TLS over TCP. All three never wait.

use crate::tls::TlsSocket;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// A socket.
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsSocket>),
}

impl Socket {
    /// Reads from the socket through `buffer`, and appends the bytes of requests to `input`. Returns the number of
    /// bytes of the socket, of which a part may be none of requests; 0 at its end.
    pub fn read(&mut self, buffer: &mut [u8], input: &mut Vec<u8>) -> io::Result<usize> {
        let bytes = match self {
            Socket::Tcp(socket) => socket.read(buffer)?,
            Socket::Unix(socket) => socket.read(buffer)?,
            Socket::Tls(socket) => return socket.read(buffer, input),
        };
        input.extend_from_slice(&buffer[..bytes]);
        Ok(bytes)
    }

    /// Sends bytes of replies, as many as the socket takes. Returns their number.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
            Socket::Tls(socket) => socket.write(bytes),
        }
    }

    /// Returns this end's address; `None` for a Unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(socket) => socket.local_addr().ok(),
            Socket::Unix(_) => None,
            Socket::Tls(socket) => socket.local_address(),
        }
    }

    /// Returns whether the socket has taken bytes that it has not sent: a [`write`](Self::write) without bytes sends
    /// them.
    pub fn has_unsent(&self) -> bool {
        matches!(self, Socket::Tls(socket) if socket.has_unsent())
    }

    /// Returns whether the client has ended its requests in another way than by the end of the socket.
    pub fn has_ended(&self) -> bool {
        matches!(self, Socket::Tls(socket) if socket.has_ended())
    }

    /// Returns whether the client cannot send requests yet.
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Socket::Tls(socket) if socket.is_handshaking())
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Tcp(socket) => socket,
            Socket::Unix(socket) => socket,
            Socket::Tls(socket) => &mut **socket,
        }
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.source().register(registry, token, interest)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}

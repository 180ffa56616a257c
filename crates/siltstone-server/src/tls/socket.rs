//! A socket with TLS over TCP that never waits.
//!
//! What the socket receives is decrypted at once, so the session keeps no bytes of requests, and at most one record
//! that is incomplete. What it sends waits in the session only up to [`UNSENT_BYTES_MAX`].

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

/// The most bytes of records that wait to be sent, without those of a handshake.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// A socket with TLS.
pub struct TlsSocket {
    tcp: TcpStream,
    session: ServerConnection,
    has_ended: bool,
}

impl TlsSocket {
    pub(super) fn new(tcp: TcpStream, configuration: Arc<ServerConfig>) -> io::Result<TlsSocket> {
        let mut session = ServerConnection::new(configuration).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(TlsSocket { tcp, session, has_ended: false })
    }

    /// Returns this end's address.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.tcp.local_addr().ok()
    }

    /// Reads from the socket through `buffer`, and appends what it has decrypted to `input`. Returns the number of
    /// bytes of the socket; 0 at its end.
    ///
    /// # Errors
    /// `WouldBlock` if the socket has nothing, its errors, and `InvalidData` for what is not of TLS. The client gets an
    /// alert then.
    pub fn read(&mut self, buffer: &mut [u8], input: &mut Vec<u8>) -> io::Result<usize> {
        let bytes = self.tcp.read(buffer)?;
        let mut records = &buffer[..bytes];
        while !records.is_empty() {
            self.session.read_tls(&mut records)?;
            let state = match self.session.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // A client that does not take the alert does not need it.
                    let _ = self.session.write_tls(&mut self.tcp);
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
            };
            let before = input.len();
            input.resize(before + state.plaintext_bytes_to_read(), 0);
            self.session.reader().read_exact(&mut input[before..])?;
            if state.peer_has_closed() {
                self.has_ended = true;
                break;
            }
        }
        // The session returns the memory of long records when it reads again, which may be much later.
        let _ = self.session.read_tls(&mut NothingYet);
        Ok(bytes)
    }

    /// Encrypts bytes, as many as the session takes, and sends what the socket takes of it. Without bytes it sends what
    /// waits. Returns how many bytes were taken.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing until the socket is writable, or the handshake is complete, and the errors of
    /// the socket.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() || self.session.is_handshaking() {
            self.send()?;
            return if bytes.is_empty() { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        loop {
            let taken = self.session.writer().write(bytes)?;
            match self.send() {
                Err(error) if error.kind() == ErrorKind::WouldBlock && taken > 0 => return Ok(taken),
                outcome => outcome?,
            }
            if taken > 0 {
                return Ok(taken);
            }
        }
    }

    /// Sends all records that wait.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.tcp) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether records wait to be sent.
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Returns whether the client has said that it sends nothing more.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns whether the handshake is not complete yet.
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }
}

/// A socket that has nothing.
struct NothingYet;

impl Read for NothingYet {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Drop for TlsSocket {
    fn drop(&mut self) {
        // So that the client knows that nothing was cut off. One that has gone does not need it.
        self.session.send_close_notify();
        let _ = self.send();
    }
}

impl Source for TlsSocket {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.tcp.register(registry, token, interest)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.tcp.reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.tcp.deregister(registry)
    }
}

//! What there is without the feature `tls`: nothing can be loaded, so there is no socket.

use super::{TlsError, TlsSettings};
use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io;
use std::net::SocketAddr;

/// The certificates of a server, of which there are none.
#[derive(Debug)]
pub enum Certificates {}

/// A socket with TLS, of which there are none.
#[derive(Debug)]
pub enum TlsSocket {}

impl Certificates {
    pub fn load(settings: TlsSettings) -> Result<Certificates, TlsError> {
        let problem = "this program was built without TLS; build it with the feature `tls`";
        Err(TlsError::new(&settings.certificate, problem))
    }

    pub fn reload(&self) -> Result<(), TlsError> {
        match *self {}
    }

    pub fn accept(&self, _: TcpStream) -> io::Result<TlsSocket> {
        match *self {}
    }
}

impl TlsSocket {
    pub fn read(&mut self, _: &mut [u8], _: &mut Vec<u8>) -> io::Result<usize> {
        match *self {}
    }

    pub fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    pub fn local_address(&self) -> Option<SocketAddr> {
        match *self {}
    }

    pub fn has_unsent(&self) -> bool {
        match *self {}
    }

    pub fn has_ended(&self) -> bool {
        match *self {}
    }

    pub fn is_handshaking(&self) -> bool {
        match *self {}
    }
}

impl Source for TlsSocket {
    fn register(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
        match *self {}
    }

    fn reregister(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
        match *self {}
    }

    fn deregister(&mut self, _: &Registry) -> io::Result<()> {
        match *self {}
    }
}

//! A socket that listens.
//!
//! A file of a Unix socket stays when its server is killed. So [`bind`](Listener::bind) replaces one that no process
//! listens at, and a server that ends removes its own.

use crate::connection::Socket;
use crate::inherited::Inherited;
use crate::listen::{Listen, ListenAddress};
use crate::tls::Certificates;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener, UnixStream};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A socket that listens, and what its connections are.
pub struct Listener {
    socket: ListenerSocket,
    /// The protocol, and the address with the port that the system has chosen.
    pub listen: Listen,
}

enum ListenerSocket {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<Certificates>),
    /// The file is removed with it, unless another process has bound it.
    Unix {
        listener: UnixListener,
        _file: Option<SocketFile>,
    },
}

/// What a new listener needs besides its address.
pub struct Binding<'a> {
    /// The permissions of files of Unix sockets; `None` for those that the process gives to new files.
    pub permissions: Option<u32>,
    /// The certificates, which addresses with TLS need.
    pub certificates: Option<&'a Arc<Certificates>>,
    /// Sockets that listen already.
    pub inherited: &'a mut Inherited,
}

/// Returns the socket at an address: one that listens already, or a new one.
///
/// # Errors
/// Errors of the system.
pub fn listen_at(address: SocketAddr, inherited: &mut Inherited) -> io::Result<TcpListener> {
    match inherited.take_tcp(address)? {
        Some(socket) => Ok(TcpListener::from_std(socket)),
        None => TcpListener::bind(address),
    }
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// Errors of the system, and a path at which another process listens or a file is that is no socket.
    pub fn bind(listen: Listen, binding: &mut Binding<'_>) -> io::Result<Listener> {
        let protocol = listen.protocol;
        let (socket, address) = match listen.address {
            ListenAddress::Tcp(address) => {
                let socket = listen_at(address, binding.inherited)?;
                let address = ListenAddress::Tcp(socket.local_addr()?);
                (ListenerSocket::Tcp(socket), address)
            }
            ListenAddress::Tls(address) => {
                let certificates = binding.certificates.ok_or(io::Error::other("there is no certificate"))?;
                let socket = listen_at(address, binding.inherited)?;
                let address = ListenAddress::Tls(socket.local_addr()?);
                (ListenerSocket::Tls(socket, certificates.clone()), address)
            }
            ListenAddress::Unix(path) => {
                let (listener, file) = match binding.inherited.take_unix(&path)? {
                    Some(socket) => (UnixListener::from_std(socket), None),
                    None => {
                        let (listener, file) = bind_unix(&path, binding.permissions)?;
                        (listener, Some(file))
                    }
                };
                (ListenerSocket::Unix { listener, _file: file }, ListenAddress::Unix(path))
            }
        };
        Ok(Listener { socket, listen: Listen { protocol, address } })
    }

    /// Accepts a connection. Returns its socket, and the address of the client if it has one.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, and errors of the system.
    pub fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match &self.socket {
            ListenerSocket::Tcp(listener) => {
                let (socket, peer) = listener.accept()?;
                // Without it small replies would wait for the acknowledgements of the last ones.
                let _ = socket.set_nodelay(true);
                Ok((Socket::Tcp(socket), Some(peer)))
            }
            ListenerSocket::Tls(listener, certificates) => {
                let (socket, peer) = listener.accept()?;
                let _ = socket.set_nodelay(true);
                Ok((Socket::Tls(Box::new(certificates.accept(socket)?)), Some(peer)))
            }
            ListenerSocket::Unix { listener, .. } => Ok((Socket::Unix(listener.accept()?.0), None)),
        }
    }

    /// Returns the socket, to register it.
    pub fn source(&mut self) -> &mut dyn Source {
        match &mut self.socket {
            ListenerSocket::Tcp(listener) | ListenerSocket::Tls(listener, _) => listener,
            ListenerSocket::Unix { listener, .. } => listener,
        }
    }
}

/// Begins to listen at a path.
fn bind_unix(path: &Path, permissions: Option<u32>) -> io::Result<(UnixListener, SocketFile)> {
    remove_stale(path)?;
    let listener = UnixListener::bind(path)?;
    let file = SocketFile::new(path.to_owned())?;
    if let Some(mode) = permissions {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok((listener, file))
}

/// Removes the file of a socket at which no process listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "a file is there that is no socket"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(path) {
        // One with too many clients that wait is busy.
        Ok(_) => Err(io::Error::from(ErrorKind::AddrInUse)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(io::Error::from(ErrorKind::AddrInUse)),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// The file of a socket, which is removed with it, unless another one has taken its place.
struct SocketFile {
    path: PathBuf,
    /// The numbers of the device and of the file.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: PathBuf) -> io::Result<SocketFile> {
        let identity = identity(&path)?;
        Ok(SocketFile { path, identity })
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            // A server that starts later replaces one that cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

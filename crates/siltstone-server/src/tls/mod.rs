//! TLS over TCP, by rustls: the certificates of a server, and sockets of connections.
//!
//! ```text
//! files --Certificates--> configuration --accept--> TlsSocket: records of TLS on the wire, bytes of requests inside
//!           ^ reload
//! ```
//!
//! A connection keeps the configuration that it was accepted with, so a reload touches no open connection. Without the
//! feature `tls` no certificate can be loaded, and no such socket exists.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "tls")]
mod socket;

#[cfg(not(feature = "tls"))]
pub use absent::{Certificates, TlsSocket};
#[cfg(feature = "tls")]
pub use certificates::Certificates;
#[cfg(feature = "tls")]
pub use socket::TlsSocket;

use std::path::{Path, PathBuf};

/// The files of a server with TLS, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate of the server, and those between it and its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The certificates of the authorities of clients. Clients need a certificate then.
    pub client_authorities: Option<PathBuf>,
}

/// A file of [`TlsSettings`] cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", .file.display())]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// The problem and the remedy.
    pub problem: String,
}

impl TlsError {
    fn new(file: &Path, problem: impl Into<String>) -> TlsError {
        TlsError { file: file.to_owned(), problem: problem.into() }
    }
}

//! Why a server does not start, or fails.

use crate::command::UsersError;
use crate::listen::ListenAddress;
use crate::tls::TlsError;
use std::io;

/// An error of a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A setting is outside of its limits.
    #[error("{name}: {problem}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The problem and the remedy.
        problem: String,
    },
    /// The address is not that of this machine alone, and clients need not authenticate.
    #[error(
        "{address} can be reached from other machines, and there is no password; set one, listen at 127.0.0.1, or allow it with `unprotected`"
    )]
    Unprotected {
        /// The address.
        address: ListenAddress,
    },
    /// A socket could not be bound.
    #[error(
        "cannot listen at {address}: {source}; use another address or port, or end the process that uses it"
    )]
    Listen {
        /// The address.
        address: ListenAddress,
        /// The error of the system.
        source: io::Error,
    },
    /// A socket was inherited that no setting names.
    #[error(
        "a socket that listens at {address} was passed to the process, but no setting names this address; add it"
    )]
    Inherited {
        /// The address.
        address: ListenAddress,
    },
    /// A thread or an event queue could not be made, or failed.
    #[error("{what}: {source}")]
    System {
        /// What failed.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A certificate or a key could not be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The file of users could not be used.
    #[error(transparent)]
    Users(#[from] UsersError),
    /// A database or a dictionary could not be opened or closed.
    #[error(transparent)]
    Store(#[from] siltstone::Error),
}

impl ServerError {
    /// Returns the error of a part of the system.
    pub(crate) fn of_system(what: &'static str) -> impl Fn(io::Error) -> ServerError {
        move |source| ServerError::System { what, source }
    }
}

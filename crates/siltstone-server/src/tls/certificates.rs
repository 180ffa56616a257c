//! The certificates of a server, which can be loaded again while it runs.

use super::{TlsError, TlsSettings, TlsSocket};
use mio::net::TcpStream;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// The certificates of a server.
pub struct Certificates {
    settings: TlsSettings,
    current: RwLock<Arc<ServerConfig>>,
}

impl Certificates {
    /// Loads the files.
    ///
    /// # Errors
    /// A file that cannot be read or has nothing in PEM form, and a key that is not that of the certificate.
    pub fn load(settings: TlsSettings) -> Result<Certificates, TlsError> {
        let current = RwLock::new(Arc::new(configuration(&settings)?));
        Ok(Certificates { settings, current })
    }

    /// Loads the files again, for connections that are accepted from now on.
    ///
    /// # Errors
    /// Those of [`load`](Certificates::load). The certificates before are kept.
    pub fn reload(&self) -> Result<(), TlsError> {
        let new = Arc::new(configuration(&self.settings)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Takes over a socket whose client is to begin a handshake.
    pub fn accept(&self, socket: TcpStream) -> io::Result<TlsSocket> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        TlsSocket::new(socket, current)
    }
}

fn configuration(settings: &TlsSettings) -> Result<ServerConfig, TlsError> {
    let TlsSettings { certificate, key, client_authorities } = settings;
    let chain = read_certificates(certificate)?;
    let private_key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::new(key, format!("there is no private key in PEM form: {error}")))?;
    let provider = Arc::new(ring::default_provider());
    let failed = |error: rustls::Error| TlsError::new(certificate, error.to_string());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let builder = match client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let failed = |error: &dyn std::error::Error| TlsError::new(path, error.to_string());
            let mut authorities = RootCertStore::empty();
            for authority in read_certificates(path)? {
                authorities.add(authority).map_err(|error| failed(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| failed(&error))?)
        }
    };
    builder.with_single_cert(chain, private_key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::new(key, format!("it is not the key of {}", certificate.display()))
        }
        error => failed(error),
    })
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| TlsError::new(path, error.to_string()))?;
    match found.is_empty() {
        true => Err(TlsError::new(path, "there is no certificate in PEM form")),
        false => Ok(found),
    }
}

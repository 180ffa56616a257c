//! TLS: handshakes, certificates, and clients that end or wait at any moment.

use crate::client::{Answer, Client, connect, encode};
use crate::served::{LOCAL, Served, fill, serve_with, settings};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use siltstone::EngineKind;
use siltstone_server::{Limits, Listen, ListenAddress, Protocol, Server, ServerSettings, TlsSettings};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// A certificate with its key, in PEM form.
struct Identity {
    certificate: String,
    key: String,
}

/// An authority that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), certificate }
    }

    fn sign(&self) -> Identity {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// Returns the settings of clients that trust the authority.
    fn clients(
        &self,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut authorities = RootCertStore::empty();
        authorities.add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(authorities);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        })
    }
}

/// Writes the files of a server.
fn write(directory: &Path, identity: &Identity) -> TlsSettings {
    let settings = TlsSettings {
        certificate: directory.join("server.crt"),
        key: directory.join("server.key"),
        client_authorities: None,
    };
    fs::write(&settings.certificate, &identity.certificate).unwrap();
    fs::write(&settings.key, &identity.key).unwrap();
    settings
}

/// A server with TLS and without, and the settings of its clients.
struct Secured {
    served: Served,
    authority: Authority,
    clients: Arc<ClientConfig>,
    files: tempfile::TempDir,
}

fn serve_tls(change: impl FnOnce(&mut ServerSettings)) -> Secured {
    let (files, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let tls = write(files.path(), &authority.sign());
    let served = serve_with(fill, EngineKind::Silt, |settings| {
        settings.listeners.push(Listen::redis(ListenAddress::Tls(LOCAL)));
        settings.listeners.push(Listen::memcached(ListenAddress::Tls(LOCAL)));
        settings.tls = Some(tls);
        change(settings);
    });
    let clients = authority.clients(None, rustls::DEFAULT_VERSIONS);
    Secured { served, authority, clients, files }
}

impl Secured {
    fn address(&self, protocol: Protocol) -> SocketAddr {
        let is_it = |listen: &&Listen| listen.protocol == protocol && listen.address.is_tls();
        let listen = self.served.server.listeners().iter().find(is_it).unwrap();
        listen.address.socket_address().unwrap()
    }

    fn connect(&self) -> TcpStream {
        connect(self.address(Protocol::Redis))
    }

    fn client(&self) -> TlsClient {
        Client::new(StreamOwned::new(session(&self.clients), self.connect()))
    }

    /// Makes a handshake with these settings, and asks for something.
    fn handshake(&self, clients: &Arc<ClientConfig>) -> std::io::Result<()> {
        let mut stream = StreamOwned::new(session(clients), self.connect());
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        assert_eq!(&reply, b"+PONG\r\n");
        Ok(())
    }

    /// Returns a number of INFO.
    fn info(&self, name: &str) -> u64 {
        let info = self.served.client().line("INFO").text();
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).unwrap();
        line.parse().unwrap()
    }

    /// Waits until a number of INFO is this one.
    fn wait_for(&self, name: &str, number: u64) {
        while self.info(name) != number {
            std::thread::yield_now();
        }
    }
}

fn session(clients: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(clients.clone(), "localhost".try_into().unwrap()).unwrap()
}

/// Returns the first bytes of a handshake.
fn hello(clients: &Arc<ClientConfig>) -> Vec<u8> {
    let mut bytes = Vec::new();
    session(clients).write_tls(&mut bytes).unwrap();
    bytes
}

/// Returns whether the server closes a connection, after an alert at most.
fn is_closed(mut socket: &TcpStream) -> bool {
    let mut rest = Vec::new();
    // What the server has not read is lost when it closes the connection.
    let _ = socket.read_to_end(&mut rest);
    rest.len() < 20
}

#[test]
fn both_protocols_are_served_with_tls_and_without_at_once() {
    let secured = serve_tls(|_| {});
    let mut client = secured.client();
    assert_eq!(client.line("GET key:1"), Answer::bulk("value:1"));
    assert_eq!(client.line("SET key:1 other"), Answer::ok());
    let port = secured.address(Protocol::Redis).port().to_string();
    let settings = client.line("CONFIG GET tls-port");
    assert_eq!(settings.items()[1], Answer::bulk(port));
    assert_eq!(secured.served.client().line("GET key:1"), Answer::bulk("other"));
    let socket = connect(secured.address(Protocol::Memcached));
    let mut memcached = BufReader::new(StreamOwned::new(session(&secured.clients), socket));
    memcached.get_mut().write_all(b"get key:2\r\n").unwrap();
    let mut lines = String::new();
    (0..3).for_each(|_| assert!(memcached.read_line(&mut lines).unwrap() > 0));
    assert_eq!(lines, "VALUE key:2 0 7\r\nvalue:2\r\nEND\r\n");
    assert_eq!(client.line("QUIT"), Answer::ok());
    assert!(client.is_ended(), "the session ends as TLS demands it");
    assert_eq!(secured.info("tls_handshakes_failed"), 0);
}

#[test]
fn long_values_and_long_pipelines_have_their_replies() {
    let secured = serve_tls(|_| {});
    let mut client = secured.client();
    let large: Vec<u8> = (0..5 << 20).map(|number: u32| (number / 251) as u8).collect();
    assert_eq!(client.ask(&[&b"SET"[..], b"large", &large]), Answer::ok());
    assert_eq!(client.line("GET large"), Answer::bulk(&large));
    let requests: Vec<u8> =
        (0..3000).flat_map(|number| encode(&["GET".to_owned(), format!("key:{}", number % 1000)])).collect();
    client.send_bytes(&requests);
    for number in 0..3000 {
        assert_eq!(client.answer(), Answer::bulk(format!("value:{}", number % 1000)));
    }
}

#[test]
fn both_versions_of_tls_are_served() {
    let secured = serve_tls(|_| {});
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let clients = secured.authority.clients(None, &[version]);
        secured.handshake(&clients).unwrap();
    }
}

#[test]
fn records_may_arrive_a_byte_at_a_time() {
    let secured = serve_tls(|_| {});
    let (mut socket, mut session) = (secured.connect(), session(&secured.clients));
    session.writer().write_all(&encode(&["GET", "key:1"])).unwrap();
    let mut reply = Vec::new();
    while reply.len() < b"$7\r\nvalue:1\r\n".len() {
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records).unwrap();
        }
        records.iter().for_each(|byte| socket.write_all(&[*byte]).unwrap());
        session.read_tls(&mut socket).unwrap();
        session.process_new_packets().unwrap();
        let _ = session.reader().read_to_end(&mut reply);
    }
    assert_eq!(reply, b"$7\r\nvalue:1\r\n");
}

#[test]
fn plain_text_at_a_port_with_tls_ends_the_connection_and_is_counted() {
    let secured = serve_tls(|_| {});
    for text in [&b"PING\r\n"[..], &encode(&["SET", "key:1", "x"]), b"GET / HTTP/1.1\r\n\r\n"] {
        let socket = secured.connect();
        (&socket).write_all(text).unwrap();
        assert!(is_closed(&socket));
    }
    secured.wait_for("tls_handshakes_failed", 3);
    assert_eq!(secured.client().line("GET key:1"), Answer::bulk("value:1"));
}

#[test]
fn a_client_may_end_at_any_moment_of_a_handshake() {
    let secured = serve_tls(|_| {});
    let hello = hello(&secured.clients);
    let lengths: Vec<usize> = (0..hello.len()).step_by(7).chain([hello.len()]).collect();
    for length in &lengths {
        let mut socket = secured.connect();
        socket.write_all(&hello[..*length]).unwrap();
        // Half of them end their side only, and see that the server ends the other one.
        if length.is_multiple_of(2) {
            socket.shutdown(Shutdown::Write).unwrap();
            let _ = socket.read_to_end(&mut Vec::new());
        }
    }
    secured.wait_for("tls_handshakes_failed", lengths.len() as u64);
    // That of INFO.
    secured.wait_for("connected_clients", 1);
    assert_eq!(secured.client().line("GET key:1"), Answer::bulk("value:1"));
}

#[test]
fn damaged_handshakes_and_records_end_the_connection() {
    let secured = serve_tls(|_| {});
    let hello = hello(&secured.clients);
    let mut random = fastrand::Rng::with_seed(3);
    let mut failed = 0;
    for _ in 0..50 {
        let mut damaged = hello.clone();
        let at = random.usize(..damaged.len());
        damaged[at] ^= random.u8(1..);
        let mut socket = secured.connect();
        socket.write_all(&damaged).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        // Some changes, such as one of the client's random bytes, are none of the protocol.
        let _ = socket.read_to_end(&mut Vec::new());
        failed += 1;
    }
    secured.wait_for("tls_handshakes_failed", failed);
    let (mut socket, mut session) = (secured.connect(), session(&secured.clients));
    session.complete_io(&mut socket).unwrap();
    session.writer().write_all(&encode(&["SET", "key:1", "damaged"])).unwrap();
    let mut records = Vec::new();
    session.write_tls(&mut records).unwrap();
    let last = records.len() - 1;
    records[last] ^= 1;
    socket.write_all(&records).unwrap();
    let _ = socket.read_to_end(&mut Vec::new());
    assert_eq!(secured.client().line("GET key:1"), Answer::bulk("value:1"));
    assert_eq!(secured.info("tls_handshakes_failed"), failed, "the handshake was complete");
}

#[test]
fn a_record_that_is_cut_off_executes_nothing() {
    let secured = serve_tls(|_| {});
    for part in [1, 3, 5, 20] {
        let (mut socket, mut session) = (secured.connect(), session(&secured.clients));
        session.complete_io(&mut socket).unwrap();
        session.writer().write_all(&encode(&["SET", "key:1", "cut"])).unwrap();
        let mut records = Vec::new();
        session.write_tls(&mut records).unwrap();
        socket.write_all(&records[..records.len() - part]).unwrap();
    }
    secured.wait_for("connected_clients", 1);
    assert_eq!(secured.client().line("GET key:1"), Answer::bulk("value:1"));
}

#[test]
fn a_handshake_that_takes_too_long_ends() {
    let handshake_max = Duration::from_millis(50);
    let secured = serve_tls(|settings| settings.limits = Limits { handshake_max, ..Limits::default() });
    let mut client = secured.client();
    assert_eq!(client.line("PING"), Answer::Status("PONG".to_owned()));
    let (silent, begun) = (secured.connect(), secured.connect());
    (&begun).write_all(&hello(&secured.clients)[..100]).unwrap();
    assert!(is_closed(&silent) && is_closed(&begun));
    assert_eq!(secured.info("tls_handshakes_late"), 2);
    assert_eq!(secured.info("tls_handshakes_failed"), 2);
    assert_eq!(client.line("GET key:1"), Answer::bulk("value:1"), "there is no limit after the handshake");
}

#[test]
fn a_flood_of_handshakes_holds_up_no_other_client() {
    let secured = serve_tls(|settings| settings.limits.connections_max = 150);
    let hello = hello(&secured.clients);
    let mut other = secured.client();
    let flood: Vec<TcpStream> = (0..300)
        .map(|number| {
            let socket = secured.connect();
            // Those above the limit are closed.
            let _ = (&socket).write_all(if number % 2 == 0 { &hello } else { &hello[..50] });
            socket
        })
        .collect();
    for _ in 0..100 {
        assert_eq!(other.line("GET key:1"), Answer::bulk("value:1"));
    }
    drop(flood);
    while !other.line("INFO").text().contains("connected_clients:1\r\n") {}
    assert!(secured.info("rejected_connections") >= 100);
    assert_eq!(secured.client().line("GET key:1"), Answer::bulk("value:1"));
}

#[test]
fn a_client_with_tls_that_takes_no_replies_holds_up_no_other_and_gets_them_later() {
    let secured = serve_tls(|settings| settings.workers = 1);
    let value = vec![b'v'; 200_000];
    assert_eq!(secured.client().ask(&[&b"SET"[..], b"large", &value]), Answer::ok());
    let mut greedy = secured.client();
    greedy.send_bytes(&encode(&["GET", "large"]).repeat(400));
    let mut other = secured.client();
    for _ in 0..100 {
        assert_eq!(other.line("PING"), Answer::Status("PONG".to_owned()));
    }
    while secured.info("connections_held_back") == 0 {}
    for _ in 0..400 {
        assert_eq!(greedy.answer(), Answer::bulk(&value));
    }
}

#[test]
fn certificates_are_loaded_again_without_touching_open_connections() {
    let secured = serve_tls(|_| {});
    let mut open = secured.client();
    assert_eq!(open.line("PING"), Answer::Status("PONG".to_owned()));
    let new = Authority::new();
    let new_clients = new.clients(None, rustls::DEFAULT_VERSIONS);
    assert!(secured.handshake(&new_clients).is_err());
    let settings = write(secured.files.path(), &new.sign());
    assert!(secured.served.server.reload_certificates().unwrap());
    secured.handshake(&new_clients).unwrap();
    assert!(secured.handshake(&secured.clients).is_err(), "the authority before has not signed it");
    // What cannot be loaded leaves the certificate.
    fs::write(&settings.key, new.sign().key).unwrap();
    let refused = secured.served.server.reload_certificates().unwrap_err().to_string();
    assert!(refused.contains("server.key: it is not the key of"), "{refused}");
    fs::write(&settings.certificate, "nonsense").unwrap();
    let refused = secured.served.server.reload_certificates().unwrap_err().to_string();
    assert!(refused.contains("server.crt: there is no certificate"), "{refused}");
    secured.handshake(&new_clients).unwrap();
    assert_eq!(open.line("GET key:1"), Answer::bulk("value:1"));
}

#[test]
fn clients_need_a_certificate_of_a_stated_authority() {
    let secured = serve_tls(|settings| {
        let tls = settings.tls.as_mut().unwrap();
        let path = tls.certificate.with_file_name("clients.crt");
        // Any certificate; the one that the clients get is written below.
        fs::copy(&tls.certificate, &path).unwrap();
        tls.client_authorities = Some(path);
    });
    let (authority, other) = (Authority::new(), Authority::new());
    fs::write(secured.files.path().join("clients.crt"), &authority.certificate).unwrap();
    assert!(secured.served.server.reload_certificates().unwrap());
    let with = |identity: Option<&Identity>| {
        secured.handshake(&secured.authority.clients(identity, rustls::DEFAULT_VERSIONS))
    };
    with(Some(&authority.sign())).unwrap();
    assert!(with(None).is_err());
    assert!(with(Some(&other.sign())).is_err());
    secured.wait_for("tls_handshakes_failed", 2);
}

#[test]
fn tls_alone_does_not_protect_an_address_but_certificates_of_clients_do() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let start = |needs_certificate: bool| {
        let mut settings = settings(directory.path());
        let everywhere = "0.0.0.0:0".parse().unwrap();
        settings.listeners = vec![Listen::redis(ListenAddress::Tls(everywhere))];
        let mut tls = write(directory.path(), &authority.sign());
        let path = directory.path().join("authority.crt");
        fs::write(&path, &authority.certificate).unwrap();
        tls.client_authorities = needs_certificate.then_some(path);
        settings.tls = Some(tls);
        Server::start(settings).map(Server::stop).map_err(|error| error.to_string())
    };
    assert!(start(false).err().unwrap().contains("there is no password"));
    start(true).unwrap().unwrap();
}

#[test]
fn certificates_and_addresses_with_tls_need_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let tls = write(directory.path(), &Authority::new().sign());
    let refused = |listen: Listen, tls: Option<TlsSettings>| {
        let mut settings = settings(directory.path());
        (settings.listeners, settings.tls) = (vec![listen], tls);
        Server::start(settings).err().unwrap().to_string()
    };
    assert!(refused(Listen::redis(LOCAL), Some(tls.clone())).contains("no address with TLS"));
    let secured = || Listen::redis(ListenAddress::Tls(LOCAL));
    assert!(refused(secured(), None).contains("needs a certificate"));
    let missing = TlsSettings { key: directory.path().join("missing.key"), ..tls.clone() };
    assert!(refused(secured(), Some(missing)).contains("missing.key"));
    let no_key = TlsSettings { key: tls.certificate.clone(), ..tls };
    assert!(refused(secured(), Some(no_key)).contains("there is no private key"));
}

//! `siltstone serve data`: databases and dictionaries for the clients of Redis and of memcached.

use super::follow::{Copying, Follower, forget_position};
use crate::interrupt::Interrupt;
use crate::open::Creation;
use crate::outcome::{Outcome, Result, help, wrong_usage};
use crate::quantity::{parse_bytes, parse_time, parse_whole};
use anyhow::{Context, anyhow};
use clap::Args;
use listenfd::ListenFd;
use sd_notify::NotifyState;
use serde_json::{Value, json};
use siltstone::{Access, Builder, Database, Dictionary, Durability, EngineKind, Resources};
use siltstone_bench::named::by_name;
use siltstone_bench::place::directory;
use siltstone_bench::tuning::SettingArgs;
use siltstone_command::outcome::complain;
use siltstone_server::{
    ClusterSettings, DATABASES, DatabaseStore, Inherited, Limits, Listen, ListenAddress, Mount, OpenStore,
    PlacesSettings, Protocol, Server, ServerSettings, Store, TlsSettings, ValueForm,
};
use std::io::{Write, stdout};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const EXAMPLES: &str = "
  siltstone serve data /var/lib/siltstone
  siltstone serve data --mount 0=features.dict --redis 127.0.0.1:6380
  siltstone serve data --config /etc/siltstone/siltstone.toml
  siltstone serve data /var/lib/siltstone --memcached 127.0.0.1:11211
  siltstone serve data cache --engine mica --memory 4GiB --redis 0.0.0.0:6379 --password-file secret
  siltstone serve data DIR --redis unix:/run/siltstone.sock --unix-permissions 770 --redis 127.0.0.1:6379
  siltstone serve data DIR --redis tls:0.0.0.0:6380 --tls-cert server.crt --tls-key server.key --users users.acl";

/// The address of Redis's protocol, if none is stated.
const REDIS_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6379);

/// The maximum time until a signal is noticed.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Serve databases and dictionaries to the clients of Redis and of memcached, until Ctrl-C or SIGTERM
///
/// SIGHUP opens the files of dictionaries, certificates, users and the cluster again: rename a new file over the old
/// one first. docs/SERVER.md lists the commands.
///
/// An address to listen at is ADDRESS:PORT, tls:ADDRESS:PORT or unix:PATH. Both flags can be repeated. With port 0 the
/// system chooses one.
///
/// Each option can be set in the environment too, as SILTSTONE_SERVE_IDLE_MAX, and in a file of TOML, as idle_max. The
/// command line overrides the environment, and the environment the file.
#[derive(Args, Debug)]
#[command(after_help = help(EXAMPLES))]
pub struct DataArgs {
    /// Directory of the databases, which are created when they are first written to
    #[arg(value_name = "DIR", value_parser = directory())]
    directory: Option<PathBuf>,
    /// File of settings, in TOML: the options by their names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A database or a dictionary file at a number from 0 to 15 (repeatable)
    #[arg(long = "mount", value_name = "NUMBER=PATH", value_parser = parse_mount)]
    mounts: Vec<Mount>,
    /// Address of Redis's protocol (repeatable) [default: 127.0.0.1:6379, without --memcached]
    #[arg(long, value_name = "ADDRESS")]
    redis: Vec<ListenAddress>,
    /// Address of memcached's protocol, for database 0 (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    memcached: Vec<ListenAddress>,
    /// Permissions of the files of Unix sockets, in octal digits [default: those that the umask leaves]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    unix_permissions: Option<u32>,
    /// Certificate of the server and those between it and its authority, in PEM form; for addresses with tls:
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM form
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Certificates of the authorities of clients, in PEM form: clients with TLS need a certificate then
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Address at which metrics are served over HTTP, in the text format of Prometheus
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// File with the slots of a cluster's nodes, a line HOST:PORT FIRST-LAST for each: keys of other nodes get MOVED
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// This node's HOST:PORT in that file [default: the address of Redis's protocol]
    #[arg(long, value_name = "HOST:PORT")]
    cluster_node: Option<String>,
    /// File whose first line is the password that clients need, as the user `default`
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File of users and what they may do: a line `user NAME RULE...` each, with the rules of Redis's ACL files
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Allow an address that other machines reach, without a password
    #[arg(long)]
    unprotected: bool,
    /// Threads that execute commands [default: one per processor, at most 8]
    #[arg(long, value_parser = parse_whole::<usize>)]
    workers: Option<usize>,
    /// Threads for what may wait for the device
    #[arg(long, default_value_t = 4, value_parser = parse_whole::<usize>)]
    helpers: usize,
    /// Threads for background work of all databases
    #[arg(long, default_value_t = 2, value_parser = parse_whole::<usize>)]
    background_threads: usize,
    /// The number of databases, 1 to 16 [default: 16, and 1 with mica, whose databases have equal parts of the memory
    /// from the beginning]
    #[arg(long, value_parser = parse_whole::<usize>)]
    databases: Option<usize>,
    /// Memory of databases, dictionaries and buffers of connections together. The open databases have equal shares of
    /// it; with mica, all --databases
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<f64>,
    /// What an acknowledged write survives: buffered nothing, written the end of the process, synced a power loss
    #[arg(long, default_value = Durability::default().name(), value_parser = by_name::<Durability>())]
    durability: Durability,
    /// The number of connections
    #[arg(long, default_value_t = Limits::default().connections_max, value_parser = parse_whole::<usize>)]
    connections_max: usize,
    /// Close connections without a request for this long
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    idle_max: Option<Duration>,
    /// How files are read and written
    #[arg(long, default_value = Access::default().name(), value_parser = by_name::<Access>())]
    access: Access,
    #[command(flatten)]
    creation: Creation,
    #[command(flatten)]
    settings: SettingArgs,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
}

fn parse_mount(text: &str) -> std::result::Result<Mount, String> {
    let parsed = text.split_once('=').and_then(|(number, path)| Some((number.parse().ok()?, path)));
    match parsed {
        Some((number, path)) if number < DATABASES && !path.is_empty() => {
            Ok(Mount { number, path: path.into() })
        }
        _ => Err("expected NUMBER=PATH with a number from 0 to 15, such as 0=features.dict".to_owned()),
    }
}

/// Parses permissions of a file.
fn parse_mode(text: &str) -> std::result::Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "expected three octal digits, such as 770".to_owned())
}

impl DataArgs {
    /// Returns where the server listens.
    fn listeners(&self) -> Vec<Listen> {
        let redis = self.redis.iter().cloned().map(Listen::redis);
        let mut listeners: Vec<Listen> =
            redis.chain(self.memcached.iter().cloned().map(Listen::memcached)).collect();
        if listeners.is_empty() {
            listeners.push(Listen::redis(REDIS_ADDRESS));
        }
        listeners
    }

    fn tls(&self) -> Option<TlsSettings> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsSettings { certificate, key, client_authorities: self.tls_ca.clone() })
    }

    fn settings(&self) -> anyhow::Result<ServerSettings> {
        if self.directory.is_none() && self.mounts.is_empty() {
            return Err(wrong_usage("state the directory of the databases, or --mount"));
        }
        // Not by the parser, for which what a file states is a default, and not there.
        let has_certificate = self.tls_cert.is_some();
        if has_certificate != self.tls_key.is_some() || (self.tls_ca.is_some() && !has_certificate) {
            return Err(wrong_usage(
                "--tls-cert and --tls-key belong together, and --tls-ca to both; state all",
            ));
        }
        if self.cluster.is_none() && self.cluster_node.is_some() {
            return Err(wrong_usage("--cluster-node is for a node of --cluster; state that file too"));
        }
        let password = self.password_file.as_deref().map(read_password).transpose()?;
        let workers = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
        let dictionary = Dictionary::options().access(self.access);
        let is_in_memory = self.creation.engine == Some(EngineKind::Mica);
        Ok(ServerSettings {
            listeners: self.listeners(),
            inherited: inherited()?,
            unix_permissions: self.unix_permissions,
            tls: self.tls(),
            metrics: self.metrics,
            workers: self.workers.unwrap_or(workers),
            helpers: self.helpers,
            password,
            users: self.users.clone(),
            unprotected: self.unprotected,
            durability: self.durability,
            limits: Limits {
                connections_max: self.connections_max,
                idle_max: self.idle_max,
                ..Limits::default()
            },
            memory: self.memory.map(|bytes| bytes as u64),
            follow: None,
            cluster: self.cluster.clone().map(|file| {
                let address = || {
                    self.redis
                        .iter()
                        .find_map(ListenAddress::socket_address)
                        .unwrap_or(REDIS_ADDRESS)
                        .to_string()
                };
                ClusterSettings { file, node: self.cluster_node.clone().unwrap_or_else(address) }
            }),
            places: PlacesSettings {
                directory: self.directory.clone(),
                databases: self.databases.unwrap_or(if is_in_memory { 1 } else { DATABASES }),
                mounts: self.mounts.clone(),
                are_shares_fixed: is_in_memory,
                open: self.opener()?,
                dictionary,
                // A byte for the type would be one more than the fixed length.
                are_values_typed: self.creation.fixed.is_none(),
            },
        })
    }

    /// Returns what opens a database: all of them share threads.
    fn opener(&self) -> siltstone::Result<Box<OpenStore>> {
        // Mounts may be at numbers above those of the databases.
        let resources = Resources::new(DATABASES, self.background_threads)?;
        let (creation, settings) = (self.creation.clone(), self.settings.clone());
        let (access, durability) = (self.access, self.durability);
        Ok(Box::new(move |path: &Path, form: ValueForm, memory: Option<u64>| {
            let mut builder: Builder = settings.apply(Database::builder(path)).access(access);
            if let Some(bytes) = memory {
                builder = builder.memory_budget(bytes);
            }
            // The server syncs itself, once for all connections that wait.
            let builder = builder.durability(durability.min(Durability::Written));
            let database = creation.apply(builder).resources(&resources).open()?;
            Ok(Arc::new(DatabaseStore::new(database, form)) as Arc<dyn Store>)
        }))
    }
}

/// Returns the sockets that a service manager has bound and passed to this process.
fn inherited() -> anyhow::Result<Inherited> {
    let mut passed = ListenFd::from_env();
    let mut inherited = Inherited::default();
    for at in 0..passed.len() {
        if let Ok(socket) = passed.take_tcp_listener(at) {
            socket.into_iter().for_each(|socket| inherited.add_tcp(socket));
        } else {
            let socket = passed.take_unix_listener(at);
            let socket =
                socket.context("the process was passed a socket that is neither of TCP nor a Unix socket")?;
            socket.into_iter().for_each(|socket| inherited.add_unix(socket));
        }
    }
    Ok(inherited)
}

/// Returns the first line of a file.
fn read_password(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(wrong_usage(format_args!(
            "{}: the first line is empty; write the password there",
            path.display()
        ))),
    }
}

/// Returns the first address of each protocol, and all of them.
fn addresses(server: &Server) -> Value {
    let of = |protocol| -> Vec<String> {
        let listeners = server.listeners().iter().filter(|listen| listen.protocol == protocol);
        listeners.map(|listen| listen.address.to_string()).collect()
    };
    let (redis, memcached) = (of(Protocol::Redis), of(Protocol::Memcached));
    json!({
        "redis": redis.first(),
        "memcached": memcached.first(),
        "metrics": server.metrics_address().map(|address| address.to_string()),
        "addresses": { "redis": redis, "memcached": memcached },
    })
}

/// Opens files again. What cannot be opened stays as it is, and is served as before.
fn reload(server: &Server) {
    match server.reload() {
        Ok(reloaded) => complain(format_args!("reloaded {reloaded} dictionaries")),
        Err(error) => complain(format_args!("not reloaded: {error}")),
    }
    match server.reload_certificates() {
        Ok(true) => complain(format_args!("reloaded the certificates")),
        Ok(false) => {}
        Err(error) => complain(format_args!("certificates not reloaded: {error}")),
    }
    match server.reload_users() {
        Ok(Some(users)) => complain(format_args!("reloaded {users} users")),
        Ok(None) => {}
        Err(error) => complain(format_args!("users not reloaded: {error}")),
    }
}

pub fn run(args: &DataArgs) -> Result {
    serve(args, None)
}

/// Serves until it is interrupted. With a source, the database 0 is a copy of it, and clients only read.
pub fn serve(args: &DataArgs, source: Option<&str>) -> Result {
    let (interrupt, hangup) = Interrupt::listen_besides_hangup()?;
    let mut settings = args.settings()?;
    let follower = source.map(|source| Follower::new(source, args.directory.as_deref())).transpose()?;
    settings.follow = follower.as_ref().map(Follower::status);
    if let Some(directory) = args.directory.as_deref().filter(|_| follower.is_none()) {
        forget_position(directory)?;
    }
    let server = Server::start(settings).map_err(|error| anyhow!(error))?;
    let copying = follower.map(|follower| follower.start(&server)).transpose()?;
    let mut out = stdout().lock();
    match args.json {
        true => writeln!(out, "{}", addresses(&server))?,
        false => {
            let listeners = server.listeners().iter();
            let mut served: Vec<String> =
                listeners.map(|listen| format!("{} at {}", listen.protocol.name(), listen.address)).collect();
            served.extend(server.metrics_address().map(|address| format!("metrics at {address}")));
            writeln!(out, "serving {}; Ctrl-C stops", served.join(", "))?;
        }
    }
    out.flush()?;
    // A service manager waits for this, if there is one.
    notify(NotifyState::Ready);
    while !interrupt.is_raised() && !server.is_shutdown_requested() {
        std::thread::park_timeout(LOOK_INTERVAL);
        if hangup.swap(false, Relaxed) {
            reload(&server);
        }
    }
    notify(NotifyState::Stopping);
    copying.into_iter().for_each(Copying::stop);
    server.stop().map_err(|error| anyhow!(error))?;
    Ok(Outcome::Done)
}

/// Informs systemd about the state, if it has started the process.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        complain(format_args!("systemd is not informed: {error}"));
    }
}

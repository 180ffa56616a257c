//! A server: its threads and its sockets.

use crate::acceptor::{Acceptor, Binding, Listener, StopAcceptor, listen_at};
#[cfg(feature = "scripts")]
use crate::command::Scripts;
use crate::command::{
    COMMANDS, Clients, Cluster, ClusterSettings, Context, Counters, FollowStatus, Limits, Measures,
    NotingStore, Outbox, Runtime, SlowLog, Users, Watches, all_commands, memory_of_places, permission,
};
use crate::error::ServerError;
use crate::inherited::Inherited;
use crate::listen::{Listen, ListenAddress, Protocol};
use crate::metrics::{MetricsServer, StopMetrics};
use crate::store::{Places, PlacesSettings, Store};
use crate::tls::{Certificates, TlsSettings};
use crate::worker::{Helpers, Mailbox, Message, Worker, open_mailbox};
use mio::net::TcpListener;
use siltstone::Durability;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The number of threads for commands that may take long, such as KEYS.
const SLOW_THREADS: usize = 2;

/// The most threads of a kind.
const THREADS_MAX: usize = 256;

/// The settings of a server.
pub struct ServerSettings {
    /// Where it listens. There is at least one.
    pub listeners: Vec<Listen>,
    /// Sockets that are bound already, each at one of these addresses or at that of the metrics.
    pub inherited: Inherited,
    /// The permissions of the files of Unix sockets, such as `0o770`; `None` for those that the process gives to new
    /// files.
    pub unix_permissions: Option<u32>,
    /// The certificates, if an address has TLS.
    pub tls: Option<TlsSettings>,
    /// The address at which metrics are served over HTTP, if they are.
    pub metrics: Option<SocketAddr>,
    /// The number of threads that execute commands, 1 to 256.
    pub workers: usize,
    /// The number of threads for what may wait for the device, 1 to 256.
    pub helpers: usize,
    /// The password of the user `default`, if any.
    pub password: Option<String>,
    /// The file of users, if any. Without a password it also says what `default` is, which is off otherwise.
    pub users: Option<PathBuf>,
    /// Allows an address that other machines reach, without a password.
    pub unprotected: bool,
    /// What a write survives when it is acknowledged.
    pub durability: Durability,
    /// The limits of connections.
    pub limits: Limits,
    /// The memory of databases, dictionaries, and the buffers of connections together, if it is limited: the buffers
    /// have an eighth of it.
    pub memory: Option<u64>,
    /// The cluster that the server is a node of, if any.
    pub cluster: Option<ClusterSettings>,
    /// The server that this one is to copy, if any: clients only read then. The program copies, by
    /// [`Server::store`].
    pub follow: Option<Arc<FollowStatus>>,
    /// The databases.
    pub places: PlacesSettings,
}

/// A server that runs. Dropping it ends its threads without waiting for them; [`stop`](Server::stop) also closes the
/// databases.
pub struct Server {
    context: Arc<Context>,
    acceptor: StopAcceptor,
    workers: Vec<Arc<Mailbox>>,
    /// Those for what may wait for the device, those for commands that may take long, and those for scripts.
    helpers: [Arc<Helpers>; 3],
    threads: Vec<JoinHandle<io::Result<()>>>,
    helper_threads: Vec<JoinHandle<()>>,
    metrics: Option<(SocketAddr, StopMetrics)>,
    certificates: Option<Arc<Certificates>>,
}

impl Server {
    /// Opens the databases, and starts to listen.
    ///
    /// # Errors
    /// [`ServerError::Setting`] for numbers of threads outside of their limits, without an address, and for what has no
    /// effect at these addresses; [`ServerError::Tls`], [`ServerError::Users`], [`ServerError::Unprotected`],
    /// [`ServerError::Listen`], errors of opening a database, and of the system.
    pub fn start(settings: ServerSettings) -> Result<Server, ServerError> {
        check(&settings)?;
        let users = Users::open(
            permission::catalogue(COMMANDS),
            settings.users.clone(),
            settings.password.as_deref(),
        )?;
        check_protection(&settings, &users)?;
        let certificates = settings.tls.map(Certificates::load).transpose()?.map(Arc::new);
        let mut inherited = settings.inherited;
        let mut binding = Binding {
            permissions: settings.unix_permissions,
            certificates: certificates.as_ref(),
            inherited: &mut inherited,
        };
        // Before the databases are opened, which may take long: an address that is in use is seen at once. Clients
        // that connect meanwhile wait.
        let listen = |listen: Listen| {
            let address = listen.address.clone();
            Listener::bind(listen, &mut binding).map_err(|source| ServerError::Listen { address, source })
        };
        let listeners = settings.listeners.into_iter().map(listen).collect::<Result<Vec<_>, _>>()?;
        let metrics = settings.metrics.map(|address| bind(address, &mut inherited)).transpose()?;
        if let Some(address) = inherited.left() {
            return Err(ServerError::Inherited { address });
        }
        let context = Arc::new(Context {
            commands: COMMANDS,
            places: Places::open(settings.places, settings.memory.map(memory_of_places))?,
            limits: settings.limits,
            follow: settings.follow,
            cluster: settings.cluster.map(Cluster::open).transpose()?.map(Arc::new),
            users,
            workers: settings.workers,
            listeners: listeners.iter().map(|listener| listener.listen.clone()).collect(),
            counters: Counters::default(),
            watches: Watches::default(),
            #[cfg(feature = "scripts")]
            scripts: Scripts::default(),
            clients: Clients::default(),
            channels: Arc::default(),
            measures: Measures::new(settings.workers, all_commands().count()),
            slow_log: SlowLog::default(),
            runtime: Runtime::new(&settings.limits, settings.durability, settings.memory),
            started: Instant::now(),
            run: RandomState::new().hash_one(0),
        });
        let mut server = Server::start_threads(context, listeners, settings.helpers)?;
        server.certificates = certificates;
        if let Some(listener) = metrics {
            server.start_metrics(listener)?;
        }
        Ok(server)
    }

    fn start_metrics(&mut self, listener: TcpListener) -> Result<(), ServerError> {
        let failed = ServerError::of_system;
        let address = listener.local_addr().map_err(failed("cannot read the address of a socket"))?;
        let (server, stop) = MetricsServer::new(listener, self.context.clone())
            .map_err(failed("cannot make a queue of events"))?;
        let thread = thread::Builder::new().name("metrics".to_owned());
        self.threads.push(thread.spawn(move || server.run()).map_err(failed("cannot start a thread"))?);
        self.metrics = Some((address, stop));
        Ok(())
    }

    fn start_threads(
        context: Arc<Context>,
        listeners: Vec<Listener>,
        helpers: usize,
    ) -> Result<Server, ServerError> {
        let failed = ServerError::of_system;
        let start =
            |threads| Helpers::start(context.clone(), threads).map_err(failed("cannot start a thread"));
        let (helpers, mut helper_threads) = start(helpers)?;
        let (slow_helpers, slow_threads) = start(SLOW_THREADS)?;
        helper_threads.extend(slow_threads);
        let (script_helpers, script_threads) =
            start(if cfg!(feature = "scripts") { context.workers } else { 0 })?;
        helper_threads.extend(script_threads);
        let opened = (0..context.workers).map(|_| open_mailbox()).collect::<io::Result<Vec<_>>>();
        let (polls, workers): (Vec<_>, Vec<_>) =
            opened.map_err(failed("cannot make a queue of events"))?.into_iter().unzip();
        let mailboxes: Arc<[Arc<Mailbox>]> = workers.clone().into();
        let mut threads = Vec::new();
        for (number, poll) in polls.into_iter().enumerate() {
            let helpers = [&helpers, &slow_helpers, &script_helpers].map(Arc::clone);
            let worker = Worker::new(number, poll, mailboxes.clone(), context.clone(), helpers);
            let thread = thread::Builder::new().name(format!("worker {number}"));
            threads.push(thread.spawn(move || worker.run()).map_err(failed("cannot start a thread"))?);
        }
        let syncing = context.clone();
        let thread = thread::Builder::new().name("syncer".to_owned());
        threads.push(thread.spawn(move || sync_when_due(&syncing)).map_err(failed("cannot start a thread"))?);
        let (acceptor, stop) = Acceptor::new(listeners, context.clone(), workers.clone())
            .map_err(failed("cannot make a queue of events"))?;
        let thread = thread::Builder::new().name("acceptor".to_owned());
        threads.push(thread.spawn(move || acceptor.run()).map_err(failed("cannot start a thread"))?);
        let helpers = [helpers, slow_helpers, script_helpers];
        let (metrics, certificates) = (None, None);
        Ok(Server {
            context,
            acceptor: stop,
            workers,
            helpers,
            threads,
            helper_threads,
            metrics,
            certificates,
        })
    }

    /// Returns where it listens, with the ports that the system has chosen.
    pub fn listeners(&self) -> &[Listen] {
        &self.context.listeners
    }

    /// Returns the first address with TCP alone that the clients of Redis connect to.
    pub fn redis_address(&self) -> Option<SocketAddr> {
        self.tcp_address(Protocol::Redis)
    }

    /// Returns the first address with TCP alone that the clients of memcached connect to.
    pub fn memcached_address(&self) -> Option<SocketAddr> {
        self.tcp_address(Protocol::Memcached)
    }

    fn tcp_address(&self, protocol: Protocol) -> Option<SocketAddr> {
        let mut listeners = self.listeners().iter().filter(|listen| listen.protocol == protocol);
        listeners.find(|listen| !listen.address.is_tls())?.address.socket_address()
    }

    /// Returns the address of the metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(address, _)| *address)
    }

    /// Returns a database, which is created if it does not exist; `None` if the server has no such number. What is
    /// written to it are changes for the clients that watch its keys.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn store(&self, number: usize) -> Result<Option<Arc<dyn Store>>, ServerError> {
        let store = self.context.places.get_or_create(number)?;
        let noting = |store| NotingStore { context: self.context.clone(), number, store };
        Ok(store.map(|store| Arc::new(noting(store)) as Arc<dyn Store>))
    }

    /// Opens the files of all dictionaries again, and reads the map of the cluster. Requests that run keep the old
    /// ones. Returns the number of dictionaries.
    ///
    /// # Errors
    /// Those of the map, and of opening a dictionary. What has the error, and what follows it, is as it was.
    pub fn reload(&self) -> Result<usize, ServerError> {
        let mut outbox = Outbox::new();
        let reloaded = self.context.reload(&mut outbox);
        for (worker, parcel) in outbox {
            self.workers[worker].send_parcels(vec![parcel]);
        }
        Ok(reloaded?)
    }

    /// Returns whether a client has asked for the end of the server, by SHUTDOWN. The server runs until it is stopped.
    pub fn is_shutdown_requested(&self) -> bool {
        self.context.runtime.is_shutdown()
    }

    /// Loads the certificates again, for connections that are accepted from now on. Returns whether there are some.
    ///
    /// # Errors
    /// A file that cannot be used. The certificates are as they were.
    pub fn reload_certificates(&self) -> Result<bool, ServerError> {
        self.certificates.as_ref().map(|certificates| certificates.reload()).transpose()?;
        Ok(self.certificates.is_some())
    }

    /// Reads the file of users again. Each connection takes over its user at its next request, and ends if the user has
    /// gone. Returns the number of users, or `None` if there is no file.
    ///
    /// # Errors
    /// A file that cannot be used. All users are as they were.
    pub fn reload_users(&self) -> Result<Option<usize>, ServerError> {
        Ok(self.context.users.load()?)
    }

    /// Accepts no more connections and no more requests, sends the replies of those that were executed, and makes
    /// everything durable.
    ///
    /// # Errors
    /// Errors of closing a database, and of a thread that failed.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.acceptor.stop();
        self.context.runtime.stop_syncs();
        self.metrics.iter().for_each(|(_, stop)| stop.stop());
        self.stop_scripts();
        self.helpers.iter().for_each(|helpers| helpers.cancel());
        self.workers.iter().for_each(|worker| worker.send(Message::Stop));
        let mut outcome = Ok(());
        for thread in std::mem::take(&mut self.threads) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
            outcome = outcome.and(ended.map_err(ServerError::of_system("a worker failed")));
        }
        // After the workers, which may have given them more until then.
        self.helpers.iter().for_each(|helpers| helpers.stop());
        for thread in std::mem::take(&mut self.helper_threads) {
            // A panic of a helper thread has lost a reply, and nothing else.
            let _ = thread.join();
        }
        self.context.places.close()?;
        outcome
    }
}

impl Server {
    fn stop_scripts(&self) {
        #[cfg(feature = "scripts")]
        self.context.scripts.stop();
    }
}

/// Syncs all databases each second while this is set.
fn sync_when_due(context: &Context) -> io::Result<()> {
    while context.runtime.wait_for_sync() {
        // A database whose sync fails acknowledges nothing more, and says why to those who write.
        context.places.sync_all();
    }
    Ok(())
}

/// Checks the settings that need no file.
fn check(settings: &ServerSettings) -> Result<(), ServerError> {
    let failed = |name, problem: String| Err(ServerError::Setting { name, problem });
    for (name, threads) in [("workers", settings.workers), ("helpers", settings.helpers)] {
        if !(1..=THREADS_MAX).contains(&threads) {
            return failed(name, format!("{threads} is not 1 to {THREADS_MAX}; use about one per processor"));
        }
    }
    if settings.listeners.is_empty() {
        let problem = "there is no address to listen at; state that of redis, of memcached, or both";
        return failed("redis", problem.to_owned());
    }
    let is_of_memcached = |listen: &Listen| listen.protocol == Protocol::Memcached;
    if settings.cluster.is_some() && settings.listeners.iter().any(is_of_memcached) {
        let problem = "clients of memcached do not follow the slots of a cluster; serve them without one";
        return failed("memcached", problem.to_owned());
    }
    let has_tls = settings.listeners.iter().any(|listen| listen.address.is_tls());
    if has_tls != settings.tls.is_some() {
        let problem = match has_tls {
            true => "an address with TLS needs a certificate and its key; state both",
            false => {
                "there is a certificate, and no address with TLS; listen at one, such as tls:127.0.0.1:6380"
            }
        };
        return failed("tls", problem.to_owned());
    }
    let is_unix = |listen: &Listen| matches!(listen.address, ListenAddress::Unix(_));
    match settings.unix_permissions {
        Some(mode) if mode > 0o777 => {
            failed("unix_permissions", format!("{mode:o} is above 777; use three octal digits, such as 770"))
        }
        Some(_) if !settings.listeners.iter().any(is_unix) => {
            let problem = "there is no Unix socket; listen at one, such as unix:/run/siltstone.sock";
            failed("unix_permissions", problem.to_owned())
        }
        _ => Ok(()),
    }
}

/// Checks that who reaches an address has to authenticate, if the address is not that of this machine alone.
fn check_protection(settings: &ServerSettings, users: &Users) -> Result<(), ServerError> {
    if settings.unprotected {
        return Ok(());
    }
    let needs_certificate = settings.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
    let is_protected = |address: &ListenAddress| needs_certificate && address.is_tls();
    let addresses = settings.listeners.iter().map(|listen| &listen.address);
    let open = addresses.filter(|address| users.default_user().is_open() && !is_protected(address)).cloned();
    // Passwords are of connections that execute commands, so they do not protect the metrics.
    let metrics = settings.metrics.map(ListenAddress::from);
    match open.chain(metrics).find(|address| !address.is_local()) {
        Some(address) => Err(ServerError::Unprotected { address }),
        None => Ok(()),
    }
}

fn bind(address: SocketAddr, inherited: &mut Inherited) -> Result<TcpListener, ServerError> {
    listen_at(address, inherited).map_err(|source| ServerError::Listen { address: address.into(), source })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_scripts();
        self.acceptor.stop();
        self.context.runtime.stop_syncs();
        self.metrics.iter().for_each(|(_, stop)| stop.stop());
        self.workers.iter().for_each(|worker| worker.send(Message::Stop));
        self.helpers.iter().for_each(|helpers| helpers.stop());
    }
}

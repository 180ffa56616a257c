//! A server: its threads and its sockets.

use crate::acceptor::{Acceptor, Listener, StopAcceptor};
#[cfg(feature = "scripts")]
use crate::command::Scripts;
use crate::command::{COMMANDS, Context, Counters, Limits, Watches};
use crate::error::ServerError;
use crate::metrics::{MetricsServer, StopMetrics};
use crate::protocol::Version;
use crate::store::{Places, PlacesSettings};
use crate::worker::{Helpers, Mailbox, Message, Worker};
use mio::net::TcpListener;
use siltstone::Durability;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The number of threads for commands that may take long, such as KEYS.
const SLOW_THREADS: usize = 2;

/// The most threads of a kind.
const THREADS_MAX: usize = 256;

/// The settings of a server.
pub struct ServerSettings {
    /// The address of Redis's protocol, if it is served. With port 0 the system chooses one.
    pub redis: Option<SocketAddr>,
    /// The address of memcached's protocol, if it is served. Its clients see database 0.
    pub memcached: Option<SocketAddr>,
    /// The address at which metrics are served over HTTP, if they are.
    pub metrics: Option<SocketAddr>,
    /// The number of threads that execute commands, 1 to 256.
    pub workers: usize,
    /// The number of threads for what may wait for the device, 1 to 256.
    pub helpers: usize,
    /// The password that connections need, if any.
    pub password: Option<String>,
    /// Allows an address that other machines reach, without a password.
    pub unprotected: bool,
    /// What a write survives when it is acknowledged.
    pub durability: Durability,
    /// The limits of connections.
    pub limits: Limits,
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
}

impl Server {
    /// Opens the databases, and starts to listen.
    ///
    /// # Errors
    /// [`ServerError::Setting`] for numbers of threads outside of their limits and without an address,
    /// [`ServerError::Unprotected`],
    /// [`ServerError::Listen`], errors of opening a database, and of the system.
    pub fn start(settings: ServerSettings) -> Result<Server, ServerError> {
        for (name, threads) in [("workers", settings.workers), ("helpers", settings.helpers)] {
            if !(1..=THREADS_MAX).contains(&threads) {
                let problem = format!("{threads} is not 1 to {THREADS_MAX}; use about one per processor");
                return Err(ServerError::Setting { name, problem });
            }
        }
        let addresses = [(settings.redis, Version::Resp2), (settings.memcached, Version::Memcached)];
        let addresses = addresses.into_iter().filter_map(|(address, version)| Some((address?, version)));
        let is_open = settings.password.is_none() && !settings.unprotected;
        // The password is one of connections that execute commands, so it does not protect the metrics.
        let unprotected = addresses.clone().map(|(address, _)| address).filter(|_| is_open);
        let metrics = settings.metrics.filter(|_| !settings.unprotected);
        if let Some(address) = unprotected.chain(metrics).find(|address| !address.ip().is_loopback()) {
            return Err(ServerError::Unprotected { address });
        }
        // Before the databases are opened, which may take long: an address that is in use is seen at once. Clients
        // that connect meanwhile wait.
        let listeners = addresses.map(listen).collect::<Result<Vec<_>, _>>()?;
        if listeners.is_empty() {
            let problem =
                "there is no address to listen at; state that of redis, of memcached, or both".to_owned();
            return Err(ServerError::Setting { name: "redis", problem });
        }
        let metrics = settings.metrics.map(bind).transpose()?;
        let context = Arc::new(Context {
            commands: COMMANDS,
            places: Places::open(settings.places)?,
            limits: settings.limits,
            password: settings.password,
            workers: settings.workers,
            redis: address_of(&listeners, Version::Resp2),
            memcached: address_of(&listeners, Version::Memcached),
            counters: Counters::default(),
            watches: Watches::default(),
            #[cfg(feature = "scripts")]
            scripts: Scripts::default(),
            durability: settings.durability,
            started: Instant::now(),
            run: RandomState::new().hash_one(0),
        });
        let mut server = Server::start_threads(context, listeners, settings.helpers)?;
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
        let (mut workers, mut threads) = (Vec::new(), Vec::new());
        for number in 0..context.workers {
            let helpers = (helpers.clone(), slow_helpers.clone(), script_helpers.clone());
            let (worker, mailbox) = Worker::new(context.clone(), helpers.0, helpers.1, helpers.2)
                .map_err(failed("cannot make a queue of events"))?;
            let thread = thread::Builder::new().name(format!("worker {number}"));
            threads.push(thread.spawn(move || worker.run()).map_err(failed("cannot start a thread"))?);
            workers.push(mailbox);
        }
        let (acceptor, stop) = Acceptor::new(listeners, context.clone(), workers.clone())
            .map_err(failed("cannot make a queue of events"))?;
        let thread = thread::Builder::new().name("acceptor".to_owned());
        threads.push(thread.spawn(move || acceptor.run()).map_err(failed("cannot start a thread"))?);
        let helpers = [helpers, slow_helpers, script_helpers];
        Ok(Server { context, acceptor: stop, workers, helpers, threads, helper_threads, metrics: None })
    }

    /// Returns the address that the clients of Redis connect to.
    pub fn redis_address(&self) -> Option<SocketAddr> {
        self.context.redis
    }

    /// Returns the address that the clients of memcached connect to.
    pub fn memcached_address(&self) -> Option<SocketAddr> {
        self.context.memcached
    }

    /// Returns the address of the metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(address, _)| *address)
    }

    /// Opens the files of all dictionaries again. Requests that run keep the old ones. Returns their number.
    ///
    /// # Errors
    /// Those of opening a dictionary. That one and the following ones are as they were.
    pub fn reload(&self) -> Result<usize, ServerError> {
        Ok(self.context.places.reload()?)
    }

    /// Accepts no more connections and no more requests, sends the replies of those that were executed, and makes
    /// everything durable.
    ///
    /// # Errors
    /// Errors of closing a database, and of a thread that failed.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.acceptor.stop();
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

/// Begins to listen at an address.
fn listen((address, version): (SocketAddr, Version)) -> Result<Listener, ServerError> {
    Ok((bind(address)?, version))
}

fn bind(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).map_err(|source| ServerError::Listen { address, source })
}

/// Returns the address of a protocol's listener.
fn address_of(listeners: &[Listener], version: Version) -> Option<SocketAddr> {
    listeners.iter().find(|(_, of)| *of == version)?.0.local_addr().ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_scripts();
        self.acceptor.stop();
        self.metrics.iter().for_each(|(_, stop)| stop.stop());
        self.workers.iter().for_each(|worker| worker.send(Message::Stop));
        self.helpers.iter().for_each(|helpers| helpers.stop());
    }
}

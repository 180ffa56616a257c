//! The server: cores, each with a socket and partitions of its own (dissertation 5.3.1 and 5.3.2).
//!
//! ```text
//! client ---> socket of core 0 ---> partitions 0, 2, ..
//!        ---> socket of core 1 ---> partitions 1, 3, ..
//!                     core 0 ---- mailbox ---> core 1       if the server redirects
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `settings` | the settings and their limits |
//! | `partitions` | opens the partitions: EREW, CREW, CRCW |
//! | `worker` | the loop of a core |
//! | `service` | executes a burst of packets |
//! | `mailbox` | forwarding in software |
//! | `counters` | statistics |
//!
//! Deviations: with the system's sockets a core has one port, which all its partitions share; the dissertation has
//! separate ports for partitions and cores, which the directory supports. The server is not NUMA-aware; on multi-node
//! machines run one server per node.

mod counters;
mod mailbox;
mod partitions;
mod service;
mod settings;
mod worker;

#[cfg(test)]
mod tests;

pub use counters::Counts;
pub use settings::ServerSettings;

use crate::protocol::Directory;
#[cfg(feature = "af-xdp")]
use crate::protocol::PACKET_BYTES_DEFAULT;
use crate::transport::{Transport, Udp, Waker, bind};
#[cfg(feature = "af-xdp")]
use crate::transport::{Xdp, XdpSettings, XdpSteering};
use counters::Counters;
use mailbox::{Bell, Mailboxes};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use service::{Echo, Service, Store};
use siltstone::RamAccount;
use siltstone_mica::{Account, Handles};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// Why a server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A setting is outside its limits.
    #[error("{name} = {problem}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The given value, and the limits.
        problem: String,
    },
    /// The partitions could not be allocated.
    #[error(transparent)]
    Memory(#[from] siltstone::Error),
    /// A socket could not be bound.
    #[error(
        "cannot listen at {address}: {source}; use another address or port, or end the process that uses it"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A core could not be started.
    #[error("cannot start core {core}: {source}")]
    Start {
        /// The number of the core.
        core: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// A core has stopped because of an error.
    #[error("core {core} has stopped: {source}")]
    Stopped {
        /// The number of the core.
        core: usize,
        /// The error.
        source: io::Error,
    },
}

/// The work and the memory of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// The counts of all cores together.
    pub counts: Counts,
    /// The counts of each core.
    pub cores: Vec<Counts>,
    /// Memory by item, in bytes, once all of it was touched.
    pub ram: RamAccount,
    /// The number of items, including expired ones; known when the server has stopped.
    pub items: Option<u64>,
}

/// A running server. It stops when it is dropped.
pub struct Server {
    cores: Vec<Core>,
    stop: Arc<AtomicBool>,
    directory: Arc<Directory>,
    addresses: Vec<SocketAddr>,
    ram: RamAccount,
}

struct Core {
    thread: Option<JoinHandle<io::Result<u64>>>,
    counters: Arc<Counters>,
    bell: Arc<Bell>,
}

/// Bound addresses, and what is derived from them.
struct Bound {
    bells: Vec<Arc<Bell>>,
    addresses: Vec<SocketAddr>,
    directory: Arc<Directory>,
}

impl Server {
    /// Starts a server with empty partitions.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn start(settings: &ServerSettings) -> Result<Server, ServerError> {
        let (bound, sockets) = listen(settings)?;
        let (services, account) = stores(settings, &bound)?;
        let cores = opening(sockets, settings.burst).zip(services).collect();
        launch(settings, bound, cores, account)
    }

    /// Starts a server that returns every packet unchanged: the baseline of benchmarks.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn echo(settings: &ServerSettings) -> Result<Server, ServerError> {
        let (bound, sockets) = listen(settings)?;
        let cores = opening(sockets, settings.burst).map(|open| (open, Echo)).collect();
        launch(settings, bound, cores, Account::default())
    }

    /// Starts a server over AF_XDP on an interface that has the address of the settings; the port must not be 0.
    ///
    /// # Errors
    /// See [`ServerError`].
    #[cfg(feature = "af-xdp")]
    pub fn start_xdp(settings: &ServerSettings, xdp: &XdpSettings) -> Result<Server, ServerError> {
        let (bound, steering) = take_ports(settings, xdp)?;
        let (services, account) = stores(settings, &bound)?;
        let cores = opening_xdp(settings, xdp, steering).zip(services).collect();
        launch(settings, bound, cores, account)
    }

    /// Like [`echo`](Server::echo), over AF_XDP.
    ///
    /// # Errors
    /// See [`ServerError`].
    #[cfg(feature = "af-xdp")]
    pub fn echo_xdp(settings: &ServerSettings, xdp: &XdpSettings) -> Result<Server, ServerError> {
        let (bound, steering) = take_ports(settings, xdp)?;
        let cores = opening_xdp(settings, xdp, steering).map(|open| (open, Echo)).collect();
        launch(settings, bound, cores, Account::default())
    }

    /// Returns the address of each core. All of them serve the directory.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns whether all cores are running. A core stops if its socket fails, and then all others do.
    pub fn is_running(&self) -> bool {
        !self.stop.load(SeqCst)
    }

    /// Returns the statistics so far. Cheap, and does not disturb the cores. A burst is counted after its replies were
    /// sent.
    pub fn stats(&self) -> ServerStats {
        let cores: Vec<Counts> = self.cores.iter().map(|core| core.counters.counts()).collect();
        let mut counts = Counts::default();
        cores.iter().for_each(|core| counts.add(core));
        ServerStats { counts, cores, ram: self.ram.clone(), items: None }
    }

    /// Stops all cores after their current bursts. The contents of the partitions are lost.
    ///
    /// # Errors
    /// [`ServerError::Stopped`] if a core had stopped because of an error.
    pub fn stop(mut self) -> Result<ServerStats, ServerError> {
        let mut items = 0;
        let mut failure = None;
        for (core, outcome) in self.join().into_iter().enumerate() {
            match outcome {
                Ok(own) => items += own,
                Err(source) => failure = failure.or(Some(ServerError::Stopped { core, source })),
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(ServerStats { items: Some(items), ..self.stats() }),
        }
    }

    fn join(&mut self) -> Vec<io::Result<u64>> {
        self.stop.store(true, SeqCst);
        self.cores.iter().for_each(|core| core.bell.waker.wake());
        let threads = self.cores.iter_mut().filter_map(|core| core.thread.take());
        let panicked = |_| Err(io::Error::other("the thread panicked"));
        threads.map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors are dropped here; `stop` returns them.
        self.join();
    }
}

/// Makes the stores of all cores, and returns their memory.
fn stores<P: Copy + Send>(
    settings: &ServerSettings,
    bound: &Bound,
) -> Result<(Vec<Store<P>>, Account), ServerError> {
    let (handles, account) = partitions::open(settings)?;
    let mail: Vec<Option<Mailboxes<P>>> = match settings.redirects {
        true => Mailboxes::all(&bound.bells).into_iter().map(Some).collect(),
        false => bound.bells.iter().map(|_| None).collect(),
    };
    let store = |(core, (handles, mail)): (usize, (Handles, _))| {
        Store::new(core, settings, handles, bound.directory.clone(), mail)
    };
    Ok((handles.into_iter().zip(mail).enumerate().map(store).collect(), account))
}

/// Returns how each core opens its transport on a socket.
fn opening(
    sockets: Vec<UdpSocket>,
    burst: usize,
) -> impl Iterator<Item = impl FnOnce(Waker) -> io::Result<Udp> + Send + 'static> {
    sockets.into_iter().map(move |socket| move |waker| Ok(Udp::new(socket, waker, burst)))
}

/// Redirects the ports of all cores from an interface to AF_XDP.
#[cfg(feature = "af-xdp")]
fn take_ports(
    settings: &ServerSettings,
    xdp: &XdpSettings,
) -> Result<(Bound, Arc<XdpSteering>), ServerError> {
    settings.check()?;
    if settings.port == 0 {
        let problem = "0: AF_XDP takes the ports that are stated, and the system gives none".to_owned();
        return Err(ServerError::Setting { name: "port", problem });
    }
    if settings.packet_bytes > PACKET_BYTES_DEFAULT || settings.address.is_ipv6() {
        let problem = format!("AF_XDP supports packets of at most {PACKET_BYTES_DEFAULT} bytes, over IPv4");
        return Err(ServerError::Setting { name: "packet_bytes", problem });
    }
    let addresses: Vec<SocketAddr> = (0..settings.cores).map(|core| settings.address_of(core)).collect();
    let failed = |source| ServerError::Listen { address: addresses[0], source };
    let steering = XdpSteering::attach(xdp, settings.port, settings.cores as u16).map_err(failed)?;
    Ok((Bound::new(settings, addresses)?, steering))
}

/// Returns how each core opens the socket of its queue.
#[cfg(feature = "af-xdp")]
fn opening_xdp(
    settings: &ServerSettings,
    xdp: &XdpSettings,
    steering: Arc<XdpSteering>,
) -> impl Iterator<Item = impl FnOnce(Waker) -> io::Result<Xdp> + Send + 'static> {
    let burst = settings.burst;
    let queues = (xdp.first_queue..).take(settings.cores);
    queues.map(move |queue| {
        let steering = steering.clone();
        move |waker| Xdp::open(steering, queue, burst, waker)
    })
}

/// Binds the sockets of all cores.
fn listen(settings: &ServerSettings) -> Result<(Bound, Vec<UdpSocket>), ServerError> {
    settings.check()?;
    let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
    for core in 0..settings.cores {
        let address = settings.address_of(core);
        let failed = |source| ServerError::Listen { address, source };
        let socket = bind(address, settings.socket_bytes).map_err(failed)?;
        addresses.push(socket.local_addr().map_err(failed)?);
        sockets.push(socket);
    }
    Ok((Bound::new(settings, addresses)?, sockets))
}

impl Bound {
    fn new(settings: &ServerSettings, addresses: Vec<SocketAddr>) -> Result<Bound, ServerError> {
        let bell = |core| match Waker::new() {
            Ok(waker) => Ok(Bell::new(waker)),
            Err(source) => Err(ServerError::Start { core, source }),
        };
        let bells = (0..settings.cores).map(bell).collect::<Result<Vec<_>, _>>()?;
        let core_ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
        let random = RandomState::new();
        let directory = Directory {
            epoch: random.hash_one(2) as u16,
            access: settings.access,
            redirects: settings.redirects,
            lossy: settings.eviction.is_some(),
            packet_bytes: settings.packet_bytes,
            seed: [random.hash_one(0), random.hash_one(1)],
            partition_ports: core_ports.iter().cycle().take(settings.partitions as usize).copied().collect(),
            core_ports,
        };
        Ok(Bound { bells, addresses, directory: Arc::new(directory) })
    }
}

/// Starts a thread per core, and returns when all of them serve. A transport is opened in the thread that uses it.
fn launch<T, S, F>(
    settings: &ServerSettings,
    bound: Bound,
    cores: Vec<(F, S)>,
    account: Account,
) -> Result<Server, ServerError>
where
    T: Transport,
    S: Service<T::Peer> + Send + 'static,
    F: FnOnce(Waker) -> io::Result<T> + Send + 'static,
{
    let Bound { bells, addresses, directory } = bound;
    let (burst, packet_bytes) = (settings.burst, settings.packet_bytes);
    let mut server =
        Server { cores: Vec::new(), stop: Arc::default(), directory, addresses, ram: ram(settings, account) };
    let mut started = Vec::new();
    for (core, (bell, (open, service))) in bells.iter().zip(cores).enumerate() {
        let counters = Arc::new(Counters::default());
        let (stop, own_counters, own_bell) = (server.stop.clone(), counters.clone(), bell.clone());
        let all_bells = bells.clone();
        let processor = settings.processors.get(core).copied();
        let (ready, is_ready) = sync_channel(1);
        let work = move || {
            let opened = stay_on(processor).and_then(|()| open(own_bell.waker.clone()));
            let (result, transport) = match opened {
                Ok(transport) => (Ok(()), Some(transport)),
                Err(source) => (Err(source), None),
            };
            // The thread that starts the server waits for this.
            let _ = ready.send(result);
            let Some(transport) = transport else { return Ok(0) };
            let shared = worker::Shared { counters: &own_counters, bell: &own_bell, stop: &stop };
            let outcome = worker::run(transport, service, (burst, packet_bytes), &shared);
            // When one core stops, for whatever reason, all do.
            stop.store(true, SeqCst);
            all_bells.iter().for_each(|bell| bell.waker.wake());
            outcome
        };
        let failed = |source| ServerError::Start { core, source };
        let thread = std::thread::Builder::new().name(format!("mica-{core}")).spawn(work).map_err(failed)?;
        server.cores.push(Core { thread: Some(thread), counters, bell: bell.clone() });
        started.push(is_ready);
    }
    for (core, is_ready) in started.into_iter().enumerate() {
        let result = is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
        result.map_err(|source| ServerError::Start { core, source })?;
    }
    Ok(server)
}

/// Returns the memory of a server, by item.
fn ram(settings: &ServerSettings, account: Account) -> RamAccount {
    let mut ram = RamAccount::default();
    ram.add("index", account.index_bytes);
    ram.add("items", account.item_bytes);
    ram.add("free lists", account.writer_bytes);
    ram.add("packets", (settings.cores * 2 * settings.burst * settings.packet_bytes) as u64);
    ram
}

/// Pins this thread to a processor, if one is given.
fn stay_on(processor: Option<usize>) -> io::Result<()> {
    let Some(processor) = processor else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(processor)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

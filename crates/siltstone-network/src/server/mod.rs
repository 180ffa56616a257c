//! The server: cores, each with a socket and partitions of its own (dissertation 5.3.1 and 5.3.2).
//!
//! | file | what |
//! |---|---|
//! | `settings` | what can be chosen |
//! | `hands` | what a core has of each partition: EREW, CREW, CRCW |
//! | `worker` | the loop of a core |
//! | `service` | what it does about a burst of packets |
//! | `mailbox` | forwarding in software |
//! | `counters` | what is counted |
//!
//! Deviations: with sockets of the system a core has one port, so those of its partitions are the same; the
//! dissertation keeps ports of partitions and of cores apart, as the directory still can. Nothing is bound to NUMA
//! nodes: who has several runs a server on each.

mod counters;
mod hands;
mod mailbox;
mod service;
mod settings;
mod worker;

#[cfg(test)]
mod tests;

pub use counters::Counts;
pub use settings::ServerSettings;

use crate::protocol::Directory;
use crate::transport::{Udp, Waker, bind};
use counters::Counters;
use hands::Hands;
use mailbox::{Bell, Mailboxes};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::SockaddrStorage;
use nix::unistd::Pid;
use service::{Echo, Service, Store};
use siltstone::RamAccount;
use siltstone::mica::Account;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
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
        /// What was given, and the limits.
        problem: String,
    },
    /// The partitions could not be made.
    #[error(transparent)]
    Memory(#[from] siltstone::Error),
    /// No socket could be had at an address.
    #[error("cannot listen at {address}: {source}; choose another address or port, or end what has it")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system did not give what a core needs.
    #[error("cannot start core {core}: {source}")]
    Start {
        /// Its number.
        core: usize,
        /// What the system says.
        source: io::Error,
    },
    /// A core has stopped by itself.
    #[error("core {core} has stopped: {source}")]
    Stopped {
        /// Its number.
        core: usize,
        /// Why.
        source: io::Error,
    },
}

/// What a server has done and holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// What all cores have counted.
    pub counts: Counts,
    /// What each core has counted.
    pub cores: Vec<Counts>,
    /// Memory by item, in bytes, as it is when all of it was touched.
    pub ram: RamAccount,
    /// The items, expired ones included; known when the server has stopped.
    pub items: Option<u64>,
}

/// A server that runs. It stops when it is dropped.
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

/// Sockets that are bound, and what follows from them.
struct Bound {
    sockets: Vec<UdpSocket>,
    bells: Vec<Arc<Bell>>,
    addresses: Vec<SocketAddr>,
    directory: Arc<Directory>,
}

impl Server {
    /// Starts a server with empty partitions.
    ///
    /// # Errors
    /// [`ServerError`], as its variants say.
    pub fn start(settings: &ServerSettings) -> Result<Server, ServerError> {
        let bound = listen(settings)?;
        let (hands, account) = hands::open(settings)?;
        let mail: Vec<Option<Mailboxes<SockaddrStorage>>> = match settings.redirects {
            true => Mailboxes::all(&bound.bells).into_iter().map(Some).collect(),
            false => bound.bells.iter().map(|_| None).collect(),
        };
        let service = |(core, (hands, mail)): (usize, (Hands, _))| {
            Store::new(core, settings, hands, bound.directory.clone(), mail)
        };
        let services = hands.into_iter().zip(mail).enumerate().map(service).collect();
        launch(settings, bound, services, account)
    }

    /// Starts a server that answers every packet with itself and does nothing else: the yardstick of benchmarks.
    ///
    /// # Errors
    /// [`ServerError`], as its variants say.
    pub fn echo(settings: &ServerSettings) -> Result<Server, ServerError> {
        let services = (0..settings.cores).map(|_| Echo).collect();
        launch(settings, listen(settings)?, services, Account::default())
    }

    /// The address of each core. Any of them tells the directory.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What clients are told.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Whether all cores are at work. One ends by itself if its socket fails, and then so do all.
    pub fn is_running(&self) -> bool {
        !self.stop.load(SeqCst)
    }

    /// What it has done until now. Cheap; the cores are not disturbed.
    pub fn stats(&self) -> ServerStats {
        let cores: Vec<Counts> = self.cores.iter().map(|core| core.counters.counts()).collect();
        let mut counts = Counts::default();
        cores.iter().for_each(|core| counts.add(core));
        ServerStats { counts, cores, ram: self.ram.clone(), items: None }
    }

    /// Stops all cores, after the bursts that they have in hand. What stands in the partitions is gone.
    ///
    /// # Errors
    /// [`ServerError::Stopped`] if one had stopped by itself.
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
        let panicked = |_| Err(io::Error::other("it ended in a panic"));
        threads.map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody is left to be told; `stop` is there for those who want to know.
        self.join();
    }
}

/// Binds the sockets of all cores.
fn listen(settings: &ServerSettings) -> Result<Bound, ServerError> {
    settings.check()?;
    let (mut sockets, mut addresses, mut bells) = (Vec::new(), Vec::new(), Vec::new());
    for core in 0..settings.cores {
        let address = settings.address_of(core);
        let failed = |source| ServerError::Listen { address, source };
        let socket = bind(address, settings.socket_bytes).map_err(failed)?;
        addresses.push(socket.local_addr().map_err(failed)?);
        sockets.push(socket);
        bells.push(Bell::new(Waker::new().map_err(|source| ServerError::Start { core, source })?));
    }
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
    Ok(Bound { sockets, bells, addresses, directory: Arc::new(directory) })
}

/// Starts a thread for each core.
fn launch<S: Service<SockaddrStorage> + Send + 'static>(
    settings: &ServerSettings,
    bound: Bound,
    services: Vec<S>,
    account: Account,
) -> Result<Server, ServerError> {
    let Bound { sockets, bells, addresses, directory } = bound;
    let (burst, packet_bytes) = (settings.burst, settings.packet_bytes);
    let mut ram = RamAccount::default();
    ram.add("index", account.index_bytes);
    ram.add("items", account.item_bytes);
    ram.add("free lists", account.writer_bytes);
    ram.add("packets", (settings.cores * 2 * burst * packet_bytes) as u64);
    let mut server = Server { cores: Vec::new(), stop: Arc::default(), directory, addresses, ram };
    for (core, ((socket, bell), service)) in sockets.into_iter().zip(&bells).zip(services).enumerate() {
        let counters = Arc::new(Counters::default());
        let (stop, own_counters, own_bell) = (server.stop.clone(), counters.clone(), bell.clone());
        let all_bells = bells.clone();
        let processor = settings.processors.get(core).copied();
        let work = move || {
            let outcome = stay_on(processor).and_then(|()| {
                let shared = worker::Shared { counters: &own_counters, bell: &own_bell, stop: &stop };
                let transport = Udp::new(socket, own_bell.waker.clone(), burst);
                worker::run(transport, service, (burst, packet_bytes), &shared)
            });
            // All cores end together, whatever the reason of the first.
            stop.store(true, SeqCst);
            all_bells.iter().for_each(|bell| bell.waker.wake());
            outcome
        };
        let thread = std::thread::Builder::new().name(format!("mica-{core}")).spawn(work);
        let thread = Some(thread.map_err(|source| ServerError::Start { core, source })?);
        server.cores.push(Core { thread, counters, bell: bell.clone() });
    }
    Ok(server)
}

/// Keeps this thread on a processor, if one is named.
fn stay_on(processor: Option<usize>) -> io::Result<()> {
    let Some(processor) = processor else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(processor)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

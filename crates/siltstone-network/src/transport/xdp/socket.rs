//! An AF_XDP socket on one queue of a network card.

use super::frame::{self, Flow, HEADERS_BYTES};
use super::program::Program;
use crate::transport::{Burst, Transport, Waker};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{CompletionRing, RingConfigBuilder, RxRing, Umem, WakableFillRing, WakableRings, WakableTxRing};

/// Frames of 2 KiB in the memory that is shared with the kernel: half for receiving, half for sending.
const FRAMES: u32 = 4_096;
/// The number of packets that the kernel sends per call.
const SEND_MAX: usize = 32;
/// The time after which a queue that is in use is an error.
const QUEUE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Where AF_XDP is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpSettings {
    /// The name of the interface. Core n uses its queue `first_queue` + n.
    pub interface: String,
    /// The queue of the first core.
    pub first_queue: u32,
    /// Whether packets are taken after the driver (generic mode), even if the driver supports AF_XDP. Works with every
    /// interface and is slower.
    pub generic: bool,
}

/// The program that takes packets from an interface. It is detached when the last of its sockets is dropped.
pub struct XdpSteering {
    interface: NicIndex,
    program: Program,
}

/// An AF_XDP socket. It must be used in the thread that makes it.
pub struct Xdp {
    // Dropped in this order: rings and socket before the memory that they use.
    receiving: RxRing,
    filling: WakableFillRing,
    sending: WakableTxRing,
    completed: CompletionRing,
    socket: XdpSocket,
    waker: Waker,
    arrived: HeapSlab,
    leaving: HeapSlab,
    memory: Umem,
    _steering: Arc<XdpSteering>,
}

impl XdpSteering {
    /// Takes datagrams to `count` ports from `first_port` on from an interface.
    ///
    /// # Errors
    /// Errors of the system: there is no such interface, another program is attached to it, or permission is missing.
    pub fn attach(settings: &XdpSettings, first_port: u16, count: u16) -> io::Result<Arc<XdpSteering>> {
        let no_interface =
            || io::Error::new(io::ErrorKind::NotFound, format!("no interface {}", settings.interface));
        let name = CString::new(settings.interface.clone()).map_err(|_| no_interface())?;
        let interface = NicIndex::lookup_by_name(&name)?.ok_or_else(no_interface)?;
        let ports = first_port..=first_port.saturating_add(count.saturating_sub(1));
        let queues = settings.first_queue + u32::from(count);
        let program = Program::attach(interface.into(), ports, queues, settings.generic)?;
        Ok(Arc::new(XdpSteering { interface, program }))
    }
}

fn failed(error: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("AF_XDP: {error:?}"))
}

/// Binds a socket. If the queue is in use, tries again: the kernel frees a queue some time after its socket was closed,
/// so a server that is stopped and started finds it busy.
fn bind_to_free_queue(interface: NicIndex, queue: u32) -> io::Result<(Umem, WakableRings, XdpSocket)> {
    let begin = Instant::now();
    loop {
        match bind(interface, queue) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < QUEUE_WAIT_MAX => {
                thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
}

/// Binds a socket with its own memory to a queue.
fn bind(interface: NicIndex, queue: u32) -> io::Result<(Umem, WakableRings, XdpSocket)> {
    let frames = UmemCfgBuilder { frame_size: FrameSize::TwoK, frame_count: FRAMES, ..Default::default() };
    let memory = Umem::map(frames.build().map_err(failed)?)?;
    let half = FRAMES / 2;
    let rings =
        RingConfigBuilder { rx_count: half, tx_count: half, fill_count: half, completion_count: half };
    let mut builder = XdpSocketBuilder::new().map_err(failed)?;
    let (rings, flags) =
        builder.build_wakable_rings(&memory, rings.build().map_err(failed)?).map_err(failed)?;
    let socket = builder.bind(interface, queue, flags).map_err(|error| match error {
        SocketError::Bind(error) => {
            io::Error::new(error.kind(), format!("AF_XDP: cannot bind to queue {queue}: {error}"))
        }
        other => failed(other),
    })?;
    Ok((memory, rings, socket))
}

impl Xdp {
    /// Opens a socket on a queue, for bursts of at most `burst` packets.
    ///
    /// # Errors
    /// Errors of the system: there is no such queue, it already has a socket, or permission is missing.
    pub fn open(steering: Arc<XdpSteering>, queue: u32, burst: usize, waker: Waker) -> io::Result<Xdp> {
        let (mut memory, rings, socket) = bind_to_free_queue(steering.interface, queue)?;
        let (Some(receiving), Some(sending)) = (rings.rx_ring, rings.tx_ring) else {
            return Err(failed("a ring is missing"));
        };
        let mut filling = rings.fill_ring;
        // SAFETY: the memory is dropped after the socket.
        unsafe { filling.enqueue(&mut memory, FRAMES as usize / 2, true) }?;
        steering.program.direct(queue, socket.as_raw_fd())?;
        Ok(Xdp {
            receiving,
            filling,
            sending,
            completed: rings.completion_ring,
            socket,
            waker,
            arrived: HeapSlab::with_capacity(burst),
            leaving: HeapSlab::with_capacity(SEND_MAX),
            memory,
            _steering: steering,
        })
    }

    /// Passes packets to the kernel; returns how many it refused.
    fn hand_over(&mut self) -> io::Result<usize> {
        // SAFETY: the packets are in the memory of this socket, which is dropped after it.
        let outcome = unsafe { self.sending.send(&mut self.leaving, true) };
        match outcome {
            Ok(_) => {}
            // The packets are in the ring, and are sent with the next call.
            Err(error)
                if [Errno::EAGAIN, Errno::EBUSY, Errno::ENOBUFS, Errno::ENETDOWN]
                    .map(|passing| Some(passing as i32))
                    .contains(&error.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        let mut refused = 0;
        while let Some(packet) = self.leaving.pop_back() {
            self.memory.free_packet(packet);
            refused += 1;
        }
        Ok(refused)
    }
}

impl Transport for Xdp {
    type Peer = Flow;

    fn receive(&mut self, burst: &mut Burst<Flow>) -> io::Result<()> {
        burst.clear();
        // SAFETY: every packet is returned to the memory below.
        unsafe { self.receiving.recv(&self.memory, &mut self.arrived) };
        let mut taken = 0;
        while let Some(packet) = self.arrived.pop_back() {
            if let Some((flow, payload)) = frame::parse(&packet) {
                burst.push_cut(flow, payload);
            }
            self.memory.free_packet(packet);
            taken += 1;
        }
        if taken > 0 {
            // SAFETY: the memory is dropped after the socket.
            unsafe { self.filling.enqueue(&mut self.memory, taken, false) }?;
        }
        Ok(())
    }

    fn send(&mut self, burst: &Burst<Flow>) -> io::Result<usize> {
        self.completed.dequeue(&mut self.memory, FRAMES as usize);
        let mut refused = 0;
        for (payload, flow) in burst.packets() {
            // SAFETY: the packet is sent or freed before the memory is dropped.
            let Some(mut packet) = (unsafe { self.memory.alloc() }) else {
                refused += 1;
                continue;
            };
            let headers: [u8; HEADERS_BYTES] = frame::headers(&flow, payload);
            if packet.append(&headers).and_then(|()| packet.append(payload)).is_err() {
                self.memory.free_packet(packet);
                refused += 1;
                continue;
            }
            if let Some(packet) = self.leaving.push_front(packet) {
                self.memory.free_packet(packet);
                refused += 1;
            }
            if self.leaving.len() == SEND_MAX {
                refused += self.hand_over()?;
            }
        }
        if !self.leaving.is_empty() {
            refused += self.hand_over()?;
        }
        Ok(refused)
    }

    fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        // SAFETY: the socket is open during the lifetime of `self`.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) };
        let mut both =
            [PollFd::new(socket, PollFlags::POLLIN), PollFd::new(self.waker.descriptor(), PollFlags::POLLIN)];
        let limit = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut both, limit) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if both[1].any().unwrap_or(false) {
            self.waker.clear();
        }
        Ok(())
    }
}

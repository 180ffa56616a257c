//! UDP sockets of the system, with `recvmmsg` and `sendmmsg`.

use super::{Burst, Transport, Waker};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, SndBuf, SndBufForce};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// A UDP socket with the buffers for bursts.
pub struct Udp {
    socket: UdpSocket,
    waker: Waker,
    received: MultiHeaders<SockaddrStorage>,
    sent: MultiHeaders<SockaddrStorage>,
    addresses: Vec<Option<SockaddrStorage>>,
}

/// Binds a socket whose buffers have `buffer_bytes`, as far as the system allows it.
///
/// # Errors
/// Errors of the system: the address is in use, or is not one of this machine.
pub fn bind(address: SocketAddr, buffer_bytes: usize) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    // A privileged process may exceed the limits of the system.
    if setsockopt(&socket, RcvBufForce, &buffer_bytes).is_err() {
        let _ = setsockopt(&socket, RcvBuf, &buffer_bytes);
    }
    if setsockopt(&socket, SndBufForce, &buffer_bytes).is_err() {
        let _ = setsockopt(&socket, SndBuf, &buffer_bytes);
    }
    Ok(socket)
}

/// Returns the address of a peer, if it is an IP address.
pub fn address_of(peer: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = peer.as_sockaddr_in().map(|one| SocketAddr::V4((*one).into()));
    v4.or_else(|| peer.as_sockaddr_in6().map(|one| SocketAddr::V6((*one).into())))
}

impl Udp {
    /// Makes a transport for bursts of at most `burst` packets. It must be used in the thread that makes it.
    pub fn new(socket: UdpSocket, waker: Waker, burst: usize) -> Udp {
        Udp {
            socket,
            waker,
            received: MultiHeaders::preallocate(burst, None),
            sent: MultiHeaders::preallocate(burst, None),
            addresses: Vec::with_capacity(burst),
        }
    }

    /// Returns the address of the socket.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Returns whether an error is temporary, or concerns a packet and not the socket.
fn is_passing(error: Errno) -> bool {
    matches!(
        error,
        Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH
    )
}

impl Transport for Udp {
    type Peer = SockaddrStorage;

    fn receive(&mut self, burst: &mut Burst<SockaddrStorage>) -> io::Result<()> {
        let (buffers, mut add) = burst.receive_into();
        let mut buffers: Vec<[IoSliceMut<'_>; 1]> = buffers.map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let descriptor = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        match recvmmsg(descriptor, &mut self.received, buffers.iter_mut(), flags, None) {
            Ok(messages) => {
                for message in messages {
                    if let Some(peer) = message.address {
                        add(message.bytes, !message.flags.contains(MsgFlags::MSG_TRUNC), peer);
                    }
                }
                Ok(())
            }
            Err(error) if is_passing(error) || error == Errno::ENOMEM => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self, burst: &Burst<SockaddrStorage>) -> io::Result<usize> {
        let packets: Vec<[IoSlice<'_>; 1]> =
            burst.packets().map(|(bytes, _)| [IoSlice::new(bytes)]).collect();
        self.addresses.clear();
        self.addresses.extend(burst.packets().map(|(_, peer)| Some(peer)));
        let (mut done, mut refused) = (0, 0);
        while done < packets.len() {
            let descriptor = self.socket.as_raw_fd();
            let addresses = &self.addresses[done..];
            let sent =
                sendmmsg(descriptor, &mut self.sent, &packets[done..], addresses, [], MsgFlags::empty());
            match sent {
                // It stops before a refused packet, and the next call returns the reason.
                Ok(messages) => done += messages.count().max(1),
                Err(Errno::EINTR) => {}
                Err(Errno::EBADF | Errno::ENOTSOCK) => return Err(Errno::EBADF.into()),
                Err(_) => {
                    refused += 1;
                    done += 1;
                }
            }
        }
        Ok(refused)
    }

    fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let mut both = [
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.waker.descriptor(), PollFlags::POLLIN),
        ];
        // Rounded up: a wait that is too short would have to be repeated at once.
        let limit = limit.map_or(PollTimeout::NONE, |limit| {
            let ms = limit.as_nanos().div_ceil(1_000_000);
            PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
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

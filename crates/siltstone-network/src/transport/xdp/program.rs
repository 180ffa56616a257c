//! The kernel program that takes the packets of a server's ports from the network stack. Its 27 instructions are
//! written out here, so no compiler or library is needed to build it.

use nix::libc;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_TYPE_SOCKETS: u32 = 17;
const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const GENERIC_MODE: u32 = 1 << 1;
/// The action for packets to other ports.
const PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;
const LICENSE: &[u8] = b"Dual MIT/GPL\0";

/// An attached program. It is detached when it is dropped.
pub struct Program {
    sockets: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
}

/// The arguments of a call: 32-bit numbers, two per word, and 64-bit words.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
struct Arguments([u64; 16]);

impl Arguments {
    fn pair(mut self, at: usize, low: u32, high: u32) -> Self {
        self.0[at] = u64::from(low) | u64::from(high) << 32;
        self
    }

    fn word(mut self, at: usize, word: u64) -> Self {
        self.0[at] = word;
        self
    }
}

/// Calls bpf(2).
///
/// # Safety
/// Everything that the arguments point to must be valid for the reads and writes of the command.
unsafe fn call(command: libc::c_long, arguments: &Arguments) -> io::Result<libc::c_int> {
    // SAFETY: the arguments live during the call, and the caller guarantees what they point to.
    let outcome = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(arguments), size_of::<Arguments>())
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as libc::c_int) }
}

/// Makes a [`call`] that creates a descriptor.
///
/// # Safety
/// As for [`call`].
unsafe fn create(command: libc::c_long, arguments: &Arguments, what: &str) -> io::Result<OwnedFd> {
    // SAFETY: as the caller promises.
    let descriptor = unsafe { call(command, arguments) }.map_err(|error| named(&error, what))?;
    // SAFETY: the kernel has just created the descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

impl Program {
    /// Attaches to an interface: datagrams to these ports go to the socket of the queue that they arrived in, if there
    /// is one; everything else remains with the system.
    pub fn attach(
        interface: u32,
        ports: RangeInclusive<u16>,
        queues: u32,
        generic: bool,
    ) -> io::Result<Program> {
        let map = Arguments::default().pair(0, MAP_TYPE_SOCKETS, 4).pair(1, 4, queues);
        // SAFETY: the arguments have no pointers.
        let sockets = unsafe { create(MAP_CREATE, &map, "make a map of sockets") }?;
        let code = instructions(sockets.as_raw_fd(), ports);
        let load = Arguments::default()
            .pair(0, PROGRAM_TYPE_XDP, code.len() as u32)
            .word(1, code.as_ptr() as u64)
            .word(2, LICENSE.as_ptr() as u64)
            .pair(8, 0, ATTACH_TYPE_XDP);
        // SAFETY: the code has the stated number of instructions, the license ends with 0, and both outlive the call.
        let program = unsafe { create(PROGRAM_LOAD, &load, "load the program") }?;
        let flags = if generic { GENERIC_MODE } else { 0 };
        let attach = Arguments::default().pair(0, program.as_raw_fd() as u32, interface).pair(
            1,
            ATTACH_TYPE_XDP,
            flags,
        );
        // SAFETY: the arguments have no pointers.
        let link = unsafe { create(LINK_CREATE, &attach, "attach the program") }?;
        Ok(Program { sockets, _program: program, _link: link })
    }

    /// Sends the packets of a queue to a socket.
    pub fn direct(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        let socket = socket as u32;
        let update = Arguments::default()
            .pair(0, self.sockets.as_raw_fd() as u32, 0)
            .word(1, std::ptr::from_ref(&queue) as u64)
            .word(2, std::ptr::from_ref(&socket) as u64);
        // SAFETY: key and value have 4 bytes, as the map requires, and outlive the call.
        unsafe { call(MAP_UPDATE, &update) }.map(drop).map_err(|error| named(&error, "name the socket"))
    }
}

fn named(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("AF_XDP: cannot {what}: {error} (requires root, or CAP_NET_ADMIN and CAP_BPF)"),
    )
}

/// Encodes an instruction: code, registers, offset, number.
fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    u64::from(code)
        | u64::from(to | from << 4) << 8
        | u64::from(offset as u16) << 16
        | u64::from(number as u32) << 32
}

// Codes of instructions.
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const AND_NUMBER: u8 = 0x57;
const TO_BIG_ENDIAN: u8 = 0xdc;
const LOAD_8: u8 = 0x71;
const LOAD_16: u8 = 0x69;
const LOAD_32: u8 = 0x61;
const LOAD_NUMBER_64: u8 = 0x18;
const JUMP_GREATER: u8 = 0x2d;
const JUMP_GREATER_NUMBER: u8 = 0x25;
const JUMP_LESS_NUMBER: u8 = 0xa5;
const JUMP_UNEQUAL_NUMBER: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Returns the program: register 1 points to the packet and its queue, register 0 has the result.
fn instructions(map: RawFd, ports: RangeInclusive<u16>) -> Vec<u64> {
    // The instruction where a packet is passed on; jumps are relative to the instruction after them.
    const PASS_AT: usize = 25;
    let (first, last) = ports.into_inner();
    let mut code = vec![
        instruction(MOVE, 6, 1, 0, 0),
        // Register 2 has the beginning of the packet, register 3 its end.
        instruction(LOAD_32, 2, 1, 0, 0),
        instruction(LOAD_32, 3, 1, 4, 0),
        instruction(MOVE, 4, 2, 0, 0),
        instruction(ADD_NUMBER, 4, 0, 0, 42),
    ];
    let unless = |code: &mut Vec<u64>, jump: u8, register: u8, other: u8, number: i32| {
        let over = (PASS_AT - code.len() - 1) as i16;
        code.push(instruction(jump, register, other, over, number));
    };
    unless(&mut code, JUMP_GREATER, 4, 3, 0);
    // Bytes are loaded in the byte order of the machine.
    let ethernet_type = i32::from(u16::from_ne_bytes([0x08, 0x00]));
    let fragment_mask = i32::from(u16::from_ne_bytes([0x3f, 0xff]));
    for (load, offset, expected) in [(LOAD_16, 12, ethernet_type), (LOAD_8, 14, 0x45), (LOAD_8, 23, 17)] {
        code.push(instruction(load, 5, 2, offset, 0));
        unless(&mut code, JUMP_UNEQUAL_NUMBER, 5, 0, expected);
    }
    code.push(instruction(LOAD_16, 5, 2, 20, 0));
    code.push(instruction(AND_NUMBER, 5, 0, 0, fragment_mask));
    unless(&mut code, JUMP_UNEQUAL_NUMBER, 5, 0, 0);
    code.push(instruction(LOAD_16, 5, 2, 36, 0));
    code.push(instruction(TO_BIG_ENDIAN, 5, 0, 0, 16));
    unless(&mut code, JUMP_LESS_NUMBER, 5, 0, first.into());
    unless(&mut code, JUMP_GREATER_NUMBER, 5, 0, last.into());
    code.extend([
        // Redirect to the socket of the queue; pass if there is none.
        instruction(LOAD_32, 2, 6, 16, 0),
        instruction(LOAD_NUMBER_64, 1, 1, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE_NUMBER, 3, 0, 0, PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    debug_assert_eq!(code.len(), PASS_AT);
    code.extend([instruction(MOVE_NUMBER, 0, 0, 0, PASS), instruction(EXIT, 0, 0, 0, 0)]);
    code
}

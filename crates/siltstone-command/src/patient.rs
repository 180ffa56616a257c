//! Input that may keep a command waiting.

use crate::interrupt::Interrupt;
use crate::outcome::complain;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IsTerminal, Read, stdin};
use std::os::fd::AsFd;
use std::path::Path;

/// Opens standard input or a file, for long reads.
pub fn open(path: &Path, interrupt: &Interrupt) -> anyhow::Result<Patient> {
    let is_standard_input = path == Path::new("-");
    let file = match is_standard_input {
        true => File::from(stdin().as_fd().try_clone_to_owned()?),
        false => File::open(path).with_context(|| format!("cannot open {}", path.display()))?,
    };
    let name = if is_standard_input { "standard input".to_owned() } else { path.display().to_string() };
    Ok(Patient { file, name, interrupt: interrupt.clone(), polls: 0 })
}

/// Input that may keep the command waiting: the user gets a message, and can stop the command.
pub struct Patient {
    file: File,
    name: String,
    interrupt: Interrupt,
    /// The polls without input since the start. No message is printed once input has arrived.
    polls: u64,
}

/// The maximum time until a signal is noticed, in nanoseconds.
const POLL_NS: i64 = 50_000_000;
/// The number of polls of a quiet pipe after which the message is printed.
const POLLS_UNTIL_TOLD: u64 = 20;

impl Patient {
    fn wait(&mut self) -> io::Result<()> {
        loop {
            self.interrupt.check()?;
            let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: POLL_NS })) {
                Ok(0) => {}
                Ok(_) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            self.polls = self.polls.saturating_add(1);
            if self.polls == if self.file.is_terminal() { 1 } else { POLLS_UNTIL_TOLD } {
                complain(format_args!(
                    "waiting for {}; Ctrl-D ends the input, Ctrl-C stops the command",
                    self.name
                ));
            }
        }
        self.polls = u64::MAX;
        Ok(())
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        self.file.read(buffer)
    }
}

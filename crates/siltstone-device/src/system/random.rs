//! Unpredictable numbers from the operating system.

use crate::error::{Error, Result};
use std::io;

/// Returns an unpredictable number.
///
/// # Errors
/// [`Error::Io`] if the system has no source of random bytes.
pub fn random_number() -> Result<u64> {
    let mut number = [0; 8];
    fill(&mut number).map_err(Error::io("read random bytes from", SOURCE))?;
    Ok(u64::from_le_bytes(number))
}

#[cfg(target_os = "linux")]
const SOURCE: &str = "the system";

#[cfg(target_os = "linux")]
fn fill(number: &mut [u8; 8]) -> io::Result<()> {
    // Up to 256 bytes are never returned in part, and the call is not interrupted once the source is initialized.
    match rustix::io::retry_on_intr(|| {
        rustix::rand::getrandom(&mut *number, rustix::rand::GetRandomFlags::empty())
    })? {
        8 => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(not(target_os = "linux"))]
const SOURCE: &str = "/dev/urandom";

#[cfg(not(target_os = "linux"))]
fn fill(number: &mut [u8; 8]) -> io::Result<()> {
    use std::io::Read;
    std::fs::File::open(SOURCE)?.read_exact(number)
}

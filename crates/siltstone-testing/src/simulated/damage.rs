//! Damage at rest: what a drive can do to data that it had written correctly.

use super::SECTOR_BYTES;
use super::content::{Content, sector_range};
use super::disk::Disk;
use std::io;

/// Damage to a file that no call reports. Sectors are numbered from the beginning of the file; sectors after its end
/// are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// A bit is flipped. Bits are numbered from the lowest one of the first byte.
    FlipBit(u64),
    /// Two sectors are swapped.
    SwapSectors(u64, u64),
    /// A lost write: a sector has the bytes from before it was last overwritten, or zeros if it was not.
    StaleSector(u64),
    /// A misdirected write: the bytes of a sector are also in another one.
    MisdirectedSector {
        /// The sector whose bytes they are.
        from: u64,
        /// The sector that is overwritten.
        to: u64,
    },
}

impl Damage {
    fn random(file_bytes: usize, random: &mut fastrand::Rng) -> Damage {
        let sectors = file_bytes.div_ceil(SECTOR_BYTES) as u64;
        let mut sector = || random.u64(..sectors);
        let (one, other) = (sector(), sector());
        match random.u8(..8) {
            0..5 => Damage::FlipBit(random.u64(..file_bytes as u64 * 8)),
            5 => Damage::SwapSectors(one, other),
            6 => Damage::StaleSector(one),
            _ => Damage::MisdirectedSector { from: one, to: other },
        }
    }
}

impl Disk {
    pub fn damage(&mut self, name: &str, damage: Damage) -> io::Result<bool> {
        let inode = self.find(name)?;
        let content = self.content(inode)?;
        let before = content.written.clone();
        content.damage(damage);
        Ok(content.written != before)
    }

    /// Damages a random file. If that changes nothing, as a sector swapped with itself, flips a bit.
    pub fn damage_at_random(&mut self, random: &mut fastrand::Rng) -> Option<(String, Damage)> {
        let length = |inode| self.files.get(inode).map_or(0, |content| content.written.len());
        let full: Vec<_> = self.entries.iter().filter(|(_, inode)| length(inode) > 0).collect();
        let (name, inode) = full.get(random.usize(..full.len().max(1)))?;
        let (name, length) = ((*name).clone(), length(inode));
        let damage = Damage::random(length, random);
        if self.damage(&name, damage).ok()? {
            return Some((name, damage));
        }
        let flip = Damage::FlipBit(random.u64(..length as u64 * 8));
        self.damage(&name, flip).ok()?.then_some((name, flip))
    }
}

impl Content {
    fn damage(&mut self, damage: Damage) {
        let previous = match damage {
            Damage::StaleSector(sector) => {
                usize::try_from(sector).ok().and_then(|at| self.previous.get(&at).copied())
            }
            _ => None,
        };
        for bytes in [&mut self.written, &mut self.durable] {
            apply(damage, bytes, &previous.unwrap_or([0; SECTOR_BYTES]));
        }
    }
}

fn apply(damage: Damage, bytes: &mut [u8], previous: &[u8; SECTOR_BYTES]) {
    let place = |sector: u64| sector_range(usize::try_from(sector).unwrap_or(usize::MAX), bytes.len());
    match damage {
        Damage::FlipBit(bit) => {
            if let Some(byte) = usize::try_from(bit / 8).ok().and_then(|at| bytes.get_mut(at)) {
                *byte ^= 1 << (bit % 8);
            }
        }
        Damage::SwapSectors(one, other) => {
            let (one, other) = (place(one), place(other));
            for (left, right) in one.zip(other) {
                bytes.swap(left, right);
            }
        }
        Damage::StaleSector(sector) => {
            let place = place(sector);
            let length = place.len();
            bytes[place].copy_from_slice(&previous[..length]);
        }
        Damage::MisdirectedSector { from, to } => {
            let (from, to) = (place(from), place(to));
            let length = from.len().min(to.len());
            bytes.copy_within(from.start..from.start + length, to.start);
        }
    }
}

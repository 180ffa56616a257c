//! Recomputes checksums, so that damaged bytes pass for intact ones and the code after the checksums is reached.

use crate::input::overwrite;
use siltstone::key::RecordLayout;
use siltstone::names::LogClass;
use siltstone::store::log_format::LogFormat;
use siltstone::store::slots::{SLOT_CHECKSUM_BYTES, checked_slots_per_block, slot_checksum};
use siltstone_index::coding::checksum::Secret;

/// The offset in a store's footer of the flag that says whether a copy precedes it.
const COPIED_AT: usize = 92;
/// The secret of the logs that targets generate.
pub const SECRET: Secret = Secret::new(0x5EC2_E7ED);
/// The kinds of stores whose slots have checksums.
const CHECKED_SLOTS: u8 = 4;
const CHECKED_TABLE: u8 = 5;
/// The kind of store whose blocks have no checksums.
const SAVED_INDEX: u8 = 6;

/// The layout of what is not a record of users.
pub const VARIABLE: RecordLayout = RecordLayout { fixed: None, expiring: false };

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    overwrite(bytes, at, &value.to_le_bytes());
}

/// Returns the bytes followed by their checksum.
pub fn with_crc(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32c::crc32c(bytes).to_le_bytes()].concat()
}

/// Corrects the checksums of a store file: header, blocks or slots, sections, footer and its copy. `None` if the file
/// is too short.
pub fn seal_store(layout: &RecordLayout, bytes: &mut [u8]) -> Option<()> {
    let header_crc = crc32c::crc32c(bytes.get(..28)?);
    set_u32(bytes, 28, header_crc);
    let footer = bytes.len().checked_sub(128)?;
    let block_bytes = u32_at(bytes, footer + 16)? as usize;
    let number = u64_at(bytes, footer + 20)?;
    for (offset_at, crc_at) in [(52, 68), (72, 88)] {
        let start = usize::try_from(u64_at(bytes, footer + offset_at)?).ok()?;
        let length = usize::try_from(u64_at(bytes, footer + offset_at + 8)?).ok()?;
        if let Some(section) = start.checked_add(length).and_then(|end| bytes.get(start..end)) {
            let crc = crc32c::crc32c(section);
            set_u32(bytes, footer + crc_at, crc);
        }
    }
    if (512..=65_536).contains(&block_bytes) && bytes[12] != SAVED_INDEX {
        let slot_bytes = match bytes[12] {
            CHECKED_SLOTS => layout.slot_bytes(false),
            CHECKED_TABLE => layout.slot_bytes(true),
            _ => None,
        };
        let per_block = slot_bytes.map_or(1, |slot_bytes| checked_slots_per_block(slot_bytes, block_bytes));
        let blocks = bytes.chunks_exact_mut(block_bytes).skip(1);
        for (block_number, block) in (0u64..).zip(blocks).take(64) {
            let Some(slot_bytes) = slot_bytes else {
                let place = (u128::from(number) << 64 | u128::from(block_number)).to_le_bytes();
                let crc = crc32c::crc32c_append(crc32c::crc32c(&place), &block[4..]);
                set_u32(block, 0, crc);
                continue;
            };
            let slots = block.chunks_exact_mut(slot_bytes + SLOT_CHECKSUM_BYTES);
            for (slot_number, slot) in (block_number * per_block as u64..).zip(slots) {
                let (slot, crc) = slot.split_at_mut(slot_bytes);
                crc.copy_from_slice(&slot_checksum(number, slot_number, slot));
            }
        }
    }
    // Last, because a block may have overlapped the footer.
    let crc = crc32c::crc32c(&bytes[footer..footer + 124]);
    set_u32(bytes, footer + 124, crc);
    if bytes[footer + COPIED_AT] == 1 && footer >= 128 {
        bytes.copy_within(footer.., footer - 128);
    }
    Some(())
}

/// As [`seal_store`], for a dictionary, which has a header of its own.
pub fn seal_dictionary(layout: &RecordLayout, bytes: &mut [u8]) {
    let _ = seal_store(layout, bytes);
    if bytes.len() >= 108 {
        let crc = crc32c::crc32c(&bytes[..104]);
        set_u32(bytes, 104, crc);
    }
}

/// Corrects the checksums of a manifest: header and commits, as far as their lengths lead.
pub fn seal_manifest(bytes: &mut [u8]) -> Option<()> {
    let header_crc = crc32c::crc32c(bytes.get(..60)?);
    set_u32(bytes, 60, header_crc);
    let mut at = 64;
    while let Some(length) = u32_at(bytes, at + 4) {
        let end = at + 8 + length as usize;
        let crc = crc32c::crc32c(bytes.get(at + 4..end)?);
        set_u32(bytes, at, crc);
        at = end;
    }
    Some(())
}

/// Returns the secret of a database, from its manifest.
pub fn secret_in(manifest: &[u8]) -> Option<Secret> {
    Some(Secret::new(u64_at(manifest, 52)?))
}

/// Corrects the checksums of a segment of a log: header and frames, as far as their lengths lead. `layout` is that of
/// the records of users.
pub fn seal_segment(layout: RecordLayout, secret: Secret, bytes: &mut [u8]) -> Option<()> {
    let class = LogClass::from_number(*bytes.get(12)?)?;
    let layout = if class == LogClass::Redo { VARIABLE } else { layout };
    let unit_bytes = 1 + u32::from(u16::from_le_bytes(bytes.get(14..16)?.try_into().ok()?));
    let format = LogFormat { unit_bytes, ..LogFormat::new(layout, 0, secret).of(class) };
    let header_crc = crc32c::crc32c(bytes.get(..60)?);
    set_u32(bytes, 60, header_crc);
    let base = u64_at(bytes, 24)?;
    let mut at = 64;
    while let Ok((_, taken)) = format.parse_frame(bytes.get(at..)?) {
        let position = base.wrapping_add(at as u64 - 64);
        let sealed = frame_of(secret, class.number(), position, bytes.get(at + 4..at + taken)?);
        overwrite(bytes, at, &sealed);
        at += taken;
    }
    Some(())
}

/// Returns the frame of the log with this body, at this position.
pub fn frame(secret: Secret, position: u64, body: &[u8]) -> Vec<u8> {
    frame_of(secret, 0, position, body)
}

/// Returns the frame of the log of a class with this body, at this position.
pub fn frame_of(secret: Secret, class: u8, position: u64, body: &[u8]) -> Vec<u8> {
    let mixed = siltstone_index::coding::mix(secret.number() ^ position ^ (u64::from(class) << 61));
    let crc = crc32c::crc32c_append(crc32c::crc32c(&mixed.to_le_bytes()), body);
    [&crc.to_le_bytes()[..], body].concat()
}

/// Returns the commit of the manifest with this number and body.
pub fn commit(sequence: u64, body: &[u8]) -> Vec<u8> {
    let covered = [&(body.len() as u32 + 8).to_le_bytes()[..], &sequence.to_le_bytes(), body].concat();
    [&crc32c::crc32c(&covered).to_le_bytes()[..], &covered].concat()
}

/// Corrects the checksums of a saved index: those of its pages, and those of the store file.
pub fn seal_saved_index(bytes: &mut [u8]) -> Option<()> {
    let footer = bytes.len().checked_sub(128)?;
    let tag = crc32c::crc32c(bytes.get(footer + 20..footer + 28)?);
    let section = usize::try_from(u64_at(bytes, footer + 52)?).ok()?;
    let shards_log2 = *bytes.get(section.checked_add(7)?)?;
    let (mut at, mut page) = (section + 8, 4096usize);
    for _ in 0..1 << (shards_log2 % 8) {
        let pages = u32_at(bytes, at.checked_add(12)?)?;
        at += 16;
        for _ in 0..pages.min(1000) {
            let end = page.checked_add(u32_at(bytes, at)? as usize)?;
            let crc = bytes.get(page..end).map(|page| crc32c::crc32c_append(tag, page));
            set_u32(bytes, at + 4, crc.unwrap_or_default());
            (page, at) = (end, at + 8);
        }
    }
    seal_store(&VARIABLE, bytes)
}

//! Reads everything of an open database, and reports the damage.

use super::parts::Parts;
use crate::damage::{Damage, DamagedPart, KeyRange, VerifyReport};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::store::chain::{BLOCK_BYTES, Chain};
use crate::store::examine::{Advance, Examined, ExaminedLog, OpenedStore};
use crate::store::manifest::Header;
use siltstone_device::Purpose;

/// Reads every block, index and filter of every store, the log and the manifest, and lists what is damaged.
pub(super) fn verify(parts: &Parts, progress: &mut Progress<'_>) -> Result<VerifyReport> {
    let Parts { configuration, log, partitions, commits, .. } = parts;
    let header = &configuration.header;
    let mut report = VerifyReport { hasher: Some(header.hasher), ..VerifyReport::default() };
    let converted_to: Vec<u64> = commits.look(|manifest| {
        let wrong = manifest.check()?;
        let length = manifest.length();
        report.checked_bytes += 2 * length;
        report.damage.extend(wrong.iter().map(|error| Damage::of(error, DamagedPart::Manifest, length)));
        Result::Ok(manifest.partitions().iter().map(|partition| partition.converted_to).collect())
    })?;
    // After the manifest: what a commit moves meanwhile from the log to stores is in these views.
    let views: Vec<_> = partitions.iter().map(|partition| partition.view()).collect();
    let total =
        report.checked_bytes + views.iter().map(|view| view.disk_bytes()).sum::<u64>() + log.disk_bytes();
    let mut done = report.checked_bytes;
    let mut advance = |bytes: u64| {
        done = (done + bytes).min(total);
        progress(done, total)
    };
    for (partition, view) in (0..).zip(&views) {
        let mut stores = view.stores().peekable();
        while let Some((_, _, store)) = stores.next() {
            let examined = OpenedStore::of(store, partition, true)?.examine(&mut advance, &mut |_| Ok(()))?;
            add_examined(examined, stores.peek().is_some(), &mut report);
        }
        if let Some((_, chain)) = &view.chain {
            report.damage.extend(examine_chain(chain, &mut advance)?);
        }
    }
    let from = converted_to.iter().copied().min().unwrap_or(0);
    let log = log.examine(from, &mut advance)?;
    add_log(&log, header, &converted_to, &mut report);
    report.checked_bytes = total;
    Ok(report)
}

/// Reads a chain, and returns the damage. No record is lost with a chain.
pub(super) fn examine_chain(chain: &Chain, advance: &mut Advance<'_>) -> Result<Vec<Damage>> {
    let mut damage = Vec::new();
    let mut left = chain.file().length();
    chain.check(Purpose::Maintain, |page| {
        match page {
            Ok(bytes) => {
                left = left.saturating_sub(bytes);
                return if advance(bytes) { Ok(()) } else { Err(Error::Interrupted) };
            }
            Err(error) => damage.push(Damage::of(&error, DamagedPart::Index, u64::from(BLOCK_BYTES))),
        }
        Ok(())
    })?;
    if advance(left) { Ok(damage) } else { Err(Error::Interrupted) }
}

/// Adds the examination of a store to a report. `has_older` says whether its partition has older stores.
pub(super) fn add_examined(examined: Examined, has_older: bool, report: &mut VerifyReport) {
    report.checked_records += examined.records;
    report.damage.extend(
        examined
            .damage
            .into_iter()
            .map(|damage| Damage { may_be_older: has_older && !damage.lost.is_empty(), ..damage }),
    );
}

/// Adds the examination of the log to a report: the keys whose records may have been in a gap are those of every
/// partition whose records in the gap were not converted. `converted_to` has a position for each partition.
pub(super) fn add_log(log: &ExaminedLog, header: &Header, converted_to: &[u64], report: &mut VerifyReport) {
    report.checked_records += log.records;
    for (gap, damage) in &log.damage {
        let concerned = (0..).zip(converted_to).filter(|(_, to)| **to < gap.end && !gap.is_empty());
        let ranges = concerned
            .map(|(partition, _)| KeyRange::within_partition(partition, header.partitions_log2, 0, u64::MAX));
        let lost = KeyRange::united(ranges.collect());
        report.damage.push(Damage { may_be_older: !lost.is_empty(), lost, ..damage.clone() });
    }
}

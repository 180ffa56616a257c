//! Reading everything of an open database, and saying what is damaged.

use super::Core;
use super::partition::View;
use crate::Result;
use crate::damage::{Damage, DamagedPart, KeyRange, VerifyReport};
use crate::progress::Progress;
use crate::store::examine::{Belonging, Examined, examine_store};
use crate::store::manifest::Header;
use std::ops::Range;

impl Core {
    /// Reads every block, index and filter of every store, the log and the manifest, and lists what is damaged.
    pub(super) fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let mut report = VerifyReport { hasher: Some(self.shape.hasher), ..VerifyReport::default() };
        let converted_to: Vec<u64> = self.ledger.look(|ledger| {
            let wrong = ledger.manifest.check()?;
            let length = ledger.manifest.length();
            report.checked_bytes += 2 * length;
            report.damage.extend(wrong.iter().map(|error| Damage::of(error, DamagedPart::Manifest, length)));
            let converted = ledger.manifest.partitions().iter().map(|partition| partition.converted_to);
            Result::Ok(converted.collect())
        })?;
        let views: Vec<_> =
            self.partitions.iter().map(|partition| partition.state.read().view.clone()).collect();
        let total = report.checked_bytes
            + views.iter().map(|view| view.disk_bytes()).sum::<u64>()
            + self.log.disk_bytes();
        let mut done = report.checked_bytes;
        let mut advance = |bytes: u64| {
            done = (done + bytes).min(total);
            progress(done, total)
        };
        for (partition, view) in (0..).zip(&views) {
            self.verify_partition(partition, view, &mut report, &mut advance)?;
        }
        let from = converted_to.iter().copied().min().unwrap_or(0);
        let log = self.log.examine(from, &mut advance)?;
        report.checked_records += log.records;
        report.checked_bytes = total;
        let damage = log.damage.into_iter();
        report
            .damage
            .extend(damage.map(|(gap, damage)| lost_in_log(&self.shape, &converted_to, &gap, damage)));
        Ok(report)
    }

    fn verify_partition(
        &self,
        partition: u64,
        view: &View,
        report: &mut VerifyReport,
        advance: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let belonging = Belonging { shape: self.shape.records(), partition };
        let hash_stores = view.hash_stores.len();
        for (age, (_, store)) in view.hash_stores.iter().enumerate() {
            let older = age + 1 < hash_stores || view.sorted.is_some();
            let examined = examine_store(store.file(), belonging, advance, &mut |_| Ok(()))?;
            take(examined, older, report);
        }
        if let Some((_, store)) = &view.sorted {
            let examined = examine_store(store.file(), belonging, advance, &mut |_| Ok(()))?;
            take(examined, false, report);
        }
        Ok(())
    }
}

/// Takes into a report what was found of a store. `older` tells whether there are older ones in its partition.
pub(super) fn take(examined: Examined, older: bool, report: &mut VerifyReport) {
    report.checked_records += examined.records;
    report.damage.extend(
        examined
            .damage
            .into_iter()
            .map(|damage| Damage { may_be_older: older && !damage.lost.is_empty(), ..damage }),
    );
}

/// Adds which keys' records may have stood in a gap of the log: those of any partition that had not been converted
/// so far.
pub(super) fn lost_in_log(shape: &Header, converted_to: &[u64], gap: &Range<u64>, damage: Damage) -> Damage {
    let concerned = (0..).zip(converted_to).filter(|(_, converted)| **converted < gap.end && !gap.is_empty());
    let ranges = concerned
        .map(|(partition, _)| KeyRange::within_partition(partition, shape.partitions_log2, 0, u64::MAX));
    let lost = KeyRange::united(ranges.collect());
    Damage { may_be_older: !lost.is_empty(), lost, ..damage }
}

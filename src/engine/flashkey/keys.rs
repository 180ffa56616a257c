//! The keys in order at an open: what is not in runs of keys is found in the logs.
//!
//! 1. The manifest says up to which position the keys of the user log are in runs.
//! 2. If the user log has everything after that, its keys are noted in the order of the log.
//! 3. Otherwise a repair has left no runs. The keys of all records are written to new ones, and one commit names all
//!    of them. After a crash before it, the next open does this again.

use super::commits::Commits;
use super::indexed_logs::IndexedLogs;
use super::live::LiveLogs;
use super::snapshot::LogSnapshot;
use crate::error::Result;
use crate::store::data_logs::USER;
use crate::store::ordered_keys::OrderedKeys;
use crate::store::record::RecordView;

/// Returns whether the user log has every operation since the runs: a repair keeps no runs, and leaves a gap.
fn has_all_since_runs(live: &LiveLogs) -> bool {
    let mut covered = live.keys_flushed_to;
    for segment in &live.finished {
        if segment.class == USER && segment.base <= covered {
            covered = covered.max(segment.end);
        }
    }
    covered >= live.finished_to[usize::from(USER)]
}

/// Notes the keys of the user log that are not in runs; after a repair, those of all records, which are written to new
/// runs unless the directory is read-only.
pub(super) fn recover_keys(logs: &IndexedLogs, commits: &Commits) -> Result<()> {
    let Some(keys) = &logs.keys else { return Ok(()) };
    let (from, has_all) = commits.look(|manifest| {
        let live = manifest.state();
        (live.keys_flushed_to, has_all_since_runs(live))
    });
    if has_all {
        // In the order of the log, so the last operation of each key remains.
        return logs.data.scan(USER, from, &mut |_, record| {
            logs.note_key(record);
            Ok(())
        });
    }
    let may_write = !logs.directory.is_read_only();
    let mut runs = Vec::new();
    let write = |keys: &OrderedKeys| {
        keys.seal();
        let flushed = keys.write_sealed(commits.new_run()?)?;
        let run = flushed.as_ref().and_then(|flushed| flushed.added());
        flushed.into_iter().for_each(|flushed| keys.flushed(flushed));
        Result::Ok(run)
    };
    // No record has expired at time 0.
    for record in LogSnapshot::take(logs, 0)?.records() {
        let (key, value, expires_at_ms) = record?;
        logs.note_key(&RecordView { key: &key, value: Some(&value), expires_at_ms });
        // In a read-only directory all of them stay in memory.
        if may_write && keys.fullness() >= 1.0 {
            runs.extend(write(keys)?);
        }
    }
    if may_write {
        runs.extend(write(keys)?);
        // All runs in one commit. After a crash before it, the next open removes their files and builds them again.
        commits.run(|ledger| ledger.keys_built(&runs))?;
    }
    Ok(())
}

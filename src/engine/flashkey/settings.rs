//! The settings of a FlashKey engine.

use super::family::FlashKeyFamilySettings;
use super::log_settings::LogSettings;
#[cfg(feature = "mistakes")]
use super::log_settings::Mistake;
use super::policy::Victim;
use super::{recovery, survey};
use crate::damage::{RepairReport, VerifyReport};
use crate::engine::setting_value::named_values;
use crate::engine::settings::{EngineSettings, Opening, SettingsTable, by_table, settings};
use crate::engine::{CommonSettings, Engine, EngineInfo, info};
use crate::error::Result;
use crate::names::FileName;
use crate::progress::Progress;
use siltstone_device::Directory;
use std::sync::Arc;

named_values!(Victim {
    "cost_benefit" => Victim::CostBenefit,
    "most_invalid" => Victim::MostInvalid,
    "oldest" => Victim::Oldest,
});

settings! {
    /// The settings of the engine `flashkey`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("db");
    /// use siltstone::{Database, FlashKeySettings};
    ///
    /// let settings = FlashKeySettings::default().space(1.5).capacity(100 << 30);
    /// let database = Database::builder(&path).engine(settings).open()?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct FlashKeySettings {
        /// The bytes of the logs per byte of live records, besides a segment of each of the four logs, which has a 64th
        /// of the data, at least 2 MiB and at most `segment_bytes`. Writes wait for cleaning before there are more.
        /// Only what a batch replaces or deletes at once comes on top until it is cleaned. A higher ratio means less
        /// write amplification: uniform overwrites append 2.7 times at 1.25, and 1.5 times at 1.67.
        space: f64 = 1.3, 1.05..=4.0, kept;
        /// The most bytes of the logs, 0 for no limit: a put fails with `Error::NoRoom` if the live records with their
        /// `space` and a segment of each log would take more.
        capacity: u64 = 0, 0..=1 << 60, kept;
        /// The bits of a key's hash that the index keeps, fixed when the database is created. A get of a missing key
        /// costs N / 2^bits reads, for N keys.
        hash_bits: u8 = 37, 28..=41, kept;
        /// Which segment is cleaned next. `most_invalid` is the paper's rule.
        victim: Victim = Victim::CostBenefit, (), kept hidden;
        /// The number of logs for records that cleaning has moved, by their age. The fewer, the more often records
        /// that are seldom overwritten are moved. With 0 they go to the log of the puts (the paper).
        classes: u8 = 3, 0..=3, kept hidden;
        /// The most bytes of a segment of the logs, fixed when the database is created. A segment is complete when it
        /// has a 64th of the data and at least 2 MiB, or as many.
        segment_bytes: u64 = 32 << 20, 4_096..=1 << 30, kept;
        /// The share of the index that is in memory; the rest is on flash, by whole partitions. With a share of 0 the
        /// index takes 0.3 bytes of memory per key, besides what `unconfirmed_max` allows, a get reads twice, and the
        /// index is written again whenever 3 % of the keys have changed. A memory budget moves more of the index to
        /// flash if it is short.
        index_in_memory: f64 = 1.0, 0.0..=1.0, kept;
        /// The share of keys that may have an unconfirmed overwrite: a second record, which is probably of the same
        /// key. Each takes 18 bytes of memory until the segment of the older record is cleaned. When there are more,
        /// older records are read only to confirm that. With 0.3 at a `space` of 1.3 none is.
        // With 0.25, overwriting is at most 14 % faster, and takes 2.5 bytes of memory per key more.
        unconfirmed_max: f64 = 0.05, 0.0..=1.0, kept;
        /// Whether the keys are kept in order as well, fixed when the database is created: ranges of keys can be read.
        /// Costs a few percent of the space for records of 1,000 bytes, and up to 16 MiB of memory.
        ordered: bool = false, (), kept;
    }
    paper {
        "victim" => "most_invalid",
        "classes" => "0",
    }
    hidden {
        /// A mistake that the engine makes; simulations must find it.
        #[cfg(feature = "mistakes")]
        mistake: Option<Mistake> = None;
    }
}

impl FlashKeyFamilySettings for FlashKeySettings {
    const INFO: &'static EngineInfo = &info::FLASHKEY;
    const FIXED: &'static [&'static str] = &["hash_bits", "segment_bytes", "ordered"];

    fn of_logs(&self) -> LogSettings {
        LogSettings {
            space: self.space,
            capacity: if self.capacity == 0 { u64::MAX } else { self.capacity },
            hash_bits: u32::from(self.hash_bits),
            victim: self.victim,
            classes: self.classes,
            segment_bytes: self.segment_bytes,
            index_in_memory: self.index_in_memory,
            unconfirmed_max: self.unconfirmed_max,
            ordered: self.ordered,
            recycling: None,
            has_below: false,
            #[cfg(feature = "mistakes")]
            mistake: self.mistake,
        }
    }
}

impl EngineSettings for FlashKeySettings {
    by_table!(info::FLASHKEY);

    fn check(&self, common: &CommonSettings, created: bool) -> Result<()> {
        if created { self.check_creation(common) } else { self.check_limits() }
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>> {
        let Opening { directory, common, create, seed, progress, .. } = opening;
        if create {
            self.create(&directory, common, seed)?;
        }
        Ok(Arc::new(self.open_logs(directory, common, None, progress)?))
    }

    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        recovery::is_half_created(directory)
    }

    fn owns(&self, file_name: &str) -> bool {
        FileName::parse(file_name).is_some_and(FileName::is_of_logs)
    }

    fn examine(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        survey::examine(directory, &|kept| self.of_kept(kept), progress)
    }

    fn repair(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        super::repair::repair(directory, &|kept| self.of_kept(kept), progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::engine::CommonSettings;

    #[test]
    fn a_setting_that_is_fixed_at_creation_is_kept_and_refused_if_it_differs() {
        let created = FlashKeySettings::default().space(1.5).segment_bytes(8192);
        let kept = created.to_keep_at_creation();
        let names: Vec<&str> = kept.keys().map(String::as_str).collect();
        assert_eq!(names, ["hash_bits", "ordered", "segment_bytes", "space"]);
        let mut same = FlashKeySettings::default().segment_bytes(8192).space(2.0);
        same.adopt_kept(&kept).unwrap();
        assert_eq!((same.segment_bytes, same.space, same.hash_bits), (8192, 2.0, 37));
        let mut other = FlashKeySettings::default().hash_bits(40);
        assert!(matches!(other.adopt_kept(&kept), Err(Error::Setting { name: "hash_bits", .. })));
    }

    #[test]
    fn blocks_are_refused() {
        let common = CommonSettings { block_bytes: Some(4096), ..CommonSettings::default() };
        let refused = FlashKeySettings::default().check_creation(&common);
        assert!(matches!(refused, Err(Error::Setting { name: "block_bytes", .. })));
        assert!(FlashKeySettings::default().check_creation(&CommonSettings::default()).is_ok());
    }
}

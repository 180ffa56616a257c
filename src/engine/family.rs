//! The table of engines.

use super::info::{self, EngineInfo};
use super::settings::EngineSettings;
use crate::error::{Error, Result};

/// Makes the table of a row per engine: its documentation, its cargo feature, its variant of [`EngineKind`], its
/// properties and its settings.
macro_rules! engines {
    ($($(#[doc = $doc:literal])+ $feature:literal $kind:ident $info:ident $settings:path;)+) => {
        /// The engines that the library is compiled with: each has a cargo feature with its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum EngineKind {
            $($(#[doc = $doc])+ #[cfg(feature = $feature)] $kind,)+
        }

        impl EngineKind {
            /// All engines that the library is compiled with.
            pub const ALL: &'static [EngineKind] = &[$(#[cfg(feature = $feature)] EngineKind::$kind),+];

            /// Returns the constant properties.
            #[doc(hidden)]
            pub const fn info(self) -> &'static EngineInfo {
                match self {
                    $(#[cfg(feature = $feature)] EngineKind::$kind => &info::$info,)+
                }
            }

            /// Returns the default settings.
            #[doc(hidden)]
            pub fn settings(self) -> Box<dyn EngineSettings> {
                match self {
                    $(#[cfg(feature = $feature)] EngineKind::$kind => Box::new(<$settings>::default()),)+
                }
            }
        }
    };
}

engines! {
    /// SILT: the least memory per key at one flash read per get.
    "silt" Silt SILT super::silt::SiltSettings;
    /// MICA: all data in memory, as a store or as a cache.
    "mica" Mica MICA super::mica::MicaSettings;
    /// FlashKey: data beyond memory, one append per put.
    "flashkey" FlashKey FLASHKEY super::flashkey::FlashKeySettings;
    /// FlashStore: a fast drive as the working set of a large slow store, or a cache on flash.
    "flashstore" FlashStore FLASHSTORE super::flashstore::FlashStoreSettings;
    /// BloomStore: data beyond memory, with filters on flash in place of an index in memory.
    "bloomstore" BloomStore BLOOMSTORE super::bloomstore::BloomStoreSettings;
}

/// SILT, also for new databases for which no engine is stated.
#[cfg(feature = "silt")]
impl Default for EngineKind {
    fn default() -> Self {
        EngineKind::Silt
    }
}

impl EngineKind {
    /// Returns the name, as users write it.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the engine with this name.
    pub fn from_name(name: &str) -> Option<EngineKind> {
        EngineKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Returns the engine with this name, which is the value of a setting.
    ///
    /// # Errors
    /// [`Error::Setting`] if there is no such engine, or if the library is compiled without it.
    pub(crate) fn of_setting(setting: &'static str, name: &str) -> Result<EngineKind> {
        EngineKind::from_name(name).ok_or_else(|| {
            let problem = match info::KNOWN.iter().find(|known| known.name == name) {
                Some(known) => known.absence(),
                None => {
                    let names = EngineKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>();
                    format!("there is no engine `{name}`; use {}", names.join(", "))
                }
            };
            Error::Setting { name: setting, problem }
        })
    }

    /// Returns the engine of a new database for which the setting states none.
    ///
    /// # Errors
    /// [`Error::Setting`] if the library is compiled without it.
    pub(crate) fn of_new(setting: &'static str) -> Result<EngineKind> {
        EngineKind::from_name(info::DEFAULT.name).ok_or_else(|| {
            let problem = format!("{}, or state one that it has", info::DEFAULT.absence());
            Error::Setting { name: setting, problem }
        })
    }

    /// Returns settings with which a database can be created: the defaults, and those without a default.
    #[cfg(test)]
    pub(crate) fn complete_settings(self) -> Box<dyn EngineSettings> {
        let mut settings = self.settings();
        if self == EngineKind::FlashStore {
            for (name, value) in [("disk", "disk"), ("flash_bytes", "2MiB"), ("segment_bytes", "64KiB")] {
                settings.set(name, value).unwrap();
            }
        }
        settings
    }
}

impl From<EngineKind> for Box<dyn EngineSettings> {
    fn from(kind: EngineKind) -> Self {
        kind.settings()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_of_the_table_are_all_that_are_known() {
        let table: Vec<_> = EngineKind::ALL.iter().map(|kind| kind.info()).collect();
        assert_eq!(table, info::KNOWN);
        assert_eq!(EngineKind::default().info(), info::DEFAULT);
        for &kind in EngineKind::ALL {
            assert_eq!(EngineKind::from_name(kind.name()), Some(kind));
            assert_eq!(kind.settings().info(), kind.info());
            // The table has the same name as a feature.
            assert!(include_str!("family.rs").contains(&format!("\"{}\" {kind:?} ", kind.name())));
        }
    }
}

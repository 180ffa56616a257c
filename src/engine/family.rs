//! The table of engines.

use super::settings::{EngineInfo, EngineSettings};
use super::{bloomstore, flashkey, flashstore, mica, silt};

/// The engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EngineKind {
    /// SILT: the least memory per key at one flash read per get.
    #[default]
    Silt,
    /// MICA: all data in memory, as a store or as a cache.
    Mica,
    /// FlashKey: data beyond memory, one append per put.
    FlashKey,
    /// FlashStore: a fast drive as the working set of a large slow store, or a cache on flash.
    FlashStore,
    /// BloomStore: data beyond memory, with filters on flash in place of an index in memory.
    BloomStore,
}

impl EngineKind {
    /// All engines.
    pub const ALL: &'static [EngineKind] = &[
        EngineKind::Silt,
        EngineKind::Mica,
        EngineKind::FlashKey,
        EngineKind::FlashStore,
        EngineKind::BloomStore,
    ];

    /// Returns the constant properties.
    #[doc(hidden)]
    pub const fn info(self) -> &'static EngineInfo {
        match self {
            EngineKind::Silt => &silt::INFO,
            EngineKind::Mica => &mica::INFO,
            EngineKind::FlashKey => &flashkey::INFO,
            EngineKind::FlashStore => &flashstore::INFO,
            EngineKind::BloomStore => &bloomstore::INFO,
        }
    }

    /// Returns the default settings.
    #[doc(hidden)]
    pub fn settings(self) -> Box<dyn EngineSettings> {
        match self {
            EngineKind::Silt => Box::new(silt::SiltSettings::default()),
            EngineKind::Mica => Box::new(mica::MicaSettings::default()),
            EngineKind::FlashKey => Box::new(flashkey::FlashKeySettings::default()),
            EngineKind::FlashStore => Box::new(flashstore::FlashStoreSettings::default()),
            EngineKind::BloomStore => Box::new(bloomstore::BloomStoreSettings::default()),
        }
    }

    /// Returns the name, as users write it.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the engine with this name.
    pub fn from_name(name: &str) -> Option<EngineKind> {
        EngineKind::ALL.iter().copied().find(|kind| kind.name() == name)
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

    /// Returns the engine with this number in the headers of its directories.
    #[doc(hidden)]
    pub fn from_number(number: u8) -> Option<EngineKind> {
        EngineKind::ALL.iter().copied().find(|kind| kind.info().number == Some(number))
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
    fn names_and_numbers_of_engines_are_unique() {
        for &kind in EngineKind::ALL {
            assert_eq!(EngineKind::from_name(kind.name()), Some(kind));
            assert_eq!(kind.settings().info(), kind.info());
            if let Some(number) = kind.info().number {
                assert!(number > 0, "0 is the number of no engine");
                assert_eq!(EngineKind::from_number(number), Some(kind));
            }
        }
    }
}

//! The settings of a builder by name, with values as text.

use super::{Builder, ENGINE};
use crate::batch::Durability;
use crate::compression::Compression;
use crate::engine::{EngineKind, EngineSettings, SettingValue, unknown_setting};
use crate::error::{Error, Result};
use siltstone_device::Access;

/// Sets a setting of a builder to a value as text; `None` if it cannot have this value.
type Set = fn(Builder, &str) -> Option<Builder>;

/// The settings that every engine understands, by name, with what their values are. [`ENGINE`] is besides.
const COMMON: [(&str, &str, Set); 15] = [
    ("create", "true or false", |to, text| Some(to.create(text.parse().ok()?))),
    ("read_only", "true or false", |to, text| Some(to.read_only(text.parse().ok()?))),
    ("fixed", "the lengths of keys and of values, such as 32,8", |to, text| {
        let (key_length, value_length) = text.split_once(',')?;
        Some(to.fixed(key_length.trim().parse().ok()?, value_length.trim().parse().ok()?))
    }),
    ("hashed_keys", "true or false", |mut to, text| {
        // Not by the method, which cannot set `false`.
        to.common.hashed_keys = Some(text.parse().ok()?);
        Some(to)
    }),
    ("expiring", "true or false", |to, text| Some(to.expiring(text.parse().ok()?))),
    ("partitions", "a number", |to, text| Some(to.partitions(SettingValue::parse(text)?))),
    ("block_bytes", "a number of bytes", |to, text| Some(to.block_bytes(SettingValue::parse(text)?))),
    ("compression", "none, lz4, zstd or zstd:LEVEL", |to, text| {
        Some(to.compression(Compression::from_name(text)?))
    }),
    ("memory_budget", "a number of bytes, such as 64MiB", |to, text| {
        Some(to.memory_budget(SettingValue::parse(text)?))
    }),
    ("durability", "buffered, written or synced", |to, text| {
        Some(to.durability(Durability::ALL.into_iter().find(|level| level.name() == text)?))
    }),
    ("access", "buffered, direct or direct_or_buffered", |to, text| {
        Some(to.access(Access::ALL.into_iter().find(|access| access.name() == text)?))
    }),
    ("verify_checksums", "true or false", |to, text| Some(to.verify_checksums(text.parse().ok()?))),
    ("background_threads", "a number", |to, text| Some(to.background_threads(SettingValue::parse(text)?))),
    ("open_files_max", "a number", |to, text| Some(to.open_files_max(SettingValue::parse(text)?))),
    ("change_feed", "a number of bytes, such as 64MiB, or 0", |to, text| {
        Some(to.change_feed(SettingValue::parse(text)?))
    }),
];

impl Builder {
    /// Applies the settings that were set by name and that every engine understands. The rest are the engine's.
    ///
    /// # Errors
    /// [`Error::Setting`] if one cannot have its value.
    pub(super) fn with_common_settings(mut self) -> Result<Builder> {
        for (name, value) in std::mem::take(&mut self.named_settings) {
            if name == ENGINE {
                self = self.engine(EngineKind::of_setting(ENGINE, &value)?);
                continue;
            }
            let Some((name, values, set)) = COMMON.iter().find(|(common, ..)| *common == name) else {
                // For the engine, which is chosen later.
                self.named_settings.push((name, value));
                continue;
            };
            let refused =
                || Error::Setting { name, problem: format!("`{value}` is not possible; use {values}") };
            self = set(self, &value).ok_or_else(refused)?;
        }
        Ok(self)
    }
}

/// Returns the error of a setting that an engine refused. If the engine does not have it, the names of all settings
/// that the builder takes are possible.
pub(super) fn of_unknown(error: Error, engine: &dyn EngineSettings, name: &str) -> Error {
    let settings = engine.describe();
    if !matches!(error, Error::Setting { name: "set", .. }) || settings.iter().any(|own| own.name == name) {
        return error;
    }
    let of_engine = settings.iter().filter(|setting| setting.is_shown).map(|setting| setting.name);
    let common = COMMON.iter().map(|(name, ..)| *name);
    unknown_setting(engine.info(), name, of_engine.chain([ENGINE]).chain(common))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    fn refusal(name: &str, value: &str) -> String {
        let builder = Database::builder("nowhere").set(name, value);
        builder.open_in_memory().unwrap_err().to_string()
    }

    #[test]
    fn every_common_setting_has_a_name_that_no_engine_uses() {
        let values = [
            ("create", "true"),
            ("read_only", "false"),
            ("fixed", "8, 100"),
            ("hashed_keys", "true"),
            ("expiring", "true"),
            ("partitions", "4"),
            ("block_bytes", "4KiB"),
            ("compression", "none"),
            ("memory_budget", "64MiB"),
            ("durability", "buffered"),
            ("access", "direct"),
            ("verify_checksums", "true"),
            ("background_threads", "0"),
            ("open_files_max", "64"),
            ("change_feed", "64MiB"),
        ];
        assert_eq!(COMMON.map(|(name, ..)| name), values.map(|(name, _)| name));
        let document = include_str!("../../../docs/SETTINGS.md");
        assert!(values.iter().all(|(name, _)| document.contains(&format!("\n| `{name}` |"))));
        for kind in EngineKind::ALL {
            let names = kind.settings().describe().into_iter().map(|setting| setting.name);
            names.for_each(|name| {
                assert!(COMMON.iter().all(|(common, ..)| *common != name) && name != ENGINE, "{name}")
            });
        }
        // What an engine in memory has no use for is refused, so these have an effect.
        let files = ["block_bytes", "access", "open_files_max", "change_feed"];
        let used = values.into_iter().filter(|(name, _)| !files.contains(name));
        let builder = used.fold(Database::builder(""), |builder, (name, value)| builder.set(name, value));
        let database = builder.set(ENGINE, "mica").set("record_bytes", 108).open_in_memory().unwrap();
        let shape = database.stats().shape;
        assert_eq!((shape.fixed, shape.partitions, shape.hashed_keys), (Some((8, 100)), 4, true));
    }

    #[test]
    fn a_misspelt_setting_names_the_one_that_was_meant() {
        for (name, meant) in [
            ("memory_bugdet", "memory_budget"),
            ("memory-budget", "memory_budget"),
            ("threads", "background_threads"),
            ("hash_keys", "hashed_keys"),
            ("engin", "engine"),
        ] {
            let refusal = refusal(name, "1");
            assert!(refusal.ends_with(&format!("no setting `{name}`; did you mean `{meant}`?")), "{refusal}");
        }
        for kind in EngineKind::ALL {
            for setting in kind.settings().describe().into_iter().filter(|setting| setting.is_shown) {
                let builder = Database::builder("nowhere").engine(*kind);
                let refused = builder.set(format!("{}s", setting.name), 1).create(true).open_in_memory();
                let refusal = refused.unwrap_err().to_string();
                assert!(refusal.ends_with(&format!("did you mean `{}`?", setting.name)), "{refusal}");
            }
        }
    }

    #[test]
    fn a_value_that_is_not_possible_is_named_with_those_that_are() {
        assert!(
            refusal("durability", "always").contains("durability: `always` is not possible; use buffered")
        );
        assert!(refusal("fixed", "8").contains("32,8"));
        assert!(refusal("engine", "rocks").starts_with("engine"));
        assert!(refusal("no_such_setting", "1").contains("no setting `no_such_setting`"));
        assert!(refusal("no_such_setting", "1").contains("merge_ratio") || !cfg!(feature = "silt"));
        // `silt` keeps its data in files.
        assert!(refusal("partitions", "4").contains("silt"));
    }
}

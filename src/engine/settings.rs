//! The settings of engines. Each engine has a struct of settings. The macro `settings!` makes it from one list: the
//! fields, their defaults, a method per setting, and a table with the limits, the documentation, and the access by name
//! that `siltstone --set NAME=VALUE` uses.
//!
//! A setting is either *kept* in the database or valid for one open. A kept one that is given when a database is
//! created or opened is stored in its manifest; one that is not given has the stored value.

use super::Engine;
use super::common::CommonSettings;
use super::info::EngineInfo;
use super::setting_value::SettingValue;
use super::spelling::unknown_setting;
use crate::batch::TimestampMs;
use crate::damage::{RepairReport, VerifyReport};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::store::manifest::{KEPT_TEXT_BYTES_MAX, KeptSettings};
use siltstone_device::Directory;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an engine is given when a database is opened.
pub struct Opening<'a, 'p> {
    /// The directory. An engine that keeps all data in memory ignores it.
    pub directory: Directory,
    /// The settings that every engine understands.
    pub common: &'a CommonSettings,
    /// Whether to create a database if there is none.
    pub create: bool,
    /// The seed of the hash of a new database; random if `None`.
    pub seed: Option<[u64; 2]>,
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: TimestampMs,
    /// The disk of [`EngineSettings::disk`].
    pub disk: Option<OpenDisk>,
    /// Called with the bytes processed and the total.
    pub progress: &'a mut Progress<'p>,
}

/// The settings of an engine. They create, open, examine and repair its databases.
pub trait EngineSettings: fmt::Debug + Send + Sync {
    /// Returns the constant properties of the engine.
    #[doc(hidden)]
    fn info(&self) -> &'static EngineInfo;

    /// Returns a copy.
    #[doc(hidden)]
    fn copy(&self) -> Box<dyn EngineSettings>;

    /// Sets a setting by its name.
    ///
    /// # Errors
    /// [`Error::Setting`] if the engine has no such setting, or if it cannot have this value.
    fn set(&mut self, name: &str, value: &str) -> Result<()>;

    /// Returns all settings with their values.
    fn describe(&self) -> Vec<SettingInfo>;

    /// Returns the values of the preset `paper`, of the settings whose defaults are others.
    #[doc(hidden)]
    fn paper(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Checks the settings against their limits and, if a database is `created` with them, against each other.
    #[doc(hidden)]
    fn check(&self, common: &CommonSettings, created: bool) -> Result<()>;

    /// Opens the database of a directory.
    ///
    /// If there is none, it is created. If one never held a record and `common` differs from its header, it gets a new
    /// header. Both require [`Opening::create`].
    #[doc(hidden)]
    fn open(&self, opening: Opening<'_, '_>) -> Result<Arc<dyn Engine>>;

    /// Returns the disk of the database in a directory, as stated or as the database keeps it, if the engine keeps only
    /// a part of the records in its own directory. The caller opens it.
    #[doc(hidden)]
    fn disk(&self, directory: &Directory) -> Result<Option<Disk>> {
        let _ = directory;
        Ok(None)
    }

    /// Returns how many files a database with `keys` records of `record_bytes` each has open at most.
    #[doc(hidden)]
    fn open_files(&self, common: &CommonSettings, keys: u64, record_bytes: u64) -> u64 {
        let _ = (common, keys, record_bytes);
        0
    }

    /// Returns whether a directory contains the remains of an interrupted creation and nothing else of an engine.
    #[doc(hidden)]
    fn is_half_created(&self, directory: &Directory) -> Result<bool> {
        let _ = directory;
        Ok(false)
    }

    /// Returns whether a data file of the engine can have this name.
    #[doc(hidden)]
    fn owns(&self, file_name: &str) -> bool {
        let _ = file_name;
        false
    }

    /// Reads everything of a database that is not open, and reports what is damaged. Changes nothing.
    #[doc(hidden)]
    fn examine(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let _ = (directory, progress);
        Err(Error::Unsupported { engine: self.info().name, operation: "verifying a closed database" })
    }

    /// Repairs a database that is not open. Changes nothing if nothing is damaged.
    #[doc(hidden)]
    fn repair(&self, directory: &Directory, progress: &mut Progress<'_>) -> Result<RepairReport> {
        let _ = (directory, progress);
        Err(Error::Unsupported { engine: self.info().name, operation: "repair" })
    }
}

impl<S: EngineSettings + 'static> From<S> for Box<dyn EngineSettings> {
    fn from(settings: S) -> Self {
        Box::new(settings)
    }
}

impl Clone for Box<dyn EngineSettings> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}

/// A setting of an engine with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingInfo {
    /// The name, as for [`EngineSettings::set`].
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// The possible values.
    pub limits: String,
    /// Whether it is kept in the database.
    pub is_kept: bool,
    /// Whether it is a choice of users. The others belong to a preset, or are for tests.
    pub is_shown: bool,
    /// What it means.
    pub doc: String,
}

/// A row of the table of settings of the struct `S`.
pub struct Setting<S: 'static> {
    /// The name.
    pub name: &'static str,
    /// The documentation, line by line.
    pub doc: &'static [&'static str],
    /// Whether it is kept in the database.
    pub is_kept: bool,
    /// Whether documents and commands show it.
    pub is_shown: bool,
    /// Returns the possible values.
    pub limits: fn() -> String,
    /// Returns the value.
    pub value: fn(&S) -> String,
    /// Returns whether the value is possible.
    pub is_possible: fn(&S) -> bool,
    /// Sets the value, or returns `None` for text that is no value.
    pub set: fn(&mut S, &str) -> Option<()>,
}

/// The name by which a preset is set, as a setting is.
const PRESET: &str = "preset";

/// A struct of settings that `settings!` has made.
pub trait SettingsTable: Clone + Sized + 'static {
    /// All settings.
    const TABLE: &'static [Setting<Self>];

    /// The values that make the engine as the paper describes it, of the settings whose defaults are others.
    const PAPER: &'static [(&'static str, &'static str)];

    /// Returns the names of the settings that were given. The others have their defaults or the values of the database.
    fn given(&mut self) -> &mut Vec<&'static str>;

    /// Gives the settings that were not given the values of the paper.
    fn use_paper(&mut self) {
        for (name, value) in Self::PAPER {
            let row = Self::TABLE.iter().find(|row| row.name == *name);
            if let Some(row) = row.filter(|row| !self.given().contains(&row.name)) {
                // The tests set all of them.
                let _ = (row.set)(self, value);
                self.given().push(row.name);
            }
        }
    }

    /// Sets a setting of the engine `info` by its name, or several by the name [`PRESET`].
    fn set_by_name(&mut self, info: &EngineInfo, name: &str, value: &str) -> Result<()> {
        if name == PRESET {
            return match value {
                "default" => Ok(()),
                "paper" => {
                    self.use_paper();
                    Ok(())
                }
                _ => {
                    let problem = format!("there is no preset {value}; use default or paper");
                    Err(Error::Setting { name: PRESET, problem })
                }
            };
        }
        let Some(row) = Self::TABLE.iter().find(|row| row.name == name) else {
            let names = Self::TABLE.iter().filter(|row| row.is_shown).map(|row| row.name);
            return Err(unknown_setting(info, name, names));
        };
        (row.set)(self, value).ok_or_else(|| row.refused(value))?;
        // So that it replaces the value that the database keeps.
        self.given().push(row.name);
        row.check(self)
    }

    /// Returns all settings with their values.
    fn describe_all(&self) -> Vec<SettingInfo> {
        let describe = |row: &Setting<Self>| SettingInfo {
            name: row.name,
            value: (row.value)(self),
            limits: (row.limits)(),
            is_kept: row.is_kept,
            is_shown: row.is_shown,
            doc: row.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "),
        };
        Self::TABLE.iter().map(describe).collect()
    }

    /// Returns the values of all settings by name.
    fn values(&self) -> Vec<(&'static str, String)> {
        Self::TABLE.iter().map(|row| (row.name, (row.value)(self))).collect()
    }

    /// Checks every setting against its limits.
    fn check_limits(&self) -> Result<()> {
        Self::TABLE.iter().try_for_each(|row| row.check(self))
    }

    /// Gives the settings that were not given the values that the database keeps.
    ///
    /// # Errors
    /// [`Error::Setting`] for a setting or a value that this program does not have.
    fn adopt(&mut self, kept: &KeptSettings) -> Result<()> {
        for (name, value) in kept {
            let row = Self::TABLE.iter().find(|row| row.name == name);
            // It replaces the kept value, which the caller stores.
            if row.is_some_and(|row| self.given().contains(&row.name)) {
                continue;
            }
            if row.and_then(|row| (row.set)(self, value).filter(|()| (row.is_possible)(self))).is_none() {
                let problem = format!(
                    "the database keeps {name}={value}, which this program does not know; use a newer siltstone"
                );
                return Err(Error::Setting { name: "set", problem });
            }
        }
        Ok(())
    }

    /// Returns the settings that were given and that the database keeps.
    fn to_keep(&self) -> KeptSettings {
        let mut settings = self.clone();
        let given = std::mem::take(settings.given());
        let kept = Self::TABLE.iter().filter(|row| row.is_kept && given.contains(&row.name));
        kept.map(|row| (row.name.to_owned(), (row.value)(self))).collect()
    }
}

impl<S> Setting<S> {
    fn refused(&self, value: &str) -> Error {
        let problem = format!("{value} is out of range; use {}", (self.limits)());
        Error::Setting { name: self.name, problem }
    }

    fn check(&self, settings: &S) -> Result<()> {
        if (self.is_possible)(settings) { Ok(()) } else { Err(self.refused(&(self.value)(settings))) }
    }
}

/// The methods of [`EngineSettings`] that settings with a table have from it.
macro_rules! by_table {
    ($info:expr) => {
        fn info(&self) -> &'static $crate::engine::EngineInfo {
            &$info
        }

        fn copy(&self) -> Box<dyn $crate::engine::EngineSettings> {
            Box::new(self.clone())
        }

        fn set(&mut self, name: &str, value: &str) -> $crate::error::Result<()> {
            $crate::engine::settings::SettingsTable::set_by_name(self, &$info, name, value)
        }

        fn describe(&self) -> Vec<$crate::engine::SettingInfo> {
            $crate::engine::settings::SettingsTable::describe_all(self)
        }

        fn paper(&self) -> &'static [(&'static str, &'static str)] {
            <Self as $crate::engine::settings::SettingsTable>::PAPER
        }
    };
}
pub(super) use by_table;

/// The setting by name that says which engine a new disk has.
const ENGINE: &str = "engine";
/// The filter of a new disk whose settings are not stated, in bits per key.
pub const DISK_FILTER_BITS: u8 = 10;

/// Where an engine keeps the records that do not fit: a directory with a database of any engine that has files.
///
/// A disk that is stated as text, as for `--set disk=PATH`, is the path alone. `disk.engine=NAME` and
/// `disk.SETTING=VALUE` set the engine of a new disk, and its settings.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    path: PathBuf,
    engine: Option<Arc<dyn EngineSettings>>,
    named: Vec<(String, String)>,
}

impl Disk {
    /// A directory, which is created if it does not exist. A relative path is relative to the directory of the
    /// database.
    pub fn at(path: impl Into<PathBuf>) -> Disk {
        Disk { path: path.into(), ..Disk::default() }
    }

    /// Sets the engine of the disk, as an `EngineKind` or as its settings. Default: that of the database in the
    /// directory; `silt` for a new one, with a filter of 10 bits per key.
    #[must_use]
    pub fn engine(mut self, engine: impl Into<Box<dyn EngineSettings>>) -> Disk {
        self.engine = Some(engine.into().into());
        self
    }

    /// Sets a setting of the engine by its name, or the engine itself by the name `engine`.
    #[doc(hidden)]
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl fmt::Display) -> Disk {
        self.named.push((name.into(), value.to_string()));
        self
    }

    /// Returns whether this is no disk.
    pub(crate) fn is_none(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// Returns whether its engine or settings of it are stated.
    pub(crate) fn has_settings(&self) -> bool {
        self.engine.is_some() || !self.named.is_empty()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the same disk at another path.
    pub(crate) fn moved_to(self, path: PathBuf) -> Disk {
        Disk { path, ..self }
    }

    /// Returns the name of the stated engine, and the settings that were stated by name.
    pub(crate) fn named(&self) -> (Option<&str>, impl Iterator<Item = (&str, &str)>) {
        let pairs = || self.named.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let engine = pairs().rfind(|(name, _)| *name == ENGINE).map(|(_, engine)| engine);
        (engine, pairs().filter(|(name, _)| *name != ENGINE))
    }

    /// Returns the stated engine.
    ///
    /// # Errors
    /// [`Error::Setting`] if settings were stated by name as well.
    pub(crate) fn stated(&self) -> Result<Option<&dyn EngineSettings>> {
        match &self.engine {
            Some(_) if !self.named.is_empty() => {
                let problem = "an engine and settings by name are stated; state the settings with the engine";
                Err(Error::Setting { name: "disk", problem: problem.into() })
            }
            engine => Ok(engine.as_deref()),
        }
    }
}

/// Two disks are equal if they are at one place. What else is stated has an effect on a new disk only.
impl PartialEq for Disk {
    fn eq(&self, other: &Disk) -> bool {
        self.path == other.path
    }
}

impl SettingValue for Disk {
    type Limits = ();

    fn parse(text: &str) -> Option<Disk> {
        Some(Disk::at(text))
    }

    fn text(self) -> String {
        self.path.to_str().unwrap_or_default().to_owned()
    }

    fn is_within(&self, (): ()) -> bool {
        // The manifest keeps it as text.
        self.path.to_str().is_some_and(|path| path.len() <= KEPT_TEXT_BYTES_MAX)
    }

    fn limits_text((): ()) -> String {
        format!("a directory, a path of at most {KEPT_TEXT_BYTES_MAX} bytes")
    }
}

/// A disk that is open.
#[derive(Clone)]
pub struct OpenDisk {
    /// The database.
    pub engine: Arc<dyn Engine>,
    /// Its directory.
    pub directory: Directory,
}

/// Returns the part of a memory budget that is the disk's, in bytes.
pub(crate) fn budget_of_disk(bytes: u64) -> u64 {
    bytes / 2
}

/// Returns the least memory budget of which both get their least, in bytes.
pub(crate) fn budget_of_both(of_flash: u64, of_disk: u64) -> u64 {
    (2 * of_disk).max((2 * of_flash).saturating_sub(1))
}

/// Defines a struct of settings with its table: `name: type = default, limits, kept or opening;`. The fields are for
/// reading; the methods also record that a setting was given. A setting that is `hidden` besides is in no document.
/// `paper` has the values of the preset of this name. The settings after `hidden` are not in the table: only tests set
/// them.
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $settings:ident {
            $(
                $(#[doc = $doc:literal])+
                $name:ident: $kind:ty = $default:expr, $limits:expr, $keeping:ident $($hidden_method:ident)?;
            )*
        }
        paper {
            $($paper:literal => $paper_value:literal,)*
        }
        hidden {
            $(
                $(#[doc = $hidden_doc:literal])+
                $(#[cfg($($condition:tt)*)])?
                $hidden:ident: $hidden_kind:ty = $hidden_default:expr;
            )*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $settings {
            $(#[doc(hidden)] pub $name: $kind,)*
            $($(#[cfg($($condition)*)])? pub(super) $hidden: $hidden_kind,)*
            given: Vec<&'static str>,
        }

        impl Default for $settings {
            fn default() -> Self {
                $settings {
                    $($name: $default,)*
                    $($(#[cfg($($condition)*)])? $hidden: $hidden_default,)*
                    given: Vec::new(),
                }
            }
        }

        impl $settings {
            /// Returns the settings with which the engine works as its paper describes it, as far as it can:
            /// `docs/SETTINGS.md` has them.
            #[must_use]
            pub fn paper() -> Self {
                let mut settings = Self::default();
                $crate::engine::settings::SettingsTable::use_paper(&mut settings);
                settings
            }

            $(
                $(#[doc = $doc])+
                // `hidden`: one that belongs to a preset, or is for tests, is in no document.
                $(#[doc($hidden_method)])?
                #[must_use]
                pub fn $name(mut self, value: $kind) -> Self {
                    self.$name = value;
                    self.given.push(stringify!($name));
                    self
                }
            )*
            $(
                $(#[doc = $hidden_doc])+
                $(#[cfg($($condition)*)])?
                #[doc(hidden)]
                #[must_use]
                pub fn $hidden(mut self, value: $hidden_kind) -> Self {
                    self.$hidden = value;
                    self
                }
            )*
        }

        impl $crate::engine::settings::SettingsTable for $settings {
            const TABLE: &'static [$crate::engine::settings::Setting<Self>] = &[$({
                use $crate::engine::setting_value::SettingValue;
                use $crate::engine::settings::Setting;
                Setting {
                    name: stringify!($name),
                    doc: &[$($doc),+],
                    is_kept: settings!(@$keeping),
                    is_shown: settings!(@shown $($hidden_method)?),
                    limits: || <$kind as SettingValue>::limits_text($limits),
                    value: |settings| settings.$name.clone().text(),
                    is_possible: |settings| settings.$name.is_within($limits),
                    set: |settings, text| {
                        settings.$name = <$kind as SettingValue>::parse(text)?;
                        Some(())
                    },
                }
            }),*];

            const PAPER: &'static [(&'static str, &'static str)] = &[$(($paper, $paper_value)),*];

            fn given(&mut self) -> &mut Vec<&'static str> {
                &mut self.given
            }
        }
    };
    (@kept) => { true };
    (@opening) => { false };
    (@shown) => { true };
    (@shown hidden) => { false };
}
pub(super) use settings;

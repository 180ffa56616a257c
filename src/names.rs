//! The names of a database's files; formatted and parsed only here.
//!
//! A directory may contain other files. A file belongs to the database only if its name is exactly the one formatted
//! from the number in it. Files such as `log-0`, `cafe.hash` and `1.sorted` do not, so they are ignored and never
//! removed.

use std::fmt;

/// The name of the manifest.
pub const MANIFEST_NAME: &str = "MANIFEST";
/// The name of the mirror of the manifest.
pub const MIRROR_NAME: &str = "MANIFEST.mirror";
/// The name of a manifest that is being written, until it replaces [`MANIFEST_NAME`].
pub const NEW_MANIFEST_NAME: &str = "MANIFEST.new";
/// The name of a mirror that is being written, until it replaces [`MIRROR_NAME`].
pub const NEW_MIRROR_NAME: &str = "MANIFEST.mirror.new";

/// The name of the file by which a truncation says that the database is empty, until the empty one is complete.
pub const TRUNCATED_NAME: &str = "TRUNCATED";
/// What that file contains. One that contains anything else is a file of the user.
pub const TRUNCATED_MARK: &[u8] = b"SILTVOID";

/// How the names of files begin that a truncation has left, and that nothing needs.
pub const TRUNCATED_PREFIX: &str = "truncated-";

/// The name of the file by which a server says that the values of a database have their types in front.
pub const VALUES_NAME: &str = "VALUES";

/// Files that bindings and servers keep with a database to describe its records, such as the codecs of the Python
/// package. They are replaced as a whole, never changed in place. Checkpoints have them, and they are removed with the
/// database. They may be there before the database is.
pub const COMPANION_NAMES: [&str; 2] = ["CODECS", VALUES_NAME];

/// Returns whether a file may be in a directory before a database is created there: it is none of an engine.
pub fn is_beside(name: &str) -> bool {
    COMPANION_NAMES.contains(&name) || is_left(name)
}

/// Returns whether a truncation has left a file: its name is the prefix and the name of a file of a database.
pub fn is_left(name: &str) -> bool {
    let Some(of) = name.strip_prefix(TRUNCATED_PREFIX) else { return false };
    // Of a manifest that is being written `parse` knows the name.
    let complete = of.strip_suffix(".new").unwrap_or(of);
    FileName::parse(of).is_some() || UNNUMBERED_NAMES.contains(&complete)
}

/// The names of the dictionary of compressed values, and of its mirror.
pub const COMPRESSION_NAMES: [&str; 2] = ["COMPRESSION", "COMPRESSION.mirror"];

/// The name of the file by which the disk of FlashStore says to which database it belongs.
pub const CLAIM_NAME: &str = "FLASHSTORE";

/// The name of the file that says what the change feed of a database has.
pub const CHANGES_NAME: &str = "CHANGES";
/// The name of that file until it replaces [`CHANGES_NAME`].
pub const NEW_CHANGES_NAME: &str = "CHANGES.new";

/// The name of the file of usage counters.
pub const USAGE_NAME: &str = "USAGE";

/// The names of files of a database, besides the manifest, that have no number. They may end with `.new`.
const UNNUMBERED_NAMES: [&str; 6] =
    [COMPRESSION_NAMES[0], COMPRESSION_NAMES[1], CLAIM_NAME, CHANGES_NAME, USAGE_NAME, TRUNCATED_NAME];

/// The name, followed by a number, of the subdirectories for damaged files.
pub(crate) const SET_ASIDE: &str = "damaged";

/// What a log has. A database has at most one log of each class, with positions of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogClass {
    /// What users write.
    User,
    /// Records that were moved to free the space of dead ones, from 1 to [`LogClass::MOVED_MAX`].
    Moved(u8),
    /// Keys that were written: the change feed, which belongs to the database and not to its engine.
    Changes,
    /// Changes of an index.
    Redo,
}

impl LogClass {
    /// The number of classes of moved records.
    pub const MOVED_MAX: u8 = 3;
    const CHANGES: u8 = 6;
    const REDO: u8 = 7;

    /// Returns the number of the class in files, of three bits.
    pub const fn number(self) -> u8 {
        match self {
            LogClass::User => 0,
            LogClass::Moved(number) => number,
            LogClass::Changes => Self::CHANGES,
            LogClass::Redo => Self::REDO,
        }
    }

    /// Returns the class with this number.
    pub const fn from_number(number: u8) -> Option<LogClass> {
        match number {
            0 => Some(LogClass::User),
            1..=Self::MOVED_MAX => Some(LogClass::Moved(number)),
            Self::CHANGES => Some(LogClass::Changes),
            Self::REDO => Some(LogClass::Redo),
            _ => None,
        }
    }
}

/// A file of a database, by its name. Formatting it returns the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileName {
    /// The manifest.
    Manifest,
    /// Its mirror.
    Mirror,
    /// A manifest that is being written.
    NewManifest,
    /// A mirror that is being written.
    NewMirror,
    /// A segment of a log.
    Segment {
        /// What the log has.
        class: LogClass,
        /// The position of its first frame.
        base: u64,
    },
    /// A HashStore, with its number.
    HashStore(u64),
    /// A SortedStore, with its number.
    SortedStore(u64),
    /// An index that was saved, with its number.
    SavedIndex(u64),
    /// A run of keys in their order, with its number.
    KeyRun(u64),
    /// A chain of the columns of runs, with its number.
    Chain(u64),
}

impl fmt::Display for FileName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Manifest => to.write_str(MANIFEST_NAME),
            FileName::Mirror => to.write_str(MIRROR_NAME),
            FileName::NewManifest => to.write_str(NEW_MANIFEST_NAME),
            FileName::NewMirror => to.write_str(NEW_MIRROR_NAME),
            FileName::Segment { class: LogClass::User, base } => write!(to, "log-{base:016x}"),
            FileName::Segment { class: LogClass::Moved(number), base } => {
                write!(to, "moved{number}-{base:016x}")
            }
            FileName::Segment { class: LogClass::Changes, base } => write!(to, "changes-{base:016x}"),
            FileName::Segment { class: LogClass::Redo, base } => write!(to, "redo-{base:016x}"),
            FileName::HashStore(number) => write!(to, "{number:08x}.hash"),
            FileName::SortedStore(number) => write!(to, "{number:08x}.sorted"),
            FileName::SavedIndex(number) => write!(to, "{number:08x}.index"),
            FileName::KeyRun(number) => write!(to, "{number:08x}.keys"),
            FileName::Chain(number) => write!(to, "{number:08x}.chain"),
        }
    }
}

impl FileName {
    /// Returns the file that a name belongs to; `None` if it is not a file of a database.
    pub fn parse(name: &str) -> Option<FileName> {
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let parsed = match name {
            MANIFEST_NAME => FileName::Manifest,
            MIRROR_NAME => FileName::Mirror,
            NEW_MANIFEST_NAME => FileName::NewManifest,
            NEW_MIRROR_NAME => FileName::NewMirror,
            _ => match (name.split_once('-'), name.split_once('.')) {
                (Some((log, base)), _) => {
                    FileName::Segment { class: class_of_prefix(log)?, base: number(base)? }
                }
                (None, Some((store, "hash"))) => FileName::HashStore(number(store)?),
                (None, Some((store, "sorted"))) => FileName::SortedStore(number(store)?),
                (None, Some((store, "index"))) => FileName::SavedIndex(number(store)?),
                (None, Some((store, "keys"))) => FileName::KeyRun(number(store)?),
                (None, Some((store, "chain"))) => FileName::Chain(number(store)?),
                _ => return None,
            },
        };
        // Only the exact name: an open removes files with such names that are not live.
        (parsed.to_string() == name).then_some(parsed)
    }

    /// Returns whether this is a data file of an engine: a segment of a log, a store, a saved index or a run of keys.
    /// Some engine has it, also if this program does not have that engine.
    pub fn is_data(self) -> bool {
        self.is_log_or_store() || self.is_of_logs()
    }

    /// Returns whether this is a segment of the log of class `User` or a store.
    pub fn is_log_or_store(self) -> bool {
        self.segment_base(LogClass::User).is_some() || self.store_number().is_some()
    }

    /// Returns whether this is a segment of a log of an engine, a saved index or a run of keys: a file of a database
    /// whose data is in logs.
    pub fn is_of_logs(self) -> bool {
        match self {
            FileName::Segment { class, .. } => class != LogClass::Changes,
            FileName::SavedIndex(_) | FileName::KeyRun(_) => true,
            _ => false,
        }
    }

    /// Returns whether this is a segment of the change feed.
    pub fn is_of_changes(self) -> bool {
        self.segment_base(LogClass::Changes).is_some()
    }

    /// Returns the number of a store or a chain.
    pub fn store_number(self) -> Option<u64> {
        match self {
            FileName::HashStore(number) | FileName::SortedStore(number) | FileName::Chain(number) => {
                Some(number)
            }
            _ => None,
        }
    }

    /// Returns the position of the first frame of a segment of the log of a class.
    pub fn segment_base(self, of: LogClass) -> Option<u64> {
        match self {
            FileName::Segment { class, base } if class == of => Some(base),
            _ => None,
        }
    }
}

/// Returns the class of the log whose segments have names that begin with this, and a hyphen.
fn class_of_prefix(prefix: &str) -> Option<LogClass> {
    match prefix.strip_prefix("moved") {
        Some(number) => match LogClass::from_number(number.parse().ok()?)? {
            moved @ LogClass::Moved(_) => Some(moved),
            _ => None,
        },
        None if prefix == "log" => Some(LogClass::User),
        None if prefix == "changes" => Some(LogClass::Changes),
        None if prefix == "redo" => Some(LogClass::Redo),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_files_only_if_its_number_formats_to_it() {
        let names = [FileName::Manifest, FileName::Mirror, FileName::NewManifest, FileName::NewMirror];
        let numbers = [0, 1, 0xcafe, u32::MAX.into(), 1 << 32, u64::MAX];
        let kinds = [
            FileName::HashStore,
            FileName::SortedStore,
            FileName::SavedIndex,
            FileName::KeyRun,
            FileName::Chain,
        ];
        let numbered = numbers.iter().flat_map(|&number| kinds.map(|kind| kind(number)));
        let classes = (0..=u8::MAX).filter_map(LogClass::from_number);
        let segments = classes
            .flat_map(|class| numbers.map(|base| FileName::Segment { class, base }))
            .collect::<Vec<_>>();
        assert_eq!(segments.len(), 6 * numbers.len());
        for name in numbered.chain(segments).chain(names) {
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
        let others = [
            "",
            "log-",
            "log-0",
            "log-00",
            "log-+0",
            "log-2024",
            "log-20240101",
            "log-00000000000000000",
            "log-+000000000000001",
            "log-00000000000000FF",
            "log-0000000000000000.bak",
            "log-000000000000000g",
            "moved0-0000000000000000",
            "moved4-0000000000000000",
            "moved7-0000000000000000",
            "moved01-0000000000000000",
            "moved-0000000000000000",
            "redo-0",
            "redo0-0000000000000000",
            "changes-0",
            "CHANGES",
            "cafe.hash",
            "1.sorted",
            "1.index",
            "1.keys",
            "+0000001.hash",
            "00000000.hash.new",
            "000000001.hash",
            "0000CAFE.hash",
            ".hash",
            "MANIFEST.backup.new",
            "MANIFEST.old",
            "manifest",
            "USAGE",
            "LOCK",
            "00000001.txt",
        ];
        others.iter().for_each(|name| assert_eq!(FileName::parse(name), None, "{name}"));
    }

    #[test]
    fn only_files_of_a_database_are_left_by_a_truncation() {
        let left = ["MANIFEST", "log-0000000000000000", "USAGE", "USAGE.new", "COMPRESSION.mirror.new"];
        assert!(left.iter().all(|name| is_left(&format!("{TRUNCATED_PREFIX}{name}")) && !is_left(name)));
        let others = ["", "notes.txt", "log-0", "LOCK", "truncated-USAGE", "CODECS", "USAGE.new.new"];
        assert!(others.iter().all(|name| !is_left(&format!("{TRUNCATED_PREFIX}{name}"))));
    }
}

//! The constant properties of all engines, whether this program is compiled with them or not: a database is recognised
//! without its engine.
//!
//! The name of an engine is also that of the cargo feature with which the library has it.

/// The constant properties of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineInfo {
    /// The name, as users write it.
    pub name: &'static str,
    /// The number in the headers of its directories. `None` for an engine that keeps all data in memory.
    pub number: Option<u8>,
    /// What it is for, in one line.
    pub summary: &'static str,
}

impl EngineInfo {
    /// Returns the engine with this number in the headers of its directories.
    pub fn of_number(number: u8) -> Option<&'static EngineInfo> {
        KNOWN.into_iter().find(|info| info.number == Some(number))
    }

    /// Returns what to do about an engine that the library is compiled without.
    pub(crate) fn absence(&self) -> String {
        let name = self.name;
        format!(
            "this program is compiled without the engine `{name}`; add the feature `{name}` of the crate siltstone"
        )
    }
}

/// The engine of new databases for which none is stated.
pub const DEFAULT: &EngineInfo = &SILT;

/// All engines of the library.
pub const KNOWN: [&EngineInfo; 5] = [&SILT, &MICA, &FLASHKEY, &FLASHSTORE, &BLOOMSTORE];

/// SILT.
pub const SILT: EngineInfo = EngineInfo {
    name: "silt",
    number: Some(1),
    summary: "data beyond memory: the least RAM per key at one flash read per get",
};

/// MICA.
pub const MICA: EngineInfo = EngineInfo {
    name: "mica",
    number: None,
    summary: "data in memory: a store, or a cache that evicts; lost when it is closed",
};

/// FlashKey.
pub const FLASHKEY: EngineInfo = EngineInfo {
    name: "flashkey",
    number: Some(3),
    summary: "data beyond memory: one append per put, no read for a missing key, 5 bytes of RAM per key",
};

/// FlashStore.
pub const FLASHSTORE: EngineInfo = EngineInfo {
    name: "flashstore",
    number: Some(4),
    summary: "a fast drive as the working set of a large slow store; also a cache on flash",
};

/// BloomStore.
pub const BLOOMSTORE: EngineInfo = EngineInfo {
    name: "bloomstore",
    number: Some(5),
    summary: "data beyond memory: what locates a key is on flash too, so a get takes two flash reads",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_engines_are_unique() {
        for info in KNOWN {
            assert_eq!(KNOWN.iter().filter(|other| other.name == info.name).count(), 1);
            if let Some(number) = info.number {
                assert!(number > 0, "0 is the number of no engine");
                assert_eq!(EngineInfo::of_number(number), Some(info));
            }
        }
    }
}

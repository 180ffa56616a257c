//! Enumerations with names for the command line and for reports.

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serializer;
use siltstone::{Access, DictionaryIndex, Durability, EngineKind};
use siltstone_mica::{AccessMode, Eviction};

/// An enumeration with names.
pub trait Named: Copy + Send + Sync + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// Returns the name, with underscores between words.
    fn name(self) -> &'static str;
}

/// Implements [`Named`] for types that have its constant and its method.
#[macro_export]
macro_rules! named {
    ($($kind:ty),* $(,)?) => {
        $(impl $crate::named::Named for $kind {
            const ALL: &'static [Self] = &<$kind>::ALL;

            fn name(self) -> &'static str {
                <$kind>::name(self)
            }
        })*
    };
}

named!(Access, AccessMode, DictionaryIndex, Durability, EngineKind, Eviction);

/// Returns a parser of the values of `T` by name, with hyphens or underscores between words.
pub fn by_name<T: Named>() -> impl TypedValueParser<Value = T> {
    let kinds = T::ALL.iter().map(|kind| {
        let name = kind.name();
        PossibleValue::new(name.replace('_', "-")).alias(name)
    });
    PossibleValuesParser::new(kinds).try_map(|typed| {
        let name = typed.replace('-', "_").to_ascii_lowercase();
        T::ALL.iter().copied().find(|kind| kind.name() == name).ok_or("unknown name")
    })
}

/// Serializes a value as its name.
pub fn serialize<T: Named, S: Serializer>(kind: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

/// Returns the settings of an empty command line.
pub fn defaults<T: Parser>() -> T {
    T::parse_from([""; 1])
}

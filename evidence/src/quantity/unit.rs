//! The units of quantities, each a type.

/// A unit.
pub trait Unit: 'static {
    /// Its name, as in "5.4 bytes written per byte put".
    const NAME: &'static str;
}

macro_rules! units {
    ($($(#[doc = $doc:literal])+ $unit:ident = $name:literal;)*) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug)]
            pub enum $unit {}

            impl Unit for $unit {
                const NAME: &'static str = $name;
            }
        )*
    };
}

units! {
    /// Bits per key.
    BitsPerKey = "bits per key";
    /// Bytes per byte of the records that were put, or are returned, or are stored.
    BytesPerByte = "bytes per byte";
    /// Bytes per get.
    BytesPerGet = "B per get";
    /// Bytes per key.
    BytesPerKey = "B per key";
    /// A number of keys.
    Keys = "keys";
    /// Keys per second.
    KeysPerSecond = "keys per second";
    /// A number of items in a level, or of levels.
    Levels = "items";
    /// Megabytes (10^6 bytes) per second.
    MegabytesPerSecond = "MB per second";
    /// Microseconds.
    Microseconds = "µs";
    /// Operations per second of wall-clock time.
    OperationsPerSecond = "operations per second";
    /// A number per get.
    PerGet = "per get";
    /// A number per put.
    PerPut = "per put";
    /// Seconds.
    Seconds = "s";
    /// A share of a whole.
    Share = "of 1";
    /// A quotient of two values of one quantity.
    Times = "times";
    /// Years.
    Years = "years";
}

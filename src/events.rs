//! Events for the crate `tracing`, behind the feature `tracing`. Without the feature an event is no code.
//!
//! The target of all events is `siltstone`. Errors are failures after which nothing more is written, warnings are slow
//! operations, parts of stores that leave memory, and records that an open cut off. What happens once per open is
//! at the level `info`, and what background work and throttled writers do at `debug` and `trace`.

/// Emits an event at a level, with the arguments of the macros of `tracing`. They are evaluated only if a subscriber
/// wants the event.
macro_rules! event {
    ($level:ident, $($arguments:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "siltstone", $($arguments)*);
    };
}

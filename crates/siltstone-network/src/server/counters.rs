//! The counters of a core.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        /// The counts of the cores of a server, since it started.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$attribute])* pub $name: u64,)*
        }

        impl Counts {
            /// Returns the names and numbers, for printing.
            pub fn items(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Adds the counts of another core.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }
        }

        /// The counters of one core, which alone writes them, on cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(super) struct Counters {
            $($name: AtomicU64,)*
        }

        impl Counters {
            pub fn add(&self, counts: &Counts) {
                $(if counts.$name != 0 {
                    self.$name.store(self.$name.load(Relaxed) + counts.$name, Relaxed);
                })*
            }

            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Packets received.
    received_packets,
    /// Bytes of the packets received.
    received_bytes,
    /// Packets sent.
    sent_packets,
    /// Bytes of the packets sent.
    sent_bytes,
    /// Packets that the system refused to send.
    unsent_packets,
    /// Receive calls that returned at least one packet.
    bursts,
    /// Gets executed.
    gets,
    /// Gets that found their key.
    hits,
    /// Gets whose value was longer than the reserved bytes.
    long_values,
    /// Puts executed.
    puts,
    /// Puts refused because memory or index was full, or the item did not have the server's sizes.
    refused_puts,
    /// Deletes executed.
    deletes,
    /// Directory requests.
    directory_requests,
    /// Packets that were dropped: foreign ones, and replies.
    foreign_packets,
    /// Malformed packets, which were refused.
    malformed_packets,
    /// Packets made with the directory of another run of the server, which were refused.
    stale_packets,
    /// Packets that were too long, which were refused.
    long_packets,
    /// Requests that reached a core that may not execute them, which were refused.
    misdirected,
    /// Requests whose hash was not that of their key, which were refused.
    wrong_hashes,
    /// Packets forwarded to the core that has the partition.
    forwarded_packets,
    /// Packets that could not be forwarded because that core had too many; they were refused.
    overloaded_packets,
    /// How often a core started to wait for packets.
    waits,
    /// The processor time of the cores' threads, including kernel time, in nanoseconds. Updated when a core starts to
    /// wait, and periodically while it is busy.
    processor_ns,
}

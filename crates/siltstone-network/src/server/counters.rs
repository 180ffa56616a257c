//! What a core counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        /// What the cores of a server have counted since it began.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$attribute])* pub $name: u64,)*
        }

        impl Counts {
            /// Names and numbers, for whoever prints them.
            pub fn items(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Adds those of another core.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }
        }

        /// The counts of one core, which alone writes them; on cache lines of their own.
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
    /// Packets that were received.
    received_packets,
    /// Bytes of them.
    received_bytes,
    /// Packets that were sent.
    sent_packets,
    /// Bytes of them.
    sent_bytes,
    /// Packets that the system would not send.
    unsent_packets,
    /// Calls that received at least one packet.
    bursts,
    /// Gets that were carried out.
    gets,
    /// Gets that found their key.
    hits,
    /// Gets for whose value the request had no room.
    long_values,
    /// Puts that were carried out.
    puts,
    /// Puts for which there was no room, or that did not fit the items.
    refused_puts,
    /// Deletes that were carried out.
    deletes,
    /// Questions for the directory.
    directory_requests,
    /// Packets that are none of this protocol, or answers: dropped.
    foreign_packets,
    /// Packets that contradict themselves: refused.
    malformed_packets,
    /// Packets by the directory of another run of the server: refused.
    stale_packets,
    /// Packets that are longer than allowed: refused.
    long_packets,
    /// Requests that came to a core that may not do them: answered so.
    misdirected,
    /// Requests whose hash was not that of their key: answered so.
    wrong_hashes,
    /// Packets that were forwarded to the core that has the partition.
    forwarded_packets,
    /// Packets that could not be forwarded, since that core had too many: refused.
    overloaded_packets,
    /// How often a core has begun to wait for packets.
    waits,
    /// What the threads of the cores have spent on a processor, in the kernel too, in nanoseconds. Told when a core
    /// begins to wait, and now and then while it is busy.
    processor_ns,
}

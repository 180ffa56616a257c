//! The names and the kinds of the benchmarks.

use crate::named;
use std::fmt;

macro_rules! benchmarks {
    ($($variant:ident, $name:literal, $about:literal;)*) => {
        /// A benchmark. Those of db_bench have its names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Benchmark {
            $(#[doc = $about] $variant,)*
        }

        impl Benchmark {
            /// All benchmarks, in the order of their description.
            pub const ALL: &[Benchmark] = &[$(Benchmark::$variant,)*];

            /// Returns the name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Benchmark::$variant => $name,)* }
            }

            /// Returns a one-line description.
            pub fn about(self) -> &'static str {
                match self { $(Benchmark::$variant => $about,)* }
            }
        }
    };
}

benchmarks! {
    FillSeq, "fillseq", "writes all keys in order to a new database";
    FillRandom, "fillrandom", "writes num random keys, with repetitions, to a new database";
    FillUniqueRandom, "filluniquerandom", "writes all keys in random order to a new database";
    FillSync, "fillsync", "writes num/1000 random keys to a new database, each synced";
    Overwrite, "overwrite", "writes num random keys to the database";
    UpdateRandom, "updaterandom", "reads and writes num random keys, atomically";
    DeleteRandom, "deleterandom", "deletes num random keys";
    ReadRandom, "readrandom", "reads random keys";
    ReadMissing, "readmissing", "reads missing keys";
    ReadHot, "readhot", "reads random keys from the first hundredth";
    ReadSeq, "readseq", "reads all records in the engine's order";
    Queue, "queue", "puts num keys in order, deletes all but the last 1,000, and finds the first key each time";
    MultiReadRandom, "multireadrandom", "reads random keys, batch_size per call";
    ReadWhileWriting, "readwhilewriting", "reads random keys while another thread overwrites random keys";
    ReadRandomWriteRandom, "readrandomwriterandom", "reads and writes random keys: readwritepercent of them are reads";
    Compact, "compact", "merges all stores into the last store";
    Settle, "settle", "waits until no background work is left";
    WaitForBackground, "waitforbackground", "the same";
    VerifyChecksum, "verifychecksum", "reads and checks all data";
    Reopen, "reopen", "closes the database and opens it again";
    Stats, "stats", "prints the database's statistics";
    Abort, "abort", "ends the process as by SIGKILL, to measure opening after a crash";
}

named!(Benchmark);

impl Benchmark {
    /// The benchmarks that run by default.
    pub const USUAL: &[Benchmark] = &[
        Benchmark::FillRandom,
        Benchmark::Compact,
        Benchmark::ReadRandom,
        Benchmark::ReadMissing,
        Benchmark::Overwrite,
        Benchmark::Stats,
    ];

    /// Returns whether it begins with an empty database.
    pub fn is_fresh(self) -> bool {
        use Benchmark::*;
        matches!(self, FillSeq | FillRandom | FillUniqueRandom | FillSync | Queue)
    }

    /// Returns whether it writes. Then it is timed twice: when the last write returns, and when no background work is
    /// left.
    pub fn writes(self) -> bool {
        use Benchmark::*;
        self.is_fresh() || matches!(self, Overwrite | UpdateRandom | DeleteRandom | ReadRandomWriteRandom)
    }

    /// Returns the number of threads that run it, if this many are wanted.
    pub fn threads(self, wanted: usize) -> usize {
        use Benchmark::*;
        match self {
            ReadSeq | Queue | Compact | Settle | WaitForBackground | VerifyChecksum | Reopen | Stats
            | Abort => 1,
            _ => wanted,
        }
    }

    /// Returns whether it looks up keys, so that reads per get are reported.
    pub fn looks_up(self) -> bool {
        use Benchmark::*;
        matches!(self, ReadRandom | ReadMissing | ReadHot | MultiReadRandom) || self.reads_next_to_writes()
    }

    /// Returns whether keys are written while others are looked up.
    pub fn reads_next_to_writes(self) -> bool {
        matches!(self, Benchmark::ReadWhileWriting | Benchmark::ReadRandomWriteRandom)
    }

    /// Returns whether it looks up keys and does not write.
    pub fn only_looks_up(self) -> bool {
        self.looks_up() && !self.reads_next_to_writes()
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

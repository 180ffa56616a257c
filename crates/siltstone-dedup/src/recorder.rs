//! Records the operations on the index as a trace, which `siltstone bench trace` replays.

use super::formats::METADATA_BYTES;
use anyhow::Context;
use siltstone_bench::trace::{Kind, Operation, Writer, identity_of};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

/// Writes a trace of the index's lookups and inserts, in order.
pub struct Recorder {
    trace: Writer<BufWriter<File>>,
    started: Instant,
}

impl Recorder {
    /// Creates a trace in a new file.
    pub fn create(path: &Path) -> anyhow::Result<Recorder> {
        let create = || Writer::new(BufWriter::new(File::create_new(path)?));
        let trace = create().with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Recorder { trace, started: Instant::now() })
    }

    /// Records a lookup.
    pub fn lookup(&mut self, hash: &[u8], found: bool) -> anyhow::Result<()> {
        self.write(Kind::Get, hash, if found { METADATA_BYTES } else { 0 })
    }

    /// Records an insert.
    pub fn insert(&mut self, hash: &[u8]) -> anyhow::Result<()> {
        self.write(Kind::Set, hash, METADATA_BYTES)
    }

    fn write(&mut self, kind: Kind, hash: &[u8], value_length: usize) -> anyhow::Result<()> {
        let operation = Operation {
            kind,
            key: identity_of(hash),
            key_length: u16::try_from(hash.len())?,
            value_length: u32::try_from(value_length)?,
            time_ms: u64::try_from(self.started.elapsed().as_millis())?,
            time_to_live_s: 0,
        };
        self.trace.write(&operation).context("cannot write the trace")
    }

    /// Ends the trace.
    pub fn finish(self) -> anyhow::Result<()> {
        self.trace.finish().context("cannot write the trace")?;
        Ok(())
    }
}

//! The columns of a run: the index section of its file. In memory are its fences, except while the run is written.

use super::OrderedTable;
use super::index::{SECTION_COLUMNS, StoreIndex, decode_columns};
use crate::error::Result;
use siltstone_device::Purpose;
use siltstone_index::run_columns::RunColumns;
use std::sync::Arc;

/// The approximate memory of a fence, in bytes.
const FENCE_BYTES: u64 = 3;

impl OrderedTable {
    /// Returns the same run with its fences in memory in place of its columns, which its file has.
    pub fn without_columns(&self) -> OrderedTable {
        // Damaged columns have no fences. Lookups then use the columns.
        let fences = self.columns().and_then(|columns| StoreIndex::fences_of(columns)).map(Arc::new);
        OrderedTable { index: fences.or_else(|| self.index.clone()), ..self.handle() }
    }

    /// Reads the columns of a run from its file; `None` if it is no run.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if they are damaged, and those of the device.
    pub fn read_columns(&self, purpose: Purpose) -> Result<Option<RunColumns>> {
        let section = &self.file.footer().index;
        if section.kind != SECTION_COLUMNS {
            return Ok(None);
        }
        decode_columns(&self.file, &self.file.read_section(section, purpose)?).map(Some)
    }

    /// Returns the approximate memory of the fences of a run, in bytes; `None` if it is no run.
    pub fn fences_bytes(&self) -> Option<u64> {
        let footer = self.file.footer();
        (footer.index.kind == SECTION_COLUMNS).then_some(FENCE_BYTES * footer.blocks)
    }

    /// Returns the columns of a run that was just written, if they are in memory.
    pub fn columns(&self) -> Option<&Arc<RunColumns>> {
        self.index.as_ref().and_then(|index| index.run_columns())
    }
}

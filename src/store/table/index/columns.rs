//! The columns of a run: the index section of its file. In memory are its fences, except while the run is written.

use super::{SECTION_COLUMNS, StoreIndex, Structure};
use crate::error::{CorruptFile, Error, Result};
use crate::store::file::StoreFile;
use crate::store::table::OrderedTable;
use siltstone_device::Purpose;
use siltstone_index::run_columns::RunColumns;
use siltstone_index::run_fences::RunFences;
use std::sync::Arc;

/// The approximate memory of a fence, in bytes.
const FENCE_BYTES: u64 = 3;

impl OrderedTable {
    /// Returns the same run with its fences in memory in place of its columns, which its file has.
    pub fn without_columns(&self) -> OrderedTable {
        // Damaged columns have no fences. Lookups then use the columns.
        let fences = self.columns().and_then(|columns| RunFences::of(columns));
        let index = fences.map(|fences| Arc::new(StoreIndex::new(Structure::RunFences(fences), 1)));
        OrderedTable { index: index.or_else(|| self.index.clone()), ..self.clone() }
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
        decode(&self.file, &self.file.read_section(section, purpose)?).map(Some)
    }

    /// Returns the approximate memory of the fences of a run, in bytes; `None` if it is no run.
    pub fn fences_bytes(&self) -> Option<u64> {
        let footer = self.file.footer();
        (footer.index.kind == SECTION_COLUMNS).then_some(FENCE_BYTES * footer.blocks)
    }

    /// Returns the columns of a run that was just written, if they are in memory.
    pub fn columns(&self) -> Option<&Arc<RunColumns>> {
        match &self.index.as_ref()?.structure {
            Structure::Columns(columns) => Some(columns),
            _ => None,
        }
    }
}

/// Decodes the columns in the index section of a file.
pub(super) fn decode(file: &StoreFile, bytes: &[u8]) -> Result<RunColumns> {
    let offset = StoreFile::section_offset(&file.footer().index);
    let columns = RunColumns::decode(bytes).map_err(Error::decode(file.file().path(), offset))?;
    // Columns of other blocks would lead lookups outside of the file.
    if columns.blocks() != file.footer().blocks {
        let expected = format!("columns of {} blocks", file.footer().blocks);
        return Err(file.file().corrupt(offset, expected, columns.blocks().to_string()));
    }
    Ok(columns)
}

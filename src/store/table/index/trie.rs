//! The entropy-coded trie as the index of a table. Its leaves and its codes make three kinds of it.

use super::{IndexKind, StoreIndexSettings};
use crate::error::{CorruptFile, Error, Result};
use crate::store::file::StoreFile;
use crate::store::table::BlockForm;
use siltstone_index::entropy_trie::{Coder, EntropyTrie, EntropyTrieBuilder, TrieSettings};

/// Makes the builder of a trie of this kind.
pub(super) fn builder(settings: &StoreIndexSettings) -> Result<EntropyTrieBuilder> {
    let records_per_block = if settings.kind.locates_slots() { 1 } else { settings.slots_per_block.max(1) };
    let coder = if settings.kind == IndexKind::PaperTrie { Coder::Paper } else { Coder::Fast };
    let expected_keys = settings.expected_records;
    let settings = TrieSettings { records_per_block, expected_keys, coder, ..TrieSettings::default() };
    Ok(EntropyTrieBuilder::new(settings)?)
}

/// Returns the kind of a trie with this number of units per block.
pub(super) fn kind(trie: &EntropyTrie, units_per_block: u64) -> IndexKind {
    // With one slot per block, a dense and a pruned trie are the same.
    let is_dense = trie.settings().records_per_block == 1 && units_per_block > 1;
    match trie.settings().coder {
        Coder::Paper => IndexKind::PaperTrie,
        Coder::Fast if is_dense => IndexKind::DenseTrie,
        Coder::Fast => IndexKind::EntropyTrie,
    }
}

/// Decodes the trie in the index section of a file.
pub(super) fn decode(
    file: &StoreFile,
    form: BlockForm,
    slots_per_block: u32,
    bytes: &[u8],
) -> Result<EntropyTrie> {
    let offset = StoreFile::section_offset(&file.footer().index);
    let trie = EntropyTrie::decode(bytes).map_err(Error::decode(file.file().path(), offset))?;
    let records = trie.settings().records_per_block;
    let fits = form != BlockForm::Stream && [1, slots_per_block].contains(&records);
    // A trie counts records, so that one for other records would locate blocks that do not exist.
    if fits && trie.len() == file.footer().records {
        return Ok(trie);
    }
    let expected = format!("a trie of {} records, {slots_per_block} per block", file.footer().records);
    let got = format!("{} records, {records} per block", trie.len());
    Err(file.file().corrupt(offset, expected, got))
}

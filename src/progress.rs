//! How long operations tell how far they are.

/// Is given what is done and what there is in all, in bytes, now and then; answers whether to go on.
pub type Progress<'a> = dyn FnMut(u64, u64) -> bool + 'a;

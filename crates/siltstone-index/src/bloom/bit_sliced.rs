//! Filters of the same number of rows, as a matrix of bits.
//!
//! ```text
//! 3 columns, rows r0 r1 ...     word 0: r0 r0 r0 r1 r1 r1 r2 ...      rows of exactly as many bits as columns,
//!                                                                     so no column takes more than its rows
//! ```

use super::{COLUMNS_MAX, FUNCTIONS_MAX, ROWS_MAX};
use crate::coding::mix;
use crate::{BuildError, list_bytes};

/// The words of a row at most.
const ROW_WORDS: usize = COLUMNS_MAX as usize / 64;

/// Filters of the same number of rows and functions, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitSliced {
    shape: Shape,
    /// The rows one after the other; unused bits of the last word are 0.
    words: Vec<u64>,
}

/// The numbers of rows, functions and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub rows: u32,
    pub functions: u32,
    pub columns: u32,
}

/// The columns of a key, the newest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Columns([u64; ROW_WORDS]);

impl Iterator for Columns {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (at, word) = self.0.iter_mut().enumerate().rfind(|(_, word)| **word != 0)?;
        let bit = word.ilog2();
        *word &= !(1 << bit);
        Some(at as u32 * 64 + bit)
    }
}

impl Columns {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; ROW_WORDS]
    }

    /// Adds the columns of a matrix whose first column has the number `first`.
    pub(super) fn add(&mut self, first: u32, columns: Columns) {
        let (word, shift) = ((first / 64) as usize, first % 64);
        for (at, bits) in columns.0.into_iter().enumerate().filter(|(_, bits)| *bits != 0) {
            if let Some(low) = self.0.get_mut(word + at) {
                *low |= bits << shift;
            }
            // In two shifts, because `shift` may be 0.
            if let Some(high) = self.0.get_mut(word + at + 1) {
                *high |= (bits >> 1) >> (63 - shift);
            }
        }
    }
}

/// Returns the rows of a key.
#[inline]
pub(crate) fn rows_of(rows: u32, functions: u32, hash: u64) -> impl Iterator<Item = u64> {
    let mut mixed = hash;
    (0..functions).map(move |function| {
        // Two rows per mixed word.
        if function % 2 == 0 {
            mixed = mix(mixed.wrapping_add(0x9e37_79b9_7f4a_7c15));
        }
        let part = (mixed >> (32 * (function % 2))) & 0xffff_ffff;
        (part * u64::from(rows)) >> 32
    })
}

impl Shape {
    /// Returns the number of words of the matrix.
    pub(super) fn words(self) -> u64 {
        (u64::from(self.rows) * u64::from(self.columns)).div_ceil(64)
    }

    /// Returns the columns that have a 1 in each row of a key. `word` returns a word of the matrix; words after it
    /// are 0.
    #[inline]
    pub(super) fn matches(self, word: impl Fn(usize) -> u64, hash: u64) -> Columns {
        let width = u64::from(self.columns);
        let mut all = [0; ROW_WORDS];
        let row_words = &mut all[..width.div_ceil(64) as usize];
        row_words.fill(u64::MAX);
        // Bits after the last column belong to the next row.
        if let (Some(last), true) = (row_words.last_mut(), width % 64 > 0) {
            *last = (1 << (width % 64)) - 1;
        }
        for row in rows_of(self.rows, self.functions, hash) {
            let mut any = 0;
            for (at, all) in (row * width..).step_by(64).zip(row_words.iter_mut()) {
                *all &= bits_at(&word, at);
                any |= *all;
            }
            // No filter has the key: further rows cannot add one.
            if any == 0 {
                break;
            }
        }
        Columns(all)
    }
}

/// Returns the 64 bits that begin at bit `start`.
#[inline]
fn bits_at(word: impl Fn(usize) -> u64, start: u64) -> u64 {
    let (at, shift) = ((start / 64) as usize, start % 64);
    word(at) >> shift | (word(at + 1) << 1) << (63 - shift)
}

impl BitSliced {
    /// Makes a matrix without columns.
    ///
    /// # Errors
    /// [`BuildError::Setting`] for no rows or functions, or more than [`ROWS_MAX`] or [`FUNCTIONS_MAX`].
    pub fn new(rows: u32, functions: u32) -> Result<Self, BuildError> {
        let setting = |name, got: u32, limit| BuildError::Setting { name, got: got.into(), limit };
        if !(1..=ROWS_MAX).contains(&rows) {
            return Err(setting("rows", rows, "at least 1"));
        }
        if !(1..=FUNCTIONS_MAX).contains(&functions) {
            return Err(setting("functions", functions, "1 to 32"));
        }
        Ok(BitSliced { shape: Shape { rows, functions, columns: 0 }, words: Vec::new() })
    }

    /// Makes a matrix of one column, a plain Bloom filter, of these hashes.
    ///
    /// # Errors
    /// Those of [`new`](BitSliced::new).
    pub fn filter(
        rows: u32,
        functions: u32,
        hashes: impl IntoIterator<Item = u64>,
    ) -> Result<Self, BuildError> {
        let mut filter = BitSliced::new(rows, functions)?;
        filter.shape.columns = 1;
        filter.words = vec![0; filter.shape.words() as usize];
        hashes.into_iter().for_each(|hash| filter.insert(hash));
        Ok(filter)
    }

    /// Makes a matrix of one column of these bits, row by row. Missing ones are 0.
    ///
    /// # Errors
    /// Those of [`new`](BitSliced::new).
    pub(crate) fn filter_of_bits(rows: u32, functions: u32, words: &[u64]) -> Result<Self, BuildError> {
        let mut filter = BitSliced::filter(rows, functions, [])?;
        filter.words.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
        Ok(filter)
    }

    pub(super) fn from_words(shape: Shape, words: Vec<u64>) -> Self {
        BitSliced { shape, words }
    }

    /// Inserts a hash into the newest filter. There must be a filter.
    pub(super) fn insert(&mut self, hash: u64) {
        for row in rows_of(self.shape.rows, self.shape.functions, hash) {
            // The newest filter is the last column of each row.
            let bit = (row + 1) * u64::from(self.shape.columns) - 1;
            self.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the number of filters.
    pub fn columns(&self) -> u32 {
        self.shape.columns
    }

    /// Returns the number of rows: the bits of a filter.
    pub fn rows(&self) -> u32 {
        self.shape.rows
    }

    /// Returns the number of functions: the rows of a key.
    pub fn functions(&self) -> u32 {
        self.shape.functions
    }

    /// Returns whether filters of the other matrix can be columns of this one.
    pub fn has_shape_of(&self, other: &BitSliced) -> bool {
        (self.rows(), self.functions()) == (other.rows(), other.functions())
    }

    /// Adds a filter of these hashes, which is the newest then. Copies the matrix.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if there are [`COLUMNS_MAX`] filters.
    pub fn add_column(&mut self, hashes: impl IntoIterator<Item = u64>) -> Result<(), BuildError> {
        self.append(&BitSliced::filter(self.rows(), self.functions(), hashes)?)
    }

    /// Adds the filters of another matrix, which are newer. Copies both.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if it has another number of rows or functions, or there would be more than
    /// [`COLUMNS_MAX`] filters.
    pub fn append(&mut self, newer: &BitSliced) -> Result<(), BuildError> {
        self.append_each(std::slice::from_ref(newer))
    }

    /// Adds the filters of other matrices, each newer than the one before it. Copies all of them once.
    ///
    /// # Errors
    /// Those of [`append`](BitSliced::append).
    pub fn append_each(&mut self, newer: &[BitSliced]) -> Result<(), BuildError> {
        // All checks first, so that the filters are unchanged after an error.
        if let Some(other) = newer.iter().find(|other| !self.has_shape_of(other)) {
            let limit = "the rows and functions of the older filters";
            return Err(BuildError::Setting { name: "rows", got: other.rows().into(), limit });
        }
        let columns = self.columns() + newer.iter().map(BitSliced::columns).sum::<u32>();
        if columns > COLUMNS_MAX {
            return Err(BuildError::Setting { name: "columns", got: columns.into(), limit: "at most 256" });
        }
        let parts: Vec<_> = std::iter::once(&*self).chain(newer).map(|part| (part, 0)).collect();
        *self = joined(&parts, Shape { columns, ..self.shape });
        Ok(())
    }

    /// Removes the oldest filters, at most all. Copies the rest.
    pub fn remove_oldest(&mut self, columns: u32) {
        let left = self.columns().saturating_sub(columns);
        *self = joined(&[(self, self.columns() - left)], Shape { columns: left, ..self.shape });
    }

    /// Returns the filters that may have a key, the newest first. A filter that has it is always among them.
    pub fn matches(&self, hash: u64) -> Columns {
        self.shape.matches(|word| self.words.get(word).copied().unwrap_or(0), hash)
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        list_bytes(&self.words)
    }
}

/// Returns a matrix of the columns of each part from a number on. The parts have the rows of the matrix.
fn joined(parts: &[(&BitSliced, u32)], shape: Shape) -> BitSliced {
    let mut words = Vec::with_capacity(shape.words() as usize);
    // The word that is being filled, and how many bits it has.
    let (mut last, mut filled) = (0, 0);
    for row in 0..u64::from(shape.rows) {
        for (part, first) in parts {
            let (mut from, end) =
                (row * u64::from(part.columns()) + u64::from(*first), (row + 1) * u64::from(part.columns()));
            while from < end {
                let width = (end - from).min(64) as u32;
                let bits = bits_at(|word| part.words.get(word).copied().unwrap_or(0), from);
                // Without the bits of the row after it.
                let bits = bits & (u64::MAX >> (64 - width));
                last |= bits << filled;
                if filled + width >= 64 {
                    words.push(last);
                    // In two shifts, because `filled` may be 0.
                    last = (bits >> 1) >> (63 - filled);
                }
                filled = (filled + width) % 64;
                from += u64::from(width);
            }
        }
    }
    if filled > 0 {
        words.push(last);
    }
    BitSliced { shape, words }
}

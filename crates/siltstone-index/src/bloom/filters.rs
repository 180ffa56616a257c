//! Filters of any numbers of rows, as matrices one after the other, and their encoded form.

use super::bit_sliced::Shape;
use super::{BitSliced, COLUMNS_MAX, Columns, FUNCTIONS_MAX};
use crate::coding::Decoder;
use crate::{BuildError, DecodeError, list_bytes};

const STRUCTURE: &str = "Bloom filters";
const MAGIC: [u8; 4] = *b"SSBF";
const VERSION: u16 = 1;
/// The bytes before the matrices, and those of each matrix before its words.
const HEADER_BYTES: usize = 8;
const SHAPE_BYTES: usize = 8;

/// Filters of successive sets, the oldest first. Filters of the same number of rows that follow each other are one
/// matrix, so a lookup costs as many rows as a key has in each *different* filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BloomFilters {
    groups: Vec<BitSliced>,
}

/// Encoded filters, to look keys up without decoding them.
#[derive(Debug, Clone, Copy)]
pub struct EncodedFilters<'a> {
    columns: u32,
    groups: &'a [u8],
}

/// A matrix of encoded filters.
struct EncodedGroup<'a> {
    shape: Shape,
    words: &'a [[u8; 8]],
}

impl BloomFilters {
    /// Returns the number of filters.
    pub fn columns(&self) -> u32 {
        self.groups.iter().map(BitSliced::columns).sum()
    }

    /// Returns the matrices, the oldest first. None has no columns.
    pub fn groups(&self) -> &[BitSliced] {
        &self.groups
    }

    /// Adds the filters of a matrix, which are newer. Copies the last matrix if it has the same number of rows.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if there would be more than [`COLUMNS_MAX`] filters.
    pub fn append(&mut self, newer: &BitSliced) -> Result<(), BuildError> {
        self.append_each(std::slice::from_ref(newer))
    }

    /// Adds the filters of matrices, each newer than the one before it. Copies those of the same number of rows that
    /// follow each other once.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if there would be more than [`COLUMNS_MAX`] filters.
    pub fn append_each(&mut self, newer: &[BitSliced]) -> Result<(), BuildError> {
        // Checked first, so that the filters are unchanged after an error.
        let columns = self.columns() + newer.iter().map(BitSliced::columns).sum::<u32>();
        if columns > COLUMNS_MAX {
            return Err(BuildError::Setting { name: "columns", got: columns.into(), limit: "at most 256" });
        }
        for same in newer.chunk_by(BitSliced::has_shape_of) {
            let Some((first, others)) = same.split_first() else { continue };
            match self.groups.last_mut() {
                Some(last) if last.has_shape_of(first) => last.append_each(same)?,
                _ => {
                    self.groups.push(first.clone());
                    self.groups.last_mut().map_or(Ok(()), |last| last.append_each(others))?;
                }
            }
        }
        // The format has no matrix without columns.
        self.groups.retain(|group| group.columns() > 0);
        Ok(())
    }

    /// Removes the oldest filters, at most all.
    pub fn remove_oldest(&mut self, columns: u32) {
        let mut left = columns;
        self.groups.retain_mut(|group| {
            // From the oldest matrix on, so the numbers of the columns that stay move down together.
            let removed = left.min(group.columns());
            left -= removed;
            let is_kept = removed < group.columns();
            if removed > 0 && is_kept {
                group.remove_oldest(removed);
            }
            is_kept
        });
    }

    /// Returns the filters that may have a key, the newest first. A filter that has it is always among them.
    pub fn matches(&self, hash: u64) -> Columns {
        let mut all = Columns::default();
        let mut first = 0;
        for group in &self.groups {
            all.add(first, group.matches(hash));
            first += group.columns();
        }
        all
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        list_bytes(&self.groups) + self.groups.iter().map(BitSliced::heap_bytes).sum::<usize>()
    }

    /// Returns the length of the encoded filters, in bytes.
    pub fn encoded_bytes(&self) -> usize {
        let group_bytes = |group: &BitSliced| SHAPE_BYTES + size_of_val(group.words());
        HEADER_BYTES + self.groups.iter().map(group_bytes).sum::<usize>()
    }

    /// Appends the encoded filters (`docs/formats/bloom_filters.md`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.groups.len() as u16).to_le_bytes());
        for group in &self.groups {
            let Shape { rows, functions, columns } = group.shape();
            out.extend(rows.to_le_bytes());
            out.extend((functions as u16).to_le_bytes());
            out.extend((columns as u16).to_le_bytes());
            out.extend(group.words().iter().flat_map(|word| word.to_le_bytes()));
        }
    }

    /// Decodes what [`encode`](BloomFilters::encode) has appended.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let encoded = EncodedFilters::new(bytes)?;
        // `new` has checked all lengths, so none of the matrices is left out.
        let groups = encoded.groups().map(|EncodedGroup { shape, words }| {
            BitSliced::from_words(shape, words.iter().map(|word| u64::from_le_bytes(*word)).collect())
        });
        Ok(BloomFilters { groups: groups.collect() })
    }
}

impl<'a> EncodedFilters<'a> {
    /// Reads encoded filters. The cost is that of the headers of the matrices.
    ///
    /// # Errors
    /// Bytes that the format does not allow, with their offset.
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Decoder::new(STRUCTURE, bytes, MAGIC, VERSION)?;
        let groups = reader.u16("a number of matrices")?;
        let mut columns = 0;
        let mut last = None;
        for _ in 0..groups {
            let EncodedGroup { shape, words } = EncodedGroup::read(&mut reader)?;
            columns += shape.columns;
            let wanted = || format!("at most {COLUMNS_MAX} columns");
            reader.check(0, columns <= COLUMNS_MAX, wanted, || columns.to_string())?;
            // `append_each` joins such matrices, so each set of filters has one encoded form.
            let differs = last.replace((shape.rows, shape.functions)) != Some((shape.rows, shape.functions));
            let wanted = || "a matrix of other rows or functions than the one before".into();
            reader.check(0, differs, wanted, || "the same".into())?;
            // Equality compares whole words.
            let unused = words.len() as u64 * 64 - u64::from(shape.rows) * u64::from(shape.columns);
            let padding = words.last().map_or(0, |word| u64::from_le_bytes(*word).leading_zeros());
            let wanted = || format!("{unused} zero bits after the rows");
            reader.check(8, u64::from(padding) >= unused, wanted, || format!("{padding}"))?;
        }
        reader.end()?;
        Ok(EncodedFilters { columns, groups: bytes.get(HEADER_BYTES..).unwrap_or_default() })
    }

    fn groups(self) -> impl Iterator<Item = EncodedGroup<'a>> {
        let mut rest = self.groups;
        std::iter::from_fn(move || {
            let (header, after) = rest.split_first_chunk()?;
            let shape = Shape::decode(*header);
            let (words, after) = after.split_at_checked((shape.words() as usize).saturating_mul(8))?;
            rest = after;
            Some(EncodedGroup { shape, words: words.as_chunks().0 })
        })
    }

    /// Returns the number of filters.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Returns the filters that may have a key, as [`BloomFilters::matches`] does. Reads the rows of the key only.
    pub fn matches(&self, hash: u64) -> Columns {
        let mut all = Columns::default();
        let mut first = 0;
        for EncodedGroup { shape, words } in self.groups() {
            let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
            all.add(first, shape.matches(word, hash));
            first += shape.columns;
        }
        all
    }
}

impl Shape {
    fn decode([r0, r1, r2, r3, f0, f1, c0, c1]: [u8; SHAPE_BYTES]) -> Self {
        Shape {
            rows: u32::from_le_bytes([r0, r1, r2, r3]),
            functions: u16::from_le_bytes([f0, f1]).into(),
            columns: u16::from_le_bytes([c0, c1]).into(),
        }
    }
}

impl<'a> EncodedGroup<'a> {
    fn read(reader: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let shape = Shape::decode(reader.array("rows, functions and columns")?);
        let Shape { rows, functions, columns } = shape;
        let is_allowed =
            rows > 0 && (1..=FUNCTIONS_MAX).contains(&functions) && (1..=COLUMNS_MAX).contains(&columns);
        let wanted = || format!("rows, 1 to {FUNCTIONS_MAX} functions and 1 to {COLUMNS_MAX} columns");
        reader.check(SHAPE_BYTES, is_allowed, wanted, || format!("{rows}, {functions} and {columns}"))?;
        Ok(EncodedGroup { shape, words: reader.arrays(shape.words(), "words of rows")? })
    }
}

//! The linear equations of one layer. Elimination is incremental, as equations are added: a row changes once, when an
//! equation takes it. Back substitution follows at the end.

use super::{Equation, ROWS_PER_BLOCK};
use crate::list_bytes;

/// The result of adding an equation.
pub(super) enum Outcome {
    /// It took this row.
    Taken(usize),
    /// The previous equations imply it.
    Implied,
    /// The previous equations contradict it.
    Contradicted,
}

/// The rows of a layer. A row that is taken has an equation whose first coefficient is that of the row.
#[derive(Debug)]
pub(super) struct Band {
    /// 0 in a free row.
    coefficients: Vec<u64>,
    values: Vec<u32>,
}

impl Band {
    pub(super) fn new(blocks: u64) -> Self {
        let rows = (blocks * ROWS_PER_BLOCK) as usize;
        Self { coefficients: vec![0; rows], values: vec![0; rows] }
    }

    /// Adds an equation, reduced by the equations whose rows it meets.
    pub(super) fn add(&mut self, equation: Equation) -> Outcome {
        let Equation { start, mut coefficients, mut value } = equation;
        let mut row = start as usize;
        loop {
            if self.coefficients[row] == 0 {
                (self.coefficients[row], self.values[row]) = (coefficients, value);
                return Outcome::Taken(row);
            }
            // Both equations begin at this row, so their sum begins at a later one: the loop ends.
            coefficients ^= self.coefficients[row];
            value ^= self.values[row];
            if coefficients == 0 {
                return if value == 0 { Outcome::Implied } else { Outcome::Contradicted };
            }
            let zeros = coefficients.trailing_zeros();
            coefficients >>= zeros;
            row += zeros as usize;
        }
    }

    /// Removes the equation that took `row`, which must be the last one of those that remain: later equations may have
    /// been reduced by it.
    pub(super) fn remove_last(&mut self, row: usize) {
        (self.coefficients[row], self.values[row]) = (0, 0);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        list_bytes(&self.coefficients) + list_bytes(&self.values)
    }

    /// Appends the blocks of a solution: for each 64 rows a word per column. Free rows are 0.
    pub(super) fn solve(&self, columns: u32, blocks: &mut Vec<u64>) {
        let width = columns as usize;
        let first = blocks.len();
        blocks.resize(first + self.coefficients.len() / ROWS_PER_BLOCK as usize * width, 0);
        // The 64 rows from the current one on, for each column.
        let mut windows = vec![0u64; width];
        // Back substitution, from the last row: all later rows that an equation refers to are known when its own row is
        // computed.
        for row in (0..self.coefficients.len()).rev() {
            let (coefficients, value) = (self.coefficients[row], self.values[row]);
            for (column, window) in windows.iter_mut().enumerate() {
                *window <<= 1;
                *window |= parity(coefficients & *window) ^ u64::from(value >> column & 1);
            }
            if row.is_multiple_of(ROWS_PER_BLOCK as usize) {
                let block = first + row / ROWS_PER_BLOCK as usize * width;
                blocks[block..block + width].copy_from_slice(&windows);
            }
        }
    }
}

/// Returns 1 if the number of ones is odd, else 0.
#[inline]
pub(super) fn parity(word: u64) -> u64 {
    u64::from(word.count_ones() & 1)
}

//! The linear equations of one layer: elimination while they come (each row is changed once, when it is taken), and
//! back substitution at the end.

use super::{Equation, ROWS_PER_BLOCK};

/// What became of an equation.
pub(super) enum Outcome {
    /// It took this row.
    Taken(usize),
    /// The ones before it imply it.
    Implied,
    /// The ones before it contradict it.
    Contradicted,
}

/// The rows of a layer. A row that is taken has an equation whose first coefficient is its own.
#[derive(Debug)]
pub(super) struct Band {
    /// 0 in a row that is free.
    coefficients: Vec<u64>,
    values: Vec<u32>,
}

impl Band {
    pub(super) fn new(blocks: u64) -> Self {
        let rows = (blocks * ROWS_PER_BLOCK) as usize;
        Self { coefficients: vec![0; rows], values: vec![0; rows] }
    }

    /// Adds an equation, reduced by those that are in its way.
    pub(super) fn add(&mut self, equation: Equation) -> Outcome {
        let Equation { start, mut coefficients, mut value } = equation;
        let mut row = start as usize;
        loop {
            if self.coefficients[row] == 0 {
                (self.coefficients[row], self.values[row]) = (coefficients, value);
                return Outcome::Taken(row);
            }
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

    /// Takes back the equation that was added last of those still there, by the row that it took.
    pub(super) fn remove_last(&mut self, row: usize) {
        (self.coefficients[row], self.values[row]) = (0, 0);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.coefficients.capacity() * size_of::<u64>() + self.values.capacity() * size_of::<u32>()
    }

    /// Appends the blocks of a solution: for each 64 rows a word for each column. Free rows are 0.
    pub(super) fn solve(&self, columns: u32, blocks: &mut Vec<u64>) {
        let width = columns as usize;
        let first = blocks.len();
        blocks.resize(first + self.coefficients.len() / ROWS_PER_BLOCK as usize * width, 0);
        // Of each column the 64 rows from the current one on.
        let mut windows = vec![0u64; width];
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

/// Whether the number of ones is odd.
#[inline]
pub(super) fn parity(word: u64) -> u64 {
    u64::from(word.count_ones() & 1)
}

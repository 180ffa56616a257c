//! Computes whether rows add up to a value: all that a lookup computes. Compiled for several processors, and selected
//! at run time. A lookup of 12 columns takes about 50 instructions, so the processor begins the next lookups while it
//! waits for memory.

use super::band::parity;
use crate::processors::per_processor;

/// Columns that are compared at once: the words of an AVX2 vector.
const LANES: usize = 4;

/// The rows that an equation adds up, as bits of the block where it starts and of the next block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) here: u64,
    pub(super) beyond: u64,
}

per_processor! {
    /// Returns whether these rows add up to `value`, a bit per column. `first` and `second` have a word per column;
    /// further words of `second` are ignored.
    pub(super) fn give(first: &[u64], second: &[u64], rows: Rows, value: u32) -> bool {
        give_portably(first, second, rows, value)
    }
    x86_64: ["avx512vpopcntdq", "avx512vl", "avx512f"], ["avx2"], ["popcnt"];
}

/// Computes the same with instructions that every processor of the architecture has.
#[inline(always)]
pub(super) fn give_portably(first: &[u64], second: &[u64], rows: Rows, mut value: u32) -> bool {
    let ((first, first_rest), (second, second_rest)) =
        (first.as_chunks::<LANES>(), second.as_chunks::<LANES>());
    for (first, second) in first.iter().zip(second) {
        let mut wrong = 0;
        for lane in 0..LANES {
            let sum = (first[lane] & rows.here) ^ (second[lane] & rows.beyond);
            wrong |= parity(sum) ^ u64::from(value >> lane & 1);
        }
        // Of the absent keys, 15 in 16 end here.
        if wrong != 0 {
            return false;
        }
        value >>= LANES;
    }
    // The columns that fill no vector: filters have any number of bits.
    let mut rest = first_rest.iter().zip(second_rest).enumerate();
    rest.all(|(lane, (first, second))| {
        parity((first & rows.here) ^ (second & rows.beyond)) == u64::from(value >> lane & 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    /// Computes the sums bit by bit.
    fn sums(first: &[u64], second: &[u64], rows: Rows) -> u32 {
        let ones = |word: u64| (0..64).filter(|bit| word >> bit & 1 == 1).count();
        let columns = first.iter().zip(second).enumerate();
        columns.fold(0, |sums, (column, (first, second))| {
            let odd = (ones(first & rows.here) + ones(second & rows.beyond)) % 2 == 1;
            sums | u32::from(odd) << column
        })
    }

    #[test]
    fn every_kind_of_processor_computes_the_same_as_the_obvious_way() {
        let mut numbers = Numbers(11);
        for columns in (1..=32).cycle().take(2_000) {
            let mut words = |count| (0..count).map(|_| numbers.next()).collect::<Vec<_>>();
            let (first, second, masks) = (words(columns), words(columns), words(2));
            let rows = Rows { here: masks[0], beyond: masks[1] };
            let value = sums(&first, &second, rows);
            for wrong in (0..columns).map(|column| 1 << column).chain([0]) {
                let expected = wrong == 0;
                assert_eq!(give(&first, &second, rows, value ^ wrong), expected);
                assert_eq!(give_portably(&first, &second, rows, value ^ wrong), expected);
            }
        }
    }
}

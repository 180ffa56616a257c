//! Bloom filters side by side, which a lookup tests at once (BloomStore, III-A, after SegmentedHash).
//!
//! Each filter is a column of a matrix of bits, and has the keys of one set. A key selects the same rows in each
//! column, so the AND of these rows has a 1 for each set that may have the key:
//!
//! ```text
//!            column 0  1  2  3        the newest set is the last
//! row 0             0  1  1  0
//! row 1             1  1  0  1   <-
//! row 2             1  0  0  0            a key of rows 1 and 3
//! row 3             0  1  0  1   <-
//! AND               0  1  0  1        it may be in sets 3 and 1, which are returned in this order
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`BitSliced`] | a matrix: filters of the same number of rows. With one column it is a plain Bloom filter |
//! | [`BloomFilters`] | filters of any numbers of rows, as matrices one after the other; encoded and decoded |
//! | [`EncodedFilters`] | the same in their encoded form, which a lookup reads in place |
//!
//! ```text
//! run 0..2: 300 rows   run 3..4: 340 rows      BloomFilters
//!  | | |                | |                    columns are numbered through: 0 1 2 | 3 4
//! ```
//!
//! The paper derives the rows of a key by a number of hash functions. Here they are parts of mixed hash bits, so rows
//! are independent also in filters of few rows, where double hashing has more false positives than theory. The number
//! of functions is the best one for sets whose sizes vary as those of random keys do: 10 instead of 14 at 20 bits per
//! key and 15 keys, which has a fourth fewer false positives.

mod bit_sliced;
mod filters;
#[cfg(test)]
pub(super) mod tests;

pub(super) use bit_sliced::rows_of;
pub use bit_sliced::{BitSliced, Columns};
pub use filters::{BloomFilters, EncodedFilters};

/// The maximum number of rows.
pub const ROWS_MAX: u32 = u32::MAX;
/// The maximum number of columns, of all matrices together.
pub const COLUMNS_MAX: u32 = 256;
/// The maximum number of functions: rows of a key.
pub const FUNCTIONS_MAX: u32 = 32;

/// Sets of more keys are taken to have exactly as many: their sizes vary by less than 2 %.
const KEYS_VARY_MAX: f64 = 4096.0;

/// Returns the share of keys outside a set that its filter has, for random sets of `keys` on average: numbers of keys
/// vary as they do if random keys are divided among many sets.
pub fn false_positive_rate(rows: u32, functions: u32, keys: f64) -> f64 {
    let rate_of = |keys: f64| {
        let zeros = f64::from(functions) * keys * (-1.0 / f64::from(rows)).ln_1p();
        (-zeros.exp_m1()).powi(functions as i32)
    };
    // For as many keys the sum below would take long and give about the same rate.
    if keys > KEYS_VARY_MAX {
        return rate_of(keys);
    }
    // The probabilities of a Poisson distribution, from the last one that is not negligible.
    let end = (keys + 10.0 * keys.sqrt() + 10.0) as u32;
    let mut log_probability = -keys;
    let mut rate = 0.0;
    for count in 0..=end {
        rate += log_probability.exp() * rate_of(count.into());
        log_probability += (keys / f64::from(count + 1)).ln();
    }
    rate
}

/// Returns the number of functions with the fewest false positives in a filter of as many rows for `keys` on average.
pub fn functions_of(rows: u32, keys: f64) -> u32 {
    let rate = |functions: &u32| false_positive_rate(rows, *functions, keys);
    // More functions than the best number of a fixed number of keys never help.
    let most = (f64::from(rows) / keys * std::f64::consts::LN_2).ceil().clamp(1.0, FUNCTIONS_MAX.into());
    (1..=most as u32).min_by(|one, other| rate(one).total_cmp(&rate(other))).unwrap_or(1)
}

//! Bits in 64-bit words that can be inserted and removed in the middle. The caller keeps the words and their regions.

/// Returns the 64 bits that begin at bit `start`; bits after the words are 0.
#[inline(always)]
fn get_word(words: &[u64], start: usize) -> u64 {
    let (word, shift) = (start / 64, start % 64);
    let at = |word: usize| words.get(word).copied().unwrap_or(0);
    (at(word) >> shift) | ((at(word + 1) << 1) << (63 - shift))
}

/// Returns the number of `width` bits, 0 to 63, that begins at bit `start`; bits after the words are 0.
#[inline(always)]
pub(super) fn get(words: &[u64], start: usize, width: u32) -> u64 {
    get_word(words, start) & ((1 << width) - 1)
}

/// Overwrites the `width` bits, 0 to 63, that begin at bit `start`. They are in the words, and `value` has no others.
#[inline(always)]
pub(super) fn set(words: &mut [u64], start: usize, width: u32, value: u64) {
    if width == 0 {
        return;
    }
    let (word, shift) = (start / 64, start % 64);
    let mask = (1u64 << width) - 1;
    words[word] = words[word] & !(mask << shift) | value << shift;
    if shift + width as usize > 64 {
        // `shift` is not 0 here, since `width` is at most 63.
        let carried = 64 - shift;
        words[word + 1] = words[word + 1] & !(mask >> carried) | value >> carried;
    }
}

/// Sets the `width` bits, 0 to 63, that begin at bit `start`, which were 0. They are in the words, and `value` has no
/// others.
#[inline(always)]
pub(super) fn add(words: &mut [u64], start: usize, width: u32, value: u64) {
    if width == 0 {
        return;
    }
    let (word, shift) = (start / 64, start % 64);
    words[word] |= value << shift;
    if shift + width as usize > 64 {
        words[word + 1] |= value >> (64 - shift);
    }
}

/// Moves the bits from `start` on up by `width`, 1 to 126. The highest bits of the words are lost, and the `width` bits
/// at `start` are undefined.
///
/// ```text
/// words  | a b c d | e f g h |      open(start of c, 2)
///        | a b ? ? | c d e f |      g and h are lost
/// ```
pub(super) fn open(words: &mut [u64], start: usize, width: u32) {
    // In two moves, because a word is shifted by less than 64.
    if width > 63 {
        open(words, start, width - 63);
        return open(words, start, 63);
    }
    let first = start / 64;
    let keep = (1u64 << (start % 64)) - 1;
    // Bits below `start` that this copies into the next word fall into the gap.
    for word in (first + 1..words.len()).rev() {
        words[word] = words[word] << width | words[word - 1] >> (64 - width);
    }
    words[first] = words[first] & keep | (words[first] & !keep) << width;
}

/// Moves the bits from `start + width` on down by `width`, 1 to 126, over the bits at `start`. Zeros enter at the end.
pub(super) fn close(words: &mut [u64], start: usize, width: u32) {
    if width > 63 {
        close(words, start, width - 63);
        return close(words, start, 63);
    }
    let first = start / 64;
    let keep = (1u64 << (start % 64)) - 1;
    // Before the loop, which changes the words that this reads.
    let moved = get_word(words, start + width as usize) << (start % 64);
    let below = words[first] & keep;
    for word in first + 1..words.len() {
        words[word] = get_word(words, word * 64 + width as usize);
    }
    words[first] = below | moved;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Numbers;

    /// Values of more than 63 bits are in two parts.
    #[test]
    fn inserted_and_removed_bits_leave_the_others_in_order() {
        let mut numbers = Numbers(1);
        for width in 1..=90u32 {
            let low = width.min(40);
            let put = |words: &mut [u64], start: usize, value: u128| {
                set(words, start, low, value as u64 & ((1 << low) - 1));
                set(words, start + low as usize, width - low, (value >> low) as u64);
            };
            let read = |words: &[u64], start: usize| {
                let high = get(words, start + low as usize, width - low);
                u128::from(high) << low | u128::from(get(words, start, low))
            };
            let mut wanted: Vec<u128> = Vec::new();
            let mut words = vec![0; 40 * width as usize / 64 + 3];
            for step in 0..80 {
                let at = numbers.next() as usize % (wanted.len() + 1);
                if step < 40 {
                    let value = u128::from(numbers.next()) << 64 | u128::from(numbers.next());
                    wanted.insert(at, value >> (128 - width));
                    open(&mut words, at * width as usize, width);
                    put(&mut words, at * width as usize, wanted[at]);
                } else {
                    let at = at.min(wanted.len() - 1);
                    wanted.remove(at);
                    close(&mut words, at * width as usize, width);
                }
                for (at, &value) in wanted.iter().enumerate() {
                    assert_eq!(read(&words, at * width as usize), value, "width {width}, step {step}");
                }
            }
            assert!(words.iter().all(|&word| word == 0), "removed bits of width {width} remain");
        }
    }
}

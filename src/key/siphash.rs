//! SipHash-1-3 with 64 bits of output (Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, with
//! one round per word and three at the end, as hash maps of Rust's standard library have it).
//!
//! The crate `siphasher`, which hashes what is on flash, computes the same. This one is inlined, and a key of one word
//! takes neither a loop nor a branch: a lookup in memory executes few more instructions than its hash.

/// The state.
struct State([u64; 4]);

impl State {
    #[inline]
    fn new([seed0, seed1]: [u64; 2]) -> State {
        // "somepseudorandomlygeneratedbytes".
        State([
            seed0 ^ 0x736f_6d65_7073_6575,
            seed1 ^ 0x646f_7261_6e64_6f6d,
            seed0 ^ 0x6c79_6765_6e65_7261,
            seed1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn round(&mut self) {
        let State([v0, v1, v2, v3]) = self;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
    }

    #[inline]
    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    /// Takes the last bytes, fewer than 8 and so without a highest byte, and the length of the key.
    #[inline]
    fn finish(mut self, rest: u64, length: usize) -> u64 {
        self.take(rest | (length as u64) << 56);
        self.0[2] ^= 0xff;
        (0..3).for_each(|_| self.round());
        self.0.into_iter().fold(0, |hash, word| hash ^ word)
    }
}

/// Returns the hash of a key.
#[inline]
pub(super) fn siphash13(seed: [u64; 2], key: &[u8]) -> u64 {
    match <[u8; 8]>::try_from(key) {
        Ok(word) => {
            let mut state = State::new(seed);
            state.take(u64::from_le_bytes(word));
            state.finish(0, 8)
        }
        Err(_) => of_any_length(seed, key),
    }
}

#[inline(never)]
fn of_any_length(seed: [u64; 2], key: &[u8]) -> u64 {
    let mut state = State::new(seed);
    let (words, rest) = key.as_chunks();
    words.iter().for_each(|word| state.take(u64::from_le_bytes(*word)));
    let rest = rest.iter().rev().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
    state.finish(rest, key.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip::SipHasher13;

    #[test]
    fn it_is_the_siphash_of_the_crate_for_keys_of_any_length() {
        let bytes: Vec<u8> = (0..600u32).map(|number| ((number * 167) >> 2) as u8).collect();
        for seed in [[0, 0], [1, 2], [u64::MAX, 0x0123_4567_89ab_cdef]] {
            for length in (0..70).chain([255, 256, 257, 600]) {
                let key = &bytes[..length];
                let expected = SipHasher13::new_with_keys(seed[0], seed[1]).hash(key);
                assert_eq!(siphash13(seed, key), expected, "{length}");
            }
        }
    }
}

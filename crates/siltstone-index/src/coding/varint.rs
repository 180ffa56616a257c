//! Numbers of variable length: 7 bits per byte, the low ones first; all bytes but the last have bit 7 set.

/// Appends a number: 1 byte below 128, at most 10.
pub fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::Reader;

    #[test]
    fn every_number_is_read_back_and_longer_ones_are_refused() {
        let powers = (0..64).map(|shift| 1u64 << shift);
        for number in powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, number);
            let mut reader = Reader::new(&bytes);
            assert_eq!((reader.varint(), reader.at()), (Some(number), bytes.len()));
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).varint(), None);
        }
        for bytes in
            [&[0xff; 10][..], &[0x80; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            let mut reader = Reader::new(bytes);
            assert_eq!((reader.varint(), reader.at()), (None, 0));
        }
    }
}

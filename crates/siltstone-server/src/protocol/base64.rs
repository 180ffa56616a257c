//! Base 64 of RFC 4648, with `+`, `/` and padding, as memcached's clients send keys.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns bytes in base 64.
pub fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number =
            chunk.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            text.push(match digit <= chunk.len() {
                true => DIGITS[(number >> (18 - 6 * digit)) as usize % 64],
                false => b'=',
            });
        }
    }
    text
}

/// Returns the bytes of a text in base 64; `None` if it is none.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut number = 0;
        for digit in chunk {
            number = number << 6 | DIGITS.iter().position(|known| known == digit)? as u32;
        }
        number <<= 6 * (4 - chunk.len());
        bytes.extend((0..chunk.len() - 1).map(|byte| (number >> (16 - 8 * byte)) as u8));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_rfc_are_encoded_and_decoded() {
        let pairs =
            [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in pairs {
            assert_eq!(encode(bytes.as_bytes()), text.as_bytes());
            assert_eq!(decode(text.as_bytes()).unwrap(), bytes.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        for wrong in ["", "Zg=", "Z===", "====", "Zm9v=", "Zm!v", "Zg==Zg=="] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

//! How keys and values of a table become bytes.

/// A type whose values a [`Table`](super::Table) keeps, as keys or as values.
///
/// Integers and floating-point numbers have as many bytes as in memory, the most significant first. The sign is changed
/// so that the order of the bytes is the order of the numbers (for floating-point numbers that of `total_cmp`).
/// Strings, byte strings and arrays are their own bytes. `()` has no bytes: with it as value, a table is a set. Two
/// keys are equal if their bytes are.
///
/// Other types implement it with any serialization. A type of keys must have one form per value.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let database = siltstone::Database::open(directory.path().join("db"))?;
/// use siltstone::{Codec, Table};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Point {
///     x: i32,
///     y: i32,
/// }
///
/// impl Codec for Point {
///     fn encode(&self, bytes: &mut Vec<u8>) {
///         self.x.encode(bytes);
///         self.y.encode(bytes);
///     }
///
///     fn decode(bytes: &[u8]) -> Option<Point> {
///         let (x, y) = bytes.split_at_checked(4)?;
///         Some(Point { x: i32::decode(x)?, y: i32::decode(y)? })
///     }
/// }
///
/// let places: Table<str, Point> = database.table("places")?;
/// places.put("church", &Point { x: -3, y: 7 })?;
/// assert_eq!(places.get("church")?, Some(Point { x: -3, y: 7 }));
/// # Ok::<(), siltstone::Error>(())
/// ```
pub trait Codec: ToOwned {
    /// Appends the bytes of a value.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Returns the value that has these bytes; `None` if there is none.
    fn decode(bytes: &[u8]) -> Option<Self::Owned>;
}

macro_rules! integers {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl Codec for $unsigned {
            fn encode(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_be_bytes());
            }

            fn decode(bytes: &[u8]) -> Option<$unsigned> {
                // Exactly as many bytes: others are a value of another type.
                Some(<$unsigned>::from_be_bytes(bytes.try_into().ok()?))
            }
        }

        impl Codec for $signed {
            fn encode(&self, bytes: &mut Vec<u8>) {
                // Without the sign bit flipped, negative numbers would follow the others.
                (self ^ <$signed>::MIN).cast_unsigned().encode(bytes);
            }

            fn decode(bytes: &[u8]) -> Option<$signed> {
                Some(<$unsigned>::decode(bytes)?.cast_signed() ^ <$signed>::MIN)
            }
        }
    )*};
}

integers! { u8, i8; u16, i16; u32, i32; u64, i64; u128, i128; }

macro_rules! floating_point_numbers {
    ($($float:ty, $bits:ty, $signed:ty;)*) => {$(
        impl Codec for $float {
            fn encode(&self, bytes: &mut Vec<u8>) {
                (self.to_bits().cast_signed()).ordered().encode(bytes);
            }

            fn decode(bytes: &[u8]) -> Option<$float> {
                Some(<$float>::from_bits(<$signed>::decode(bytes)?.ordered().cast_unsigned()))
            }
        }

        impl OrderedBits for $signed {
            fn ordered(self) -> $signed {
                // The bits of negative numbers ascend as the numbers descend, so all but the sign are flipped, here and
                // back.
                if self < 0 { self ^ <$signed>::MAX } else { self }
            }
        }
    )*};
}

/// The bits of a floating-point number as an integer with the order of the number, and back.
trait OrderedBits {
    fn ordered(self) -> Self;
}

floating_point_numbers! { f32, u32, i32; f64, u64, i64; }

impl Codec for bool {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }

    fn decode(bytes: &[u8]) -> Option<bool> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            // A type of keys must have one form per value.
            _ => None,
        }
    }
}

impl Codec for () {
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

impl Codec for [u8] {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Codec for Vec<u8> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.as_slice().encode(bytes);
    }

    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        <[u8]>::decode(bytes)
    }
}

impl<const N: usize> Codec for [u8; N] {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.as_slice().encode(bytes);
    }

    fn decode(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
}

impl Codec for str {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.as_bytes().encode(bytes);
    }

    fn decode(bytes: &[u8]) -> Option<String> {
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

impl Codec for String {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.as_str().encode(bytes);
    }

    fn decode(bytes: &[u8]) -> Option<String> {
        str::decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn bytes<T: Codec + ?Sized>(value: &T) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        bytes
    }

    /// Checks that values, in ascending order, come back, and that their bytes have their order.
    fn check<T: Codec<Owned = T>>(values: &[T], order: fn(&T, &T) -> Ordering) {
        for (at, value) in values.iter().enumerate() {
            let back = T::decode(&bytes(value)).expect("the bytes of a value");
            assert_eq!(order(&back, value), Ordering::Equal, "{at}");
            for other in &values[at + 1..] {
                assert_eq!(order(value, other), Ordering::Less, "{at}");
                assert!(bytes(value) < bytes(other), "{at}");
            }
        }
    }

    #[test]
    fn numbers_come_back_and_their_bytes_have_their_order() {
        check(&[0, 1, 255, 256, u64::MAX - 1, u64::MAX], u64::cmp);
        check(&[i64::MIN, -256, -1, 0, 1, 255, i64::MAX], i64::cmp);
        check(&[i8::MIN, -1, 0, 1, i8::MAX], i8::cmp);
        check(&[i128::MIN, -1, 0, i128::MAX], i128::cmp);
        check(&[f64::NEG_INFINITY, -2.5, -1e-300, -0.0, 0.0, 1e-300, 2.5, f64::INFINITY], f64::total_cmp);
        check(&[-f32::NAN, f32::MIN, -1.0, 0.0, f32::MIN_POSITIVE, f32::MAX, f32::NAN], f32::total_cmp);
        check(&[false, true], bool::cmp);
    }

    #[test]
    fn strings_and_bytes_come_back() {
        assert_eq!(str::decode(&bytes("naïve")).as_deref(), Some("naïve"));
        assert_eq!(String::decode(&bytes("")).as_deref(), Some(""));
        assert_eq!(<[u8]>::decode(&bytes(&[0, 255][..])), Some(vec![0, 255]));
        assert_eq!(<[u8; 2]>::decode(&bytes(&[7u8, 8])), Some([7, 8]));
        assert_eq!(<()>::decode(&bytes(&())), Some(()));
    }

    #[test]
    fn bytes_of_no_value_are_refused() {
        assert_eq!(u32::decode(&[0; 3]), None);
        assert_eq!(i64::decode(&[0; 9]), None);
        assert!(f32::decode(&[]).is_none());
        assert_eq!(bool::decode(&[2]), None);
        assert_eq!(<()>::decode(&[0]), None);
        assert_eq!(<[u8; 3]>::decode(&[0; 4]), None);
        assert_eq!(str::decode(&[0xff]), None);
    }
}

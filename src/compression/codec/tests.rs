use super::*;
use crate::compression::dictionary_of;

const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::Lz4, Compression::Zstd { level: 1 }, Compression::Zstd { level: 7 }];

/// A value as an application has them: JSON whose names repeat from value to value.
fn json(random: &mut fastrand::Rng) -> Vec<u8> {
    let (id, count, name) = (random.u32(..), random.u16(..), random.u16(..));
    format!(
        "{{\"id\":{id},\"customer\":\"customer-{name}\",\"status\":\"delivered\",\"count\":{count},\"currency\":\"EUR\"}}"
    )
    .into_bytes()
}

fn stored(codec: &Codec, value: &[u8]) -> Vec<u8> {
    let mut stored = b"before".to_vec();
    codec.encode(value, &mut stored);
    assert!(stored.starts_with(b"before"));
    stored.split_off(6)
}

fn decoded(codec: &Codec, stored: &[u8]) -> Result<Vec<u8>, String> {
    let mut value = b"before".to_vec();
    codec.decode(stored, &mut value).map(|()| value.split_off(6))
}

fn trained() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let samples: Vec<_> = (0..4_000).map(|_| json(&mut random)).collect();
    let lengths: Vec<_> = samples.iter().map(Vec::len).collect();
    train(&samples.concat(), &lengths).unwrap()
}

#[test]
fn every_value_is_decoded_and_none_takes_more_than_a_byte_more() {
    let mut random = fastrand::Rng::with_seed(2);
    for compression in COMPRESSIONS {
        let codec = Codec::new(compression);
        for round in 0..2 {
            for length in (0..150).chain([4_096, 140_000]) {
                let values = [
                    vec![7; length],
                    (0..length).map(|_| random.u8(..)).collect(),
                    json(&mut random).repeat(length / 100 + 1),
                ];
                for value in values {
                    let stored = stored(&codec, &value);
                    assert!(stored.len() <= value.len() + 1);
                    assert_eq!(decoded(&codec, &stored), Ok(value));
                }
            }
            assert_eq!(codec.set_dictionary(trained()), round == 0);
        }
    }
}

#[test]
fn a_dictionary_makes_small_values_smaller_and_older_ones_stay_readable() {
    let mut random = fastrand::Rng::with_seed(3);
    let codec = Codec::new(Compression::Zstd { level: 3 });
    let values: Vec<_> = (0..100).map(|_| json(&mut random)).collect();
    let before: Vec<_> = values.iter().map(|value| stored(&codec, value)).collect();
    assert!(codec.set_dictionary(trained()));
    let after: Vec<_> = values.iter().map(|value| stored(&codec, value)).collect();
    let bytes = |of: &[Vec<u8>]| of.iter().map(Vec::len).sum::<usize>();
    assert!(3 * bytes(&after) < bytes(&before), "{} and {} bytes", bytes(&after), bytes(&before));
    for ((value, before), after) in values.iter().zip(&before).zip(&after) {
        assert_eq!(decoded(&codec, before).as_ref(), Ok(value));
        assert_eq!(decoded(&codec, after).as_ref(), Ok(value));
    }
    assert!(before.iter().all(|stored| dictionary_of(stored).is_none()));
    assert!(after.iter().all(|stored| dictionary_of(stored).is_some()));
}

#[test]
fn a_value_of_another_dictionary_is_an_error() {
    let codec = Codec::new(Compression::Zstd { level: 3 });
    assert!(codec.set_dictionary(trained()));
    let stored = stored(&codec, &json(&mut fastrand::Rng::with_seed(4)));
    let other = Codec::new(Compression::Zstd { level: 3 });
    assert!(decoded(&other, &stored).unwrap_err().contains("which the database does not have"));
    assert!(!other.set_dictionary(b"\x37\xa4\x30\xec no dictionary".to_vec()));
}

#[test]
fn damaged_values_are_errors_or_values_and_allocate_little() {
    let mut random = fastrand::Rng::with_seed(5);
    for compression in COMPRESSIONS {
        let codec = Codec::new(compression);
        codec.set_dictionary(trained());
        for _ in 0..2_000 {
            let mut stored = stored(&codec, &json(&mut random));
            let at = random.usize(..stored.len());
            stored[at] ^= 1 << random.u32(..8);
            stored.truncate(random.usize(..=stored.len()));
            let mut value = Vec::new();
            if codec.decode(&stored, &mut value).is_err() {
                assert!(value.is_empty());
            }
            assert!(value.capacity() <= stored.len() * ZSTD_BLOCK_BYTES.1);
        }
    }
    let codec = Codec::new(Compression::Lz4);
    for first in [LZ4, ZSTD, DICTIONARIES] {
        let huge = [first, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3];
        let mut value = Vec::new();
        assert!(codec.decode(&huge, &mut value).unwrap_err().contains("too long"));
        assert_eq!(value.capacity(), 0);
    }
    assert!(decoded(&codec, &[]).is_err());
}

#[test]
fn values_without_anything_in_common_give_a_harmless_dictionary() {
    let mut random = fastrand::Rng::with_seed(6);
    let noise: Vec<u8> = (0..200_000).map(|_| random.u8(..)).collect();
    let codec = Codec::new(Compression::Zstd { level: 3 });
    assert!(codec.set_dictionary(train(&noise, &[100; 2_000]).unwrap()));
    assert!(train(&[], &[]).is_none());
    let value = &noise[..100];
    assert_eq!(decoded(&codec, &stored(&codec, value)).as_deref(), Ok(value));
}

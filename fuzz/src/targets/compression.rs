//! Compressed values, and the file of their dictionary: a decoded value is encoded and decoded again.

use crate::seal::with_crc;
use siltstone::compression::codec::Codec;
use siltstone::{Compression, compression_file};
use std::sync::LazyLock;

/// The bytes of a value that the bytes of its stored form can become, per byte.
const RATIO_MAX: usize = 128 << 10;

static CODECS: LazyLock<[Codec; 2]> = LazyLock::new(|| {
    [Compression::Lz4, Compression::Zstd { level: 1 }].map(|compression| {
        let codec = Codec::new(compression);
        codec.set_dictionary(b"{\"status\":\"delivered\",\"count\":0}".repeat(4));
        codec
    })
});

/// Runs the target.
pub fn run(data: &[u8]) {
    let sealed = with_crc(data);
    for bytes in [data, &sealed] {
        if let Some((compression_file::VERSION, Some((owner, dictionary)))) = compression_file::decode(bytes)
        {
            assert_eq!(compression_file::encode(owner, dictionary), bytes);
        }
    }
    for codec in &*CODECS {
        let mut value = Vec::new();
        let decoded = codec.decode(data, &mut value);
        assert!(value.capacity() <= (data.len() + 1) * RATIO_MAX);
        if decoded.is_ok() {
            let (mut stored, mut again) = (Vec::new(), Vec::new());
            codec.encode(&value, &mut stored);
            assert!(stored.len() <= value.len() + 1);
            codec.decode(&stored, &mut again).expect("what was encoded is decoded");
            assert_eq!(again, value);
        }
    }
}

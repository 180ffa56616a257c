//! A manifest of arbitrary bytes, and one of commits with correct checksums and any content.

use crate::input::{Input, directory_with};
use crate::seal::{SECRET, commit};
use siltstone::Compression;
use siltstone::engine::flashkey::live;
use siltstone::engine::silt::live::Manifest;
use siltstone::key::KeyHasher;
use siltstone::store::manifest::Header;

/// Runs the target.
pub fn run(data: &[u8]) {
    let _ = Manifest::open(&directory_with("MANIFEST", data));
    let _ = live::Manifest::open(&directory_with("MANIFEST", data));
    let mut input = Input(data);
    let header = Header {
        engine: 1,
        layout: input.layout(),
        hasher: KeyHasher::Keyed([input.u64(), 1]),
        partitions_log2: u32::from(input.u8() % 11),
        compression: Compression::None,
        block_bytes: 512 << (input.u8() % 8),
        database_id: 7,
        secret: SECRET,
    };
    let mut bytes = header.encode().to_vec();
    for sequence in 0..u64::from(input.u8() % 8) {
        let length = usize::from(input.u8());
        bytes.extend(commit(sequence, input.bytes(length)));
    }
    bytes.extend_from_slice(input.0);
    // The same commits, as those of the other engine with a manifest.
    if let Ok(manifest) = live::Manifest::open(&directory_with("MANIFEST", &bytes)) {
        let live = manifest.state();
        let mut ends = live.finished.iter().map(|segment| (segment.class, segment.end));
        assert!(ends.all(|(class, end)| end <= live.finished_to[usize::from(class)]));
    }
    if let Ok(manifest) = Manifest::open(&directory_with("MANIFEST", &bytes)) {
        assert_eq!(manifest.header(), &header);
        assert_eq!(manifest.partitions().len(), 1 << header.partitions_log2);
        assert!(manifest.length() <= bytes.len() as u64);
    }
}

//! Records in stream form and in slot form, usage counts, the state of a change feed: a decoded value is encoded to the same bytes.

use crate::input::Input;
use crate::seal::with_crc;
use siltstone::change_feed_state::FeedState;
use siltstone::usage_file::{self, USAGE_BYTES};

/// Decodes the state of a change feed, also with a corrected checksum.
pub fn changes(data: &[u8]) {
    for bytes in [data, &with_crc(data)] {
        if let Some(state) = FeedState::decode(bytes) {
            assert_eq!(state.encode(), bytes);
        }
    }
}

/// Decodes usage counts, also with a corrected checksum.
pub fn counts(data: &[u8]) {
    let sealed = with_crc(&data[..data.len().min(USAGE_BYTES - 4)]);
    for bytes in [data, &sealed] {
        if let Some(counted) = usage_file::decode(bytes) {
            assert_eq!(usage_file::encode(&counted), bytes);
        }
    }
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let layout = input.layout();
    let with_flags = input.u8() & 1 != 0;
    if let Ok((_, record, taken)) = layout.decode_stream(input.0) {
        assert!(taken <= input.0.len());
        let mut again = Vec::new();
        layout.encode_stream(&record, 0, &mut again);
        let (_, decoded, _) = layout.decode_stream(&again).expect("what was encoded is decoded");
        assert_eq!(decoded, record);
    }
    if let Some(slot_bytes) = layout.slot_bytes(with_flags)
        && let Some(slot) = input.0.get(..slot_bytes)
        && let Some(record) = layout.decode_slot(slot, with_flags)
    {
        let mut again = Vec::new();
        layout.encode_slot(&record, with_flags, &mut again);
        assert_eq!(layout.decode_slot(&again, with_flags), Some(record));
    }
}

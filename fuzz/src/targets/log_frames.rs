//! Frames, sync markers and segment headers of the log, as they come and with a right checksum.

use crate::input::Input;
use crate::seal::frame;
use siltstone::store::log::format::{SegmentHeader, decode_frame, find_sync_marker, parse_frame};

/// Runs it.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (layout, position) = (input.layout(), input.u64() >> 1);
    let _ = SegmentHeader::decode(input.0);
    let _ = find_sync_marker(position, input.0);
    let _ = parse_frame(&layout, input.0);
    let _ = decode_frame(&layout, position, input.0);
    let sealed = frame(position, input.0);
    let _ = find_sync_marker(position, &sealed);
    if let Ok((_, taken)) = decode_frame(&layout, position, &sealed) {
        assert!(taken <= sealed.len());
    }
}

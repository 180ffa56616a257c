//! Frames, sync markers and segment headers of the log, unchanged and with a correct checksum.

use crate::input::Input;
use crate::seal::{SECRET, frame};
use siltstone::store::log_format::{Frame, LogFormat, SegmentHeader};

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (layout, position) = (input.layout(), input.u64() >> 1);
    let format = LogFormat::new(layout, 7, SECRET);
    let _ = SegmentHeader::decode(input.0);
    let _ = format.parse_frame(input.0);
    let _ = format.decode_frame(position, input.0);
    let sealed = frame(SECRET, position, input.0);
    if let Ok((decoded, taken)) = format.decode_frame(position, &sealed) {
        assert!(taken <= sealed.len());
        assert!(!matches!(decoded, Frame::SyncMarker(synced) if synced > position));
    }
}

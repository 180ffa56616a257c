//! The bytes of the log: segments that begin with a header and contain frames. `docs/formats/log.md` has the diagrams.
//!
//! A frame is a checksum and a record in stream form, whose flags have three more bits. The checksum starts with the
//! database's secret and the frame's position, so a copy of a frame at another position, or one that a user stored as a
//! value, is not accepted as a frame.

use crate::coding::Reader;
use crate::coding::checksum::{self, Secret};
use crate::store::record::{RecordLayout, RecordProblem, RecordView};

/// The bytes of a segment's header.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// The version of the log's format.
pub const LOG_VERSION: u32 = 1;
/// The bytes of a frame's checksum.
pub const FRAME_CRC_BYTES: usize = 4;

const MAGIC: &[u8; 8] = b"SILTSLOG";
/// The maximum position, an exabyte. Sums of valid positions and lengths cannot overflow, even if a position is
/// damaged.
pub const POSITION_MAX: u64 = 1 << 60;

/// Set in every frame, so zeros are not a frame.
pub const FLAG_FRAME: u8 = 1 << 7;
/// The batch continues with the next frame; without it the frame is the last one of its batch.
pub const FLAG_BATCH_GOES_ON: u8 = 1 << 6;
/// The frame is a sync marker instead of a record: a position up to which the log was synced.
pub const FLAG_SYNC_MARKER: u8 = 1 << 5;

/// The bytes of a sync marker.
pub const MARKER_BYTES: usize = FRAME_CRC_BYTES + 1 + 8;

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The database that the segment belongs to.
    pub database_id: u64,
    /// The position of its first frame.
    pub base: u64,
}

impl SegmentHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut header = [0; SEGMENT_HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&LOG_VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&self.database_id.to_le_bytes());
        header[24..32].copy_from_slice(&self.base.to_le_bytes());
        let crc = checksum::crc32c(&header[..SEGMENT_HEADER_BYTES - 4]);
        header[SEGMENT_HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// Decodes a header: the version found and, if the rest is intact, the header.
    pub fn decode(bytes: &[u8]) -> Option<(u32, Option<SegmentHeader>)> {
        let mut fields = Reader::new(bytes);
        if fields.bytes(8)? != MAGIC {
            return None;
        }
        let version = fields.u32()?;
        fields.u32()?;
        let header = SegmentHeader { database_id: fields.u64()?, base: fields.u64()? };
        Some((version, (bytes == header.encode()).then_some(header)))
    }
}

/// The contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A record, and whether its batch continues after it.
    Record {
        /// The record.
        record: RecordView<'a>,
        /// Whether the next frame belongs to the same batch.
        batch_goes_on: bool,
    },
    /// The log was synced up to this position when the frame was written.
    SyncMarker(u64),
}

/// The parameters of the bytes of a database's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFormat {
    /// The layout of the records.
    pub layout: RecordLayout,
    /// The database's id, which all segments have.
    pub database_id: u64,
    /// The secret that the checksums of frames start with.
    pub secret: Secret,
}

impl LogFormat {
    /// Returns the header of the segment whose first frame has the position `base`.
    pub fn header(&self, base: u64) -> SegmentHeader {
        SegmentHeader { database_id: self.database_id, base }
    }

    fn seal(&self, position: u64, frame: &mut [u8]) {
        let (crc, body) = frame.split_at_mut(FRAME_CRC_BYTES);
        crc.copy_from_slice(&self.secret.checksum(position, body).to_le_bytes());
    }

    /// Appends the frame of a record for `position`.
    pub fn encode_record(
        &self,
        position: u64,
        record: &RecordView<'_>,
        batch_goes_on: bool,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_CRC_BYTES]);
        let more = if batch_goes_on { FLAG_BATCH_GOES_ON } else { 0 };
        self.layout.encode_stream(record, FLAG_FRAME | more, out);
        self.seal(position, &mut out[start..]);
    }

    /// Appends a sync marker for `position`; `synced` must not be after it.
    pub fn encode_sync_marker(&self, position: u64, synced: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_CRC_BYTES]);
        out.push(FLAG_FRAME | FLAG_SYNC_MARKER);
        out.extend_from_slice(&synced.to_le_bytes());
        self.seal(position, &mut out[start..]);
    }

    /// Decodes the frame at the start of `bytes`, which are at `position`. Returns its contents and its length.
    pub fn decode_frame<'a>(
        &self,
        position: u64,
        bytes: &'a [u8],
    ) -> Result<(Frame<'a>, usize), RecordProblem> {
        let (frame, length) = self.parse_frame(bytes)?;
        let (crc, body) = bytes.split_first_chunk::<FRAME_CRC_BYTES>().ok_or(RecordProblem::Short(5))?;
        let computed = self.secret.checksum(position, &body[..length - FRAME_CRC_BYTES]);
        if computed != u32::from_le_bytes(*crc) {
            return Err(RecordProblem::Malformed("a frame with a correct checksum"));
        }
        match frame {
            Frame::SyncMarker(synced) if synced > position => {
                Err(RecordProblem::Malformed("a sync marker with a position up to its own"))
            }
            frame => Ok((frame, length)),
        }
    }

    /// Like [`decode_frame`](LogFormat::decode_frame), for bytes whose checksum was verified before.
    pub fn parse_frame<'a>(&self, bytes: &'a [u8]) -> Result<(Frame<'a>, usize), RecordProblem> {
        let body = bytes.get(FRAME_CRC_BYTES..).ok_or(RecordProblem::Short(5))?;
        let flags = *body.first().ok_or(RecordProblem::Short(5))?;
        if flags & FLAG_FRAME == 0 {
            return Err(RecordProblem::Malformed("a frame flag"));
        }
        if flags & FLAG_SYNC_MARKER != 0 {
            let mut fields = Reader::new(body.get(1..).unwrap_or_default());
            let synced = fields.u64().ok_or(RecordProblem::Short(MARKER_BYTES))?;
            return Ok((Frame::SyncMarker(synced), MARKER_BYTES));
        }
        let (flags, record, length) = self.layout.decode_stream(body).map_err(|problem| match problem {
            RecordProblem::Short(needed) => RecordProblem::Short(needed + FRAME_CRC_BYTES),
            malformed => malformed,
        })?;
        let frame = Frame::Record { record, batch_goes_on: flags & FLAG_BATCH_GOES_ON != 0 };
        Ok((frame, FRAME_CRC_BYTES + length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: LogFormat = LogFormat {
        layout: RecordLayout { fixed: None, expiring: false },
        database_id: 5,
        secret: Secret::new(6),
    };

    #[test]
    fn a_frame_is_accepted_only_where_it_was_written_and_if_complete() {
        let record = RecordView { key: b"key", value: Some(b"value"), expires_at_ms: 0 };
        let mut bytes = Vec::new();
        FORMAT.encode_record(100, &record, true, &mut bytes);
        let (frame, taken) = FORMAT.decode_frame(100, &bytes).unwrap();
        assert_eq!((frame, taken), (Frame::Record { record, batch_goes_on: true }, bytes.len()));
        assert!(FORMAT.decode_frame(101, &bytes).is_err());
        for length in 0..bytes.len() {
            assert!(matches!(FORMAT.decode_frame(100, &bytes[..length]), Err(RecordProblem::Short(_))));
        }
        assert!(FORMAT.decode_frame(0, &[0; 64]).is_err(), "zeros are not a frame");
    }

    #[test]
    fn a_sync_marker_has_no_position_after_its_own() {
        for (synced, is_one) in [(1000, true), (1001, false), (u64::MAX, false)] {
            let mut bytes = Vec::new();
            FORMAT.encode_sync_marker(1000, synced, &mut bytes);
            let decoded = FORMAT.decode_frame(1000, &bytes).ok();
            assert_eq!(decoded, is_one.then_some((Frame::SyncMarker(synced), MARKER_BYTES)));
        }
    }

    #[test]
    fn a_frame_of_another_secret_is_refused_and_no_debug_output_shows_the_secret() {
        let other = LogFormat { secret: Secret::new(0xABCD_EF01), ..FORMAT };
        let record = RecordView { key: b"key", value: Some(b"value"), expires_at_ms: 0 };
        let mut bytes = Vec::new();
        other.encode_record(100, &record, false, &mut bytes);
        assert!(other.decode_frame(100, &bytes).is_ok() && FORMAT.decode_frame(100, &bytes).is_err());
        let shown = format!("{other:?}");
        assert!(shown.ends_with("secret: Secret(..) }"), "{shown}");
    }

    #[test]
    fn the_difference_of_two_secrets_differs_at_each_position() {
        let (one, other) = (Secret::new(1), Secret::new(1 << 40));
        let differences: std::collections::HashSet<u32> =
            (0..1000).map(|position| one.start(position) ^ other.start(position)).collect();
        assert_eq!(differences.len(), 1000, "CRC alone would make it the same everywhere");
    }

    #[test]
    fn a_header_is_decoded_and_a_damaged_one_is_refused() {
        let header = FORMAT.header(1 << 40);
        let mut bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Some((LOG_VERSION, Some(header))));
        bytes[20] ^= 1;
        assert_eq!(SegmentHeader::decode(&bytes), Some((LOG_VERSION, None)));
        assert_eq!(SegmentHeader::decode(b"short"), None);
    }
}

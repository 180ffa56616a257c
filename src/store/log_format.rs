//! The bytes of the log: segments that begin with a header and contain frames. `docs/formats/log.md` has the diagrams.
//!
//! A frame is a checksum and a record in stream form, whose flags have three more bits. The checksum starts with the
//! database's secret and the frame's position, so a copy of a frame at another position, or one that a user stored as a
//! value, is not accepted as a frame. In logs whose unit has several bytes, frames are padded with zeros to units, so
//! that the number of a unit is a place.

use crate::batch::BATCH_BYTES_MAX;
use crate::key::RecordLayout;
use crate::names::{FileName, LogClass};
use crate::store::record::{RecordProblem, RecordView};
use siltstone_device::Purpose;
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum::{self, Secret};

/// The bytes of a segment's header.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// The version of the log's format.
pub const LOG_VERSION: u32 = 1;
/// The bytes of a frame's checksum.
pub const FRAME_CRC_BYTES: usize = 4;

const MAGIC: &[u8; 8] = b"SILTSLOG";
/// The lowest bit of the class in what the checksum of a frame starts with.
const CLASS_SHIFT: u32 = 61;
/// The maximum position, an exabyte. Sums of valid positions and lengths cannot overflow, even if a position is
/// damaged.
pub const POSITION_MAX: u64 = 1 << 60;

/// Set in every frame, so zeros are not a frame.
pub const FLAG_FRAME: u8 = 1 << 7;
/// The batch continues with the next frame; without it the frame is the last one of its batch.
pub const FLAG_BATCH_GOES_ON: u8 = 1 << 6;
/// The frame is a sync marker instead of a record: a position up to which the log was synced.
pub const FLAG_SYNC_MARKER: u8 = 1 << 5;

/// The marker is an order marker: a position of the log of class `User`.
pub const FLAG_ORDER: u8 = 1 << 4;
/// The record was moved to the log of class `User`: it is older than its position says. The bit of a record, as
/// [`FLAG_ORDER`] is that of a marker.
pub const FLAG_MOVED: u8 = 1 << 4;

/// The bytes of a marker without padding.
pub const MARKER_BYTES: usize = FRAME_CRC_BYTES + 1 + 8;
/// The maximum of [`LogFormat::unit_bytes`].
pub const UNIT_BYTES_MAX: u32 = 1 << 16;

/// The slots of a segment: ranges of numbers of units, one after another. A log whose records are only found by their
/// positions has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slots {
    /// The first slot.
    pub first: u32,
    /// The number of slots.
    pub count: u32,
}

/// No file of a segment is longer: a batch of 1 GiB may begin before the limit of a segment, which is at most 1 GiB,
/// and some space may be reserved. Bytes of a longer file after that do not belong to the log, such as the hole of a
/// sparse file.
pub const SEGMENT_FILE_BYTES_MAX: u64 = (1 << 30) + BATCH_BYTES_MAX + (2 << 20);

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The class of the log.
    pub class: LogClass,
    /// The unit of the lengths of frames, in bytes.
    pub unit_bytes: u32,
    /// The database that the segment belongs to.
    pub database_id: u64,
    /// The position of its first frame.
    pub base: u64,
    /// Its slots.
    pub slots: Slots,
}

impl SegmentHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut header = [0; SEGMENT_HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&LOG_VERSION.to_le_bytes());
        header[12] = self.class.number();
        // 1 to 65,536 bytes fit into 16 bits as one less.
        header[14..16].copy_from_slice(&(self.unit_bytes.saturating_sub(1) as u16).to_le_bytes());
        header[16..24].copy_from_slice(&self.database_id.to_le_bytes());
        header[24..32].copy_from_slice(&self.base.to_le_bytes());
        header[32..36].copy_from_slice(&self.slots.first.to_le_bytes());
        header[36..40].copy_from_slice(&self.slots.count.to_le_bytes());
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
        // Also if the rest is damaged: a later version may have another header.
        let version = fields.u32()?;
        let class = LogClass::from_number(fields.u8()?);
        // Zero: the comparison below refuses anything else.
        fields.u8()?;
        let unit_bytes = u32::from(fields.u16()?) + 1;
        let (database_id, base) = (fields.u64()?, fields.u64()?);
        let slots = Slots { first: fields.u32()?, count: fields.u32()? };
        let header = class.map(|class| SegmentHeader { class, unit_bytes, database_id, base, slots });
        // Equal to its own encoding, so the checksum is right, and bytes without a meaning are zero.
        Some((version, header.filter(|header| bytes == header.encode())))
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
        /// Whether it was moved to a log of class `User`.
        is_moved: bool,
    },
    /// The log was synced up to this position when the frame was written.
    SyncMarker(u64),
    /// What follows was moved when the log of class `User` had this end.
    OrderMarker(u64),
}

/// The parameters of the bytes of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFormat {
    /// The layout of the records.
    pub layout: RecordLayout,
    /// The database's id, which all segments have.
    pub database_id: u64,
    /// The secret that the checksums of frames start with.
    pub secret: Secret,
    /// What the log has.
    pub class: LogClass,
    /// Frames are padded to a multiple of this many bytes, from 1 to [`UNIT_BYTES_MAX`].
    pub unit_bytes: u32,
}

impl LogFormat {
    /// Makes the format of a log of class `User` without padding.
    pub const fn new(layout: RecordLayout, database_id: u64, secret: Secret) -> LogFormat {
        LogFormat { layout, database_id, secret, class: LogClass::User, unit_bytes: 1 }
    }

    /// Returns the format of the log of another class of the same database.
    pub const fn of(self, class: LogClass) -> LogFormat {
        LogFormat { class, ..self }
    }

    /// Returns what writing the log is for.
    pub fn purpose(&self) -> Purpose {
        match self.class {
            LogClass::User | LogClass::Changes => Purpose::Log,
            LogClass::Moved(_) => Purpose::Collect,
            LogClass::Redo => Purpose::Index,
        }
    }

    /// Returns the header of the segment whose first frame has the position `base`.
    pub fn header(&self, base: u64, slots: Slots) -> SegmentHeader {
        let LogFormat { class, unit_bytes, database_id, .. } = *self;
        SegmentHeader { class, unit_bytes, database_id, base, slots }
    }

    /// Returns the name of the segment whose first frame has the position `base`.
    pub fn segment_name(&self, base: u64) -> String {
        FileName::Segment { class: self.class, base }.to_string()
    }

    /// Returns the length of a frame with padding.
    #[inline]
    pub fn padded(&self, length: usize) -> usize {
        // In a log without padding this is one comparison.
        if self.unit_bytes == 1 { length } else { length.next_multiple_of(self.unit_bytes.max(1) as usize) }
    }

    /// Returns the length of the frame of a record, with padding.
    pub fn record_bytes(&self, record: &RecordView<'_>) -> usize {
        self.padded(FRAME_CRC_BYTES + self.layout.stream_bytes(record))
    }

    /// Returns the length of a marker, with padding.
    pub fn marker_bytes(&self) -> usize {
        self.padded(MARKER_BYTES)
    }

    /// Returns what the checksum of a frame at a position starts with, besides the secret. No position has the bits of
    /// the class.
    fn place(&self, position: u64) -> u64 {
        position | (u64::from(self.class.number()) << CLASS_SHIFT)
    }

    /// Returns the checksum of a frame without bytes at a position.
    pub fn checksum_start(&self, position: u64) -> u32 {
        self.secret.start(self.place(position))
    }

    /// Begins a frame: returns where it begins in `out`.
    fn begin(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_CRC_BYTES]);
        start
    }

    /// Ends the frame that begins at `start`, for `position`: pads it and sets its checksum.
    fn end(&self, position: u64, start: usize, out: &mut Vec<u8>) {
        let length = self.padded(out.len() - start);
        // Before the checksum, which covers the padding: a changed byte there is damage.
        out.resize(start + length, 0);
        let (crc, body) = out[start..].split_at_mut(FRAME_CRC_BYTES);
        crc.copy_from_slice(&self.secret.checksum(self.place(position), body).to_le_bytes());
    }

    /// Appends the frame of a record for `position`.
    pub fn encode_record(
        &self,
        position: u64,
        record: &RecordView<'_>,
        batch_goes_on: bool,
        out: &mut Vec<u8>,
    ) {
        // A batch whose last frame is missing never ends: recovery drops all of it.
        let flags = if batch_goes_on { FLAG_BATCH_GOES_ON } else { 0 };
        self.encode_flagged(position, record, flags, out);
    }

    /// [`encode_record`](Self::encode_record) with flags of the log.
    pub fn encode_flagged(&self, position: u64, record: &RecordView<'_>, flags: u8, out: &mut Vec<u8>) {
        let start = self.begin(out);
        self.layout.encode_stream(record, FLAG_FRAME | flags, out);
        self.end(position, start, out);
    }

    /// Appends a sync marker for `position`; `synced` must not be after it.
    pub fn encode_sync_marker(&self, position: u64, synced: u64, out: &mut Vec<u8>) {
        self.encode_marker(position, FLAG_SYNC_MARKER, synced, out);
    }

    /// Appends an order marker for `position`: the log of class `User` ends at `order`, at most [`POSITION_MAX`].
    pub fn encode_order_marker(&self, position: u64, order: u64, out: &mut Vec<u8>) {
        self.encode_marker(position, FLAG_SYNC_MARKER | FLAG_ORDER, order, out);
    }

    fn encode_marker(&self, position: u64, flags: u8, stated: u64, out: &mut Vec<u8>) {
        let start = self.begin(out);
        out.push(FLAG_FRAME | flags);
        out.extend_from_slice(&stated.to_le_bytes());
        self.end(position, start, out);
    }

    /// Decodes the frame at the start of `bytes`, which are at `position`. Returns its contents and its length.
    pub fn decode_frame<'a>(
        &self,
        position: u64,
        bytes: &'a [u8],
    ) -> Result<(Frame<'a>, usize), RecordProblem> {
        let (frame, length) = self.parse_frame(bytes)?;
        let (crc, body) = bytes.split_first_chunk::<FRAME_CRC_BYTES>().ok_or(RecordProblem::Short(5))?;
        // The length is not verified yet, but `parse_frame` returns none that exceeds `bytes`.
        let computed = self.secret.checksum(self.place(position), &body[..length - FRAME_CRC_BYTES]);
        if computed != u32::from_le_bytes(*crc) {
            return Err(RecordProblem::Malformed("a frame with a correct checksum"));
        }
        match frame {
            // A sync covers nothing that is appended after it.
            Frame::SyncMarker(synced) if synced > position => {
                Err(RecordProblem::Malformed("a sync marker with a position up to its own"))
            }
            // Positions are added to lengths, and such sums must not overflow.
            Frame::OrderMarker(order) if order > POSITION_MAX => {
                Err(RecordProblem::Malformed("an order marker with a position"))
            }
            frame => Ok((frame, length)),
        }
    }

    /// Like [`decode_frame`](LogFormat::decode_frame), for bytes whose checksum was verified before.
    pub fn parse_frame<'a>(&self, bytes: &'a [u8]) -> Result<(Frame<'a>, usize), RecordProblem> {
        let flags =
            *bytes.get(FRAME_CRC_BYTES).ok_or(RecordProblem::Short(self.padded(FRAME_CRC_BYTES + 1)))?;
        // Nothing is verified here: every length below is checked against the bytes that there are.
        let body = bytes.get(FRAME_CRC_BYTES..).unwrap_or_default();
        if flags & FLAG_FRAME == 0 {
            return Err(RecordProblem::Malformed("a frame flag"));
        }
        // Before the lengths of a record: a marker has none.
        let (frame, length) = if flags & FLAG_SYNC_MARKER != 0 {
            let mut fields = Reader::new(body.get(1..).unwrap_or_default());
            let stated = fields.u64().ok_or(RecordProblem::Short(self.marker_bytes()))?;
            let is_order = flags & FLAG_ORDER != 0;
            (if is_order { Frame::OrderMarker(stated) } else { Frame::SyncMarker(stated) }, MARKER_BYTES)
        } else {
            let (flags, record, length) =
                self.layout.decode_stream(body).map_err(|problem| match problem {
                    RecordProblem::Short(needed) => {
                        RecordProblem::Short(self.padded(needed + FRAME_CRC_BYTES))
                    }
                    malformed => malformed,
                })?;
            let (batch_goes_on, is_moved) = (flags & FLAG_BATCH_GOES_ON != 0, flags & FLAG_MOVED != 0);
            let frame = Frame::Record { record, batch_goes_on, is_moved };
            (frame, FRAME_CRC_BYTES + length)
        };
        let padded = self.padded(length);
        // A frame without its padding is not whole: its checksum covers that.
        if padded > bytes.len() { Err(RecordProblem::Short(padded)) } else { Ok((frame, padded)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: LogFormat =
        LogFormat::new(RecordLayout { fixed: None, expiring: false }, 5, Secret::new(6));
    const PADDED: LogFormat = LogFormat { class: LogClass::Moved(2), unit_bytes: 16, ..FORMAT };

    #[test]
    fn a_frame_is_accepted_only_where_it_was_written_and_if_complete() {
        let record = RecordView { key: b"key", value: Some(b"value"), expires_at_ms: 0 };
        for format in [FORMAT, PADDED] {
            let mut bytes = Vec::new();
            format.encode_record(100, &record, true, &mut bytes);
            assert_eq!(bytes.len(), format.record_bytes(&record));
            let (frame, taken) = format.decode_frame(100, &bytes).unwrap();
            let expected = Frame::Record { record, batch_goes_on: true, is_moved: false };
            assert_eq!((frame, taken), (expected, bytes.len()));
            assert!(format.decode_frame(101, &bytes).is_err());
            for length in 0..bytes.len() {
                let problem = format.decode_frame(100, &bytes[..length]).unwrap_err();
                // So that what reads on in these steps never reads beyond the frame.
                let is_next = |needed: usize| needed > length && needed <= bytes.len();
                assert!(matches!(problem, RecordProblem::Short(needed) if is_next(needed)), "{problem:?}");
            }
            assert!(format.decode_frame(0, &[0; 64]).is_err(), "zeros are not a frame");
            let other = LogFormat { class: LogClass::Moved(1), ..format };
            assert!(other.decode_frame(100, &bytes).is_err(), "it is a frame of another class");
        }
    }

    #[test]
    fn the_frame_of_a_moved_record_differs_by_a_flag_that_its_checksum_covers() {
        let record = RecordView { key: b"key", value: Some(b"value"), expires_at_ms: 0 };
        let [mut put, mut moved] = [Vec::new(), Vec::new()];
        FORMAT.encode_record(100, &record, false, &mut put);
        FORMAT.encode_flagged(100, &record, FLAG_MOVED, &mut moved);
        let expected = Frame::Record { record, batch_goes_on: false, is_moved: true };
        assert_eq!(FORMAT.decode_frame(100, &moved), Ok((expected, moved.len())));
        assert_eq!(moved[FRAME_CRC_BYTES], put[FRAME_CRC_BYTES] | FLAG_MOVED);
        put[FRAME_CRC_BYTES] |= FLAG_MOVED;
        assert!(
            moved[FRAME_CRC_BYTES..] == put[FRAME_CRC_BYTES..] && FORMAT.decode_frame(100, &put).is_err()
        );
    }

    #[test]
    fn a_file_of_a_segment_has_space_for_the_longest_batch_after_as_many_bytes_and_hardly_more() {
        let rest = SEGMENT_FILE_BYTES_MAX.checked_sub(2 * BATCH_BYTES_MAX);
        assert!(
            rest.is_some_and(|rest| (SEGMENT_HEADER_BYTES as u64..=16 << 20).contains(&rest)),
            "{rest:?}"
        );
    }

    #[test]
    fn each_class_of_logs_has_its_names_and_its_account_of_writes() {
        let of = |class| {
            let format = FORMAT.of(class);
            (format.segment_name(0x1234), format.purpose())
        };
        let classes =
            [LogClass::User, LogClass::Changes, LogClass::Moved(1), LogClass::Moved(3), LogClass::Redo];
        let purposes = [Purpose::Log, Purpose::Log, Purpose::Collect, Purpose::Collect, Purpose::Index];
        assert_eq!(classes.map(|class| of(class).1), purposes);
        let names: std::collections::BTreeSet<String> = classes.iter().map(|class| of(*class).0).collect();
        assert!(names.len() == 5 && names.iter().all(|name| name.contains("1234")), "{names:?}");
        assert_eq!(FORMAT.of(LogClass::Redo).unit_bytes, FORMAT.unit_bytes);
    }

    #[test]
    fn frames_are_whole_units_and_the_checksum_covers_the_padding() {
        for length in 0..40 {
            let record = RecordView { key: b"key", value: Some(&[9; 40][..length]), expires_at_ms: 0 };
            let mut bytes = Vec::new();
            PADDED.encode_record(160, &record, false, &mut bytes);
            PADDED.encode_order_marker(160 + bytes.len() as u64, 1 << 50, &mut bytes);
            let plain = FORMAT.record_bytes(&record);
            assert_eq!(bytes.len(), plain.next_multiple_of(16) + 16);
            let (_, taken) = PADDED.decode_frame(160, &bytes).unwrap();
            let order = PADDED.decode_frame(160 + taken as u64, &bytes[taken..]).unwrap();
            assert_eq!(order, (Frame::OrderMarker(1 << 50), PADDED.marker_bytes()));
            if plain < taken {
                bytes[plain] = 1;
                assert!(PADDED.decode_frame(160, &bytes).is_err(), "length {length}");
            }
        }
    }

    #[test]
    fn a_sync_marker_has_no_position_after_its_own() {
        for (synced, is_one) in [(1000, true), (1001, false), (u64::MAX, false)] {
            let mut bytes = Vec::new();
            FORMAT.encode_sync_marker(1000, synced, &mut bytes);
            let decoded = FORMAT.decode_frame(1000, &bytes).ok();
            assert_eq!(decoded, is_one.then_some((Frame::SyncMarker(synced), MARKER_BYTES)));
        }
        for (order, is_one) in [(POSITION_MAX, true), (POSITION_MAX + 1, false)] {
            let mut bytes = Vec::new();
            FORMAT.encode_order_marker(1000, order, &mut bytes);
            assert_eq!(FORMAT.decode_frame(1000, &bytes).is_ok(), is_one, "an order marker has a position");
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
        assert!(shown.contains("secret: Secret(..),") && !shown.contains("2882400"), "{shown}");
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
        for format in [FORMAT, PADDED, LogFormat { unit_bytes: UNIT_BYTES_MAX, ..PADDED }] {
            let header = format.header(1 << 40, Slots { first: 7, count: 3 });
            let bytes = header.encode();
            assert_eq!(SegmentHeader::decode(&bytes), Some((LOG_VERSION, Some(header))));
            for at in 12..bytes.len() {
                let mut damaged = bytes;
                damaged[at] ^= 1;
                assert_eq!(SegmentHeader::decode(&damaged), Some((LOG_VERSION, None)), "byte {at}");
            }
        }
        assert_eq!(SegmentHeader::decode(b"short"), None);
    }
}

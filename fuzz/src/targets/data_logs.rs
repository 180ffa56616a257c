//! Logs of data with frames and slots of any content: opening, reading by units, and examination.

use crate::input::{Input, directory, put};
use crate::seal::{SECRET, frame_of};
use siltstone::names::LogClass;
use siltstone::store::data_logs::{CLASSES, DataLogSettings, DataLogs, DataLogsToExamine, FinishedSegment};
use siltstone::store::log_format::{SEGMENT_HEADER_BYTES, Slots};
use siltstone::store::record::RecordView;
use siltstone_device::{AlignedBuffer, Purpose};
use std::sync::Arc;

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let layout = input.layout();
    let unit_bytes = [1, 16, 100][usize::from(input.u8() % 3)];
    let segment_bytes = u64::from(input.u8()) * 16 + 1;
    let settings = DataLogSettings {
        layout,
        database_id: 7,
        secret: SECRET,
        unit_bytes,
        segment_bytes,
        moved: input.u8() % 4,
    };
    let directory = directory();
    let (mut finished, mut finished_to) = (Vec::new(), [0; CLASSES]);
    for class in 0..=settings.moved {
        let Some(format) = LogClass::from_number(class).map(|class| settings.format().of(class)) else {
            continue;
        };
        let mut base = u64::from(input.u8()) * u64::from(unit_bytes);
        finished_to[usize::from(class)] = base;
        for _ in 0..input.u8() % 4 {
            let slots = Slots { first: u32::from(input.u8()), count: u32::from(input.u8() % 4) };
            let mut bytes = format.header(base, slots).encode().to_vec();
            for _ in 0..input.u8() % 8 {
                let position = base + (bytes.len() - SEGMENT_HEADER_BYTES) as u64;
                let length = usize::from(input.u8());
                let mut body = input.bytes(length).to_vec();
                body.resize(format.padded(body.len() + 4) - 4, 0);
                match input.u8() % 8 {
                    0 => bytes.extend_from_slice(&body),
                    _ => bytes.extend(frame_of(SECRET, class, position, &body)),
                }
            }
            put(&directory, &format.segment_name(base), &bytes);
            let end = base + (bytes.len() - SEGMENT_HEADER_BYTES) as u64;
            if input.u8() % 2 == 0 {
                let Slots { first: slot, count: slots } = slots;
                let (records, order) = (input.u64(), input.u64());
                finished.push(FinishedSegment {
                    class,
                    base,
                    end,
                    slot,
                    slots,
                    records,
                    order,
                    database_id: 7,
                });
                finished_to[usize::from(class)] = end;
            }
            base = end + u64::from(input.u8() / 250);
        }
    }
    let closed = DataLogsToExamine {
        directory: &directory,
        settings,
        finished: &finished,
        finished_to,
        synced: [0; 4],
    };
    let examined = closed.examine(&mut |_| true, &mut |_| Ok(()));
    if let Ok(examined) = &examined {
        let mut found = 0;
        let passed = closed.records(examined, &|_| true, &mut |_| true, &mut |_| {
            found += 1;
            Ok(())
        });
        passed.expect("what was examined can be read");
        assert_eq!(found, examined.records, "records that are intact");
    }
    if let Ok((logs, recovered)) = DataLogs::open(
        &directory,
        &settings,
        &finished,
        finished_to,
        [0; CLASSES],
        &Arc::default(),
        &mut |_, _| true,
    ) {
        assert!(examined.is_ok(), "what can be opened can be examined");
        assert_eq!(logs.ends(), recovered.ends);
        let (view, mut buffer) = (logs.view(), AlignedBuffer::default());
        for segment in view.segments() {
            let mut frames = view.frames(segment.class, segment.base, Purpose::Iterate);
            let mut read = |unit, _: &RecordView<'_>, _| {
                assert!(view.segment_of(unit) != Some((segment.class, segment.base)) || segment.slots > 0);
                let _ = view.read(Purpose::Get, unit, &mut buffer);
                Ok(())
            };
            while frames.next_piece(1000, &mut read).unwrap_or(false) {}
        }
        let _ = view.read(Purpose::Get, input.u64(), &mut buffer);
    }
}

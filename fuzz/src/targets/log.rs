//! A log of several segments with frames of any content, with correct or wrong checksums: opening and scanning.

use crate::input::{Input, directory, put};
use crate::seal::{SECRET, frame};
use siltstone::store::log::{Log, LogSettings};
use siltstone::store::log_format::{LogFormat, SEGMENT_HEADER_BYTES, Slots};
use siltstone_device::{AlignedBuffer, Purpose};

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let layout = input.layout();
    let format = LogFormat::new(layout, 7, SECRET);
    let directory = directory();
    let mut base = u64::from(input.u16());
    let settings = LogSettings {
        format,
        segment_bytes: 4096,
        from: base.saturating_add(u64::from(input.u8())),
        durable: u64::from(input.u16()),
    };
    for _ in 0..input.u8() % 4 {
        let mut bytes = format.header(base, Slots::default()).encode().to_vec();
        for _ in 0..input.u8() % 16 {
            let position = base + (bytes.len() - SEGMENT_HEADER_BYTES) as u64;
            let length = usize::from(input.u8());
            let body = input.bytes(length);
            match input.u8() % 8 {
                0 => bytes.extend_from_slice(body),
                _ => bytes.extend(frame(SECRET, position, body)),
            }
        }
        put(&directory, &format!("log-{base:016x}"), &bytes);
        base += (bytes.len() - SEGMENT_HEADER_BYTES) as u64 + u64::from(input.u8() / 250);
    }
    if let Ok((log, recovered)) = Log::open(&directory, &settings, &mut |_, _| true) {
        let mut positions = Vec::new();
        let scanned = log.scan(settings.from, &mut |_, _| true, &mut |position, _| {
            positions.push(position);
            Ok(())
        });
        scanned.expect("what was opened can be scanned");
        assert!(positions.iter().all(|position| *position < recovered.end));
        let (view, mut buffer) = (log.view(), AlignedBuffer::default());
        for position in positions {
            let _ = view.read(Purpose::Get, position, &mut buffer).expect("what was scanned can be read");
        }
        let _ = view.read(Purpose::Get, input.u64(), &mut buffer);
    }
}

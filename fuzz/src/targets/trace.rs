//! Traces: the binary format, and tables of other programs' requests.

use crate::seal::with_crc;
use siltstone_bench::trace::csv::CsvReader;
use siltstone_bench::trace::{MAGIC, Reader, VERSION};

/// Reads the format of traces, also after a valid header.
pub fn binary(data: &[u8]) {
    if let Ok(reader) = Reader::new(data) {
        assert!(reader.take_while(Result::is_ok).count() <= data.len());
    }
    let mut headed = with_crc(&[&MAGIC[..], &VERSION.to_le_bytes()].concat());
    headed.extend_from_slice(data);
    if let Ok(reader) = Reader::new(&headed[..]) {
        assert!(reader.take_while(Result::is_ok).count() <= data.len());
    }
}

/// Reads a table with commas.
pub fn csv(data: &[u8]) {
    assert!(CsvReader::new(data).take_while(Result::is_ok).count() <= data.len());
}

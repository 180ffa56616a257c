//! Opens a trace of either format.

use super::csv::CsvReader;
use super::{MAGIC, Operation, Reader, Result, TraceError};
use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::Path;

/// The operations of a trace, in order, up to the first error.
pub type Source = Box<dyn Iterator<Item = Result<Operation>>>;

/// How compressed files begin, their formats, and the programs that decompress them.
const COMPRESSED: [(&[u8], &str, &str); 2] =
    [(b"\x1f\x8b", "gzip", "zcat"), (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat")];

/// Opens a trace in the binary format or a [table](super::csv), distinguished by the first byte. `-` is standard input.
///
/// # Errors
/// The file cannot be opened, is compressed, or is binary with another version.
pub fn open(path: &Path) -> Result<Source> {
    let mut bytes: Box<dyn Read> =
        if path == Path::new("-") { Box::new(stdin()) } else { Box::new(File::open(path)?) };
    let mut first = Vec::new();
    (&mut bytes).take(4).read_to_end(&mut first)?;
    if let Some(&(_, format, program)) = COMPRESSED.iter().find(|(begins, ..)| first.starts_with(begins)) {
        return Err(TraceError::Compressed { format, program });
    }
    let is_binary = first.first() == Some(&MAGIC[0]);
    let bytes = BufReader::with_capacity(1 << 20, std::io::Cursor::new(first).chain(bytes));
    Ok(if is_binary { Box::new(Reader::new(bytes)?) } else { Box::new(CsvReader::new(bytes)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Kind, Writer};

    #[test]
    fn both_forms_are_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let (table, binary) = (directory.path().join("table"), directory.path().join("binary"));
        std::fs::write(&table, "1,key,3,5,0,set,0\n3,key,3,5,0,get,0\n").unwrap();
        let operations: Vec<Operation> = open(&table).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(
            operations.iter().map(|operation| operation.kind).collect::<Vec<_>>(),
            [Kind::Set, Kind::Get]
        );
        let mut writer = Writer::new(File::create(&binary).unwrap()).unwrap();
        operations.iter().for_each(|operation| writer.write(operation).unwrap());
        writer.finish().unwrap();
        let again: Vec<Operation> = open(&binary).unwrap().collect::<Result<_>>().unwrap();
        assert_eq!(again, operations);
        assert!(open(&directory.path().join("none")).is_err());
    }

    #[test]
    fn compressed_traces_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        for (bytes, expected) in
            [(&b"\x1f\x8b\x08\0"[..], "(zcat)"), (&b"\x28\xb5\x2f\xfd\x04"[..], "(zstdcat)")]
        {
            std::fs::write(&path, bytes).unwrap();
            let error = open(&path).map(drop).unwrap_err().to_string();
            assert!(error.contains("decompress it first") && error.contains(expected), "{error}");
        }
        std::fs::write(&path, "").unwrap();
        assert_eq!(open(&path).unwrap().count(), 0);
    }
}

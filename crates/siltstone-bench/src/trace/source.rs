//! Opens a trace of either format.

use super::csv::CsvReader;
use super::{MAGIC, Operation, Reader, Result};
use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::Path;

/// The operations of a trace, in order, up to the first error.
pub type Source = Box<dyn Iterator<Item = Result<Operation>>>;

/// Opens a trace in the binary format or a [table](super::csv), distinguished by the first byte. `-` is standard input.
pub fn open(path: &Path) -> Result<Source> {
    let mut bytes: Box<dyn Read> =
        if path == Path::new("-") { Box::new(stdin()) } else { Box::new(File::open(path)?) };
    let mut first = Vec::new();
    (&mut bytes).take(1).read_to_end(&mut first)?;
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
}

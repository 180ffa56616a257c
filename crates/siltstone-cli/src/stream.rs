//! Streams of bytes as users have them: compressed, with a byte order mark, in another encoding, in lines of any
//! length.

use anyhow::anyhow;
use flate2::bufread::GzDecoder;
use siltstone::key::KEY_LENGTH_MAX;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

/// The bytes at the beginning of a stream that show its compression.
const START_BYTES: u64 = 16;
/// The bytes at the beginning of a text that show its encoding.
const TEXT_START_BYTES: u64 = 1024;
/// The bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// The maximum length of a line with a key, in bytes: the longest key with an escape for each byte.
pub const KEY_LINE_BYTES_MAX: usize = 4 * KEY_LENGTH_MAX;

/// The mark that some programs write before UTF-8; it is not part of the text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Formats that have to be decompressed first, by their first bytes.
const OTHER_COMPRESSIONS: [(&str, &[u8]); 6] = [
    ("xz", b"\xfd7zXZ\0"),
    ("bzip2", b"BZh"),
    ("zip (as are the workbooks of Excel)", b"PK\x03\x04"),
    ("lz4", b"\x04\x22\x4d\x18"),
    ("7z", b"7z\xbc\xaf\x27\x1c"),
    ("compress", b"\x1f\x9d"),
];

/// A stream, and where it is read.
type Source = BufReader<io::Chain<Cursor<Vec<u8>>, Box<dyn Read>>>;

/// The compressions that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    fn of(start: &[u8]) -> Option<Compression> {
        // A frame to skip may precede those with data.
        let is_skipped = start.len() >= 4 && start[0] & 0xf0 == 0x50 && start[1..4] == *b"\x2a\x4d\x18";
        match start {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            _ if is_skipped => Some(Compression::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// Returns whether a further member may begin with this byte.
    fn may_begin(self, first: u8) -> bool {
        match self {
            Compression::Gzip => first == 0x1f,
            Compression::Zstd => first == 0x28 || first & 0xf0 == 0x50,
        }
    }
}

/// Returns the contents of a stream that may be compressed with gzip or zstd, as its first bytes show.
///
/// # Errors
/// The stream has another compression, ends early, or has bytes other than zeros after its compressed data.
pub fn decompressed(source: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut source: Box<dyn Read> = Box::new(source);
    // A pipe may deliver its bytes one by one.
    let mut start = Vec::new();
    (&mut source).take(START_BYTES).read_to_end(&mut start)?;
    let is_other = |magic: &&[u8]| start.starts_with(magic);
    // Text may begin like bzip2, but for the number of a block after it.
    let is_text = start.starts_with(b"BZh") && start.get(4..10) != Some(b"1AY&SY");
    if let Some((name, _)) = OTHER_COMPRESSIONS.iter().find(|(_, magic)| !is_text && is_other(magic)) {
        let problem = format!("the input is compressed with {name}; decompress it first");
        return Err(io::Error::new(ErrorKind::InvalidData, problem));
    }
    let compression = Compression::of(&start);
    let source = Cursor::new(start).chain(source);
    Ok(match compression {
        Some(kind) => Box::new(Members::new(kind, BufReader::with_capacity(BUFFER_BYTES, source))?),
        None => Box::new(source),
    })
}

enum Decoder {
    Gzip(GzDecoder<Source>),
    Zstd(zstd::Decoder<'static, Source>),
}

/// Compressed data: members (gzip) or frames (zstd) one after the other, and zeros, with which tapes and block devices
/// fill up.
struct Members {
    kind: Compression,
    decoder: Option<Decoder>,
    is_first: bool,
}

impl Members {
    fn new(kind: Compression, source: Source) -> io::Result<Members> {
        Ok(Members { kind, decoder: Some(decoder(kind, source)?), is_first: true })
    }

    /// Returns the decoder of the next member, if there is one.
    fn following(&self, mut source: Source) -> io::Result<Option<Decoder>> {
        let mut has_zeros = false;
        loop {
            let bytes = source.fill_buf()?;
            let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
            match bytes.get(zeros) {
                None if bytes.is_empty() => return Ok(None),
                None => source.consume(zeros),
                Some(&first) if !has_zeros && zeros == 0 && self.kind.may_begin(first) => {
                    return decoder(self.kind, source).map(Some);
                }
                Some(_) => {
                    let name = self.kind.name();
                    let problem =
                        format!("there are bytes after the end of the {name} data that are no {name}");
                    return Err(io::Error::new(ErrorKind::InvalidData, problem));
                }
            }
            has_zeros = true;
        }
    }

    /// Says what an error of a decoder means.
    fn described(&self, error: io::Error) -> io::Error {
        let name = self.kind.name();
        let problem = match error.kind() {
            _ if error.get_ref().is_some_and(|inner| inner.is::<siltstone::Error>()) => return error,
            ErrorKind::UnexpectedEof if self.is_first => {
                format!("the {name} data ends early: the file was cut short")
            }
            ErrorKind::UnexpectedEof => {
                format!("the bytes after the end of the first {name} data are cut short, or no {name}")
            }
            ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::Other if self.is_first => {
                format!("the {name} data is damaged: {error}")
            }
            ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::Other => {
                format!("the bytes after the end of the first {name} data are damaged, or no {name}: {error}")
            }
            _ => return error,
        };
        io::Error::new(ErrorKind::InvalidData, problem)
    }
}

fn decoder(kind: Compression, source: Source) -> io::Result<Decoder> {
    Ok(match kind {
        Compression::Gzip => Decoder::Gzip(GzDecoder::new(source)),
        Compression::Zstd => Decoder::Zstd(zstd::Decoder::with_buffer(source)?.single_frame()),
    })
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let read = match &mut self.decoder {
                None => return Ok(0),
                Some(Decoder::Gzip(member)) => member.read(buffer),
                Some(Decoder::Zstd(frame)) => frame.read(buffer),
            };
            match read {
                Ok(0) => {}
                read => return read.map_err(|error| self.described(error)),
            }
            let source = match self.decoder.take() {
                None => return Ok(0),
                Some(Decoder::Gzip(member)) => member.into_inner(),
                Some(Decoder::Zstd(frame)) => frame.finish(),
            };
            self.decoder = self.following(source)?;
            self.is_first = false;
        }
        Ok(0)
    }
}

/// Returns a text without its byte order mark.
///
/// # Errors
/// The text is UTF-16 or UTF-32, as its mark or its zeros show.
pub fn text(mut source: impl BufRead) -> io::Result<impl BufRead> {
    let mut start = Vec::new();
    (&mut source).take(TEXT_START_BYTES).read_to_end(&mut start)?;
    if let Some(encoding) = other_encoding(&start) {
        let problem = format!("the text is {encoding}; convert it with `iconv -f {encoding} -t UTF-8`");
        return Err(io::Error::new(ErrorKind::InvalidData, problem));
    }
    if start.starts_with(BYTE_ORDER_MARK) {
        start.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(Cursor::new(start).chain(source))
}

/// Returns the name of the encoding of a text, as iconv knows it, if it begins as one that is not read.
fn other_encoding(start: &[u8]) -> Option<&'static str> {
    // Whether at least a quarter of the characters are ASCII, and hardly any have a zero where those have their letter.
    let has_ascii = |width: usize, at: usize| {
        let characters = start.chunks_exact(width);
        let all = characters.len();
        let is_ascii =
            |unit: &&[u8]| unit.iter().enumerate().all(|(place, &byte)| (byte != 0) == (place == at));
        let zeros = characters.clone().filter(|unit| unit[at] == 0).count();
        let found = characters.filter(is_ascii).count();
        found > 0 && found * 4 >= all && zeros * 4 <= found
    };
    let is_narrow = start.get(..16).is_some_and(|start| start.is_ascii() && !start.contains(&0));
    // The mark of UTF-16 is the beginning of that of UTF-32.
    match start {
        [0xff, 0xfe, 0, 0, ..] => Some("UTF-32LE"),
        [0, 0, 0xfe, 0xff, ..] => Some("UTF-32BE"),
        [0xff, 0xfe, ..] => Some("UTF-16LE"),
        [0xfe, 0xff, ..] => Some("UTF-16BE"),
        _ if start.len() < 4 || is_narrow => None,
        _ if has_ascii(4, 0) => Some("UTF-32LE"),
        _ if has_ascii(4, 3) => Some("UTF-32BE"),
        _ if has_ascii(2, 0) => Some("UTF-16LE"),
        _ if has_ascii(2, 1) => Some("UTF-16BE"),
        _ => None,
    }
}

/// Returns whether a stream that begins with these bytes is read as a text as it is: it has no mark, and seems to be
/// neither compressed nor in another encoding.
pub fn is_text(start: &[u8]) -> bool {
    let is_compressed = OTHER_COMPRESSIONS.iter().any(|(_, magic)| start.starts_with(magic));
    !is_compressed
        && Compression::of(start).is_none()
        && other_encoding(start).is_none()
        && !start.starts_with(BYTE_ORDER_MARK)
}

/// The lines of a text, without their ends: a newline, or a carriage return and a newline.
pub struct Lines<R> {
    source: R,
    limit: usize,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads a text whose lines have at most `limit` bytes.
    pub fn new(source: R, limit: usize) -> Self {
        Lines { source, limit, line: Vec::new(), number: 0 }
    }

    /// Returns the number of the last line, from 1 on.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next line; the inner error says that it is longer than the limit. Of such a line no more than that
    /// is in memory, and its rest is skipped by the next call.
    pub fn next(&mut self) -> io::Result<Option<anyhow::Result<&[u8]>>> {
        self.skip_rest()?;
        self.line.clear();
        let limit = self.limit as u64 + 2;
        if (&mut self.source).take(limit).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some(match line.len() > self.limit {
            true => Err(anyhow!("the line is longer than the maximum of {} bytes", self.limit)),
            false => Ok(line),
        }))
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        let is_cut = self.line.len() == self.limit + 2 && self.line.last() != Some(&b'\n');
        if is_cut {
            self.source.skip_until(b'\n')?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 3).unwrap()
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        let read = decompressed(Cursor::new(bytes)).and_then(|mut source| source.read_to_end(&mut text));
        read.map(|_| text).map_err(|error| error.to_string())
    }

    #[test]
    fn compressed_data_may_have_several_members_and_end_with_zeros() {
        for compress in [gzip, zstd] {
            let one = compress(b"first\n");
            let two = [&one[..], &compress(b"second\n")].concat();
            assert_eq!(read(two.clone()).unwrap(), b"first\nsecond\n");
            for zeros in [1, 100, 3 << 20] {
                assert_eq!(read([&two[..], &vec![0; zeros]].concat()).unwrap(), b"first\nsecond\n");
            }
            for rest in
                [&b"hello"[..], b"\0\0hello", b"\x1f\x8bhello", b"\x28hello", &[&[0; 9][..], &one].concat()]
            {
                let error = read([&one[..], rest].concat()).unwrap_err();
                assert!(error.contains("after the end"), "{error}");
            }
            for end in 2..one.len() {
                let torn = read(one[..end].to_vec());
                assert!(end < 4 || torn.is_err(), "{end} bytes: {torn:?}");
            }
            assert!(read(one[..one.len() - 2].to_vec()).unwrap_err().contains("cut short"));
        }
        let skipped = [&b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..], &zstd(b"text")].concat();
        assert_eq!(read(skipped).unwrap(), b"text");
        assert!(read(b"BZh91AY&SY".to_vec()).unwrap_err().contains("bzip2"));
        assert_eq!(read(b"BZh9,1".to_vec()).unwrap(), b"BZh9,1");
    }

    #[test]
    fn text_in_another_encoding_is_named_and_a_mark_is_no_part_of_it() {
        let wide = |text: &str, width: usize, is_big: bool| -> Vec<u8> {
            let unit = |byte: u8| {
                let mut unit = vec![0; width];
                unit[if is_big { width - 1 } else { 0 }] = byte;
                unit
            };
            text.bytes().flat_map(unit).collect()
        };
        for (width, is_big, name) in
            [(2, false, "UTF-16LE"), (2, true, "UTF-16BE"), (4, false, "UTF-32LE"), (4, true, "UTF-32BE")]
        {
            let plain = wide("a,1\nb,2", width, is_big);
            let mut mark = vec![0; width - 2];
            mark.splice(
                if is_big { width - 2..width - 2 } else { 0..0 },
                if is_big { [0xfe, 0xff] } else { [0xff, 0xfe] },
            );
            for wide in [plain.clone(), [&mark[..], &plain].concat()] {
                assert!(text(&wide[..]).err().unwrap().to_string().contains(name), "{name}");
            }
        }
        let chinese: Vec<u8> = "键,值\n一,二\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(text(&chinese[..]).err().unwrap().to_string().contains("UTF-16LE"));
        let taken = |bytes: &[u8]| {
            let mut rest = Vec::new();
            text(bytes).unwrap().read_to_end(&mut rest).unwrap();
            rest
        };
        assert_eq!(taken(b"\xef\xbb\xbfa,1\n"), b"a,1\n");
        for plain in [
            &b""[..],
            b"a",
            b"a\0",
            b"key,value,expires_at_ms\na\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0,,\n",
            b"\0\0\0\0",
            "键,值\n".as_bytes(),
        ] {
            assert_eq!(taken(plain), plain);
        }
    }

    #[test]
    fn lines_end_with_newlines_of_both_kinds_and_long_ones_are_skipped() {
        let text = b"one\r\ntwo\n\nfour4\nlonger\nseven\r\r\nlonger than both\r\nlast".to_vec();
        let mut lines = Lines::new(&text[..], 6);
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            read.push(line.map_or("-".into(), |line| String::from_utf8(line.to_vec()).unwrap()));
        }
        assert_eq!(read, ["one", "two", "", "four4", "longer", "seven\r", "-", "last"]);
        assert_eq!(lines.number(), 8);
    }
}

//! Rows of text whose fields have a delimiter between them, and quotes in CSV (RFC 4180).
//!
//! What a lenient parser passes over is an error here: a quote that is never closed, text after a closing quote, and
//! rows that are too long for memory. Only the fields that are wanted are kept. The crates for CSV report none of
//! these.

use super::Fault;
use anyhow::anyhow;
use std::io::BufRead;

/// The maximum number of columns.
const COLUMNS_MAX: usize = 1 << 20;

/// Reads rows. They end with a newline, a carriage return, or both. Empty lines are skipped.
pub struct Rows<R> {
    source: R,
    delimiter: u8,
    has_quotes: bool,
    row: Row,
    state: State,
    /// The number of the line that is read, and of the one in which the row begins.
    line: u64,
    begun_line: u64,
    /// Whether the last byte was a carriage return that ended a row.
    is_after_return: bool,
}

/// Where the reader is in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first byte of a row.
    Row,
    /// Before the first byte of a further field.
    Field,
    Plain,
    /// After a quote that began in this line.
    Quoted(u64),
    /// After a quote within quotes: it ends the field, or is the first of two.
    Quote(u64),
}

/// The fields of a row that are kept.
#[derive(Default)]
struct Row {
    /// The columns that are kept; `None` for all.
    kept: Option<Vec<usize>>,
    /// The maximum number of bytes that are kept.
    limit: usize,
    bytes: Vec<u8>,
    /// The column, the begin and the end of each field.
    fields: Vec<(usize, usize, usize)>,
    columns: usize,
    is_in_kept: bool,
}

impl Row {
    fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.columns = 0;
    }

    /// Begins a field. Returns false if there are too many.
    fn begin(&mut self) -> bool {
        let (column, at) = (self.columns, self.bytes.len());
        self.columns += 1;
        self.is_in_kept = self.kept.as_ref().is_none_or(|kept| kept.contains(&column));
        if self.is_in_kept {
            self.fields.push((column, at, at));
        }
        self.fields.len() <= COLUMNS_MAX
    }

    /// Adds a byte to the field. Returns false if the row is too long.
    fn push(&mut self, byte: u8) -> bool {
        if let (true, Some(field)) = (self.is_in_kept, self.fields.last_mut()) {
            self.bytes.push(byte);
            field.2 = self.bytes.len();
        }
        self.bytes.len() <= self.limit
    }
}

impl<R: BufRead> Rows<R> {
    /// Reads rows and keeps at most `limit` bytes of each: all fields, until [`keep`](Rows::keep) is called.
    pub fn new(source: R, delimiter: u8, has_quotes: bool, limit: usize) -> Rows<R> {
        let row = Row { limit, ..Row::default() };
        let (state, line, begun_line, is_after_return) = (State::Row, 1, 1, false);
        Rows { source, delimiter, has_quotes, row, state, line, begun_line, is_after_return }
    }

    /// Keeps only these columns of the rows that follow.
    pub fn keep(&mut self, columns: Vec<usize>) {
        self.row.kept = Some(columns);
    }

    /// Returns the line in which the last row begins, from 1 on.
    pub fn row_line(&self) -> u64 {
        self.begun_line
    }

    /// Returns the number of columns of the last row.
    pub fn columns(&self) -> usize {
        self.row.columns
    }

    /// Returns a field of the last row, if the row has this column and it is kept.
    pub fn field(&self, column: usize) -> Option<&[u8]> {
        // If all columns are kept, a column is at its own place.
        let fields = &self.row.fields;
        let at = fields.get(column).filter(|field| field.0 == column);
        let &(_, start, end) = at.or_else(|| fields.iter().find(|field| field.0 == column))?;
        self.row.bytes.get(start..end)
    }

    /// Reads the next row. Returns false at the end.
    ///
    /// # Errors
    /// After an error that is [bad](Fault::Bad), the next call continues with the next row.
    pub fn next(&mut self) -> Result<bool, Fault> {
        if self.state != State::Row {
            // The rest of a row that was too long is in no column.
            let kept = self.row.kept.replace(Vec::new());
            let skipped = self.read_row();
            self.row.kept = kept;
            if let Err(Fault::Fatal(error)) = skipped {
                return Err(Fault::Fatal(error));
            }
        }
        self.read_row()
    }

    fn read_row(&mut self) -> Result<bool, Fault> {
        self.row.clear();
        self.begun_line = self.line;
        let mut problem = None;
        loop {
            let buffer = self.source.fill_buf().map_err(|error| Fault::Fatal(error.into()))?;
            if buffer.is_empty() {
                let has_row = self.state != State::Row;
                if let State::Quoted(line) = self.state {
                    return Err(Fault::Fatal(anyhow!(
                        "the quote that begins in line {line} is never closed"
                    )));
                }
                self.state = State::Row;
                return problem.map_or(Ok(has_row), |problem| Err(Fault::Bad(problem)));
            }
            let (mut used, mut has_ended) = (0, false);
            for &byte in buffer {
                used += 1;
                if self.state == State::Row && std::mem::take(&mut self.is_after_return) && byte == b'\n' {
                    continue;
                }
                let is_quoted = matches!(self.state, State::Quoted(_));
                let ends_row = !is_quoted && matches!(byte, b'\n' | b'\r');
                self.line += u64::from(byte == b'\n' || ends_row);
                if ends_row {
                    self.is_after_return = byte == b'\r';
                    // An empty line is no row.
                    has_ended = self.state != State::Row;
                    self.state = State::Row;
                    if has_ended {
                        break;
                    }
                    self.begun_line = self.line;
                    continue;
                }
                let step = Step { delimiter: self.delimiter, has_quotes: self.has_quotes, line: self.line };
                match step.take(&mut self.state, &mut self.row, byte) {
                    Ok(()) => {}
                    Err(Refusal::Quote) if problem.is_none() => {
                        let column = self.row.columns;
                        problem = Some(anyhow!("there is text after the closing quote in column {column}"));
                    }
                    Err(Refusal::Quote) => {}
                    Err(Refusal::Length) => {
                        self.source.consume(used);
                        return Err(Fault::Bad(self.too_long()));
                    }
                }
            }
            self.source.consume(used);
            if has_ended {
                return problem.map_or(Ok(true), |problem| Err(Fault::Bad(problem)));
            }
        }
    }

    fn too_long(&self) -> anyhow::Error {
        let (limit, columns) = (self.row.limit, self.row.columns);
        match self.state {
            State::Quoted(line) => {
                anyhow!(
                    "the quote that begins in line {line} is not closed within {limit} bytes, the longest row"
                )
            }
            _ if columns > COLUMNS_MAX => anyhow!("the row has more than {COLUMNS_MAX} columns"),
            _ => anyhow!("the row is longer than the maximum of {limit} bytes"),
        }
    }
}

/// Why a row is refused.
enum Refusal {
    /// There is text after a closing quote.
    Quote,
    /// It is too long.
    Length,
}

/// What a byte is compared with.
struct Step {
    delimiter: u8,
    has_quotes: bool,
    line: u64,
}

impl Step {
    /// Takes a byte that does not end the row.
    fn take(&self, state: &mut State, row: &mut Row, byte: u8) -> Result<(), Refusal> {
        if *state == State::Row {
            row.begin();
            *state = State::Field;
        }
        let (next, fits) = match *state {
            State::Quoted(line) if byte == b'"' => (State::Quote(line), true),
            State::Quoted(line) => (State::Quoted(line), row.push(byte)),
            State::Quote(line) if byte == b'"' => (State::Quoted(line), row.push(byte)),
            _ if byte == self.delimiter => (State::Field, row.begin()),
            State::Field if self.has_quotes && byte == b'"' => (State::Quoted(self.line), true),
            State::Quote(_) => {
                *state = State::Plain;
                return Err(Refusal::Quote);
            }
            _ => (State::Plain, row.push(byte)),
        };
        *state = next;
        if fits { Ok(()) } else { Err(Refusal::Length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows with their lines, or the errors.
    fn read(text: &[u8], has_quotes: bool, limit: usize) -> Vec<Result<(u64, Vec<String>), String>> {
        // Two bytes at a time: every state meets the end of a buffer.
        let mut rows = Rows::new(std::io::BufReader::with_capacity(2, text), b',', has_quotes, limit);
        let mut all = Vec::new();
        loop {
            match rows.next() {
                Ok(false) => return all,
                Ok(true) => {
                    let fields = (0..rows.columns()).map(|column| rows.field(column).unwrap());
                    let fields = fields.map(|field| String::from_utf8(field.to_vec()).unwrap()).collect();
                    all.push(Ok((rows.row_line(), fields)));
                }
                Err(Fault::Bad(error)) => all.push(Err(format!("{}: {error}", rows.row_line()))),
                Err(Fault::Fatal(error)) => {
                    all.push(Err(format!("{error}")));
                    return all;
                }
            }
        }
    }

    fn row(line: u64, fields: &[&str]) -> Result<(u64, Vec<String>), String> {
        Ok((line, fields.iter().map(|field| field.to_string()).collect()))
    }

    #[test]
    fn rows_end_with_every_kind_of_line_ending_and_keep_their_lines() {
        let text = b"a,b\r\n\r\n\"c\r\nd\",\"\"\"\"\ne\r,f\n\ng,\n\"\"\nlast";
        let expected = [
            row(1, &["a", "b"]),
            row(3, &["c\r\nd", "\""]),
            row(5, &["e"]),
            row(6, &["", "f"]),
            row(8, &["g", ""]),
            row(9, &[""]),
            row(10, &["last"]),
        ];
        assert_eq!(read(text, true, 100), expected);
        assert_eq!(read(b"\"a,b\"c\n", false, 100), [row(1, &["\"a", "b\"c"])]);
        assert_eq!(read(b"a\"b\",c \"d\"\n", true, 100), [row(1, &["a\"b\"", "c \"d\""])]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_an_error_with_the_line_where_it_begins() {
        let rows = read(b"k,v\na,\"1\nb,2\nc,3\n", true, 100);
        assert_eq!(rows[0], row(1, &["k", "v"]));
        assert_eq!(rows[1], Err("the quote that begins in line 2 is never closed".into()));
        assert_eq!(rows.len(), 2);
        assert_eq!(read(b"a,\"1\"\"", true, 100).len(), 1);
        assert!(read(b"a,\"1\"\"", true, 100)[0].is_err());
    }

    #[test]
    fn a_bad_row_is_passed_over_without_its_rest() {
        let rows = read(b"a,\"1\"x,\"2\"\nb,12345678\nc,3\n\"12345678\n\",4\nd,5\n", true, 6);
        assert_eq!(rows[0], Err("1: there is text after the closing quote in column 2".into()));
        assert!(rows[1].as_ref().unwrap_err().starts_with("2: the row is longer"), "{rows:?}");
        assert_eq!(rows[2], row(3, &["c", "3"]));
        assert!(rows[3].as_ref().unwrap_err().contains("begins in line 4 is not closed within"), "{rows:?}");
        assert_eq!(rows[4], row(6, &["d", "5"]));
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn columns_that_are_not_kept_take_no_memory() {
        let text = format!("a,{},c\n", "x".repeat(1000));
        let mut rows = Rows::new(text.as_bytes(), b',', true, 2);
        rows.keep(vec![2, 0]);
        assert!(matches!(rows.next(), Ok(true)));
        assert_eq!((rows.field(0), rows.field(1), rows.field(2)), (Some(&b"a"[..]), None, Some(&b"c"[..])));
        assert!(rows.row.bytes.capacity() < 100);
        let wide = [vec![b','; COLUMNS_MAX + 1], b"\na\n".to_vec()].concat();
        let rows = read(&wide, true, 100);
        assert!(rows[0].as_ref().unwrap_err().contains("columns") && rows.len() == 2);
    }
}

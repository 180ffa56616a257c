//! The words of comments, of messages, and of the names of tests.

use super::documents::avoided_in;
use super::{none, sources};

/// Words that documents avoid, and that are terms of the field in comments: code may be sound.
const TERMS: &[&str] = &["sound"];

/// A comment of one or more lines, a string, or the name of a test, and the number of its first line.
type Piece = (usize, String);

/// Splits code into the texts in it that people read.
#[derive(Default)]
struct Scanner {
    pieces: Vec<Piece>,
    /// The comment that the next line may continue, and the number of its last line.
    comment: Option<(usize, Piece)>,
    line: usize,
}

impl Scanner {
    fn pieces_of(code: &str) -> Vec<Piece> {
        let mut scanner = Scanner { line: 1, ..Scanner::default() };
        let mut rest = code;
        while let Some(next) = rest.chars().next() {
            let length = scanner.step(rest, next);
            scanner.line += rest[..length].matches('\n').count();
            rest = &rest[length..];
        }
        scanner.pieces.extend(scanner.comment.take().map(|(_, comment)| comment));
        scanner.pieces
    }

    /// Reads what `rest` begins with, and returns its length.
    fn step(&mut self, rest: &str, next: char) -> usize {
        let raw = rest.strip_prefix('r').map(|rest| rest.trim_start_matches('#'));
        match next {
            '/' if rest.starts_with("//") => {
                let length = rest.find('\n').unwrap_or(rest.len());
                self.add_comment(&rest[..length]);
                length
            }
            '"' => {
                let mut is_escaped = false;
                let is_end = |letter: char| {
                    let ends = letter == '"' && !is_escaped;
                    is_escaped = letter == '\\' && !is_escaped;
                    ends
                };
                let length = rest[1..].find(is_end).unwrap_or(rest.len() - 2);
                self.add_string(&rest[1..length + 1]);
                length + 2
            }
            'r' if raw.is_some_and(|raw| raw.starts_with('"')) => {
                let marks = rest.len() - raw.unwrap().len() - 1;
                let end = format!("\"{}", "#".repeat(marks));
                let length = rest[marks + 2..].find(&end).unwrap_or(rest.len() - marks - 2 - end.len());
                self.add_string(&rest[marks + 2..][..length]);
                marks + 2 + length + end.len()
            }
            // A literal of one letter, which may be a quotation mark; else a lifetime.
            '\'' => match rest[1..].chars().next() {
                Some('\\') => 3 + rest[3..].find('\'').unwrap_or(0) + 1,
                Some(letter) if rest[1 + letter.len_utf8()..].starts_with('\'') => 2 + letter.len_utf8(),
                _ => 1,
            },
            _ if next.is_alphabetic() || next == '_' => {
                let is_outside = |letter: char| !letter.is_alphanumeric() && letter != '_';
                let length = rest.find(is_outside).unwrap_or(rest.len());
                if &rest[..length] == "fn" {
                    let name = rest[length..].trim_start();
                    self.add_name(&name[..name.find(is_outside).unwrap_or(name.len())]);
                }
                length
            }
            _ => next.len_utf8(),
        }
    }

    fn add_comment(&mut self, comment: &str) {
        let text = comment.trim_start_matches('/').trim_start_matches('!');
        let text = text.strip_prefix(' ').unwrap_or(text);
        match &mut self.comment {
            Some((last, (_, before))) if *last + 1 == self.line => {
                *last = self.line;
                before.push('\n');
                before.push_str(text);
            }
            _ => {
                let before = self.comment.replace((self.line, (self.line, text.to_owned())));
                self.pieces.extend(before.map(|(_, comment)| comment));
            }
        }
    }

    /// Strings without spaces are names; what is in braces is code.
    fn add_string(&mut self, string: &str) {
        if string.contains(' ') {
            let text: String =
                string.chars().map(|letter| if "{}".contains(letter) { '`' } else { letter }).collect();
            self.pieces.push((self.line, text.replace("\\n", ". ").replace("\\\n", "\n")));
        }
    }

    /// Long names are the claims of tests.
    fn add_name(&mut self, name: &str) {
        if name.matches('_').count() > 2 {
            self.pieces.push((self.line, name.replace('_', " ")));
        }
    }
}

#[test]
fn comments_messages_and_names_of_tests_are_in_plain_english() {
    let mut violations = Vec::new();
    for source in ["src", "crates", "tests", "fuzz", "evidence"].into_iter().flat_map(sources) {
        // The list of words is in `tests/tidy`.
        if source.path.starts_with("tests/tidy") {
            continue;
        }
        for (first, text) in Scanner::pieces_of(&source.text) {
            let found = avoided_in(&text).into_iter();
            let found =
                found.filter(|(_, what)| !TERMS.iter().any(|term| what.starts_with(&format!("`{term}`"))));
            violations
                .extend(found.map(|(line, what)| format!("{}:{}: {what}", source.path, first + line - 1)));
        }
    }
    none(violations);
}

#[test]
fn texts_are_found_in_code() {
    let code = r##"
/// One
/// comment.
fn a_test_of_names<'a>() { // Other.
    let x = ('"', '\'', "a \"b\" {c} \
        d", r#"raw "one" "#, "name");
}
"##;
    let found = Scanner::pieces_of(code);
    let expected = [
        (4, "a test of names"),
        (2, "One\ncomment.\nOther."),
        (5, "a \\\"b\\\" `c` \n        d"),
        (6, "raw \"one\" "),
    ];
    let mut found: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
    found.sort_by_key(|(line, text)| (*line != 4, *line, *text));
    assert_eq!(found, expected);
}

//! Files of users of `siltstone serve data`: the lines of the users that were read make the same users.

use siltstone_server::fuzzing::lines_of_users;

/// Parses the bytes as a file of users.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some(lines) = lines_of_users(&text) else { return };
    assert!(lines.len() <= text.lines().count());
    let again = lines_of_users(&lines.join("\n")).expect("lines of users are lines of a file");
    assert_eq!(again, lines);
}

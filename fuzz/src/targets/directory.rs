//! Opens a directory of arbitrary files.

use crate::input::{Input, directory, put};
use siltstone::Database;

const NAMES: [&str; 12] = [
    "MANIFEST",
    "MANIFEST.new",
    "log-0000000000000000",
    "log-0000000000000100",
    "00000001.hash",
    "00000002.sorted",
    "LOCK",
    "other",
    "MANIFEST.mirror",
    "USAGE",
    "CHANGES",
    "changes-0000000000000000",
];

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let directory = directory();
    for _ in 0..input.u8() % 6 {
        let name = NAMES[usize::from(input.u8()) % NAMES.len()];
        let length = usize::from(input.u16());
        put(&directory, name, input.bytes(length));
    }
    let builder = Database::builder("memory").background_threads(0).seed([1, 2]);
    if let Ok(database) = builder.set("log_slots_min", 64).open_in(directory) {
        let _ = database.get("key");
        let _ = database.put("key", "value").and_then(|()| database.compact());
        let _ = database.close();
    }
}

//! CONFIG SET: the settings that change while the server runs, in Redis's names.

use super::arguments::is;
use super::runtime::{Runtime, Syncs};
use crate::failure::{Failure, Outcome};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Sets a setting that changes while the server runs.
type Set = fn(&Runtime, Value);

/// A checked value.
#[derive(Debug, Clone, Copy)]
enum Value {
    Number(i64),
    Syncs(Syncs),
    /// Bytes; `None` for no limit.
    Memory(Option<u64>),
}

/// What a setting may be.
enum Allowed {
    Numbers(RangeInclusive<i64>),
    Syncs,
    Memory,
}

/// The settings that change while the server runs.
const CHANGEABLE: [(&str, Allowed, Set); 6] = [
    ("appendfsync", Allowed::Syncs, |runtime, value| {
        if let Value::Syncs(syncs) = value {
            runtime.set_syncs(syncs);
        }
    }),
    ("maxclients", Allowed::Numbers(1..=u32::MAX as i64), |runtime, value| {
        runtime.set_connections_max(value.number() as usize);
    }),
    // By the one who calls, before all others: the databases may refuse it.
    (MEMORY, Allowed::Memory, |_, _| {}),
    ("slowlog-log-slower-than", Allowed::Numbers(-1..=i64::MAX), |runtime, value| {
        runtime.set_slow_us(value.number());
    }),
    ("slowlog-max-len", Allowed::Numbers(0..=SLOW_ENTRIES_MAX), |runtime, value| {
        runtime.set_slow_entries_max(value.number() as usize);
    }),
    ("timeout", Allowed::Numbers(0..=i32::MAX as i64), |runtime, value| {
        let seconds = value.number() as u64;
        runtime.set_idle_max((seconds > 0).then(|| Duration::from_secs(seconds)));
    }),
];

/// The name of the limit of memory.
const MEMORY: &str = "maxmemory";

/// The most entries of the slow log. One has 4 KiB at most.
const SLOW_ENTRIES_MAX: i64 = 100_000;

impl Value {
    fn number(self) -> i64 {
        if let Value::Number(number) = self { number } else { 0 }
    }
}

/// Sets all settings of pairs of names and values, or none. `set_memory` changes the limit of memory.
///
/// # Errors
/// Redis's errors for a name that does not exist, for one that is not changed while the server runs (these are
/// `known`), and for a value that is not allowed.
pub fn set(
    runtime: &Runtime,
    pairs: &[&[u8]],
    known: &[&str],
    set_memory: impl Fn(Option<u64>) -> Result<(), String>,
) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    let mut changes: Vec<(&str, Set, Value)> = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let found = CHANGEABLE.iter().find(|(name, ..)| is(pair[0], name));
        let Some((name, allowed, set)) = found else { return Err(unknown(known, pair[0])) };
        if changes.iter().any(|(other, ..)| other == name) {
            return Err(failed(name, "duplicate parameter"));
        }
        changes.push((name, *set, check(allowed, pair[1]).map_err(|problem| failed(name, &problem))?));
    }
    let memory = changes
        .iter()
        .find_map(|(.., value)| if let Value::Memory(bytes) = value { Some(*bytes) } else { None });
    if let Some(bytes) = memory {
        set_memory(bytes).map_err(|problem| failed(MEMORY, &problem))?;
    }
    changes.into_iter().for_each(|(_, set, value)| set(runtime, value));
    Ok(())
}

fn failed(name: &str, problem: &str) -> Failure {
    Failure::from(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {problem}"))
}

/// Returns why a name cannot be set.
fn unknown(known: &[&str], name: &[u8]) -> Failure {
    match known.iter().find(|known| is(name, known)) {
        Some(known) => failed(known, "can't set immutable config; the server takes it only when it starts"),
        None => Failure::from(format!(
            "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
            String::from_utf8_lossy(name)
        )),
    }
}

fn check(allowed: &Allowed, word: &[u8]) -> Result<Value, String> {
    match allowed {
        Allowed::Numbers(range) => {
            let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
            let number = number.ok_or("argument couldn't be parsed into an integer")?;
            let (least, most) = (range.start(), range.end());
            match range.contains(&number) {
                true => Ok(Value::Number(number)),
                false => Err(format!("argument must be between {least} and {most} inclusive")),
            }
        }
        Allowed::Memory => match memory_value(word) {
            Some(bytes) => Ok(Value::Memory(Some(bytes).filter(|bytes| *bytes > 0))),
            None => Err("argument must be a memory value".to_owned()),
        },
        Allowed::Syncs => match Syncs::ALL.iter().find(|(name, _)| is(word, name)) {
            Some((_, syncs)) => Ok(Value::Syncs(*syncs)),
            None => {
                let names = Syncs::ALL.map(|(name, _)| name).join(", ");
                Err(format!("argument(s) must be one of the following: {names}"))
            }
        },
    }
}

/// Parses a number of bytes with Redis's units: `k`, `m` and `g` are powers of 1,000, `kb`, `mb` and `gb` of 1,024.
fn memory_value(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?.to_ascii_lowercase();
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit_bytes = match unit {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Limits;
    use siltstone::Durability;

    fn change(runtime: &Runtime, line: &str) -> Result<(), String> {
        let pairs: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let set_memory = |bytes| match bytes {
            Some(0..1000) => Err("1000 bytes or more".to_owned()),
            bytes => {
                runtime.set_memory(bytes);
                Ok(())
            }
        };
        set(runtime, &pairs, &["port"], set_memory).map_err(|failure| failure.message().to_owned())
    }

    #[test]
    fn all_of_several_settings_are_changed_or_none() {
        let runtime = Runtime::new(&Limits::default(), Durability::Written, Some(5000));
        change(&runtime, "timeout 5 APPENDFSYNC everysec slowlog-max-len 7").unwrap();
        assert_eq!(runtime.idle_max(), Some(Duration::from_secs(5)));
        assert_eq!((runtime.syncs(), runtime.slow_entries_max()), (Syncs::EverySecond, 7));
        for (line, expected) in [
            ("timeout 9 nosuch 1", "Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
            ("timeout 9 port 1", "(possibly related to argument 'port') - can't set immutable config"),
            ("timeout 9 timeout 8", "duplicate parameter"),
            ("timeout 9 appendfsync sometimes", "one of the following: everysec, always, no"),
            ("timeout 9 maxclients 0", "must be between 1 and 4294967295 inclusive"),
            ("timeout 9 maxclients x", "couldn't be parsed into an integer"),
            ("timeout 9 maxclients", "syntax error"),
            ("timeout 9 maxmemory 999", "argument 'maxmemory') - 1000 bytes or more"),
            ("timeout 9 maxmemory 1tb", "must be a memory value"),
            ("timeout 9 maxmemory 9999999999999gb", "must be a memory value"),
        ] {
            let refused = change(&runtime, line).unwrap_err();
            assert!(refused.contains(expected), "{line}: {refused}");
            assert_eq!(
                (runtime.idle_max(), runtime.memory()),
                (Some(Duration::from_secs(5)), Some(5000)),
                "{line}"
            );
        }
        for (word, bytes) in
            [("2kb", 2048), ("2K", 2000), ("3MB", 3 << 20), ("1g", 1_000_000_000), ("7000B", 7000)]
        {
            change(&runtime, &format!("maxmemory {word}")).unwrap();
            assert_eq!(runtime.memory(), Some(bytes), "{word}");
        }
        change(&runtime, "timeout 0 maxmemory 0").unwrap();
        assert_eq!(runtime.memory(), None);
        assert_eq!(runtime.idle_max(), None);
    }
}

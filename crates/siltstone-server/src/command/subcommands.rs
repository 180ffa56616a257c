//! The subcommands of Redis's commands.

/// The subcommands of a command, with their numbers of words; if negative, the least number.
type Subcommands = &'static [(&'static str, i64)];

/// The commands that have subcommands.
const SUBCOMMANDS: &[(&str, Subcommands)] = &[
    (
        "client",
        &[
            ("getname", 2),
            ("id", 2),
            ("info", 2),
            ("no-evict", 3),
            ("no-touch", 3),
            ("setinfo", 4),
            ("setname", 3),
        ],
    ),
    ("command", &[("count", 2), ("docs", -2), ("getkeys", -4), ("info", -2), ("list", -2)]),
    ("config", &[("get", -3), ("resetstat", 2), ("set", -4)]),
    ("function", &[("flush", -2)]),
    ("object", &[("encoding", 3), ("freq", 3), ("idletime", 3), ("refcount", 3)]),
    ("script", &[("debug", 3), ("exists", -3), ("flush", -2), ("help", 2), ("kill", 2), ("load", 3)]),
    ("siltstone", &[("reload", 2)]),
];

/// Returns the subcommands of a command, if it has some.
pub fn of(command: &str) -> Option<Subcommands> {
    SUBCOMMANDS.iter().find(|(name, _)| *name == command).map(|(_, all)| *all)
}

//! The subcommands of Redis's commands.

/// The subcommands of a command, with their numbers of words; if negative, the least number.
type Subcommands = &'static [(&'static str, i64)];

/// The commands that have subcommands.
const SUBCOMMANDS: &[(&str, Subcommands)] = &[
    (
        "acl",
        &[
            ("cat", -2),
            ("deluser", -3),
            ("dryrun", -4),
            ("getuser", 3),
            ("list", 2),
            ("load", 2),
            ("log", -2),
            ("save", 2),
            ("setuser", -3),
            ("users", 2),
            ("whoami", 2),
        ],
    ),
    (
        "client",
        &[
            ("getname", 2),
            ("getredir", 2),
            ("help", 2),
            ("id", 2),
            ("info", 2),
            ("kill", -3),
            ("list", -2),
            ("no-evict", 3),
            ("no-touch", 3),
            ("pause", -3),
            ("reply", 3),
            ("setinfo", 4),
            ("setname", 3),
            ("trackinginfo", 2),
            ("unblock", -3),
            ("unpause", 2),
        ],
    ),
    ("cluster", &[("info", 2), ("keyslot", 3), ("myid", 2), ("nodes", 2), ("shards", 2), ("slots", 2)]),
    ("command", &[("count", 2), ("docs", -2), ("getkeys", -4), ("info", -2), ("list", -2)]),
    ("config", &[("get", -3), ("resetstat", 2), ("rewrite", 2), ("set", -4)]),
    ("function", &[("flush", -2)]),
    (
        "latency",
        &[("doctor", 2), ("help", 2), ("histogram", -2), ("history", 3), ("latest", 2), ("reset", -2)],
    ),
    ("memory", &[("help", 2), ("usage", -3)]),
    ("object", &[("encoding", 3), ("freq", 3), ("idletime", 3), ("refcount", 3)]),
    (
        "pubsub",
        &[
            ("channels", -2),
            ("help", 2),
            ("numpat", 2),
            ("numsub", -2),
            ("shardchannels", -2),
            ("shardnumsub", -2),
        ],
    ),
    ("script", &[("debug", 3), ("exists", -3), ("flush", -2), ("help", 2), ("kill", 2), ("load", 3)]),
    ("siltstone", &[("changes", -2), ("reload", 2), ("retain", 2)]),
    ("slowlog", &[("get", -2), ("help", 2), ("len", 2), ("reset", 2)]),
];

/// Returns the subcommands of a command, if it has some.
pub fn of(command: &str) -> Option<Subcommands> {
    SUBCOMMANDS.iter().find(|(name, _)| *name == command).map(|(_, all)| *all)
}

//! The categories of a command, which follow from its flags and its group as in Redis 7.0. What does not follow is
//! listed by name.

/// The names of the categories, in Redis's order.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Commands that read or write all keys, or show the state of the server.
const DANGEROUS: [&str; 5] = ["flushall", "flushdb", "info", "keys", "restore"];

/// Commands of the group `server` that are about all keys.
const OF_KEYSPACE: [&str; 3] = ["dbsize", "flushall", "flushdb"];

/// Commands of other groups that are about the connection.
const OF_CONNECTION: [&str; 5] = ["command", "readonly", "readwrite", "wait", "waitaof"];

/// Subcommands of CLIENT about other connections.
const OF_OTHER_CLIENTS: [&str; 6] = ["kill", "list", "no-evict", "pause", "unblock", "unpause"];

/// Subcommands of ACL that every user may know the result of.
const OPEN_ABOUT_USERS: [&str; 2] = ["cat", "whoami"];

/// Returns whether a command or a subcommand is of a category, by the number of it in [`CATEGORIES`].
pub fn is_of(category: usize, name: &str, subcommand: &str, flags: &[&str], group: &str) -> bool {
    // The text of HELP needs no rights of its command.
    let is_help = subcommand == "help";
    let is_admin = match name {
        _ if is_help => false,
        "acl" => !OPEN_ABOUT_USERS.contains(&subcommand),
        "client" => OF_OTHER_CLIENTS.contains(&subcommand),
        _ => flags.contains(&"admin"),
    };
    // Subcommands are slow, whatever the flags of their command are.
    let is_fast = flags.contains(&"fast") && subcommand.is_empty();
    match CATEGORIES[category] {
        "admin" => is_admin,
        "dangerous" => is_admin || DANGEROUS.contains(&name),
        "fast" => is_fast,
        "slow" => !is_fast,
        "read" => flags.contains(&"readonly") && group != "scripting" && !is_help,
        "pubsub" => group == "pubsub" && !is_help,
        "write" => flags.contains(&"write"),
        "blocking" => flags.contains(&"blocking"),
        "keyspace" => group == "generic" && !OF_CONNECTION.contains(&name) || OF_KEYSPACE.contains(&name),
        "connection" => group == "connection" || OF_CONNECTION.contains(&name),
        "transaction" => group == "transactions",
        // Those of values have the names of their groups, and messages and scripts too.
        of_group => group == of_group,
    }
}

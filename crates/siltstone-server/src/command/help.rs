//! HELP, as the commands with subcommands have it.

use crate::protocol::Reply;

/// Replies with the subcommands of a command, in the form of Redis.
pub fn help(reply: &mut Reply<'_>, command: &str, lines: &[&str]) {
    reply.array(lines.len() + 3);
    reply.status(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| reply.status(line));
    reply.status("HELP");
    reply.status("    Print this help.");
}

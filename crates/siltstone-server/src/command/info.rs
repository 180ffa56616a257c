//! INFO and CONFIG: what monitors and clients ask of a server.

use super::arguments::is;
use super::call::{Context, SessionCall};
use super::pattern;
use super::session::REDIS_VERSION;
use crate::failure::{Failure, Outcome};
use crate::listen::Protocol;
use crate::protocol::Reply;
use crate::store::DATABASES;
use siltstone::Durability;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Appends the lines of a section.
type Section = fn(&Context, &mut Lines);

/// The sections, in their order.
const SECTIONS: [(&str, Section); 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

/// The lines of a section.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

pub fn info(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let asked = &call.words[1..];
    let is_all = |word: &&[u8]| ["all", "default", "everything"].iter().any(|all| is(word, all));
    let is_wanted = |name: &str| asked.is_empty() || asked.iter().any(|word| is_all(word) || is(word, name));
    let mut text = String::new();
    for (name, lines) in SECTIONS.iter().filter(|(name, _)| is_wanted(name)) {
        let mut section = Lines::default();
        lines(call.context, &mut section);
        let separator = if text.is_empty() { "" } else { "\r\n" };
        let _ = write!(text, "{separator}# {name}\r\n{}", section.0);
    }
    reply.text(&text);
    Ok(())
}

fn server(context: &Context, lines: &mut Lines) {
    let uptime_s = context.started.elapsed().as_secs();
    lines.add("redis_version", REDIS_VERSION);
    lines.add("siltstone_version", env!("CARGO_PKG_VERSION"));
    lines.add("redis_mode", "standalone");
    lines.add("os", std::env::consts::OS);
    lines.add("arch_bits", usize::BITS);
    lines.add("process_id", std::process::id());
    lines.add("run_id", format_args!("{:040x}", context.run));
    lines.add("tcp_port", context.port(Protocol::Redis, false));
    lines.add("uptime_in_seconds", uptime_s);
    lines.add("uptime_in_days", uptime_s / 86_400);
    lines.add("io_threads_active", context.workers);
}

fn clients(context: &Context, lines: &mut Lines) {
    lines.add("connected_clients", context.counters.open_connections.load(Relaxed));
    lines.add("maxclients", context.limits.connections_max);
    lines.add("blocked_clients", 0);
}

fn memory(context: &Context, lines: &mut Lines) {
    let stores = (0..DATABASES).filter_map(|number| context.places.get(number));
    let bytes: u64 = stores.map(|store| store.about().memory_bytes).sum();
    lines.add("used_memory", bytes);
    lines.add("used_memory_human", format_args!("{:.2}M", bytes as f64 / f64::from(1 << 20)));
    lines.add("mem_allocator", "system");
}

fn persistence(_: &Context, lines: &mut Lines) {
    // Databases are open before the server listens, and durable without a save of all of their records.
    for name in
        ["loading", "async_loading", "rdb_bgsave_in_progress", "aof_enabled", "aof_rewrite_in_progress"]
    {
        lines.add(name, 0);
    }
    lines.add("rdb_last_bgsave_status", "ok");
    lines.add("aof_last_write_status", "ok");
}

fn stats(context: &Context, lines: &mut Lines) {
    let counters = &context.counters;
    for (name, counter) in [
        ("total_connections_received", &counters.connections),
        ("total_commands_processed", &counters.commands),
        ("total_net_input_bytes", &counters.input_bytes),
        ("total_net_output_bytes", &counters.output_bytes),
        ("rejected_connections", &counters.rejected_connections),
        ("keyspace_hits", &counters.hits),
        ("keyspace_misses", &counters.misses),
        ("total_error_replies", &counters.errors),
        ("idle_connections_closed", &counters.idle_connections),
        ("connections_held_back", &counters.held_back_connections),
        ("protocol_errors", &counters.protocol_errors),
        ("tls_handshakes_failed", &counters.failed_handshakes),
        ("tls_handshakes_late", &counters.late_handshakes),
        ("acl_access_denied_auth", &counters.denied_authentications),
        ("acl_access_denied_cmd", &counters.denied_commands),
        ("acl_access_denied_key", &counters.denied_keys),
        ("acl_access_denied_channel", &counters.denied_channels),
    ] {
        lines.add(name, counter.load(Relaxed));
    }
}

fn replication(_: &Context, lines: &mut Lines) {
    lines.add("role", "master");
    lines.add("connected_slaves", 0);
}

fn cluster(_: &Context, lines: &mut Lines) {
    lines.add("cluster_enabled", 0);
}

fn keyspace(context: &Context, lines: &mut Lines) {
    for number in 0..DATABASES {
        let Some(about) = context.places.get(number).map(|store| store.about()) else { continue };
        if about.keys > 0 {
            lines.add(&format!("db{number}"), format_args!("keys={},expires=0,avg_ttl=0", about.keys));
        }
    }
}

/// Returns the settings that clients and tools ask for, in Redis's names.
fn settings(context: &Context) -> Vec<(&'static str, String)> {
    let limits = &context.limits;
    vec![
        ("appendfsync", if context.durability == Durability::Synced { "always" } else { "no" }.to_owned()),
        ("appendonly", "no".to_owned()),
        ("databases", DATABASES.to_string()),
        ("maxclients", limits.connections_max.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", context.port(Protocol::Redis, false).to_string()),
        ("proto-max-bulk-len", limits.word_bytes_max.to_string()),
        ("save", String::new()),
        ("timeout", limits.idle_max.map_or(0, |idle| idle.as_secs()).to_string()),
        ("tls-port", context.port(Protocol::Redis, true).to_string()),
    ]
}

pub fn config(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    match call.words {
        [_, subcommand, wanted @ ..] if is(subcommand, "GET") && !wanted.is_empty() => {
            let wanted: Vec<Vec<u8>> = wanted.iter().map(|word| word.to_ascii_lowercase()).collect();
            let mut found = settings(call.context);
            found.retain(|(name, _)| wanted.iter().any(|wanted| pattern::matches(wanted, name.as_bytes())));
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
            Ok(())
        }
        [_, subcommand, name, ..] if is(subcommand, "SET") => {
            let name = String::from_utf8_lossy(name);
            Err(Failure::from(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'; this server takes its settings when it starts"
            )))
        }
        [_, subcommand] if is(subcommand, "RESETSTAT") => {
            call.context.counters.reset();
            reply.ok();
            Ok(())
        }
        _ => Err(Failure::SYNTAX),
    }
}

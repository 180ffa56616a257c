//! INFO and CONFIG: what monitors and clients ask of a server.

use super::arguments::is;
use super::call::{Context, SessionCall};
use super::channels::Parcel;
use super::session::REDIS_VERSION;
use super::{config_set, pattern};
use crate::failure::{Failure, Outcome};
use crate::listen::Protocol;
use crate::protocol::Reply;
use crate::store::DATABASES;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Appends the lines of a section.
type Section = fn(&Context, &mut Lines);

/// The sections, in their order.
const SECTIONS: [(&str, Section); 10] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Commandstats", command_stats),
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
    let is_all = |word: &&[u8]| ["all", "everything"].iter().any(|all| is(word, all));
    let is_default = |name: &str| name != "Commandstats";
    let is_wanted = |name: &str| match asked.is_empty() {
        true => is_default(name),
        false => asked
            .iter()
            .any(|word| is(word, name) || is_all(word) || (is(word, "default") && is_default(name))),
    };
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
    lines.add("redis_mode", context.mode());
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
    lines.add("maxclients", context.runtime.connections_max());
    lines.add("blocked_clients", 0);
    let subscribers =
        context.clients.all().iter().filter(|entry| entry.activity().subscriptions != [0; 3]).count();
    lines.add("pubsub_clients", subscribers);
}

fn memory(context: &Context, lines: &mut Lines) {
    let of_stores: u64 = context.places.opened().iter().map(|store| store.about().memory_bytes).sum();
    let of_clients = context.counters.buffer_bytes.load(Relaxed);
    let (bytes, limit) = (of_stores + of_clients, context.runtime.memory().unwrap_or(0));
    let as_text = |bytes: u64| format!("{:.2}M", bytes as f64 / f64::from(1 << 20));
    lines.add("used_memory", bytes);
    lines.add("used_memory_human", as_text(bytes));
    lines.add("used_memory_dataset", of_stores);
    lines.add("mem_clients_normal", of_clients);
    lines.add("maxmemory", limit);
    lines.add("maxmemory_human", as_text(limit));
    lines.add("maxmemory_policy", "noeviction");
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
        ("evicted_clients", &counters.evicted_connections),
        ("keyspace_hits", &counters.hits),
        ("keyspace_misses", &counters.misses),
        ("total_error_replies", &counters.errors),
        ("client_output_buffer_limit_disconnections", &counters.slow_receivers),
        ("total_pushed_messages", &counters.pushes),
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
    let [channels, patterns, shards] = context.channels.counts();
    lines.add("pubsub_channels", channels);
    lines.add("pubsub_patterns", patterns);
    lines.add("pubsubshard_channels", shards);
}

fn replication(context: &Context, lines: &mut Lines) {
    if let Some(follow) = &context.follow {
        lines.add("role", "slave");
        lines.add("master_host", &follow.source.0);
        lines.add("master_port", follow.source.1);
        lines.add("master_link_status", if follow.is_connected() { "up" } else { "down" });
        lines.add("master_sync_in_progress", u8::from(follow.lag_ms().is_none()));
        lines.add("slave_read_only", 1);
        lines.add("follow_copied_keys", follow.keys());
        lines.add("follow_lag_ms", follow.lag_ms().map_or(-1, |lag_ms| lag_ms as i64));
    } else {
        lines.add("role", "master");
    }
    lines.add("connected_slaves", 0);
}

/// The calls of each command, and the times of the executions that they were part of.
fn command_stats(context: &Context, lines: &mut Lines) {
    for command in context.commands {
        let times = context.measures.times_ns(command.number);
        if times.count > 0 {
            let (calls, time_us) = (times.count, times.sum / 1000);
            let each_us = times.sum as f64 / 1000.0 / calls as f64;
            let line = format_args!("calls={calls},usec={time_us},usec_per_call={each_us:.2}");
            lines.add(&format!("cmdstat_{}", command.name), line);
        }
    }
}

/// The time that processors have spent on the process, where the system says it.
fn cpu(_: &Context, lines: &mut Lines) {
    let found = std::fs::read_to_string("/proc/self/stat");
    if let Some([user_s, system_s]) = found.ok().and_then(|text| times_s(&text)) {
        lines.add("used_cpu_sys", format_args!("{system_s:.2}"));
        lines.add("used_cpu_user", format_args!("{user_s:.2}"));
    }
}

/// The units of times in /proc per second, in the interface of Linux.
const TICKS_PER_S: f64 = 100.0;

/// Returns the seconds in the process and in the system, from the text of /proc/self/stat.
fn times_s(stat: &str) -> Option<[f64; 2]> {
    // After the name of the program, which may have spaces and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut time_s = || Some(fields.next()?.parse::<u64>().ok()? as f64 / TICKS_PER_S);
    Some([time_s()?, time_s()?])
}

fn cluster(context: &Context, lines: &mut Lines) {
    lines.add("cluster_enabled", u8::from(context.cluster.is_some()));
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
    let (limits, runtime) = (context.limits_now(), &context.runtime);
    vec![
        ("appendfsync", runtime.syncs().name().to_owned()),
        ("appendonly", "no".to_owned()),
        (
            "client-output-buffer-limit",
            format!("normal 0 0 0 slave 0 0 0 pubsub {} 0 0", limits.push_bytes_max),
        ),
        ("databases", DATABASES.to_string()),
        ("maxclients", runtime.connections_max().to_string()),
        ("maxmemory", runtime.memory().unwrap_or(0).to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", context.port(Protocol::Redis, false).to_string()),
        ("proto-max-bulk-len", limits.word_bytes_max.to_string()),
        ("save", String::new()),
        ("slowlog-log-slower-than", runtime.slow_us().to_string()),
        ("slowlog-max-len", runtime.slow_entries_max().to_string()),
        ("timeout", runtime.idle_max().map_or(0, |idle| idle.as_secs()).to_string()),
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
        [_, subcommand, pairs @ ..] if is(subcommand, "SET") => {
            let known: Vec<&str> = settings(call.context).into_iter().map(|(name, _)| name).collect();
            let context = call.context;
            config_set::set(&context.runtime, pairs, &known, |bytes| context.set_memory(bytes))?;
            call.client.outbox.extend((0..call.context.workers).map(|worker| (worker, Parcel::Wake)));
            reply.ok();
            Ok(())
        }
        [_, subcommand] if is(subcommand, "REWRITE") => Err(Failure::new(
            "ERR The server is running without a config file; state the setting where the server is started",
        )),
        [_, subcommand] if is(subcommand, "RESETSTAT") => {
            call.context.counters.reset();
            call.context.measures.reset();
            reply.ok();
            Ok(())
        }
        _ => Err(Failure::SYNTAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_process_follow_the_name_of_its_program() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 123 45 0 0 20 0 9 0 5000";
        assert_eq!(times_s(stat), Some([1.23, 0.45]));
        assert_eq!((times_s("7 (a) S 1"), times_s("")), (None, None));
    }
}

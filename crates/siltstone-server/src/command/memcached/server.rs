//! Commands about the server and the connection.

use super::{BAD_FORMAT, UNKNOWN, arguments, item};
use crate::command::keyspace::flush;
use crate::command::session::authenticate as check_password;
use crate::command::{Context, SessionCall, SlowCall};
use crate::failure::{Failure, Outcome};
use crate::listen::Protocol;
use crate::protocol::Reply;
use std::sync::atomic::Ordering::Relaxed;

/// The version of memcached whose commands the server has.
const MEMCACHED_VERSION: &str = "1.6.18";

pub fn version(_: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.raw(format!("VERSION {MEMCACHED_VERSION}\r\n"));
    Ok(())
}

pub fn verbosity(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let ([_, level] | [_, level, _]) = call.words else { return Err(UNKNOWN) };
    arguments::client_flags(level)?;
    reply.raw("OK\r\n");
    Ok(())
}

pub fn quit(call: &mut SessionCall<'_>, _: &mut Reply<'_>) -> Outcome {
    call.client.is_closing = true;
    Ok(())
}

pub fn no_operation(_: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.raw("MN\r\n");
    Ok(())
}

/// set key flags exptime bytes block: the block is the user and the password.
pub fn authenticate(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let [_, _, _, _, _, block] = call.words else { return Err(BAD_FORMAT) };
    let mut words = item::block(block)?.splitn(2, |byte| *byte == b' ');
    let (Some(user), Some(password)) = (words.next(), words.next()) else {
        return Err(Failure::new("CLIENT_ERROR bad authentication token format"));
    };
    check_password(call, user, password).map_err(|_| Failure::new("CLIENT_ERROR authentication failure"))?;
    reply.raw("STORED\r\n");
    Ok(())
}

/// flush_all [0]
pub fn flush_all(call: &SlowCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let delay = match call.words {
        [_] => Some(0),
        [_, delay] => arguments::seconds(delay),
        _ => return Err(UNKNOWN),
    };
    match delay {
        None => return Err(Failure::new("CLIENT_ERROR invalid exptime argument")),
        Some(1..) => {
            return Err(Failure::new(
                "CLIENT_ERROR flush_all takes effect at once; send it without a delay, when it is to happen",
            ));
        }
        Some(_) => flush(call.context, call.database)?,
    }
    reply.raw("OK\r\n");
    Ok(())
}

/// stats [settings | reset | items | slabs | sizes | conns]
pub fn stats(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let lines = match call.words {
        [_] => general(call.context, call.client.database),
        [_, b"settings", ..] => settings(call.context),
        // Values are not in slabs.
        [_, b"items" | b"slabs" | b"sizes" | b"conns", ..] => Vec::new(),
        [_, b"reset", ..] => {
            call.context.counters.reset();
            reply.raw("RESET\r\n");
            return Ok(());
        }
        _ => return Err(UNKNOWN),
    };
    for (name, value) in lines {
        reply.raw(format!("STAT {name} {value}\r\n"));
    }
    reply.raw("END\r\n");
    Ok(())
}

/// A line: a name with a value.
type Line = (&'static str, String);

fn general(context: &Context, database: usize) -> Vec<Line> {
    let counters = &context.counters;
    let about = context.places.get(database).map(|store| store.about()).unwrap_or_default();
    let (hits, misses) = (counters.hits.load(Relaxed), counters.misses.load(Relaxed));
    let mut lines = vec![
        ("version", MEMCACHED_VERSION.to_owned()),
        ("siltstone_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("pointer_size", usize::BITS.to_string()),
    ];
    for (name, number) in [
        ("pid", std::process::id().into()),
        ("uptime", context.started.elapsed().as_secs()),
        ("time", crate::store::now_ms() / 1000),
        ("max_connections", context.runtime.connections_max() as u64),
        ("curr_connections", counters.open_connections.load(Relaxed)),
        ("total_connections", counters.connections.load(Relaxed)),
        ("rejected_connections", counters.rejected_connections.load(Relaxed)),
        ("cmd_get", hits + misses),
        ("get_hits", hits),
        ("get_misses", misses),
        ("bytes_read", counters.input_bytes.load(Relaxed)),
        ("bytes_written", counters.output_bytes.load(Relaxed)),
        ("threads", context.workers as u64),
        ("bytes", about.memory_bytes),
        ("curr_items", about.keys),
    ] {
        lines.push((name, number.to_string()));
    }
    lines
}

fn settings(context: &Context) -> Vec<Line> {
    let switch = |is_on| if is_on { "yes" } else { "no" }.to_owned();
    vec![
        ("maxconns", context.runtime.connections_max().to_string()),
        ("tcpport", context.port(Protocol::Memcached, false).to_string()),
        ("num_threads", context.workers.to_string()),
        ("item_size_max", context.limits_now().word_bytes_max.to_string()),
        ("evictions", "off".to_owned()),
        ("cas_enabled", switch(true)),
        ("flush_enabled", switch(true)),
        ("auth_enabled_ascii", switch(!context.users.default_user().is_open())),
        ("binding_protocol", "ascii".to_owned()),
    ]
}

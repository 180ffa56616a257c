//! SLOWLOG, LATENCY, MONITOR.

use super::arguments::{integer, is};
use super::call::{Command, SessionCall};
use super::help::help;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;

/// The number of entries that SLOWLOG GET returns if none is stated.
const SLOW_ENTRIES: usize = 10;

pub fn slowlog(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let log = &call.context.slow_log;
    match call.words {
        [_, subcommand] if is(subcommand, "HELP") => help(
            reply,
            "SLOWLOG",
            &[
                "GET [<count>]",
                "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
                "    Entries are made of:",
                "    id, timestamp, time in microseconds, arguments array, client IP and port,",
                "    client name",
                "LEN",
                "    Return the length of the slowlog.",
                "RESET",
                "    Reset the slowlog.",
            ],
        ),
        [_, subcommand] if is(subcommand, "LEN") => reply.integer(log.len() as i64),
        [_, subcommand] if is(subcommand, "RESET") => {
            log.clear();
            reply.ok();
        }
        [_, subcommand, count @ ..] if is(subcommand, "GET") && count.len() < 2 => {
            let count = match count.first().map(|count| integer(count)) {
                None => SLOW_ENTRIES,
                Some(Ok(-1)) => usize::MAX,
                Some(count) => count.ok().and_then(|count| usize::try_from(count).ok()).ok_or(NOT_A_COUNT)?,
            };
            slow_entries(call, count, reply);
        }
        [_, subcommand, ..] => return Err(Failure::subcommand_words("SLOWLOG", subcommand)),
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

const NOT_A_COUNT: Failure = Failure::new("ERR count should be greater than or equal to -1");

fn slow_entries(call: &SessionCall<'_>, count: usize, reply: &mut Reply<'_>) {
    let newest = call.context.slow_log.newest(count);
    reply.array(newest.len());
    for entry in newest {
        reply.array(6);
        for number in [entry.id, entry.at_s, entry.time_us] {
            reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
        }
        reply.array(entry.words.len());
        entry.words.iter().for_each(|word| reply.bulk(word));
        reply.bulk(entry.peer.as_bytes());
        reply.bulk(&entry.name);
    }
}

/// Events are not recorded: the times of commands are. So there are no events to list.
pub fn latency(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    match call.words {
        [_, subcommand] if is(subcommand, "HELP") => help(
            reply,
            "LATENCY",
            &[
                "DOCTOR",
                "    Return where the times of commands are.",
                "HISTOGRAM [<command> ...]",
                "    Return the cumulative numbers of calls of commands up to each power of two of microseconds.",
                "HISTORY <event>",
                "    Return no samples: events are not recorded.",
                "LATEST",
                "    Return no samples: events are not recorded.",
                "RESET [<event> ...]",
                "    Return 0: events are not recorded. CONFIG RESETSTAT resets the times of commands.",
            ],
        ),
        [_, subcommand, names @ ..] if is(subcommand, "HISTOGRAM") => histogram(call, names, reply),
        [_, subcommand] if is(subcommand, "LATEST") => reply.array(0),
        [_, subcommand, _] if is(subcommand, "HISTORY") => reply.array(0),
        [_, subcommand, ..] if is(subcommand, "RESET") => reply.integer(0),
        [_, subcommand] if is(subcommand, "DOCTOR") => reply.text(
            "Events are not recorded. LATENCY HISTOGRAM has the times of commands, and SLOWLOG GET the executions that took long.",
        ),
        [_, subcommand, ..] => return Err(Failure::subcommand_words("LATENCY", subcommand)),
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

/// Returns a bound in microseconds, as Redis shows it: its histograms have seven bits of a number.
fn shown_us(bound_ns: u64) -> u64 {
    (bound_ns + bound_ns / 128 - 1) / 1000
}

fn histogram(call: &SessionCall<'_>, names: &[&[u8]], reply: &mut Reply<'_>) {
    let commands = call.context.commands;
    let named: Vec<&Command> = names.iter().filter_map(|name| Command::find(commands, name)).collect();
    let all = || commands.iter().collect();
    let wanted: Vec<&Command> = if names.is_empty() { all() } else { named };
    let times = wanted.iter().map(|command| (*command, call.context.measures.times_ns(command.number)));
    let times: Vec<_> = times.filter(|(_, times)| times.count > 0).collect();
    reply.map(times.len());
    for (command, times) in times {
        reply.bulk(command.name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(times.count as i64);
        reply.bulk(b"histogram_usec");
        let mut before = 0;
        let mut shown = times.cumulative;
        // Those above the last bound are counted there, as in Redis.
        if let Some((_, count)) = shown.last_mut() {
            *count = times.count;
        }
        shown.retain(|(_, count)| std::mem::replace(&mut before, *count) < *count);
        reply.map(shown.len());
        for (bound_ns, count) in shown {
            reply.integer(shown_us(bound_ns) as i64);
            reply.integer(count as i64);
        }
    }
}

pub fn monitor(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (entry, subscriptions) = (&call.client.entry, &mut call.client.subscriptions);
    call.context.channels.monitor(subscriptions, entry.worker, entry.place());
    reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_shown_as_in_redis() {
        let shown: Vec<u64> = (0..11).map(|power| shown_us(1024 << power)).collect();
        assert_eq!(shown, [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056]);
    }
}

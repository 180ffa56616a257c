//! CLUSTER, READONLY and READWRITE: what clients ask a node of a cluster.

use super::arguments::is;
use super::call::SessionCall;
use super::cluster::{Node, SLOTS, SlotMap, slot_of};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use std::fmt::Write;

pub fn cluster(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let disabled = Failure::new("ERR This instance has cluster support disabled");
    let map = call.context.cluster.as_ref().ok_or(disabled)?.map();
    match call.words {
        [_, subcommand, key] if is(subcommand, "KEYSLOT") => reply.integer(i64::from(slot_of(key))),
        [_, subcommand] if is(subcommand, "MYID") => reply.bulk(map.nodes[map.own].id.as_bytes()),
        [_, subcommand] if is(subcommand, "INFO") => reply.text(&info(&map)),
        [_, subcommand] if is(subcommand, "NODES") => reply.text(&nodes(&map)),
        [_, subcommand] if is(subcommand, "SLOTS") => slots(&map, reply),
        [_, subcommand] if is(subcommand, "SHARDS") => shards(&map, reply),
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

fn info(map: &SlotMap) -> String {
    let (assigned, all) = (map.assigned(), usize::from(SLOTS));
    let state = if assigned == all { "ok" } else { "fail" };
    let with_slots = map.nodes.iter().filter(|node| !node.slots.is_empty()).count();
    let mut text = String::new();
    for (name, value) in [
        ("cluster_slots_assigned", assigned),
        ("cluster_slots_ok", assigned),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", 0),
        ("cluster_known_nodes", map.nodes.len()),
        ("cluster_size", with_slots),
        ("cluster_current_epoch", 1),
        ("cluster_my_epoch", 1),
    ] {
        // Writing to a string does not fail.
        let _ = write!(text, "{name}:{value}\r\n");
    }
    format!("cluster_enabled:1\r\ncluster_state:{state}\r\n{text}")
}

fn nodes(map: &SlotMap) -> String {
    let mut text = String::new();
    for (number, node) in map.nodes.iter().enumerate() {
        let flags = if number == map.own { "myself,master" } else { "master" };
        // The second port is that of the messages between nodes, which there are not.
        let _ = write!(text, "{} {}@0 {flags} - 0 0 1 connected", node.id, node.address());
        for range in &node.slots {
            let (first, last) = (range.start(), range.end());
            let _ = if first == last { write!(text, " {first}") } else { write!(text, " {first}-{last}") };
        }
        text.push('\n');
    }
    text
}

fn slots(map: &SlotMap, reply: &mut Reply<'_>) {
    reply.array(map.nodes.iter().map(|node| node.slots.len()).sum());
    for node in &map.nodes {
        for range in &node.slots {
            reply.array(3);
            reply.integer(i64::from(*range.start()));
            reply.integer(i64::from(*range.end()));
            reply.array(4);
            reply.bulk(node.host.as_bytes());
            reply.integer(i64::from(node.port));
            reply.bulk(node.id.as_bytes());
            reply.array(0);
        }
    }
}

fn shards(map: &SlotMap, reply: &mut Reply<'_>) {
    reply.array(map.nodes.len());
    for node in &map.nodes {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * node.slots.len());
        for range in &node.slots {
            reply.integer(i64::from(*range.start()));
            reply.integer(i64::from(*range.end()));
        }
        reply.bulk(b"nodes");
        reply.array(1);
        shard_node(node, reply);
    }
}

fn shard_node(node: &Node, reply: &mut Reply<'_>) {
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(node.id.as_bytes());
    reply.bulk(b"port");
    reply.integer(i64::from(node.port));
    for (name, value) in [("ip", &node.host[..]), ("endpoint", &node.host), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.integer(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
}

/// READONLY lets the connection read keys of other nodes, as far as this one has them; READWRITE ends that.
pub fn read_others(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.context.cluster.is_none() {
        return Err(Failure::new("ERR This instance has cluster support disabled"));
    }
    call.client.reads_others = is(call.words[0], "READONLY");
    reply.ok();
    Ok(())
}

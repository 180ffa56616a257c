//! A node of a cluster: which keys it serves, and what it says of the others.

use crate::client::Answer;
use crate::served::{LOCAL, Served, serve_with, settings};
use siltstone::EngineKind;
use siltstone_server::{ClusterSettings, Listen, Server};
use std::fs;
use std::path::Path;

fn error(text: &str) -> Answer {
    Answer::Error(text.to_owned())
}

fn as_node(file: &Path) -> ClusterSettings {
    ClusterSettings { file: file.to_owned(), node: "here:1".to_owned() }
}

/// Starts the node `here:1` of the cluster in a file.
fn serve_node(file: &Path) -> Served {
    serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| (settings.cluster, settings.listeners) = (Some(as_node(file)), vec![Listen::redis(LOCAL)]),
    )
}

#[test]
fn a_transaction_with_a_key_that_has_moved_to_another_node_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster");
    fs::write(&file, "here:1 0-16383\n").unwrap();
    let served = serve_node(&file);
    let (mut client, mut other) = (served.client(), served.client());
    assert_eq!(client.line("MULTI"), Answer::ok());
    client.line("SET foo 1");
    fs::write(&file, "here:1 0-9999\nthere:2 10000-16383\n").unwrap();
    other.line("SILTSTONE RELOAD");
    assert_eq!(client.line("EXEC"), error("MOVED 12182 there:2"));
    assert_eq!(client.line("DBSIZE"), Answer::Integer(0));
    assert_eq!(client.line("SET bar 1"), Answer::ok());
}

#[test]
fn a_node_serves_its_slots_and_names_the_nodes_of_others_also_after_the_map_has_changed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster");
    // foo has slot 12,182, bar 5,061.
    fs::write(&file, "here:1 0-9999\nthere:2 10000-16382\n").unwrap();
    let served = serve_node(&file);
    let mut client = served.client();
    assert_eq!(client.line("SET bar 1"), Answer::ok());
    assert_eq!(client.line("SET {bar}foo 2"), Answer::ok());
    assert_eq!(client.line("MGET bar {bar}foo"), Answer::Array(vec![Answer::bulk("1"), Answer::bulk("2")]));
    assert_eq!(client.line("GET foo"), error("MOVED 12182 there:2"));
    assert_eq!(client.line("SET foo 1"), error("MOVED 12182 there:2"));
    let other_slot = error("CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(client.line("MSET bar 1 foo 1"), other_slot);
    assert_eq!(client.line("CLUSTER KEYSLOT foo"), Answer::Integer(12_182));
    // No node has the last slot.
    let keys = (0..200_000).map(|number| format!("key:{number}"));
    let mut slots = keys.map(|key| (client.line(&format!("CLUSTER KEYSLOT {key}")), key));
    let (_, key) = slots.find(|(slot, _)| *slot == Answer::Integer(16_383)).unwrap();
    assert_eq!(client.line(&format!("GET {key}")), error("CLUSTERDOWN Hash slot not served"));

    assert_eq!(client.line("READONLY"), Answer::ok());
    assert_eq!(client.line("GET foo"), Answer::Null);
    assert_eq!(client.line("SET foo 1"), error("MOVED 12182 there:2"));
    assert_eq!(client.line("READWRITE"), Answer::ok());
    assert_eq!(client.line("GET foo"), error("MOVED 12182 there:2"));

    assert_eq!(client.line("MULTI"), Answer::ok());
    assert_eq!(client.line("SET foo 1"), error("MOVED 12182 there:2"));
    assert!(client.line("EXEC").text().starts_with("EXECABORT"));
    assert_eq!(client.line("SELECT 1"), error("ERR SELECT is not allowed in cluster mode"));
    assert!(client.line("INFO cluster").text().contains("cluster_enabled:1"));
    assert!(
        client.line("CLUSTER INFO").text().contains("cluster_state:fail\r\ncluster_slots_assigned:16383")
    );
    let nodes = client.line("CLUSTER NODES").text();
    assert!(nodes.contains("here:1@0 myself,master - 0 0 1 connected 0-9999\n"), "{nodes}");
    let slots = client.line("CLUSTER SLOTS");
    let [Answer::Integer(10_000), Answer::Integer(16_382), node] = slots.items()[1].items() else {
        panic!("{slots:?}");
    };
    assert_eq!(node.items()[..2], [Answer::bulk("there"), Answer::Integer(2)]);
    let own = client.line("CLUSTER MYID").text();
    assert!(nodes.starts_with(&own) && own.len() == 40, "{own}");
    assert_eq!(client.line("CLUSTER SHARDS").items().len(), 2);

    fs::write(&file, "here:1 0-16383\nhere:1 5\n").unwrap();
    let refused = client.line("SILTSTONE RELOAD").text();
    assert!(refused.contains("line 2: here:1 has a line already"), "{refused}");
    assert_eq!(client.line("GET foo"), error("MOVED 12182 there:2"));
    fs::write(&file, "here:1 0-16383\nthere:2\n").unwrap();
    assert_eq!(client.line("SILTSTONE RELOAD"), Answer::Integer(0));
    assert_eq!(client.line("SET foo 1"), Answer::ok());
    assert!(client.line("CLUSTER INFO").text().contains("cluster_state:ok"));
}

#[test]
fn channels_of_a_slot_belong_to_its_node_and_end_when_it_moves() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster");
    fs::write(&file, "here:1 0-9999\nthere:2 10000-16383\n").unwrap();
    let served = serve_node(&file);
    let (mut client, mut other) = (served.client(), served.client());
    let moved = error("MOVED 12182 there:2");
    for line in ["SSUBSCRIBE foo", "SPUBLISH foo text", "SUNSUBSCRIBE foo"] {
        assert_eq!(client.line(line), moved, "{line}");
    }
    let other_slot = error("CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(client.line("SSUBSCRIBE bar foo"), other_slot);
    // Reads of what other nodes have are allowed, messages that do not arrive are not.
    assert_eq!(client.line("READONLY"), Answer::ok());
    assert_eq!(client.line("SPUBLISH foo text"), moved);
    assert_eq!(client.line("PUBLISH foo text"), Answer::Integer(0), "other channels have no slot");
    let spublish = |channel| format!("return redis.call('spublish', '{channel}', 'text')");
    let refused = client.ask(&["EVAL", &spublish("foo"), "0"]).text();
    assert!(refused.contains("Script attempted to access a non local key in a cluster node"), "{refused}");
    assert_eq!(client.ask(&["EVAL", &spublish("bar"), "0"]), Answer::Integer(0));
    other.line("HELLO 3");
    for line in ["SSUBSCRIBE bar", "SSUBSCRIBE {bar}2", "SUBSCRIBE bar"] {
        assert!(matches!(client.line(line), Answer::Array(_)), "{line}");
    }
    for line in ["SSUBSCRIBE bar", "SSUBSCRIBE last"] {
        assert!(matches!(other.line(line), Answer::Push(_)), "{line}");
    }
    // bar has slot 5,061, last 6,562.
    fs::write(&file, "here:1 6000-16383\nthere:2 0-5999\n").unwrap();
    served.server.reload().unwrap();
    let mut ended: Vec<Answer> = (0..2).map(|_| client.answer()).collect();
    ended.sort_by_key(|answer| answer.items()[1].text());
    let end = |channel: &str, left: &Answer| {
        vec![Answer::bulk("sunsubscribe"), Answer::bulk(channel), left.clone()]
    };
    assert_eq!(ended[0].items(), end("bar", &ended[0].items()[2]));
    assert_eq!(ended[1].items(), end("{bar}2", &ended[1].items()[2]));
    assert_eq!(other.answer(), Answer::Push(end("bar", &Answer::Integer(1))));
    assert_eq!(other.line("SPUBLISH bar text"), error("MOVED 5061 there:2"));
    assert_eq!(other.line("PUBLISH bar text"), Answer::Integer(1));
    assert_eq!(client.answer().items()[0], Answer::bulk("message"), "other subscriptions stay");
    assert_eq!(other.line("PUBSUB SHARDCHANNELS"), Answer::Array(vec![Answer::bulk("last")]));
    fs::write(&file, "here:1 0-5999\nthere:2 6000-16383\n").unwrap();
    // By the connection that reloads, which gets the reply first.
    assert_eq!(other.line("SILTSTONE RELOAD"), Answer::Integer(0));
    assert_eq!(other.answer(), Answer::Push(end("last", &Answer::Integer(0))));
    assert_eq!(other.line("PUBSUB SHARDCHANNELS"), Answer::Array(Vec::new()));
}

#[test]
fn a_server_alone_has_no_cluster() {
    let served = serve_with(|_| {}, EngineKind::Silt, |_| {});
    let mut client = served.client();
    assert_eq!(client.line("CLUSTER INFO"), error("ERR This instance has cluster support disabled"));
    assert_eq!(client.line("CLUSTER MEET a"), error("ERR unknown subcommand 'MEET'. Try CLUSTER HELP."));
}

#[test]
fn a_script_that_may_write_is_executed_by_the_node_of_its_keys_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster");
    fs::write(&file, "here:1 0-9999\nthere:2 10000-16383\n").unwrap();
    let served = serve_node(&file);
    let (mut client, mut other) = (served.client(), served.client());
    let writing = "return redis.call('set', KEYS[1], 1)";
    let digest = client.ask(&["SCRIPT", "LOAD", writing]).text();
    assert_eq!(client.line("READONLY"), Answer::ok());
    for (command, script) in [("EVAL", writing), ("EVALSHA", &digest[..])] {
        assert_eq!(client.ask(&[command, script, "1", "foo"]), error("MOVED 12182 there:2"), "{command}");
    }
    assert_eq!(client.ask(&["EVAL_RO", "return redis.call('get', KEYS[1])", "1", "foo"]), Answer::Null);
    // One that was queued before its slot has moved.
    assert_eq!(client.line("MULTI"), Answer::ok());
    assert_eq!(client.ask(&["EVAL", writing, "1", "bar"]), Answer::Status("QUEUED".to_owned()));
    fs::write(&file, "there:2 0-16383\nhere:1\n").unwrap();
    other.line("SILTSTONE RELOAD");
    assert_eq!(client.line("EXEC"), error("MOVED 5061 there:2"));
    assert_eq!(client.line("DBSIZE"), Answer::Integer(0));
}

#[test]
fn requests_in_one_packet_read_keys_of_other_nodes_as_those_before_them_say() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster");
    fs::write(&file, "here:1 0-9999\nthere:2 10000-16383\n").unwrap();
    let served = serve_node(&file);
    let moved = error("MOVED 12182 there:2");
    for (end, of_end) in [("READWRITE", Answer::ok()), ("RESET", Answer::Status("RESET".to_owned()))] {
        let mut client = served.client();
        client.send_bytes(format!("GET foo\r\nREADONLY\r\nGET foo\r\n{end}\r\nGET foo\r\n").as_bytes());
        for expected in [moved.clone(), Answer::ok(), Answer::Null, of_end, moved.clone()] {
            assert_eq!(client.answer(), expected, "{end}");
        }
    }
}

#[test]
fn a_node_of_a_cluster_does_not_serve_memcached() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cluster");
    fs::write(&file, "here:1 0-16383\n").unwrap();
    let mut settings = settings(directory.path());
    settings.cluster = Some(as_node(&file));
    settings.listeners = vec![Listen::redis(LOCAL), Listen::memcached(LOCAL)];
    let refused = Server::start(settings).err().unwrap().to_string();
    assert!(refused.contains("memcached: ") && refused.contains("slots of a cluster"), "{refused}");
}

//! Scripts: their limits, and what they see of others.

use crate::client::{Answer, Client};
use crate::served::{Served, serve, serve_dictionary, serve_with};
use siltstone::EngineKind;
use std::time::Duration;

const ENDLESS: &str = "while true do end";

fn eval(client: &mut Client, script: &str, keys: &[&str], arguments: &[&str]) -> Answer {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys);
    words.extend(arguments);
    client.ask(&words)
}

fn serve_mica() -> Served {
    serve_with(|_| {}, EngineKind::Mica, |_| {})
}

/// Asks for SCRIPT KILL until a script was killed.
fn kill(client: &mut Client) {
    while client.line("SCRIPT KILL") != Answer::ok() {
        std::thread::yield_now();
    }
}

fn assert_error(answer: &Answer, expected: &str) {
    assert!(
        matches!(answer, Answer::Error(text) if text.contains(expected)),
        "{answer:?} has no {expected:?}"
    );
}

#[test]
fn a_script_that_is_killed_has_changed_nothing_and_keeps_no_one_waiting() {
    for served in [serve(), serve_mica()] {
        let (mut client, mut other) = (served.client(), served.client());
        assert_eq!(client.line("SET key before"), Answer::ok());
        let endless = [
            "redis.call('set', KEYS[1], 'after') while true do end",
            "redis.call('set', KEYS[1], 'after') while true do pcall(function() while true do end end) end",
            "redis.call('del', KEYS[1]) while true do xpcall(function() while true do end end, tostring) end",
            "while true do xpcall(error, function() while true do end end) end",
            "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
            "while true do coroutine.wrap(function() while true do end end)() end",
            "while true do pcall(redis.call, 'set', KEYS[1], 'after') end",
        ];
        for script in endless {
            client.send(&["EVAL", script, "1", "key"]);
            for number in 0..100 {
                let value = number.to_string();
                assert_eq!(other.ask(&["SET", "other", &value]), Answer::ok());
                assert_eq!(other.line("GET other"), Answer::bulk(&value));
            }
            kill(&mut other);
            assert_error(&client.answer(), "Script killed by user with SCRIPT KILL");
            assert_eq!(
                other.line("SCRIPT KILL"),
                Answer::Error("NOTBUSY No scripts in execution right now.".to_owned())
            );
            assert_eq!(client.line("GET key"), Answer::bulk("before"), "{script}");
        }
    }
}

#[test]
fn a_script_is_stopped_after_its_time() {
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| settings.limits.script_time_max = Duration::from_millis(20),
    );
    let mut client = served.client();
    let script = format!("redis.call('set', KEYS[1], 1) {ENDLESS}");
    assert_error(&eval(&mut client, &script, &["key"], &[]), "run for more than 20 ms");
    assert_eq!(client.line("GET key"), Answer::Null);
    assert_eq!(eval(&mut client, "return 1", &[], &[]), Answer::Integer(1));
}

#[test]
fn a_script_has_no_more_memory_than_its_limit() {
    let served =
        serve_with(|_| {}, EngineKind::Silt, |settings| settings.limits.script_memory_bytes_max = 4 << 20);
    let mut client = served.client();
    for body in [
        "local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end",
        "return string.rep('x', 100000000)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 100000000 do t[i] = i end",
    ] {
        let script = format!("redis.call('set', KEYS[1], 1) {body}");
        assert_error(&eval(&mut client, &script, &["key"], &[]), "not enough memory");
        assert_eq!(client.line("GET key"), Answer::Null, "{body}");
    }
    let caught = "local ok, e = pcall(string.rep, 'x', 100000000) return {tostring(ok), e}";
    let expected = Answer::Array(vec![Answer::bulk("false"), Answer::bulk("not enough memory")]);
    assert_eq!(eval(&mut client, caught, &[], &[]), expected);
    assert_eq!(eval(&mut client, "return #string.rep('x', 1000000)", &[], &[]), Answer::Integer(1_000_000));
}

#[test]
fn a_server_stops_while_a_script_runs() {
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| settings.limits.script_time_max = Duration::from_secs(100_000),
    );
    let (mut client, mut other) = (served.client(), served.client());
    client.send(&["EVAL", ENDLESS, "0"]);
    client.send(&["EVAL", ENDLESS, "0"]);
    // One runs when it can be killed, and the other one after it.
    kill(&mut other);
    served.server.stop().unwrap();
    assert!(client.is_ended() || matches!(client.answer(), Answer::Error(_)));
}

#[test]
fn a_script_uses_the_keys_that_its_call_names() {
    let served = serve();
    let mut client = served.client();
    for (script, keys) in [
        ("return redis.call('get', 'b')", &["a"][..]),
        ("return redis.call('get', 'a')", &[]),
        ("return redis.call('mget', 'a', 'b')", &["a"]),
        ("redis.call('set', 'a', 1) return redis.call('set', 'b', 1)", &["a"]),
    ] {
        assert_error(
            &eval(&mut client, script, keys, &["b"]),
            "which is not in KEYS; pass all its keys as KEYS",
        );
    }
    // What it has written before stays, as after other errors.
    assert_eq!(client.line("MGET a b"), Answer::Array(vec![Answer::bulk("1"), Answer::Null]));
    let caught = "return redis.pcall('get', 'b').err";
    let text = eval(&mut client, caught, &["a"], &[]).text();
    assert_eq!(text, "ERR the script uses the key 'b', which is not in KEYS; pass all its keys as KEYS");
    assert_error(&eval(&mut client, "return redis.call('keys', '*')", &[], &[]), "may read the whole store");
    assert_error(
        &eval(&mut client, "return redis.call('select', 1)", &[], &[]),
        "database of its connection",
    );
    assert_eq!(client.line("SELECT 1"), Answer::ok());
    assert_eq!(eval(&mut client, "return redis.call('select', 1)", &[], &[]), Answer::ok());
    assert_eq!(eval(&mut client, "return redis.call('get', KEYS[1])", &["a"], &[]), Answer::Null);
    assert_eq!(
        eval(&mut client, "return redis.call('incr', KEYS[2])", &["a", "a", "a"], &[]),
        Answer::Integer(1)
    );
}

#[test]
fn scripts_of_several_connections_are_atomic_over_every_engine() {
    let add = "local n = tonumber(redis.call('get', KEYS[1]) or 0)\
               redis.call('set', KEYS[1], n + 1)\
               redis.call('incr', KEYS[2])\
               return n";
    for engine in [
        EngineKind::Silt,
        EngineKind::Mica,
        EngineKind::FlashKey,
        EngineKind::FlashStore,
        EngineKind::BloomStore,
    ] {
        let served = serve_with(|_| {}, engine, |_| {});
        let mut clients: Vec<Client> = (0..8).map(|_| served.client()).collect();
        for _ in 0..10 {
            for client in &mut clients {
                for _ in 0..5 {
                    client.send(&["EVAL", add, "2", "one", "other"]);
                    client.send(&["INCR", "other"]);
                }
            }
            for client in &mut clients {
                for _ in 0..10 {
                    assert!(matches!(client.answer(), Answer::Integer(_)));
                }
            }
        }
        let found = clients[0].line("MGET one other");
        assert_eq!(found, Answer::Array(vec![Answer::bulk("400"), Answer::bulk("800")]), "{engine:?}");
    }
}

/// A script that adds one, and takes longer than its keys are locked.
const LONG: &str = "local n = tonumber(redis.call('get', KEYS[1]) or 0) \
                    for i = 1, 500000 do end \
                    redis.call('set', KEYS[1], n + 1) \
                    return n + 1";

#[test]
fn a_long_script_loses_no_change_that_others_make_of_its_keys() {
    for served in [serve(), serve_mica()] {
        let (mut client, mut other) = (served.client(), served.client());
        for _ in 0..5 {
            client.send(&["EVAL", LONG, "1", "key"]);
        }
        for _ in 0..200 {
            assert!(matches!(other.line("INCR key"), Answer::Integer(_)));
        }
        for _ in 0..5 {
            assert!(matches!(client.answer(), Answer::Integer(_)));
        }
        assert_eq!(client.line("GET key"), Answer::bulk("205"));
    }
}

#[test]
fn a_long_script_is_a_part_of_a_transaction() {
    for served in [serve(), serve_mica()] {
        let (mut client, mut other) = (served.client(), served.client());
        for (changed, expected) in [(false, Some(2)), (true, None)] {
            assert_eq!(client.line("SET key 0"), Answer::ok());
            assert_eq!(client.line("WATCH key"), Answer::ok());
            if changed {
                assert_eq!(other.line("SET key 0"), Answer::ok());
            }
            assert_eq!(client.line("MULTI"), Answer::ok());
            client.ask(&["INCR", "key"]);
            client.ask(&["EVAL", LONG, "1", "key"]);
            let results =
                expected.map(|last| Answer::Array(vec![Answer::Integer(last - 1), Answer::Integer(last)]));
            assert_eq!(client.line("EXEC"), results.unwrap_or(Answer::Null));
        }
        assert_eq!(client.line("GET key"), Answer::bulk("0"));
    }
}

#[test]
fn a_pipeline_with_scripts_is_executed_in_its_order() {
    let served = serve();
    let mut client = served.client();
    for number in 0..50 {
        let number = number.to_string();
        client.send(&["SET", "key", &number]);
        client.send(&["EVAL", "return redis.call('append', KEYS[1], ARGV[1])", "1", "key", "x"]);
        client.send(&["GET", "key"]);
        client.send(&["EVAL", "return redis.call('get', KEYS[1]) .. '!'", "1", "key"]);
    }
    for number in 0..50 {
        assert_eq!(client.answer(), Answer::ok());
        assert_eq!(client.answer(), Answer::Integer(number.to_string().len() as i64 + 1));
        assert_eq!(client.answer(), Answer::bulk(format!("{number}x")));
        assert_eq!(client.answer(), Answer::bulk(format!("{number}x!")));
    }
}

#[test]
fn scripts_that_write_nothing_work_on_a_dictionary() {
    let served = serve_dictionary(&[("France", "Paris"), ("Peru", "Lima")]);
    let mut client = served.client();
    assert_eq!(client.line("SELECT 3"), Answer::ok());
    for command in ["EVAL", "EVAL_RO"] {
        let script = "return redis.call('get', KEYS[1]) .. redis.call('get', KEYS[2])";
        let answer = client.ask(&[command, script, "2", "France", "Peru"]);
        assert_eq!(answer, Answer::bulk("ParisLima"));
    }
    assert_error(&eval(&mut client, "return redis.call('set', KEYS[1], 1)", &["Peru"], &[]), "READONLY");
    assert_error(&eval(&mut client, "#!lua\nreturn redis.call('get', KEYS[1])", &["Peru"], &[]), "READONLY");
    let flags = "#!lua flags=no-writes\nreturn redis.call('get', KEYS[1])";
    assert_eq!(eval(&mut client, flags, &["Peru"], &[]), Answer::bulk("Lima"));
    // Together with others of the same turn.
    client.send(&["EVAL", "return redis.call('get', KEYS[1])", "1", "Peru"]);
    client.send(&["SET", "Peru", "Cusco"]);
    client.send(&["GET", "Peru"]);
    assert_eq!(client.answer(), Answer::bulk("Lima"));
    assert_error(&client.answer(), "READONLY");
    assert_eq!(client.answer(), Answer::bulk("Lima"));
}

#[test]
fn a_script_cannot_change_what_the_next_one_sees() {
    let served = serve_with(|_| {}, EngineKind::Silt, |settings| settings.workers = 1);
    let mut client = served.client();
    for script in [
        "rawset(_G, 'x', 1)",
        "rawset(redis, 'call', 1)",
        "table.insert(_G, 1)",
        "table.insert(redis, 1)",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "getmetatable(_G).__index = {}",
        "getmetatable('').__index = {}",
        "getmetatable('').__index.upper = nil",
        "getmetatable(redis).__index.call = nil",
        "string.upper = nil",
        "setfenv(0, {})",
        "setfenv(1, {})",
        "getfenv(0).x = 1",
        "local p = newproxy(true)",
        "return string.dump(function() end)",
        "return loadstring('\\27Lua')()",
    ] {
        assert!(matches!(eval(&mut client, script, &[], &[]), Answer::Error(_)), "{script}");
    }
    let collecting =
        "collectgarbage('stop') collectgarbage('setpause', 100000) return collectgarbage('count') > 0";
    assert_eq!(eval(&mut client, collecting, &[], &[]), Answer::Integer(1));
    assert_eq!(
        eval(&mut client, "return ('a'):upper() .. type(redis.call)", &[], &[]),
        Answer::bulk("Afunction")
    );
    assert_error(&eval(&mut client, "return x", &[], &[]), "nonexistent global variable 'x'");
    // A seed, KEYS and ARGV are those of one script.
    let seeded = "math.randomseed(1) return tostring(math.random())";
    let first = eval(&mut client, seeded, &[], &[]);
    assert_eq!(eval(&mut client, seeded, &[], &[]), first);
    let unseeded = "return tostring(math.random())";
    assert_ne!(eval(&mut client, unseeded, &[], &[]), eval(&mut client, unseeded, &[], &[]));
    assert_eq!(eval(&mut client, "return #KEYS + #ARGV", &["a"], &["b", "c"]), Answer::Integer(3));
    assert_eq!(eval(&mut client, "return #KEYS + #ARGV", &[], &[]), Answer::Integer(0));
}

#[test]
fn values_of_any_length_pass_through_a_script() {
    let served = serve();
    let mut client = served.client();
    let value = "v".repeat(10 << 20);
    let script = "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])";
    assert_eq!(eval(&mut client, script, &["key"], &[&value]), Answer::bulk(&value));
    let keys: Vec<String> = (0..2000).map(|number| format!("key:{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let all = "for i, key in ipairs(KEYS) do redis.call('set', key, i) end return #redis.call('mget', unpack(KEYS))";
    assert_eq!(eval(&mut client, all, &keys, &[]), Answer::Integer(2000));
    assert_error(
        &eval(&mut client, &format!("return 1 --{}", "x".repeat(1 << 20)), &[], &[]),
        "use at most 1048576",
    );
}

#[test]
fn what_libraries_build_for_a_script_is_within_its_memory() {
    let served = serve_mica();
    let mut client = served.client();
    let large = [
        "local t = {} for i = 1, 60 do t = {t, t} end return cjson.encode(t)",
        "local s, t = string.rep('x', 1e6), {} for i = 1, 1000 do t[i] = s end return #cjson.encode(t)",
        "local s, t = string.rep('x', 1e6), {} for i = 1, 1000 do t[i] = s end return #cmsgpack.pack(t)",
        "local s, t = string.rep('x', 1e6), {} for i = 1, 1000 do t[i] = s end \
         return #struct.pack(string.rep('s', 1000), unpack(t))",
        "local s, t = string.rep('x', 1e6), {} for i = 1, 1000 do t[i] = s end return redis.call('mget', unpack(t))",
    ];
    for script in large {
        let answer = eval(&mut client, script, &[], &[]);
        assert_error(&answer, "not enough memory");
    }
    assert_eq!(eval(&mut client, "return cjson.encode({1, 2})", &[], &[]), Answer::bulk("[1,2]"));
}

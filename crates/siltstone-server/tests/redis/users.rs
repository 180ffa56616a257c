//! Users and their rights.

use crate::client::{Answer, Client, encode};
use crate::served::{LOCAL, Served, fill, serve, serve_with, settings};
use siltstone::EngineKind;
use siltstone_server::{Listen, Server};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

const USERS: &str = "\
# Who may use the server.
user reader on >r %R~key:* -@all +@read +client|setname
user writer on >w ~key:* ~other:* -@all +@read +@write +@transaction +@connection
user admin on >a ~* &* +@all
";

/// Starts a server with a file of users. The server is dropped before its directories.
fn serve_users(text: &str) -> (Served, PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users.acl");
    fs::write(&file, text).unwrap();
    let users = Some(file.clone());
    (serve_with(fill, EngineKind::Silt, |settings| settings.users = users), file, directory)
}

fn client_as(served: &Served, user: &str, password: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.ask(&["AUTH", user, password]), Answer::ok());
    client
}

fn no_command(name: &str) -> Answer {
    Answer::Error(format!("NOPERM this user has no permissions to run the '{name}' command"))
}

fn no_key() -> Answer {
    let text = "NOPERM this user has no permissions to access one of the keys used as arguments";
    Answer::Error(text.to_owned())
}

/// Returns a counter of INFO.
fn counter(client: &mut Client, name: &str) -> u64 {
    let info = client.line("INFO stats").text();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).unwrap();
    line.parse().unwrap()
}

#[test]
fn each_user_may_do_what_the_file_says() {
    let (served, ..) = serve_users(USERS);
    let mut nobody = served.client();
    assert_eq!(nobody.line("GET key:1"), Answer::Error("NOAUTH Authentication required.".to_owned()));
    assert!(matches!(nobody.line("AUTH default x"), Answer::Error(text) if text.starts_with("WRONGPASS")));
    let mut reader = client_as(&served, "reader", "r");
    assert_eq!(reader.line("GET key:1"), Answer::bulk("value:1"));
    assert_eq!(reader.line("MGET key:1 greeting"), no_key());
    assert_eq!(reader.line("SET key:1 other"), no_command("set"));
    assert_eq!(reader.line("CLIENT SETNAME me"), Answer::ok());
    assert_eq!(reader.line("CLIENT GETNAME"), no_command("client|getname"));
    assert!(matches!(reader.line("DBSIZE"), Answer::Integer(_)));
    let mut writer = client_as(&served, "writer", "w");
    assert_eq!(writer.line("SET key:1 other"), Answer::ok());
    assert_eq!(writer.line("RENAME key:1 greeting"), no_key());
    assert_eq!(writer.line("SET greeting x"), no_key());
    assert_eq!(writer.line("FLUSHALL"), Answer::ok());
    let mut admin = client_as(&served, "admin", "a");
    assert_eq!(admin.line("ACL WHOAMI"), Answer::bulk("admin"));
    assert!(counter(&mut admin, "acl_access_denied_cmd") >= 2);
    assert!(counter(&mut admin, "acl_access_denied_key") >= 3);
    assert_eq!(counter(&mut admin, "acl_access_denied_auth"), 1);
}

#[test]
fn requests_in_one_packet_have_the_rights_of_the_user_before_them() {
    let (served, ..) = serve_users(USERS);
    let mut client = served.client();
    let lines = [
        "AUTH reader r",
        "GET key:1",
        "SET key:1 x",
        "AUTH writer w",
        "SET key:1 x",
        "GET key:1",
        "AUTH reader r",
        "SET key:1 y",
        "HELLO 3 AUTH writer w",
        "SET key:1 z",
        "RESET",
        "GET key:1",
    ];
    let requests: Vec<u8> =
        lines.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect();
    client.send_bytes(&requests);
    let answers: Vec<Answer> = lines.iter().map(|_| client.answer()).collect();
    assert_eq!(answers[1], Answer::bulk("value:1"));
    assert_eq!(answers[2], no_command("set"));
    assert_eq!(answers[4..6], [Answer::ok(), Answer::bulk("x")]);
    assert_eq!(answers[7], no_command("set"));
    assert_eq!(answers[9], Answer::ok());
    assert_eq!(answers[11], Answer::Error("NOAUTH Authentication required.".to_owned()));
}

#[test]
fn a_request_that_is_not_allowed_ends_a_transaction() {
    let (served, ..) = serve_users(USERS);
    let mut writer = client_as(&served, "writer", "w");
    assert_eq!(writer.line("MULTI"), Answer::ok());
    assert_eq!(writer.line("SET key:1 x"), Answer::Status("QUEUED".to_owned()));
    assert_eq!(writer.line("SET greeting x"), no_key());
    assert!(matches!(writer.line("EXEC"), Answer::Error(text) if text.starts_with("EXECABORT")));
    // The rights change between the commands and EXEC.
    assert_eq!(writer.line("MULTI"), Answer::ok());
    assert_eq!(writer.line("SET other:1 x"), Answer::Status("QUEUED".to_owned()));
    let mut admin = client_as(&served, "admin", "a");
    assert_eq!(admin.line("ACL SETUSER writer resetkeys ~key:*"), Answer::ok());
    assert!(
        matches!(writer.line("EXEC"), Answer::Error(text) if text.starts_with("NOPERM ACLs rules changed"))
    );
    assert_eq!(admin.line("EXISTS other:1"), Answer::Integer(0));
    assert_eq!(writer.line("SET key:1 x"), Answer::ok(), "the transaction has ended");
}

#[test]
fn the_file_is_loaded_again_and_a_user_that_has_gone_is_disconnected() {
    let (served, file, _directory) = serve_users(USERS);
    let (mut reader, mut writer) = (client_as(&served, "reader", "r"), client_as(&served, "writer", "w"));
    let mut admin = client_as(&served, "admin", "a");
    fs::write(&file, "user reader on >r ~* +nosuch\n").unwrap();
    let refused = admin.line("ACL LOAD").text();
    assert!(refused.contains("users.acl:1: `+nosuch`: Unknown command"), "{refused}");
    assert!(served.server.reload_users().unwrap_err().to_string().contains("users.acl:1"));
    assert_eq!(writer.line("SET key:1 x"), Answer::ok());
    fs::write(&file, "user reader on >new ~* +@all\nuser admin on >a ~* +@all").unwrap();
    assert_eq!(served.server.reload_users().unwrap(), Some(3));
    assert_eq!(reader.line("SET greeting x"), Answer::ok(), "its connection has the new rights");
    writer.send(&["SET", "key:1", "y"]);
    assert!(writer.is_ended());
    assert_eq!(admin.line("GET key:1"), Answer::bulk("x"));
    let mut other = served.client();
    assert!(matches!(other.line("AUTH reader r"), Answer::Error(_)));
    assert_eq!(other.line("AUTH reader new"), Answer::ok());
}

#[test]
fn users_that_were_made_at_run_time_are_saved() {
    let (served, file, _directory) = serve_users(USERS);
    let mut admin = client_as(&served, "admin", "a");
    assert_eq!(admin.line("ACL SETUSER bob on >b ~bob:* -@all +@string"), Answer::ok());
    let mut bob = client_as(&served, "bob", "b");
    assert_eq!(bob.line("SET bob:1 x"), Answer::ok());
    assert_eq!(bob.line("ACL LIST"), no_command("acl|list"));
    assert_eq!(admin.line("ACL DELUSER reader"), Answer::Integer(1));
    assert_eq!(admin.line("ACL SAVE"), Answer::ok());
    let saved = fs::read_to_string(file).unwrap();
    let names: Vec<&str> = saved.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(names, ["admin", "bob", "default", "writer"]);
    assert!(!saved.contains(">b"), "passwords are not saved: {saved}");
    assert_eq!(admin.line("ACL LOAD"), Answer::ok());
    assert_eq!(bob.line("GET bob:1"), Answer::bulk("x"));
}

#[test]
fn what_was_denied_is_logged() {
    let (served, ..) = serve_users(USERS);
    let mut reader = client_as(&served, "reader", "r");
    reader.line("SET key:1 x");
    reader.line("SET key:2 x");
    reader.line("GET greeting");
    served.client().line("AUTH mallory x");
    let mut admin = client_as(&served, "admin", "a");
    let entries = admin.line("ACL LOG");
    let shown: Vec<(i64, [String; 4])> = entries
        .items()
        .iter()
        .map(|entry| {
            let fields = entry.items();
            let Answer::Integer(count) = fields[1] else { panic!("{entry:?}") };
            (count, [3, 5, 7, 9].map(|at| fields[at].text()))
        })
        .collect();
    let entry = |fields: [&str; 4]| fields.map(str::to_owned);
    assert_eq!(
        shown,
        [
            (1, entry(["auth", "toplevel", "AUTH", "mallory"])),
            (1, entry(["key", "toplevel", "greeting", "reader"])),
            (2, entry(["command", "toplevel", "set", "reader"])),
        ]
    );
    assert!(entries.items()[0].items()[13].text().starts_with("id="));
    assert_eq!(admin.line("ACL LOG 1").items().len(), 1);
    assert_eq!(admin.line("ACL LOG RESET"), Answer::ok());
    assert!(admin.line("ACL LOG").items().is_empty());
}

#[test]
fn memcached_commands_need_the_rights_to_those_of_redis() {
    let (served, ..) = serve_users(USERS);
    let ask = |user: &str, request: &str| {
        let socket = crate::client::connect(served.server.memcached_address().unwrap());
        let mut input = BufReader::new(socket.try_clone().unwrap());
        let mut line = |request: &str| {
            (&socket).write_all(format!("{request}\r\n").as_bytes()).unwrap();
            let mut line = String::new();
            input.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        assert_eq!(line(&format!("set x 0 0 {}\r\n{user}", user.len())), "STORED");
        line(request)
    };
    let no_command = |name| format!("CLIENT_ERROR this user has no permissions to run the '{name}' command");
    let no_key = "CLIENT_ERROR this user has no permissions to access one of the keys used as arguments";
    assert_eq!(ask("reader r", "get key:1"), "VALUE key:1 0 7");
    assert_eq!(ask("reader r", "mg key:1 v"), "VA 7");
    assert_eq!(ask("reader r", "mg key:1 v T30"), no_command("getset"));
    assert_eq!(ask("reader r", "get greeting"), no_key);
    assert_eq!(ask("reader r", "set key:1 0 0 1\r\nx"), no_command("set"));
    assert_eq!(ask("reader r", "stats"), no_command("info"));
    assert_eq!(ask("reader r", "version"), "VERSION 1.6.18");
    assert_eq!(ask("writer w", "set key:1 0 0 1\r\nx"), "STORED");
    assert_eq!(ask("writer w", "incr greeting 1"), no_key);
    assert_eq!(ask("writer w", "delete key:1"), "DELETED");
    assert!(ask("admin a", "stats").starts_with("STAT"));
}

#[test]
fn a_file_of_users_protects_an_address_that_others_reach() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users.acl");
    let start = |users: &str, password: Option<&str>| {
        fs::write(&file, users).unwrap();
        let mut settings = settings(directory.path());
        settings.listeners = vec![Listen::redis("0.0.0.0:0".parse::<std::net::SocketAddr>().unwrap())];
        (settings.users, settings.password) = (Some(file.clone()), password.map(str::to_owned));
        settings.metrics = None;
        Server::start(settings).map(Server::stop).map_err(|error| error.to_string())
    };
    assert!(start("user alice on >a ~* +@all", None).is_ok());
    assert!(start("user default on >a ~* +@all", None).is_ok());
    assert!(start("user alice on >a ~* +@all", Some("secret")).is_ok());
    assert!(start("user default on nopass +get ~*", None).err().unwrap().contains("no password"));
    assert!(start("user default on >a +@all", Some("secret")).err().unwrap().contains("state one of both"));
    let refused = start("user alice on\nuser bob +@nosuch", None).err().unwrap();
    assert!(refused.contains("users.acl:2: `+@nosuch`: Unknown command or category"), "{refused}");
    let mut settings = settings(directory.path());
    settings.listeners = vec![Listen::redis(LOCAL)];
    settings.users = Some(directory.path().join("missing.acl"));
    assert!(Server::start(settings).err().unwrap().to_string().contains("missing.acl"));
}

/// Returns the names of a category.
fn names_of(client: &mut Client, category: &str) -> BTreeSet<String> {
    client.ask(&["ACL", "CAT", category]).items().iter().map(Answer::text).collect()
}

#[test]
fn commands_have_the_categories_of_redis() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/categories.txt");
    let recorded = fs::read_to_string(path).unwrap();
    let recorded: Vec<(&str, BTreeSet<String>)> = recorded
        .lines()
        .map(|line| {
            let (category, names) = line.split_once(':').unwrap();
            (category, names.split_whitespace().map(str::to_owned).collect())
        })
        .collect();
    let of_redis: BTreeSet<&String> = recorded.iter().flat_map(|(_, names)| names).collect();
    let served = serve();
    let mut client = served.client();
    // Each command is fast or slow.
    let ours: BTreeSet<String> = &names_of(&mut client, "fast") | &names_of(&mut client, "slow");
    // A command with subcommands is never executed itself.
    let is_whole = |name: &String| !of_redis.iter().any(|other| other.starts_with(&format!("{name}|")));
    let both: BTreeSet<&String> =
        ours.iter().filter(|name| of_redis.contains(name) && is_whole(name)).collect();
    assert!(both.len() > 90, "{both:?}");
    let mut differences = Vec::new();
    for (category, expected) in &recorded {
        let found = names_of(&mut client, category);
        let differ = both.iter().filter(|name| found.contains(**name) != expected.contains(**name));
        differences.extend(differ.map(|name| format!("{category}: {name}")));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let categories: Vec<String> = client.line("ACL CAT").items().iter().map(Answer::text).collect();
    assert_eq!(categories, recorded.iter().map(|(category, _)| *category).collect::<Vec<_>>());
}

#[cfg(feature = "scripts")]
#[test]
fn a_script_may_do_what_its_user_may() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    let path = directory.path().join("users.acl");
    fs::write(&path, "user default on nopass ~* +@all\nuser alice on >a ~mine:* +@all -incr\n").unwrap();
    settings.users = Some(path);
    let server = Server::start(settings).unwrap();
    let mut client = Client::connect(server.redis_address().unwrap());
    assert_eq!(client.line("AUTH alice a"), Answer::ok());
    let mut run = |script: &str, key: &str| client.ask(&["EVAL", script, "1", key]);
    assert_eq!(run("return redis.call('SET', KEYS[1], '1')", "mine:a"), Answer::ok());
    let refused = run("return redis.call('INCR', KEYS[1])", "mine:a").text();
    assert!(refused.contains("The user executing the script can't run this command"), "{refused}");
    assert!(run("return 1", "other").text().starts_with("NOPERM"));
    server.stop().unwrap();
}

#[cfg(feature = "scripts")]
#[test]
fn a_script_needs_its_keys_for_reading_and_writing_unless_it_writes_nothing() {
    let (served, ..) = serve_users("user alice on >a %R~read:* %W~write:* ~both:* -@all +@scripting");
    let mut alice = client_as(&served, "alice", "a");
    let digest = alice.ask(&["SCRIPT", "LOAD", "return 1"]).text();
    // As Redis 7.0 replies.
    for (key, writing, reading) in
        [("both:1", true, true), ("read:1", false, true), ("write:1", false, false), ("1", false, false)]
    {
        for (command, script, may) in [
            ("EVAL", "return 1", writing),
            ("EVALSHA", &digest[..], writing),
            ("EVAL_RO", "return 1", reading),
            ("EVALSHA_RO", &digest[..], reading),
        ] {
            let expected = if may { Answer::Integer(1) } else { no_key() };
            assert_eq!(alice.ask(&[command, script, "1", key]), expected, "{command} {key}");
        }
    }
}

#[cfg(feature = "scripts")]
#[test]
fn what_a_script_is_denied_is_counted_and_logged_once() {
    let (served, ..) =
        serve_users(&format!("{USERS}user alice on >a ~mine:* resetchannels -@all +eval +get +publish"));
    let mut alice = client_as(&served, "alice", "a");
    let denied = "redis.pcall('incr', KEYS[1]) redis.pcall('incr', KEYS[1]) redis.pcall('get', 'other')
        redis.pcall('publish', 'c', 'x')";
    // The second one runs again without locks, because it takes longer than it may have them.
    for more in ["", "for i = 1, 3000000 do end"] {
        let mut admin = client_as(&served, "admin", "a");
        admin.line("ACL LOG RESET");
        admin.line("CONFIG RESETSTAT");
        assert_eq!(
            alice.ask(&["EVAL", &format!("{denied} {more} return 7"), "1", "mine:1"]),
            Answer::Integer(7)
        );
        let entries = admin.line("ACL LOG");
        let shown = entries.items().iter().map(|entry| {
            let fields = entry.items();
            let Answer::Integer(count) = fields[1] else { panic!("{entry:?}") };
            (count, [3, 5, 7, 9].map(|at| fields[at].text()))
        });
        let entry = |fields: [&str; 4]| fields.map(str::to_owned);
        let expected = [
            (1, entry(["channel", "lua", "c", "alice"])),
            (1, entry(["key", "lua", "other", "alice"])),
            (2, entry(["command", "lua", "incr", "alice"])),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{more}");
        for (counter_name, count) in
            [("acl_access_denied_cmd", 2), ("acl_access_denied_key", 1), ("acl_access_denied_channel", 1)]
        {
            assert_eq!(counter(&mut admin, counter_name), count, "{counter_name}");
        }
    }
}

#[test]
fn a_receiver_ends_when_its_user_is_deleted_or_loses_what_it_receives() {
    let (served, _file, _directory) = serve_users(USERS);
    let mut admin = client_as(&served, "admin", "a");
    for (receives, change) in [
        ("SUBSCRIBE secret", "ACL DELUSER alice"),
        ("SUBSCRIBE secret", "ACL SETUSER alice resetchannels"),
        ("PSUBSCRIBE s*", "ACL SETUSER alice resetchannels &other"),
        ("MONITOR", "ACL SETUSER alice -monitor"),
    ] {
        admin.line("ACL SETUSER alice reset on >pass ~* &* +@all");
        let mut alice = client_as(&served, "alice", "pass");
        alice.line(receives);
        admin.line(change);
        // By the next message at the latest.
        admin.line("PUBLISH secret x");
        while !alice.is_ended() {
            assert_eq!(receives, "MONITOR", "{change}");
            assert!(!alice.answer().text().contains("PUBLISH"), "{change}");
        }
    }
}

//! `siltstone import --redis`, from a server of this program.

use crate::runner::{ends_with, fails, ok};
use crate::server_process::Process;

#[test]
fn all_strings_and_hashes_of_a_running_server_are_copied_with_their_expiry_times() {
    let directory = tempfile::tempdir().unwrap();
    let mut source = Process::start(&directory.path().join("source"), &[]);
    let mut client = source.client();
    // More than one page.
    let sets: Vec<String> = (0..3000).map(|number| format!("SET key:{number} value:{number}")).collect();
    client.send(&sets).unwrap();
    sets.iter().for_each(|_| assert_eq!(client.reply().unwrap(), "+OK"));
    for request in [
        "PEXPIREAT key:7 4000000000123",
        "HSET hash city Lima name Ada",
        "PEXPIREAT hash 4000000000999",
        "SET empty ",
    ] {
        client.ask(request);
    }
    client.ask("SELECT 2");
    client.ask("SET of-two 2");

    let address = source.address.clone();
    ok(directory.path(), &["import", "--db", "copy/0", "--redis", &address]);
    ok(directory.path(), &["import", "--db", "copy/2", "--redis", &format!("redis://{address}/2")]);
    // Again: what is there is overwritten.
    ok(directory.path(), &["import", "--db", "copy/0", "--redis", &address]);
    let resp3 = format!("redis://{address}/?protocol=resp3");
    ok(directory.path(), &["import", "--db", "of-resp3", "--redis", &resp3]);
    assert_eq!(
        ok(directory.path(), &["get", "--db", "of-resp3", "hash"]),
        ok(directory.path(), &["get", "--db", "copy/0", "hash"]),
    );
    let mut copy = Process::start(&directory.path().join("copy"), &[]);
    let mut of_copy = copy.client();
    for request in [
        "DBSIZE",
        "MGET key:0 key:1 key:1500 key:2999 empty",
        "PEXPIRETIME key:7",
        "PEXPIRETIME key:8",
        "HGETALL hash",
        "PEXPIRETIME hash",
        "TYPE hash",
    ] {
        let mut of_source = source.client();
        assert_eq!(of_copy.ask(request), of_source.ask(request), "{request}");
    }
    of_copy.ask("SELECT 2");
    assert_eq!(of_copy.ask("GET of-two"), "2");
    copy.stop();
    source.stop();
}

#[test]
fn a_redis_that_is_not_there_and_a_database_without_types_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = fails(directory.path(), &["import", "--db", "new", "--redis", "127.0.0.1:1"]);
    assert!(error.contains("127.0.0.1:1"), "{error}");
    assert!(!directory.path().join("new").exists(), "nothing is created");
    let error = fails(directory.path(), &["import", "--db", "new", "--redis", "redis://:secret@127.0.0.1:1"]);
    assert!(error.contains("127.0.0.1:1") && !error.contains("secret"), "{error}");
    let error = ends_with(2, directory.path(), &["import", "--db", "new", "--redis", "no address"]);
    assert!(error.contains("HOST:PORT"), "{error}");

    let mut source = Process::start(&directory.path().join("source"), &[]);
    let mut client = source.client();
    client.ask("SET a 1");
    client.ask("HSET hash f v");
    ok(directory.path(), &["put", "--db", "plain", "b", "2"]);
    let output =
        crate::runner::run(directory.path(), &["import", "--db", "plain", "--redis", &source.address]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("left out: 1 hashes"), "{said}");
    assert_eq!(ok(directory.path(), &["get", "--db", "plain", "a"]), "1");
    source.stop();
}

#[test]
fn a_command_that_the_user_may_not_send_ends_the_import() {
    let directory = tempfile::tempdir().unwrap();
    let mut source = Process::start(&directory.path().join("source"), &[]);
    let mut client = source.client();
    client.ask("SET a 1");
    client.ask("HSET hash f v");
    for (user, denied) in [("nohash", "-hgetall"), ("noget", "-get")] {
        assert_eq!(client.ask(&format!("ACL SETUSER {user} on >pass ~* +@all {denied}")), "+OK");
        let url = format!("redis://{user}:pass@{}", source.address);
        let error = fails(directory.path(), &["import", "--db", user, "--redis", &url]);
        assert!(error.contains("NOPERM") || error.contains("permission"), "{error}");
    }
    source.stop();
}

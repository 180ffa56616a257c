//! Channels: who gets which messages, in which order, and what happens to those who do not take them.

use crate::client::{Answer, Client, encode};
use crate::served::{Served, serve, serve_with};
use siltstone::EngineKind;

fn message(words: &[&str]) -> Vec<Answer> {
    words.iter().map(Answer::bulk).collect()
}

/// Subscribes, and takes the confirmation.
fn subscribe(client: &mut Client, line: &str, subscriptions: i64) {
    let [name, channel] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let confirmed = client.line(line);
    let expected = [Answer::bulk(name.to_lowercase()), Answer::bulk(channel), Answer::Integer(subscriptions)];
    assert_eq!(confirmed.items(), expected, "{line}");
}

/// Returns a server with this number of workers.
fn with_workers(workers: usize) -> Served {
    serve_with(|_| {}, EngineKind::Silt, |settings| settings.workers = workers)
}

#[test]
fn subscribers_of_all_workers_get_a_message_in_the_version_of_each() {
    let served = with_workers(3);
    let mut subscribers: Vec<Client> = (0..7).map(|_| served.client()).collect();
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        if number % 2 == 1 {
            subscriber.line("HELLO 3");
        }
        subscribe(subscriber, "SUBSCRIBE news", 1);
    }
    subscribe(&mut subscribers[6], "PSUBSCRIBE n?ws", 2);
    let mut publisher = served.client();
    assert_eq!(publisher.line("SELECT 5"), Answer::ok(), "a channel is one of all databases");
    assert_eq!(publisher.line("PUBLISH news hello"), Answer::Integer(8));
    assert_eq!(publisher.line("PUBLISH other hello"), Answer::Integer(0));
    assert_eq!(publisher.line("PUBSUB NUMSUB news other").items()[1], Answer::Integer(7));
    assert_eq!(publisher.line("PUBSUB CHANNELS n*"), Answer::Array(vec![Answer::bulk("news")]));
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        let words = message(&["message", "news", "hello"]);
        let expected = if number % 2 == 1 { Answer::Push(words) } else { Answer::Array(words) };
        assert_eq!(subscriber.answer(), expected);
    }
    let expected = Answer::Array(message(&["pmessage", "n?ws", "news", "hello"]));
    assert_eq!(subscribers[6].answer(), expected);
}

#[test]
fn the_messages_of_each_publisher_arrive_in_their_order() {
    let served = with_workers(2);
    let mut subscribers: Vec<Client> = (0..3).map(|_| served.client()).collect();
    subscribers.iter_mut().for_each(|subscriber| subscribe(subscriber, "SUBSCRIBE a", 1));
    let mut publishers: Vec<Client> = (0..4).map(|_| served.client()).collect();
    for first in (0..2000).step_by(50) {
        for (name, publisher) in publishers.iter_mut().enumerate() {
            let requests = (first..first + 50).map(|number| {
                let publish = encode(&["PUBLISH", "a", &format!("{name} {number}")]);
                // Some of them are executed by a helper thread, as a part of a transaction.
                match number % 7 {
                    0 => [encode(&["MULTI"]), encode(&["INCR", "k"]), publish, encode(&["EXEC"])].concat(),
                    _ => publish,
                }
            });
            publisher.send_bytes(&requests.collect::<Vec<_>>().concat());
        }
    }
    for subscriber in &mut subscribers {
        let mut next = [0; 4];
        for _ in 0..4 * 2000 {
            let text = subscriber.answer().items()[2].text();
            let (name, number) = text.split_once(' ').unwrap();
            let expected = &mut next[name.parse::<usize>().unwrap()];
            assert_eq!(number, expected.to_string(), "of publisher {name}");
            *expected += 1;
        }
    }
}

#[test]
fn a_message_of_a_transaction_is_sent_once_and_only_if_it_is_executed() {
    let served = serve();
    let mut subscriber = served.client();
    subscribe(&mut subscriber, "SUBSCRIBE a", 1);
    let mut publisher = served.client();
    let transaction = |client: &mut Client, text: &str| {
        ["MULTI", "SET x 1", &format!("PUBLISH a {text}"), "EXEC"].map(|line| client.line(line))
    };
    assert_eq!(publisher.line("WATCH x"), Answer::ok());
    assert_eq!(served.client().line("SET x 2"), Answer::ok());
    assert_eq!(transaction(&mut publisher, "lost")[3], Answer::Null);
    let executed = transaction(&mut publisher, "sent");
    assert_eq!(executed[3], Answer::Array(vec![Answer::ok(), Answer::Integer(1)]));
    assert_eq!(publisher.line("PUBLISH a last"), Answer::Integer(1));
    assert_eq!(subscriber.answer(), Answer::Array(message(&["message", "a", "sent"])));
    assert_eq!(subscriber.answer(), Answer::Array(message(&["message", "a", "last"])));
    assert!(matches!(publisher.line("MULTI"), Answer::Status(_)));
    let refused = publisher.line("SUBSCRIBE a");
    assert_eq!(refused, Answer::Error("ERR Command not allowed inside a transaction".to_owned()));
}

#[test]
fn a_subscriber_of_resp_2_may_send_few_commands_until_it_has_unsubscribed() {
    let served = serve();
    let mut client = served.client();
    // In one packet, so that the requests after SUBSCRIBE are read with it.
    client.send_bytes(b"SUBSCRIBE a b\r\nGET key:1\r\nPING\r\nUNSUBSCRIBE\r\nGET key:1\r\n");
    (0..2).for_each(|_| assert_eq!(client.answer().items()[0], Answer::bulk("subscribe")));
    assert!(
        matches!(client.answer(), Answer::Error(text) if text.starts_with("ERR Can't execute 'get': only"))
    );
    assert_eq!(client.answer(), Answer::Array(message(&["pong", ""])));
    (0..2).for_each(|_| assert_eq!(client.answer().items()[0], Answer::bulk("unsubscribe")));
    assert_eq!(client.answer(), Answer::bulk("value:1"));
    client.line("HELLO 3");
    client.send_bytes(b"SUBSCRIBE a\r\nGET key:1\r\nHELLO 2\r\nGET key:1\r\nRESET\r\nGET key:1\r\n");
    assert!(matches!(client.answer(), Answer::Push(_)));
    assert_eq!(client.answer(), Answer::bulk("value:1"), "all commands are allowed with RESP 3");
    assert!(matches!(client.answer(), Answer::Array(_)));
    assert!(matches!(client.answer(), Answer::Error(_)), "and not with RESP 2 again");
    assert_eq!(client.answer(), Answer::Status("RESET".to_owned()));
    assert_eq!(client.answer(), Answer::bulk("value:1"));
    assert_eq!(served.client().line("PUBSUB CHANNELS"), Answer::Array(Vec::new()));
}

#[test]
fn nothing_arrives_after_the_end_of_a_subscription() {
    let served = with_workers(2);
    let (mut publisher, mut subscriber) = (served.client(), served.client());
    for round in 0..50 {
        subscribe(&mut subscriber, "SUBSCRIBE a", 1);
        let requests: Vec<u8> = (0..200).flat_map(|_| encode(&["PUBLISH", "a", "text"])).collect();
        publisher.send_bytes(&requests);
        subscriber.send(&["UNSUBSCRIBE", "a"]);
        while subscriber.answer().items()[0] == Answer::bulk("message") {}
        // The confirmation was taken. A message would be taken for this reply.
        assert_eq!(subscriber.line("ECHO end"), Answer::bulk("end"), "round {round}");
        (0..200).for_each(|_| assert!(matches!(publisher.answer(), Answer::Integer(_))));
    }
}

#[test]
fn a_subscriber_that_takes_nothing_is_disconnected_at_the_limit_and_counted() {
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| (settings.limits.push_bytes_max, settings.workers) = (1 << 20, 2),
    );
    let mut clients: Vec<Client> = (0..3).map(|_| served.client()).collect();
    clients.iter_mut().for_each(|client| subscribe(client, "SUBSCRIBE a", 1));
    let [one, other, healthy] = &mut clients[..] else { panic!("there are three") };
    let mut publisher = served.client();
    let text = "v".repeat(100_000);
    let mut receivers = 3;
    while receivers > 1 {
        let Answer::Integer(count) = publisher.ask(&["PUBLISH", "a", &text]) else {
            panic!("it is a number")
        };
        receivers = count;
        assert_eq!(healthy.answer().items()[2].text().len(), 100_000, "others get all messages");
    }
    for slow in [one, other] {
        while !slow.is_ended() {
            slow.skip();
        }
    }
    let info = publisher.line("INFO stats").text();
    assert!(info.contains("client_output_buffer_limit_disconnections:2\r\n"), "{info}");
    assert!(info.contains("pubsub_channels:1\r\n"), "{info}");
}

#[test]
fn a_message_that_is_longer_than_the_limit_reaches_those_who_wait_for_it() {
    let served = serve_with(|_| {}, EngineKind::Silt, |settings| settings.limits.push_bytes_max = 10_000);
    let mut subscriber = served.client();
    subscribe(&mut subscriber, "SUBSCRIBE a", 1);
    let text = "v".repeat(3_000_000);
    assert_eq!(served.client().ask(&["PUBLISH", "a", &text]), Answer::Integer(1));
    assert_eq!(subscriber.answer().items()[2].text().len(), text.len());
}

#[test]
fn a_publisher_waits_for_a_worker_that_has_too_much_to_deliver_and_continues_then() {
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| (settings.limits.push_bytes_max, settings.workers) = (1 << 30, 2),
    );
    // One of each worker. Each message alone is more than a worker may have to deliver.
    let mut subscribers: Vec<Client> = (0..2).map(|_| served.client()).collect();
    subscribers.iter_mut().for_each(|subscriber| subscribe(subscriber, "SUBSCRIBE a", 1));
    let mut publishers: Vec<Client> = (0..2).map(|_| served.client()).collect();
    let text = "v".repeat(5_000_000);
    std::thread::scope(|scope| {
        for publisher in &mut publishers {
            let text = &text;
            scope.spawn(move || {
                (0..8).for_each(|_| assert_eq!(publisher.ask(&["PUBLISH", "a", text]), Answer::Integer(2)));
                assert_eq!(publisher.line("PING"), Answer::Status("PONG".to_owned()));
            });
        }
        for subscriber in &mut subscribers {
            scope.spawn(move || {
                (0..16).for_each(|_| assert_eq!(subscriber.answer().items()[2].text().len(), 5_000_000));
            });
        }
    });
}

#[test]
fn a_connection_that_ends_after_a_message_to_itself_gets_its_replies() {
    let served = serve();
    let mut client = served.client();
    client.line("HELLO 3");
    subscribe(&mut client, "SUBSCRIBE a", 1);
    client.send_bytes(b"PUBLISH a text\r\nQUIT\r\n");
    assert_eq!(client.answer(), Answer::Integer(1));
    assert_eq!(client.answer(), Answer::ok());
    assert!(client.is_ended());
}

#[test]
fn subscriptions_of_a_connection_have_a_limit() {
    let served = serve();
    let mut client = served.client();
    let name = "n".repeat(1 << 20);
    let names: Vec<String> = (0..17).map(|number| format!("{number}{name}")).collect();
    let refused = client.ask(&[vec!["SUBSCRIBE".to_owned()], names].concat());
    assert!(matches!(&refused, Answer::Error(text) if text.contains("use fewer")), "{refused:?}");
    subscribe(&mut client, "SUBSCRIBE a", 1);
}

#[test]
fn replies_that_a_client_does_not_want_are_left_out() {
    let served = serve();
    let mut client = served.client();
    client.send_bytes(b"CLIENT REPLY SKIP\r\nPING\r\nECHO one\r\n");
    assert_eq!(client.answer(), Answer::bulk("one"));
    client.send_bytes(b"CLIENT REPLY OFF\r\nGET key:1\r\nSET a 1\r\nINCR a\r\nDBSIZE\r\nNOSUCH\r\nMULTI\r\n");
    client.send_bytes(b"GET a\r\nEXEC\r\nCLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY ON\r\nGET a\r\n");
    assert_eq!(client.answer(), Answer::ok());
    assert_eq!(client.answer(), Answer::bulk("2"));
    client.send_bytes(b"CLIENT REPLY OFF\r\nSUBSCRIBE a\r\n");
    assert_eq!(client.answer().items()[0], Answer::bulk("subscribe"), "what is pushed is no reply");
}

/// Executes a script with one key.
fn eval(client: &mut Client, script: &str, argument: &str) -> Answer {
    client.ask(&["EVAL", script, "1", "key", argument])
}

/// Publishes, changes the key and takes longer than it may have locks.
const LONG: &str = "local n = redis.call('publish', 'a', ARGV[1]) \
                    for i = 1, 500000 do end \
                    redis.call('incr', KEYS[1]) \
                    return n";

#[test]
fn a_script_that_runs_again_has_sent_its_messages_once() {
    for engine in [EngineKind::Silt, EngineKind::Mica] {
        let served = serve_with(|_| {}, engine, |_| {});
        let mut subscriber = served.client();
        subscribe(&mut subscriber, "SUBSCRIBE a", 1);
        let (mut publisher, mut other) = (served.client(), served.client());
        let texts: Vec<String> = (0..5).map(|number| number.to_string()).collect();
        texts.iter().for_each(|text| publisher.send(&["EVAL", LONG, "1", "key", text]));
        // They change the key while the scripts run, which then do so again.
        (0..200).for_each(|_| assert!(matches!(other.line("INCR key"), Answer::Integer(_))));
        texts.iter().for_each(|_| assert_eq!(publisher.answer(), Answer::Integer(1)));
        assert_eq!(publisher.line("GET key"), Answer::bulk("205"));
        // What comes before and after a script arrives in this order, also in a transaction.
        let script = "redis.call('publish', 'a', 'script') return redis.call('get', KEYS[1])";
        for line in ["PUBLISH a first", "MULTI", "PUBLISH a second"] {
            publisher.line(line);
        }
        assert_eq!(eval(&mut publisher, script, ""), Answer::Status("QUEUED".to_owned()));
        publisher.line("PUBLISH a third");
        assert_eq!(publisher.line("EXEC").items()[1], Answer::bulk("205"));
        let expected = texts.iter().map(String::as_str).chain(["first", "second", "script", "third"]);
        for text in expected {
            assert_eq!(subscriber.answer(), Answer::Array(message(&["message", "a", text])), "{engine:?}");
        }
    }
}

#[test]
fn a_script_that_changes_nothing_sends_nothing_and_one_that_fails_what_it_has_sent_before() {
    let served = serve_with(
        |_| {},
        EngineKind::Silt,
        |settings| settings.limits.script_time_max = std::time::Duration::from_millis(20),
    );
    let mut subscriber = served.client();
    subscribe(&mut subscriber, "SUBSCRIBE a", 1);
    let mut client = served.client();
    let stopped = "redis.call('publish', 'a', 'stopped') while true do end";
    assert!(matches!(eval(&mut client, stopped, ""), Answer::Error(_)));
    assert_eq!(client.line("WATCH key"), Answer::ok());
    assert_eq!(served.client().line("SET key 1"), Answer::ok());
    assert_eq!(client.line("MULTI"), Answer::ok());
    eval(&mut client, "return redis.call('publish', 'a', 'watched')", "");
    assert_eq!(client.line("EXEC"), Answer::Null);
    let refused = client.ask(&["EVAL_RO", "return redis.call('publish', 'a', 'read only')", "0"]);
    assert!(
        matches!(&refused, Answer::Error(text) if text.starts_with("ERR Write commands are not allowed"))
    );
    let failed = "redis.call('publish', 'a', 'failed') return redis.call('hget', KEYS[1], 'f')";
    assert!(matches!(eval(&mut client, failed, ""), Answer::Error(text) if text.starts_with("WRONGTYPE")));
    assert_eq!(subscriber.answer(), Answer::Array(message(&["message", "a", "failed"])));
}

#[test]
fn the_messages_of_a_script_have_a_limit() {
    let served =
        serve_with(|_| {}, EngineKind::Silt, |settings| settings.limits.script_memory_bytes_max = 1 << 20);
    let mut subscriber = served.client();
    subscribe(&mut subscriber, "SUBSCRIBE a", 1);
    let mut client = served.client();
    let script = "for i = 1, 100000 do redis.call('publish', 'a', ARGV[1]) end";
    let refused = eval(&mut client, script, &"x".repeat(1000));
    assert!(
        matches!(&refused, Answer::Error(text) if text.contains("publish fewer in a script")),
        "{refused:?}"
    );
    assert_eq!(subscriber.answer().items()[2].text().len(), 1000, "those before were sent");
    assert_eq!(eval(&mut client, "return redis.call('publish', 'b', 'x')", ""), Answer::Integer(0));
}

#[test]
fn a_channel_of_a_slot_has_subscribers_and_messages_of_its_own() {
    let served = with_workers(3);
    let mut subscribers: Vec<Client> = (0..6).map(|_| served.client()).collect();
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        if number % 2 == 1 {
            subscriber.line("HELLO 3");
        }
        subscribe(subscriber, "SSUBSCRIBE news", 1);
    }
    // Both kinds are counted apart.
    subscribe(&mut subscribers[0], "SUBSCRIBE news", 1);
    subscribe(&mut subscribers[0], "PSUBSCRIBE n*", 2);
    subscribe(&mut subscribers[0], "SSUBSCRIBE other", 2);
    let mut publisher = served.client();
    assert_eq!(publisher.line("SPUBLISH news slot"), Answer::Integer(6));
    let script = "return redis.call('spublish', 'news', ARGV[1])";
    assert_eq!(eval(&mut publisher, script, "script"), Answer::Integer(6));
    assert_eq!(publisher.line("PUBLISH news all"), Answer::Integer(2));
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        for text in ["slot", "script"] {
            let words = message(&["smessage", "news", text]);
            let expected = if number % 2 == 1 { Answer::Push(words) } else { Answer::Array(words) };
            assert_eq!(subscriber.answer(), expected);
        }
    }
    assert_eq!(subscribers[0].answer(), Answer::Array(message(&["message", "news", "all"])));
    assert_eq!(subscribers[0].answer(), Answer::Array(message(&["pmessage", "n*", "news", "all"])));
    assert_eq!(publisher.line("PUBSUB SHARDCHANNELS n*"), Answer::Array(vec![Answer::bulk("news")]));
    assert_eq!(publisher.line("PUBSUB SHARDNUMSUB news other").items()[1], Answer::Integer(6));
    assert_eq!(publisher.line("PUBSUB NUMSUB news").items()[1], Answer::Integer(1));
    assert!(publisher.line("INFO stats").text().contains("pubsubshard_channels:2\r\n"));
    assert!(publisher.line("CLIENT LIST TYPE pubsub").text().contains("flags=P db=0 sub=1 psub=1 ssub=2 "));
    // In one packet: what is allowed follows from all subscriptions.
    subscribers[0].send_bytes(b"UNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nGET key:1\r\nSUNSUBSCRIBE\r\nGET key:1\r\n");
    (0..2).for_each(|_| assert!(matches!(subscribers[0].answer(), Answer::Array(_))));
    assert!(
        matches!(subscribers[0].answer(), Answer::Error(text) if text.starts_with("ERR Can't execute 'get'"))
    );
    for (channel, left) in [("news", 1), ("other", 0)] {
        let expected = vec![Answer::bulk("sunsubscribe"), Answer::bulk(channel), Answer::Integer(left)];
        assert_eq!(subscribers[0].answer(), Answer::Array(expected));
    }
    assert_eq!(subscribers[0].answer(), Answer::Null);
    subscribers.clear();
    while publisher.line("SPUBLISH news end") != Answer::Integer(0) {}
}

#[test]
fn a_subscriber_of_a_slot_that_takes_nothing_is_disconnected_at_the_limit() {
    let served = serve_with(|_| {}, EngineKind::Silt, |settings| settings.limits.push_bytes_max = 1 << 20);
    let (mut slow, mut publisher) = (served.client(), served.client());
    subscribe(&mut slow, "SSUBSCRIBE a", 1);
    let text = "v".repeat(100_000);
    while publisher.ask(&["SPUBLISH", "a", &text]) != Answer::Integer(0) {}
    while !slow.is_ended() {
        slow.skip();
    }
    let info = publisher.line("INFO stats").text();
    assert!(info.contains("client_output_buffer_limit_disconnections:1\r\n"), "{info}");
}

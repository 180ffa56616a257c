use super::*;
use crate::protocol::{Kind, Outcome, RequestWriter, Requests, ResponseWriter};
use crate::{Server, ServerSettings};
use siltstone_mica::{AccessMode, Eviction, HashedKey, ItemLayout, Operation, Request};
use std::net::UdpSocket;
use std::thread::JoinHandle;

fn patient() -> ClientSettings {
    ClientSettings { time_limit: Duration::from_secs(20), ..ClientSettings::default() }
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Command<'a> {
    Command::Put { key, value, expires_at_ms: NEVER }
}

/// Executes random batches of requests on a server and a map.
fn compare(server: &Server, settings: ClientSettings, seed: u64) -> ClientStatistics {
    let mut client = Client::connect(server.addresses()[0], settings).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let keys: Vec<Vec<u8>> = (0..100u8).map(|number| vec![number; 1 + usize::from(number % 20)]).collect();
    for _ in 0..40 {
        let values: Vec<Vec<u8>> =
            (0..random.usize(..120)).map(|_| vec![random.u8(..); random.usize(..150)]).collect();
        let command = |value| {
            let key = &keys[random.usize(..keys.len())][..];
            match random.u32(..6) {
                0 => Command::Delete { key },
                1 | 2 => put(key, value),
                _ => Command::Get { key },
            }
        };
        let commands: Vec<Command<'_>> = values.iter().map(|value| &value[..]).map(command).collect();
        let answers = client.execute(&commands).unwrap();
        assert_eq!(answers.len(), commands.len());
        for (command, answer) in commands.iter().zip(answers) {
            let expected = match command {
                Command::Get { key } => model.get(*key).cloned().map_or(Answer::Absent, Answer::Found),
                Command::Put { key, value, .. } => {
                    model.insert(key.to_vec(), value.to_vec());
                    Answer::Stored
                }
                Command::Delete { key } => model.remove(*key).map_or(Answer::Absent, |_| Answer::Deleted),
            };
            assert_eq!(answer, expected, "{command:?}");
        }
    }
    client.statistics().clone()
}

#[test]
fn batches_over_the_network_are_executed_as_on_a_map_in_every_mode() {
    let modes = [
        (AccessMode::Erew, false),
        (AccessMode::Erew, true),
        (AccessMode::Crew, false),
        (AccessMode::Crcw, false),
    ];
    for (seed, (access, redirects)) in (0..).zip(modes) {
        for (cores, partitions, eviction) in [(1, 1, None), (2, 8, Some(Eviction::Lru)), (3, 4, None)] {
            let settings = ServerSettings {
                access,
                redirects,
                cores,
                partitions,
                eviction,
                memory_bytes: 4 << 20,
                ..ServerSettings::default()
            };
            let server = Server::start(&settings).unwrap();
            let client = ClientSettings { packets_in_flight: 8, requests_per_packet: 5, ..patient() };
            let seen = compare(&server, client, seed);
            assert!(seen.answered_requests > 1_000 && seen.timed_out_requests == 0);
            assert!(seen.repeated_gets > 0, "gets of values of more than 64 bytes were repeated");
            assert!(seen.round_trip_ns.len() > 100 && seen.unexpected_packets <= seen.retransmitted_packets);
            let counts = server.stop().unwrap().counts;
            assert_eq!(counts.forwarded_packets > 0, redirects && cores > 1);
            assert_eq!((counts.misdirected, counts.malformed_packets, counts.foreign_packets), (0, 0, 0));
        }
    }
}

#[test]
fn single_requests_have_their_results() {
    let settings = ServerSettings { memory_bytes: 1 << 20, ..ServerSettings::default() };
    let server = Server::start(&settings).unwrap();
    let mut client = Client::connect(server.addresses()[0], patient()).unwrap();
    assert_eq!(client.get(b"key").unwrap(), None);
    client.put(b"key", &[9; 1_000]).unwrap();
    assert_eq!(client.get(b"key").unwrap(), Some(vec![9; 1_000]));
    assert_eq!(client.get_many(&[&b"key"[..], b"none"]).unwrap(), [Some(vec![9; 1_000]), None]);
    assert!(client.delete(b"key").unwrap() && !client.delete(b"key").unwrap());
    let past = Command::Put { key: b"old", value: b"", expires_at_ms: 1 };
    assert_eq!(
        client.execute(&[past, Command::Get { key: b"old" }]).unwrap(),
        [Answer::Stored, Answer::Absent]
    );
    assert!(client.execute(&[]).unwrap().is_empty());
}

#[test]
fn requests_that_cannot_be_sent_are_refused_before_any_is_sent() {
    let settings = ServerSettings { memory_bytes: 1 << 20, ..ServerSettings::default() };
    let server = Server::start(&settings).unwrap();
    let mut client = Client::connect(server.addresses()[0], patient()).unwrap();
    let outcome = client.execute(&[put(b"key", b"value"), put(b"long", &[0; 1_500])]);
    assert!(matches!(outcome, Err(ClientError::TooLong { bytes: 1_536, limit: 1_472 })), "{outcome:?}");
    assert!(matches!(client.get(b""), Err(ClientError::KeyLength(0))));
    assert_eq!(client.get(b"key").unwrap(), None);
    let most = vec![7; 1_472 - 16 - 16 - 3];
    client.put(b"key", &most).unwrap();
    assert_eq!(client.get(b"key").unwrap(), Some(most));
}

#[test]
fn a_refusal_of_the_store_reaches_the_caller() {
    let layout = ItemLayout { fixed: Some((3, 4)), expiring: false };
    let settings = ServerSettings { memory_bytes: 1 << 20, layout, ..ServerSettings::default() };
    let server = Server::start(&settings).unwrap();
    let mut client = Client::connect(server.addresses()[0], patient()).unwrap();
    let refused = client.put(b"key", b"five5");
    assert!(matches!(refused, Err(ClientError::Failed(Failure::Request(Outcome::Shape)))), "{refused:?}");
}

/// Replies to packets as `answer` says, until it has received `packets` of them, or none arrives any more.
fn pretender(
    packets: usize,
    mut answer: impl FnMut(usize, &Header, &[u8], &Directory) -> Vec<Vec<u8>> + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let address = socket.local_addr().unwrap();
    let directory = Directory {
        epoch: 1,
        access: AccessMode::Erew,
        redirects: false,
        lossy: false,
        packet_bytes: 1_472,
        seed: [1, 2],
        partition_ports: vec![address.port()],
        core_ports: vec![address.port()],
    };
    let thread = std::thread::spawn(move || {
        let mut bytes = [0; 2_000];
        for number in 0..packets {
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { return };
            let header = Header::decode(&bytes[..length]).unwrap();
            for packet in answer(number, &header, &bytes[..length], &directory) {
                socket.send_to(&packet, from).unwrap();
            }
        }
    });
    (address, thread)
}

/// Replies that each request of a packet has found the value `yes`, or was stored.
fn agree(header: &Header, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    let mut writer = ResponseWriter::new(&mut bytes, header);
    for (request, room) in Requests::of(header, packet).unwrap().map(Result::unwrap) {
        match request.operation {
            Operation::Get => writer.add(&request.operation, Outcome::Found, b"yes", room),
            _ => writer.add(&request.operation, Outcome::Stored, b"", room),
        };
    }
    let length = writer.finish();
    bytes.truncate(length);
    bytes
}

#[test]
fn lost_packets_are_retransmitted_until_a_response_arrives() {
    // Every packet is lost twice, including the directory request.
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
    let (address, thread) = pretender(3 * 21, move |_, header, packet, directory| {
        let times = seen.entry(packet[HEADER_BYTES..].to_vec()).or_default();
        *times += 1;
        match (*times, header.kind) {
            (1 | 2, _) => vec![],
            (_, Kind::DirectoryRequest) => vec![directory.encode(header.sequence)],
            _ => vec![agree(header, packet)],
        }
    });
    let quick = Duration::from_millis(1);
    let settings = ClientSettings { retransmit_after: quick, requests_per_packet: 1, ..patient() };
    let mut client = Client::connect(address, settings).unwrap();
    let keys: Vec<[u8; 4]> = (0..20u32).map(u32::to_le_bytes).collect();
    assert_eq!(client.get_many(&keys).unwrap(), vec![Some(b"yes".to_vec()); 20]);
    let seen = client.statistics();
    assert_eq!((seen.sent_packets, seen.answered_requests, seen.timed_out_requests), (20, 20, 0));
    assert!(seen.retransmitted_packets >= 40);
    assert_eq!(seen.round_trip_ns.len(), 0, "a retransmitted packet says nothing about the round trip");
    drop(client);
    thread.join().unwrap();
}

/// Executes the puts and gets of a packet on a map.
fn obey(map: &mut HashMap<Vec<u8>, Vec<u8>>, header: &Header, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    let mut writer = ResponseWriter::new(&mut bytes, header);
    for (request, room) in Requests::of(header, packet).unwrap().map(Result::unwrap) {
        let key = request.key.bytes.to_vec();
        match request.operation {
            Operation::Put { value, .. } => {
                map.insert(key, value.to_vec());
                writer.add(&request.operation, Outcome::Stored, b"", room);
            }
            _ => {
                writer.add(&request.operation, Outcome::Found, &map[&key], room);
            }
        }
    }
    let length = writer.finish();
    bytes.truncate(length);
    bytes
}

/// A server with two cores that may execute any packet: one has received a copy of a put twice and is delayed between
/// the two, while the other is not.
#[test]
fn a_copy_of_a_put_that_is_executed_late_does_not_undo_a_later_put() {
    let mut map = HashMap::new();
    let mut copies: Vec<(Header, Vec<u8>)> = Vec::new();
    let (address, thread) = pretender(8, move |_, header, packet, directory| {
        if header.kind == Kind::DirectoryRequest {
            return vec![directory.encode(header.sequence)];
        }
        let mut execute = |(header, packet): &(Header, Vec<u8>)| obey(&mut map, header, packet);
        let own = (*header, packet.to_vec());
        let is_first =
            copies.first().is_none_or(|(_, first)| first[HEADER_BYTES..] == packet[HEADER_BYTES..]);
        match (is_first, copies.len()) {
            (true, 0) => {
                copies.push(own);
                vec![]
            }
            (true, 1) => {
                let response = execute(&copies[0]);
                copies.push(own);
                vec![response]
            }
            (true, _) => copies.drain(1..).chain([own]).map(|copy| execute(&copy)).collect(),
            (false, _) => {
                let response = execute(&own);
                copies.drain(1..).for_each(|late| drop(execute(&late)));
                vec![response]
            }
        }
    });
    let settings = ClientSettings { retransmit_after: Duration::from_millis(20), ..patient() };
    let mut client = Client::connect(address, settings).unwrap();
    client.put(b"key", b"one").unwrap();
    client.put(b"key", b"two").unwrap();
    assert_eq!(client.get(b"key").unwrap(), Some(b"two".to_vec()));
    assert!(client.statistics().retransmitted_packets >= 2);
    drop(client);
    drop(thread);
}

#[test]
fn requests_without_a_response_fail_at_the_time_limit() {
    let (address, thread) = pretender(3, |_, header, _, directory| match header.kind {
        Kind::DirectoryRequest => vec![directory.encode(header.sequence)],
        _ => vec![],
    });
    let settings = ClientSettings { retransmit_after: Duration::from_millis(5), ..ClientSettings::default() };
    let mut client = Client::connect(address, settings).unwrap();
    client.settings.time_limit = Duration::from_millis(30);
    let answers = client.execute(&[Command::Get { key: b"one" }, put(b"two", b"2")]).unwrap();
    assert_eq!(answers, vec![Answer::Failed(Failure::TimedOut); 2]);
    let seen = client.statistics();
    assert!(seen.timed_out_requests == 2 && seen.retransmitted_packets >= 1);
    thread.join().unwrap();
    let settings = ClientSettings { time_limit: Duration::from_millis(20), ..ClientSettings::default() };
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let outcome = Client::connect(nobody.local_addr().unwrap(), settings);
    assert!(matches!(outcome.err(), Some(ClientError::NoServer(_))));
}

#[test]
fn unexpected_responses_are_counted_and_ignored() {
    let (address, thread) = pretender(2, |_, header, packet, directory| match header.kind {
        Kind::DirectoryRequest => vec![directory.encode(header.sequence)],
        _ => {
            let right = agree(header, packet);
            let other = Header { sequence: header.sequence ^ 1, ..*header };
            let mut two = Vec::new();
            let mut writer = RequestWriter::new(&mut two, 1, header.sequence);
            let get = Request { key: HashedKey { hash: 0, bytes: b"key" }, operation: Operation::Get };
            (0..2).for_each(|_| writer.add(&get, 8));
            let two = agree(&Header::decode(&two).unwrap(), &two);
            vec![
                b"noise".to_vec(),
                agree(&other, packet),
                right[..right.len() - 1].to_vec(),
                two,
                packet.to_vec(),
                right,
            ]
        }
    });
    let mut client = Client::connect(address, patient()).unwrap();
    assert_eq!(client.get(b"key").unwrap(), Some(b"yes".to_vec()));
    assert_eq!(client.statistics().unexpected_packets, 5);
    thread.join().unwrap();
}

#[test]
fn a_client_learns_that_the_server_was_restarted() {
    let (address, thread) = pretender(4, |number, header, packet, directory| {
        let later = Directory { epoch: 2, seed: [3, 4], ..directory.clone() };
        match (number, header.kind, header.epoch) {
            (0, ..) => vec![directory.encode(header.sequence)],
            (1, Kind::Requests, 1) => {
                vec![Header::refusal(packet, Refusal::Stale).unwrap().to_vec()]
            }
            (2, Kind::DirectoryRequest, _) => vec![later.encode(header.sequence)],
            (3, Kind::Requests, 2) => vec![agree(header, packet)],
            unexpected => panic!("{unexpected:?}"),
        }
    });
    let mut client = Client::connect(address, patient()).unwrap();
    client.put(b"key", b"value").unwrap();
    assert_eq!(client.directory().epoch, 2);
    thread.join().unwrap();
}

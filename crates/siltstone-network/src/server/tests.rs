use super::worker::{Shared, run};
use super::*;
use crate::protocol::{
    DIRECTORY_BYTES, HEADER_BYTES, Header, Kind, Outcome, Refusal, RequestWriter, Responses,
    encode_directory_request,
};
use crate::transport::Burst;
use siltstone::batch::NEVER;
use siltstone_mica::{AccessMode, HashedKey, ItemLayout, Operation, Request};
use std::net::UdpSocket;
use std::time::Duration;

fn small() -> ServerSettings {
    ServerSettings { memory_bytes: 1 << 20, ..ServerSettings::default() }
}

/// A client that sends packets that no proper client would. A missing reply fails the test.
fn stranger() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

fn ask(server: &Server, core: usize, packet: &[u8]) -> (Vec<u8>, SocketAddr) {
    let socket = stranger();
    socket.send_to(packet, server.addresses()[core]).unwrap();
    let mut answer = vec![0; 1 << 16];
    let (length, from) = socket.recv_from(&mut answer).unwrap();
    assert!(length <= packet.len(), "{length} bytes for {}", packet.len());
    answer.truncate(length);
    (answer, from)
}

const GET: Operation<'static> = Operation::Get;

fn put(value: &[u8]) -> Operation<'_> {
    Operation::Put { value, expires_at_ms: NEVER }
}

fn packet(server: &Server, requests: &[(&[u8], Operation<'_>)]) -> Vec<u8> {
    let directory = server.directory();
    let mut bytes = Vec::new();
    let mut writer = RequestWriter::new(&mut bytes, directory.epoch, 7);
    for (key, operation) in requests {
        let key = HashedKey { hash: directory.hash(key), bytes: key };
        writer.add(&Request { key, operation: *operation }, 16);
    }
    bytes
}

fn outcomes(answer: &[u8]) -> Vec<(Outcome, Vec<u8>)> {
    let header = Header::decode(answer).unwrap();
    let responses = Responses::of(&header, answer).unwrap().map(Result::unwrap);
    responses.map(|response| (response.outcome, response.value.to_vec())).collect()
}

/// Returns a key of the partition of a core.
fn key_of(server: &Server, core: usize) -> Vec<u8> {
    let directory = server.directory();
    let cores = directory.core_ports.len();
    let key = (0..1_000u32)
        .map(u32::to_le_bytes)
        .find(|key| directory.partition(directory.hash(key)) % cores == core);
    key.unwrap().to_vec()
}

#[test]
fn responses_have_the_order_of_their_requests_and_the_sequence_of_the_packet() {
    for (partitions, verify_hashes) in [(1, false), (8, false), (1, true), (8, true)] {
        let server = Server::start(&ServerSettings { partitions, verify_hashes, ..small() }).unwrap();
        let requests: [(&[u8], Operation<'_>); 7] = [
            (b"one", GET),
            (b"one", put(b"first")),
            (b"two", put(b"second value")),
            (b"one", GET),
            (b"two", GET),
            (b"one", Operation::Delete),
            (b"one", GET),
        ];
        let (answer, from) = ask(&server, 0, &packet(&server, &requests));
        assert!(from == server.addresses()[0] && Header::decode(&answer).unwrap().sequence == 7);
        use Outcome::{Absent, Deleted, Found, Stored};
        let expected = [
            (Absent, &b""[..]),
            (Stored, b""),
            (Stored, b""),
            (Found, b"first"),
            (Found, b"second value"),
            (Deleted, b""),
            (Absent, b""),
        ];
        assert_eq!(outcomes(&answer), expected.map(|(outcome, value)| (outcome, value.to_vec())));
        let stats = server.stop().unwrap();
        assert_eq!((stats.counts.gets, stats.counts.hits, stats.items), (4, 2, Some(1)));
    }
}

#[test]
fn a_value_that_is_too_long_for_the_response_is_omitted_and_its_length_returned() {
    let server = Server::start(&small()).unwrap();
    ask(&server, 0, &packet(&server, &[(b"key", put(&[1; 100]))]));
    let (answer, _) = ask(&server, 0, &packet(&server, &[(b"key", GET)]));
    let header = Header::decode(&answer).unwrap();
    let response = Responses::of(&header, &answer).unwrap().next().unwrap().unwrap();
    assert_eq!((response.outcome, response.value_length), (Outcome::Long, 100));
    assert_eq!(server.stop().unwrap().counts.long_values, 1);
}

#[test]
fn malformed_and_foreign_packets_are_counted_and_refused_or_dropped() {
    let server = Server::start(&small()).unwrap();
    let valid = packet(&server, &[(b"key", put(b"value")), (b"key", GET)]);
    let refused = |packet: &[u8]| {
        let (answer, _) = ask(&server, 0, packet);
        let header = Header::decode(&answer).unwrap();
        assert!(answer.len() == HEADER_BYTES && header.kind == Kind::Refusal && header.sequence == 7);
        Refusal::from_code(header.count)
    };
    let changed = |at: usize, byte: u8| {
        let mut packet = valid.clone();
        packet[at] = byte;
        packet
    };
    assert_eq!(refused(&valid[..valid.len() - 8]), Refusal::Malformed);
    assert_eq!(refused(&[&valid[..], &[0; 8]].concat()), Refusal::Malformed);
    assert_eq!(refused(&changed(4, 3)), Refusal::Malformed, "a request too few");
    assert_eq!(refused(&changed(16, 9)), Refusal::Malformed, "unknown operation");
    assert_eq!(refused(&changed(2, 2)), Refusal::Version);
    assert_eq!(refused(&changed(6, valid[6] ^ 1)), Refusal::Stale);
    assert_eq!(refused(&[&valid[..], &[0; 1_472]].concat()), Refusal::Long);
    assert_eq!(refused(&encode_directory_request(7)[..DIRECTORY_BYTES - 1]), Refusal::Room);
    // These get no reply: a later request does.
    let socket = stranger();
    for foreign in [&b""[..], b"x", b"GET / HTTP/1.1\r\n\r\n", &changed(3, 2), &changed(3, 4), &changed(3, 5)]
    {
        socket.send_to(foreign, server.addresses()[0]).unwrap();
    }
    let (answer, _) = ask(&server, 0, &packet(&server, &[(b"key", GET)]));
    assert_eq!(outcomes(&answer)[0].0, Outcome::Absent, "no request of a malformed packet was executed");
    let counts = server.stop().unwrap().counts;
    assert_eq!((counts.malformed_packets, counts.stale_packets, counts.long_packets), (5, 1, 1));
    assert_eq!(counts.foreign_packets, 6);
    assert_eq!((counts.received_packets, counts.sent_packets), (15, 9));
    assert_eq!((counts.puts, counts.gets), (0, 1));
}

fn two_cores(access: AccessMode, redirects: bool) -> Server {
    Server::start(&ServerSettings { access, redirects, cores: 2, partitions: 4, ..small() }).unwrap()
}

#[test]
fn a_core_refuses_requests_that_its_mode_does_not_permit() {
    for (access, writes, reads) in [
        (AccessMode::Erew, Outcome::Misdirected, Outcome::Misdirected),
        (AccessMode::Crew, Outcome::Misdirected, Outcome::Absent),
        (AccessMode::Crcw, Outcome::Stored, Outcome::Found),
    ] {
        let server = two_cores(access, false);
        let key = key_of(&server, 1);
        let (answer, _) = ask(&server, 0, &packet(&server, &[(&key, put(b"value")), (&key, GET)]));
        assert_eq!(outcomes(&answer).iter().map(|one| one.0).collect::<Vec<_>>(), [writes, reads]);
        let (answer, _) = ask(&server, 1, &packet(&server, &[(&key, put(b"value")), (&key, GET)]));
        assert_eq!(outcomes(&answer)[1], (Outcome::Found, b"value".to_vec()));
        assert_eq!(server.stop().unwrap().items, Some(1));
    }
}

#[test]
fn a_packet_for_another_core_is_forwarded_if_the_server_redirects() {
    for access in [AccessMode::Erew, AccessMode::Crew] {
        let server = two_cores(access, true);
        let (near, far) = (key_of(&server, 0), key_of(&server, 1));
        for _ in 0..20 {
            let (answer, from) = ask(&server, 0, &packet(&server, &[(&far, put(b"far")), (&far, GET)]));
            assert_eq!(outcomes(&answer)[1], (Outcome::Found, b"far".to_vec()));
            assert_eq!(from, server.addresses()[1], "the owner replies");
            let (answer, from) = ask(&server, 0, &packet(&server, &[(&near, put(b"near"))]));
            assert_eq!(outcomes(&answer)[0].0, Outcome::Stored);
            assert_eq!(from, server.addresses()[0]);
        }
        let counts = server.stop().unwrap().counts;
        assert_eq!((counts.forwarded_packets, counts.misdirected, counts.puts), (20, 0, 40));
    }
}

/// A transport whose socket always has more packets, for some rounds.
struct Flooded<'a> {
    rounds: usize,
    stop: &'a AtomicBool,
}

impl Transport for Flooded<'_> {
    type Peer = usize;

    fn receive(&mut self, burst: &mut Burst<usize>) -> io::Result<()> {
        self.rounds += 1;
        self.stop.store(self.rounds == 10, SeqCst);
        burst.clear();
        while burst.push_bytes(0, b"of the socket") {}
        Ok(())
    }

    fn send(&mut self, _: &Burst<usize>) -> io::Result<usize> {
        Ok(0)
    }

    fn wait(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

/// Notes the senders of all packets.
struct Noting<'a> {
    mail: Mailboxes<usize>,
    senders: &'a mut Vec<usize>,
}

impl Service<usize> for Noting<'_> {
    fn collect(&mut self, received: &mut Burst<usize>) {
        self.mail.receive(received);
    }

    fn has_mail(&self) -> bool {
        self.mail.has_mail()
    }

    fn serve(&mut self, received: &mut Burst<usize>, _: &mut Burst<usize>, _: u64, _: &mut Counts) {
        self.senders.extend(received.packets().map(|(_, sender)| sender));
    }
}

#[test]
fn a_core_whose_socket_is_always_full_serves_what_others_forward() {
    for burst in [1, 8] {
        let bells = [Bell::new(Waker::new().unwrap())];
        let mail = Mailboxes::all(&bells).pop().unwrap();
        assert!(mail.send(0, b"forwarded", 7));
        let (stop, counters, mut senders) = (AtomicBool::new(false), Counters::default(), Vec::new());
        let shared = Shared { counters: &counters, bell: &bells[0], stop: &stop };
        let service = Noting { mail, senders: &mut senders };
        run(Flooded { rounds: 0, stop: &stop }, service, (burst, 64), &shared).unwrap();
        assert_eq!(senders.iter().position(|sender| *sender == 7), Some(burst), "after one burst");
        assert_eq!(senders.len(), 10 * burst + 1);
    }
}

#[test]
fn a_hash_that_is_not_that_of_its_key_is_detected_if_hashes_are_verified() {
    let server = Server::start(&ServerSettings { verify_hashes: true, ..small() }).unwrap();
    let mut bytes = packet(&server, &[(b"key", put(b"value")), (b"other", put(b"value"))]);
    bytes[HEADER_BYTES + 8] ^= 1;
    let (answer, _) = ask(&server, 0, &bytes);
    assert_eq!(
        outcomes(&answer).iter().map(|one| one.0).collect::<Vec<_>>(),
        [Outcome::WrongHash, Outcome::Stored]
    );
    let stats = server.stop().unwrap();
    assert_eq!((stats.counts.wrong_hashes, stats.counts.puts, stats.items), (1, 1, Some(1)));
}

#[test]
fn a_full_store_refuses_puts_after_expired_items_were_removed() {
    for access in [AccessMode::Erew, AccessMode::Crcw] {
        let settings = ServerSettings { memory_bytes: 64 << 10, record_bytes: 500, access, ..small() };
        let stored_of_300 = |expires_at_ms: u64| {
            let server = Server::start(&settings).unwrap();
            let all = (0..300u32).map(|key| {
                let put = Operation::Put { value: &[3; 500], expires_at_ms };
                outcomes(&ask(&server, 0, &packet(&server, &[(&key.to_le_bytes(), put)])).0)[0].0
            });
            let stored = all.filter(|outcome| *outcome == Outcome::Stored).count();
            assert_eq!(server.stop().unwrap().counts.refused_puts, 300 - stored as u64);
            stored
        };
        let held = stored_of_300(NEVER);
        assert!((60..150).contains(&held), "{held}");
        // Expired items are removed once per second, all of them at once.
        let in_turn = stored_of_300(1);
        assert!(in_turn > held + held / 2, "{in_turn} and {held}");
    }
}

#[test]
fn items_have_the_sizes_of_the_servers_settings() {
    let layout = ItemLayout { fixed: Some((3, 4)), expiring: false };
    let server = Server::start(&ServerSettings { layout, ..small() }).unwrap();
    let (answer, _) = ask(&server, 0, &packet(&server, &[(b"key", put(b"four")), (b"key", put(b"five5"))]));
    assert_eq!(
        outcomes(&answer).iter().map(|one| one.0).collect::<Vec<_>>(),
        [Outcome::Stored, Outcome::Shape]
    );
}

#[test]
fn an_echo_sends_back_what_it_received() {
    let server = Server::echo(&small()).unwrap();
    let (answer, _) = ask(&server, 0, b"anything at all");
    assert_eq!(answer, b"anything at all");
    assert_eq!(server.stop().unwrap().counts.sent_bytes, 15);
}

#[test]
fn settings_outside_their_limits_are_refused_and_named() {
    let refused = |settings: ServerSettings, name: &str| match Server::start(&settings) {
        Err(ServerError::Setting { name: told, .. }) => assert_eq!(told, name),
        Err(error) => panic!("{name}: {error}"),
        Ok(_) => panic!("{name} is accepted"),
    };
    refused(ServerSettings { partitions: 3, ..small() }, "partitions");
    refused(ServerSettings { partitions: 512, ..small() }, "partitions");
    refused(ServerSettings { cores: 0, ..small() }, "cores");
    refused(ServerSettings { cores: 2, ..small() }, "cores");
    refused(ServerSettings { port: 65_535, cores: 2, partitions: 2, ..small() }, "port");
    refused(ServerSettings { memory_bytes: 1, ..small() }, "memory_bytes");
    refused(ServerSettings { packet_bytes: 100, ..small() }, "packet_bytes");
    refused(ServerSettings { burst: 0, ..small() }, "burst");
    refused(ServerSettings { processors: vec![0, 1], ..small() }, "processors");
    refused(ServerSettings { redirects: true, access: AccessMode::Crcw, ..small() }, "redirects");
    let server = Server::start(&small()).unwrap();
    let port = server.addresses()[0].port();
    let taken = Server::start(&ServerSettings { port, ..small() });
    assert!(matches!(taken, Err(ServerError::Listen { .. })));
    let nowhere = ServerSettings { processors: vec![1_000_000], ..small() };
    assert!(matches!(Server::start(&nowhere), Err(ServerError::Start { core: 0, .. })));
}

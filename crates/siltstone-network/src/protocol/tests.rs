use super::*;
use siltstone_mica::{AccessMode, HashedKey, Operation, Reply, Request};

/// A request that owns its parts, for tests that generate them.
#[derive(Debug, Clone)]
struct Made {
    hash: u64,
    key: Vec<u8>,
    operation: u32,
    value: Vec<u8>,
    expires_at_ms: u64,
    room: usize,
}

fn made(random: &mut fastrand::Rng) -> Made {
    let lengths = [[1, 8, 9, 41], [0, 3, 8, 64]].map(|of| of[random.usize(..4)]);
    let [key, value] = lengths.map(|length| (0..length).map(|_| random.u8(..)).collect::<Vec<u8>>());
    Made {
        hash: random.u64(..),
        key,
        operation: random.u32(..3),
        value,
        expires_at_ms: if random.bool() { 0 } else { random.u64(..) },
        room: random.usize(..100),
    }
}

fn request(made: &Made) -> Request<'_> {
    let operation = match made.operation {
        0 => Operation::Get,
        1 => Operation::Put { value: &made.value, expires_at_ms: made.expires_at_ms },
        _ => Operation::Delete,
    };
    Request { key: HashedKey { hash: made.hash, bytes: &made.key }, operation }
}

fn same(one: &Request<'_>, other: &Request<'_>) -> bool {
    format!("{one:?}") == format!("{other:?}")
}

fn packet(requests: &[Made]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RequestWriter::new(&mut bytes, 6, 77);
    requests.iter().for_each(|one| writer.add(&request(one), one.room));
    bytes
}

#[test]
fn requests_are_decoded_as_they_were_encoded() {
    let mut random = fastrand::Rng::with_seed(1);
    for count in 1..60 {
        let requests: Vec<Made> = (0..count).map(|_| made(&mut random)).collect();
        let bytes = packet(&requests);
        let header = Header::decode(&bytes).unwrap();
        assert_eq!(header, Header { kind: Kind::Requests, count: count as u16, epoch: 6, sequence: 77 });
        let decoded: Vec<_> = Requests::of(&header, &bytes).unwrap().map(Result::unwrap).collect();
        assert_eq!(decoded.len(), count);
        assert_eq!(bytes.len(), HEADER_BYTES + decoded.iter().map(|(_, bytes)| bytes).sum::<usize>());
        for ((decoded, bytes), expected) in decoded.iter().zip(&requests) {
            assert!(same(decoded, &request(expected)) && bytes % 8 == 0);
            let is_get = matches!(decoded.operation, Operation::Get);
            assert!(!is_get || *bytes >= RESPONSE_BYTES_MIN + expected.room, "{bytes} for {expected:?}");
        }
    }
}

#[test]
fn a_request_for_a_short_value_needs_no_space_beyond_its_key() {
    let get = Made { hash: 1, key: vec![1; 8], operation: 0, value: vec![], expires_at_ms: 0, room: 16 };
    assert_eq!(packet(&[get]).len(), HEADER_BYTES + 24);
}

#[test]
fn responses_are_never_longer_than_their_requests_and_are_decoded_as_encoded() {
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..500 {
        let requests: Vec<Made> = (0..random.usize(1..20)).map(|_| made(&mut random)).collect();
        let bytes = packet(&requests);
        let header = Header::decode(&bytes).unwrap();
        let mut answer = vec![0xff; bytes.len()];
        let mut writer = ResponseWriter::new(&mut answer, &header);
        let mut expected = Vec::new();
        for (decoded, (one, room)) in
            requests.iter().zip(Requests::of(&header, &bytes).unwrap().map(Result::unwrap))
        {
            let value = vec![7; random.usize(..120)];
            let (outcome, value) = match one.operation {
                Operation::Get => (Outcome::Found, &value[..]),
                Operation::Put { .. } => (Outcome::Stored, &[][..]),
                Operation::Delete => (Outcome::Absent, &[][..]),
            };
            writer.add(&one.operation, outcome, value, room);
            let fits = RESPONSE_BYTES_MIN + value.len() + padding(value.len()) <= room;
            assert!(fits || value.len() > decoded.room);
            let (outcome, shown) = if fits { (outcome, value) } else { (Outcome::Long, &[][..]) };
            expected.push((outcome, shown.to_vec(), value.len() as u32));
        }
        let length = writer.finish();
        assert!(length <= bytes.len());
        let header = Header::decode(&answer[..length]).unwrap();
        assert!(header.kind == Kind::Responses && header.sequence == 77);
        let decoded: Vec<_> =
            Responses::of(&header, &answer[..length]).unwrap().map(Result::unwrap).collect();
        let decoded: Vec<_> =
            decoded.iter().map(|one| (one.outcome, one.value.to_vec(), one.value_length)).collect();
        assert_eq!(decoded, expected);
    }
}

#[test]
fn a_packet_that_is_cut_or_lengthened_is_refused() {
    let mut random = fastrand::Rng::with_seed(3);
    let bytes = packet(&(0..5).map(|_| made(&mut random)).collect::<Vec<_>>());
    let whole = |bytes: &[u8]| -> Result<usize, Malformed> {
        let header = Header::decode(bytes)?;
        Ok(Requests::of(&header, bytes)?.collect::<Result<Vec<_>, _>>()?.len())
    };
    assert!(whole(&bytes).is_ok());
    for length in 0..bytes.len() {
        let expected = if length < HEADER_BYTES { Malformed::Foreign } else { Malformed::Short };
        assert_eq!(whole(&bytes[..length]).unwrap_err(), expected, "{length}");
    }
    assert_eq!(whole(&[&bytes[..], &[0; 8]].concat()).unwrap_err(), Malformed::Long);
    let none = Header { kind: Kind::Requests, count: 0, epoch: 6, sequence: 1 }.encode();
    assert_eq!(whole(&none).unwrap_err(), Malformed::Empty);
}

#[test]
fn decoding_ends_for_any_bytes_of_a_packet() {
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..20_000 {
        let mut bytes = packet(&(0..random.usize(1..4)).map(|_| made(&mut random)).collect::<Vec<_>>());
        if random.bool() {
            bytes[3] = random.u8(1..6);
        }
        for _ in 0..random.usize(..5) {
            let at = random.usize(3..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        let Ok(header) = Header::decode(&bytes) else { continue };
        let most = bytes.len() / 8;
        assert!(Requests::of(&header, &bytes).map_or(0, |all| all.take(most + 2).count()) <= most + 1);
        assert!(Responses::of(&header, &bytes).map_or(0, |all| all.take(most + 2).count()) <= most + 1);
        if let Ok(directory) = Directory::decode(&bytes) {
            assert_eq!(directory.encode(header.sequence).len(), bytes.len());
        }
    }
}

#[test]
fn only_requests_are_refused() {
    let mut question = Header { kind: Kind::Requests, count: 1, epoch: 6, sequence: 9 }.encode();
    let answer = Header::decode(&Header::refusal(&question, Refusal::Malformed).unwrap()).unwrap();
    assert_eq!(
        answer,
        Header { kind: Kind::Refusal, count: Refusal::Malformed.code(), epoch: 6, sequence: 9 }
    );
    question[2] = VERSION + 1;
    assert_eq!(Header::decode(&question), Err(Malformed::Version(VERSION + 1)));
    assert!(Header::refusal(&question, Refusal::Version).is_some());
    for kind in [Kind::Responses, Kind::Directory, Kind::Refusal] {
        let bytes = Header { kind, count: 1, epoch: 6, sequence: 9 }.encode();
        assert!(Header::refusal(&bytes, Refusal::Malformed).is_none(), "{kind:?}");
    }
    assert!(Header::refusal(&question[..15], Refusal::Malformed).is_none());
    assert!(Header::refusal(b"GET / HTTP/1.1\r\n", Refusal::Malformed).is_none());
    for code in 0..10 {
        assert_eq!(Refusal::from_code(code).code(), code);
    }
}

fn directory(partitions: usize, cores: usize) -> Directory {
    Directory {
        epoch: 8,
        access: AccessMode::Crew,
        redirects: false,
        lossy: true,
        packet_bytes: 1_472,
        seed: [3, 4],
        partition_ports: (0..partitions as u16).map(|port| 1_000 + port).collect(),
        core_ports: (0..cores as u16).map(|port| 2_000 + port).collect(),
    }
}

#[test]
fn a_directory_is_decoded_as_encoded_and_not_longer_than_its_request() {
    for (partitions, cores) in [(1, 1), (16, 8), (PARTITIONS_MAX, CORES_MAX)] {
        let one = directory(partitions, cores);
        let bytes = one.encode(5);
        assert!(bytes.len() <= encode_directory_request(5).len());
        assert_eq!(Directory::decode(&bytes), Ok(one));
        assert_eq!(Directory::decode(&bytes[..bytes.len() - 1]), Err(Malformed::Short));
        assert_eq!(Directory::decode(&[&bytes[..], &[0]].concat()), Err(Malformed::Long));
    }
    let mut bytes = directory(4, 1).encode(5);
    bytes[18] = 3;
    assert_eq!(Directory::decode(&bytes), Err(Malformed::Directory), "3 partitions");
    const { assert!(DIRECTORY_BYTES <= PACKET_BYTES_MIN) };
}

#[test]
fn exclusive_requests_go_to_the_port_of_the_partition_and_others_to_any_core() {
    let one = directory(4, 2);
    let hash = 3 << 62;
    assert_eq!(one.port(hash, true, 0), 1_003);
    assert_eq!([0, 1, 2].map(|turn| one.port(hash, false, turn)), [2_000, 2_001, 2_000]);
    let exclusive = Directory { access: AccessMode::Erew, ..one.clone() };
    assert_eq!(exclusive.port(hash, false, 1), 1_003);
    let forwarding = Directory { redirects: true, ..exclusive };
    assert_eq!(forwarding.port(hash, true, 1), 2_001);
    assert_eq!(Directory { access: AccessMode::Crcw, ..one }.port(hash, true, 1), 2_001);
}

#[test]
fn every_outcome_has_a_code_of_its_own() {
    for code in 0..=u8::MAX {
        let mut packet = Header { kind: Kind::Responses, count: 1, epoch: 6, sequence: 0 }.encode().to_vec();
        packet.extend_from_slice(&[1, code, 0, 0, 0, 0, 0, 0]);
        let header = Header::decode(&packet).unwrap();
        let decoded = Responses::of(&header, &packet).unwrap().next().unwrap();
        match (1..=11).contains(&code) {
            true => assert_eq!(decoded.unwrap().outcome.code(), code),
            false => assert_eq!(decoded, Err(Malformed::Result)),
        }
    }
    assert_eq!(Outcome::of(&Reply::Found { value: b"", expires_at_ms: 0 }), Outcome::Found);
}

#[test]
fn packets_have_the_bytes_of_the_golden_file() {
    let key = HashedKey { hash: 0x0807_0605_0403_0201, bytes: b"golden" };
    let put = |expires_at_ms| Operation::Put { value: b"value", expires_at_ms };
    let operations = [Operation::Get, put(0), put(1_700_000_000_000), Operation::Delete];
    let mut all = Vec::new();
    let mut writer = RequestWriter::new(&mut all, 6, 77);
    operations.iter().for_each(|operation| writer.add(&Request { key, operation: *operation }, 20));
    let header = Header::decode(&all).unwrap();
    let mut responses = vec![0; all.len()];
    let mut writer = ResponseWriter::new(&mut responses, &header);
    writer.add(&operations[0], Outcome::Found, b"value", 64);
    writer.add(&operations[0], Outcome::Found, &[1; 100], 64);
    writer.add(&operations[1], Outcome::MemoryFull, b"", 64);
    let length = writer.finish();
    let refusal = Header::refusal(&all, Refusal::Stale).unwrap();
    all.extend_from_slice(&responses[..length]);
    all.extend(directory(4, 2).encode(5));
    all.extend_from_slice(&refusal);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/packets-v1.bin");
    if std::env::var_os("SILTSTONE_BLESS").is_some() {
        std::fs::write(path, &all).unwrap();
    }
    assert!(std::fs::read(path).unwrap() == all, "packets differ from docs/formats/packet.md");
}

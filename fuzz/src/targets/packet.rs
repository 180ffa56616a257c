//! Packets of MICA's network: decoding ends, and encoding the result gives equivalent bytes.

use siltstone_network::protocol::{
    Directory, HEADER_BYTES, Header, Outcome, RequestWriter, Requests, ResponseWriter, Responses, padding,
};

/// Decodes the bytes as a packet of any kind.
pub fn run(data: &[u8]) {
    let Ok(header) = Header::decode(data) else { return };
    assert_eq!(header.encode()[..], data[..HEADER_BYTES]);
    requests(&header, data);
    if let Ok(responses) = Responses::of(&header, data) {
        let values = responses.map_while(Result::ok).map(|response| response.value.len());
        assert!(values.sum::<usize>() < data.len());
    }
    if let Ok(directory) = Directory::decode(data) {
        assert_eq!(Directory::decode(&directory.encode(header.sequence)), Ok(directory));
    }
}

fn requests(header: &Header, data: &[u8]) {
    let Ok(requests) = Requests::of(header, data) else { return };
    let Ok(requests) = requests.collect::<Result<Vec<_>, _>>() else { return };
    assert_eq!(HEADER_BYTES + requests.iter().map(|(_, bytes)| bytes).sum::<usize>(), data.len());
    let mut again = Vec::new();
    let mut writer = RequestWriter::new(&mut again, header.epoch, header.sequence);
    requests.iter().for_each(|(request, bytes)| writer.add(request, bytes - 8));
    assert_eq!(again.len(), data.len());
    let decoded = Requests::of(header, &again).expect("as many").map(|one| one.expect("it was written").0);
    let said = |request| format!("{request:?}");
    assert!(decoded.map(said).eq(requests.iter().map(|(request, _)| said(*request))));
    // For any values, the response is not longer than the request.
    let mut answer = vec![0; data.len()];
    let mut writer = ResponseWriter::new(&mut answer, header);
    let mut expected = HEADER_BYTES;
    for (at, (request, bytes)) in requests.iter().enumerate() {
        let value = vec![7; at * 5 % 64];
        let outcome = writer.add(&request.operation, Outcome::Found, &value, *bytes);
        expected += if outcome == Outcome::Found { 8 + value.len() + padding(value.len()) } else { 8 };
    }
    assert!(writer.finish() == expected && expected <= data.len());
}

//! Ethernet frames with a UDP datagram over IPv4, whose headers the system's network stack would otherwise handle:
//!
//! ```text
//! | Ethernet 14 | IPv4 20 | UDP 8 | payload |
//! ```

/// The bytes of the headers before the payload: Ethernet 14, IPv4 without options 20, UDP 8.
pub const HEADERS_BYTES: usize = 42;

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const IPV4: [u8; 2] = [0x08, 0x00];
const VERSION_AND_LENGTH: u8 = 0x45;
const UDP: u8 = 17;
/// The bits that say whether more fragments follow, and the offset of this one.
const FRAGMENT_MASK: u16 = 0x3fff;
const TIME_TO_LIVE: u8 = 64;

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The address of the network card.
    pub mac: [u8; 6],
    /// The IPv4 address.
    pub ip: [u8; 4],
    /// The UDP port.
    pub port: u16,
}

/// The addresses of a received packet; its reply uses them in reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The other machine.
    pub remote: End,
    /// This machine.
    pub local: End,
}

fn array<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}

fn number(frame: &[u8], at: usize) -> Option<u16> {
    array(frame, at).map(u16::from_be_bytes)
}

/// Returns the flow and the payload of a received frame; `None` if it is not a complete UDP datagram over IPv4.
/// Checksums are not verified: network cards do that, and virtual ones never fill them in.
pub fn parse(frame: &[u8]) -> Option<(Flow, &[u8])> {
    let [version_and_length] = array(frame, ETHERNET_BYTES)?;
    let [protocol] = array(frame, 23)?;
    if array(frame, 12)? != IPV4
        || version_and_length != VERSION_AND_LENGTH
        || protocol != UDP
        || number(frame, 20)? & FRAGMENT_MASK != 0
    {
        return None;
    }
    let end = |mac, ip, port| {
        Some(End { mac: array(frame, mac)?, ip: array(frame, ip)?, port: number(frame, port)? })
    };
    let flow = Flow { local: end(0, 30, 36)?, remote: end(6, 26, 34)? };
    // Short frames are padded on the wire, so the length is that of the datagram.
    let length = usize::from(number(frame, 38)?);
    let within = usize::from(number(frame, 16)?).checked_sub(IP_BYTES)?;
    let payload = frame.get(HEADERS_BYTES..(ETHERNET_BYTES + IP_BYTES).checked_add(length)?)?;
    (length <= within).then_some((flow, payload))
}

/// Returns the headers of a frame with this payload, shorter than 65,508 bytes, from the local end of a flow to the
/// remote one.
pub fn headers(flow: &Flow, payload: &[u8]) -> [u8; HEADERS_BYTES] {
    let Flow { local, remote } = flow;
    let udp_length = (payload.len() + 8) as u16;
    let mut frame = [0; HEADERS_BYTES];
    frame[..6].copy_from_slice(&remote.mac);
    frame[6..12].copy_from_slice(&local.mac);
    frame[12..14].copy_from_slice(&IPV4);
    frame[14] = VERSION_AND_LENGTH;
    frame[16..18].copy_from_slice(&(udp_length + IP_BYTES as u16).to_be_bytes());
    frame[22] = TIME_TO_LIVE;
    frame[23] = UDP;
    frame[26..30].copy_from_slice(&local.ip);
    frame[30..34].copy_from_slice(&remote.ip);
    frame[34..36].copy_from_slice(&local.port.to_be_bytes());
    frame[36..38].copy_from_slice(&remote.port.to_be_bytes());
    frame[38..40].copy_from_slice(&udp_length.to_be_bytes());
    let of_header = folded(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&(!of_header).to_be_bytes());
    // The pseudo header: addresses, protocol and length.
    let pseudo = sum(&frame[26..34]) + u64::from(UDP) + u64::from(udp_length);
    let of_datagram = !folded(pseudo + sum(&frame[34..42]) + sum(payload));
    // 0 would mean that there is no checksum.
    let of_datagram = if of_datagram == 0 { u16::MAX } else { of_datagram };
    frame[40..42].copy_from_slice(&of_datagram.to_be_bytes());
    frame
}

/// Returns the sum of the bytes as big-endian 16-bit numbers; an odd byte at the end is padded with zero.
fn sum(bytes: &[u8]) -> u64 {
    let mut pairs = bytes.chunks_exact(2);
    let whole: u64 = pairs.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    whole + pairs.remainder().first().map_or(0, |last| u64::from(*last) << 8)
}

/// Folds the carries of a sum into 16 bits (RFC 1071).
fn folded(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Flow = Flow {
        remote: End { mac: [1, 2, 3, 4, 5, 6], ip: [10, 0, 0, 2], port: 40_000 },
        local: End { mac: [7, 8, 9, 10, 11, 12], ip: [10, 0, 0, 1], port: 11_411 },
    };

    fn frame(flow: &Flow, payload: &[u8]) -> Vec<u8> {
        [&headers(flow, payload)[..], payload].concat()
    }

    #[test]
    fn one_end_reads_what_the_other_sends() {
        let other = Flow { remote: FLOW.local, local: FLOW.remote };
        for length in [0, 1, 2, 7, 8, 100, 1_472] {
            let payload: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let mut frame = frame(&FLOW, &payload);
            frame.resize(frame.len().max(60), 0);
            assert_eq!(parse(&frame), Some((other, &payload[..])), "{length}");
        }
    }

    #[test]
    fn checksums_add_up_to_all_ones() {
        for payload in [&b""[..], b"x", b"some bytes", &[0xff; 1_001]] {
            let frame = frame(&FLOW, payload);
            assert_eq!(folded(sum(&frame[14..34])), u16::MAX);
            let length = (payload.len() + 8) as u64;
            let whole = sum(&frame[26..34]) + u64::from(UDP) + length + sum(&frame[34..]);
            assert_eq!(folded(whole), u16::MAX);
        }
        // The example of RFC 1071, section 3.
        assert_eq!(folded(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
    }

    #[test]
    fn foreign_and_damaged_frames_are_not_datagrams() {
        let sound = frame(&FLOW, b"payload");
        let changed = |at: usize, byte: u8| {
            let mut frame = sound.clone();
            frame[at] = byte;
            frame
        };
        for (at, byte) in [(12, 0x86), (14, 0x46), (20, 0x20), (21, 1), (23, 6), (38, 1), (39, 3), (39, 200)]
        {
            assert!(parse(&changed(at, byte)).is_none(), "{at}: {byte}");
        }
        assert!((0..sound.len()).all(|length| parse(&sound[..length]).is_none()));
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let mut frame = sound.clone();
            (0..random.usize(1..6)).for_each(|_| frame[random.usize(..sound.len())] = random.u8(..));
            frame.truncate(random.usize(..=sound.len()));
            assert!(parse(&frame).is_none_or(|(_, payload)| payload.len() + HEADERS_BYTES <= frame.len()));
        }
    }
}

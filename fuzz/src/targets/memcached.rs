//! Requests of memcached's text protocol and its meta commands: they do not depend on how their bytes arrive, and take no
//! memory beyond them.

use crate::input::Input;
use siltstone_server::protocol::{Limits, MemcachedParser};

/// What the bytes are: the words of each request, whether it is silent, and the error that ends them.
type Parsed = (Vec<(Vec<Vec<u8>>, bool)>, Option<&'static str>);

/// A small limit of a block, so that the fuzzer exceeds it.
const LIMITS: Limits = Limits { words_max: 100, word_bytes_max: 1000 };

/// Parses the bytes at once, and in pieces.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (seed, removes) = (input.u64(), input.u8().is_multiple_of(2));
    let whole = parse(input.0, |_| usize::MAX, false);
    let mut random = fastrand::Rng::with_seed(seed);
    assert_eq!(parse(input.0, |rest| random.usize(1..=rest.min(40)), removes), whole);
    assert_eq!(parse(input.0, |_| 1, true), whole);
    let words: usize = whole.0.iter().flat_map(|(words, _)| words).map(Vec::len).sum();
    assert!(words <= input.0.len());
}

/// Parses bytes that arrive in pieces of these lengths. Removes requests as they are complete if asked to.
fn parse(mut rest: &[u8], mut piece: impl FnMut(usize) -> usize, removes: bool) -> Parsed {
    let (mut buffer, mut parser, mut requests) = (Vec::new(), MemcachedParser::default(), Vec::new());
    while !rest.is_empty() {
        let (taken, later) = rest.split_at(piece(rest.len()).min(rest.len()));
        buffer.extend_from_slice(taken);
        rest = later;
        loop {
            match parser.next(&mut buffer, LIMITS) {
                Ok(Some(request)) => {
                    assert!(!request.words.is_empty());
                    let words = request.words(&buffer).into_iter().map(<[u8]>::to_vec).collect();
                    requests.push((words, request.is_silent));
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
        if removes {
            let removed = parser.needed_from();
            buffer.drain(..removed);
            parser.removed(removed);
        }
    }
    (requests, None)
}

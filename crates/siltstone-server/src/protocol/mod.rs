//! The bytes of RESP, Redis's protocol, versions 2 and 3: requests to words, and replies to bytes. No sockets.

mod inline;
mod reply;
mod request;

pub use reply::{REPLY_BYTES_MAX, Reply, Version};
pub use request::{Limits, ProtocolError, Request, RequestParser, number};

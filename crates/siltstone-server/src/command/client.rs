//! CLIENT: what a connection says of itself.

use super::arguments::{check_name, is};
use super::call::{Client, SessionCall};
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, Version};
use std::time::SystemTime;

pub fn client(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let client = &mut *call.client;
    match call.words {
        [_, subcommand] if is(subcommand, "ID") => reply.integer(client.id as i64),
        [_, subcommand] if is(subcommand, "GETNAME") => {
            reply.optional(Some(&client.name[..]).filter(|name| !name.is_empty()));
        }
        [_, subcommand] if is(subcommand, "INFO") => reply.text(&describe(client)),
        [_, subcommand, name] if is(subcommand, "SETNAME") => {
            check_name(name)?;
            client.name = name.to_vec();
            reply.ok();
        }
        [_, subcommand, field, value] if is(subcommand, "SETINFO") => {
            if check_name(value).is_err() {
                let field = String::from_utf8_lossy(field).to_lowercase();
                return Err(Failure::from(format!(
                    "ERR {field} cannot contain spaces, newlines or special characters."
                )));
            }
            if is(field, "LIB-NAME") {
                client.library.0 = value.to_vec();
            } else if is(field, "LIB-VER") {
                client.library.1 = value.to_vec();
            } else {
                let field = String::from_utf8_lossy(field);
                return Err(Failure::from(format!("ERR Unrecognized option '{field}'")));
            }
            reply.ok();
        }
        // Nothing is evicted by connection, and lookups keep no time of their last use.
        [_, subcommand, switch] if is(subcommand, "NO-EVICT") || is(subcommand, "NO-TOUCH") => {
            if !is(switch, "ON") && !is(switch, "OFF") {
                return Err(Failure::SYNTAX);
            }
            reply.ok();
        }
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

/// Returns the line of a connection, as CLIENT LIST has it.
pub(super) fn describe(client: &Client) -> String {
    let age = SystemTime::now().duration_since(client.since).unwrap_or_default().as_secs();
    let peer = client.peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
    let resp = if client.version == Version::Resp2 { 2 } else { 3 };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "id={} addr={peer} name={} age={age} db={} resp={resp} lib-name={} lib-ver={}\n",
        client.id,
        text(&client.name),
        client.database,
        text(&client.library.0),
        text(&client.library.1),
    )
}

//! What a script publishes. It is sent with what the script writes: a script that runs again, or is stopped, has sent
//! nothing.

use crate::command::call::{Command, Context};
use crate::command::channels::{Channels, Outbox};
use crate::command::cluster::Cluster;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use std::mem;
use std::sync::Arc;

/// Returns whether a command sends a message.
pub fn publishes(command: &Command) -> bool {
    ["publish", "spublish"].contains(&command.name)
}

const OTHER_NODE: Failure = Failure::new("ERR Script attempted to access a non local key in a cluster node");

/// The messages of the script that runs.
pub struct Messages {
    channels: Arc<Channels>,
    cluster: Option<Arc<Cluster>>,
    outbox: Outbox,
    bytes: usize,
    bytes_max: usize,
}

impl Messages {
    /// Makes what no script has published. The messages of a script have as many bytes as its memory at most.
    pub fn new(context: &Context) -> Messages {
        let bytes_max = context.limits.script_memory_bytes_max;
        let (channels, cluster) = (context.channels.clone(), context.cluster.clone());
        Messages { channels, cluster, outbox: Outbox::new(), bytes: 0, bytes_max }
    }

    /// Adds the message of a command, and replies with the number of its receivers.
    ///
    /// # Errors
    /// The messages before it have too many bytes; the channel belongs to the slot of another node.
    pub fn publish(&mut self, command: &Command, words: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        if self.bytes > self.bytes_max {
            return Err(Failure::from(format!(
                "ERR the messages of the script have more than {} bytes; publish fewer in a script",
                self.bytes_max
            )));
        }
        let first = self.outbox.len();
        let receivers = if command.keys.are_channels {
            if self.cluster.as_ref().is_some_and(|cluster| !cluster.is_own(words[1])) {
                return Err(OTHER_NODE);
            }
            self.channels.publish_in_slot(words[1], words[2], &mut self.outbox)
        } else {
            self.channels.publish(words[1], words[2], &mut self.outbox)
        };
        self.bytes += self.outbox[first..].iter().map(|(_, parcel)| parcel.bytes()).sum::<usize>();
        reply.integer(receivers as i64);
        Ok(())
    }

    /// Takes the messages of a script that has ended.
    pub fn take(&mut self) -> Outbox {
        self.bytes = 0;
        mem::take(&mut self.outbox)
    }
}

//! Who gets which messages: the channels and patterns with their subscribers, and the connections that monitor.
//!
//! ```text
//! channel "news" -> worker 0: [connection 3, connection 8]
//!                   worker 2: [connection 1]
//! ```
//!
//! 1. PUBLISH encodes the message once, and adds a [`Parcel`] for each worker to the outbox of its connection. The list
//!    of receivers is shared, not copied: a subscription copies it while a parcel has it.
//! 2. The worker sends the parcels of a turn to the other workers.
//! 3. A worker that gets a parcel appends the message to the output of each receiver that still wants it: a connection
//!    may have unsubscribed since.
//!
//! The table has a lock, which is held while receivers are looked up or changed, and never while sockets are used. The
//! messages of a connection arrive in their order.

use super::pattern;
use crate::protocol::push;
use siltstone::Bytes;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// The name of a channel or a pattern, which its subscribers share.
pub type Name = Arc<[u8]>;

/// A connection of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the connection in its worker.
    pub connection: usize,
    /// The number of the client, which no other connection has.
    pub client: u64,
}

/// What connections subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Channels.
    Channel,
    /// Patterns of channels.
    Pattern,
    /// Channels that belong to the slot of their name: in a cluster one node has all their subscribers.
    Shard,
}

const KINDS: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

/// Why a connection gets something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It has subscribed to this.
    Subscription(Kind, Name),
    /// It monitors.
    Monitor,
}

/// What a worker does for another one.
#[derive(Debug, Clone)]
pub enum Parcel {
    /// Sends bytes to those of some connections that still have subscribed.
    Push {
        /// What they have subscribed to.
        source: Source,
        /// The connections.
        receivers: Arc<Vec<Place>>,
        /// A message, as [`push`] encodes it, or lines of a monitor.
        bytes: Bytes,
    },
    /// Ends the subscriptions of connections to a channel of a slot that this server has no more.
    Revoke {
        /// The channel.
        name: Name,
        /// The connections.
        receivers: Arc<Vec<Place>>,
    },
    /// Ends a connection.
    Kill(Place),
    /// Nothing, but the worker looks at the settings, which have changed.
    Wake,
}

impl Parcel {
    /// Returns about how many bytes it takes until it is delivered.
    pub fn bytes(&self) -> usize {
        let bytes = if let Parcel::Push { bytes, .. } = self { bytes.len() } else { 0 };
        size_of::<Parcel>() + bytes
    }
}

/// What commands of a connection have for other connections: the numbers of workers, and parcels for these.
pub type Outbox = Vec<(usize, Parcel)>;

/// Connections, by the numbers of their workers.
#[derive(Debug, Default)]
struct Receivers(Vec<(usize, Arc<Vec<Place>>)>);

impl Receivers {
    fn add(&mut self, worker: usize, place: Place) {
        let at = self.0.iter().position(|(number, _)| *number == worker).unwrap_or_else(|| {
            self.0.push((worker, Arc::default()));
            self.0.len() - 1
        });
        Arc::make_mut(&mut self.0[at].1).push(place);
    }

    fn remove(&mut self, worker: usize, place: Place) {
        if let Some((_, places)) = self.0.iter_mut().find(|(number, _)| *number == worker) {
            Arc::make_mut(places).retain(|other| *other != place);
        }
        self.0.retain(|(_, places)| !places.is_empty());
    }

    fn count(&self) -> usize {
        self.0.iter().map(|(_, places)| places.len()).sum()
    }

    /// Adds a parcel for each worker. Returns the number of receivers.
    fn post(&self, source: &Source, bytes: &Bytes, outbox: &mut Outbox) -> usize {
        outbox.extend(self.0.iter().map(|(worker, receivers)| {
            let (source, receivers, bytes) = (source.clone(), receivers.clone(), bytes.clone());
            (*worker, Parcel::Push { source, receivers, bytes })
        }));
        self.count()
    }
}

/// The channels or the patterns with their subscribers, by name.
type Table = HashMap<Name, Receivers>;

#[derive(Debug, Default)]
struct Tables {
    /// By kind.
    subscribed: [Table; 3],
    monitors: Receivers,
}

/// The channels, patterns and monitors of a server.
#[derive(Debug, Default)]
pub struct Channels {
    tables: RwLock<Tables>,
    /// The number of monitors. Workers look at it before each run.
    monitors: AtomicUsize,
}

impl Tables {
    fn of(&mut self, kind: Kind) -> &mut Table {
        &mut self.subscribed[kind as usize]
    }

    /// Sends a message to the subscribers of a channel. Returns their number.
    fn post(
        &self,
        kind: Kind,
        channel: &[u8],
        message: impl FnOnce() -> Vec<u8>,
        outbox: &mut Outbox,
    ) -> usize {
        let found = self.subscribed[kind as usize].get_key_value(channel);
        found.map_or(0, |(name, subscribers)| {
            let source = Source::Subscription(kind, name.clone());
            subscribers.post(&source, &Bytes::from(message()), outbox)
        })
    }

    fn remove(&mut self, kind: Kind, name: &Name, worker: usize, place: Place) {
        let table = self.of(kind);
        if let Some(receivers) = table.get_mut(name) {
            receivers.remove(worker, place);
            if receivers.0.is_empty() {
                table.remove(name);
            }
        }
    }
}

impl Channels {
    fn read<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        change(&mut self.tables.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a message to the subscribers of a channel, and of the patterns that match it. Returns their number.
    pub fn publish(&self, channel: &[u8], text: &[u8], outbox: &mut Outbox) -> usize {
        self.read(|tables| {
            let message = || push::message(channel, text);
            let mut receivers = tables.post(Kind::Channel, channel, message, outbox);
            for name in tables.subscribed[Kind::Pattern as usize].keys() {
                if pattern::matches(name, channel) {
                    let message = || push::pattern_message(name, channel, text);
                    receivers += tables.post(Kind::Pattern, name, message, outbox);
                }
            }
            receivers
        })
    }

    /// Sends a message to the subscribers of a channel that belongs to a slot. Returns their number.
    pub fn publish_in_slot(&self, channel: &[u8], text: &[u8], outbox: &mut Outbox) -> usize {
        self.read(|tables| tables.post(Kind::Shard, channel, || push::shard_message(channel, text), outbox))
    }

    /// Ends the subscriptions to channels of slots that the server has no more, as Redis does when a slot has moved.
    pub fn revoke(&self, is_own: impl Fn(&[u8]) -> bool, outbox: &mut Outbox) {
        self.change(|tables| {
            tables.of(Kind::Shard).retain(|name, subscribers| {
                let is_own = is_own(name);
                if !is_own {
                    outbox.extend(subscribers.0.iter().map(|(worker, receivers)| {
                        let (name, receivers) = (name.clone(), receivers.clone());
                        (*worker, Parcel::Revoke { name, receivers })
                    }));
                }
                is_own
            });
        });
    }

    /// Adds a subscription of a connection, unless it has it.
    pub fn subscribe(&self, kind: Kind, name: &[u8], of: &mut Subscriptions, worker: usize, place: Place) {
        if of.names(kind).contains(name) {
            return;
        }
        let name = self.change(|tables| {
            let table = tables.of(kind);
            let name = table.get_key_value(name).map_or_else(|| Name::from(name), |(name, _)| name.clone());
            table.entry(name.clone()).or_default().add(worker, place);
            name
        });
        of.bytes += subscription_bytes(&name);
        of.names(kind).insert(name);
    }

    /// Removes a subscription of a connection, if it has it.
    pub fn unsubscribe(&self, kind: Kind, name: &[u8], of: &mut Subscriptions, worker: usize, place: Place) {
        if let Some(name) = of.remove(kind, name) {
            self.change(|tables| tables.remove(kind, &name, worker, place));
        }
    }

    /// Lets a connection get a line for each command.
    pub fn monitor(&self, of: &mut Subscriptions, worker: usize, place: Place) {
        if !std::mem::replace(&mut of.is_monitor, true) {
            self.change(|tables| {
                tables.monitors.add(worker, place);
                self.monitors.store(tables.monitors.count(), Relaxed);
            });
        }
    }

    /// Returns whether there are monitors.
    pub fn are_monitored(&self) -> bool {
        self.monitors.load(Relaxed) > 0
    }

    /// Sends lines to all monitors.
    pub fn post_to_monitors(&self, lines: Vec<u8>, outbox: &mut Outbox) {
        self.read(|tables| tables.monitors.post(&Source::Monitor, &Bytes::from(lines), outbox));
    }

    /// Removes all that a connection gets.
    pub fn release(&self, of: &mut Subscriptions, worker: usize, place: Place) {
        let of = std::mem::take(of);
        if of.count() == 0 && !of.is_monitor {
            return;
        }
        self.change(|tables| {
            for kind in KINDS {
                of.names[kind as usize].iter().for_each(|name| tables.remove(kind, name, worker, place));
            }
            tables.monitors.remove(worker, place);
            self.monitors.store(tables.monitors.count(), Relaxed);
        });
    }

    /// Returns the channels of a kind that have subscribers and match a pattern, if one is given, in their order.
    pub fn channels(&self, kind: Kind, wanted: Option<&[u8]>) -> Vec<Name> {
        let is_wanted = |name: &&Name| wanted.is_none_or(|wanted| pattern::matches(wanted, name));
        let mut names: Vec<Name> =
            self.read(|tables| tables.subscribed[kind as usize].keys().filter(is_wanted).cloned().collect());
        names.sort_unstable();
        names
    }

    /// Returns the number of subscribers of a channel, without those of patterns.
    pub fn subscribers(&self, kind: Kind, channel: &[u8]) -> usize {
        self.read(|tables| tables.subscribed[kind as usize].get(channel).map_or(0, Receivers::count))
    }

    /// Returns the numbers of what has subscribers, by [`Kind`].
    pub fn counts(&self) -> [usize; 3] {
        self.read(|tables| tables.subscribed.each_ref().map(HashMap::len))
    }
}

/// Returns the memory of a subscription, in bytes: its name, if no other connection has it, and its places in the sets.
pub fn subscription_bytes(name: &[u8]) -> usize {
    name.len() + 2 * size_of::<Name>() + 2 * size_of::<Place>() + size_of::<Receivers>()
}

/// What a connection gets without a request.
#[derive(Debug, Clone, Default)]
pub struct Subscriptions {
    /// By kind.
    names: [BTreeSet<Name>; 3],
    bytes: usize,
    is_monitor: bool,
}

impl Subscriptions {
    fn names(&mut self, kind: Kind) -> &mut BTreeSet<Name> {
        &mut self.names[kind as usize]
    }

    /// Removes a subscription, and returns its name, if it is there.
    pub fn remove(&mut self, kind: Kind, name: &[u8]) -> Option<Name> {
        let name = self.names(kind).take(name)?;
        self.bytes -= subscription_bytes(&name);
        Some(name)
    }

    /// Returns the names of a kind, in their order.
    pub fn all(&self, kind: Kind) -> Vec<Name> {
        self.names[kind as usize].iter().cloned().collect()
    }

    /// Returns whether the connection has subscribed to this.
    pub fn has(&self, source: &Source) -> bool {
        match source {
            Source::Subscription(kind, name) => self.names[*kind as usize].contains(name),
            Source::Monitor => self.is_monitor,
        }
    }

    /// Returns the numbers of subscriptions, by [`Kind`].
    pub fn counts(&self) -> [usize; 3] {
        self.names.each_ref().map(BTreeSet::len)
    }

    /// Returns the number of all subscriptions.
    pub fn count(&self) -> usize {
        self.counts().iter().sum()
    }

    /// Returns the number of subscriptions that confirmations of this kind have: channels and patterns together.
    pub fn confirmed(&self, kind: Kind) -> usize {
        let [channels, patterns, shards] = self.counts();
        if kind == Kind::Shard { shards } else { channels + patterns }
    }

    /// Returns whether the connection gets a line for each command.
    pub fn is_monitor(&self) -> bool {
        self.is_monitor
    }

    /// Returns the memory of the subscriptions, in bytes, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { connection: 3, client: 7 };

    /// Returns the workers, the connections and the texts of an outbox.
    fn shown(outbox: &Outbox) -> Vec<(usize, Vec<usize>, String)> {
        let show = |(worker, parcel): &(usize, Parcel)| match parcel {
            Parcel::Push { receivers, bytes, .. } => {
                let connections = receivers.iter().map(|place| place.connection).collect();
                (*worker, connections, String::from_utf8_lossy(bytes).lines().last().unwrap().to_owned())
            }
            Parcel::Kill(place) => (*worker, vec![place.connection], "killed".to_owned()),
            Parcel::Revoke { name, receivers } => {
                let connections = receivers.iter().map(|place| place.connection).collect();
                (*worker, connections, format!("revoked {}", String::from_utf8_lossy(name)))
            }
            Parcel::Wake => (*worker, Vec::new(), "woken".to_owned()),
        };
        outbox.iter().map(show).collect()
    }

    #[test]
    fn a_message_has_a_parcel_for_each_worker_and_each_pattern_that_matches() {
        let channels = Channels::default();
        let (mut one, mut other) = (Subscriptions::default(), Subscriptions::default());
        let place = Place { connection: 5, client: 8 };
        channels.subscribe(Kind::Channel, b"news", &mut one, 0, PLACE);
        channels.subscribe(Kind::Channel, b"news", &mut other, 1, place);
        channels.subscribe(Kind::Pattern, b"n*", &mut other, 1, place);
        channels.subscribe(Kind::Pattern, b"x*", &mut other, 1, place);
        let mut outbox = Outbox::new();
        assert_eq!(channels.publish(b"news", b"hi", &mut outbox), 3);
        let hi = || "hi".to_owned();
        assert_eq!(shown(&outbox), [(0, vec![3], hi()), (1, vec![5], hi()), (1, vec![5], hi())]);
        assert_eq!(channels.publish(b"other", b"hi", &mut outbox), 0);
        assert_eq!((channels.subscribers(Kind::Channel, b"news"), channels.counts()), (2, [1, 2, 0]));
    }

    #[test]
    fn a_connection_that_is_released_leaves_nothing() {
        let channels = Channels::default();
        let mut all = Subscriptions::default();
        channels.subscribe(Kind::Channel, b"a", &mut all, 0, PLACE);
        channels.subscribe(Kind::Channel, b"a", &mut all, 0, PLACE);
        channels.subscribe(Kind::Channel, b"b", &mut all, 0, PLACE);
        channels.subscribe(Kind::Pattern, b"*", &mut all, 0, PLACE);
        channels.subscribe(Kind::Shard, b"a", &mut all, 0, PLACE);
        channels.monitor(&mut all, 0, PLACE);
        assert_eq!((all.counts(), channels.subscribers(Kind::Channel, b"a")), ([2, 1, 1], 1));
        assert!(channels.are_monitored());
        channels.unsubscribe(Kind::Channel, b"b", &mut all, 0, PLACE);
        assert_eq!(channels.channels(Kind::Channel, None), [Name::from(*b"a")]);
        channels.release(&mut all, 0, PLACE);
        assert_eq!((all.count(), all.bytes(), channels.counts()), (0, 0, [0, 0, 0]));
        assert!(!channels.are_monitored() && channels.publish(b"a", b"", &mut Outbox::new()) == 0);
    }

    #[test]
    fn a_channel_of_a_slot_is_another_one_and_goes_with_its_slot() {
        let channels = Channels::default();
        let (mut one, mut other) = (Subscriptions::default(), Subscriptions::default());
        let place = Place { connection: 5, client: 8 };
        channels.subscribe(Kind::Shard, b"news", &mut one, 0, PLACE);
        channels.subscribe(Kind::Shard, b"kept", &mut one, 0, PLACE);
        channels.subscribe(Kind::Channel, b"news", &mut other, 1, place);
        channels.subscribe(Kind::Pattern, b"*", &mut other, 1, place);
        let mut outbox = Outbox::new();
        assert_eq!(channels.publish_in_slot(b"news", b"hi", &mut outbox), 1);
        assert_eq!(channels.publish(b"news", b"ho", &mut outbox), 2);
        let ho = || (1, vec![5], "ho".to_owned());
        assert_eq!(shown(&outbox), [(0, vec![3], "hi".to_owned()), ho(), ho()]);
        assert_eq!((one.confirmed(Kind::Shard), one.confirmed(Kind::Channel), one.count()), (2, 0, 2));
        outbox.clear();
        channels.revoke(|name| name == b"kept", &mut outbox);
        assert_eq!(shown(&outbox), [(0, vec![3], "revoked news".to_owned())]);
        assert_eq!(channels.channels(Kind::Shard, None), [Name::from(*b"kept")]);
        channels.release(&mut one, 0, PLACE);
        assert_eq!(channels.counts(), [1, 1, 0]);
    }

    #[test]
    fn a_parcel_keeps_its_receivers_when_one_of_them_unsubscribes() {
        let channels = Channels::default();
        let (mut subscriptions, mut outbox) = (Subscriptions::default(), Outbox::new());
        channels.subscribe(Kind::Channel, b"a", &mut subscriptions, 0, PLACE);
        channels.publish(b"a", b"text", &mut outbox);
        channels.unsubscribe(Kind::Channel, b"a", &mut subscriptions, 0, PLACE);
        assert_eq!(shown(&outbox), [(0, vec![3], "text".to_owned())]);
        let Parcel::Push { source, .. } = &outbox[0].1 else { panic!("it is a message") };
        assert!(!subscriptions.has(source), "so the worker does not deliver it");
    }
}

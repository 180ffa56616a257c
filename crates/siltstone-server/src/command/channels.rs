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

/// Why a connection gets something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// It has subscribed to a channel.
    Channel(Name),
    /// It has subscribed to a pattern.
    Pattern(Name),
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

/// The channels or the patterns by name.
type Table = HashMap<Name, Receivers>;

#[derive(Debug, Default)]
struct Tables {
    channels: Table,
    patterns: Table,
    monitors: Receivers,
}

/// The channels, patterns and monitors of a server.
#[derive(Debug, Default)]
pub struct Channels {
    tables: RwLock<Tables>,
    /// The number of monitors. Workers look at it before each run.
    monitors: AtomicUsize,
}

/// Channels or patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Channels.
    Channel,
    /// Patterns of channels.
    Pattern,
}

impl Tables {
    fn of(&mut self, kind: Kind) -> &mut Table {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
        }
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
            let mut receivers = 0;
            if let Some((name, subscribers)) = tables.channels.get_key_value(channel) {
                let bytes = Bytes::from(push::message(channel, text));
                receivers += subscribers.post(&Source::Channel(name.clone()), &bytes, outbox);
            }
            for (name, subscribers) in &tables.patterns {
                if pattern::matches(name, channel) {
                    let bytes = Bytes::from(push::pattern_message(name, channel, text));
                    receivers += subscribers.post(&Source::Pattern(name.clone()), &bytes, outbox);
                }
            }
            receivers
        })
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
        if let Some(name) = of.names(kind).take(name) {
            of.bytes -= subscription_bytes(&name);
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
        let Subscriptions { channels, patterns, is_monitor, .. } = std::mem::take(of);
        if channels.is_empty() && patterns.is_empty() && !is_monitor {
            return;
        }
        self.change(|tables| {
            channels.iter().for_each(|name| tables.remove(Kind::Channel, name, worker, place));
            patterns.iter().for_each(|name| tables.remove(Kind::Pattern, name, worker, place));
            tables.monitors.remove(worker, place);
            self.monitors.store(tables.monitors.count(), Relaxed);
        });
    }

    /// Returns the channels with subscribers that match a pattern, if one is given, in their order.
    pub fn channels(&self, wanted: Option<&[u8]>) -> Vec<Name> {
        let is_wanted = |name: &&Name| wanted.is_none_or(|wanted| pattern::matches(wanted, name));
        let mut names: Vec<Name> =
            self.read(|tables| tables.channels.keys().filter(is_wanted).cloned().collect());
        names.sort_unstable();
        names
    }

    /// Returns the number of subscribers of a channel, without those of patterns.
    pub fn subscribers(&self, channel: &[u8]) -> usize {
        self.read(|tables| tables.channels.get(channel).map_or(0, Receivers::count))
    }

    /// Returns the numbers of channels and of patterns that have subscribers.
    pub fn counts(&self) -> [usize; 2] {
        self.read(|tables| [tables.channels.len(), tables.patterns.len()])
    }
}

/// Returns the memory of a subscription, in bytes: its name, if no other connection has it, and its places in the sets.
pub fn subscription_bytes(name: &[u8]) -> usize {
    name.len() + 2 * size_of::<Name>() + 2 * size_of::<Place>() + size_of::<Receivers>()
}

/// What a connection gets without a request.
#[derive(Debug, Clone, Default)]
pub struct Subscriptions {
    channels: BTreeSet<Name>,
    patterns: BTreeSet<Name>,
    bytes: usize,
    is_monitor: bool,
}

impl Subscriptions {
    fn names(&mut self, kind: Kind) -> &mut BTreeSet<Name> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
        }
    }

    /// Returns the channels or the patterns, in their order.
    pub fn all(&self, kind: Kind) -> Vec<Name> {
        match kind {
            Kind::Channel => self.channels.iter().cloned().collect(),
            Kind::Pattern => self.patterns.iter().cloned().collect(),
        }
    }

    /// Returns whether the connection has subscribed to this.
    pub fn has(&self, source: &Source) -> bool {
        match source {
            Source::Channel(name) => self.channels.contains(name),
            Source::Pattern(name) => self.patterns.contains(name),
            Source::Monitor => self.is_monitor,
        }
    }

    /// Returns the numbers of channels and of patterns.
    pub fn counts(&self) -> [usize; 2] {
        [self.channels.len(), self.patterns.len()]
    }

    /// Returns the number of channels and patterns.
    pub fn count(&self) -> usize {
        self.counts().iter().sum()
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
        assert_eq!((channels.subscribers(b"news"), channels.counts()), (2, [1, 2]));
    }

    #[test]
    fn a_connection_that_is_released_leaves_nothing() {
        let channels = Channels::default();
        let mut all = Subscriptions::default();
        channels.subscribe(Kind::Channel, b"a", &mut all, 0, PLACE);
        channels.subscribe(Kind::Channel, b"a", &mut all, 0, PLACE);
        channels.subscribe(Kind::Channel, b"b", &mut all, 0, PLACE);
        channels.subscribe(Kind::Pattern, b"*", &mut all, 0, PLACE);
        channels.monitor(&mut all, 0, PLACE);
        assert_eq!((all.counts(), channels.subscribers(b"a")), ([2, 1], 1));
        assert!(channels.are_monitored());
        channels.unsubscribe(Kind::Channel, b"b", &mut all, 0, PLACE);
        assert_eq!(channels.channels(None), [Name::from(*b"a")]);
        channels.release(&mut all, 0, PLACE);
        assert_eq!((all.count(), all.bytes(), channels.counts()), (0, 0, [0, 0]));
        assert!(!channels.are_monitored() && channels.publish(b"a", b"", &mut Outbox::new()) == 0);
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

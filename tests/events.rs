//! Events. One test, because `tracing` decides for all threads of a process which events are wanted.
#![cfg(feature = "tracing")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use siltstone::{Database, FlashKeySettings, SiltSettings};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Collects the events of one thread as lines.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<String>>);

impl Visit for Collector {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0.lock().unwrap(), " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "siltstone"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        write!(self.0.lock().unwrap(), "\n{}", event.metadata().level()).unwrap();
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn events_of(work: impl FnOnce()) -> String {
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), work);
    let text = collector.0.lock().unwrap();
    text.clone()
}

#[test]
fn openings_jobs_and_slow_operations_are_events() {
    let directory = tempfile::tempdir().unwrap();
    let builder = |name: &str| Database::builder(directory.path().join(name)).background_threads(0);
    let seen = events_of(|| {
        let database = builder("silt").engine(SiltSettings::default());
        let database = database.slow_operations(Duration::ZERO).open().unwrap();
        database.put("key", "value").unwrap();
        database.compact().unwrap();
        database.close().unwrap();
    });
    for wanted in [
        "INFO message=opened path=",
        "WARN message=slow operation operation=\"write\" elapsed=",
        "DEBUG message=background work begins job=\"merge\"",
        "DEBUG message=background work ends job=\"merge\"",
        "INFO message=closing path=",
    ] {
        assert!(seen.contains(wanted), "{wanted}: {seen}");
    }
    let seen = events_of(|| {
        let database = builder("flashkey").engine(FlashKeySettings::default()).open().unwrap();
        database.put("key", "value").unwrap();
        database.compact().unwrap();
    });
    assert!(seen.contains("background work begins job="), "{seen}");
}

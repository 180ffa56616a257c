//! Servers of small databases.

use crate::client::Client;
use siltstone::{Database, Dictionary, Durability, EngineKind};
use siltstone_server::{
    DatabaseStore, Inherited, Limits, Listen, Mount, PlacesSettings, Server, ServerSettings,
};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// An address of this machine, with a port that the system chooses.
pub const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A server with its directory.
pub struct Served {
    pub server: Server,
    pub directory: TempDir,
}

impl Served {
    pub fn client(&self) -> Client {
        Client::connect(self.server.redis_address().unwrap())
    }
}

/// Returns settings for the databases below a directory.
pub fn settings(directory: &Path) -> ServerSettings {
    ServerSettings {
        listeners: vec![Listen::redis(LOCAL), Listen::memcached(LOCAL)],
        inherited: Inherited::default(),
        unix_permissions: None,
        tls: None,
        metrics: Some("127.0.0.1:0".parse().unwrap()),
        workers: 2,
        helpers: 1,
        password: None,
        users: None,
        unprotected: false,
        durability: Durability::Written,
        limits: Limits::default(),
        memory: None,
        cluster: None,
        follow: None,
        places: PlacesSettings {
            directory: Some(directory.join("databases")),
            databases: 16,
            mounts: Vec::new(),
            are_shares_fixed: false,
            open: Box::new(|path, form, memory| {
                let mut builder = Database::builder(path).background_threads(1);
                if let Some(bytes) = memory {
                    builder = builder.memory_budget(bytes);
                }
                let database = builder.open()?;
                Ok(Arc::new(DatabaseStore::new(database, form)))
            }),
            dictionary: Dictionary::options(),
            are_values_typed: true,
        },
    }
}

/// Starts a server with these changes of the settings, on a database 0 that `fill` has filled.
pub fn serve_with(
    fill: impl FnOnce(&Database),
    engine: EngineKind,
    change: impl FnOnce(&mut ServerSettings),
) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("databases/0");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut builder = Database::builder(&path).engine(engine);
    if engine == EngineKind::FlashStore {
        let disk = directory.path().join("disk");
        builder =
            builder.set("disk", disk.display()).set("segment_bytes", 65_536).set("flash_bytes", 16 << 20);
    }
    let database = builder.open().unwrap();
    fill(&database);
    let mut settings = settings(directory.path());
    if engine == EngineKind::Mica {
        // Its records are in memory, so it cannot be opened again.
        settings.places.open =
            Box::new(move |_, form, _| Ok(Arc::new(DatabaseStore::new(database.clone(), form))));
        settings.places.are_values_typed = false;
    } else {
        database.close().unwrap();
    }
    change(&mut settings);
    Served { server: Server::start(settings).unwrap(), directory }
}

/// Starts a server on a small database.
pub fn serve() -> Served {
    serve_with(fill, EngineKind::Silt, |_| {})
}

/// Puts some records.
pub fn fill(database: &Database) {
    database.put("greeting", "Hello World").unwrap();
    database.put("empty", "").unwrap();
    database.put([0, 255, b'\r', b'\n'], [b'\r', b'\n', 0]).unwrap();
    let options = siltstone::WriteOptions::default().expires_in(Duration::from_secs(1000));
    database.put_with("expiring", "soon", options).unwrap();
    let past = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 - 1;
    database.put_with("expired", "gone", siltstone::WriteOptions::default().expires_at_ms(past)).unwrap();
    for number in 0..1000 {
        database.put(format!("key:{number}"), format!("value:{number}")).unwrap();
    }
    if database.stats().shape.block_bytes > 0 {
        database.compact().unwrap();
    }
}

/// Starts a server of a dictionary at number 3.
pub fn serve_dictionary(records: &[(&str, &str)]) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("served.dict");
    Dictionary::builder().build(&path, records.iter().copied()).unwrap();
    let mut settings = settings(directory.path());
    settings.places.mounts = vec![Mount { number: 3, path }];
    Served { server: Server::start(settings).unwrap(), directory }
}

//! A database in an asynchronous program.
//!
//! Calls that may read flash or sync block their thread, so they run in tokio's blocking threads. A handle is cheap to
//! clone. Single gets of many tasks are collected and become one `get_many`, whose reads overlap: this takes one
//! blocking thread instead of one per get.
//!
//! Run with `cargo run --example tokio`. `tokio_gets.rs` measures it.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Bytes, Database, Error, Result};
use std::io;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

type Request = (Vec<u8>, oneshot::Sender<Result<Option<Bytes>>>);

/// The most gets of one call.
const BATCH: usize = 256;

/// Gets of many tasks, collected.
#[derive(Clone)]
pub(crate) struct Gets(mpsc::Sender<Request>);

impl Gets {
    /// Starts the thread that looks keys up. It ends when the last clone is dropped.
    pub(crate) fn of(database: Database) -> Gets {
        let (sender, mut requests) = mpsc::channel::<Request>(4 * BATCH);
        spawn_blocking(move || {
            let mut batch = Vec::with_capacity(BATCH);
            while requests.blocking_recv_many(&mut batch, BATCH) > 0 {
                let (keys, replies): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
                // A task that no longer waits is no error.
                match database.get_many(&keys) {
                    Ok(found) => {
                        replies.into_iter().zip(found).for_each(|(reply, value)| drop(reply.send(Ok(value))))
                    }
                    Err(error) => replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone())))),
                }
            }
        });
        Gets(sender)
    }

    /// Returns the value of a key.
    pub(crate) async fn get(&self, key: impl Into<Vec<u8>>) -> Result<Option<Bytes>> {
        let (reply, value) = oneshot::channel();
        self.0.send((key.into(), reply)).await.map_err(|_| Error::Closed)?;
        value.await.map_err(|_| Error::Closed)?
    }
}

/// Puts a record without blocking the caller's thread.
async fn put(database: &Database, key: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
    let database = database.clone();
    Ok(spawn_blocking(move || database.put(key, value)).await??)
}

#[tokio::main]
pub(crate) async fn main() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let database = Database::open(directory.path().join("db"))?;
    for number in 0..1000u32 {
        put(&database, number.to_be_bytes().to_vec(), number.to_string().into_bytes()).await?;
    }
    let gets = Gets::of(database.clone());
    let tasks: Vec<_> = (0..2000u32)
        .map(|number| {
            tokio::spawn({
                let gets = gets.clone();
                async move { gets.get(number.to_be_bytes()).await }
            })
        })
        .collect();
    let mut found = 0;
    for task in tasks {
        found += usize::from(task.await??.is_some());
    }
    println!("{found} of 2000 keys are there");
    assert_eq!(found, 1000);
    Ok(spawn_blocking(move || database.close()).await??)
}

//! A crawler in tokio, whose set of seen links forgets a link after a week, so that its page is visited again.
//!
//! Many workers wait for the network at once. The links of a page are looked up and added in one call, in a blocking
//! thread, because it may read flash. Each link is new to exactly one worker.
//!
//! Run with `cargo run --example crawler`. `seen_set.rs` is the same set in a program with threads.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

use siltstone::{Database, Result, SiltSettings, WriteOptions};
use std::io;
use std::time::Duration;
use tokio::task::{JoinSet, spawn_blocking, yield_now};

/// The pages that are visited at the same time.
const WORKERS: usize = 16;
const A_WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const PAGES: u64 = 3_000;

/// Returns the links of a page; a real one asks the network.
async fn fetch(page: u64) -> Vec<u64> {
    yield_now().await;
    (1..=20).map(|link| (page * 7 + link * link) % PAGES).collect()
}

/// Returns the links that nobody has seen for a week, and adds them to the set.
fn new_links(seen: &Database, links: &[u64]) -> Result<Vec<u64>> {
    let records: Vec<_> = links.iter().map(|link| (link.to_be_bytes(), [])).collect();
    let inserted = seen.insert_many_if_absent_with(&records, WriteOptions::default().expires_in(A_WEEK))?;
    Ok(links.iter().zip(inserted).filter(|(_, is_new)| *is_new).map(|(link, _)| *link).collect())
}

/// Visits a page, and returns the new links on it.
async fn visit(seen: Database, page: u64) -> io::Result<Vec<u64>> {
    let links = fetch(page).await;
    Ok(spawn_blocking(move || new_links(&seen, &links)).await??)
}

/// Visits all pages that can be reached from one, and returns how many these are.
async fn crawl(seen: &Database, start: u64) -> io::Result<usize> {
    let (mut waiting, mut workers, mut visited) = (vec![start], JoinSet::new(), 0);
    loop {
        while workers.len() < WORKERS
            && let Some(page) = waiting.pop()
        {
            workers.spawn(visit(seen.clone(), page));
        }
        let Some(links) = workers.join_next().await else { return Ok(visited) };
        waiting.extend(links??);
        visited += 1;
    }
}

#[tokio::main]
pub(crate) async fn main() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    // 8.4 bits of RAM per link, so that a link that was not seen reads nothing in 99 of 100 cases.
    let settings = SiltSettings::default().filter_last_store(Some(8));
    let seen =
        Database::builder(directory.path().join("seen")).engine(settings).memory_budget(64 << 20).open()?;
    let visited = crawl(&seen, 0).await?;
    println!("{visited} pages were visited, {} links seen", seen.len()?);
    // The first page twice: a link to it was found on another page.
    assert_eq!((visited as u64, seen.len()?), (PAGES + 1, PAGES));
    assert_eq!(crawl(&seen, 0).await?, 1, "before the week is over only the first page is visited");
    let expires_at_ms = seen.get_found(7u64.to_be_bytes())?.map(|found| found.expires_at_ms);
    assert!(expires_at_ms > Some(WriteOptions::default().expires_in(A_WEEK / 2).expires_at_ms));
    Ok(spawn_blocking(move || seen.close()).await??)
}

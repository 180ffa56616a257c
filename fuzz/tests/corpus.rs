//! Runs every target with its corpus and simple mutations of it, as libFuzzer does at length.

use siltstone_fuzz::{TARGETS, Target};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// The number of mutations per target.
const MUTATIONS: u64 = 3000;
/// The maximum length of an input, in bytes, which is also libFuzzer's.
const INPUT_BYTES_MAX: usize = 4096;

/// Numbers at which computations of lengths and offsets tend to fail.
const EDGES: [u64; 10] = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX / 2, u64::MAX];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    files(&root().join("corpus").join(target.name)).iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Returns a mutation of an input of the corpus.
fn mutated(corpus: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = corpus[random.usize(..corpus.len())].clone();
    for _ in 0..1 << random.u32(..4) {
        let at = random.usize(..=bytes.len());
        let end = random.usize(at..=bytes.len().min(at + 32));
        match random.u8(..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.u32(..8),
            1 if at < bytes.len() => bytes[at] = random.u8(..),
            2 => {
                let edge = EDGES[random.usize(..EDGES.len())].to_le_bytes();
                for (byte, new) in bytes[at..].iter_mut().zip(&edge[..1 << random.u32(..4)]) {
                    *byte = *new;
                }
            }
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let other = &corpus[random.usize(..corpus.len())];
                let start = random.usize(..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[start..]);
            }
            _ => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

/// Saves the input if the target panics.
struct Input<'a>(&'a Target, &'a [u8]);

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let file = std::env::temp_dir().join(format!("{}.input", self.0.name));
            fs::write(&file, self.1).unwrap();
            eprintln!("target {}: the input is in {}", self.0.name, file.display());
        }
    }
}

fn run(target: &Target, bytes: &[u8]) {
    let input = Input(target, bytes);
    (target.run)(bytes);
    drop(input);
}

#[test]
fn no_target_is_broken_by_its_corpus_or_by_mutations_of_it() {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(target) = TARGETS.get(next.fetch_add(1, Relaxed)) {
            run_mutations(target);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

fn run_mutations(target: &Target) {
    let (corpus, begin) = (corpus(target), Instant::now());
    corpus.iter().for_each(|bytes| run(target, bytes));
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..MUTATIONS {
        run(target, &mutated(&corpus, &mut random));
    }
    println!("{}: {} inputs, {:?}", target.name, corpus.len(), begin.elapsed());
}

#[test]
fn every_format_has_its_target() {
    let read: BTreeSet<&str> = TARGETS.iter().flat_map(|target| target.formats).copied().collect();
    let pages = files(&root().join("../docs/formats"));
    let pages: Vec<_> = pages.iter().map(|page| page.file_stem().unwrap().to_str().unwrap()).collect();
    let without: Vec<_> = pages.iter().filter(|page| !read.contains(**page)).collect();
    assert!(without.is_empty(), "no target reads {without:?}");
    assert!(read.iter().all(|format| pages.contains(format)), "{read:?}");
}

#[test]
fn every_corpus_has_its_target() {
    for directory in files(&root().join("corpus")) {
        let name = directory.file_name().unwrap().to_str().unwrap();
        assert!(siltstone_fuzz::target(name).is_some(), "corpus/{name}");
    }
}

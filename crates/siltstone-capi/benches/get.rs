//! Compares `siltstone_get` and `siltstone_get_into` of the shared library, called as a C program calls them, with
//! `Database::get` and `Database::get_into` of Rust: both read the same database, in turn, and the median of the ratios
//! of all repetitions is printed, with the least and the largest. Where a database has its memory depends on which of
//! them was opened first, so that changes from repetition to repetition.
//!
//! `cargo bench --package siltstone-capi`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and fails by panicking")]

use libloading::{Library, Symbol};
use siltstone::Database;
use siltstone_capi as capi;
use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::time::Instant;

const RECORDS: u64 = 200_000;
const VALUE_BYTES: usize = 100;
const GETS_PER_ROUND: u64 = 2_000;
const PAIRS: u64 = 100;
/// How often both are opened.
const REPETITIONS: usize = 8;
const MEMORY_BUDGET: &str = "128MiB";

type Open = unsafe extern "C" fn(*const c_char, *const capi::Options, *mut *mut c_char) -> *mut capi::Db;
type Close = unsafe extern "C" fn(*mut capi::Db, *mut *mut c_char) -> bool;
type Get =
    unsafe extern "C" fn(*const capi::Db, *const c_void, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
type GetInto = unsafe extern "C" fn(
    *const capi::Db,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *mut usize,
    *mut *mut c_char,
) -> bool;
type Free = unsafe extern "C" fn(*mut c_void);
type CreateOptions = extern "C" fn() -> *mut capi::Options;
type SetOption = unsafe extern "C" fn(*mut capi::Options, *const c_char, *const c_char);

/// The functions of the shared library.
struct Interface<'l> {
    open: Symbol<'l, Open>,
    close: Symbol<'l, Close>,
    get: Symbol<'l, Get>,
    get_into: Symbol<'l, GetInto>,
    free: Symbol<'l, Free>,
    create_options: Symbol<'l, CreateOptions>,
    set_option: Symbol<'l, SetOption>,
}

impl Interface<'_> {
    fn of(library: &Library) -> Interface<'_> {
        // SAFETY: the library is that of this package, whose functions have these types.
        unsafe {
            Interface {
                open: library.get(b"siltstone_open").unwrap(),
                close: library.get(b"siltstone_close").unwrap(),
                get: library.get(b"siltstone_get").unwrap(),
                get_into: library.get(b"siltstone_get_into").unwrap(),
                free: library.get(b"siltstone_free").unwrap(),
                create_options: library.get(b"siltstone_options_create").unwrap(),
                set_option: library.get(b"siltstone_options_set").unwrap(),
            }
        }
    }

    fn open(&self, path: &Path, settings: &[(&str, &str)]) -> *mut capi::Db {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        let options = (self.create_options)();
        for (name, value) in settings {
            let (name, value) = (CString::new(*name).unwrap(), CString::new(*value).unwrap());
            // SAFETY: the options are new, and the texts end with a zero.
            unsafe { (self.set_option)(options, name.as_ptr(), value.as_ptr()) };
        }
        // SAFETY: the options are not freed.
        let database = unsafe { (self.open)(path.as_ptr(), options, null_mut()) };
        assert!(!database.is_null());
        database
    }
}

/// Returns key number `n` of a round, in an order that looks random.
fn key(number: u64) -> [u8; 8] {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % RECORDS).to_be_bytes()
}

/// Returns the nanoseconds per get of a round.
fn time(first: u64, mut get: impl FnMut(&[u8; 8])) -> f64 {
    let begin = Instant::now();
    (first..first + GETS_PER_ROUND).for_each(|number| get(&key(number)));
    begin.elapsed().as_nanos() as f64 / GETS_PER_ROUND as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The shared library that was compiled for this benchmark.
fn library() -> PathBuf {
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let name = libloading::library_filename("siltstone_capi");
    [directory.join(&name), directory.join("..").join(&name)].into_iter().find(|path| path.exists()).unwrap()
}

fn fill(path: &Path) {
    let database = Database::open(path).unwrap();
    for number in 0..RECORDS {
        database.put(number.to_be_bytes(), [number as u8; VALUE_BYTES]).unwrap();
    }
    database.compact().unwrap();
    database.close().unwrap();
}

/// Whether the value is allocated, or copied to a buffer of the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Get,
    GetInto,
}

/// Returns the nanoseconds of a get in Rust and in C.
fn measure(path: &Path, call: Call, memory_budget: Option<&str>, rust_first: bool) -> (f64, f64) {
    // SAFETY: the library is that of this package.
    let library = unsafe { Library::new(library()) }.unwrap();
    let interface = Interface::of(&library);
    let settings: Vec<_> = [("read_only", Some("true")), ("memory_budget", memory_budget)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let open_rust = || {
        let builder = Database::builder(path);
        settings.iter().fold(builder, |builder, (name, value)| builder.set(*name, value)).open().unwrap()
    };
    let (rust, c) = if rust_first {
        let rust = open_rust();
        (rust, interface.open(path, &settings))
    } else {
        let c = interface.open(path, &settings);
        (open_rust(), c)
    };
    let mut get_in_rust = |key: &[u8; 8]| drop(black_box(rust.get(key).unwrap().unwrap()));
    let mut get_in_c = |key: &[u8; 8]| {
        let mut length = 0;
        // SAFETY: the database is open, and the key has this length; the value is freed once.
        unsafe {
            let value = (interface.get)(c, key.as_ptr().cast(), key.len(), &raw mut length, null_mut());
            assert!(!black_box(value).is_null() && length == VALUE_BYTES);
            (interface.free)(value.cast());
        }
    };
    let mut value = Vec::with_capacity(VALUE_BYTES);
    let mut get_into_in_rust = |key: &[u8; 8]| {
        value.clear();
        assert!(rust.get_into(key, &mut value).unwrap().is_some() && black_box(&value).len() == VALUE_BYTES);
    };
    let mut buffer = [0_u8; VALUE_BYTES];
    let mut get_into_in_c = |key: &[u8; 8]| {
        let (mut length, buffer) = (0, black_box(&mut buffer));
        let (to, capacity) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the database is open, and key and buffer have these lengths.
        let found = unsafe {
            (interface.get_into)(c, key.as_ptr().cast(), key.len(), to, capacity, &raw mut length, null_mut())
        };
        assert!(found && length == VALUE_BYTES);
    };
    let times = match call {
        Call::Get => time_pairs(&mut get_in_rust, &mut get_in_c),
        Call::GetInto => time_pairs(&mut get_into_in_rust, &mut get_into_in_c),
    };
    // SAFETY: nothing uses the database any more.
    unsafe { (interface.close)(c, null_mut()) };
    rust.close().unwrap();
    times
}

/// Returns the median nanoseconds of a get in Rust and in C.
fn time_pairs(mut get_in_rust: impl FnMut(&[u8; 8]), mut get_in_c: impl FnMut(&[u8; 8])) -> (f64, f64) {
    let mut times = (Vec::new(), Vec::new());
    for pair in 0..PAIRS + PAIRS / 10 {
        // Each of them is first once, and finds once what the other has read: a pair has both.
        let (first, second) = (pair * 2 * GETS_PER_ROUND, (pair * 2 + 1) * GETS_PER_ROUND);
        let (rust_first, c_second) = (time(first, &mut get_in_rust), time(first, &mut get_in_c));
        let (c_first, rust_second) = (time(second, &mut get_in_c), time(second, &mut get_in_rust));
        // The first pairs fill the caches.
        if pair >= PAIRS / 10 {
            times.0.push((rust_first + rust_second) / 2.0);
            times.1.push((c_first + c_second) / 2.0);
        }
    }
    (median(times.0), median(times.1))
}

fn compare(label: &str, path: &Path, call: Call, memory_budget: Option<&str>) {
    let times: Vec<_> =
        (0..REPETITIONS).map(|number| measure(path, call, memory_budget, number % 2 == 0)).collect();
    let (of_rust, of_c): (Vec<_>, Vec<_>) = times.iter().copied().unzip();
    let mut ratios: Vec<f64> = times.iter().map(|(of_rust, of_c)| of_c / of_rust).collect();
    ratios.sort_by(f64::total_cmp);
    let (of_rust, of_c, ratio) = (median(of_rust), median(of_c), median(ratios.clone()));
    print!("{label:<34} Rust {of_rust:>7.0} ns   C {of_c:>7.0} ns   C/Rust {ratio:>6.3}");
    println!("   of {:.3} to {:.3}", ratios[0], ratios[REPETITIONS - 1]);
}

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    fill(&path);
    compare("get, from the page cache", &path, Call::Get, None);
    compare("get_into, from the page cache", &path, Call::GetInto, None);
    compare("get, from the record cache", &path, Call::Get, Some(MEMORY_BUDGET));
    compare("get_into, from the record cache", &path, Call::GetInto, Some(MEMORY_BUDGET));
}

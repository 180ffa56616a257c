//! The settings with which a database or a dictionary is opened, by name.

use crate::border::{Failure, Outcome, body, disown, handle_mut, own, text};
use siltstone::{Builder, Database, DictionaryBuilder, DictionaryIndex, DictionaryOptions};
use std::ffi::{c_char, c_void};
use std::str::FromStr;

/// The settings of a database or a dictionary that is opened. They may be used for any number of opens.
#[derive(Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    /// The first setting that was no text.
    refused: Option<Failure>,
    progress: Option<Progress>,
}

/// Called from time to time during a long operation with the bytes done and the bytes in total. Returns whether to
/// continue; false ends the operation with `SILTSTONE_ERROR_INTERRUPTED`.
pub type ProgressFn = Option<unsafe extern "C" fn(state: *mut c_void, done: u64, total: u64) -> bool>;

/// A callback of the caller.
#[derive(Clone, Copy)]
pub struct Progress {
    function: unsafe extern "C" fn(*mut c_void, u64, u64) -> bool,
    state: *mut c_void,
}

// SAFETY: the callback runs in the call of the caller's thread that it was given to; the caller owns the state.
unsafe impl Send for Progress {}

impl Progress {
    /// Returns the callback, unless it is NULL.
    pub fn new(function: ProgressFn, state: *mut c_void) -> Option<Progress> {
        function.map(|function| Progress { function, state })
    }

    /// Calls it.
    pub fn call(&self, done: u64, total: u64) -> bool {
        // SAFETY: the caller's function with the caller's state, and numbers.
        unsafe { (self.function)(self.state, done, total) }
    }
}

/// Returns whether to continue: what the callback says, if there is one.
pub fn go_on(progress: Option<Progress>) -> impl FnMut(u64, u64) -> bool {
    move |done, total| progress.is_none_or(|progress| progress.call(done, total))
}

fn impossible(name: &str, value: &str, remedy: &str) -> Failure {
    Failure::argument(format!("{name}: `{value}` is not possible; use {remedy}"))
}

fn number<T: FromStr>(name: &str, value: &str) -> Outcome<T> {
    value.parse().map_err(|_| impossible(name, value, "a whole number"))
}

/// Reads a number of bytes, such as `65536` or `64KiB`.
fn size<T: TryFrom<u64>>(name: &str, value: &str) -> Outcome<T> {
    let bytes = siltstone::parse_bytes(value).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| impossible(name, value, "a number of bytes, such as 65536 or 64KiB"))
}

fn flag(name: &str, value: &str) -> Outcome<bool> {
    value.parse().map_err(|_| impossible(name, value, "true or false"))
}

/// Returns the value of the list with this name.
fn named<T: Copy>(setting: &str, wanted: &str, values: &[T], name: fn(T) -> &'static str) -> Outcome<T> {
    values.iter().copied().find(|value| name(*value) == wanted).ok_or_else(|| {
        let names: Vec<_> = values.iter().map(|value| name(*value)).collect();
        impossible(setting, wanted, &names.join(", "))
    })
}

/// Returns the index with this name.
pub fn index_of_name(wanted: &str) -> Outcome<DictionaryIndex> {
    named("index", wanted, &DictionaryIndex::ALL, DictionaryIndex::name)
}

fn unknown(name: &str, known: &str) -> Failure {
    Failure::argument(format!("a dictionary has no setting `{name}` here; it has {known}"))
}

impl Options {
    fn check(&self) -> Outcome<()> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// Returns the builder of a database with these settings.
    pub fn builder(&self, path: &str) -> Outcome<Builder> {
        self.check()?;
        let set = |builder: Builder, (name, value): &(String, String)| builder.set(name, value);
        let builder = self.settings.iter().fold(Database::builder(path), set);
        Ok(match self.progress {
            Some(_) => builder.progress(go_on(self.progress)),
            None => builder,
        })
    }

    /// Sets these settings of a dictionary that is built.
    pub fn dictionary_builder(&self, mut to: DictionaryBuilder) -> Outcome<DictionaryBuilder> {
        self.check()?;
        for (name, text) in &self.settings {
            to = match name.as_str() {
                "fixed" => {
                    let (key, record) = text.split_once(',').unwrap_or((text, ""));
                    let lengths = (key.trim().parse(), record.trim().parse());
                    let (Ok(key), Ok(record)) = lengths else {
                        return Err(impossible(name, text, "the lengths of keys and values, such as 20,44"));
                    };
                    to.fixed(key, record)
                }
                "hashed_keys" if flag(name, text)? => to.hashed_keys(),
                "hashed_keys" => to,
                "block_bytes" => to.block_bytes(size(name, text)?),
                "index" => to.index(index_of_name(text)?),
                "memory_bytes" => to.memory_bytes(size(name, text)?),
                "temporary_directory" => to.temporary_directory(text),
                "refuse_duplicates" if flag(name, text)? => to.refuse_duplicates(),
                "refuse_duplicates" => to,
                _ => {
                    return Err(unknown(
                        name,
                        "fixed, hashed_keys, block_bytes, index, memory_bytes, temporary_directory, refuse_duplicates",
                    ));
                }
            };
        }
        Ok(if self.progress.is_some() { to.progress(go_on(self.progress)) } else { to })
    }

    /// Returns the options of a dictionary that is opened.
    pub fn dictionary_options(&self) -> Outcome<DictionaryOptions> {
        self.check()?;
        let mut to = DictionaryOptions::default();
        for (name, text) in &self.settings {
            to = match name.as_str() {
                "access" => to.access(named(name, text, &siltstone::Access::ALL, siltstone::Access::name)?),
                "queue_depth" => to.queue_depth(number(name, text)?),
                "without_index" if flag(name, text)? => to.without_index(),
                "without_index" => to,
                _ => return Err(unknown(name, "access, queue_depth, without_index")),
            };
        }
        Ok(to)
    }
}

/// Returns the options that a caller gave, or the defaults for NULL.
///
/// # Safety
/// `options` is NULL or options that are not freed.
pub unsafe fn options_or_default(options: *const Options, default: &Options) -> &Options {
    // SAFETY: as the caller guarantees.
    unsafe { options.as_ref() }.unwrap_or(default)
}

/// Makes options with the defaults. `siltstone_options_destroy` frees them.
#[unsafe(no_mangle)]
pub extern "C" fn siltstone_options_create() -> *mut Options {
    body!({ Ok(own(Options::default())) })
}

/// Frees options. What was opened with them stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_options_destroy(options: *mut Options) {
    body!({
        drop(disown(options));
        Ok(())
    })
}

/// Sets a setting by its name, to a value as text. Of a database:
///
/// - "engine": "silt", "flashkey", "flashstore", "bloomstore" or "mica". Default: that of the database in the
///   directory, "silt" for a new one.
/// - "create": "true" or "false", whether to create a database if there is none. Default: "true".
/// - "read_only": "true" or "false". Several processes may read at the same time. Default: "false".
/// - "fixed": the lengths of all keys and all values, such as "32,8"; they are not stored then.
/// - "hashed_keys": "true" if keys are uniform hashes of 8 bytes or more.
/// - "expiring": "true" if records of fixed lengths may expire.
/// - "durability": what a write survives once it returns: "buffered", "written" (default) or "synced".
/// - "memory_budget": the most memory, in bytes, such as "64MiB".
/// - "partitions", "block_bytes", "access", "verify_checksums", "background_threads", "open_files_max", "change_feed",
///   and the settings of the engine, which `siltstone engines` and docs/SETTINGS.md list.
///
/// `siltstone_dictionary_create`, `siltstone_dictionary_update` and `siltstone_dictionary_open` list those of
/// dictionaries. A name or a value that is not possible is an error of the function that the options are given to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_options_set(
    options: *mut Options,
    name: *const c_char,
    value: *const c_char,
) {
    body!({
        let options = handle_mut(options)?;
        match (text("the name of a setting", name), text("the value of a setting", value)) {
            (Ok(name), Ok(value)) => options.settings.push((name.to_owned(), value.to_owned())),
            (Err(failure), _) | (_, Err(failure)) => drop(options.refused.get_or_insert(failure)),
        }
        Ok(())
    })
}

/// Sets a callback for opens that take long. NULL removes it. It is called in the thread that opens, with `state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_options_set_progress(
    options: *mut Options,
    progress: ProgressFn,
    state: *mut c_void,
) {
    body!({
        handle_mut(options)?.progress = Progress::new(progress, state);
        Ok(())
    })
}

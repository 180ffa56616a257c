//! `siltstone dedup duplicates`: lists the files or the chunks that occur more than once.

use super::formats::{FileEntry, Metadata};
use super::index::{self, DAMAGED, Index};
use anyhow::Context;
use clap::Args;
use data_encoding::HEXLOWER;
use serde_json::{Map, json};
use siltstone_command::interrupt::Interrupt;
use siltstone_command::notation::{Notation, insert_name};
use siltstone_command::outcome::{Outcome, Result, help};
use siltstone_command::progress::spinner;
use siltstone_command::quantity::parse_whole;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::io::{BufWriter, Write, stdout};

const EXAMPLES: &str = "
  siltstone dedup duplicates --db backup.index
  siltstone dedup duplicates --db backup.index --chunks --limit 10 --json";

/// List the files with the most duplicated bytes, or the chunks
///
/// A line per file: the bytes of its chunks that occur more than once in the index, its bytes, its path, and, if there
/// is one, the file in which the first of these chunks was found before. With --chunks, a line per chunk: the bytes
/// that its further occurrences take, the number of occurrences, its length, its hash, and the file in which it was
/// found first. Non-printable bytes of names are written as \xNN, which `dedup forget --escaped` reads; in JSON, a name
/// that is no UTF-8 is in path_base64. Reads the whole index.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct DuplicatesArgs {
    /// List chunks
    #[arg(long)]
    chunks: bool,
    /// Print only the paths, as they are, each with a zero byte after it, for `xargs -0`
    #[arg(long, short = '0', conflicts_with = "chunks")]
    null: bool,
    /// The maximum number of lines
    #[arg(long, value_name = "N", default_value = "100", value_parser = parse_whole::<usize>)]
    limit: usize,
}

/// Keeps the items with the highest numbers.
struct Top<T> {
    limit: usize,
    heap: BinaryHeap<Reverse<(u64, T)>>,
}

impl<T: Ord> Top<T> {
    fn new(limit: usize) -> Self {
        Top { limit, heap: BinaryHeap::new() }
    }

    fn add(&mut self, number: u64, item: T) {
        self.heap.push(Reverse((number, item)));
        if self.heap.len() > self.limit {
            self.heap.pop();
        }
    }

    /// Returns the items, the highest first.
    fn finish(self) -> Vec<(u64, T)> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(item)| item).collect()
    }
}

pub fn run(args: &DuplicatesArgs, index: &Index, interrupt: &Interrupt, json: bool) -> Result {
    let bar = spinner("reading");
    let lines = if args.chunks { chunks(index, args, interrupt)? } else { files(index, args, interrupt)? };
    bar.finish_and_clear();
    let mut out = BufWriter::new(stdout().lock());
    for line in lines {
        if json {
            writeln!(out, "{}", line.json)?;
        } else if args.null {
            out.write_all(&line.name)?;
            out.write_all(b"\0")?;
        } else {
            writeln!(out, "{}", line.text)?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

struct Line {
    /// The path of a file.
    name: Vec<u8>,
    text: String,
    json: serde_json::Value,
}

/// Returns an object with a name and the other fields. A name that is unknown is null.
fn with_name(field: &str, name: Option<&[u8]>, others: serde_json::Value) -> serde_json::Value {
    let mut object = Map::new();
    match name {
        Some(name) => insert_name(&mut object, field, name),
        None => drop(object.insert(field.to_owned(), serde_json::Value::Null)),
    }
    if let serde_json::Value::Object(others) = others {
        object.extend(others);
    }
    object.into()
}

/// A file with duplicated chunks: its key, its size, and the version that had the first of the chunks before.
type File = (Vec<u8>, u64, Option<u64>);

fn files(index: &Index, args: &DuplicatesArgs, interrupt: &Interrupt) -> anyhow::Result<Vec<Line>> {
    let mut top: Top<File> = Top::new(args.limit);
    for record in index.catalogue.iter()? {
        interrupt.check()?;
        let record = record?;
        if !index::is_file(&record.key) {
            continue;
        }
        let entry = FileEntry::decode(&record.value)?;
        let (mut bytes, mut first) = (0, None);
        index.for_each_chunk(&entry, |chunk| {
            if chunk.references > 1 {
                bytes += u64::from(chunk.length);
                first = first.or(Some(chunk.file_id).filter(|&id| id != entry.id));
            }
        })?;
        if bytes > 0 {
            top.add(bytes, (record.key.to_vec(), entry.done_bytes, first));
        }
    }
    let top = top.finish();
    let names = names(index, top.iter().filter_map(|(_, (_, _, first))| *first).collect())?;
    let line = |(bytes, (key, size, first)): (u64, File)| {
        let path = Notation::Escaped.show(&key);
        let first = first.and_then(|id| names.get(&id)).map(|name| &name[..]);
        let also = first.map(|path| format!("\t{}", Notation::Escaped.show(path))).unwrap_or_default();
        let json = json!({ "duplicated_bytes": bytes, "bytes": size });
        let json = with_name("path", Some(&key), with_name("first_in", first, json));
        Line { text: format!("{bytes}\t{size}\t{path}{also}"), json, name: key }
    };
    Ok(top.into_iter().map(line).collect())
}

/// A chunk: its hash, its number of occurrences, its length, and its first place: the version of the file, the offset.
type Chunk = (Vec<u8>, u32, u32, u64, u64);

fn chunks(index: &Index, args: &DuplicatesArgs, interrupt: &Interrupt) -> anyhow::Result<Vec<Line>> {
    let mut top = Top::new(args.limit);
    for record in index.chunks.iter()? {
        interrupt.check()?;
        let record = record?;
        if index::is_mark(&record.key) {
            continue;
        }
        let Metadata { references, length, file_id, offset, .. } =
            Metadata::decode(&record.value).context(DAMAGED)?;
        if references > 1 {
            let more = u64::from(references - 1) * u64::from(length);
            top.add(more, (record.key.to_vec(), references, length, file_id, offset));
        }
    }
    let top = top.finish();
    let names = names(index, top.iter().map(|(_, chunk)| chunk.3).collect())?;
    let line = |(bytes, (key, references, length, file_id, offset)): (u64, Chunk)| {
        let (hash, path) = (HEXLOWER.encode(&key), names.get(&file_id));
        let place =
            path.map(|path| format!("\t{}\t{offset}", Notation::Escaped.show(path))).unwrap_or_default();
        let json = json!({
            "duplicated_bytes": bytes, "occurrences": references, "bytes": length, "hash": hash, "offset": offset,
        });
        let json = with_name("first_in", path.map(|path| &path[..]), json);
        Line { text: format!("{bytes}\t{references}\t{length}\t{hash}{place}"), json, name: Vec::new() }
    };
    Ok(top.into_iter().map(line).collect())
}

/// Returns the paths of versions of files that are still in the index.
fn names(index: &Index, wanted: HashSet<u64>) -> anyhow::Result<HashMap<u64, Vec<u8>>> {
    let mut names = HashMap::new();
    for record in index.catalogue.iter()? {
        let record = record?;
        if index::is_file(&record.key) {
            let id = FileEntry::decode(&record.value)?.id;
            if wanted.contains(&id) {
                names.insert(id, record.key.to_vec());
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_are_kept_in_order() {
        let mut top = Top::new(2);
        for (number, name) in [(3, "c"), (9, "i"), (1, "a"), (5, "e")] {
            top.add(number, name);
        }
        assert_eq!(top.finish(), [(9, "i"), (5, "e")]);
    }
}

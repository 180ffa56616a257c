//! Commits of an index, and its references after a crash and after a loss.

use super::*;
use std::fs;

struct Place(tempfile::TempDir);

impl Place {
    fn open(&self) -> Index {
        let chunking = Chunking { hash_bytes: 20, ..Chunking::default() };
        Index::open(self.0.path(), &chunking, &SettingArgs::default(), MemoryArgs::default()).unwrap()
    }

    fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.0.path().join(from), self.0.path().join(to));
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Adds a file with these chunks, each of 100 bytes.
fn add(index: &mut Index, name: &str, chunks: &[u8]) {
    let mut entry = index.add_file();
    let hashes = chunks.iter().flat_map(|&chunk| [chunk; 20]).collect();
    index.add(name.as_bytes(), &mut entry, 0, hashes, &vec![100; chunks.len()]).unwrap();
}

fn forget(index: &mut Index, name: &str) {
    let entry = index.entry(name.as_bytes()).unwrap().unwrap();
    index.forget(name.as_bytes(), &entry).unwrap();
}

/// The references of all chunks, by the first byte of their hashes.
fn references(index: &Index) -> Vec<(u8, u32)> {
    let mut references: Vec<_> = index
        .chunks
        .iter()
        .unwrap()
        .map(|record| record.unwrap())
        .filter(|record| !is_mark(&record.key))
        .map(|record| (record.key[0], Metadata::decode(&record.value).unwrap().references))
        .collect();
    references.sort_unstable();
    references
}

#[test]
fn a_chunk_stays_until_the_last_file_with_it_is_forgotten() {
    let place = Place(tempfile::tempdir().unwrap());
    let mut index = place.open();
    index.begin_run(None);
    add(&mut index, "/a", &[1, 2, 1]);
    add(&mut index, "/b", &[2, 3]);
    index.commit().unwrap();
    assert_eq!(references(&index), [(1, 2), (2, 2), (3, 1)]);
    let whole = Totals { files: 2, bytes: 500, chunks: 5, unique_chunks: 3, unique_bytes: 300 };
    assert_eq!((index.now(), index.ever()), (whole, whole));
    forget(&mut index, "/a");
    index.close().unwrap();
    let mut index = place.open();
    assert_eq!(references(&index), [(2, 1), (3, 1)]);
    let rest = Totals { files: 1, bytes: 200, chunks: 2, unique_chunks: 2, unique_bytes: 200 };
    assert_eq!((index.now(), index.ever()), (rest, whole));
    forget(&mut index, "/b");
    index.commit().unwrap();
    assert_eq!((references(&index), index.now()), (vec![], Totals::default()));
}

#[test]
fn a_commit_that_was_stopped_between_the_databases_is_completed() {
    let place = Place(tempfile::tempdir().unwrap());
    let mut index = place.open();
    add(&mut index, "/a", &[1, 2]);
    index.commit().unwrap();
    place.copy("chunks", "before");
    add(&mut index, "/b", &[2, 2, 3]);
    forget(&mut index, "/a");
    index.commit().unwrap();
    let (whole, now) = (references(&index), index.now());
    assert_eq!(whole, [(2, 2), (3, 1)]);
    drop(index);
    // The chunks as they were when the catalogue was written, twice.
    for _ in 0..2 {
        place.copy("before", "chunks");
        let index = place.open();
        assert_eq!((references(&index), index.now()), (whole.clone(), now));
    }
}

#[test]
fn a_commit_of_no_chunks_that_was_stopped_between_the_databases_is_completed() {
    let place = Place(tempfile::tempdir().unwrap());
    let mut index = place.open();
    add(&mut index, "/a", &[1, 2]);
    index.commit().unwrap();
    place.copy("chunks", "before");
    index.begin_run(None);
    index.commit().unwrap();
    drop(index);
    place.copy("before", "chunks");
    let index = place.open();
    assert_eq!((references(&index), index.run()), (vec![(1, 1), (2, 1)], 1));
}

#[test]
fn changes_without_a_mark_are_completed_with_one() {
    let place = Place(tempfile::tempdir().unwrap());
    let mut index = place.open();
    add(&mut index, "/a", &[1, 2]);
    index.commit().unwrap();
    // As an earlier version has left it.
    let changes = index.record(CHANGES_KEY).unwrap().unwrap();
    let mut changes = formats::decode_changes(&changes, 20).unwrap();
    changes.retain(|(key, _)| !is_mark(key));
    let changes = formats::encode_changes(changes.iter().map(|(key, change)| (&key[..], change.as_ref())));
    index.catalogue.put(CHANGES_KEY, changes).unwrap();
    index.chunks.put(mark_key(20), index.state.before.as_metadata().encode()).unwrap();
    drop(index);
    let mut index = place.open();
    place.copy("chunks", "before");
    add(&mut index, "/b", &[2, 3]);
    index.commit().unwrap();
    let (whole, now) = (references(&index), index.now());
    drop(index);
    // The next commit is stopped between the databases.
    place.copy("before", "chunks");
    let index = place.open();
    assert_eq!((references(&index), index.now()), (whole, now));
}

#[test]
fn forgetting_a_file_continues_after_a_crash() {
    let place = Place(tempfile::tempdir().unwrap());
    let mut index = place.open();
    let mut entry = index.add_file();
    for chunk in 1..5 {
        index.add(b"/long", &mut entry, 0, vec![chunk; 20], &[100]).unwrap();
    }
    add(&mut index, "/b", &[1]);
    index.commit().unwrap();
    // What a commit keeps that comes before the hashes are removed.
    index.remove_record(b"/long");
    index.state.now.files -= 1;
    index.state.now.bytes -= entry.done_bytes;
    index.state.now.chunks -= entry.chunks;
    (index.state.forgotten_id, index.state.forgotten_segments) = (entry.id, entry.segments);
    index.commit().unwrap();
    drop(index);
    let index = place.open();
    let rest = Totals { files: 1, bytes: 100, chunks: 1, unique_chunks: 1, unique_bytes: 100 };
    assert_eq!(index.now(), rest);
    assert_eq!(references(&index), [(1, 1)], "readers of the chunks see no state in between");
    index.close().unwrap();
    assert_eq!(references(&place.open()), [(1, 1)]);
}

#[test]
fn references_are_counted_again_after_a_loss() {
    let place = Place(tempfile::tempdir().unwrap());
    let mut index = place.open();
    index.begin_run(None);
    add(&mut index, "/a", &[1, 2, 1]);
    add(&mut index, "/b", &[2, 3]);
    add(&mut index, "/c", &[2, 4]);
    index.commit().unwrap();
    // A chunk of /b and the hashes of /c are lost.
    index.chunks.delete([3; 20]).unwrap();
    let entry = index.entry(b"/c").unwrap().unwrap();
    index.catalogue.delete(segment_key(entry.id, 0)).unwrap();
    index.close().unwrap();
    Index::note_loss(&place.0.path().join(FILES)).unwrap();
    let index = place.open();
    assert_eq!(references(&index), [(1, 2), (2, 1)]);
    let rest = Totals { files: 1, bytes: 300, chunks: 3, unique_chunks: 2, unique_bytes: 200 };
    assert_eq!((index.now(), index.ever(), index.run()), (rest, rest, 1));
    assert!(index.entry(b"/a").unwrap().is_some());
    assert_eq!((index.entry(b"/b").unwrap(), index.entry(b"/c").unwrap()), (None, None));
}

#[test]
fn a_file_of_many_chunks_is_counted_again_in_several_commits() {
    let place = Place(tempfile::tempdir().unwrap());
    let mut index = place.open();
    let mut entry = index.add_file();
    let chunks = 3 * CHANGES_MAX;
    let hash = |number: usize| blake3::hash(&number.to_le_bytes()).as_bytes()[..20].to_vec();
    let hashes = (0..chunks).flat_map(hash).collect();
    index.add(b"/long", &mut entry, 0, hashes, &vec![100; chunks]).unwrap();
    index.commit().unwrap();
    let (before, whole) = (index.state.commit.number, index.now());
    drop(index);
    Index::note_loss(&place.0.path().join(FILES)).unwrap();
    let index = place.open();
    assert_eq!((index.now(), index.now().unique_chunks), (whole, chunks as u64));
    // Three of the references, one before chunks are removed, and the last one.
    assert!(index.state.commit.number >= before + 5, "{before}, then {}", index.state.commit.number);
}

#[test]
fn of_two_entries_of_one_version_one_is_kept_with_its_hashes() {
    for other in [superseded_key(b"/a"), b"/b".to_vec()] {
        let place = Place(tempfile::tempdir().unwrap());
        let mut index = place.open();
        add(&mut index, "/a", &[1, 2, 1]);
        let entry = index.entry(b"/a").unwrap().unwrap();
        index.set_entry(&other, &entry);
        index.close().unwrap();
        Index::note_loss(&place.0.path().join(FILES)).unwrap();
        let mut index = place.open();
        let keys = [b"/a".to_vec(), other];
        let left: Vec<_> = keys.iter().filter(|key| index.entry(key).unwrap().is_some()).collect();
        assert!(left.len() == 1 && is_file(left[0]), "{left:?}");
        let mut chunks = 0;
        index.for_each_chunk(&entry, |_| chunks += 1).unwrap();
        assert_eq!((chunks, index.now().files, references(&index)), (3, 1, vec![(1, 2), (2, 1)]));
        index.forget(left[0], &entry).unwrap();
        index.commit().unwrap();
        assert_eq!((references(&index), index.now()), (vec![], Totals::default()));
    }
}

/// Without an entry under the path the next run would take the file for a new one, and keep both versions.
#[test]
fn an_earlier_version_that_is_all_that_is_left_of_a_file_is_found_under_its_path() {
    for is_other_lost in [false, true] {
        let place = Place(tempfile::tempdir().unwrap());
        let mut index = place.open();
        add(&mut index, "/a", &[1, 2]);
        let entry = index.entry(b"/a").unwrap().unwrap();
        index.supersede(b"/a", &entry).unwrap();
        if is_other_lost {
            add(&mut index, "/a", &[3]);
        } else {
            index.remove_record(b"/a");
        }
        index.commit().unwrap();
        if is_other_lost {
            index.chunks.delete([3; 20]).unwrap();
        }
        index.close().unwrap();
        Index::note_loss(&place.0.path().join(FILES)).unwrap();
        let index = place.open();
        let kept = index.entry(b"/a").unwrap().unwrap();
        assert!(kept.id == entry.id && kept.stamp != entry.stamp, "{kept:?}");
        assert_eq!(index.entry(&superseded_key(b"/a")).unwrap(), None);
        assert_eq!((references(&index), index.now().files), (vec![(1, 1), (2, 1)], 1));
    }
}

#[test]
fn an_older_copy_of_one_database_is_known_and_counted_again() {
    for older in [CHUNKS, FILES] {
        let place = Place(tempfile::tempdir().unwrap());
        let mut index = place.open();
        add(&mut index, "/a", &[1, 2]);
        index.close().unwrap();
        place.copy(older, "before");
        let mut index = place.open();
        add(&mut index, "/b", &[2, 3]);
        index.close().unwrap();
        let chunking = Chunking { hash_bytes: 20, ..Chunking::default() };
        assert!(Index::check(place.0.path(), &chunking).is_ok());
        place.copy("before", older);
        let error = Index::check(place.0.path(), &chunking).unwrap_err().to_string();
        assert!(error.contains(&format!("{older} is older")) && error.contains(CHUNKS), "{error}");
        assert!(
            Index::open(place.0.path(), &chunking, &SettingArgs::default(), MemoryArgs::default()).is_err()
        );
        Index::note_loss(&place.0.path().join(FILES)).unwrap();
        let index = place.open();
        assert_eq!(references(&index), [(1, 1), (2, 1)], "only the first file is complete");
        index.close().unwrap();
        assert!(Index::check(place.0.path(), &chunking).is_ok());
    }
}

/// Returns a copy of the index that version 0.1 wrote: two runs, of which the second one has forgotten a file.
/// `SILTSTONE_BLESS=1` writes it if it is missing. An existing one is never overwritten.
fn index_of_version_0_1() -> Place {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/databases/v1-dedup");
    if !fixture.exists() && std::env::var_os("SILTSTONE_BLESS").is_some() {
        let place = Place(tempfile::tempdir_in(fixture.parent().unwrap()).unwrap());
        let mut index = place.open();
        index.begin_run(None);
        add(&mut index, "/a", &[1, 2, 1]);
        add(&mut index, "/b", &[2, 3]);
        index.close().unwrap();
        let mut index = place.open();
        index.begin_run(None);
        add(&mut index, "/c", &[4]);
        forget(&mut index, "/a");
        index.close().unwrap();
        for part in [CHUNKS, FILES] {
            let _there_may_be_none = fs::remove_file(place.0.path().join(part).join("LOCK"));
        }
        fs::rename(place.0.keep(), &fixture).unwrap();
    }
    let place = Place(tempfile::tempdir().unwrap());
    for part in fs::read_dir(&fixture).unwrap().map(Result::unwrap) {
        let to = place.0.path().join(part.file_name());
        if part.file_type().unwrap().is_file() {
            fs::copy(part.path(), to).unwrap();
            continue;
        }
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(part.path()).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    place
}

#[test]
fn an_index_of_version_0_1_is_read_and_written() {
    let place = index_of_version_0_1();
    let mut index = place.open();
    assert_eq!(references(&index), [(2, 1), (3, 1), (4, 1)]);
    let now = Totals { files: 2, bytes: 300, chunks: 3, unique_chunks: 3, unique_bytes: 300 };
    let ever = Totals { files: 3, bytes: 600, chunks: 6, unique_chunks: 4, unique_bytes: 400 };
    assert_eq!((index.now(), index.ever(), index.run()), (now, ever, 2));
    index.begin_run(None);
    add(&mut index, "/d", &[4, 5]);
    index.close().unwrap();
    let index = place.open();
    assert_eq!((references(&index), index.run()), (vec![(2, 1), (3, 1), (4, 2), (5, 1)], 3));
}

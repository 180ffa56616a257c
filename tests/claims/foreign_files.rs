//! Files of another database, or of another moment, among those of a database: what belongs to it is kept, and the
//! rest is named.

use crate::beds::{TestBed, beds, contents, expected, fill};
use siltstone::{DamagedPart, Database, Disk, EngineKind, Error, FlashStoreSettings, RepairOptions};
use std::path::{Path, PathBuf};

const KEYS: u64 = 200;

fn in_files() -> impl Iterator<Item = TestBed> {
    // The engine of the example has no manifest.
    let is_wanted = |bed: &TestBed| {
        bed.path().is_some()
            && bed.shape.name == "variable"
            && EngineKind::from_name(bed.engine.info.name).is_some()
    };
    beds().filter(is_wanted)
}

/// Creates a database with records in stores and in the log.
fn create(bed: &TestBed) -> PathBuf {
    let database = bed.open();
    fill(bed, &database, KEYS);
    database.compact().unwrap();
    database.put(bed.key(0), bed.value(0, 0)).unwrap();
    database.close().unwrap();
    bed.path().unwrap()
}

fn damaged_files(path: &Path) -> Vec<(String, DamagedPart)> {
    let report = Database::verify_closed(path, &mut |_, _| true).unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    report.damage.iter().map(|damage| (name(&damage.file), damage.part)).collect()
}

/// With a manifest and a mirror of two databases, whichever is the foreign one, of the same engine and of another one.
#[test]
fn of_two_manifests_the_one_to_which_the_files_belong_is_right() {
    let all: Vec<TestBed> = in_files().collect();
    for (number, bed) in all.iter().enumerate() {
        for other in [bed, &all[(number + 1) % all.len()]] {
            for (foreign, own) in [("MANIFEST", "MANIFEST.mirror"), ("MANIFEST.mirror", "MANIFEST")] {
                let bed = TestBed::in_files(bed.engine.clone(), bed.shape);
                let path = create(&bed);
                let another = TestBed::in_files(other.engine.clone(), other.shape);
                let from = create(&another).join(foreign);
                std::fs::copy(from, path.join(foreign)).unwrap();
                let what = format!("{foreign} of {another} next to {own} of {bed}");
                assert_eq!(damaged_files(&path), [(foreign.to_owned(), DamagedPart::Manifest)], "{what}");
                if foreign == "MANIFEST" {
                    let refused = bed.open_with(bed.builder()).map(drop);
                    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{what}: {refused:?}");
                }
                let report = Database::repair(&path, &RepairOptions::default(), &mut |_, _| true).unwrap();
                assert!(report.found.lost().is_empty(), "{what}: {report:?}");
                assert!(damaged_files(&path).is_empty(), "{what}");
                assert_eq!(contents(&bed.open()), expected(&bed, 0..KEYS, 0), "{what}");
            }
        }
    }
}

/// Copies a directory with all files in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// A FlashStore database over a disk of each engine, and a copy of both directories from an earlier moment.
struct TwoMoments {
    folder: tempfile::TempDir,
}

impl TwoMoments {
    fn create(engine: &str) -> TwoMoments {
        let moments = TwoMoments { folder: tempfile::tempdir().unwrap() };
        let settings = FlashStoreSettings::default().flash_bytes(64 << 10).segment_bytes(4 << 10);
        let disk = Disk::at("../disk").set("engine", engine);
        let database =
            Database::builder(moments.path("flash")).engine(settings.disk(disk)).background_threads(0);
        let database = database.open().unwrap();
        for moment in ["before", "now"] {
            // Enough to let records leave flash: at each moment other versions of some, and some that are new.
            let range = if moment == "before" { 0..700u32 } else { 300..1_200 };
            for number in range {
                database.put(number.to_be_bytes(), format!("{moment} {number:0100}")).unwrap();
            }
            database.settle().unwrap();
            assert!(
                database.stats().details.iter().any(|(name, count)| *name == "disk_records" && *count > 0.0)
            );
            database.sync().unwrap();
            if moment == "before" {
                for part in ["flash", "disk"] {
                    copy(&moments.path(part), &moments.path(&format!("{part} before")));
                }
            }
        }
        database.close().unwrap();
        moments
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> siltstone::Result<Database> {
        Database::builder(self.path("flash")).background_threads(0).create(false).open()
    }

    /// Replaces one directory by its copy.
    fn go_back(&self, part: &str) {
        std::fs::remove_dir_all(self.path(part)).unwrap();
        copy(&self.path(&format!("{part} before")), &self.path(part));
    }
}

#[test]
fn an_older_copy_of_one_of_two_directories_is_refused_and_a_repair_continues_with_it() {
    for engine in ["silt", "flashkey", "bloomstore"] {
        for part in ["flash", "disk"] {
            let moments = TwoMoments::create(engine);
            assert!(damaged_files(&moments.path("flash")).is_empty());
            moments.go_back(part);
            let refused = moments.open().map(drop).unwrap_err().to_string();
            let names_both =
                ["flash", "disk"].iter().all(|part| refused.contains(&*moments.path(part).to_string_lossy()));
            assert!(
                refused.contains("is older than") && refused.contains("siltstone repair"),
                "{engine}: {refused}"
            );
            assert!(names_both || refused.contains("../disk"), "{engine}: {refused}");
            let read_only = Database::open_read_only(moments.path("flash")).map(drop);
            assert!(read_only.is_err(), "{engine}, {part}: opened for reading");
            assert_eq!(damaged_files(&moments.path("flash")), [("FLASHSTORE".into(), DamagedPart::File)]);
            let report =
                Database::repair(moments.path("flash"), &RepairOptions::default(), &mut |_, _| true).unwrap();
            assert!(report.found.may_affect(&1u32.to_be_bytes()), "{engine}, {part}");
            assert!(damaged_files(&moments.path("flash")).is_empty(), "{engine}, {part}");
            let database = moments.open().unwrap();
            database.put("after", "the repair").unwrap();
            database.close().unwrap();
        }
        // Both copies are of one moment.
        let moments = TwoMoments::create(engine);
        moments.go_back("flash");
        moments.go_back("disk");
        let database = moments.open().unwrap();
        let records = database.iter().unwrap().map(|record| record.unwrap());
        assert_eq!(records.filter(|record| record.value.starts_with(b"before")).count(), 700, "{engine}");
    }
}

/// A manifest can name any path as its disk: what is there is touched only if both belong together.
#[test]
fn a_database_at_the_path_of_the_disk_that_is_none_of_its_own_is_left_alone() {
    let moments = TwoMoments::create("silt");
    std::fs::remove_dir_all(moments.path("disk")).unwrap();
    let stranger = Database::open(moments.path("disk")).unwrap();
    stranger.put("key", "value").unwrap();
    stranger.close().unwrap();
    let check = || {
        let stranger = Database::open(moments.path("disk")).unwrap();
        assert_eq!(stranger.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    };
    let refused = [
        moments.open().map(drop),
        Database::open_read_only(moments.path("flash")).map(drop),
        Database::verify_closed(moments.path("flash"), &mut |_, _| true).map(drop),
        Database::repair(moments.path("flash"), &RepairOptions::default(), &mut |_, _| true).map(drop),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::Setting { name: "disk", .. })), "{refused:?}");
        check();
    }
    Database::destroy(moments.path("flash")).unwrap();
    assert!(!moments.path("flash").exists());
    check();
}

#[test]
fn the_disk_of_a_database_takes_no_writes_by_itself() {
    let moments = TwoMoments::create("silt");
    assert!(matches!(Database::destroy(moments.path("disk")), Err(Error::Setting { name: "disk", .. })));
    let refused = Database::open(moments.path("disk")).map(drop).unwrap_err().to_string();
    assert!(refused.contains("FLASHSTORE") && refused.contains("read-only"), "{refused}");
    assert!(Database::open_read_only(moments.path("disk")).unwrap().iter().unwrap().count() > 0);
    std::fs::remove_file(moments.path("disk").join("FLASHSTORE")).unwrap();
    Database::open(moments.path("disk")).unwrap().put("key", "value").unwrap();
}

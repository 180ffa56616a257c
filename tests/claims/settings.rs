//! The settings of engines: which of them a database keeps, which engine an open finds, and that
//! `docs/SETTINGS.md` lists those that users choose. `SILTSTONE_BLESS=1` writes its tables.

use crate::beds::{all_beds, fill};
use siltstone::{
    Builder, Database, EngineKind, EngineSettings, Error, FilterKind, HashStoreKind, IndexKind, MicaSettings,
    SettingInfo, SiltSettings, Stats,
};
use siltstone_device::memory::MemoryDirectory;
use siltstone_device::{Access, Directory};
use std::fmt::Write as _;
use std::path::Path;

fn builder() -> Builder {
    Database::builder("memory").background_threads(0)
}

fn memory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

fn value_of<'a>(stats: &'a Stats, name: &str) -> &'a str {
    stats.settings.iter().find(|(setting, _)| *setting == name).map_or("", |(_, value)| value)
}

fn write(database: &Database, numbers: std::ops::Range<u64>) {
    for number in numbers {
        database.put(number.to_be_bytes(), number.to_le_bytes()).unwrap();
    }
    database.settle().unwrap();
}

/// The index and the filter of the stores with this name.
fn structures(database: &Database, store: &str) -> Vec<(&'static str, &'static str)> {
    let stores = database.stats().stores;
    stores.iter().filter(|kind| kind.store == store).map(|kind| (kind.index, kind.filter)).collect()
}

#[test]
fn a_database_keeps_its_settings_until_others_are_given() {
    let directory = memory();
    let settings = SiltSettings::default()
        .index(Some(IndexKind::SlotPerfect))
        .hash_store(HashStoreKind::HashOrdered)
        .filter(FilterKind::CuckooTags)
        .filter_last_store(Some(8))
        .merge_ratio(10.0)
        .log_slots_min(64)
        .step_records(77);
    let builder_of_new = || builder().fixed(8, 8).partitions(2);
    drop(builder_of_new().engine(settings).open_in(directory.clone()).unwrap());

    let database = builder().open_in(directory.clone()).unwrap();
    let stats = database.stats();
    for (name, value) in [
        ("index", "slot_perfect"),
        ("filter", "cuckoo_tags"),
        ("filter_last_store", "8"),
        ("merge_ratio", "10"),
        ("log_slots_min", "64"),
        // These are not kept, and not given.
        ("step_records", "4096"),
        ("filter_bits", "11"),
    ] {
        assert_eq!(value_of(&stats, name), value, "{name}");
    }
    write(&database, 0..2_000);
    assert_eq!(structures(&database, "hash"), [("fences", "cuckoo_tags")]);
    database.compact().unwrap();
    assert_eq!(structures(&database, "sorted"), [("slot_perfect", "ribbon")]);
    database.close().unwrap();
    drop(database);

    // Given again, they change, and stay changed.
    let others = |builder: Builder| builder.set("index", "fences").set("filter_last_store", 0);
    let database = others(builder()).open_in(directory.clone()).unwrap();
    database.compact().unwrap();
    drop(database);
    let database = builder().open_in(directory).unwrap();
    write(&database, 2_000..4_000);
    database.compact().unwrap();
    assert_eq!(structures(&database, "sorted"), [("fences", "none")]);
    assert_eq!(value_of(&database.stats(), "merge_ratio"), "10");
}

#[test]
fn a_copy_and_a_repaired_database_keep_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["db", "copy"].map(|name| folder.path().join(name));
    let at = |path: &Path| Database::builder(path).background_threads(0);
    let settings = SiltSettings::default().index(Some(IndexKind::EntropyTrie)).merge_ratio(2.5);
    let database = at(&path).fixed(8, 8).partitions(1).engine(settings).open().unwrap();
    write(&database, 0..3_000);
    database.compact().unwrap();
    database.checkpoint(&copy).unwrap();
    drop(database);
    let mut files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let sorted = files.find(|path| path.extension().is_some_and(|end| end == "sorted")).unwrap();
    let mut bytes = std::fs::read(&sorted).unwrap();
    bytes[5_000] ^= 1;
    std::fs::write(&sorted, bytes).unwrap();
    let report = Database::repair(&path, &Default::default(), &mut |_, _| true).unwrap();
    assert!(!report.found.damage.is_empty() && report.kept_records > 0);
    for path in [&path, &copy] {
        let database = at(path).open().unwrap();
        assert_eq!(value_of(&database.stats(), "merge_ratio"), "2.5");
        assert_eq!(structures(&database, "sorted"), [("entropy_trie", "none")], "{}", path.display());
    }
}

#[test]
fn settings_of_a_read_only_opening_are_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let at = || Database::builder(folder.path()).background_threads(0);
    drop(at().set("merge_ratio", 0.5).open().unwrap());
    let database = at().set("merge_ratio", 2).read_only(true).open().unwrap();
    assert_eq!(value_of(&database.stats(), "merge_ratio"), "2");
    drop(database);
    assert_eq!(value_of(&at().open().unwrap().stats(), "merge_ratio"), "0.5");
}

#[test]
fn a_refused_opening_changes_no_setting() {
    let directory = memory();
    drop(builder().set("merge_ratio", 0.5).open_in(directory.clone()).unwrap());
    let refused = builder().set("merge_ratio", 2).set("index", "block_perfect").create(false);
    assert!(matches!(refused.open_in(directory.clone()), Err(Error::Setting { name: "index", .. })));
    let database = builder().open_in(directory).unwrap();
    assert_eq!(value_of(&database.stats(), "merge_ratio"), "0.5");
}

#[test]
fn an_opening_finds_the_engine_and_refuses_another_one() {
    let directory = memory();
    drop(builder().open_in(directory.clone()).unwrap());
    assert_eq!(builder().open_in(directory.clone()).unwrap().stats().engine, "silt");
    for other in [builder().engine(EngineKind::Mica), builder().engine(MicaSettings::default())] {
        let Err(Error::Setting { name: "engine", problem }) = other.open_in(directory.clone()) else {
            panic!("it was opened as MICA's");
        };
        assert!(problem.contains("`mica`") && problem.contains("`silt`"), "{problem}");
    }
}

#[test]
fn an_unknown_engine_is_named_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    drop(Database::builder(folder.path()).open().unwrap());
    for name in ["MANIFEST", "MANIFEST.mirror"] {
        let path = folder.path().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[14] = 200;
        let crc = siltstone_index::coding::checksum::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
    }
    let errors = [
        Database::builder(folder.path()).open().err(),
        Database::verify_closed(folder.path(), &mut |_, _| true).err(),
        Database::repair(folder.path(), &Default::default(), &mut |_, _| true).err(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert!(matches!(error, Error::UnknownEngine { number: 200, .. }), "{error}");
    }
}

#[test]
fn a_setting_that_the_engine_does_not_have_or_a_value_out_of_range_is_an_error() {
    for (settings, name, value, refused) in [
        (EngineKind::Mica, "merge_ratio", "1", "set"),
        (EngineKind::Silt, "eviction", "lru", "set"),
        (EngineKind::Silt, "merge_ratio", "11", "merge_ratio"),
        (EngineKind::Silt, "merge_ratio", "much", "merge_ratio"),
        (EngineKind::Silt, "index", "b_tree", "index"),
        (EngineKind::Silt, "log_segment_bytes", "2147483648", "log_segment_bytes"),
        (EngineKind::Mica, "eviction", "all", "eviction"),
    ] {
        let error = settings.settings().set(name, value).err().unwrap();
        assert!(matches!(&error, Error::Setting { name, .. } if *name == refused), "{error}");
        assert!(
            error.to_string().contains(if refused == "set" { settings.name() } else { value }),
            "{error}"
        );
        assert!(builder().engine(settings).set(name, value).open_in(memory()).is_err());
    }
}

#[test]
fn every_setting_has_a_default_within_its_limits_that_can_be_set() {
    for &kind in EngineKind::ALL {
        for setting in kind.settings().describe() {
            let mut settings = kind.settings();
            settings.set(setting.name, &setting.value).unwrap();
            assert!(settings.describe().contains(&setting), "{setting:?}");
            assert!(setting.doc.ends_with('.') && !setting.limits.is_empty(), "{setting:?}");
        }
    }
    let mut settings: Box<dyn EngineSettings> = EngineKind::Silt.settings();
    settings.set("log_segment_bytes", "8MiB").unwrap();
    let described = settings.describe();
    assert!(
        described.iter().any(|setting| setting.name == "log_segment_bytes" && setting.value == "8388608")
    );
}

#[test]
fn the_preset_of_the_paper_sets_what_was_not_given_in_any_order() {
    for &kind in EngineKind::ALL {
        let mut settings = kind.settings();
        settings.set("preset", "paper").unwrap();
        for (name, value) in settings.paper() {
            let found = settings.describe().into_iter().find(|setting| setting.name == *name).unwrap();
            assert_eq!(found.value, *value, "{name}");
            let default =
                kind.settings().describe().into_iter().find(|setting| setting.name == *name).unwrap();
            assert_ne!(default.value, *value, "{name} is the default");
        }
        assert!(kind.settings().set("preset", "best").unwrap_err().to_string().contains("default or paper"));
    }
    let value = |settings: &dyn EngineSettings| {
        settings.describe().into_iter().find(|setting| setting.name == "queues").unwrap().value
    };
    for names in [["preset", "queues"], ["queues", "preset"]] {
        let mut settings = EngineKind::FlashStore.settings();
        for name in names {
            settings.set(name, if name == "preset" { "paper" } else { "2" }).unwrap();
        }
        assert_eq!(value(&*settings), "2");
    }
    assert_eq!(value(&siltstone::FlashStoreSettings::paper()), "1");
}

fn shown(kind: EngineKind) -> impl Iterator<Item = SettingInfo> {
    kind.settings().describe().into_iter().filter(|setting| setting.is_shown)
}

#[test]
fn the_guide_says_of_every_setting_when_to_set_it() {
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/TUNING.md")).unwrap();
    let mut count = 0;
    for &kind in EngineKind::ALL {
        let section = guide.split_once(&format!("### `{}`\n", kind.name())).unwrap().1;
        let section = section.split("\n#").next().unwrap();
        for SettingInfo { name, .. } in shown(kind) {
            assert!(section.contains(&format!("| `{name}` |")), "{} {name}", kind.name());
            count += 1;
        }
    }
    assert!(count <= 30, "{count} settings: which of them is no choice of users?");
}

/// The tables of `docs/SETTINGS.md`.
fn tables() -> String {
    let mut text = String::new();
    for &kind in EngineKind::ALL {
        let (name, summary) = (kind.name(), kind.info().summary);
        writeln!(text, "## `{name}`\n\nFor {summary}.\n").unwrap();
        writeln!(text, "| setting | default | values | kept | meaning |\n|---|---|---|---|---|").unwrap();
        for setting in shown(kind) {
            let kept = if setting.is_kept { "yes" } else { "no" };
            let (name, value, limits, doc) = (setting.name, setting.value, setting.limits, setting.doc);
            writeln!(text, "| `{name}` | {value} | {limits} | {kept} | {doc} |").unwrap();
        }
        let values: Vec<_> =
            kind.settings().paper().iter().map(|(name, value)| format!("`{name}={value}`")).collect();
        let values = if values.is_empty() { "the defaults".to_owned() } else { values.join(", ") };
        writeln!(text, "\nThe preset `paper`: {values}.\n").unwrap();
    }
    text.trim_end().to_owned() + "\n"
}

#[test]
fn the_document_of_settings_lists_those_that_users_choose() {
    const MARK: &str = "<!-- settings -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/SETTINGS.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, written) = page.split_once(MARK).unwrap();
    if std::env::var_os("SILTSTONE_BLESS").is_some() {
        std::fs::write(&path, format!("{head}{MARK}{}", tables())).unwrap();
    } else {
        assert_eq!(written, tables(), "run this test with SILTSTONE_BLESS=1");
    }
}

#[test]
fn the_least_memory_budget_works_and_one_byte_less_does_not() {
    for bed in all_beds() {
        let database = bed.open();
        fill(&bed, &database, 500);
        let least = database.memory_budget_min();
        assert!(least > 0, "{bed}");
        if bed.has_budget() {
            let refused = database.set_memory_budget(Some(least - 1)).unwrap_err().to_string();
            assert!(refused.contains("memory_budget"), "{bed}: {refused}");
            database.set_memory_budget(Some(least)).unwrap();
            assert!(database.get(bed.key(3)).unwrap().is_some(), "{bed}");
        }
    }
}

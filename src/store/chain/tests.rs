use super::*;
use crate::store::StoreFooter;
use crate::store::file::tests::forge;
use siltstone_device::Access;
use siltstone_device::memory::MemoryDirectory;
use siltstone_index::coding::mix;
use siltstone_index::prefilter::PrefilterBuilder;
use siltstone_index::run_columns::{RunColumnsBuilder, RunColumnsSettings};
use std::sync::Arc;

const RANGES: u32 = 13;

fn directory() -> Directory {
    Directory::new(MemoryDirectory::default(), Access::Buffered)
}

fn settings(tag: u64) -> ChainSettings {
    ChainSettings { tag, purpose: Purpose::Convert, piece_bytes: 4096 }
}

/// A run, and its records with their blocks.
struct Run {
    added: AddedRun,
    records: Vec<(u64, Range<u64>)>,
}

/// Returns a run of records of 1 to 200 bytes in blocks of 512.
fn run(number: u64, count: usize, columns: u32) -> Run {
    run_for(number, count, count as u64, columns)
}

/// Returns a run whose filters are those of a run with another number of records.
fn run_for(number: u64, count: usize, expected_records: u64, columns: u32) -> Run {
    let mut state = number;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(state)
    };
    let mut placements: Vec<u64> = (0..2 * count).map(|_| random()).step_by(2).collect();
    placements.sort_unstable();
    let settings = RunColumnsSettings { ranges: RANGES * columns, filter_bits: 16 };
    let mut builder = RunColumnsBuilder::new(settings, expected_records).unwrap();
    let mut records = Vec::new();
    let mut at = 0;
    for placement in placements {
        let end = at + 1 + random() % 200;
        builder.push(placement, at / 512..end.div_ceil(512)).unwrap();
        records.push((placement, at / 512..end.div_ceil(512)));
        at = end;
    }
    Run { added: AddedRun { number, columns: Arc::new(builder.finish()) }, records }
}

/// Returns an old run and some of different sizes.
fn runs() -> Vec<Run> {
    let young = (2..40).map(|number| run(number, 150 + 10 * number as usize, 1));
    std::iter::once(run(1, 3_000, OLD_COLUMNS)).chain(young).collect()
}

fn written(directory: &Directory, name: &str, old: Option<Arc<Chain>>, added: &[Run]) -> Chain {
    let added = added.iter().map(|run| run.added.clone()).collect();
    let mut writer = ChainWriter::create(directory, name, settings(7), RANGES, old, added).unwrap();
    let mut steps = 1;
    while !writer.step(5_000).unwrap() {
        steps += 1;
    }
    assert!(steps > 1, "steps are bounded");
    writer.finish(None).unwrap()
}

fn assert_finds_all(chain: &Chain, runs: &[Run]) {
    let mut buffer = AlignedBuffer::default();
    let mut others = 0;
    for (age, run) in runs.iter().enumerate() {
        for (placement, blocks) in run.records.iter().step_by(3) {
            let places = chain.look_up(*placement, Purpose::Get, &mut buffer).unwrap();
            let place = places.iter().find(|place| place.run == age).unwrap();
            assert!(place.blocks.start <= blocks.start && blocks.end <= place.blocks.end);
            assert!(places.is_sorted_by(|one, other| one.run > other.run), "{places:?}");
            others += places.len() - 1;
        }
    }
    let records: usize = runs.iter().map(|run| run.records.len() / 3).sum();
    assert!(others * 10 < records, "{others} other places for {records} records");
}

#[test]
fn a_page_locates_the_records_of_all_runs_the_newest_first() {
    let directory = directory();
    let runs = runs();
    let chain = written(&directory, "c", None, &runs);
    assert_finds_all(&chain, &runs);
    let opened = Chain::open(&directory, "c", 7).unwrap();
    assert_eq!((opened.runs(), opened.ranges()), (chain.runs(), RANGES));
    assert_finds_all(&opened, &runs);
    opened.check(Purpose::Maintain, |page| page.map(drop)).unwrap();
}

#[test]
fn a_chain_that_was_extended_has_the_bytes_of_one_that_was_made_at_once() {
    let directory = directory();
    let runs = runs();
    let at_once = written(&directory, "1", None, &runs);
    let mut chain = None;
    for (step, added) in runs.chunks(8).enumerate() {
        let name = format!("2{step}");
        chain = Some(Arc::new(written(&directory, &name, chain, added)));
    }
    let bytes = |chain: &Chain| {
        let mut buffer = AlignedBuffer::default();
        let file = chain.file();
        file.file().read(Purpose::Maintain, 0, file.length() as usize, &mut buffer).unwrap().to_vec()
    };
    assert!(bytes(&at_once) == bytes(&chain.unwrap()));
}

#[test]
fn every_damaged_byte_of_a_page_is_found_by_its_lookups_and_a_check() {
    let directory = directory();
    let runs = [run(3, 400, 1)];
    written(&directory, "c", None, &runs);
    let file = directory.open("c", Access::Buffered).unwrap();
    let mut buffer = AlignedBuffer::default();
    for at in (512..(RANGES as u64 + 1) * 512).step_by(37) {
        let byte = file.read(Purpose::Get, at, 1, &mut buffer).unwrap()[0];
        file.write(Purpose::Get, at, &[byte ^ 1]).unwrap();
        let chain = Chain::open(&directory, "c", 7).unwrap();
        let mut damaged = 0;
        chain
            .check(Purpose::Maintain, |page| {
                damaged += u32::from(page.is_err());
                Ok(())
            })
            .unwrap();
        assert_eq!(damaged, 1, "byte {at}");
        let lookup = |placement: &u64| chain.look_up(*placement, Purpose::Get, &mut AlignedBuffer::default());
        let refused = runs[0].records.iter().filter(|(placement, _)| lookup(placement).is_err()).count();
        assert!(refused > 0 && refused < 100, "byte {at}: {refused} lookups");
        file.write(Purpose::Get, at, &[byte]).unwrap();
    }
    assert!(Chain::open(&directory, "c", 8).is_err(), "another tag");
}

#[test]
fn runs_of_other_ranges_and_too_many_columns_are_refused() {
    let directory = directory();
    let refused = |name: &str, ranges, old, added: &[Run]| {
        let added = added.iter().map(|run| run.added.clone()).collect();
        ChainWriter::create(&directory, name, settings(7), ranges, old, added).is_err()
    };
    let chain = Arc::new(written(&directory, "c", None, &[run(1, 3_000, OLD_COLUMNS)]));
    assert!(refused("1", RANGES + 1, None, &[run(2, 10, 1)]));
    assert!(refused("2", RANGES + 1, Some(chain.clone()), &[]));
    let many: Vec<Run> = (2..251).map(|number| run(number, 1, 1)).collect();
    assert!(refused("3", RANGES, Some(chain.clone()), &many));
    assert!(!refused("4", RANGES, Some(chain), &many[..248]));
}

/// `SILTSTONE_BLESS=1` overwrites the golden file; only a new version of the format justifies that.
#[test]
fn the_bytes_of_a_chain_are_the_golden_ones() {
    let directory = directory();
    let runs = [run(4, 200, OLD_COLUMNS), run_for(9, 30, 26, 1)];
    let added = runs.iter().map(|run| run.added.clone()).collect();
    let mut writer = ChainWriter::create(&directory, "c", settings(7), RANGES, None, added).unwrap();
    assert!(writer.step(usize::MAX).unwrap());
    let chain = writer.finish(None).unwrap();
    let mut buffer = AlignedBuffer::default();
    let file = chain.file();
    let bytes = file.file().read(Purpose::Maintain, 0, file.length() as usize, &mut buffer).unwrap();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/store/chain.bin");
    if std::env::var_os("SILTSTONE_BLESS").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == bytes, "the chain has other bytes");
    assert_finds_all(&chain, &runs);
}

#[test]
fn a_chain_gives_back_its_prefilter_and_damage_of_it_is_found() {
    let directory = directory();
    let runs = [run(4, 200, OLD_COLUMNS), run(9, 30, 1)];
    let mut builder = PrefilterBuilder::new(200, 1_000);
    runs[0].records.iter().for_each(|(placement, _)| builder.push(*placement));
    let prefilter = builder.finish();
    let added = runs.iter().map(|run| run.added.clone()).collect();
    let mut writer = ChainWriter::create(&directory, "c", settings(7), RANGES, None, added).unwrap();
    assert!(writer.step(usize::MAX).unwrap());
    let chain = writer.finish(Some(&prefilter)).unwrap();
    assert_eq!(chain.read_prefilter(Purpose::Get).unwrap().as_ref(), Some(&prefilter));
    let opened = Chain::open(&directory, "c", 7).unwrap();
    assert_eq!(opened.read_prefilter(Purpose::Get).unwrap(), Some(prefilter));
    opened.check(Purpose::Maintain, |part| part.map(drop)).unwrap();
    let at = StoreFile::section_offset(&opened.file().footer().filter) + opened.prefilter_bytes() / 2;
    let file = directory.open("c", Access::Buffered).unwrap();
    let byte = file.read(Purpose::Get, at, 1, &mut AlignedBuffer::default()).unwrap()[0];
    file.write(Purpose::Get, at, &[byte ^ 1]).unwrap();
    assert!(matches!(opened.read_prefilter(Purpose::Get), Err(Error::Corrupt { .. })));
    let mut damaged = 0;
    let count = |part: std::result::Result<u64, Error>| {
        damaged += u32::from(part.is_err());
        Ok(())
    };
    opened.check(Purpose::Maintain, count).unwrap();
    assert_eq!(damaged, 1);
    assert_finds_all(&opened, &runs);
}

/// In a sparse file, which takes no space on the device.
#[test]
fn a_page_that_is_longer_than_its_columns_can_be_is_refused_before_it_is_read() {
    let path = tempfile::tempdir().unwrap();
    let directory = Directory::system(path.path(), Access::Buffered).unwrap();
    let columns = RunColumnsBuilder::new(RunColumnsSettings { ranges: 1, filter_bits: 16 }, 1).unwrap();
    let added = AddedRun { number: 1, columns: Arc::new(columns.finish()) };
    let mut writer = ChainWriter::create(&directory, "c", settings(7), 1, None, vec![added]).unwrap();
    while !writer.step(5_000).unwrap() {}
    let chain = writer.finish(None).unwrap();
    // The page takes as much of the file as the numbers of blocks can state.
    let blocks = 1u32 << 31;
    let footer = StoreFooter { blocks: blocks.into(), ..chain.file().footer().clone() };
    let length = (u64::from(blocks) + 16) * u64::from(BLOCK_BYTES);
    let file = directory.open("c", Access::Buffered).unwrap();
    forge(&file, &footer, length);
    let mut section = Vec::new();
    let runs = chain.runs().to_vec();
    PageDirectory { ranges: 1, runs, first_blocks: vec![0, blocks] }.encode(&mut section);
    let file = StoreFile::open_until(file, 7, length).unwrap();
    file.append_index(Purpose::Maintain, 4096, (SECTION_KIND, &section)).unwrap();
    assert!(matches!(Chain::open(&directory, "c", 7), Err(Error::Corrupt { .. })));
    assert!(directory.io().total().read_bytes < 100_000);
}

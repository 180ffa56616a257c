use super::*;

#[test]
fn an_opening_that_loads_later_reads_no_page_and_then_one_per_lookup_until_all_are_in_memory() {
    let directory = directory();
    let mut used = Use::new(1, &directory);
    (0..20_000).for_each(|unit| used.index.insert(mix(unit), unit));
    flush(&used.index, Covered::default());
    while used.committed.is_none() {
        used.save();
    }
    used.index.set_memory_shards(8);
    (0..1_000).for_each(|unit| used.index.insert(mix(unit), unit + 20_000));
    flush(&used.index, Covered::default());
    let recovered_bytes = || directory.io().of(Purpose::Recover).read_bytes;
    let before = recovered_bytes();
    open_saved(&directory, SETTINGS, used.committed, 8).unwrap();
    let with_pages = recovered_bytes() - before;
    let (index, recovered) = open_and_load(&directory, SETTINGS, used.committed, 8, 0).unwrap();
    let without = recovered_bytes() - before - with_pages;
    assert!(without * 3 < with_pages, "{without} of {with_pages} bytes");
    assert_eq!((index.len(), recovered.operations, index.shards_to_load()), (21_000, 1_000, 8));
    let residency = index.residency();
    assert!(!residency.is_moving && residency.changes_bytes == 0, "{residency:?}");
    let check = |reads| {
        let before = index.page_reads();
        for unit in 0..20_000 {
            let both = [unit + 20_000, unit];
            let wanted = if unit < 1_000 { &both[..] } else { &both[1..] };
            let units = index.candidates(mix(unit)).unwrap();
            assert!(wanted.iter().all(|unit| units.contains(unit)), "{wanted:?} in {units:?}");
        }
        assert_eq!(index.page_reads() - before, reads);
    };
    check(20_000);
    while let Some(load) = index.start_load().unwrap() {
        let mut load = Some(load);
        while let Some(next) = load {
            load = index.load_step(next).unwrap();
        }
    }
    let residency = index.residency();
    assert_eq!((index.shards_to_load(), residency.memory_shards, residency.pages_on_flash), (0, 8, 0));
    check(0);
    assert_eq!(index.len(), 21_000);
}

#[test]
fn a_shard_that_could_not_be_loaded_stays_on_flash_with_its_intact_pages() {
    let directory = directory();
    let mut used = Use::new(1, &directory);
    (0..20_000).for_each(|unit| used.index.insert(mix(unit), unit));
    flush(&used.index, Covered::default());
    while used.committed.is_none() {
        used.save();
    }
    let saved = used.committed.unwrap();
    let file = directory.open(&saved.file_name(), Access::Buffered).unwrap();
    file.write(Purpose::Maintain, 5_000, &[7; 5]).unwrap();
    let (index, _) = open_and_load(&directory, SETTINGS, Some(saved), 8, 0).unwrap();
    let mut load = index.start_load().unwrap().unwrap();
    let error = loop {
        match index.load_step(load) {
            Ok(next) => load = next.unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert_eq!(index.shards_to_load(), 8);
    let (mut found, mut refused) = (0, 0);
    for unit in 0..20_000 {
        match index.candidates(mix(unit)) {
            Ok(units) => found += u32::from(units.contains(&unit)),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                refused += 1;
            }
        }
    }
    assert!(found + refused == 20_000 && refused > 0 && refused < 2_000, "{found} and {refused}");
}

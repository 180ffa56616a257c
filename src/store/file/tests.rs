use super::*;
use siltstone_device::Access;
use siltstone_device::memory::MemoryDirectory;

fn create(directory: &Directory) -> File {
    directory.create("s", Access::Buffered).unwrap()
}

#[test]
fn a_file_has_its_properties_and_a_damaged_footer_or_header_is_refused() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let mut writer = StoreFileWriter::create(create(&directory), 2, 9, 512, Purpose::Merge, 4096).unwrap();
    writer.append_block(&[1; 512]).unwrap();
    writer.append_block(&[2; 512]).unwrap();
    let written = writer.finish(40, 3, (1, b"index"), (0, b"")).unwrap();
    let opened = StoreFile::open(&directory, "s", 9).unwrap();
    assert_eq!(written.footer(), opened.footer());
    assert_eq!(opened.read_section(&opened.footer.index, Purpose::Recover).unwrap(), b"index");
    let mut buffer = AlignedBuffer::default();
    let blocks = opened.read_blocks(Purpose::Get, 1..2, &mut buffer).unwrap();
    assert_eq!(blocks, [2; 512]);
    assert!(opened.read_blocks(Purpose::Get, 2..7, &mut buffer).unwrap().is_empty());
    assert!(StoreFile::open(&directory, "s", 8).is_err(), "a misdirected file");
    let file = directory.open("s", Access::Buffered).unwrap();
    for at in [0, 9, 20, opened.length() - 128, opened.length() - 100, opened.length() - 1] {
        let mut byte = AlignedBuffer::default();
        let right = file.read(Purpose::Get, at, 1, &mut byte).unwrap()[0];
        file.write(Purpose::Get, at, &[right ^ 4]).unwrap();
        assert!(StoreFile::open(&directory, "s", 9).is_err(), "byte {at}");
        file.write(Purpose::Get, at, &[right]).unwrap();
    }
    file.truncate(100).unwrap();
    assert!(StoreFile::open(&directory, "s", 9).is_err());
}

/// Fuzz target `database`: a merge allocated memory for as many records as a forged footer claimed.
#[test]
fn a_footer_that_claims_more_records_than_there_are_bytes_is_refused() {
    for (records, deleted) in [(u64::MAX, 0), (1 << 40, 3), (40, 41)] {
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        let writer = StoreFileWriter::create(create(&directory), 2, 9, 512, Purpose::Merge, 4096).unwrap();
        writer.finish(records, deleted, (1, b"index"), (0, b"")).unwrap();
        assert!(matches!(StoreFile::open(&directory, "s", 9), Err(Error::Corrupt { .. })), "{records}");
    }
}

/// In a sparse file, which takes no space on the device.
#[test]
fn a_section_that_is_longer_than_records_account_for_is_refused_before_it_is_read() {
    let path = tempfile::tempdir().unwrap();
    let directory = Directory::system(path.path(), Access::Buffered).unwrap();
    let writer = StoreFileWriter::create(create(&directory), 2, 9, 512, Purpose::Merge, 4096).unwrap();
    let mut footer = writer.finish(40, 3, (1, b"index"), (0, b"")).unwrap().footer;
    footer.index = lengthened(&footer.index, (1 << 40) - 4096);
    forge(&directory.open("s", Access::Buffered).unwrap(), &footer, 1 << 40);
    let opened = StoreFile::open(&directory, "s", 9).unwrap();
    let outcome = opened.read_section(&opened.footer.index, Purpose::Recover);
    assert!(matches!(outcome, Err(Error::Corrupt { .. })));
    assert!(directory.io().of(Purpose::Recover).read_bytes < 10_000);
}

/// In sparse files, which take no space on the device.
#[test]
fn sections_of_files_with_few_records_may_be_as_long_as_their_blocks_account_for() {
    // The prefilter of a chain of 40 million keys, with 16 bits each, and the separators of 1,100 of the longest keys.
    for (block_bytes, blocks, records, length) in
        [(512, 40_000, 0, 80_000_000), (4096, 17 * 1_100, 1_100, 1_100 * 65_541)]
    {
        assert!(length > SECTION_BYTES + SECTION_BYTES_PER_RECORD * records);
        let path = tempfile::tempdir().unwrap();
        let directory = Directory::system(path.path(), Access::Buffered).unwrap();
        let file = create(&directory);
        let writer = StoreFileWriter::create(file, 2, 9, block_bytes, Purpose::Merge, 4096).unwrap();
        let footer = writer.finish(0, 0, (1, b"index"), (0, b"")).unwrap().footer;
        let index = lengthened(&footer.index, length);
        let footer = StoreFooter { blocks, records, index, ..footer };
        forge(&directory.open("s", Access::Buffered).unwrap(), &footer, 1 << 30);
        let opened = StoreFile::open(&directory, "s", 9).unwrap();
        opened.check_section(&opened.footer.index).unwrap();
        let most = SECTION_BYTES
            + SECTION_BYTES_PER_RECORD * records
            + SECTION_BYTES_PER_BLOCK_BYTE * blocks * u64::from(block_bytes);
        let outcome = opened.check_section(&lengthened(&footer.index, most + 1));
        assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{block_bytes}");
    }
}

#[test]
fn a_second_index_follows_the_first_which_remains_usable() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let mut writer = StoreFileWriter::create(create(&directory), 2, 9, 512, Purpose::Merge, 4096).unwrap();
    writer.append_block(&[1; 512]).unwrap();
    let first = writer.finish(40, 3, (1, b"first"), (0, b"")).unwrap();
    let end = first.length();
    first.append_index(Purpose::Merge, 4096, (2, &[7; 9000])).unwrap();
    for (again, kind, bytes) in [(true, 2, &[7; 9000][..]), (false, 3, b"third")] {
        let newest = StoreFile::open(&directory, "s", 9).unwrap();
        assert_eq!((newest.footer.index.kind, newest.footer.records, newest.footer.blocks), (kind, 40, 1));
        assert_eq!(newest.read_section(&newest.footer.index, Purpose::Recover).unwrap(), bytes);
        let file = directory.open("s", Access::Buffered).unwrap();
        let first = StoreFile::open_until(file, 9, end).unwrap();
        assert_eq!(first.read_section(&first.footer.index, Purpose::Recover).unwrap(), b"first");
        if again {
            first.append_index(Purpose::Merge, 4096, (3, b"third")).unwrap();
        }
    }
    let file = directory.open("s", Access::Buffered).unwrap();
    assert_eq!(file.length().unwrap(), end + 4096, "what the second index took was given back");
}

#[test]
fn a_temporary_file_can_be_read_by_its_writer() {
    let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
    let mut writer = StoreFileWriter::create(create(&directory), 2, 9, 512, Purpose::Merge, 4096).unwrap();
    directory.remove("s").unwrap();
    writer.append_block(&[1; 512]).unwrap();
    let written = writer.finish_temporary(4, 0).unwrap();
    let mut buffer = AlignedBuffer::default();
    assert_eq!(written.read_blocks(Purpose::Get, 0..1, &mut buffer).unwrap(), [1; 512]);
    assert_eq!((written.footer().records, directory.io().total().syncs), (4, 0));
}

/// Ends a file at `length` with this footer, after a hole that takes no space on the device.
pub(crate) fn forge(file: &File, footer: &StoreFooter, length: u64) {
    let footers = footer.encode().repeat(FOOTER_COPIES as usize + 1);
    file.write(Purpose::Merge, length - footers.len() as u64, &footers).unwrap();
}

/// Returns a section of another length.
pub(crate) fn lengthened(section: &Section, length: u64) -> Section {
    Section { length, ..*section }
}

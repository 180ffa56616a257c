//! The index of the FlashKey engine: what it takes in memory and on flash, and when it is saved.

use siltstone::engine::flashkey::costs;

const PAGE_ENTRIES: f64 = costs::PAGE_ENTRIES as f64;
const GROUPS_LOG2: f64 = costs::GROUPS_LOG2 as f64;
const WORD_BYTES: f64 = 8.0;
/// A page has up to this many words to spare, and half as many on average.
const SPARE_WORDS: f64 = costs::GROWTH_WORDS as f64 - 1.0;
/// The list of the pages of a shard grows by doubling: on average it has space for 1.44 times as many.
const DOUBLED: f64 = std::f64::consts::LOG2_E;
const SAVED_BLOCK_BYTES: f64 = costs::SAVED_BLOCK_BYTES as f64;
/// The buffer of a save, for a piece that is written. With entries on flash there are two more, and one is read ahead.
const SAVE_BUFFER: f64 = costs::SAVE_PIECE_BYTES as f64;

/// The shape of an index.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexLayout {
    /// The shards.
    pub partitions: f64,
    /// The bits of a hash that a shard keeps.
    pub shard_hash_bits: f64,
    /// The bits of a unit.
    pub unit_bits: f64,
    /// The share that is to be in memory.
    pub in_memory: f64,
}

impl IndexLayout {
    /// Returns the share of the entries that is on flash: of whole shards.
    pub fn on_flash(&self) -> f64 {
        1.0 - (self.in_memory * self.partitions).round() / self.partitions
    }

    /// Returns the pages of this many entries in a number of shards, and their words without those to spare.
    fn page_words(&self, shards: f64, entries: f64, unit_bits: f64) -> (f64, f64) {
        let shard = entries / shards;
        // Linear hashing: the pages of a level are split one after another, and tags lose a bit, as long as they have
        // one to spare.
        let pages_max = (self.shard_hash_bits - GROUPS_LOG2).exp2();
        let pages = (shard / PAGE_ENTRIES).ceil().clamp(1.0, pages_max);
        let level = pages.log2().floor();
        let split = pages - level.exp2();
        let share = split / level.exp2();
        let tag_bits = self.shard_hash_bits - level - share;
        let entry_bits = tag_bits - GROUPS_LOG2 + unit_bits;
        let counts = (shard / pages + GROUPS_LOG2.exp2()) / 64.0 + 0.5;
        let words = pages * (counts + shard / pages * entry_bits / 64.0 + 0.5);
        (shards * pages, shards * words)
    }

    fn pages_bytes(&self, shards: f64, entries: f64, unit_bits: f64) -> f64 {
        let (pages, words) = self.page_words(shards, entries, unit_bits);
        let page = costs::PAGE_BYTES as f64 + DOUBLED * costs::PAGE_LINK_BYTES as f64;
        (words + pages * SPARE_WORDS / 2.0) * WORD_BYTES + pages * page
    }

    /// Returns the bytes of this many entries if all are in memory.
    fn whole_bytes(&self, entries: f64) -> f64 {
        self.pages_bytes(self.partitions, entries, self.unit_bits)
    }

    /// Returns the memory of the marks of this many entries: whole words for each page.
    pub fn marks_bytes(&self, entries: f64) -> f64 {
        let (pages, _) = self.page_words(self.partitions, entries, self.unit_bits);
        pages * (costs::MARKS_BYTES as f64 + WORD_BYTES / 2.0) + entries / 8.0
    }

    fn shards_bytes(&self) -> f64 {
        self.partitions * costs::SHARD_BYTES as f64
    }

    /// Returns the memory of what is in memory of this many entries, and of the places of the other pages.
    pub fn bytes(&self, entries: f64) -> f64 {
        let flash = self.on_flash();
        let (pages, _) = self.page_words(self.partitions, entries, self.unit_bits);
        let places = pages * costs::FLASH_PAGE_BYTES as f64;
        (1.0 - flash) * self.whole_bytes(entries) + flash * places + self.shards_bytes()
    }

    /// Returns the average memory, with this many changes of entries on flash.
    pub fn ram(&self, entries: f64, changes: f64) -> f64 {
        let bytes = if self.on_flash() > 0.0 { self.changes_bytes(changes) } else { 0.0 };
        self.bytes(entries) + bytes
    }

    /// Returns the memory of this many changes of entries on flash.
    fn changes_bytes(&self, changes: f64) -> f64 {
        let unit_bits = self.unit_bits + f64::from(costs::MARK_BITS);
        self.pages_bytes(self.on_flash() * self.partitions, changes, unit_bits)
    }

    /// Returns the peak of memory with this many entries besides, of overwrites that are not confirmed.
    pub fn ram_peak(&self, entries: f64, unconfirmed: f64) -> f64 {
        if self.on_flash() == 0.0 {
            return self.bytes(entries + unconfirmed) + SAVE_BUFFER;
        }
        let changes = costs::CHANGES_MAX * self.changes_max(entries);
        self.bytes(entries + unconfirmed) + changes + 3.0 * SAVE_BUFFER
    }

    /// Returns the bytes of changes with which the index is saved.
    fn changes_max(&self, entries: f64) -> f64 {
        let least =
            costs::CHANGES_BYTES_MIN as f64 + costs::CHANGES_BYTES_MIN_PER_SHARD as f64 * self.partitions;
        (costs::CHANGES_BYTES_PER_ENTRY * entries).max(least)
    }

    /// Returns whether the index is saved because the changes of this many of its entries take their memory.
    pub fn must_save(&self, entries: f64, changes: f64) -> bool {
        let flash = self.on_flash();
        flash > 0.0 && self.changes_bytes(flash * changes) > self.changes_max(entries)
    }

    /// Returns the number of changes of entries on flash with which the index is saved.
    pub fn changes_of_save(&self, entries: f64) -> f64 {
        // Each takes more than a byte.
        let (mut low, mut high) = (0.0, self.changes_max(entries));
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if self.changes_bytes(middle) > self.changes_max(entries) { high = middle } else { low = middle }
        }
        high
    }

    /// Returns the puts between two saves: `of_redo`, or fewer if their changes take their memory before. `changes_of`
    /// the puts is the number of changes.
    pub fn puts_per_save(&self, entries: f64, of_redo: f64, changes_of: &dyn Fn(f64) -> f64) -> f64 {
        if !self.must_save(entries, changes_of(of_redo)) {
            return of_redo;
        }
        let (mut low, mut high) = (0.0, of_redo);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if self.must_save(entries, changes_of(middle)) { high = middle } else { low = middle }
        }
        high
    }

    /// Returns the bytes of the file of a saved index of this many entries, without its end.
    pub fn saved_bytes(&self, entries: f64) -> f64 {
        let (pages, words) = self.page_words(self.partitions, entries, self.unit_bits);
        let page = (costs::PAGE_HEADER_BYTES + costs::SAVED_PAGE_BYTES) as f64;
        // The pages of a shard end with a block.
        let shard = costs::SAVED_SHARD_BYTES as f64 + SAVED_BLOCK_BYTES / 2.0;
        SAVED_BLOCK_BYTES + words * WORD_BYTES + pages * page + self.partitions * shard
    }
}

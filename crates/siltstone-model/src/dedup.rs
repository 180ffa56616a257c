//! An index of chunks as `siltstone dedup` makes it, in a new directory, by its first run.
//!
//! ```text
//! files  --cut-->  chunks: F / L + 1/2 per file   --hash-->  chunks database: one record per distinct chunk
//!                                                            catalogue: per file its path, and 1 MiB of file per
//!                                                            record of hashes
//! ```
//!
//! L is the mean length of chunks cut by FastCDC (2020, normalization level 1) with the average size A: no cut before
//! A / 4, then one with probability 1 / 2A per byte up to A, then 2 / A per byte up to 4 A:
//!
//! L = A / 4 + 2A (1 - e^(-3/8)) + e^(-3/8) A / 2 (1 - e^-6) = 1.218 A
//!
//! Both databases are [`Silt`](crate::Silt) stores with the engine's defaults. While most chunks are new, the chunks
//! have filters of 8 bits per key.

use crate::error::{ModelError, positive};
use crate::popularity::Popularity;
use crate::silt::{Silt, SiltLayout};

/// The value of a chunk, and the entry of a file, in bytes, as in docs/formats/dedup.md.
const METADATA_BYTES: f64 = 44.0;
const FILE_ENTRY_BYTES: f64 = 57.0;
/// The key of a record of hashes, in bytes.
const SEGMENT_KEY_BYTES: f64 = 13.0;
/// A record of hashes has those of this many chunks, within these limits of bytes of the file.
const SEGMENT_CHUNKS: f64 = 256.0;
const SEGMENT_BYTES_MIN: f64 = 65_536.0;
const SEGMENT_BYTES_MAX: f64 = 1_048_576.0;
/// The bits of the filters that the engine builds by itself where lookups miss.
const FILTER_BITS: f64 = 8.0;

/// Files to index, and the hardware of the index.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct DedupDemand {
    /// The bytes of all files.
    pub bytes: f64,
    /// The mean size of a file, in bytes.
    pub file_bytes: f64,
    /// The mean length of an absolute path, in bytes.
    pub path_bytes: f64,
    /// A: the average size of a chunk, in bytes.
    pub average_bytes: f64,
    /// The length of the keys of chunks, in bytes.
    pub hash_bytes: f64,
    /// The bytes of all files per byte of distinct chunks, 1 or more.
    pub dedup_ratio: f64,
    /// The bytes of files that are read, cut and hashed per second.
    pub scan_bytes_per_s: f64,
    /// Random reads per second of the flash of the index.
    pub reads_per_s: f64,
    /// Bytes per second that this flash reads in large pieces.
    pub read_bytes_per_s: f64,
    /// Bytes per second that it writes in large pieces.
    pub write_bytes_per_s: f64,
}

/// What an index takes, and how long its first run is.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct DedupPlan {
    /// The number of files.
    pub files: f64,
    /// The mean length of a chunk, in bytes.
    pub chunk_bytes: f64,
    /// The chunks of all files.
    pub chunks: f64,
    /// The distinct ones.
    pub unique_chunks: f64,
    /// The records of the catalogue.
    pub catalogue_records: f64,
    /// The peak of the memory of the chunks, in bytes, with filters.
    pub ram_bytes: f64,
    /// The same without filters.
    pub ram_bytes_without_filters: f64,
    /// The peak of the memory of the catalogue, in bytes.
    pub catalogue_ram_bytes: f64,
    /// The most bytes of the chunks on flash.
    pub flash_bytes: f64,
    /// The most bytes of the catalogue on flash.
    pub catalogue_flash_bytes: f64,
    /// Reads of a lookup of a chunk that is new, with filters.
    pub reads_per_new_chunk: f64,
    /// The same without filters.
    pub reads_per_new_chunk_without_filters: f64,
    /// Reads of a lookup of a chunk that the index has.
    pub reads_per_known_chunk: f64,
    /// The bytes that the first run writes to the flash of the index.
    pub written_bytes: f64,
    /// The time in which the files are read, cut and hashed, in seconds.
    pub scan_s: f64,
    /// The time in which the flash of the index is busy, in seconds.
    pub index_s: f64,
    /// The duration of the first run, in seconds: both happen at the same time.
    pub first_run_s: f64,
}

impl DedupDemand {
    /// Checks that every value is in its range.
    fn check(&self) -> Result<(), ModelError> {
        for (name, value) in [
            ("bytes of files", self.bytes),
            ("file size", self.file_bytes),
            ("path length", self.path_bytes),
            ("average size", self.average_bytes),
            ("hash bytes", self.hash_bytes),
            ("scan rate", self.scan_bytes_per_s),
            ("reads per second", self.reads_per_s),
            ("read bytes per second", self.read_bytes_per_s),
            ("write bytes per second", self.write_bytes_per_s),
        ] {
            positive(name, value)?;
        }
        if !(self.dedup_ratio >= 1.0 && self.dedup_ratio.is_finite()) {
            return Err(ModelError {
                name: "dedup ratio",
                got: self.dedup_ratio,
                limit: "finite, 1 or more",
            });
        }
        Ok(())
    }

    /// Returns L, in bytes.
    pub fn chunk_bytes(&self) -> f64 {
        let reach = (-0.375f64).exp();
        self.average_bytes * (0.25 + 2.0 * (1.0 - reach) + reach / 2.0 * (1.0 - (-6.0f64).exp()))
    }

    /// Predicts what the index takes.
    ///
    /// # Errors
    /// A value is out of its range, or the index has more records than the model of the engine covers.
    pub fn plan(&self) -> Result<DedupPlan, ModelError> {
        self.check()?;
        let files = (self.bytes / self.file_bytes).max(1.0);
        let (file_bytes, chunk_bytes) = (self.bytes / files, self.chunk_bytes());
        let chunks = files * (file_bytes / chunk_bytes + 0.5).max(1.0);
        let unique_chunks = (chunks / self.dedup_ratio).max(1.0);
        let layout = SiltLayout::new(self.hash_bytes, METADATA_BYTES);
        let plain = layout.silt(unique_chunks)?;
        let filtered = SiltLayout { last_filter_bits: FILTER_BITS, ..layout }.silt(unique_chunks)?;
        let popularity = Popularity::uniform(unique_chunks as u64)?;
        let segment_bytes = (SEGMENT_CHUNKS * self.average_bytes).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let segments = files * (file_bytes / segment_bytes).ceil();
        let catalogue_records = files + segments;
        let catalogue = self.catalogue(files, segments, chunks)?;
        let of_files = Popularity::uniform(catalogue_records as u64)?;

        let known = chunks - unique_chunks;
        let (reads_per_new_chunk, reads_per_known_chunk) =
            (filtered.reads_per_miss(), filtered.reads_per_get(&popularity));
        // Each chunk writes its record: a new one, or one more occurrence.
        let chunk_puts =
            unique_chunks * filtered.writes_of_filling().total() + known * filtered.writes_at_worst().total();
        let written_bytes = chunk_puts * filtered.item_bytes
            + catalogue_records * catalogue.writes_of_filling().total() * catalogue.item_bytes;
        let lookups_s =
            (unique_chunks * reads_per_new_chunk + known * reads_per_known_chunk) / self.reads_per_s;
        // What is converted and merged is read once before it is written.
        let index_s =
            lookups_s + written_bytes * (1.0 / self.write_bytes_per_s + 1.0 / self.read_bytes_per_s);
        let scan_s = self.bytes / self.scan_bytes_per_s;
        Ok(DedupPlan {
            files,
            chunk_bytes,
            chunks,
            unique_chunks,
            catalogue_records,
            ram_bytes: filtered.ram_peak().total(),
            ram_bytes_without_filters: plain.ram_peak().total(),
            catalogue_ram_bytes: catalogue.ram_peak().total(),
            flash_bytes: space_bytes(&filtered, &popularity),
            catalogue_flash_bytes: space_bytes(&catalogue, &of_files),
            reads_per_new_chunk,
            reads_per_new_chunk_without_filters: plain.reads_per_miss(),
            reads_per_known_chunk,
            written_bytes,
            scan_s,
            index_s,
            first_run_s: scan_s.max(index_s),
        })
    }

    /// Returns the store of the catalogue: paths with entries, and records of hashes, of the mean size of both.
    fn catalogue(&self, files: f64, segments: f64, chunks: f64) -> Result<Silt, ModelError> {
        let records = files + segments;
        let key_bytes = (files * self.path_bytes + segments * SEGMENT_KEY_BYTES) / records;
        let value_bytes = (files * FILE_ENTRY_BYTES + chunks * self.hash_bytes) / records;
        let layout = SiltLayout::new(key_bytes, value_bytes);
        SiltLayout { fixed: false, partitions: 1.0, ..layout }.silt(records)
    }
}

fn space_bytes(silt: &Silt, popularity: &Popularity) -> f64 {
    silt.space_amplification(popularity) * silt.keys * silt.item_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand() -> DedupDemand {
        DedupDemand {
            bytes: 8.27e9,
            file_bytes: 8.27e9 / 218_638.0,
            path_bytes: 60.0,
            average_bytes: 4096.0,
            hash_bytes: 32.0,
            dedup_ratio: 1.2,
            scan_bytes_per_s: 100e6,
            reads_per_s: 100e3,
            read_bytes_per_s: 500e6,
            write_bytes_per_s: 500e6,
        }
    }

    /// The chunks and the sizes of an index of 8.27 GB in 218,638 files, whose ratio by chunks was 1.207: 1,726,181
    /// chunks, 177 MB and 139 MB on disk.
    #[test]
    fn chunks_and_sizes_are_those_of_a_real_index() {
        let plan = DedupDemand { dedup_ratio: 1.207, ..demand() }.plan().unwrap();
        assert!((plan.chunks / 1_726_181.0 - 1.0).abs() < 0.05, "{plan:?}");
        assert!((0.8..1.4).contains(&(plan.flash_bytes / 177e6)), "{plan:?}");
        assert!((0.5..2.0).contains(&(plan.catalogue_flash_bytes / 139e6)), "{plan:?}");
    }

    #[test]
    fn more_bytes_take_more_and_a_higher_ratio_less() {
        let (one, ten) =
            (demand().plan().unwrap(), DedupDemand { bytes: 8.27e10, ..demand() }.plan().unwrap());
        assert!(ten.ram_bytes > 5.0 * one.ram_bytes && ten.first_run_s > 9.9 * one.first_run_s);
        let half = DedupDemand { dedup_ratio: 2.4, ..demand() }.plan().unwrap();
        assert!(
            half.ram_bytes < one.ram_bytes && half.flash_bytes < one.flash_bytes && half.chunks == one.chunks
        );
        assert!(one.reads_per_new_chunk < 0.1 && one.reads_per_new_chunk_without_filters > 0.9);
        assert!(one.ram_bytes_without_filters < one.ram_bytes);
    }

    #[test]
    fn impossible_demands_are_refused() {
        for wrong in [
            DedupDemand { bytes: 0.0, ..demand() },
            DedupDemand { dedup_ratio: 0.9, ..demand() },
            DedupDemand { file_bytes: f64::NAN, ..demand() },
        ] {
            assert!(wrong.plan().is_err(), "{wrong:?}");
        }
    }
}

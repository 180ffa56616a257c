//! Prints every figure that docs/MODELS.md names, and writes the curves as CSV.
//!
//! `cargo run --release --features optimizer --example model_figures -- [DIR] [KEYS]`: the curves go to DIR;
//! simulations are made for up to KEYS keys (0, the default, makes none).

#![expect(clippy::print_stdout, reason = "a command that prints")]

use std::path::PathBuf;
use std::time::Instant;

use siltstone::model::{
    BloomStore, Flash, FlashKey, FlashStore, LevelDb, ModelError, Popularity, Silt, YEAR_S, figures,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| "target/model-figures".into()));
    let simulated_keys_max: u64 = arguments.next().map_or(Ok(0), |keys| keys.parse())?;
    primitives()?;
    silt()?;
    flashkey()?;
    others()?;
    optimizer()?;
    write_sources(simulated_keys_max)?;
    std::fs::create_dir_all(&directory)?;
    for figure in figures::all(simulated_keys_max)? {
        std::fs::write(directory.join(format!("figure-{}.csv", figure.number)), figure.to_csv())?;
    }
    println!("curves: {}", directory.display());
    Ok(())
}

fn show(source: &str, what: &str, paper: &str, reached: f64) {
    println!("{source:10} {what:48} paper {paper:>9}   reached {reached:.5}");
}

fn primitives() -> Result<(), ModelError> {
    let zipf = Popularity::zipf(100_000_000, 0.99)?;
    let uniform = Popularity::uniform(100_000_000)?;
    let size = 10.0 * f64::from(1 << 20);
    show("4.2.4", "Merge(1e7, 9e7), Zipf 0.99, in 1e7", "9.03", zipf.merge(1e7, 9e7) / 1e7);
    show("4.3.3", "DInterval(10 Mi), uniform, in 1e7", "2.26", uniform.density_interval(size) / 1e7);
    show("4.3.3", "Unique^-1(10 Mi), uniform, in 1e7", "1.11", uniform.unique_inverse(size) / 1e7);
    show("4.6.2", "grouping error of Zipf 0.99", "", zipf.grouping_error());
    Ok(())
}

fn silt() -> Result<(), ModelError> {
    let silt = Silt::paper(1e8, 1024.0, 4.0, 7.5e6);
    let flash = Flash { bytes: 256.0 * f64::from(1 << 30), erase_cycles: 10_000.0 };
    let writes = silt.writes_at_worst().total();
    show("2.4", "SILT: WA", "5.4", writes);
    show("2.4", "SILT: H", "31", silt.hash_stores_mean());
    show("2.4", "SILT: RA", "1.008", silt.reads_per_get_at_worst());
    show("2.4", "SILT: bytes a key", "0.73", silt.ram_bytes_per_key());
    show("2.4", "SILT: years", "3", flash.lifetime_s(5000.0, 1024.0, writes) / YEAR_S);
    for (name, keys, partitions) in [("one partition", 25_000_000, 1.0), ("all keys", 100_000_000, 4.0)] {
        let zipf = Popularity::zipf(keys, 0.99)?;
        let of = |stores: f64| Silt {
            keys: keys as f64,
            partitions,
            merge_keys: stores * silt.table_keys(),
            ..silt.clone()
        };
        show(
            "4.5",
            &format!("SILT: WA, Zipf 0.99, 62 HashStores, {name}"),
            "3.0",
            of(62.0).writes(&zipf).total(),
        );
        show(
            "4.5",
            &format!("SILT: WA, Zipf 0.99, 25 HashStores, {name}"),
            "5.4",
            of(25.0).writes(&zipf).total(),
        );
        let (few, many) = (of(25.0).ram_bytes_per_key(), of(62.0).ram_bytes_per_key());
        show("4.5", &format!("SILT: bytes a key, 25 HashStores, {name}"), "0.56", few);
        show("4.5", &format!("SILT: memory saved, {name}"), "0.26", 1.0 - few / many);
        let logs = of(25.0).ram().log_stores / keys as f64;
        show(
            "4.5",
            &format!("the same without LogStores, {name}"),
            "0.26",
            1.0 - (few - logs) / (many - logs),
        );
    }
    Ok(())
}

fn flashkey() -> Result<(), ModelError> {
    let flashkey = FlashKey::paper(4e9, 20.0, 800.0, 0.18);
    show("VI-C", "FlashKey: SA", "1.22", flashkey.space_amplification_of(4e12));
    show("VI-C", "FlashKey: keys in 1e9", "4.05", flashkey.keys_max(4e12) / 1e9);
    show("VI-C", "FlashKey: RA", "1.1", flashkey.read_amplification());
    show("VI-C", "FlashKey: WA, sequential", "1.06", flashkey.write_amplification_sequential());
    show("VI-C", "FlashKey: WA, random", "3.68", flashkey.write_amplification_random());
    let zipf = flashkey.write_amplification(&Popularity::zipf(4_000_000_000, 0.99)?)?;
    show("", "FlashKey: WA, Zipf 0.99, oldest band first", "", zipf);
    Ok(())
}

fn others() -> Result<(), ModelError> {
    let flashstore = FlashStore::paper(64.0, 160e9);
    let items = flashstore.index_items_max(4.0 * f64::from(1 << 30));
    show("FS 4.4", "FlashStore: items in 4 GiB of index, in 1e6", "715", items / 1e6);
    let bloomstore = BloomStore::paper(1e9, 64.0, 0.0);
    show("BS IV-B", "BloomStore: bytes a key, H = 96", "0.667", bloomstore.buffer_bytes_per_key());
    let longer = BloomStore { chain_length: 128.0, ..bloomstore };
    show("BS IV-B", "BloomStore: bytes a key, H = 128", "0.5", longer.buffer_bytes_per_key());
    Ok(())
}

fn optimizer() -> Result<(), ModelError> {
    for (skew, paper) in [(0.0, "3.17"), (0.99, "118")] {
        let popularity = Popularity::zipf(100_000_000, skew)?;
        let leveldb = LevelDb::standard(1e8, figures::ITEM_BYTES)?;
        let start = Instant::now();
        let found = leveldb.optimize(&popularity);
        let seconds = start.elapsed().as_secs_f64();
        show("4.6.4", &format!("optimizer, skew {skew}: seconds"), paper, seconds);
        show("4.6.4", &format!("optimizer, skew {skew}: evaluations"), "12,254+", found.evaluations as f64);
        show("4.6.3", &format!("optimizer, skew {skew}: WA"), "", found.writes.total());
    }
    let popularity = Popularity::uniform(10_000_000)?;
    let leveldb = LevelDb::with_growth(1e7, figures::ITEM_BYTES, 1e6 * figures::ITEM_BYTES, 10.0)?;
    let saved = 1.0 - leveldb.optimize(&popularity).writes.total() / leveldb.writes(&popularity).total();
    show("4.6.3", "optimizer, buffer of 1 M items: WA saved", "0.305", saved);
    Ok(())
}

fn write_sources(simulated_keys_max: u64) -> Result<(), ModelError> {
    let keys = if simulated_keys_max == 0 { 100_000_000 } else { simulated_keys_max };
    let start = Instant::now();
    let table = figures::write_sources(keys, simulated_keys_max > 0)?;
    println!("Table 4.1, {keys} keys:");
    println!("{:14} {:>8} {:>8} {:>8} {:>8}", "", "ana", "ana-opt", "sim", "sim-opt");
    let columns =
        [Some(table.analysis), Some(table.analysis_optimized), table.simulation, table.simulation_optimized];
    let columns: Vec<Vec<f64>> = columns
        .into_iter()
        .flatten()
        .map(|writes| {
            let sources = [writes.log, writes.level0].into_iter().chain(writes.levels.iter().copied());
            sources.chain([writes.total()]).collect()
        })
        .collect();
    let rows = columns.first().map_or(0, Vec::len);
    for row in 0..rows {
        let name = match row {
            0 => "mem to log".to_string(),
            1 => "mem to level-0".to_string(),
            row if row + 1 == rows => "total".to_string(),
            row => format!("level-{} to {}", row - 2, row - 1),
        };
        let values: String = columns.iter().map(|column| format!(" {:8.3}", column[row])).collect();
        println!("{name:14}{values}");
    }
    println!("in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

//! `evidence model`: evaluates the models of stores as their papers describe them.

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use siltstone_command::quantity::{Skew, parse_bytes, parse_count, parse_skew, parse_whole};
use siltstone_evidence::literature::{
    BloomStore, Cola, FlashKey, FlashStore, LevelDb, LevelDbWrites, Samt, simulate_leveldb,
};
use siltstone_model::{Mica, Popularity, Silt};
use std::io::{Write, stdout};

const EXAMPLES: &str = "
  evidence model wa --system leveldb --keys 1e8 --value-size 984
  evidence model wa --system leveldb --keys 1e8 --value-size 984 --skew zipf:0.99 --optimize --json
  evidence model ra --system leveldb --keys 2e6 --value-size 984 --simulate
  evidence model wa --system silt --keys 1e8 --value-size 1008 --partitions 4 --merge-keys 7.5e6
  evidence model wa --system flashkey --keys 4e9 --key-size 20 --value-size 800 --over-provision 0.18
  evidence model ram --system flashstore --keys 7e8 --flash-bytes 160GB
  evidence model sa --system bloomstore --keys 1e8 --over-provision 0.25";

/// The quantity that a model computes
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Measure {
    /// Write amplification and its parts
    Wa,
    /// Reads per get, and per get of a missing key
    Ra,
    /// Memory
    Ram,
    /// Space amplification
    Sa,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SystemArg {
    /// LevelDB: Algorithm 3 of Lim's dissertation
    Leveldb,
    /// The cache-oblivious lookahead array: Algorithm 4
    Cola,
    /// The sorted array merge tree: Algorithm 4
    Samt,
    /// SILT: 2.4 and Algorithm 5 of Lim's dissertation
    Silt,
    /// FlashKey: VI-C of its paper
    Flashkey,
    /// FlashStore: 4.4 and 4.5 of its paper
    Flashstore,
    /// BloomStore: II to IV of its paper
    Bloomstore,
    /// MICA in store mode: Lim's dissertation, 5.3.3
    Mica,
}

/// Evaluate the models of stores as their papers describe them
///
/// `siltstone model` has those of the engines.
#[derive(Args)]
#[command(after_help = super::help(EXAMPLES))]
pub struct ModelArgs {
    /// Quantity
    #[arg(value_enum)]
    measure: Measure,
    /// The system
    #[arg(long, value_enum)]
    system: SystemArg,
    /// Number of keys, such as 1e8
    #[arg(long, value_parser = parse_count)]
    keys: f64,
    /// The length of the keys, in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "16")]
    key_size: f64,
    /// The length of the values, in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "100")]
    value_size: f64,
    /// Popularity of the keys in puts and gets: uniform, zipf:0.99, latest:0.99
    #[arg(long, value_parser = parse_skew, default_value = "uniform")]
    skew: Skew,
    #[command(flatten)]
    parameters: Parameters,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Parameters; each system has its own defaults")]
struct Parameters {
    /// leveldb: use the level sizes with the least write amplification
    #[arg(long)]
    optimize: bool,
    /// leveldb: also simulate it, for wa and ra; 1e7 keys take some seconds
    #[arg(long)]
    simulate: bool,
    /// leveldb: the write buffer, in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4MiB")]
    write_buffer: f64,
    /// leveldb, cola, samt: the factor between levels
    #[arg(long, value_name = "R", value_parser = parse_whole::<u32>)]
    growth: Option<u32>,
    /// leveldb, cola, samt: Bloom filters, in bits per key
    #[arg(long, value_name = "BITS", default_value_t = 0.0)]
    bloom_bits: f64,
    /// leveldb: number of levels besides level-0 [default: as many as LevelDB would have]
    #[arg(long, value_parser = parse_whole::<u32>)]
    levels: Option<u32>,
    /// silt: P
    #[arg(long, value_name = "P", default_value_t = 4.0)]
    partitions: f64,
    /// silt: d, the number of keys in the HashStores of a partition at which they are merged; by default 0.3 of the
    /// partition
    #[arg(long, value_name = "D", value_parser = parse_count)]
    merge_keys: Option<f64>,
    /// silt: k
    #[arg(long, value_name = "K", default_value_t = 15.0)]
    tag_bits: f64,
    /// flashkey, bloomstore: extra space, as a fraction of the data
    #[arg(long, value_name = "SHARE", default_value_t = 0.18)]
    over_provision: f64,
    /// flashkey: the fraction of its hash table that is in memory
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    table_cached: f64,
    /// flashstore: the size of the flash; the rest of the data goes to a disk
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    flash_bytes: Option<f64>,
    /// flashstore: gets per put
    #[arg(long, default_value_t = 9.0)]
    gets_per_put: f64,
    /// bloomstore: H, the number of filters per chain
    #[arg(long, value_name = "H")]
    chain_length: Option<f64>,
    /// bloomstore: size of a filter, in bytes
    #[arg(long, value_name = "BYTES")]
    filter_bytes: Option<f64>,
    /// bloomstore: number of filters per chain that are in memory
    #[arg(long)]
    buffered_filters: Option<f64>,
    /// bloomstore: the prefilter, in bits per key
    #[arg(long)]
    prefilter_bits: Option<f64>,
}

type Values = Vec<(String, f64)>;

pub fn run(args: ModelArgs) -> Result<()> {
    let values = args.values(&args.skew.popularity(args.keys)?)?;
    let mut out = stdout().lock();
    if args.json {
        let object =
            values.iter().map(|(name, value)| (name.clone(), siltstone_bench::accounts::number(*value)));
        writeln!(out, "{}", serde_json::Value::Object(object.collect()))?;
    } else {
        for (name, value) in values {
            writeln!(out, "{name:<28} {:>16}", siltstone_bench::accounts::number_as_text(value))?;
        }
    }
    Ok(out.flush()?)
}

fn named(values: &[(&str, f64)]) -> Values {
    values.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
}

/// Prepends the sum of the values.
fn summed(total: &str, values: Values) -> Values {
    let sum = values.iter().map(|(_, value)| value).sum();
    std::iter::once((total.to_owned(), sum)).chain(values).collect()
}

fn memory(keys: f64, bytes: f64) -> Values {
    named(&[("ram_bytes", bytes), ("ram_bytes_per_key", bytes / keys)])
}

fn level_writes(writes: &LevelDbWrites) -> Values {
    let levels = writes.levels.iter().enumerate();
    let levels = levels.map(|(level, &value)| (format!("level-{level} to {}", level + 1), value));
    named(&[("log", writes.log), ("level-0", writes.level0)]).into_iter().chain(levels).collect()
}

fn level_items(leveldb: &LevelDb) -> Values {
    let sizes = leveldb.level_items.iter().enumerate();
    sizes.map(|(level, &items)| (format!("level-{}_items", level + 1), items)).collect()
}

fn numbered(writes: &[f64]) -> Values {
    let name = |index| if index == 0 { "log".to_owned() } else { format!("level-{index}") };
    writes.iter().enumerate().map(|(index, &value)| (name(index), value)).collect()
}

impl ModelArgs {
    fn item_bytes(&self) -> f64 {
        self.key_size + self.value_size
    }

    fn values(&self, popularity: &Popularity) -> Result<Values> {
        let measure = self.measure;
        match self.system {
            SystemArg::Leveldb => self.leveldb(measure, popularity),
            SystemArg::Cola | SystemArg::Samt => self.array(measure, popularity),
            SystemArg::Silt => self.silt(measure, popularity),
            SystemArg::Flashkey => self.flashkey(measure, popularity),
            SystemArg::Flashstore => self.flashstore(measure, popularity),
            SystemArg::Bloomstore => self.bloomstore(measure, popularity),
            SystemArg::Mica => self.mica(measure),
        }
    }

    /// Returns LevelDB as it is, and with the level sizes that are asked for.
    fn leveldb_with_sizes(&self, popularity: &Popularity) -> Result<(LevelDb, LevelDb)> {
        let growth = self.parameters.growth.map_or(10.0, f64::from);
        let leveldb = match self.parameters.levels {
            Some(levels) => LevelDb::with_levels(self.keys, self.item_bytes(), levels)?,
            None => LevelDb::with_growth(self.keys, self.item_bytes(), self.parameters.write_buffer, growth)?,
        };
        let sized = match self.parameters.optimize {
            true => leveldb.optimize(popularity).leveldb,
            false => leveldb.clone(),
        };
        Ok((leveldb, sized))
    }

    fn leveldb(&self, measure: Measure, popularity: &Popularity) -> Result<Values> {
        let (standard, leveldb) = self.leveldb_with_sizes(popularity)?;
        let counts = matches!(measure, Measure::Wa | Measure::Ra);
        let simulated = match self.parameters.simulate && counts {
            true => Some(simulate_leveldb(&leveldb, self.item_bytes(), popularity)?),
            false => None,
        };
        Ok(match measure {
            Measure::Wa => summed("write_amplification", level_writes(&leveldb.writes(popularity)))
                .into_iter()
                .chain(simulated.map(|simulated| ("simulated".to_owned(), simulated.writes.total())))
                .chain(named(&[
                    ("of_the_code", leveldb.writes_of_the_code(popularity).total()),
                    ("worst_case", leveldb.writes_at_worst().total()),
                    ("without_optimizing", standard.writes(popularity).total()),
                ]))
                .chain(level_items(&leveldb))
                .collect(),
            Measure::Ra => {
                let mut values = named(&[
                    ("tables_per_get", leveldb.tables_per_get(popularity)),
                    ("tables_per_miss", leveldb.tables_per_miss()),
                ]);
                if let Some(simulated) = &simulated {
                    values.extend(named(&[("tables_per_get_simulated", simulated.tables_per_get)]));
                }
                values
            }
            Measure::Ram => {
                memory(self.keys, leveldb.ram_bytes(self.item_bytes(), self.parameters.bloom_bits))
            }
            Measure::Sa => named(&[("space_amplification", leveldb.space_amplification())]),
        })
    }

    fn array(&self, measure: Measure, popularity: &Popularity) -> Result<Values> {
        let growth = self.parameters.growth.unwrap_or(4);
        let cola = Cola::standard(self.keys, self.item_bytes(), growth)?;
        let samt = Samt::standard(self.keys, self.item_bytes(), growth)?;
        let is_cola = self.system == SystemArg::Cola;
        let bits = self.parameters.bloom_bits;
        Ok(match measure {
            Measure::Wa => {
                let writes = if is_cola { cola.writes(popularity) } else { samt.writes(popularity) };
                summed("write_amplification", numbered(&writes))
            }
            Measure::Ra => {
                let tables =
                    if is_cola { cola.tables_per_get_at_worst() } else { samt.tables_per_get_at_worst() };
                named(&[("tables_per_get_at_worst", tables)])
            }
            Measure::Ram => memory(
                self.keys,
                match is_cola {
                    true => cola.ram_bytes(self.keys, self.item_bytes(), bits),
                    false => samt.ram_bytes(self.keys, self.item_bytes(), bits),
                },
            ),
            Measure::Sa => {
                bail!("the models of COLA and SAMT have no space amplification: wa, ra and ram do")
            }
        })
    }

    fn silt(&self, measure: Measure, popularity: &Popularity) -> Result<Values> {
        let Parameters { partitions, merge_keys, tag_bits, .. } = self.parameters;
        let merge_keys = merge_keys.unwrap_or(0.3 * self.keys / partitions);
        let silt = Silt::with_tags(self.keys, self.item_bytes(), partitions, merge_keys, tag_bits);
        silt.check()?;
        let silt = silt.of_whole_hash_stores();
        let writes = silt.writes(popularity);
        Ok(match measure {
            Measure::Wa => named(&[
                ("write_amplification", writes.total()),
                ("log", writes.log_store),
                ("hash_stores", writes.hash_stores),
                ("sorted_store", writes.sorted_store),
                ("worst_case", silt.writes_at_worst().total()),
                ("hash_stores_mean", silt.hash_stores_mean()),
            ]),
            Measure::Ra => named(&[
                ("reads_per_get", silt.reads_per_get(popularity)),
                ("reads_per_miss", silt.reads_per_miss()),
            ]),
            Measure::Ram => memory(self.keys, silt.ram().total()),
            Measure::Sa => named(&[("space_amplification", silt.space_amplification(popularity))]),
        })
    }

    fn flashkey(&self, measure: Measure, popularity: &Popularity) -> Result<Values> {
        let over_provision = self.parameters.over_provision;
        let paper = FlashKey::paper(self.keys, self.key_size, self.value_size, over_provision);
        let flashkey = FlashKey { table_cached: self.parameters.table_cached, ..paper };
        flashkey.check()?;
        Ok(match measure {
            Measure::Wa => named(&[
                ("write_amplification", flashkey.write_amplification(popularity)?),
                ("sequential", flashkey.write_amplification_sequential()),
                ("random", flashkey.write_amplification_random()),
            ]),
            Measure::Ra => named(&[
                ("reads_per_get", flashkey.reads_per_get()),
                ("read_amplification_bytes", flashkey.read_amplification()),
            ]),
            Measure::Ram => memory(self.keys, flashkey.ram_bytes()),
            Measure::Sa => named(&[("space_amplification", flashkey.space_amplification())]),
        })
    }

    fn flash_bytes(&self) -> Result<f64> {
        self.parameters
            .flash_bytes
            .context("FlashStore has flash for a part of the data: state --flash-bytes")
    }

    fn flashstore(&self, measure: Measure, popularity: &Popularity) -> Result<Values> {
        let data = self.keys * self.item_bytes();
        let flash_bytes = self.flash_bytes()?;
        let flashstore = FlashStore::paper(self.item_bytes(), flash_bytes);
        let recycling = flashstore.recycling(popularity, self.parameters.gets_per_put)?;
        Ok(match measure {
            Measure::Wa => named(&[
                ("write_amplification", recycling.flash_writes_per_put),
                ("disk_writes_per_put", recycling.disk_writes_per_put),
            ]),
            Measure::Ra => named(&[
                ("flash_reads_per_get", recycling.flash_gets * flashstore.reads_per_get()),
                ("disk_reads_per_get", 1.0 - recycling.flash_gets),
                ("flash_reads_per_miss", flashstore.reads_per_miss()),
            ]),
            Measure::Ram => memory(self.keys, flashstore.ram_bytes(self.keys, &recycling)),
            Measure::Sa => named(&[("space_amplification", flash_bytes / data)]),
        })
    }

    fn bloomstore(&self, measure: Measure, popularity: &Popularity) -> Result<Values> {
        let parameters = &self.parameters;
        let paper = BloomStore::paper(self.keys, self.item_bytes(), parameters.over_provision);
        let bloomstore = BloomStore {
            chain_length: parameters.chain_length.unwrap_or(paper.chain_length),
            filter_bytes: parameters.filter_bytes.unwrap_or(paper.filter_bytes),
            buffered_filters: parameters.buffered_filters.unwrap_or(paper.buffered_filters),
            prefilter_bits: parameters.prefilter_bits.unwrap_or(paper.prefilter_bits),
            ..paper
        };
        bloomstore.check()?;
        Ok(match measure {
            Measure::Wa => named(&[("write_amplification", bloomstore.write_amplification(popularity)?)]),
            Measure::Ra => named(&[
                ("reads_per_get", bloomstore.reads_per_get(popularity)?),
                ("reads_per_miss", bloomstore.reads_per_miss()),
                ("false_positives", bloomstore.false_positives()),
            ]),
            Measure::Ram => memory(self.keys, bloomstore.ram_bytes()),
            Measure::Sa => named(&[("space_amplification", bloomstore.space_amplification())]),
        })
    }

    fn mica(&self, measure: Measure) -> Result<Values> {
        let mica = Mica::paper(self.keys, self.item_bytes());
        mica.check()?;
        if measure != Measure::Ram {
            bail!("MICA keeps its items in memory and none on flash: use ram");
        }
        Ok(memory(self.keys, mica.ram_bytes()))
    }
}

#[cfg(test)]
mod tests;

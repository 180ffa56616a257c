//! The write, read and space amplification and the memory of each system.

mod bloomstore;

use crate::outcome::{Outcome, Result};
use crate::quantity::{Skew, parse_bytes, parse_count, parse_queues, parse_skew, parse_whole};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use siltstone_model::{
    Below, Cola, FlashKey, FlashKeyLayout, FlashStore, FlashStoreLayout, LevelDb, LevelDbWrites, Mica,
    Popularity, Samt, Separation, Silt, SiltLayout, simulate_leveldb,
};

pub const WA_EXAMPLES: &str = "
  siltstone model wa --system leveldb --keys 1e8 --value-size 984
  siltstone model wa --system leveldb --keys 1e8 --value-size 984 --skew zipf:0.99 --optimize --json
  siltstone model wa --system silt --keys 1e9 --skew zipf:0.99 --merge-ratio 0.5
  siltstone model wa --system silt-paper --keys 1e8 --value-size 1008 --partitions 4 --merge-keys 7.5e6
  siltstone model wa --system flashkey --keys 1e9 --key-size 20 --value-size 800 --skew zipf:0.99 --space 1.5
  siltstone model wa --system flashkey-paper --keys 4e9 --key-size 20 --value-size 800 --over-provision 0.18";
pub const RA_EXAMPLES: &str = "
  siltstone model ra --system silt --keys 1e9 --filter-bits 8
  siltstone model ra --system leveldb --keys 2e6 --value-size 984 --simulate
  siltstone model ra --system bloomstore --keys 1e8 --json
  siltstone model ra --system bloomstore-paper --keys 1e8 --over-provision 0.25 --json";
pub const RAM_EXAMPLES: &str = "
  siltstone model ram --system silt --keys 1e9
  siltstone model ram --system flashstore --keys 7e8 --flash-bytes 20GB --skew zipf:0.99
  siltstone model ram --system flashstore-paper --keys 7e8 --flash-bytes 160GB";
pub const SA_EXAMPLES: &str = "
  siltstone model sa --system silt --keys 1e9 --key-size 20 --value-size 44
  siltstone model sa --system flashkey-paper --keys 4e9 --over-provision 0.18 --json";

/// The quantity that a model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Writes,
    Reads,
    Memory,
    Space,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SystemArg {
    /// LevelDB: Algorithm 3 of Lim's dissertation
    Leveldb,
    /// The cache-oblivious lookahead array: Algorithm 4
    Cola,
    /// The sorted array merge tree: Algorithm 4
    Samt,
    /// The engine of this program, with its own formats and indexes
    Silt,
    /// SILT as in the dissertation: 2.4 and Algorithm 5
    SiltPaper,
    /// The engine FlashKey of this program
    Flashkey,
    /// FlashKey: VI-C of its paper
    FlashkeyPaper,
    /// The engine FlashStore of this program, with SILT on the disk
    Flashstore,
    /// FlashStore: 4.4 and 4.5 of its paper
    FlashstorePaper,
    /// The engine BloomStore of this program
    Bloomstore,
    /// BloomStore: II to IV of its paper
    BloomstorePaper,
    /// MICA in store mode, as implemented here
    Mica,
    /// MICA in store mode, as in the dissertation
    MicaPaper,
}

/// A system, its data and its parameters.
#[derive(Args)]
pub struct SystemArgs {
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
    /// silt, silt-paper: P
    #[arg(long, value_name = "P")]
    partitions: Option<f64>,
    /// silt: the keys of HashStores before a merge, as a fraction of all keys
    #[arg(long)]
    merge_ratio: Option<f64>,
    /// silt: bits of filters, with a false-positive rate of 2^-BITS
    #[arg(long)]
    filter_bits: Option<f64>,
    /// silt: the minimum number of slots of a LogStore
    #[arg(long)]
    log_slots_min: Option<f64>,
    /// silt: bits of a filter per SortedStore, for gets of missing keys
    #[arg(long, value_name = "BITS")]
    filter_last_store: Option<f64>,
    /// silt: size of a block on flash
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    block_bytes: Option<f64>,
    /// silt, flashkey, mica: records differ in size
    #[arg(long)]
    variable: bool,
    /// silt-paper: d, the number of keys in the HashStores of a partition at which they are merged; by default 0.3 of
    /// the partition
    #[arg(long, value_name = "D", value_parser = parse_count)]
    merge_keys: Option<f64>,
    /// silt-paper: k
    #[arg(long, value_name = "K", default_value_t = 15.0)]
    tag_bits: f64,
    /// flashkey, bloomstore: bytes of the logs, or records in runs, per live one
    #[arg(long, value_name = "RATIO")]
    space: Option<f64>,
    /// flashkey, flashstore: size of a segment of the logs
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    segment_bytes: Option<f64>,
    /// flashkey-paper, bloomstore-paper: extra space, as a fraction of the data
    #[arg(long, value_name = "SHARE", default_value_t = 0.18)]
    over_provision: f64,
    /// flashkey-paper: the fraction of its hash table that is in memory
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    table_cached: f64,
    /// flashstore, flashstore-paper: the size of the flash; the rest of the data goes to a disk
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    flash_bytes: Option<f64>,
    /// flashstore: number of queues
    #[arg(long, value_parser = parse_queues)]
    queues: Option<u8>,
    /// flashstore: gets per put
    #[arg(long, default_value_t = 9.0)]
    gets_per_put: f64,
    /// bloomstore: the most runs of a partition; bloomstore-paper: H, the number of filters per chain
    #[arg(long, value_name = "H")]
    chain_length: Option<f64>,
    /// bloomstore: the number of all keys, if it is known
    #[arg(long, value_name = "N", value_parser = parse_count)]
    expected_keys: Option<f64>,
    /// bloomstore-paper: size of a filter, in bytes
    #[arg(long, value_name = "BYTES")]
    filter_bytes: Option<f64>,
    /// bloomstore, bloomstore-paper: number of filters per chain that are in memory
    #[arg(long)]
    buffered_filters: Option<f64>,
    /// bloomstore, bloomstore-paper: the prefilter, in bits per key
    #[arg(long)]
    prefilter_bits: Option<f64>,
}

type Values = Vec<(String, f64)>;

pub fn run(args: SystemArgs, measure: Measure) -> Result {
    let popularity = args.skew.popularity(args.keys)?;
    super::print(&args.values(measure, &popularity)?, args.json)?;
    Ok(Outcome::Done)
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

fn numbered(writes: &[f64]) -> Values {
    let name = |index| if index == 0 { "log".to_owned() } else { format!("level-{index}") };
    writes.iter().enumerate().map(|(index, &value)| (name(index), value)).collect()
}

impl SystemArgs {
    fn item_bytes(&self) -> f64 {
        self.key_size + self.value_size
    }

    fn values(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        match self.system {
            SystemArg::Leveldb => self.leveldb(measure, popularity),
            SystemArg::Cola | SystemArg::Samt => self.array(measure, popularity),
            SystemArg::Silt => self.silt(measure, popularity, &self.layout().silt(self.keys)?),
            SystemArg::SiltPaper => self.silt(measure, popularity, &self.silt_of_the_paper()?),
            SystemArg::Flashkey => self.flashkey(measure, popularity),
            SystemArg::FlashkeyPaper => self.flashkey_of_the_paper(measure, popularity),
            SystemArg::Flashstore => self.flashstore(measure, popularity),
            SystemArg::FlashstorePaper => self.flashstore_of_the_paper(measure, popularity),
            SystemArg::Bloomstore => self.bloomstore(measure, popularity),
            SystemArg::BloomstorePaper => self.bloomstore_of_the_paper(measure, popularity),
            SystemArg::Mica | SystemArg::MicaPaper => self.mica(measure),
        }
    }

    fn leveldb(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        let growth = self.parameters.growth.map_or(10.0, f64::from);
        let buffer = self.parameters.write_buffer;
        let mut leveldb = LevelDb::with_growth(self.keys, self.item_bytes(), buffer, growth)?;
        if self.parameters.optimize {
            leveldb = leveldb.optimize(popularity).leveldb;
        }
        let counts = matches!(measure, Measure::Writes | Measure::Reads);
        let simulated = match self.parameters.simulate && counts {
            true => Some(simulate_leveldb(&leveldb, self.item_bytes(), popularity)?),
            false => None,
        };
        Ok(match measure {
            Measure::Writes => summed("write_amplification", level_writes(&leveldb.writes(popularity)))
                .into_iter()
                .chain(simulated.map(|simulated| ("simulated".to_owned(), simulated.writes.total())))
                .chain(named(&[
                    ("of_the_code", leveldb.writes_of_the_code(popularity).total()),
                    ("worst_case", leveldb.writes_at_worst().total()),
                ]))
                .collect(),
            Measure::Reads => {
                let mut values = named(&[
                    ("tables_per_get", leveldb.tables_per_get(popularity)),
                    ("tables_per_miss", leveldb.tables_per_miss()),
                ]);
                if let Some(simulated) = &simulated {
                    values.extend(named(&[("tables_per_get_simulated", simulated.tables_per_get)]));
                }
                values
            }
            Measure::Memory => {
                memory(self.keys, leveldb.ram_bytes(self.item_bytes(), self.parameters.bloom_bits))
            }
            Measure::Space => named(&[("space_amplification", leveldb.space_amplification())]),
        })
    }

    fn array(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        let growth = self.parameters.growth.unwrap_or(4);
        let cola = Cola::standard(self.keys, self.item_bytes(), growth)?;
        let samt = Samt::standard(self.keys, self.item_bytes(), growth)?;
        let is_cola = self.system == SystemArg::Cola;
        let bits = self.parameters.bloom_bits;
        Ok(match measure {
            Measure::Writes => {
                let writes = if is_cola { cola.writes(popularity) } else { samt.writes(popularity) };
                summed("write_amplification", numbered(&writes))
            }
            Measure::Reads => {
                let tables =
                    if is_cola { cola.tables_per_get_at_worst() } else { samt.tables_per_get_at_worst() };
                named(&[("tables_per_get_at_worst", tables)])
            }
            Measure::Memory => memory(
                self.keys,
                match is_cola {
                    true => cola.ram_bytes(self.keys, self.item_bytes(), bits),
                    false => samt.ram_bytes(self.keys, self.item_bytes(), bits),
                },
            ),
            Measure::Space => {
                bail!("the models of COLA and SAMT have no space amplification: wa, ra and ram do")
            }
        })
    }

    fn layout(&self) -> SiltLayout {
        let parameters = &self.parameters;
        let standard = SiltLayout::new(self.key_size, self.value_size);
        SiltLayout {
            fixed: !parameters.variable,
            block_bytes: parameters.block_bytes.unwrap_or(standard.block_bytes),
            partitions: parameters.partitions.unwrap_or(standard.partitions),
            merge_ratio: parameters.merge_ratio.unwrap_or(standard.merge_ratio),
            filter_bits: parameters.filter_bits.unwrap_or(standard.filter_bits),
            log_slots_min: parameters.log_slots_min.unwrap_or(standard.log_slots_min),
            last_filter_bits: parameters.filter_last_store.unwrap_or(standard.last_filter_bits),
            ..standard
        }
    }

    fn silt_of_the_paper(&self) -> anyhow::Result<Silt> {
        let partitions = self.parameters.partitions.unwrap_or(4.0);
        let merge_keys = self.parameters.merge_keys.unwrap_or(0.3 * self.keys / partitions);
        let tag_bits = self.parameters.tag_bits;
        let silt = Silt::with_tags(self.keys, self.item_bytes(), partitions, merge_keys, tag_bits);
        silt.check()?;
        Ok(silt.of_whole_hash_stores())
    }

    fn silt(&self, measure: Measure, popularity: &Popularity, silt: &Silt) -> anyhow::Result<Values> {
        Ok(match measure {
            Measure::Writes => {
                let writes = silt.writes(popularity);
                let stores = [
                    ("log", writes.log_store),
                    ("hash_stores", writes.hash_stores),
                    ("sorted_store", writes.sorted_store),
                ];
                let mut values = summed("write_amplification", named(&stores));
                values.extend(named(&[
                    ("worst_case", silt.writes_at_worst().total()),
                    ("filling", silt.writes_of_filling().total()),
                    ("hash_stores_mean", silt.hash_stores_mean()),
                ]));
                values
            }
            Measure::Reads => named(&[
                ("reads_per_get", silt.reads_per_get(popularity)),
                ("reads_per_miss", silt.reads_per_miss()),
            ]),
            Measure::Memory => {
                let (ram, peak) = (silt.ram(), silt.ram_peak());
                let mut values = memory(self.keys, ram.total());
                values.extend(named(&[
                    ("log_stores_bytes", ram.log_stores),
                    ("hash_stores_bytes", ram.hash_stores),
                    ("sorted_stores_bytes", ram.sorted_stores),
                    ("fixed_bytes", ram.fixed),
                    ("ram_peak_bytes", peak.total()),
                    ("peak_buffers_bytes", peak.buffers),
                ]));
                values
            }
            Measure::Space => named(&[("space_amplification", silt.space_amplification(popularity))]),
        })
    }

    fn flashkey_layout(&self) -> FlashKeyLayout {
        let Parameters { variable, space, segment_bytes, .. } = &self.parameters;
        let standard = FlashKeyLayout::new(self.key_size, self.value_size);
        FlashKeyLayout {
            fixed: !variable,
            space: space.unwrap_or(standard.space),
            segment_bytes: segment_bytes.unwrap_or(standard.segment_bytes),
            ..standard
        }
    }

    fn flashkey(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        let layout = self.flashkey_layout();
        let store = layout.store(self.keys)?;
        Ok(match measure {
            Measure::Writes => {
                let appends = store.appends_per_put(popularity)?;
                let writes = store.writes(popularity, appends);
                let room = self.keys * layout.space;
                named(&[
                    ("write_amplification", writes.total()),
                    ("puts", writes.puts),
                    ("moved", writes.moved),
                    ("markers", writes.markers),
                    ("redo", writes.redo),
                    ("saved_index", writes.saved_index),
                    ("filling", store.writes_of_filling().total()),
                    ("appends_per_put", appends),
                    ("least_appends_per_put", Separation::least(popularity, room)?.appends_per_put),
                ])
            }
            Measure::Reads => {
                let appends = store.appends_per_put(popularity)?;
                named(&[
                    ("reads_per_get", store.reads_per_get()),
                    ("reads_per_miss", store.reads_per_miss()),
                    ("background_reads_per_put", store.background_reads_per_put(popularity, appends)),
                ])
            }
            Measure::Memory => {
                let mut values = memory(self.keys, store.ram().total());
                values.extend(named(&[("ram_peak_bytes", store.ram_peak().total())]));
                values
            }
            Measure::Space => named(&[("space_amplification", store.space_amplification())]),
        })
    }

    fn flashkey_of_the_paper(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        let over_provision = self.parameters.over_provision;
        let paper = FlashKey::paper(self.keys, self.key_size, self.value_size, over_provision);
        let flashkey = FlashKey { table_cached: self.parameters.table_cached, ..paper };
        flashkey.check()?;
        Ok(match measure {
            Measure::Writes => named(&[
                ("write_amplification", flashkey.write_amplification(popularity)?),
                ("sequential", flashkey.write_amplification_sequential()),
                ("random", flashkey.write_amplification_random()),
            ]),
            Measure::Reads => named(&[
                ("reads_per_get", flashkey.reads_per_get()),
                ("read_amplification_bytes", flashkey.read_amplification()),
            ]),
            Measure::Memory => memory(self.keys, flashkey.ram_bytes()),
            Measure::Space => named(&[("space_amplification", flashkey.space_amplification())]),
        })
    }

    fn flash_bytes(&self) -> anyhow::Result<f64> {
        self.parameters
            .flash_bytes
            .context("FlashStore has flash for a part of the data: state --flash-bytes")
    }

    fn flashstore_layout(&self) -> anyhow::Result<FlashStoreLayout> {
        let Parameters { queues, variable, segment_bytes, .. } = &self.parameters;
        let mut layout = FlashStoreLayout::new(self.key_size, self.value_size, self.flash_bytes()?);
        layout.queues = queues.unwrap_or(layout.queues);
        layout.logs.fixed = !variable;
        layout.logs.segment_bytes = segment_bytes.unwrap_or(layout.logs.segment_bytes);
        if let Below::Disk(disk) = &mut layout.below {
            disk.fixed = !variable;
        }
        Ok(layout)
    }

    fn flashstore(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        let layout = self.flashstore_layout()?;
        let store = layout.store(popularity, self.parameters.gets_per_put)?;
        Ok(match measure {
            Measure::Writes => {
                let writes = store.writes();
                named(&[
                    ("write_amplification", writes.total()),
                    ("puts", writes.puts),
                    ("promoted", writes.promoted),
                    ("moved", writes.moved),
                    ("markers", writes.markers),
                    ("redo", writes.redo),
                    ("saved_index", writes.saved_index),
                    ("records_to_disk_per_put", store.destaged_per_put()),
                    ("disk_write_amplification", store.disk_writes()),
                ])
            }
            Measure::Reads => named(&[
                ("flash_gets", store.flash_gets()),
                ("reads_per_flash_get", store.reads_per_flash_get()),
                ("reads_per_flash_miss", store.reads_per_flash_miss()),
                ("reads_per_disk_get", store.reads_per_disk_get()),
                ("reads_per_disk_miss", store.reads_per_disk_miss()),
            ]),
            Measure::Memory => {
                let ram = store.ram();
                let mut values = memory(self.keys, ram.total());
                let peak = store.ram_peak().total();
                values.extend(named(&[("disk_bytes", ram.disk), ("ram_peak_bytes", peak)]));
                values
            }
            Measure::Space => named(&[
                ("space_amplification", store.flash_bytes() / self.keys / self.item_bytes()),
                ("disk_space_amplification", store.disk_bytes() / self.keys / self.item_bytes()),
            ]),
        })
    }

    fn flashstore_of_the_paper(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        let data = self.keys * self.item_bytes();
        let flash_bytes = self.flash_bytes()?;
        let flashstore = FlashStore::paper(self.item_bytes(), flash_bytes);
        let recycling = flashstore.recycling(popularity, self.parameters.gets_per_put)?;
        Ok(match measure {
            Measure::Writes => named(&[
                ("write_amplification", recycling.flash_writes_per_put),
                ("disk_writes_per_put", recycling.disk_writes_per_put),
            ]),
            Measure::Reads => named(&[
                ("flash_reads_per_get", recycling.flash_gets * flashstore.reads_per_get()),
                ("disk_reads_per_get", 1.0 - recycling.flash_gets),
                ("flash_reads_per_miss", flashstore.reads_per_miss()),
            ]),
            Measure::Memory => memory(self.keys, flashstore.ram_bytes(self.keys, &recycling)),
            Measure::Space => named(&[("space_amplification", flash_bytes / data)]),
        })
    }

    fn mica(&self, measure: Measure) -> anyhow::Result<Values> {
        let mica = match (self.system, self.parameters.variable) {
            (SystemArg::MicaPaper, _) => Mica::paper(self.keys, self.item_bytes()),
            (_, true) => Mica::siltstone_of_sizes(self.keys, self.item_bytes()),
            (_, false) => Mica::siltstone(self.keys, self.item_bytes(), true),
        };
        mica.check()?;
        if measure != Measure::Memory {
            bail!("MICA keeps its items in memory and none on flash: use ram");
        }
        Ok(memory(self.keys, mica.ram_bytes()))
    }
}

#[cfg(test)]
mod tests;

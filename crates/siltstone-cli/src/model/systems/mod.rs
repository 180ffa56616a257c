//! The write, read and space amplification and the memory of each system.

mod bloomstore;

use crate::outcome::{Outcome, Result, wrong_usage};
use crate::quantity::{Skew, parse_bytes, parse_count, parse_queues, parse_skew};
use clap::{Args, ValueEnum};
use siltstone_model::{Below, FlashKeyLayout, FlashStoreLayout, Mica, Popularity, Silt, SiltLayout};

pub const WA_EXAMPLES: &str = "
  siltstone model wa --system silt --keys 1e9 --skew zipf:0.99 --merge-ratio 0.5
  siltstone model wa --system flashkey --keys 1e9 --key-size 20 --value-size 800 --skew zipf:0.99 --space 1.5";
pub const RA_EXAMPLES: &str = "
  siltstone model ra --system silt --keys 1e9 --filter-bits 8
  siltstone model ra --system bloomstore --keys 1e8 --json";
pub const RAM_EXAMPLES: &str = "
  siltstone model ram --system silt --keys 1e9
  siltstone model ram --system flashstore --keys 7e8 --flash-bytes 20GB --skew zipf:0.99";
pub const SA_EXAMPLES: &str = "
  siltstone model sa --system silt --keys 1e9 --key-size 20 --value-size 44";

/// The default number of gets per put of FlashStore.
const GETS_PER_PUT: f64 = 9.0;

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
    /// SILT, with HashStores and SortedStores
    Silt,
    /// FlashKey, with all keys in an index
    Flashkey,
    /// FlashStore, with SILT on the disk
    Flashstore,
    /// BloomStore, with chains of filters
    Bloomstore,
    /// MICA in store mode, in memory
    Mica,
}

impl SystemArg {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
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
    /// silt, bloomstore: number of partitions
    #[arg(long, value_name = "P", value_parser = parse_count)]
    partitions: Option<f64>,
    /// silt: the keys of HashStores before a merge, as a fraction of all keys
    #[arg(long, value_parser = parse_count)]
    merge_ratio: Option<f64>,
    /// silt: bits of filters, with a false-positive rate of 2^-BITS; bloomstore: bits of the filter of a run per record
    #[arg(long, value_name = "BITS", value_parser = parse_count)]
    filter_bits: Option<f64>,
    /// silt, bloomstore: the minimum number of slots of a LogStore
    #[arg(long, value_parser = parse_count)]
    log_slots_min: Option<f64>,
    /// silt: bits of a filter per SortedStore, for gets of missing keys
    #[arg(long, value_name = "BITS", value_parser = parse_count)]
    filter_last_store: Option<f64>,
    /// silt, bloomstore: size of a block on flash
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    block_bytes: Option<f64>,
    /// Records differ in size
    #[arg(long)]
    variable: bool,
    /// flashkey, bloomstore: bytes of the logs, or records in runs, per live one
    #[arg(long, value_name = "RATIO", value_parser = parse_count)]
    space: Option<f64>,
    /// flashkey, flashstore: size of a segment of the logs
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    segment_bytes: Option<f64>,
    /// flashstore: the size of the flash; the rest of the data goes to a disk
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    flash_bytes: Option<f64>,
    /// flashstore: number of queues
    #[arg(long, value_parser = parse_queues)]
    queues: Option<u8>,
    /// flashstore: gets per put [default: 9]
    #[arg(long, value_parser = parse_count)]
    gets_per_put: Option<f64>,
    /// bloomstore: the most runs of a partition
    #[arg(long, value_name = "H", value_parser = parse_count)]
    chain_length: Option<f64>,
    /// bloomstore: the number of all keys, if it is known
    #[arg(long, value_name = "N", value_parser = parse_count)]
    expected_keys: Option<f64>,
    /// bloomstore: number of filters per chain that are in memory
    #[arg(long, value_parser = parse_count)]
    buffered_filters: Option<f64>,
    /// bloomstore: the prefilter, in bits per key
    #[arg(long, value_parser = parse_count)]
    prefilter_bits: Option<f64>,
}

impl Parameters {
    /// Returns the options that are stated, each with the systems that have it.
    fn stated(&self) -> Vec<(&'static str, &'static [SystemArg])> {
        use SystemArg::{Bloomstore, Flashkey, Flashstore, Silt};
        let options: [(&'static str, bool, &'static [SystemArg]); 15] = [
            ("--partitions", self.partitions.is_some(), &[Silt, Bloomstore]),
            ("--merge-ratio", self.merge_ratio.is_some(), &[Silt]),
            ("--filter-bits", self.filter_bits.is_some(), &[Silt, Bloomstore]),
            ("--log-slots-min", self.log_slots_min.is_some(), &[Silt, Bloomstore]),
            ("--filter-last-store", self.filter_last_store.is_some(), &[Silt]),
            ("--block-bytes", self.block_bytes.is_some(), &[Silt, Bloomstore]),
            ("--space", self.space.is_some(), &[Flashkey, Bloomstore]),
            ("--segment-bytes", self.segment_bytes.is_some(), &[Flashkey, Flashstore]),
            ("--flash-bytes", self.flash_bytes.is_some(), &[Flashstore]),
            ("--queues", self.queues.is_some(), &[Flashstore]),
            ("--gets-per-put", self.gets_per_put.is_some(), &[Flashstore]),
            ("--chain-length", self.chain_length.is_some(), &[Bloomstore]),
            ("--expected-keys", self.expected_keys.is_some(), &[Bloomstore]),
            ("--buffered-filters", self.buffered_filters.is_some(), &[Bloomstore]),
            ("--prefilter-bits", self.prefilter_bits.is_some(), &[Bloomstore]),
        ];
        options.into_iter().filter(|option| option.1).map(|(name, _, systems)| (name, systems)).collect()
    }
}

type Values = Vec<(String, f64)>;

pub fn run(args: SystemArgs, measure: Measure) -> Result {
    args.check()?;
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

impl SystemArgs {
    /// Checks that the system has each option that is stated: the others would have no effect.
    fn check(&self) -> anyhow::Result<()> {
        for (option, systems) in self.parameters.stated() {
            if !systems.contains(&self.system) {
                let names: Vec<String> = systems.iter().map(|system| system.name()).collect();
                let (names, system) = (names.join(" and "), self.system.name());
                return Err(wrong_usage(format_args!("{option} is for {names}, not for {system}")));
            }
        }
        Ok(())
    }

    fn item_bytes(&self) -> f64 {
        self.key_size + self.value_size
    }

    fn values(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        match self.system {
            SystemArg::Silt => self.silt(measure, popularity, &self.layout().silt(self.keys)?),
            SystemArg::Flashkey => self.flashkey(measure, popularity),
            SystemArg::Flashstore => self.flashstore(measure, popularity),
            SystemArg::Bloomstore => self.bloomstore(measure, popularity),
            SystemArg::Mica => self.mica(measure),
        }
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
                named(&[
                    ("write_amplification", writes.total()),
                    ("puts", writes.puts),
                    ("moved", writes.moved),
                    ("markers", writes.markers),
                    ("redo", writes.redo),
                    ("saved_index", writes.saved_index),
                    ("filling", store.writes_of_filling().total()),
                    ("appends_per_put", appends),
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

    fn flash_bytes(&self) -> anyhow::Result<f64> {
        let missing = "FlashStore has flash for a part of the data: state --flash-bytes";
        self.parameters.flash_bytes.ok_or_else(|| wrong_usage(missing))
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
        let store = layout.store(popularity, self.parameters.gets_per_put.unwrap_or(GETS_PER_PUT))?;
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

    fn mica(&self, measure: Measure) -> anyhow::Result<Values> {
        let mica = match self.parameters.variable {
            true => Mica::siltstone_of_sizes(self.keys, self.item_bytes()),
            false => Mica::siltstone(self.keys, self.item_bytes(), true),
        };
        mica.check()?;
        if measure != Measure::Memory {
            return Err(wrong_usage("MICA keeps its items in memory and none on flash: use ram"));
        }
        Ok(memory(self.keys, mica.ram_bytes()))
    }
}

#[cfg(test)]
mod tests;

//! The tables: which stores run which phases, under which conditions and in which order.

use crate::compare::child::{Order, PageCache};
use crate::compare::limit::Group;
use crate::compare::page_cache;
use crate::compare::peer::{self, Kind, Opening};
use crate::compare::phase::Phase;
use crate::compare::row::Row;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Table {
    /// Values of 44 bytes; every store with its defaults and caches of one size.
    Small,
    /// Values of 1,000 bytes; every store with its defaults and caches of one size.
    Large,
    /// Values of 1,000 bytes; stores that can use direct I/O, with and without it.
    Direct,
    /// Values of 1,000 bytes; every store reads within the same few bytes of memory per key.
    Limited,
    /// Values of 1,000 bytes; every store overwrites keys of equal popularity, and popular keys.
    Overwriting,
    /// Values of 1,000 bytes; the workloads of FlashKey's paper on every store, and after each store on `flashkey`,
    /// which has to keep to the space that this store took.
    EqualSpace,
    /// Values of 1,000 bytes; the workloads of YCSB, with direct I/O where a store supports it.
    Ycsb,
    /// Values of 1,000 bytes; YCSB's workload E, scans of up to 100 records, within a quarter of the data as memory, on
    /// stores with the keys in order.
    Scan,
}

/// The options of a table.
#[derive(Debug, Clone, clap::Args)]
pub struct Choice {
    /// The number of keys.
    #[arg(long, default_value_t = 2_000_000)]
    pub keys: u64,
    /// The length of every key, in bytes.
    #[arg(long, default_value_t = 20)]
    pub key_size: usize,
    /// The length of every value, in bytes. Default: that of the table.
    #[arg(long)]
    pub value_size: Option<usize>,
    /// The duration of reads and mixed phases, in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// The number of repetitions of reads, during which the stores take turns; of everything in the tables `direct`,
    /// `equal-space` and `ycsb`.
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// The stores, separated by commas. Default: all of the table.
    #[arg(long, value_delimiter = ',')]
    pub peers: Vec<String>,
    /// The groups of phases, separated by commas. Default: all of the table.
    #[arg(long, value_delimiter = ',')]
    pub groups: Vec<String>,
    /// The size of caches, in MB (2^20 bytes), unless the table determines it.
    #[arg(long, default_value_t = 64)]
    pub cache_mb: u64,
    /// Whether `flashkey`, which has no cache of its own, gets a cache of records of this size.
    #[arg(long)]
    pub record_cache: bool,
    /// The memory for the group `device`, page cache included, in MB. Default: a tenth of the data.
    #[arg(long)]
    pub memory_mb: Option<u64>,
    /// The memory of a process in a limited table in addition to the bytes per key, in MB: for stacks, buffers and page
    /// tables.
    #[arg(long, default_value_t = 24)]
    pub floor_mb: u64,
    /// The bytes of memory per key in a limited table.
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 2.0, 16.0])]
    pub bytes_per_key: Vec<f64>,
    /// The directory of the stores, on the device that is to be measured.
    #[arg(long, default_value = "evidence/target/stores")]
    pub dir: PathBuf,
    /// Whether to use the stores of an earlier run, and to keep them.
    #[arg(long)]
    pub keep: bool,
    /// The file to which lines of JSON are appended.
    #[arg(long, default_value = "evidence/results/rows.jsonl")]
    pub out: PathBuf,
    /// The seed of keys and orders.
    #[arg(long, default_value_t = 301)]
    pub seed: u64,
}

impl Default for Choice {
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            choice: Choice,
        }
        siltstone_bench::named::defaults::<Line>().choice
    }
}

/// Phases that run under the same conditions, in one process per store.
struct Conditions {
    name: String,
    phases: &'static [&'static str],
    page_cache: PageCache,
    direct: bool,
    cache_bytes: u64,
    limit_bytes: Option<u64>,
    /// Whether the raw device is measured as well.
    measures_raw: bool,
}

/// The groups of the table `direct`.
const DIRECT_GROUPS: [(&str, &[&str]); 4] = [
    ("load", &["load"]),
    ("overwrite", &["overwrite"]),
    ("mixed", &["mixed50:16"]),
    ("beside", &["read", "readwhilewriting20", "readwhilewriting40", "readwhilewriting"]),
];

/// Each overwrites twice as many records as there are keys.
const OVERWRITING_PHASES: &[&str] = &["load", "overwrite2", "overwrite2-zipf"];

/// The workloads 1 to 5 of FlashKey's paper (Table II), and overwriting with popular keys. The paper's second one of
/// these writes twice as many records as there are keys.
const PAPER_PHASES: &[&str] =
    &["load", "read", "overwrite2", "readwhilewriting", "readwhilewriting:3", "overwrite2-zipf"];
/// The phase after which a store's space is that which FlashKey has to keep to.
const SPACE_AFTER: &str = "overwrite2";
/// The peers that FlashKey is compared with at equal space.
const EQUAL_SPACE_PEERS: [&str; 6] =
    ["siltstone", "rocksdb", "rocksdb-blob", "fjall", "fjall-blob", "leveldb"];
/// The workloads of YCSB, in the order that its authors recommend, without scans.
const YCSB_PHASES: &[&str] = &["load", "ycsb-a:4", "ycsb-b:4", "ycsb-c:4", "ycsb-f:4", "ycsb-d:4"];
const YCSB_PEERS: [&str; 6] = ["siltstone", "flashkey", "rocksdb", "rocksdb-blob", "fjall", "fjall-blob"];

/// YCSB's workload with scans, by one thread and by several, and the stores that have the keys in order.
const SCAN_PHASES: &[&str] = &["ycsb-e", "ycsb-e:4"];
const SCAN_PEERS: [&str; 5] = ["flashkey", "rocksdb", "fjall", "leveldb", "lmdb"];

/// Returns the word for buffered or direct I/O.
fn access(direct: bool) -> &'static str {
    if direct { "direct" } else { "buffered" }
}

const MB: u64 = 1 << 20;
/// The minimum memory for caches and buffers of `device`, in addition to the cache itself.
const DEVICE_SPARE_BYTES: u64 = 40 * MB;

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Small => "small",
            Table::Large => "large",
            Table::Direct => "direct",
            Table::Limited => "limited",
            Table::Overwriting => "overwriting",
            Table::EqualSpace => "equal-space",
            Table::Ycsb => "ycsb",
            Table::Scan => "scan",
        }
    }

    fn value_size(self, choice: &Choice) -> usize {
        choice.value_size.unwrap_or(if self == Table::Small { 44 } else { 1000 })
    }

    fn conditions(self, choice: &Choice) -> Vec<Conditions> {
        let cache_bytes = choice.cache_mb * MB;
        let buffered = |name: &str, phases, page_cache| Conditions {
            name: name.to_owned(),
            phases,
            page_cache,
            direct: false,
            cache_bytes,
            limit_bytes: None,
            measures_raw: false,
        };
        let load = buffered("load", &["load"], PageCache::AsItIs);
        let direct = |name, phases, cache_bytes, limit_bytes| Conditions {
            name,
            phases,
            page_cache: PageCache::Cold,
            direct: true,
            cache_bytes,
            limit_bytes: Some(limit_bytes),
            measures_raw: true,
        };
        if self == Table::Overwriting {
            return vec![buffered("overwriting", OVERWRITING_PHASES, PageCache::AsItIs)];
        }
        if self == Table::Limited {
            let read = |bytes_per_key: &f64| {
                let cache_bytes = (*bytes_per_key * choice.keys as f64) as u64;
                let limit_bytes = cache_bytes + choice.floor_mb * MB;
                direct(
                    format!("{bytes_per_key} B per key"),
                    &["read", "read:16", "miss:16"],
                    cache_bytes,
                    limit_bytes,
                )
            };
            return std::iter::once(load).chain(choice.bytes_per_key.iter().map(read)).collect();
        }
        if self == Table::Direct {
            return DIRECT_GROUPS
                .iter()
                .flat_map(|&(name, phases)| [(name, phases, false), (name, phases, true)])
                .map(|(name, phases, direct)| Conditions {
                    direct,
                    ..buffered(&format!("{name}-{}", access(direct)), phases, PageCache::AsItIs)
                })
                .collect();
        }
        let whole =
            |name: &str, phases| Conditions { direct: true, ..buffered(name, phases, PageCache::AsItIs) };
        if self == Table::EqualSpace {
            return EQUAL_SPACE_PEERS.iter().map(|name| whole(name, PAPER_PHASES)).collect();
        }
        if self == Table::Ycsb {
            return vec![whole("ycsb", YCSB_PHASES)];
        }
        let data_bytes = choice.keys * (choice.key_size + self.value_size(choice)) as u64;
        let memory_bytes =
            choice.memory_mb.map_or(data_bytes / 10, |mb| mb * MB).max(cache_bytes + DEVICE_SPARE_BYTES);
        if self == Table::Scan {
            let memory_bytes = choice.memory_mb.map_or(data_bytes / 4, |mb| mb * MB);
            let scan = direct("scan".to_owned(), SCAN_PHASES, cache_bytes, memory_bytes);
            return vec![whole("load", &["load"]), scan];
        }
        let device = ["read", "read:16", "multiget", "miss", "miss:16"].as_slice();
        vec![
            load,
            buffered("cached", &["read", "multiget", "miss"], PageCache::Warm),
            direct("device".to_owned(), device, cache_bytes, memory_bytes),
            buffered("overwrite", &["overwrite"], PageCache::Warm),
            buffered("mixed", &["mixed90:16", "mixed50:16"], PageCache::Warm),
        ]
    }

    fn kinds(self, choice: &Choice) -> Result<Vec<&'static Kind>> {
        let names = |names: &[&str]| names.iter().map(|name| peer::by_name(name)).collect();
        match self {
            _ if !choice.peers.is_empty() => choice.peers.iter().map(|name| peer::by_name(name)).collect(),
            Table::Direct => Ok(peer::KINDS.iter().filter(|kind| kind.has_direct).collect()),
            Table::EqualSpace => names(&EQUAL_SPACE_PEERS),
            Table::Ycsb => names(&YCSB_PEERS),
            Table::Scan => names(&SCAN_PEERS),
            Table::Small | Table::Large | Table::Limited | Table::Overwriting => {
                Ok(peer::KINDS.iter().collect())
            }
        }
    }

    /// Runs the table, and returns all rows.
    ///
    /// # Errors
    /// A store is unknown, or a process cannot be started. A store that fails is a row.
    pub fn run(self, choice: &Choice) -> Result<Vec<Row>> {
        let kinds = self.kinds(choice)?;
        let (out, rows) = (append_to(&choice.out)?, Vec::new());
        let mut run = Run { table: self, choice, out, rows, seed: choice.seed, space: None };
        if !choice.keep {
            run.remove_all(&kinds)?;
        }
        let chosen = |name: &str| choice.groups.is_empty() || choice.groups.iter().any(|group| group == name);
        let conditions = self.conditions(choice);
        let conditions: Vec<_> = conditions.iter().filter(|conditions| chosen(&conditions.name)).collect();
        if matches!(self, Table::Direct | Table::Ycsb | Table::Scan) {
            for round in 0..choice.rounds {
                conditions.iter().try_for_each(|conditions| run.round(&kinds, conditions, round))?;
            }
        } else if self == Table::EqualSpace {
            for round in 0..choice.rounds {
                for kind in &kinds {
                    let conditions = conditions.iter().find(|conditions| conditions.name == kind.name);
                    conditions.map_or(Ok(()), |conditions| run.equal_space(kind, conditions, round))?;
                }
            }
        } else {
            for conditions in conditions {
                let rounds = if conditions.writes() { 1 } else { choice.rounds };
                (0..rounds).try_for_each(|round| run.round(&kinds, conditions, round))?;
            }
        }
        if !choice.keep {
            run.remove_all(&kinds)?;
        }
        Ok(run.rows)
    }
}

impl Conditions {
    fn writes(&self) -> bool {
        self.phases.iter().any(|phase| phase.parse().is_ok_and(|phase: Phase| phase.writes()))
    }
}

fn append_to(path: &Path) -> Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}

struct Run<'a> {
    table: Table,
    choice: &'a Choice,
    out: File,
    /// All rows until now.
    rows: Vec<Row>,
    seed: u64,
    /// The space that the store has to keep to.
    space: Option<f64>,
}

impl Run<'_> {
    /// Runs a store, and then FlashKey within the space that this store took.
    fn equal_space(&mut self, kind: &Kind, conditions: &Conditions, round: usize) -> Result<()> {
        let rows = self.peer(kind, conditions, round)?;
        self.remove(kind, conditions.direct)?;
        let after = rows.iter().find(|row| row.phase == SPACE_AFTER && row.failure.is_none());
        let Some(after) = after else { return Ok(()) };
        self.space = Some(after.space_amplification);
        let flashkey = peer::by_name("flashkey")?;
        self.peer(flashkey, conditions, round)?;
        self.space = None;
        self.remove(flashkey, conditions.direct)
    }

    /// Runs the stores in turn under the same conditions.
    fn round(&mut self, kinds: &[&Kind], conditions: &Conditions, round: usize) -> Result<()> {
        if let (true, Some(first)) = (conditions.measures_raw, kinds.first()) {
            self.raw(first, conditions, round)?;
        }
        kinds.iter().try_for_each(|kind| self.peer(kind, conditions, round).map(|_| ()))
    }

    /// Returns the directory of a store. In the table `direct` a store has two.
    fn directory(&self, kind: &Kind, direct: bool) -> PathBuf {
        let access = if self.table == Table::Direct { access(direct) } else { "" };
        self.choice.dir.join(format!("{}-{}{access}", kind.name, self.table.value_size(self.choice)))
    }

    fn versions(&self, kind: &Kind, direct: bool) -> PathBuf {
        self.directory(kind, direct).with_extension("versions")
    }

    fn remove(&self, kind: &Kind, direct: bool) -> Result<()> {
        let removed = [
            std::fs::remove_dir_all(self.directory(kind, direct)),
            std::fs::remove_file(self.versions(kind, direct)),
        ];
        for outcome in removed {
            match outcome {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove the store of {}", kind.name));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn remove_all(&self, kinds: &[&Kind]) -> Result<()> {
        kinds
            .iter()
            .try_for_each(|kind| [false, true].into_iter().try_for_each(|direct| self.remove(kind, direct)))
    }

    fn opening(&self, kind: &Kind, conditions: &Conditions) -> Opening {
        Opening {
            directory: self.directory(kind, conditions.direct),
            keys: self.choice.keys,
            key_size: self.choice.key_size,
            value_size: self.table.value_size(self.choice),
            cache_bytes: conditions.cache_bytes,
            direct: conditions.direct,
            space: self.space,
            ordered: self.table == Table::Scan,
            disk: None,
            small_segments: false,
            record_cache: self.choice.record_cache,
        }
    }

    fn order(&self, kind: &Kind, conditions: &Conditions) -> Result<Order> {
        let phases: Result<Vec<Phase>> = conditions.phases.iter().map(|phase| phase.parse()).collect();
        Ok(Order {
            peer: kind.name.to_owned(),
            opening: self.opening(kind, conditions),
            sequential: self.table == Table::EqualSpace,
            phases: phases?,
            page_cache: conditions.page_cache,
            membership: None,
            seconds: self.choice.seconds,
            seed: self.seed,
            versions: self.versions(kind, conditions.direct),
        })
    }

    /// Reads the device directly, with as many threads as the store is read with.
    fn raw(&mut self, kind: &Kind, conditions: &Conditions, round: usize) -> Result<()> {
        let phases = ["raw", "raw:16"].iter().map(|phase| phase.parse()).collect::<Result<_>>()?;
        let order = Order { peer: "raw".to_owned(), phases, ..self.order(kind, conditions)? };
        self.carry_out(order, conditions, round, None, "random direct reads of 4 KiB").map(|_| ())
    }

    fn peer(&mut self, kind: &Kind, conditions: &Conditions, round: usize) -> Result<Vec<Row>> {
        let mut order = self.order(kind, conditions)?;
        if order.phases.iter().any(|phase| phase.to_string() == "load") {
            self.remove(kind, conditions.direct)?;
        }
        page_cache::sync(&self.choice.dir.canonicalize().unwrap_or_else(|_| PathBuf::from(".")))?;
        let group = conditions.limit_bytes.map(Group::with_limit).transpose();
        let group = group.context("the memory of a process cannot be limited here")?;
        order.membership = group.as_ref().map(Group::membership);
        let options = (kind.options)(&order.opening);
        self.carry_out(order, conditions, round, group.as_ref(), &options)
    }

    fn carry_out(
        &mut self,
        order: Order,
        conditions: &Conditions,
        round: usize,
        group: Option<&Group>,
        options: &str,
    ) -> Result<Vec<Row>> {
        self.seed += 100;
        let complete = |row: Row| Row {
            table: self.table.name().to_owned(),
            group: conditions.name.clone(),
            round,
            peer: order.peer.clone(),
            options: options.to_owned(),
            limit_bytes: group.and(conditions.limit_bytes),
            limit_peak_bytes: group.and_then(Group::peak_bytes),
            ..row
        };
        let mut child = Command::new(std::env::current_exe()?)
            .arg("child")
            .arg(serde_json::to_string(&order)?)
            .stdout(Stdio::piped())
            .spawn()?;
        let Some(lines) = child.stdout.take() else { bail!("a child without output") };
        let mut rows = Vec::new();
        for line in BufReader::new(lines).lines() {
            let row = complete(serde_json::from_str(&line?)?);
            eprintln!("{}", summary(&row));
            rows.push(row);
        }
        let status = child.wait()?;
        if !status.success() {
            let phase = order.phases.get(rows.len()).map(Phase::to_string).unwrap_or_default();
            let failure = Some(format!("ended with {status}"));
            let row = complete(Row { phase, failure, keys: order.opening.keys, ..Row::default() });
            eprintln!("{}", summary(&row));
            rows.push(row);
        }
        for row in &rows {
            serde_json::to_writer(&mut self.out, row)?;
            self.out.write_all(b"\n")?;
        }
        self.rows.extend(rows.iter().cloned());
        Ok(rows)
    }
}

fn summary(row: &Row) -> String {
    let Row { group, peer, phase, ops_per_s, cpu_us_per_op, ram_bytes_per_key, .. } = row;
    let mut text = format!("{group:>12} {peer:>16} {phase:>11}: ");
    if let Some(failure) = &row.failure {
        return text + failure;
    }
    text += &format!(
        "{ops_per_s:>9.0}/s, {cpu_us_per_op:>6.2} us CPU, {:>7.0} B and {:.2} reads per op, \
         {ram_bytes_per_key:.2} B RAM per key",
        row.read_bytes_per_op, row.device_reads_per_op
    );
    if let (Some(settled), Some(amplification)) = (row.settled_ops_per_s, row.write_amplification) {
        let space = row.space_amplification;
        text += &format!(", settled {settled:.0}/s, WA {amplification:.2}, space {space:.2}");
    }
    text
}

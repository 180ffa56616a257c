//! The primitives of all models: distinct keys among requests, the lifetime of flash.

use crate::outcome::{Outcome, Result, help, wrong_usage};
use crate::quantity::{Skew, parse_bytes, parse_count, parse_rate, parse_skew};
use clap::Args;
use siltstone_model::{Flash, YEAR_S, positive};

const LIFETIME_EXAMPLES: &str = "
  siltstone model lifetime --flash 256GiB --endurance 10000 --updates 5000/s --item-size 1024 --wa 5.4";
const KEYS_EXAMPLES: &str = "
  siltstone model keys --keys 1e8 --skew zipf:0.99 --unique 1e7
  siltstone model keys --keys 1e8 --skew zipf:0.99 --merge 1e7,9e7
  siltstone model keys --keys 1e8 --unique-inverse 10485760 --density-interval 10485760 --json";

/// Lifetime of flash (2.8)
#[derive(Args)]
#[command(after_help = help(LIFETIME_EXAMPLES))]
pub struct LifetimeArgs {
    /// The capacity of the flash
    #[arg(long, value_parser = parse_bytes)]
    flash: f64,
    /// Number of erase cycles per flash cell
    #[arg(long, value_name = "CYCLES", value_parser = parse_count, default_value = "3000")]
    endurance: f64,
    /// Updates, such as 5000/s
    #[arg(long, value_parser = parse_rate)]
    updates: f64,
    /// Length of a key and its value, in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    item_size: f64,
    /// The write amplification
    #[arg(long, value_parser = parse_count)]
    wa: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn lifetime(args: &LifetimeArgs) -> Result {
    let flash = Flash { bytes: args.flash, erase_cycles: args.endurance };
    flash.check()?;
    let item_bytes = positive("item size", args.item_size)?;
    let seconds = flash.lifetime_s(args.updates, item_bytes, positive("write amplification", args.wa)?);
    super::print(&[("lifetime_s".into(), seconds), ("lifetime_y".into(), seconds / YEAR_S)], args.json)?;
    Ok(Outcome::Done)
}

/// Distinct keys among requests: Unique, Unique⁻¹, Merge, DInterval (4.2, 4.3.3)
#[derive(Args)]
#[command(after_help = help(KEYS_EXAMPLES))]
pub struct KeysArgs {
    /// Number of keys
    #[arg(long, value_parser = parse_count)]
    keys: f64,
    /// Popularity of the keys: uniform, zipf:0.99, latest:0.99
    #[arg(long, value_parser = parse_skew, default_value = "uniform")]
    skew: Skew,
    /// The expected number of distinct keys among this many requests
    #[arg(long, value_name = "REQUESTS", value_parser = parse_count)]
    unique: Option<f64>,
    /// The number of requests with this many distinct keys
    #[arg(long, value_name = "KEYS", value_parser = parse_count)]
    unique_inverse: Option<f64>,
    /// The keys of a table that is merged from tables of these sizes
    #[arg(long, value_name = "U,V", value_delimiter = ',', value_parser = parse_count)]
    merge: Vec<f64>,
    /// The requests between two compactions of a key in a level of this many keys
    #[arg(long, value_name = "SIZE", value_parser = parse_count)]
    density_interval: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn keys(args: &KeysArgs) -> Result {
    let popularity = args.skew.popularity(args.keys)?;
    let mut values = Vec::new();
    let mut add = |name: &str, value: Option<f64>| values.extend(value.map(|value| (name.to_owned(), value)));
    add("unique", args.unique.map(|requests| popularity.unique(requests)));
    add("unique_inverse", args.unique_inverse.map(|keys| popularity.unique_inverse(keys)));
    match args.merge[..] {
        [u, v] => add("merge", Some(popularity.merge(u, v))),
        [] => {}
        _ => return Err(wrong_usage("--merge takes the sizes of two tables, as in 1e7,9e7")),
    }
    add("density_interval", args.density_interval.map(|size| popularity.density_interval(size)));
    if values.is_empty() {
        return Err(wrong_usage(
            "ask for something: --unique, --unique-inverse, --merge or --density-interval",
        ));
    }
    values.push(("grouping_error".to_owned(), popularity.grouping_error()));
    super::print(&values, args.json)?;
    Ok(Outcome::Done)
}

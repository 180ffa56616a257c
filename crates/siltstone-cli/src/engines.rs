//! `siltstone engines`: the engines and their settings.

use crate::outcome::{Outcome, Result, help};
use clap::Args;
use serde_json::{Map, Value, json};
use siltstone::{EngineKind, SettingInfo};
use std::io::{self, Write, stdout};

const EXAMPLES: &str = "
  siltstone engines
  siltstone engines --json
  siltstone compact --db DIR --set filter_last_store=8";

/// The width of the lines of text, in characters.
const LINE_CHARS: usize = 100;

/// List the engines and their settings
///
/// A setting is given with --set NAME=VALUE. One that is kept in the database holds until another value is given; the
/// others hold while the database is open. Sizes may have the units KiB, MiB, GiB and TiB. `--set preset=paper` sets
/// all those that make the engine as its paper describes it, except those that are given.
#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub struct EnginesArgs {
    /// Print one line of JSON per engine
    #[arg(long)]
    json: bool,
}

pub fn run(args: &EnginesArgs) -> Result {
    let mut out = stdout().lock();
    for &kind in EngineKind::ALL {
        if args.json { writeln!(out, "{}", as_json(kind))? } else { print(&mut out, kind)? }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn shown(kind: EngineKind) -> impl Iterator<Item = SettingInfo> {
    kind.settings().describe().into_iter().filter(|setting| setting.is_shown)
}

fn as_json(kind: EngineKind) -> Value {
    let setting = |setting: SettingInfo| {
        json!({
            "name": setting.name,
            "default": setting.value,
            "limits": setting.limits,
            "kept": setting.is_kept,
            "description": setting.doc,
        })
    };
    let settings: Vec<Value> = shown(kind).map(setting).collect();
    let paper: Map<_, Value> =
        kind.settings().paper().iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
    json!({ "engine": kind.name(), "summary": kind.info().summary, "settings": settings, "paper": paper })
}

fn print(out: &mut impl Write, kind: EngineKind) -> io::Result<()> {
    let default = if kind == EngineKind::default() { " (default)" } else { "" };
    writeln!(out, "{}{default}: {}", kind.name(), kind.info().summary)?;
    for SettingInfo { name, value, limits, is_kept, doc, .. } in shown(kind) {
        let kept = if is_kept { "; kept in the database" } else { "" };
        writeln!(out, "\n  {name}={value}\n      {limits}{kept}")?;
        let mut line = String::new();
        for word in doc.split(' ') {
            if line.len() + word.len() > LINE_CHARS - 6 {
                writeln!(out, "     {line}")?;
                line.clear();
            }
            line.push(' ');
            line.push_str(word);
        }
        writeln!(out, "     {line}")?;
    }
    let paper = kind.settings().paper();
    if !paper.is_empty() {
        let values: Vec<_> = paper.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "\n  preset=paper\n      as the paper describes it: {}", values.join(", "))?;
    }
    writeln!(out)
}

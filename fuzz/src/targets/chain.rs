//! A chain with changed bytes and corrected checksums: opening, a check, lookups, an extension.

use crate::input::{Input, contents, directory, directory_with};
use crate::seal::{VARIABLE, seal_store};
use siltstone::store::chain::{AddedRun, Chain, ChainSettings, ChainWriter};
use siltstone_device::{AlignedBuffer, Directory, Purpose};
use siltstone_index::run_columns::{RunColumnsBuilder, RunColumnsSettings};
use std::sync::Arc;

const NAME: &str = "00000001.chain";

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let ranges = 1 + u32::from(input.u8() % 8);
    let written = directory();
    let runs = (0..input.u8() % 5).map(|number| run_of(number.into(), ranges, input.u8().into())).collect();
    let Some(chain) = written_chain(&written, NAME, ranges, None, runs) else { return };
    drop(chain);
    let mut bytes = contents(&written, NAME);
    input.mutate(&mut bytes);
    if input.u8() % 8 > 0 {
        seal_store(&VARIABLE, &mut bytes);
    }
    let directory = directory_with(NAME, &bytes);
    let Ok(chain) = Chain::open(&directory, NAME, 1) else { return };
    let mut damaged = false;
    let noted = chain.check(Purpose::Maintain, |page| {
        damaged |= page.is_err();
        Ok(())
    });
    noted.expect("memory does not fail");
    let lookup = |placement| chain.look_up(placement, Purpose::Get, &mut AlignedBuffer::default()).is_ok();
    for placement in [input.u64(), 0, u64::MAX].into_iter().chain((0..64).map(|bit| 1 << bit)) {
        assert!(lookup(placement) || damaged);
    }
    let chain_ranges = chain.ranges();
    let added = vec![run_of(9, chain_ranges, 10)];
    let extended = written_chain(&directory, "00000002.chain", chain_ranges, Some(Arc::new(chain)), added);
    assert!(extended.is_some() || damaged || chain_ranges > 8);
}

fn run_of(number: u64, ranges: u32, count: u64) -> AddedRun {
    let settings = RunColumnsSettings { ranges, filter_bits: 8 };
    let mut builder = RunColumnsBuilder::new(settings, count).expect("the settings are allowed");
    for record in 0..count {
        builder.push((u64::MAX / count) * record, record / 5..record / 5 + 1).expect("records are in order");
    }
    AddedRun { number, columns: Arc::new(builder.finish()) }
}

/// Returns the chain, unless it would have too many columns or a page of the older one is damaged.
fn written_chain(
    directory: &Directory,
    name: &str,
    ranges: u32,
    old: Option<Arc<Chain>>,
    added: Vec<AddedRun>,
) -> Option<Chain> {
    let settings = ChainSettings { tag: 1, purpose: Purpose::Convert, piece_bytes: 4096 };
    let mut writer = ChainWriter::create(directory, name, settings, ranges, old, added).ok()?;
    while !writer.step(10_000).ok()? {}
    Some(writer.finish(None).expect("memory does not fail"))
}

//! The engines and their model: the bytes are operations on a database, including crashes and faults.

use crate::input::Input;
use siltstone_testing::TestEngine;
use siltstone_testing::operations::OperationKind;
use siltstone_testing::simulation::{Configuration, Simulation};

/// Enough operations for a few merges and crashes.
const OPERATIONS_MAX: usize = 200;

/// Takes a seed for the engine, the configuration and the workload; then per operation a byte for its kind and two that seed its
/// random choices.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let seed = input.u64();
    let mut random = fastrand::Rng::with_seed(seed);
    let engines: Vec<_> = TestEngine::persistent().collect();
    let engine = &engines[random.usize(..engines.len())];
    let configuration = Configuration::random(engine, &mut random);
    let first = configuration.workload(&mut random);
    let (mut workload, mut operations) = (first.clone(), Vec::new());
    while !input.is_empty() && operations.len() < OPERATIONS_MAX {
        let kind = OperationKind::ALL[usize::from(input.u8()) % OperationKind::ALL.len()];
        operations.push(workload.next_of(kind, &mut fastrand::Rng::with_seed(input.u16().into())));
    }
    let simulation = Simulation { seed, configuration, workload: first, operations };
    if let Err(failure) = simulation.run(None) {
        panic!("{failure}\n{}", simulation.describe());
    }
}

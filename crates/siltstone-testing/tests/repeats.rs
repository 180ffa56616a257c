//! A simulation repeats itself. The test has a process of its own: the memory of buffers for reads, which a memory
//! budget includes, is that of all threads of the process.

use siltstone_testing::TestEngine;
use siltstone_testing::simulation::Simulation;

#[test]
fn a_seed_repeats_itself() {
    for engine in TestEngine::persistent() {
        for seed in 0..20 {
            let (one, other) = (Simulation::from_seed(&engine, seed), Simulation::from_seed(&engine, seed));
            assert_eq!(one, other);
            assert_eq!(one.run(None), other.run(None), "{engine:?}, seed {seed}");
        }
    }
}

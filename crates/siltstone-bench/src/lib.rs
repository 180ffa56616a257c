//! Workloads, benchmarks and simulations of Siltstone.

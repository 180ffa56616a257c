//! Runs the benchmark of MICA over the network in every mode at a tiny size, to keep it working.

use siltstone_evidence::Error;
use siltstone_evidence::udp::{Direction, Report, Settings, run};
use siltstone_mica::{AccessMode, Eviction};

fn tiny() -> Settings {
    Settings { items: 2_000, packets: 600, rounds: 2, window: 64, burst: 16, ..Settings::default() }
}

#[test]
fn every_mode_and_direction_serves_every_packet() {
    for (mode, direction) in [
        (AccessMode::Erew, Direction::Assisted),
        (AccessMode::Erew, Direction::Software),
        (AccessMode::Crew, Direction::Assisted),
        (AccessMode::Crcw, Direction::Assisted),
    ] {
        for (cores, partitions, cache) in [(1, 1, None), (2, 8, Some(Eviction::Fifo))] {
            for requests_per_packet in [1, 32] {
                let settings = Settings {
                    mode,
                    direction,
                    cores,
                    partitions,
                    cache: cache.is_some(),
                    eviction: cache.unwrap_or_default(),
                    requests_per_packet,
                    get: 0.5,
                    zipf: if cores == 2 { 0.99 } else { 0.0 },
                    ..tiny()
                };
                let report = run(&settings).unwrap();
                assert!(report.found > 0.9 && report.loss <= 0.01, "{}", report.line());
                assert!(report.ops_per_s > 0.0 && report.best_ops_per_s >= report.ops_per_s);
                assert!(report.echo_ratio > 0.0 && report.packets_per_burst >= 1.0);
                // A packet over a socket takes longer than a tenth of a microsecond.
                assert!(report.response_p5_us > 0.1 && report.response_p95_us >= report.response_p5_us);
                assert!(report.response_us >= 0.9 * report.response_p5_us, "{}", report.line());
                let forwards = direction == Direction::Software && cores == 2;
                assert_eq!(report.forwarded_packets > 0, forwards, "{}", report.line());
            }
        }
    }
}

#[test]
fn settings_outside_their_limits_are_refused() {
    let refused = |settings: Settings| match run(&settings) {
        Err::<Report, _>(error) => error.to_string(),
        Ok(report) => panic!("{}", report.line()),
    };
    assert!(refused(Settings { requests_per_packet: 400, ..tiny() }).contains("at most 8972"));
    assert!(refused(Settings { zipf: 1.0, ..tiny() }).contains("zipf"));
    assert!(refused(Settings { window: 0, ..tiny() }).contains("window"));
    assert!(refused(Settings { cores: 2, ..tiny() }).contains("cores"));
    let stopped = Settings { stop: std::sync::Arc::new(true.into()), ..tiny() };
    assert!(matches!(run(&stopped), Err(Error::Bench(siltstone_bench::Error::Stopped))));
}

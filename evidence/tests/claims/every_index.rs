//! Measures every structure at a tiny size, to keep the benchmarks working.

use siltstone_bench::chart::Style;
use siltstone_evidence::Error;
use siltstone_evidence::index::{Options, Sample, Settings, Structure, chart, run, trade_off};

fn quick() -> Settings {
    Settings { rounds: 1, ..Settings::default() }
}

#[test]
fn every_line_of_the_trade_off_locates_every_key() {
    let sample = Sample::new(20_000, 1);
    let mut reports = Vec::new();
    for (structure, options) in trade_off() {
        let report = run(structure, options, &sample, &quick()).unwrap();
        assert_eq!(report.verified_keys, 20_000, "{}", report.row());
        assert!(report.bits_per_key > 0.0 && report.lookup_ns > 0.0 && report.build_keys_per_s > 0.0);
        if let Some(rate) = report.false_positive_rate {
            let bits = f64::from(report.options.bits.unwrap());
            assert!((rate.log2() + bits).abs() < 0.6, "{}", report.row());
        }
        reports.push(report);
    }
    let measured = |structure: &Structure| reports.iter().any(|report| report.structure == structure.name());
    assert!(Structure::ALL.iter().all(measured));
    let chart = chart(&reports);
    assert_eq!(chart.series.len(), Structure::ALL.len());
    assert_eq!(chart.series.iter().map(|series| series.points.len()).sum::<usize>(), reports.len());
    assert!(
        chart
            .series
            .iter()
            .all(|series| matches!(&series.style, Style::Dots(texts) if texts.len() == series.points.len()))
    );
}

#[test]
fn few_keys_are_enough() {
    for keys in [1, 2, 100] {
        let sample = Sample::new(keys, 2);
        for &structure in Structure::ALL {
            let report = run(structure, Options::default(), &sample, &quick()).unwrap();
            assert_eq!(report.verified_keys, keys, "{}", report.row());
        }
    }
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let sample = Sample::new(10, 3);
    let refused = |structure, options| run(structure, options, &sample, &quick()).unwrap_err();
    let none = Options::default();
    let error = refused(Structure::SlotPerfect, Options { bucket: Some(256), ..none });
    assert!(matches!(error, Error::Bench(siltstone_bench::Error::Settings(_))));
    for (structure, options) in [
        (Structure::Fences, Options { items_per_block: Some(0), ..none }),
        (Structure::BlockPerfect, Options { items_per_block: Some(257), ..none }),
        (Structure::EntropyTrie, Options { bucket: Some(0), ..none }),
        (Structure::RibbonFilter, Options { bits: Some(33), ..none }),
        (Structure::CuckooFilter, Options { bits: Some(255), ..none }),
    ] {
        assert!(matches!(refused(structure, options), Error::Build(_)), "{structure}");
    }
}

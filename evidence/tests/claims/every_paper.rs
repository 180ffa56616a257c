//! Runs the experiments of papers at a tiny size, to keep them working.

use siltstone_evidence::Result;
use siltstone_bench::place::Place;
use siltstone_bench::tuning::SettingArgs;
use siltstone_evidence::experiments::{Experiment, Figure, Settings, cases, chart, compare_charts, run};

fn figures(experiment: Experiment, settings: &Settings) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let place = Place::prepare(None)?;
    run(experiment, settings, &place, &mut |figure| {
        figures.push(figure.clone());
        Ok(())
    })?;
    Ok(figures)
}

#[test]
fn the_figures_of_the_paper_are_next_to_those_of_its_workloads() {
    let settings = Settings { num: 2_000, value_size: Some(100), ..Settings::default() };
    let figures = figures(Experiment::FlashkeyWorkloads, &settings).unwrap();
    let paper = |source: &str, what: &str| {
        let found = figures.iter().find(|figure| figure.source == source && figure.what.starts_with(what));
        found.unwrap_or_else(|| panic!("{source}, {what}")).paper
    };
    assert_eq!(paper("W1, fillseq", "write amplification"), None);
    assert_eq!(paper("W2, read", "read amplification"), Some(2.7));
    assert_eq!(paper("W3, overwrite", "write amplification"), Some(1.5));
    assert_eq!(paper("W4, 1:1", "mean latency of a get"), None);
    assert_eq!(paper("W5, 3:1", "mean latency of a get"), Some(537.0));
    assert!(figures.iter().all(|figure| figure.measured.is_finite() && !figure.line().is_empty()));
}

#[test]
fn every_workload_of_ycsb_but_e_runs_on_one_database() {
    let settings = Settings { num: 1_000, value_size: Some(100), ..Settings::default() };
    let figures = figures(Experiment::FlashkeyYcsb, &settings).unwrap();
    for workload in ["A", "B", "C", "D", "F"] {
        let of = |figure: &&Figure| figure.source == format!("Figure 7, {workload}");
        assert!(figures.iter().any(|figure| of(&figure) && figure.measured > 0.0), "{workload}");
    }
}

#[test]
fn more_space_and_more_skew_mean_fewer_appends() {
    let settings = Settings {
        num: 6_000,
        space: vec![1.2, 2.0],
        victim: vec!["cost_benefit".to_owned()],
        classes: vec![3],
        skew: vec![0.0, 0.99],
        laps: 3,
        more: SettingArgs { settings: vec![("segment_bytes".to_owned(), "16384".to_owned())] },
        ..Settings::default()
    };
    let figures = figures(Experiment::FlashkeyCleaning, &settings).unwrap();
    let [uniform, zipf, uniform_more, zipf_more] = &figures[..] else { panic!("{figures:?}") };
    assert!(uniform_more.measured < uniform.measured && zipf_more.measured < zipf.measured, "{figures:?}");
    assert!(zipf.measured < uniform.measured, "{figures:?}");
    assert!(figures.iter().all(|figure| figure.measured >= 1.0 && figure.theory.is_some()), "{figures:?}");
    let cases: Vec<_> = cases(&settings).into_iter().zip(figures).collect();
    let svg = siltstone_bench::chart::to_svg(&[chart(&cases)]).unwrap();
    assert!(svg.contains("cost_benefit, classes 3, skew 0.99"));
}

fn flashstore(num: u64) -> Settings {
    let segments = vec![("segment_bytes".to_owned(), "4096".to_owned())];
    Settings {
        num,
        share: vec![0.5],
        laps: 2,
        more: SettingArgs { settings: segments },
        ..Settings::default()
    }
}

#[test]
fn flash_serves_about_as_many_gets_as_a_cache_of_its_size_and_is_written_more_than_once_per_put() {
    let run = || figures(Experiment::FlashstoreRecycling, &flashstore(3_000)).unwrap();
    let found = run();
    let of = |queues: u8, what: &str| {
        let case = format!("skew 0.99, flash 50 %, queues {queues}: {what}");
        let found = found.iter().find(|figure| figure.what.starts_with(&case));
        found.unwrap_or_else(|| panic!("{case}")).clone()
    };
    for queues in [1, 2] {
        let gets = of(queues, "gets on flash; LRU of flash");
        assert!((gets.measured - gets.theory.unwrap()).abs() < 0.15, "{gets:?}");
        let written = of(queues, "flash writes per put");
        assert!(written.measured > 1.0 && written.theory.unwrap() > 1.0, "{written:?}");
        assert!(of(queues, "disk writes per put").measured > 0.0);
    }
    let again: Vec<f64> = run().iter().map(|figure| figure.measured).collect();
    assert!(found.iter().map(|figure| figure.measured).eq(again), "counts are the same in each run");
}

#[test]
fn the_drive_of_flashstore_is_read_and_written_in_four_patterns() {
    let duration = Some(std::time::Duration::from_millis(2));
    let settings = Settings { num: 300, threads: 2, duration, ..Settings::default() };
    let found = figures(Experiment::FlashstoreDevice, &settings).unwrap();
    assert_eq!(found.len(), 6);
    assert!(found.iter().all(|figure| figure.measured.is_finite() && figure.measured > 0.0), "{found:?}");
    let papers: Vec<_> = found.iter().filter_map(|figure| figure.paper).collect();
    assert_eq!(papers, [3.0, 6.0]);
    assert!(figures(Experiment::FlashstoreDevice, &Settings { threads: 0, ..settings }).is_err());
}

#[test]
fn a_cache_on_flash_has_a_hit_ratio_and_writes() {
    let figures = figures(Experiment::FlashstoreCache, &flashstore(3_000)).unwrap();
    let hits = figures.iter().find(|figure| figure.what.contains("queues 2: hit ratio")).unwrap();
    assert!(hits.measured > 0.3 && hits.measured < 1.0, "{hits:?}");
    assert!(figures.iter().any(|figure| figure.what.contains("bytes written") && figure.measured > 1.0));
}

#[test]
fn the_traces_of_flashstore_run_on_flash_and_over_a_disk() {
    for (experiment, keys) in [(Experiment::FlashstoreTraces, 300), (Experiment::FlashstoreShares, 2_000)] {
        let settings = Settings { queues: vec![2], ..flashstore(keys) };
        let figures = figures(experiment, &settings).unwrap();
        let others = ["CPU time", "busy drive", "settled"];
        let is_other = |figure: &&Figure| others.iter().any(|other| figure.what.contains(other));
        let papers = figures.iter().filter(is_other).filter_map(|figure| figure.paper);
        assert_eq!(papers.count(), 0, "the paper has other quantities: {figures:?}");
        for (source, paper) in [("xbox", 42_527.0), ("dedup", 57_271.0)] {
            let is_rate = |figure: &&Figure| figure.what.contains("operations per second;");
            let rates: Vec<&Figure> =
                figures.iter().filter(|figure| figure.source == source).filter(is_rate).collect();
            assert!(rates.iter().all(|figure| figure.measured > 0.0), "{rates:?}");
            // The paper's rates are of all data on flash.
            let of_paper: Vec<f64> = rates.iter().filter_map(|figure| figure.paper).collect();
            let expected = if keys == 300 { vec![paper] } else { vec![] };
            assert_eq!(of_paper, expected, "{rates:?}");
        }
    }
}

#[test]
fn stores_are_compared_on_the_traces_of_bloomstore() {
    let settings = Settings { num: 3_000, ..Settings::default() };
    let figures = figures(Experiment::BloomstoreCompare, &settings).unwrap();
    let of = |case: &str, what: &str| {
        let found = figures
            .iter()
            .find(|figure| figure.source == "linux" && figure.what == format!("{case}: {what}"));
        found.unwrap_or_else(|| panic!("{case}: {what}")).measured
    };
    for (case, memory) in
        [("skimpystash, 10 records per bucket", 1.4), ("bufferhash, 16 tables, filters of 16 bits", 11.0)]
    {
        // A few keys: pages of memory count.
        let measured = of(case, "memory, B per key");
        assert!((memory..memory + 5.0).contains(&measured), "{case}: {measured}");
        assert!(of(case, "lookups per second") > 0.0);
    }
    let reads = |records: &str| of(&format!("skimpystash, {records} records per bucket"), "reads per lookup");
    assert!(reads("20") > 2.0 * reads("5"));
    assert!(!figures.iter().any(|figure| figure.what.contains("lost")));
    let charts = compare_charts(&figures);
    assert_eq!(charts.len(), 4);
    let svg = siltstone_bench::chart::to_svg(&charts).unwrap();
    assert!(svg.contains("skimpystash_compacted") && svg.contains("bloomstore, paper"));
}

#[test]
fn growth_reports_memory_writes_and_reads_of_each_case() {
    let settings = Settings { num: 20_000, ..Settings::default() };
    let all = figures(Experiment::BloomstoreGrowth, &settings).unwrap();
    for case in ["default", "expected_keys", "prefilter_bits"] {
        let of_case = |what: &str| {
            let found = all.iter().find(|figure| figure.source == case && figure.what.starts_with(what));
            found.unwrap_or_else(|| panic!("{case}, {what}")).measured
        };
        let [mean, most] =
            ["mean", "most"].map(|of| of_case(&format!("memory while growing from a 10th, {of}")));
        assert!(0.0 < mean && mean < most, "{case}: {mean}, {most}");
        assert!(of_case("bytes written per byte") > 1.0);
        assert!((0.9..2.1).contains(&of_case("reads per get")));
    }
    let only = Settings { cases: vec!["expected_keys".to_owned()], ..settings };
    let some = figures(Experiment::BloomstoreGrowth, &only).unwrap();
    assert!(some.iter().all(|figure| figure.source == "expected_keys") && !some.is_empty());
    let unknown = Settings { cases: vec!["unknown".to_owned()], ..only };
    assert!(figures(Experiment::BloomstoreGrowth, &unknown).is_err());
}

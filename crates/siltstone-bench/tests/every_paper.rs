//! Runs the experiments of papers at a tiny size, to keep them working.

use siltstone_bench::Result;
use siltstone_bench::papers::{Experiment, Figure, Settings, cases, chart, run};
use siltstone_bench::place::Place;
use siltstone_bench::tuning::SettingArgs;

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

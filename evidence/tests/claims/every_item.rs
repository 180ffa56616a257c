//! Runs every item at a tiny size by the command, and checks what all of them have in common; then some of them in
//! detail.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn evidence(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evidence")).args(args).output().unwrap()
}

#[test]
fn what_cannot_be_written_is_an_error_before_anything_is_measured() {
    for output in ["--page", "--plot"] {
        let refused = evidence(&["run", "silt/figure-8", output, "/dev/null/x"]);
        let (said, printed) = (String::from_utf8_lossy(&refused.stderr), refused.stdout);
        assert!(!refused.status.success() && printed.is_empty() && said.contains("/dev/null/x"), "{said}");
    }
}

/// Runs items, and returns their lines of JSON.
fn outcomes(args: &[&str]) -> Vec<Value> {
    let output = evidence(&[&["run", "--json"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the points of an item in the outcomes.
fn points<'a>(outcomes: &'a [Value], item: &str) -> &'a [Value] {
    let found = outcomes.iter().find(|outcome| outcome["item"] == item).unwrap();
    found["points"].as_array().unwrap()
}

/// Returns what was measured, or calculated, of a quantity in the first series that begins like this.
fn value(points: &[Value], series: &str, quantity: &str) -> f64 {
    let is_it = |point: &&Value| {
        point["series"].as_str().unwrap().starts_with(series) && point["quantity"]["name"] == quantity
    };
    let point = points.iter().find(is_it).unwrap_or_else(|| panic!("{series}, {quantity}: {points:?}"));
    point["measured"]["median"].as_f64().or(point["model"].as_f64()).unwrap()
}

#[test]
fn every_item_runs_at_a_tiny_size_and_its_points_keep_the_rules() {
    let directory = tempfile::tempdir().unwrap();
    let (charts, page) = (directory.path().join("charts"), directory.path().join("page.md"));
    let [charts_text, page_text] = [&charts, &page].map(|path| path.to_str().unwrap());
    let all = outcomes(&["all", "--scale", "0.001", "--plot", charts_text, "--page", page_text]);
    assert_eq!(all.len(), 84);
    let mut measured = 0;
    for outcome in &all {
        let points = outcome["points"].as_array().unwrap();
        let state = &outcome["state"];
        let is_run = state == "done";
        assert!(is_run || state.get("not_done").is_some() || state.get("needs_peers").is_some(), "{outcome}");
        assert_eq!(is_run, !points.is_empty(), "{outcome}");
        for point in points {
            for number in [&point["model"], &point["measured"]["median"]] {
                assert!(number.is_null() || number.as_f64().is_some_and(f64::is_finite), "{point}");
            }
            let runs = point["measured"]["n"].as_u64();
            match point["measured"]["taken"].as_str() {
                Some("timed" | "sampled") => assert!(runs >= Some(3), "{point}"),
                Some(_) => assert_eq!(runs, Some(1), "{point}"),
                None => assert!(point["model"].is_number(), "{point}"),
            }
            measured += usize::from(runs.is_some());
        }
    }
    assert!(measured > 300, "{measured}");
    details(&all);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("`evidence run silt/figure-8`: reproduced"), "{text}");
    assert!(text.contains("charts/silt-figure-8.svg") && text.contains("## How to refute this"), "{text}");
    let section_of_not_done = text.find("## Not done").unwrap();
    assert!(text.find("`silt/table-3`").unwrap() > section_of_not_done, "one table at the end");
    let drawn = std::fs::read_dir(&charts).unwrap().count();
    assert!(drawn > 10 && has_svg(&charts, "bloomstore-figure-6.svg"), "{drawn}");
}

fn has_svg(directory: &Path, name: &str) -> bool {
    std::fs::read_to_string(directory.join(name)).unwrap().contains("<polyline")
}

/// What some items show at any size.
fn details(all: &[Value]) {
    let paper = |item: &str| {
        let of_item = points(all, item).iter().filter(|point| !point["paper"].is_null());
        of_item.map(|point| point["series"].as_str().unwrap()).collect::<Vec<_>>()
    };
    // The paper's rates are of all data on flash, in its own engine.
    assert!(paper("flashstore/figure-5").iter().all(|series| series.contains("flashkey")));
    assert!(paper("flashstore/figure-7").is_empty(), "its curves have no numbers");
    let memory = points(all, "bloomstore/section-iv-b-memory");
    // Pages of memory count for a few keys.
    assert!(value(memory, "bufferhash, 16", "memory") > 10.0);
    let cleaning = points(all, "flashkey/cleaning");
    assert!(cleaning.iter().all(|point| {
        point["quantity"]["name"] != "appends" || point["measured"]["median"].as_f64() >= Some(1.0)
    }));
    let recycled = points(all, "flashstore/section-4.5");
    let served = value(recycled, "1 gets per put, default", "gets that are served");
    let lru = value(recycled, "1 gets per put", "gets that are served, LRU of flash");
    assert!((served - lru).abs() < 0.15, "{served} for {lru}");
}

#[test]
fn counts_are_the_same_in_each_run() {
    let run = || {
        let all = outcomes(&["flashkey/section-v-a-1", "flashstore/section-4.5", "--scale", "0.001"]);
        all.iter().map(|outcome| outcome["points"].clone()).collect::<Vec<_>>()
    };
    assert!(run() == run(), "two runs have the same counts");
}

#[test]
fn counts_of_an_item_do_not_depend_on_those_that_ran_before_it() {
    let item = "flashkey/section-v-a-1";
    let alone = outcomes(&[item, "--scale", "0.001"]);
    let after = outcomes(&["silt/table-2", item, "--scale", "0.001"]);
    assert_eq!(points(&alone, item), points(&after, item));
}

#[test]
fn more_space_and_more_skew_mean_fewer_appends() {
    let all = outcomes(&["flashkey/cleaning", "--scale", "0.05"]);
    let appends = |skew: f64, space: f64| {
        let series = format!("cost_benefit, classes 3, skew {skew}");
        let is_it = |point: &&Value| {
            point["series"] == *series && point["x"] == space && point["quantity"]["name"] == "appends"
        };
        let point = points(&all, "flashkey/cleaning").iter().find(is_it).unwrap();
        assert!(point["model"].is_number(), "{point}");
        point["measured"]["median"].as_f64().unwrap()
    };
    assert!(appends(0.0, 1.67) < appends(0.0, 1.3) && appends(0.99, 1.67) < appends(0.99, 1.3));
    assert!(appends(0.99, 1.3) < appends(0.0, 1.3));
}

#[test]
fn wrong_uses_are_refused_with_what_is_right() {
    for (args, expected) in [
        (&["run", "silt/figure8"][..], "silt/figure-8"),
        (&["run", "silt/figure-8", "--scale", "0"], "the scale is 0"),
        (&["list", "--paper", "siltt"], "silt"),
        (&["mica", "--threads", "3"], "power of two"),
        (&["udp", "--partitions", "3"], "power of two"),
        (&["index", "--structure", "fences", "--huffman-max", "3"], "huffman_max"),
        (&["index", "--structure", "fences", "--plot", "x.png"], "svg"),
    ] {
        let output = evidence(args);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(expected), "{args:?}: {message}");
    }
}

#[test]
fn what_would_end_after_the_budget_does_not_begin() {
    let all = outcomes(&["silt/section-6.1-memory", "silt/table-3", "--budget", "1s"]);
    assert_eq!(all[0]["state"].as_str(), None, "not done: {}", all[0]);
    assert_eq!(all[1]["state"], "over_budget");
}

#[test]
fn the_list_has_a_line_for_each_item() {
    let output = evidence(&["list"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 84);
    assert!(text.contains("silt/table-3") && text.contains("(not done: "));
}

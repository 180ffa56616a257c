//! The registry has each table and figure with data of the papers, once.

use siltstone_evidence::registry::{Paper, Run, items};
use std::collections::BTreeSet;

/// The tables and figures with data, and the sections whose text has figures.
const INVENTORY: [(&str, &[&str]); 7] = [
    (
        "silt",
        &[
            "table-2",
            "table-3",
            "figure-7",
            "figure-8",
            "section-6-drive",
            "section-6.1-throughput",
            "figure-9",
            "section-6.1-memory",
            "figure-10",
            "figure-11",
            "table-5",
            "table-6",
            "table-7",
        ],
    ),
    (
        "ect",
        &[
            "figure-3.3",
            "figure-3.6",
            "table-3.1",
            "figure-3.7",
            "figure-3.8",
            "figure-3.9",
            "table-3.3",
            "table-3.4",
            "section-3.3.3",
            "figure-3.10",
            "figure-3.11",
            "figure-3.12",
            "table-3.5",
        ],
    ),
    (
        "msls",
        &[
            "figure-4.3",
            "figure-4.4",
            "figure-4.7",
            "figure-4.9",
            "figure-4.10",
            "figure-4.11",
            "figure-4.12",
            "figure-4.13",
            "figure-4.14",
            "figure-4.15",
            "figure-4.16",
            "figure-4.17",
            "table-4.1",
            "section-4.5",
        ],
    ),
    (
        "mica",
        &[
            "figure-5.10",
            "figure-5.11",
            "figure-5.12",
            "figure-5.13",
            "figure-5.14",
            "figure-5.15",
            "figure-5.16",
            "table-5.1",
            "table-5.2",
        ],
    ),
    (
        "flashkey",
        &[
            "table-i",
            "figure-3",
            "figure-4",
            "figure-5",
            "figure-6",
            "figure-7",
            "table-vi",
            "section-vi-c",
            "section-vi-b-7",
            "section-v-a-3",
            "section-v-a-1",
            "cleaning",
        ],
    ),
    (
        "flashstore",
        &[
            "figure-2",
            "table-3",
            "section-4.4",
            "section-5.5",
            "figure-5",
            "figure-6",
            "table-4",
            "table-5",
            "section-5.9",
            "figure-7",
            "section-4.5",
        ],
    ),
    (
        "bloomstore",
        &[
            "table-i",
            "section-iv-b-memory",
            "figure-6",
            "section-iv-b-chains",
            "table-ii",
            "table-iii",
            "figure-7",
            "figure-8",
            "figure-9",
            "figure-10",
            "section-iv-d",
            "growth",
        ],
    ),
];

#[test]
fn the_registry_is_the_inventory_and_each_id_is_there_once() {
    let inventory: BTreeSet<String> = INVENTORY
        .iter()
        .flat_map(|(paper, places)| places.iter().map(move |place| format!("{paper}/{place}")))
        .collect();
    let registered: BTreeSet<String> = items().map(|item| item.id.to_owned()).collect();
    assert_eq!(registered, inventory);
    assert_eq!((inventory.len(), items().count()), (84, 84));
}

#[test]
fn ids_begin_with_the_name_of_their_paper() {
    for item in items() {
        let paper = Paper::ALL.iter().find(|paper| item.id.starts_with(&format!("{}/", paper.name())));
        assert_eq!(paper, Some(&item.paper), "{}", item.id);
    }
}

#[test]
fn names_of_experiments_are_of_one_experiment_and_reasons_are_given() {
    let mut named: Vec<(&str, usize)> = Vec::new();
    for item in items() {
        if let Run::NotDone(reason) = item.run {
            assert!(reason.len() > 20, "{}: {reason}", item.id);
        }
        let Some(experiment) = item.experiment() else { continue };
        assert!(experiment.counts || experiment.rates, "{}", experiment.name);
        let address = std::ptr::from_ref(experiment) as usize;
        assert!(named.iter().all(|(name, other)| (*name == experiment.name) == (*other == address)));
        named.push((experiment.name, address));
    }
}

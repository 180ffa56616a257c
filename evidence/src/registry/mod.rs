//! The registry: all items, by paper, and how they are found.

mod item;
mod runner;

pub use item::{Experiment, Item, Paper, Run};
pub use runner::{Outcome, Progress, RATE_RUNS, Settings, State, run};

use crate::{Error, Result, catalogue};

/// An id with at most this distance is named when one is unknown.
const NEAR: usize = 8;
/// The most ids that are named then.
const NEAREST_MAX: usize = 3;

/// Returns all items, in the order of the papers.
pub fn items() -> impl Iterator<Item = &'static Item> {
    catalogue::ALL.iter().flat_map(|items| items.iter())
}

/// Returns the items of these ids, in the order of the registry; `all` is all of them, and the name of a paper all of
/// the paper's.
///
/// # Errors
/// An id is unknown.
pub fn find(ids: &[String]) -> Result<Vec<&'static Item>> {
    let is_chosen = |item: &Item, id: &str| id == "all" || item.id == id || item.paper.name() == id;
    if let Some(unknown) = ids.iter().find(|id| !items().any(|item| is_chosen(item, id))) {
        return Err(Error::settings(format!("there is no item {unknown}{}", nearest(unknown))));
    }
    Ok(items().filter(|item| ids.iter().any(|id| is_chosen(item, id))).collect())
}

/// Returns a hint at the ids that are like an unknown one.
fn nearest(unknown: &str) -> String {
    let mut near: Vec<_> = items().map(|item| (strsim::levenshtein(unknown, item.id), item.id)).collect();
    near.retain(|(distance, _)| *distance <= NEAR);
    near.sort();
    let names: Vec<&str> = near.iter().take(NEAREST_MAX).map(|(_, id)| *id).collect();
    match names.is_empty() {
        true => "; `evidence list` lists them".to_owned(),
        false => format!("; the nearest are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_ids_are_refused_with_the_nearest_ones() {
        let refused = |id: &str| find(&[id.to_owned()]).unwrap_err().to_string();
        assert!(refused("silt/figure9").contains("silt/figure-9"), "{}", refused("silt/figure9"));
        assert!(refused("something of another kind").contains("evidence list"));
    }

    #[test]
    fn papers_and_all_choose_many_items() {
        let count = |id: &str| find(&[id.to_owned()]).unwrap().len();
        assert_eq!((count("all"), count("silt"), count("silt/figure-8")), (84, 13, 1));
    }
}

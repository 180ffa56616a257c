//! Which name was meant: the nearest of the possible ones.

use super::EngineInfo;
use crate::error::Error;

/// The characters that a part of a name has at least, if the whole one is meant: `budget` for `memory_budget`.
const PART_MIN: usize = 4;

/// Returns the nearest of some names to one that is not among them, if a third of its characters or fewer differ, or if
/// it is a part of that name.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let difference = |other: &str| {
        if length >= PART_MIN && other.contains(&name) { 1 } else { edits(&name, other) }
    };
    let (difference, nearest) = names.map(|other| (difference(other), other)).min()?;
    (difference <= (length / 3).max(1)).then_some(nearest)
}

/// Returns the error for a setting that an engine does not have: with the nearest name, or with those that there are.
pub fn unknown_setting<'a>(
    engine: &EngineInfo,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Error {
    let remedy = match nearest(name, names.clone()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("it has {}", names.collect::<Vec<_>>().join(", ")),
    };
    let problem = format!("the engine `{}` has no setting `{name}`; {remedy}", engine.name);
    Error::Setting { name: "set", problem }
}

/// Returns how many characters have to be inserted, removed, replaced, or exchanged with the next one, to make one text
/// of another: the optimal string alignment distance.
fn edits(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // Row i has the distances between the first i characters of one and each beginning of the other.
    let mut rows = [vec![0; other.len() + 1], (0..=other.len()).collect(), vec![0; other.len() + 1]];
    for i in 0..one.len() {
        let [before_last, last, row] = &mut rows;
        row[0] = i + 1;
        for j in 0..other.len() {
            let replaced = last[j] + usize::from(one[i] != other[j]);
            row[j + 1] = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            let is_exchanged = i > 0 && j > 0 && one[i] == other[j - 1] && one[i - 1] == other[j];
            if is_exchanged {
                row[j + 1] = row[j + 1].min(before_last[j - 1] + 1);
            }
        }
        rows.rotate_left(1);
    }
    rows[1][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_nearest_to_the_one_that_was_meant() {
        let names = ["memory_budget", "merge_ratio", "fixed", "index", "expiring", "background_threads"];
        let nearest = |name| nearest(name, names.into_iter());
        for (name, meant) in [
            ("memory_bugdet", "memory_budget"),
            ("Memory-Budget", "memory_budget"),
            ("mem_budget", "memory_budget"),
            ("budget", "memory_budget"),
            ("threads", "background_threads"),
            ("mergeratio", "merge_ratio"),
            ("fixe", "fixed"),
            ("indx", "index"),
        ] {
            assert_eq!(nearest(name), Some(meant), "{name}");
        }
        for name in ["", "x", "ratios_of_all", "cache_size", "é"] {
            assert_eq!(nearest(name), None, "{name}");
        }
    }

    #[test]
    fn an_exchange_of_two_neighbours_is_one_edit() {
        for (one, other, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "acb", 1),
            ("abc", "abd", 1),
            ("abc", "ab", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!((edits(one, other), edits(other, one)), (count, count), "{one} {other}");
        }
    }
}

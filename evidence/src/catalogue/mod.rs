//! The tables and figures with data of the papers, one file per paper. Drawings, notation and configurations are left
//! out.

mod bloomstore;
mod ect;
mod flashkey;
mod flashstore;
mod mica;
mod msls;
mod silt;

use crate::point::Judged;
use crate::registry::{Item, Paper, Run};

/// All items, by paper.
pub static ALL: [&[Item]; 7] = [
    &silt::ITEMS,
    &ect::ITEMS,
    &msls::ITEMS,
    &mica::ITEMS,
    &flashkey::ITEMS,
    &flashstore::ITEMS,
    &bloomstore::ITEMS,
];

/// Rates of another drive, and of other processors.
const OTHER_MACHINE: Judged = Judged::Not("another machine");
const OTHER_DRIVE: Judged = Judged::Not("another drive");
/// Formulas give the paper's values, which the paper rounds to two or three digits.
const FORMULA: Judged = Judged::Within(0.06);
/// Counts depend on the number of keys and on the sizes of records, which are the paper's only in part.
const COUNTED: Judged = Judged::Within(0.1);

/// Returns an item without a horizontal axis and with all that the paper has.
const fn item(
    paper: Paper,
    id: &'static str,
    place: &'static str,
    what: &'static str,
    judged: Judged,
    run: Run,
) -> Item {
    Item { id, paper, place, what, x: "", judged, run, lacks: "", worse: "" }
}

/// Returns an item that is not done, for this reason.
const fn not_done(
    paper: Paper,
    id: &'static str,
    place: &'static str,
    what: &'static str,
    reason: &'static str,
) -> Item {
    item(paper, id, place, what, Judged::Not("not done"), Run::NotDone(reason))
}

impl Item {
    /// Adds the horizontal axis.
    const fn over(mut self, x: &'static str) -> Item {
        self.x = x;
        self
    }

    /// Adds why a value is worse than the paper's.
    const fn because(mut self, worse: &'static str) -> Item {
        self.worse = worse;
        self
    }

    /// Adds what the paper has in addition.
    const fn lacking(mut self, lacks: &'static str) -> Item {
        self.lacks = lacks;
        self
    }
}

//! A table or a figure of a paper, and how it is obtained here.

use crate::conditions::Conditions;
use crate::point::{Judged, Points};
use serde::Serialize;

/// A paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// SILT (SOSP 2011), which is chapter 2 of Lim's dissertation.
    Silt,
    /// Entropy-coded tries: chapter 3 of Lim's dissertation.
    Ect,
    /// Models of multi-stage log-structured stores: chapter 4 of Lim's dissertation.
    Msls,
    /// MICA: chapter 5 of Lim's dissertation.
    Mica,
    /// FlashKey.
    Flashkey,
    /// FlashStore (VLDB 2010).
    Flashstore,
    /// BloomStore (MSST 2012).
    Bloomstore,
}

impl Paper {
    /// All papers, in the order of the registry.
    pub const ALL: [Paper; 7] = [
        Paper::Silt,
        Paper::Ect,
        Paper::Msls,
        Paper::Mica,
        Paper::Flashkey,
        Paper::Flashstore,
        Paper::Bloomstore,
    ];

    /// Returns the name, with which the ids of its items begin.
    pub fn name(self) -> &'static str {
        match self {
            Paper::Silt => "silt",
            Paper::Ect => "ect",
            Paper::Msls => "msls",
            Paper::Mica => "mica",
            Paper::Flashkey => "flashkey",
            Paper::Flashstore => "flashstore",
            Paper::Bloomstore => "bloomstore",
        }
    }

    /// Returns the title.
    pub fn title(self) -> &'static str {
        match self {
            Paper::Silt => "SILT (Lim's dissertation, chapter 2)",
            Paper::Ect => "Entropy-coded tries (chapter 3)",
            Paper::Msls => "Multi-stage log-structured designs (chapter 4)",
            Paper::Mica => "MICA (chapter 5)",
            Paper::Flashkey => "FlashKey",
            Paper::Flashstore => "FlashStore",
            Paper::Bloomstore => "BloomStore",
        }
    }
}

/// What is run at once, for one item or for several.
#[derive(Debug)]
pub struct Experiment {
    /// The name, for messages.
    pub name: &'static str,
    /// The seconds that it takes at scale 1, with all of its runs.
    pub cost_s: u32,
    /// Whether it uses direct I/O where the file system can, whatever the conditions are.
    pub direct: bool,
    /// Whether it counts, in one run without background threads, or is calculated.
    pub counts: bool,
    /// Whether it has rates, in several runs.
    pub rates: bool,
    /// Measures, and adds points to items.
    pub run: fn(&Conditions, &mut Points) -> crate::Result<()>,
}

/// How an item is obtained.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// By models alone.
    Model(&'static Experiment),
    /// By measurement.
    Measured(&'static Experiment),
    /// By measurement next to other stores, which are compiled with the feature `peers`.
    Peers {
        /// The stores, by the names that `evidence peers` lists.
        needs: &'static [&'static str],
        /// What is run.
        experiment: &'static Experiment,
    },
    /// Not at all, for this reason.
    NotDone(&'static str),
}

/// A table or a figure of a paper, or a section with figures in its text.
#[derive(Debug)]
pub struct Item {
    /// The name, such as "silt/figure-9".
    pub id: &'static str,
    /// The paper.
    pub paper: Paper,
    /// The place in the paper, such as "Figure 9".
    pub place: &'static str,
    /// What it shows.
    pub what: &'static str,
    /// The horizontal axis, or nothing if it has none.
    pub x: &'static str,
    /// How its values are judged.
    pub judged: Judged,
    /// How it is obtained.
    pub run: Run,
    /// What the paper has in addition, or nothing.
    pub lacks: &'static str,
    /// Why a value is worse than the paper's, if one is and the reason is known.
    pub worse: &'static str,
}

impl Item {
    /// Returns what is run for the item, unless it is not done.
    pub fn experiment(&self) -> Option<&'static Experiment> {
        match self.run {
            Run::Model(experiment) | Run::Measured(experiment) | Run::Peers { experiment, .. } => {
                Some(experiment)
            }
            Run::NotDone(_) => None,
        }
    }

    /// Returns the state as words.
    pub fn state(&self) -> &'static str {
        match self.run {
            Run::Model(_) => "model",
            Run::Measured(_) => "measured",
            Run::Peers { .. } => "peers",
            Run::NotDone(_) => "not done",
        }
    }
}

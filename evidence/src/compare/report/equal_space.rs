//! The table `equal-space`: the figures of FlashKey's paper, each store next to FlashKey.

use super::Section;
use super::metrics::{
    GET_MEAN, GET_P50, GET_P9999, Metric, PUT_SETTLED, READ_AMPLIFICATION, SPACE, WRITE_AMPLIFICATION,
};
use std::fmt::Write;

/// The name of the table.
pub const TABLE: &str = "equal-space";

/// A figure of the paper: the workload, its phase here, the metric, and how many times FlashKey is better than RocksDB and
/// than LevelDB, by Figures 3 to 6 and Tables V and VI.
struct Figure {
    workload: &'static str,
    phase: &'static str,
    metric: &'static Metric,
    rocksdb: &'static str,
    leveldb: &'static str,
}

const fn figure(
    workload: &'static str,
    phase: &'static str,
    metric: &'static Metric,
    rocksdb: &'static str,
    leveldb: &'static str,
) -> Figure {
    Figure { workload, phase, metric, rocksdb, leveldb }
}

const FIGURES: [Figure; 17] = [
    figure("W1, fillseq", "load", &PUT_SETTLED, "", ""),
    figure("W1, fillseq", "load", &WRITE_AMPLIFICATION, "", ""),
    figure("W2, readrandom", "read", &GET_MEAN, "1.4", ""),
    figure("W2, readrandom", "read", &READ_AMPLIFICATION, "1.3 to 2", "1.2"),
    figure("W2, readrandom", "read", &GET_P50, "1.1", "1.2"),
    figure("W2, readrandom", "read", &GET_P9999, "1.8 (p99.999)", "1.9 (p99.999)"),
    figure("W3, overwrite", "overwrite2", &PUT_SETTLED, "1.9", "6.3"),
    figure("W3, overwrite", "overwrite2", &WRITE_AMPLIFICATION, "6.8", "12"),
    figure("W3, overwrite", "overwrite2", &SPACE, "1", "1"),
    figure("W4, 1 reader, 1 writer", "readwhilewriting", &GET_MEAN, "1.3 to 1.9", "1.08"),
    figure("W4, 1 reader, 1 writer", "readwhilewriting", &GET_P9999, "", ""),
    figure("W4, 1 reader, 1 writer", "readwhilewriting", &WRITE_AMPLIFICATION, "7", "4"),
    figure("W4, 1 reader, 1 writer", "readwhilewriting", &READ_AMPLIFICATION, "1.5 to 2", "0.9"),
    figure("W5, 3 readers, 1 writer", "readwhilewriting:3", &GET_MEAN, "1.25", "1.08"),
    figure("W5, 3 readers, 1 writer", "readwhilewriting:3", &WRITE_AMPLIFICATION, "7.8", "4"),
    figure("W5, 3 readers, 1 writer", "readwhilewriting:3", &READ_AMPLIFICATION, "1.9", "1.4"),
    figure("overwrite, Zipf 0.99", "overwrite2-zipf", &WRITE_AMPLIFICATION, "", ""),
];

/// Appends the table of a section: a store, FlashKey, and the quotient next to that of the paper.
pub fn write(text: &mut String, section: &Section) {
    let Some(peer) = section.peers().into_iter().find(|peer| *peer == section.group) else { return };
    let _ = writeln!(
        text,
        "| | | {} | FlashKey | quotient | of the paper |\n|---|---|---:|---:|---:|---:|",
        super::title(peer)
    );
    for Figure { workload, phase, metric, rocksdb, leveldb } in &FIGURES {
        let of = |peer| section.median(peer, phase, metric);
        let (Some(theirs), Some(ours)) = (of(peer), of("flashkey")) else { continue };
        let quotient = if ours > 0.0 { format!("{:.2}", theirs / ours) } else { String::new() };
        let paper = match peer {
            "rocksdb" => rocksdb,
            "leveldb" => leveldb,
            _ => "",
        };
        let (theirs, ours) = ((metric.show)(theirs), (metric.show)(ours));
        let _ = writeln!(text, "| {workload} | {} | {theirs} | {ours} | {quotient} | {paper} |", metric.name);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::report::sections;
    use crate::compare::row::Row;

    #[test]
    fn the_quotient_of_the_paper_is_next_to_that_of_a_store_and_flashkey() {
        let row = |peer: &str, write_amplification| Row {
            table: TABLE.to_owned(),
            group: "rocksdb".to_owned(),
            peer: peer.to_owned(),
            phase: "overwrite2".to_owned(),
            write_amplification: Some(write_amplification),
            ..Row::default()
        };
        let mut text = String::new();
        write(&mut text, &sections(vec![row("rocksdb", 6.0), row("flashkey", 2.4)])[0]);
        assert!(text.contains("| W3, overwrite | WA | 6.00 | 2.40 | 2.50 | 6.8 |"), "{text}");
    }
}

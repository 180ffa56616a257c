//! MICA.

use super::OTHER_MACHINE;
use crate::experiments::mica;
use crate::point::Judged;
use crate::registry::{Item, Paper, Run};

const NETWORK: &str = "the network: rates are those of stores in memory";
const OTHERS: &str = "other systems; client and server are on one machine";

const fn item(id: &'static str, place: &'static str, what: &'static str, judged: Judged, run: Run) -> Item {
    super::item(Paper::Mica, id, place, what, judged, run)
}

const fn not_done(id: &'static str, place: &'static str, what: &'static str, reason: &'static str) -> Item {
    super::not_done(Paper::Mica, id, place, what, reason)
}

pub(super) static ITEMS: [Item; 9] = [
    item(
        "mica/figure-5.10",
        "Figure 5.10",
        "throughput over the network",
        OTHER_MACHINE,
        Run::Measured(&mica::UDP),
    )
    .lacking(OTHERS),
    item(
        "mica/figure-5.11",
        "Figure 5.11",
        "throughput of a core with uniform and skewed keys",
        OTHER_MACHINE,
        Run::Measured(&mica::LOCAL),
    )
    .lacking(NETWORK),
    item(
        "mica/figure-5.12",
        "Figure 5.12",
        "throughput of data structures by sizes of items",
        OTHER_MACHINE,
        Run::Measured(&mica::LOCAL),
    )
    .lacking("other systems"),
    item(
        "mica/figure-5.13",
        "Figure 5.13",
        "latency by throughput",
        OTHER_MACHINE,
        Run::Measured(&mica::UDP),
    )
    .lacking("memcached; the load generator is a thread of the same process, with a processor of its own"),
    item(
        "mica/figure-5.14",
        "Figure 5.14",
        "throughput by cores",
        OTHER_MACHINE,
        Run::Measured(&mica::LOCAL),
    )
    .over("threads")
    .lacking(NETWORK),
    not_done(
        "mica/figure-5.15",
        "Figure 5.15",
        "throughput by ports of network cards",
        "needs several ports of 10 Gbit/s",
    ),
    item(
        "mica/figure-5.16",
        "Figure 5.16",
        "throughput by access mode",
        OTHER_MACHINE,
        Run::Measured(&mica::LOCAL),
    )
    .lacking(NETWORK),
    item(
        "mica/table-5.1",
        "Table 5.1",
        "throughput by request direction",
        OTHER_MACHINE,
        Run::Measured(&mica::UDP),
    ),
    not_done(
        "mica/table-5.2",
        "Table 5.2",
        "partitioned Masstree",
        "needs Masstree with its support of concurrent access removed",
    ),
];

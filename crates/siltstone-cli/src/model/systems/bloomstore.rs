//! The engine BloomStore.

use super::{Measure, SystemArgs, Values, memory, named};
use siltstone_model::{BloomStoreLayout, Popularity};

impl SystemArgs {
    pub(super) fn bloomstore_layout(&self) -> BloomStoreLayout {
        let parameters = &self.parameters;
        let mut layout = BloomStoreLayout::new(self.key_size, self.value_size);
        layout.records.fixed = !parameters.variable;
        layout.records.partitions = parameters.partitions.unwrap_or(layout.records.partitions);
        layout.records.log_slots_min = parameters.log_slots_min.unwrap_or(layout.records.log_slots_min);
        layout.records.block_bytes = parameters.block_bytes.unwrap_or(layout.records.block_bytes);
        layout.chain_length = parameters.chain_length.unwrap_or(layout.chain_length);
        layout.filter_bits = parameters.filter_bits.unwrap_or(layout.filter_bits);
        layout.buffered_filters = parameters.buffered_filters.unwrap_or(layout.buffered_filters);
        layout.prefilter_bits = parameters.prefilter_bits.unwrap_or(layout.prefilter_bits);
        layout.space = parameters.space.unwrap_or(layout.space);
        layout.expected_keys = parameters.expected_keys.unwrap_or(layout.expected_keys);
        layout
    }

    /// The engine after it has grown to the keys, and while they are overwritten.
    pub(super) fn bloomstore(&self, measure: Measure, popularity: &Popularity) -> anyhow::Result<Values> {
        let layout = self.bloomstore_layout();
        layout.check()?;
        let grown = layout.grown(self.keys)?;
        let overwritten = layout.overwritten(self.keys, &layout.log_store_puts(popularity))?;
        Ok(match measure {
            Measure::Writes => named(&[
                ("write_amplification", grown.writes.total()),
                ("log", grown.writes.log),
                ("runs", grown.writes.runs),
                ("chains", grown.writes.chains),
                ("merges", grown.writes.merges),
                ("overwriting", overwritten.writes.total()),
            ]),
            Measure::Reads => named(&[
                ("reads_per_get", grown.reads_per_get),
                ("reads_per_miss", grown.reads_per_miss),
                ("reads_per_get_overwritten", overwritten.reads_per_get),
                ("reads_per_miss_overwritten", overwritten.reads_per_miss),
            ]),
            Measure::Memory => {
                let mut values = memory(self.keys, grown.ram.total());
                values.extend(named(&[
                    ("log_stores_bytes", grown.ram.log_stores),
                    ("filters_bytes", grown.ram.filters),
                    ("directories_bytes", grown.ram.directories),
                    ("prefilters_bytes", grown.ram.prefilters),
                    ("fixed_bytes", grown.ram.fixed),
                    ("ram_peak_bytes", overwritten.ram_peak.total()),
                ]));
                values
            }
            Measure::Space => named(&[
                ("space_amplification", grown.space_amplification),
                ("space_amplification_overwritten", overwritten.space_amplification),
            ]),
        })
    }
}

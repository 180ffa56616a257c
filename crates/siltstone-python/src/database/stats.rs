//! Statistics as a dict.

use super::Database;
use pyo3::prelude::*;
use pyo3::types::PyDict;

#[pymethods]
impl Database {
    /// Returns the contents, the counters and the costs of the database.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let handle = self.handle(py)?;
        let stats = py.detach(|| handle.stats());
        let dict = PyDict::new(py);
        dict.set_item("engine", stats.engine)?;
        dict.set_item("fixed", stats.shape.fixed)?;
        dict.set_item("hashed_keys", stats.shape.hashed_keys)?;
        dict.set_item("expiring", stats.shape.expiring)?;
        dict.set_item("partitions", stats.shape.partitions)?;
        for (name, value) in [
            ("records", stats.records),
            ("gets", stats.usage.gets),
            ("misses", stats.usage.misses),
            ("puts", stats.usage.puts),
            ("deletes", stats.usage.deletes),
            ("writes", stats.writes),
            ("user_bytes", stats.user_bytes),
            ("disk_bytes", stats.disk_bytes),
            ("ram_bytes", stats.ram.total_bytes()),
            ("ram_peak_bytes", stats.ram_peak.total_bytes()),
            ("delayed_writes", stats.delayed_writes),
            ("read_bytes", stats.io.total().read_bytes),
            ("reads", stats.io.total().reads),
            ("written_bytes", stats.io.total().write_bytes),
            ("syncs", stats.io.total().syncs),
        ] {
            dict.set_item(name, value)?;
        }
        dict.set_item("write_amplification", stats.write_amplification())?;
        let ram = PyDict::new(py);
        for (item, bytes) in stats.ram.items() {
            ram.set_item(item, bytes)?;
        }
        dict.set_item("ram", ram)?;
        let settings = PyDict::new(py);
        for (name, value) in &stats.settings {
            settings.set_item(name, value)?;
        }
        dict.set_item("settings", settings)?;
        let details = PyDict::new(py);
        for (name, value) in &stats.details {
            details.set_item(name, value)?;
        }
        dict.set_item("details", details)?;
        Ok(dict)
    }

    /// Returns the statistics in the text format of Prometheus, with a label `database`.
    #[pyo3(signature = (database="siltstone"))]
    fn prometheus(&self, py: Python<'_>, database: &str) -> PyResult<String> {
        let handle = self.handle(py)?;
        Ok(py.detach(|| handle.stats().to_prometheus(&[("database", database)])))
    }
}

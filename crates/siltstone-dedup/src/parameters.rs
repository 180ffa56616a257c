//! The parameters of an index: `parameters.json`, written once, before anything else of the index.

use super::chunks::Chunking;
use crate::place::PARAMETERS;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The format name in the file, and its version.
const FORMAT: &str = "siltstone dedup index";
const VERSION: u32 = 1;
/// The chunking algorithm. Another algorithm or normalization gets another name.
const CHUNKER: &str = "fastcdc-2020-normalization-1";
/// The maximum length of the file, in bytes.
const LENGTH_MAX: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct Parameters {
    format: String,
    version: u32,
    chunker: String,
    #[serde(flatten)]
    chunking: Chunking,
}

/// Reads the parameters of the index in `directory`; `None` if there are none yet.
///
/// # Errors
/// The file cannot be read, or its version is not supported.
pub fn read(directory: &Path) -> anyhow::Result<Option<Chunking>> {
    let path = directory.join(PARAMETERS);
    let length = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    ensure!(
        length <= LENGTH_MAX,
        "{}: expected at most {LENGTH_MAX} bytes, got {length}; copy the file from a checkpoint of the index",
        path.display()
    );
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed: Parameters = serde_json::from_slice(&text).with_context(|| {
        format!(
            "{}: not the parameters of an index; copy the file from a checkpoint of the index",
            path.display()
        )
    })?;
    let Parameters { format, version, chunker, chunking } = parsed;
    if (format.as_str(), version, chunker.as_str()) != (FORMAT, VERSION, CHUNKER) {
        bail!(
            "{}: {format} {version} with chunker {chunker}, but this program reads {FORMAT} {VERSION} with {CHUNKER}",
            path.display()
        );
    }
    chunking.check().with_context(|| format!("{}: a parameter is out of range", path.display()))?;
    Ok(Some(chunking))
}

/// Writes the parameters of a new index durably: the file gets its name only once it is complete and synced.
pub fn write(directory: &Path, chunking: &Chunking) -> anyhow::Result<()> {
    let parameters = Parameters {
        format: FORMAT.to_owned(),
        version: VERSION,
        chunker: CHUNKER.to_owned(),
        chunking: chunking.clone(),
    };
    let mut text = serde_json::to_vec_pretty(&parameters)?;
    text.push(b'\n');
    let (path, partial) = (directory.join(PARAMETERS), directory.join(partial_name()));
    let write = || {
        let mut file = File::create(&partial)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&partial, &path)?;
        File::open(directory)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the name of the file while it is written. A leftover is overwritten.
pub fn partial_name() -> String {
    format!("{PARAMETERS}.partial")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_back_and_others_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path()).unwrap().is_none());
        let chunking = Chunking { average_size: 1000, ..Chunking::default() };
        write(directory.path(), &chunking).unwrap();
        assert_eq!(read(directory.path()).unwrap(), Some(chunking));
        let path = directory.path().join(PARAMETERS);
        let text = fs::read_to_string(&path).unwrap();
        for (from, to) in
            [("\"version\": 1", "\"version\": 2"), ("fastcdc-2020", "fastcdc-2016"), ("1000", "100")]
        {
            fs::write(&path, text.replace(from, to)).unwrap();
            assert!(read(directory.path()).is_err(), "{to}");
        }
        fs::write(&path, &text[..20]).unwrap();
        assert!(format!("{:#}", read(directory.path()).unwrap_err()).contains(PARAMETERS));
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(read(directory.path()).unwrap_err().to_string().contains("4096"));
    }
}

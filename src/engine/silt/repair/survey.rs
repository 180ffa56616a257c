//! Finds the intact parts of a database.

use super::super::live::{Manifest, PartitionEntry, StoreEntry};
use super::super::open::{open_store, usual_form};
use super::super::verify::{add_examined, lost_in_log};
use super::Course;
use crate::damage::{Damage, DamagedPart, VerifyReport};
use crate::device::{Access, Directory};
use crate::store::examine::{
    Belonging, Examined, ExaminedLog, LogToExamine, OpenedStore, StoreToOpen, Unreadable, is_damage,
};
use crate::store::manifest::{Header, KeptSettings};
use crate::store::names::{MANIFEST_NAME, MIRROR_NAME};
use crate::{Error, Result};

/// A live store with some damage.
pub(super) struct DamagedStore {
    pub partition: usize,
    pub entry: StoreEntry,
    pub name: String,
}

/// The state of a database.
pub(super) struct Survey {
    pub report: VerifyReport,
    pub header: Header,
    pub settings: KeptSettings,
    pub partitions: Vec<PartitionEntry>,
    /// A number above those of all stores in the manifest.
    pub next_number: u64,
    pub damaged_stores: Vec<DamagedStore>,
    pub to_examine: LogToExamine,
    pub log: ExaminedLog,
    /// The names of all damaged files, including missing ones.
    pub damaged_files: Vec<String>,
}

impl Survey {
    /// Reads everything, and changes nothing.
    pub fn take(directory: &Directory, course: &mut Course<'_, '_>) -> Result<Survey> {
        let (manifest, damage) = read_manifest(directory)?;
        let (header, partitions) = (*manifest.header(), manifest.partitions().to_vec());
        let converted = || partitions.iter().map(|partition| partition.converted_to);
        let to_examine = LogToExamine {
            format: header.log_format(),
            from: converted().min().unwrap_or(0),
            durable: converted().max().unwrap_or(0).max(manifest.log_synced()),
        };
        let mut report = VerifyReport {
            hasher: Some(header.hasher),
            checked_bytes: manifest.length(),
            ..VerifyReport::default()
        };
        report.damage = damage;
        course.total =
            manifest.length() + bytes_of_stores(directory, &partitions)? + to_examine.bytes(directory)?;
        course.advance(manifest.length());
        let next_number = manifest.next_number();
        let log = ExaminedLog::default();
        let (damaged_stores, damaged_files) = (Vec::new(), Vec::new());
        let settings = manifest.settings().clone();
        let mut survey = Survey {
            report,
            header,
            settings,
            partitions,
            next_number,
            damaged_stores,
            to_examine,
            log,
            damaged_files,
        };
        for partition in 0..survey.partitions.len() {
            for age in 0..survey.partitions[partition].stores.len() {
                survey.examine_store(directory, partition, age, course)?;
            }
        }
        survey.examine_log(directory, course)?;
        survey.report.checked_bytes = course.total;
        let names = survey.report.damage.iter().filter_map(|damage| damage.file.file_name());
        survey.damaged_files = names.map(|name| name.to_string_lossy().into_owned()).collect();
        Ok(survey)
    }

    /// Returns how to open a store.
    pub fn to_open<'n>(&self, partition: usize, entry: &StoreEntry, name: &'n str) -> StoreToOpen<'n> {
        StoreToOpen {
            name,
            tag: entry.tag,
            form: usual_form(entry.role, &self.header),
            block_bytes: self.header.block_bytes,
            belonging: Belonging { shape: self.header.records(), partition: partition as u64 },
        }
    }

    fn examine_store(
        &mut self,
        directory: &Directory,
        partition: usize,
        age: usize,
        course: &mut Course<'_, '_>,
    ) -> Result<()> {
        let entry = self.partitions[partition].stores[age];
        let name = entry.file_name();
        let known = self.report.damage.len();
        match OpenedStore::open(directory, &self.to_open(partition, &entry, &name))? {
            Ok(store) => {
                let examined = store.examine(&mut |bytes| course.advance(bytes), &mut |_| Ok(()))?;
                add_examined(examined, age > 0, &mut self.report);
                match open_store(directory, &self.header, &entry) {
                    Err(error) if is_damage(&error) && self.report.damage.len() == known => {
                        self.report.damage.push(Damage::of(&error, DamagedPart::File, store.bytes()));
                    }
                    _ => {}
                }
            }
            Err(damage) => {
                let examined = Examined { damage: vec![damage], ..Examined::default() };
                add_examined(examined, age > 0, &mut self.report);
            }
        }
        if self.report.damage.len() > known {
            self.damaged_stores.push(DamagedStore { partition, entry, name });
        }
        Ok(())
    }

    fn examine_log(&mut self, directory: &Directory, course: &mut Course<'_, '_>) -> Result<()> {
        let mut advance = |bytes| course.advance(bytes);
        self.log = self.to_examine.examine(directory, Unreadable::IsDamage, &mut advance)?;
        let converted: Vec<u64> = self.partitions.iter().map(|partition| partition.converted_to).collect();
        let damage = self.log.damage.iter().cloned();
        self.report
            .damage
            .extend(damage.map(|(gap, damage)| lost_in_log(&self.header, &converted, &gap, damage)));
        self.report.checked_records += self.log.records;
        self.report.torn_bytes = self.log.torn_bytes;
        Ok(())
    }

    /// Returns the number of bytes that a repair reads a second time.
    pub fn bytes_to_rewrite(&self, directory: &Directory) -> Result<u64> {
        let mut bytes = 0;
        for store in &self.damaged_stores {
            bytes += length_of(directory, &store.name)?;
        }
        if !self.log.damage.is_empty() {
            for name in self.log.files() {
                bytes += length_of(directory, &name)?;
            }
        }
        Ok(bytes)
    }
}

/// Returns the length of a file, 0 if it does not exist.
fn length_of(directory: &Directory, name: &str) -> Result<u64> {
    match directory.open(name, Access::Buffered) {
        Ok(file) => file.length(),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn bytes_of_stores(directory: &Directory, partitions: &[PartitionEntry]) -> Result<u64> {
    let mut bytes = 0;
    for store in partitions.iter().flat_map(|partition| &partition.stores) {
        bytes += length_of(directory, &store.file_name())?;
    }
    Ok(bytes)
}

/// Reads the manifest or, if that is damaged, its mirror. Also returns their damage.
fn read_manifest(directory: &Directory) -> Result<(Manifest, Vec<Damage>)> {
    let told = |error: &Error, name| {
        let length = length_of(directory, name)?;
        Ok::<_, Error>(Damage { length, ..Damage::of(error, DamagedPart::Manifest, 0) })
    };
    let mirror = Manifest::read(directory, MIRROR_NAME);
    match Manifest::open(directory) {
        Ok(manifest) => match mirror {
            Err(error) if is_damage(&error) => Ok((manifest, vec![told(&error, MIRROR_NAME)?])),
            _ => Ok((manifest, Vec::new())),
        },
        Err(error) if is_damage(&error) => match mirror {
            Ok(mirror) => Ok((mirror, vec![told(&error, MANIFEST_NAME)?])),
            // The live stores and the hash seed are not stored anywhere else.
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

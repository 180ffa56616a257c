//! Finds the intact parts of a database.

use super::super::live::{Manifest, Role, StoreEntry};
use super::super::recovery::{open_chain, open_store, usual_form};
use super::super::verify::{add_examined, add_log, examine_chain};
use crate::damage::{Damage, DamagedPart, VerifyReport};
use crate::error::Result;
use crate::progress::ProgressCounter;
use crate::store::examine::{
    Examined, ExaminedLog, LogToExamine, OpenedStore, RecordScope, StoreToOpen, Unreadable, is_damage,
    is_missing,
};
use siltstone_device::Directory;

/// A live store with some damage.
pub(super) struct DamagedStore {
    pub partition: usize,
    pub entry: StoreEntry,
    pub name: String,
}

/// The state of a database.
pub(super) struct Survey {
    pub report: VerifyReport,
    pub manifest: Manifest,
    pub damaged_stores: Vec<DamagedStore>,
    pub to_examine: LogToExamine,
    pub log: ExaminedLog,
    /// The names of all damaged files, including missing ones.
    pub damaged_files: Vec<String>,
}

impl Survey {
    /// Reads everything, and changes nothing.
    pub fn take(directory: &Directory, counter: &mut ProgressCounter<'_, '_>) -> Result<Survey> {
        let (manifest, damage) = Manifest::open_or_mirror(directory)?;
        let header = *manifest.header();
        let (from, durable) = (manifest.converted_to(), manifest.log_durable());
        let to_examine = LogToExamine { format: header.log_format(), from, durable, begins_durably: false };
        let checked_bytes = manifest.length();
        let report =
            VerifyReport { hasher: Some(header.hasher), checked_bytes, damage, ..VerifyReport::default() };
        counter.total =
            checked_bytes + bytes_of_stores(directory, &manifest)? + to_examine.bytes(directory)?;
        counter.advance(checked_bytes);
        let (damaged_stores, damaged_files) = (Vec::new(), Vec::new());
        let log = ExaminedLog::default();
        let mut survey = Survey { report, manifest, damaged_stores, to_examine, log, damaged_files };
        for partition in 0..survey.manifest.partitions().len() {
            for age in 0..survey.manifest.partitions()[partition].stores.len() {
                survey.examine_store(directory, partition, age, counter)?;
            }
        }
        survey.examine_log(directory, counter)?;
        survey.report.checked_bytes = counter.total;
        let names = survey.report.damage.iter().filter_map(|damage| damage.file.file_name());
        survey.damaged_files = names.map(|name| name.to_string_lossy().into_owned()).collect();
        Ok(survey)
    }

    /// Returns how to open a store.
    pub fn to_open<'n>(&self, partition: usize, entry: &StoreEntry, name: &'n str) -> StoreToOpen<'n> {
        let stores = &self.manifest.partitions()[partition].stores;
        let has_chain = stores.iter().any(|store| store.role == Role::Chain);
        StoreToOpen {
            name,
            tag: entry.tag,
            form: usual_form(entry.role, self.manifest.header(), has_chain),
            block_bytes: self.manifest.header().block_bytes,
            scope: RecordScope { shape: self.manifest.header().records(), partition: partition as u64 },
        }
    }

    fn examine_store(
        &mut self,
        directory: &Directory,
        partition: usize,
        age: usize,
        counter: &mut ProgressCounter<'_, '_>,
    ) -> Result<()> {
        let entry = self.manifest.partitions()[partition].stores[age];
        let name = entry.file_name();
        let known = self.report.damage.len();
        if entry.role == Role::Chain {
            let damage = self.examine_chain(directory, partition, &entry, counter)?;
            self.report.damage.extend(damage);
        } else {
            self.examine_records(directory, partition, age, counter)?;
        }
        if self.report.damage.len() > known {
            self.damaged_stores.push(DamagedStore { partition, entry, name });
        }
        Ok(())
    }

    fn examine_chain(
        &self,
        directory: &Directory,
        partition: usize,
        entry: &StoreEntry,
        counter: &mut ProgressCounter<'_, '_>,
    ) -> Result<Vec<Damage>> {
        match open_chain(directory, &self.manifest.partitions()[partition], entry) {
            Ok(chain) => examine_chain(&chain, &mut |bytes| counter.advance(bytes)),
            Err(error) if is_damage(&error) || is_missing(&error) => {
                let bytes = directory.length_of(&entry.file_name())?;
                counter.advance(bytes);
                Ok(vec![Damage::of(&error, DamagedPart::File, bytes)])
            }
            Err(error) => Err(error),
        }
    }

    fn examine_records(
        &mut self,
        directory: &Directory,
        partition: usize,
        age: usize,
        counter: &mut ProgressCounter<'_, '_>,
    ) -> Result<()> {
        let entry = self.manifest.partitions()[partition].stores[age];
        let name = entry.file_name();
        let known = self.report.damage.len();
        match OpenedStore::open(directory, &self.to_open(partition, &entry, &name))? {
            Ok(store) => {
                let examined = store.examine(&mut |bytes| counter.advance(bytes), &mut |_| Ok(()))?;
                add_examined(examined, age > 0, &mut self.report);
                // Whatever an open refuses must be reported, even if every record was read.
                match open_store(directory, self.manifest.header(), &entry) {
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
        Ok(())
    }

    fn examine_log(&mut self, directory: &Directory, counter: &mut ProgressCounter<'_, '_>) -> Result<()> {
        let mut advance = |bytes| counter.advance(bytes);
        self.log = self.to_examine.examine(directory, Unreadable::IsDamage, &mut advance)?;
        let partitions = self.manifest.partitions().iter();
        let converted_to: Vec<u64> = partitions.map(|partition| partition.converted_to).collect();
        add_log(&self.log, self.manifest.header(), &converted_to, &mut self.report);
        self.report.torn_bytes = self.log.torn_bytes;
        Ok(())
    }

    /// Returns the number of bytes that a repair reads a second time.
    pub fn bytes_to_rewrite(&self, directory: &Directory) -> Result<u64> {
        let mut bytes = 0;
        for store in &self.damaged_stores {
            bytes += directory.length_of(&store.name)?;
        }
        if !self.log.damage.is_empty() {
            for name in self.log.files(&self.to_examine.format) {
                bytes += directory.length_of(&name)?;
            }
        }
        Ok(bytes)
    }
}

fn bytes_of_stores(directory: &Directory, manifest: &Manifest) -> Result<u64> {
    let mut bytes = 0;
    for store in manifest.partitions().iter().flat_map(|partition| &partition.stores) {
        bytes += directory.length_of(&store.file_name())?;
    }
    Ok(bytes)
}

//! What a transaction executes, and the keys of it.

use crate::command::Command;
use std::collections::HashMap;
use std::ops::Range;

/// A command, with its words and the numbers of its keys, by their places in the plan.
pub struct Call {
    pub command: &'static Command,
    pub words: Range<usize>,
    pub keys: Range<usize>,
}

/// The commands of a transaction. What all commands have is in a few vectors, so a command allocates nothing.
#[derive(Default)]
pub struct Plan<'a> {
    pub calls: Vec<Call>,
    pub words: Vec<&'a [u8]>,
    pub numbers: Vec<usize>,
    /// The keys, each once.
    pub keys: Vec<&'a [u8]>,
    pub by_key: HashMap<&'a [u8], usize>,
}

impl<'a> Plan<'a> {
    /// Returns whether no command changes a value.
    pub fn only_reads(&self) -> bool {
        self.calls.iter().all(|call| call.command.only_reads(&self.words[call.words.clone()]))
    }

    /// Returns the number of a key.
    pub fn number(&mut self, key: &'a [u8]) -> usize {
        *self.by_key.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    /// Adds a command with its words.
    pub fn add(&mut self, command: &'static Command, words: impl Iterator<Item = &'a [u8]>) {
        let (first_word, first_number) = (self.words.len(), self.numbers.len());
        self.words.extend(words);
        let positions =
            command.keys.positions(self.words.len() - first_word, |at| self.words[first_word + at]);
        for at in positions {
            let number = self.number(self.words[first_word + at]);
            self.numbers.push(number);
        }
        let (words, keys) = (first_word..self.words.len(), first_number..self.numbers.len());
        self.calls.push(Call { command, words, keys });
    }
}

//! The arguments of a command.

use siltstone_testing::TestEngine;

/// Flags and their values. Each is removed when it is read.
pub struct Arguments(Vec<String>);

impl Arguments {
    /// Returns the arguments of the program.
    pub fn new(typed: impl Iterator<Item = String>) -> Self {
        Arguments(typed.collect())
    }

    /// Returns whether a flag is present.
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|typed| typed == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// Returns the argument after a name.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        let Some(at) = self.0.iter().position(|typed| typed == name) else { return Ok(None) };
        if at + 1 == self.0.len() {
            return Err(format!("{name}: the value is missing"));
        }
        self.0.remove(at);
        Ok(Some(self.0.remove(at)))
    }

    /// Returns the number after a name.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>, String> {
        let text = self.text(name)?;
        let number = |text: String| text.parse().map_err(|_| format!("{name}: invalid number: {text}"));
        text.map(number).transpose()
    }

    /// Returns the engine after `--engine`, or SILT.
    pub fn engine(&mut self) -> Result<TestEngine, String> {
        self.engine_of(TestEngine::persistent().collect())
    }

    /// Returns the engine of these after `--engine`, or SILT.
    pub fn engine_of(&mut self, engines: Vec<TestEngine>) -> Result<TestEngine, String> {
        let Some(name) = self.text("--engine")? else { return Ok(TestEngine::silt()) };
        let engine = engines.iter().find(|engine| engine.info.name == name);
        engine.cloned().ok_or_else(|| {
            let names: Vec<_> = engines.iter().map(|engine| engine.info.name).collect();
            format!("--engine: {name} is not one of {}", names.join(", "))
        })
    }

    /// Returns an error if an argument was not read.
    pub fn end(&self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |typed| Err(format!("unknown argument: {typed}\n{}", super::USAGE)))
    }

    /// Returns the remaining arguments.
    pub fn rest(self) -> Vec<String> {
        self.0
    }
}

//! What stands behind a command.

/// Flags and their values; each is taken out when it is asked for.
pub struct Arguments(Vec<String>);

impl Arguments {
    /// Those that were typed.
    pub fn new(typed: impl Iterator<Item = String>) -> Self {
        Arguments(typed.collect())
    }

    /// Whether a flag is there.
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|typed| typed == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// What stands behind a name.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        let Some(at) = self.0.iter().position(|typed| typed == name) else { return Ok(None) };
        if at + 1 == self.0.len() {
            return Err(format!("{name}: a value is missing"));
        }
        self.0.remove(at);
        Ok(Some(self.0.remove(at)))
    }

    /// The number behind a name.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>, String> {
        let text = self.text(name)?;
        let number = |text: String| text.parse().map_err(|_| format!("{name}: {text} is no number"));
        text.map(number).transpose()
    }

    /// An error if anything is left that nobody asked for.
    pub fn end(&self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |typed| Err(format!("{typed}: not known\n{}", super::USAGE)))
    }

    /// All that is left.
    pub fn rest(self) -> Vec<String> {
        self.0
    }
}

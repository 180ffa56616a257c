//! The settings of `siltstone serve data` and `siltstone follow` from three places. The options of the command line
//! are the table of all of them:
//!
//! | place | the option `--idle-max 5m` is there | used if |
//! |---|---|---|
//! | command line | `--idle-max 5m` | it is stated |
//! | environment | `SILTSTONE_SERVE_IDLE_MAX=5m` | the command line does not state it |
//! | file | `idle_max = "5m"` | neither of both does |
//!
//! The file (`--config`, or `SILTSTONE_SERVE_CONFIG`) is TOML. An option that can be repeated is an array there, or a
//! table: `set = { eviction = "lru" }` is `--set eviction=lru`. A name that is no option is an error, in the
//! environment too.

use anyhow::{Context, bail};
use clap::{Arg, Command};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The option that names the file.
const CONFIG: &str = "config";

/// How the names of settings in the environment begin.
const PREFIX: &str = "SILTSTONE_SERVE_";

/// Returns the name of a setting in the environment.
fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('-', "_").to_uppercase())
}

/// Returns the name of an argument in the file and the environment; `None` for one that is no setting.
fn name_of(arg: &Arg) -> Option<String> {
    let name = arg.get_long().unwrap_or(arg.get_id().as_str());
    (!["help", "version"].contains(&name)).then(|| name.replace('-', "_"))
}

/// Lets the environment state each option.
pub fn with_environment(command: Command) -> Command {
    command.mut_args(|arg| match name_of(&arg) {
        Some(name) => arg.env(variable(&name)).hide_env(true),
        None => arg,
    })
}

/// Checks that each variable of the environment that is named as a setting is one of any of these commands.
///
/// # Errors
/// The first that is none, with the nearest one.
pub fn check_environment(commands: &[&Command], names: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let all = commands.iter().flat_map(|command| command.get_arguments());
    let known: Vec<String> = all.filter_map(name_of).collect();
    for name in names.filter_map(|name| name.into_string().ok()) {
        let Some(wanted) = name.strip_prefix(PREFIX).map(str::to_lowercase) else { continue };
        if known.iter().any(|known| variable(known) == name) {
            continue;
        }
        match siltstone::nearest_name(&wanted, known.iter().map(String::as_str)) {
            Some(nearest) => bail!(
                "there is no setting `{name}` in the environment; did you mean `{}`?",
                variable(nearest)
            ),
            None => bail!("there is no setting `{name}` in the environment; unset it"),
        }
    }
    Ok(())
}

/// Lets the file state options that the arguments of the process, or the environment, name.
///
/// # Errors
/// Those of [`with_file`].
pub fn with_file_of(command: Command, arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Command> {
    match file(arguments) {
        Some(path) => with_file(command, &path),
        None => Ok(command),
    }
}

/// Returns the file that the arguments of the process, or the environment, name.
fn file(arguments: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let option = format!("--{CONFIG}");
    let (mut is_next, mut stated) = (false, None);
    for argument in arguments.take_while(|argument| argument != "--") {
        if is_next {
            stated = Some(PathBuf::from(&argument));
        }
        is_next = *argument == *option;
        let path = argument.to_str().and_then(|text| text.strip_prefix(&option)?.strip_prefix('='));
        stated = path.map(PathBuf::from).or(stated);
    }
    stated.or_else(|| std::env::var_os(variable(CONFIG)).map(PathBuf::from))
}

/// Lets a file state options: each value becomes the default of its option.
///
/// # Errors
/// The file cannot be read, is no TOML, or has a name that is no option: then the nearest one is named.
fn with_file(command: Command, path: &Path) -> anyhow::Result<Command> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    with_text(command, &text).with_context(|| path.display().to_string())
}

fn with_text(mut command: Command, text: &str) -> anyhow::Result<Command> {
    for (name, value) in text.parse::<Table>()? {
        let wanted = name.replace('-', "_");
        let is_wanted = |arg: &&Arg| wanted != CONFIG && name_of(arg).is_some_and(|name| name == wanted);
        let Some(arg) = command.get_arguments().find(is_wanted) else {
            let names: Vec<String> = command.get_arguments().filter_map(name_of).collect();
            match siltstone::nearest_name(&wanted, names.iter().map(String::as_str)) {
                Some(nearest) => bail!("there is no setting `{name}`; did you mean `{nearest}`?"),
                None => bail!("there is no setting `{name}`; there are {}", names.join(", ")),
            }
        };
        let id = arg.get_id().clone();
        let values = values_of(&value).with_context(|| format!("the value of `{name}`"))?;
        command = command.mut_arg(id, |arg| arg.default_values(values));
    }
    Ok(command)
}

/// Returns a value as the command line has it.
fn values_of(value: &Value) -> anyhow::Result<Vec<String>> {
    let single = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(is_set) => Ok(is_set.to_string()),
        other => bail!("a {} is not possible; state a string or a number", other.type_str()),
    };
    match value {
        Value::Array(values) => values.iter().map(single).collect(),
        Value::Table(values) => {
            values.iter().map(|(name, value)| Ok(format!("{name}={}", single(value)?))).collect()
        }
        value => Ok(vec![single(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::DataArgs;
    use super::*;
    use clap::{Args, FromArgMatches};

    fn parse(text: &str, arguments: &[&str]) -> anyhow::Result<DataArgs> {
        let command = with_text(DataArgs::augment_args(Command::new("data")), text)?;
        let matches = command.try_get_matches_from([&["data"], arguments].concat())?;
        Ok(DataArgs::from_arg_matches(&matches)?)
    }

    #[test]
    fn a_file_states_what_the_command_line_does_not() {
        let text = "directory = \"/data\"\nworkers = 3\nhelpers = 5\nidle-max = \"5m\"\nunprotected = true\n\
                    mount = { 3 = \"a.dict\" }\nset = [\"eviction=lru\", \"a=b\"]";
        let args = parse(text, &["--workers", "2", "--mount", "4=b.dict"]).unwrap();
        let shown = format!("{args:?}");
        for wanted in ["directory: Some(\"/data\")", "workers: Some(2)", "helpers: 5", "idle_max: Some(300s)"]
        {
            assert!(shown.contains(wanted), "{wanted}: {shown}");
        }
        assert!(shown.contains("unprotected: true") && shown.contains("(\"a\", \"b\")"), "{shown}");
        assert!(shown.contains("b.dict") && !shown.contains("a.dict"), "{shown}");
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let refusal = |text| parse(text, &["/data"]).map(|_| ()).unwrap_err();
        for (text, problem) in [
            ("wokers = 3", "no setting `wokers`; did you mean `workers`?"),
            ("memory-limit = 3", "no setting `memory-limit`; there are directory"),
            ("tls_certificate = 3", "no setting `tls_certificate`; "),
            ("idle = 3", "no setting `idle`; did you mean `idle_max`?"),
            ("Redis = 3", "no setting `Redis`; did you mean `redis`?"),
        ] {
            let shown = format!("{:#}", refusal(text));
            assert!(shown.contains(problem), "{text}: {shown}");
        }
        assert!(format!("{:#}", refusal("config = \"other.toml\"")).contains("no setting `config`"));
        assert!(format!("{:#}", refusal("workers = [[1]]")).contains("`workers`"));
        assert!(format!("{:#}", refusal("workers = \"many\"")).contains("--workers"));
        assert!(format!("{:#}", refusal("workers")).contains("TOML parse error"));
    }

    #[test]
    fn the_example_states_only_settings_that_exist() {
        let example = include_str!("../../../../packaging/siltstone.toml");
        // Those in comments too.
        let all: String = example
            .lines()
            .map(|line| line.strip_prefix('#').filter(|line| line.contains(" = ")).unwrap_or(line))
            .filter(|line| !line.starts_with("# "))
            .map(|line| format!("{line}\n"))
            .collect();
        for text in [example, &all] {
            let command = with_text(DataArgs::augment_args(Command::new("data")), text).unwrap();
            command.try_get_matches_from(["data"]).unwrap();
        }
    }

    #[test]
    fn the_last_option_names_the_file() {
        let of = |arguments: &[&str]| file(arguments.iter().map(OsString::from));
        assert_eq!(of(&["--config", "a", "--config=b"]), Some("b".into()));
        assert_eq!(of(&["--config", "a", "--", "--config", "b"]), Some("a".into()));
        assert_eq!(of(&["--configuration", "a"]), None);
    }
}

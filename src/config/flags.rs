//! The settings as command-line flags, made from the one table.
//!
//! Promises: `--config` and every setting, for each command that flattens [`ConfigFlags`].
//!
//! Absent on purpose: clap's own reading of the environment. It would hide from a mistake which of both it stands in.

use std::path::PathBuf;

use clap::builder::PathBufValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};

use super::settings::{SETTINGS, Setting};

const CONFIG: &str = "config";

/// Over the settings in a help.
pub const SETTINGS_HEADING: &str = "Settings (each also a key of the file and a variable ONCEGATE_…)";

/// The flags of a command that reads the configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfigFlags {
    /// The file to read.
    pub file: Option<PathBuf>,
    given: Vec<(&'static Setting, Vec<String>)>,
}

impl ConfigFlags {
    /// The settings that were given, with their values.
    pub(super) fn given(&self) -> &[(&'static Setting, Vec<String>)] {
        &self.given
    }
}

impl Args for ConfigFlags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(PathBufValueParser::new())
            .help("The configuration [ONCEGATE_CONFIG, else oncegate.toml where there is one]");
        SETTINGS.iter().fold(command.arg(file), |command, setting| {
            let action = if setting.many { ArgAction::Append } else { ArgAction::Set };
            let arg = Arg::new(setting.key)
                .long(setting.flag)
                .value_name(setting.value)
                .action(action)
                .help(setting.help)
                .value_hint(hint(setting))
                .help_heading(SETTINGS_HEADING)
                .hide_short_help(true);
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// What a shell may complete.
fn hint(setting: &Setting) -> ValueHint {
    match setting.value {
        "FILE" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        "URL" => ValueHint::Url,
        _ => ValueHint::Unknown,
    }
}

impl FromArgMatches for ConfigFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = SETTINGS.iter().filter_map(|setting| {
            let values = matches.get_many::<String>(setting.key)?;
            Some((setting, values.cloned().collect()))
        });
        Ok(Self { file: matches.get_one::<PathBuf>(CONFIG).cloned(), given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

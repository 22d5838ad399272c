//! `oncegate completions` and `oncegate man`: what a shell and a reader of manuals want to know of the commands.
//!
//! Promises: made from the command line itself, so that they know what it knows. Nothing is installed: whoever packages
//! the program, or uses it, says where these belong.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;

use super::failure::Failure;
use super::{screen, shape};

/// Prints what a shell needs to complete commands and options.
///
/// bash: `oncegate completions bash > /etc/bash_completion.d/oncegate`, or for yourself
/// `~/.local/share/bash-completion/completions/oncegate`; zsh: a file `_oncegate` in a folder of `$fpath`; fish:
/// `~/.config/fish/completions/oncegate.fish`.
#[derive(Args)]
pub(super) struct Completions {
    /// Which shell
    shell: Shell,
}

/// Writes the manual, one page for each command; or prints its first page.
///
/// `oncegate man | man -l -` shows the first page; `oncegate man /usr/local/share/man/man1` installs all.
#[derive(Args)]
pub(super) struct Manual {
    /// The folder to write the pages to; it is made where there is none
    dir: Option<PathBuf>,
}

impl Completions {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut shape::shaped(), "oncegate", &mut text);
        Ok(screen::show(&String::from_utf8(text).map_err(Failure::failed)?)?)
    }
}

impl Manual {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Some(dir) = self.dir else {
            let mut text = Vec::new();
            Man::new(shape::shaped()).render(&mut text)?;
            return Ok(screen::show(&String::from_utf8(text).map_err(Failure::failed)?)?);
        };
        let unwritable = |error: std::io::Error| {
            Failure::failed(format!("the pages cannot be written to {}: {error}", dir.display()))
        };
        std::fs::create_dir_all(&dir).map_err(unwritable)?;
        clap_mangen::generate_to(shape::shaped(), &dir).map_err(unwritable)?;
        Ok(screen::show(&format!(
            "The manual is in {}: oncegate.1, and one page for each command.\n",
            dir.display()
        ))?)
    }
}

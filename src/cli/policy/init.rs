//! `oncegate policy init`: a first policy, from what an MCP server says of its tools.
//!
//! Promises: what is written passes `policy check`; it is a proposal, and says of each line where it comes from. What the
//! server says of itself never makes a mutation a read without a comment that it is the server's own word. A file that is
//! there is not written over.
//!
//! Absent on purpose: calls. Nothing but the list of tools is asked for.

mod ask;
mod propose;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use crate::cli::alone;
use crate::cli::failure::Failure;
use crate::cli::screen::{show, tell};

/// Where to ask, and where to write.
#[derive(Args)]
pub(in crate::cli) struct Init {
    /// The MCP endpoint of the app itself, not of a gate: <http://127.0.0.1:8000/mcp>
    #[arg(long, value_name = "URL")]
    from: String,
    /// A token for it, or @FILE, or - for standard input
    #[arg(long)]
    token: Option<String>,
    /// Another header, as "Name: value"; may be repeated
    #[arg(long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// Certificates (PEM) that may sign the app's [the system's]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The file to write [standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Init {
    pub(super) fn run(self) -> Result<(), Failure> {
        if let Some(path) = self.out.as_ref().filter(|path| path.exists()) {
            let message =
                format!("{} is there already; name another file, or compare the two by hand", path.display());
            return Err(Failure::usage(message));
        }
        let token = self.token.as_deref().map(|typed| super::text_of(typed, "--token")).transpose()?;
        let server = ask::Server::new(&self.from, token.as_deref(), &self.headers, self.ca_file.as_deref())?;
        let mut listed = Vec::new();
        alone(async {
            listed = server.tools().await?;
            Ok(())
        })?;
        let text = propose::policy(&self.from, &listed);
        let Some(path) = self.out else { return Ok(show(&text)?) };
        let fault = |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
        // Not written over, whoever made it since.
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(fault)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
        tell(&format!("{}: tools {}; read it, then: oncegate policy check", path.display(), listed.len()));
        Ok(())
    }
}

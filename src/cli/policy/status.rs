//! `oncegate policy status`: which policy the running gate decides by, and how the last reload went.
//!
//! Promises: exit code 0 says that the gate decides by what the files say; 1 that the last reload failed, with every
//! mistake, or that no gate could be asked. What waits for a restart is told and is no failure.

use clap::Args;
use http::Method;

use crate::admin::policy::{OnePolicy, PolicyStatus};
use crate::cli::failure::Failure;
use crate::cli::operator::ask;
use crate::cli::screen::{plain, show};
use crate::config::{ConfigFlags, Layers};

/// Ask the running gate which policy is in force, and how the last reload went
///
/// Needs `admin_token_file`, in the gate's configuration and in this one. Exit code 1 where the last reload failed.
#[derive(Args)]
pub(in crate::cli) struct Status {
    /// One JSON object, as the gate says it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Status {
    pub(in crate::cli) async fn run(self) -> Result<(), Failure> {
        let admin = Layers::load(&self.config).and_then(|layers| layers.admin()).map_err(Failure::config)?;
        let status: PolicyStatus = ask(&admin, Method::GET, "/policy").await.map_err(Failure::failed)?;
        let text = if self.json {
            serde_json::to_string(&status).map_err(Failure::failed)? + "\n"
        } else {
            told(&status)
        };
        show(&text)?;
        let attempt = &status.last_attempt;
        if attempt.has_failed() {
            let count = attempt.mistakes.len();
            return Err(Failure::failed(format!(
                "the last reload, at {}, failed for {count} mistakes, and what was in force before still is",
                attempt.at
            )));
        }
        Ok(())
    }
}

/// For a person: the mistakes first.
fn told(status: &PolicyStatus) -> String {
    let mut lines: Vec<String> = status.last_attempt.mistakes.iter().map(ToString::to_string).collect();
    lines.push(line("policy", &status.front));
    lines.extend(status.listeners.iter().map(|one| line(&format!("policy of {}", one.name), &one.policy)));
    if !status.last_attempt.has_failed() {
        lines.push(format!("read without a mistake at {}", status.last_attempt.at));
    }
    if !status.waits_for_restart.is_empty() {
        lines.push(format!("waits for a restart: {}", status.waits_for_restart.join(", ")));
    }
    lines.iter().map(|line| plain(line) + "\n").collect()
}

fn line(what: &str, policy: &OnePolicy) -> String {
    format!("{what}: version {} since {}, from {}", policy.version, policy.since, policy.dir)
}

//! `oncegate token`: a development token.

use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::screen;
use crate::app::token_settings;
use crate::auth::{Bearer, Clock, IssueFault, issue};
use crate::config::{ConfigFlags, Layers};
use crate::domain::actor::Actor;
use crate::domain::units::parse_duration;

/// Prints a token for development, signed with the configured HS256 secret.
#[derive(Args)]
pub(super) struct Token {
    /// The tenant
    #[arg(long)]
    tenant: String,
    /// The user
    #[arg(long)]
    user: String,
    /// Scopes: may be repeated, or hold several
    #[arg(long = "scope", value_name = "SCOPES")]
    scopes: Vec<String>,
    /// The session
    #[arg(long)]
    session: Option<String>,
    /// How long it holds
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    ttl: Duration,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Token {
    pub(super) fn run(self) -> Result<(), Failure> {
        let scopes: Vec<String> =
            self.scopes.iter().flat_map(|several| several.split_whitespace()).map(str::to_owned).collect();
        Actor::new(&self.tenant, &self.user, self.session.as_deref(), scopes.iter().cloned())
            .map_err(Failure::usage)?;
        let auth = Layers::load(&self.config).and_then(|layers| layers.auth()).map_err(Failure::config)?;
        let bearer =
            Bearer { tenant: self.tenant, user: self.user, session: self.session, scopes, ttl: self.ttl };
        let token = issue(&token_settings(auth), &bearer, Clock::system().now());
        let token = token.map_err(|fault| match fault {
            IssueFault::NoSecret => Failure::config(fault),
            IssueFault::Signing(_) => Failure::failed(fault),
        })?;
        Ok(screen::show(&format!("{token}\n"))?)
    }
}

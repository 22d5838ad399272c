//! `oncegate drain`: takes a running gate out of service, and waits for its calls.
//!
//! Promises: exit code 0 says that nothing runs in the gate and nothing will; 1 says that something does, or that no gate
//! could be asked. Whoever waits too long stops nothing by leaving.

use std::time::Duration;

use clap::Args;
use http::Method;
use tokio::time::{Instant, sleep};

use super::failure::Failure;
use super::operator::ask;
use super::screen;
use crate::admin::drain::Standing;
use crate::config::{ConfigFlags, Layers};
use crate::domain::units::{duration_text, parse_duration};

/// How often the gate is asked whether its calls have ended.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Takes the running gate out of service and waits for its calls to end: a preStop hook.
///
/// The gate is not ready from now on. It serves calls a little longer, until load balancers have heard of that, then takes
/// no new ones. It stays so until it gets SIGTERM. Needs `admin_token_file`, in the gate's configuration and in this one.
#[derive(Args)]
pub(super) struct Drain {
    /// How long to wait for running calls, --settle included
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    wait: Duration,
    /// How long the gate still takes calls: load balancers need some seconds
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    settle: Duration,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Drain {
    pub(super) async fn run(self) -> Result<(), Failure> {
        if self.settle > self.wait {
            return Err(Failure::usage(format!(
                "--settle {} is longer than --wait {}: nothing would be waited for",
                duration_text(self.settle),
                duration_text(self.wait)
            )));
        }
        let admin = Layers::load(&self.config).and_then(|layers| layers.admin()).map_err(Failure::config)?;
        let until = Instant::now() + self.wait;
        let path = format!("/drain?settle={}", duration_text(self.settle));
        let mut standing: Standing = ask(&admin, Method::POST, &path).await.map_err(Failure::failed)?;
        while !standing.is_over() {
            if Instant::now() >= until {
                return Err(Failure::failed(format!(
                    "after {}, the gate is not done: {} calls run, {} wait, and they go on until it is stopped; {} \
                     records in its spool wait for the store",
                    duration_text(self.wait),
                    standing.calls_running,
                    standing.calls_waiting,
                    standing.spooled
                )));
            }
            sleep(ASK_AGAIN).await;
            standing = ask(&admin, Method::GET, "/drain").await.map_err(Failure::failed)?;
        }
        Ok(screen::show("drained: nothing runs in the gate, and it takes no more calls\n")?)
    }
}

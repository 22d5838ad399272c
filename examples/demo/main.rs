//! An agent's bad day: a sample app, the gate before it, and every way in which a call goes wrong.
//!
//! Promises: what it shows was really sent, to the built `oncegate` and the sample billing server, through the
//! command line that a user has; every line is marked by whether it came out as it should, and with `ONESHOT=1` the
//! exit code is 0 only if all did. Whatever ends it also ends the two servers.
//!
//! Absent on purpose: knowledge of the gate's inside. It uses no part of the library.

mod agent;
mod day;
mod parts;
mod report;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::FalseyValueParser;
use tokio::signal::unix::{SignalKind, signal};

use crate::parts::Parts;

/// Whatever may go wrong here ends the demo, with its sentence.
pub(crate) type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Shows what the gate does on an agent's bad day, and stays up.
#[derive(Parser)]
pub(crate) struct Options {
    /// Leave when it is over; exit code 1 if anything came out wrong. Free ports, a temporary folder.
    #[arg(long, env = "ONESHOT", value_parser = FalseyValueParser::new())]
    oneshot: bool,
    /// Where the gate listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    gate: SocketAddr,
    /// Where the gate tells how it is.
    #[arg(long, default_value = "127.0.0.1:8081")]
    health: SocketAddr,
    /// Where the billing server listens.
    #[arg(long, default_value = "127.0.0.1:8000")]
    billing: SocketAddr,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    // Dropped, this future takes the servers along: they are killed with their handles.
    let ended = tokio::select! {
        ended = demo(&options) => ended,
        () = asked_to_stop() => Ok(true),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("demo: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Everything; true where it all came out as it should.
async fn demo(options: &Options) -> Fallible<bool> {
    let mut parts = Parts::start(options).await?;
    let day = day::spend(&parts).await?;
    let held = report::print(&parts, &day).await?;
    if !options.oneshot {
        report::invite(&parts);
        parts.stay().await?;
    }
    Ok(held)
}

/// Returns at Ctrl-C, and when the process is told to end.
async fn asked_to_stop() {
    match signal(SignalKind::terminate()) {
        Ok(mut ended) => {
            tokio::select! {
                _ = ended.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(fault) => eprintln!("demo: no signal can be waited for: {fault}"),
    }
}

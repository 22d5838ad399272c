//! A storm: several gates on one store, thousands of intents, an upstream that does everything an upstream can do, and a
//! nemesis that breaks all of it; then a checker that knows the truth.
//!
//! Promises: the built `oncegate` is what is tried, as processes, over real sockets; the same seed makes the same
//! choices (not the same timing: what is tried is real); everything is bounded in number and time, stays on 127.0.0.1,
//! and is gone when this ends, however it ends; exit code 0 only if the checker found nothing, and every sabotage that
//! was asked for was found.
//!
//! Absent on purpose: knowledge of the gate's inside. The claims table, the audit table, the wire and the upstream's own
//! record are all that is looked at.

#![expect(clippy::expect_used, reason = "this is a test: what cannot be set up ends it, with its sentence")]
#![expect(clippy::indexing_slicing, reason = "the parts that it shares with the other tests index")]

mod call;
mod checker;
mod clients;
#[path = "../it/harness/cluster.rs"]
mod cluster;
mod disk;
mod gates;
mod ground;
mod history;
#[path = "../it/harness/http.rs"]
mod http;
mod intents;
mod ledger;
mod nemesis;
mod options;
mod postgres;
mod proxy;
mod report;
mod sabotage;
mod storm;
mod upstream;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::options::{Options, Plan};

/// Whatever may go wrong here ends the storm, with its sentence.
pub(crate) type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let ended = tokio::select! {
        ended = run(&options) => ended,
        told = told_to_stop() => told,
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("storm: {fault}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Fallible<bool> {
    let mut clean = true;
    for plan in options.storms() {
        clean &= one(&plan).await?;
    }
    for name in options.sabotages()? {
        clean &= sabotage::is_found(&name, options).await?;
    }
    println!("{}", if clean { "storm: clean." } else { "storm: NOT clean; see above." });
    Ok(clean)
}

/// One storm, told from its first line to its verdict.
async fn one(plan: &Plan) -> Fallible<bool> {
    println!("\n{}", plan.headline());
    let (events, verdict) = storm::run(plan).await?;
    report::tell(plan, &events, &verdict);
    Ok(verdict.violations.is_empty())
}

/// A person, or whatever runs the tests, has had enough. What was started ends with this process.
async fn told_to_stop() -> Fallible<bool> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
        _ = interrupted.recv() => {}
    }
    Err("interrupted".into())
}

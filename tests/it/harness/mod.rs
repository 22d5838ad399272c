//! What end-to-end tests are made of: a scripted upstream, a client that can hang up, the real gate.
//!
//! Promises: every part runs on real sockets and on ports of its own, and is gone when its value is dropped.
//!
//! Absent on purpose: fixed waits. What takes time is waited for by what it does, with a limit that fails the test.

pub(crate) mod answer;
pub(crate) mod billing;
pub(crate) mod cable;
pub(crate) mod callers;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod gate;
pub(crate) mod h2;
pub(crate) mod http;
pub(crate) mod mount;
pub(crate) mod pgbouncer;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod setup;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod upstream;

use std::time::Duration;

use setup::Home;

/// How long anything in a test may take before the test is called stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Asks again and again until `probe` has an answer.
pub(crate) async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = tokio::time::Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs a check on every home of claims, one after the other.
pub(crate) async fn on_every_store(mut check: impl AsyncFnMut(Home)) {
    for home in Home::ALL {
        eprintln!("--- on {home:?}");
        check(home).await;
    }
}

/// Waits for a future that must come.
pub(crate) async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
}

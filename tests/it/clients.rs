//! The official MCP clients before the gate: what an agent sees through each of them.
//!
//! Promises: every client, in each era that it speaks, takes the whole course: it lists and reads, changes something
//! once and gets a replay on a new connection, hears progress before the result, answers questions, gives calls up,
//! loses a session, and is refused in every way that a client can be; after each refusal the same session completes
//! another call. The gate enforces, and is the real one; the upstream is the sample billing server, on the Rust SDK,
//! and where an exact wire is needed the scripted one. What a client is by its own nature, and what it therefore
//! cannot, stands in [`kinds`].
//!
//! Absent on purpose: refusals that no such client can bring about (a body that is no message, headers that disagree with
//! it, the gate's own fault); those are held on the wire.

mod agent;
mod asked;
mod first;
mod kinds;
mod left;
mod lost;
mod refused;
mod scene;
mod tasks;

use agent::Agent;
pub(crate) use agent::install;
use kinds::Kind;
use scene::{Scene, Shop};

async fn check(kind: Kind) {
    let mut agent = Agent::start(kind).await;
    let mut shop = Shop::open().await;
    first::check(&mut agent, &shop).await;
    asked::check(&mut agent, &shop).await;
    lost::check(&mut agent, &mut shop).await;
    drop(shop);
    let scene = Scene::start(agent.kind.era).await;
    left::check(&mut agent, &scene).await;
    refused::check(&mut agent, scene).await;
}

#[tokio::test]
async fn the_python_1_client_takes_the_whole_course() {
    check(kinds::python_1()).await;
}

#[tokio::test]
async fn the_python_2_client_takes_the_whole_course_in_the_modern_era() {
    check(kinds::python_2_modern()).await;
}

#[tokio::test]
async fn the_python_2_client_takes_the_whole_course_in_the_legacy_era() {
    check(kinds::python_2_legacy()).await;
}

#[tokio::test]
async fn the_typescript_1_client_takes_the_whole_course() {
    check(kinds::typescript_1()).await;
}

#[tokio::test]
async fn the_typescript_2_client_takes_the_whole_course_in_the_modern_era() {
    check(kinds::typescript_2_modern()).await;
}

#[tokio::test]
async fn the_typescript_2_client_takes_the_whole_course_in_the_legacy_era() {
    check(kinds::typescript_2_legacy()).await;
}

#[tokio::test]
async fn the_rust_client_takes_the_whole_course_in_the_modern_era() {
    check(kinds::rust_modern()).await;
}

#[tokio::test]
async fn the_rust_client_takes_the_whole_course_in_the_legacy_era() {
    check(kinds::rust_legacy()).await;
}

#[tokio::test]
async fn the_inspector_takes_the_whole_course_in_the_modern_era() {
    check(kinds::inspector_modern()).await;
}

#[tokio::test]
async fn the_inspector_takes_the_whole_course_in_the_legacy_era() {
    check(kinds::inspector_legacy()).await;
}

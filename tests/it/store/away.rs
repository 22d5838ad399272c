//! A store that goes away and comes back: for a moment, for long, or never.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncegate::store::{ClaimFilter, Role, Schema, Store, StoreError, StoreOptions, open};
use rusqlite::Connection;
use tokio::net::TcpListener;
use tokio_postgres::{Client, NoTls};

use super::samples::{applied, event, fresh, id, keys, on_every_store, put, row, store_on, told};
use crate::harness::cable::Cable;
use crate::harness::setup::Home;
use crate::harness::{eventually, in_time, postgres};

async fn serving(url: &str, connections: usize) -> Arc<dyn Store> {
    let options = StoreOptions { connections, ..StoreOptions::new(Role::Serve) };
    open(url, options).await.expect("a usable URL")
}

fn at(url: &str, address: SocketAddr) -> String {
    url.replace(&postgres::address().to_string(), &address.to_string())
}

/// A store at the far end of a cable, that has answered once.
async fn on_a_cable() -> (Arc<dyn Store>, Cable) {
    let (_, place) = store_on(Home::Postgres).await;
    let cable = Cable::to(postgres::address()).await;
    let store = serving(&at(&place.url, cable.address()), 2).await;
    put(&store, fresh("before")).await;
    (store, cable)
}

async fn session(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.expect("the server takes connections");
    tokio::spawn(connection);
    client
}

/// What is said of the store, with every cause.
fn said<T: std::fmt::Debug>(told: Result<T, StoreError>) -> String {
    let error = told.expect_err("it fails");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    oncegate::domain::chain::Chain(&error).to_string()
}

#[tokio::test]
async fn a_short_interruption_is_bridged_for_whoever_asks_meanwhile() {
    let (store, mut cable) = on_a_cable().await;
    cable.cut().await;
    let asking: Vec<_> = (0..20)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.swap(fresh(&format!("during{n}"))).await })
        })
        .collect();
    let reading = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.read(&id("before")).await })
    };
    // They have met that nobody is there: a connection was tried, and refused.
    tokio::task::yield_now().await;
    assert!(!store.standing().is_away());
    cable.mend().await;
    for asked in asking {
        applied(in_time("a write", asked).await.expect("it does not panic"));
    }
    let seen = in_time("a question", reading).await.expect("it does not panic").expect("the store answers");
    assert!(seen.row.is_some());
    assert_eq!(keys(&store, ClaimFilter::default()).await.len(), 21);
}

#[tokio::test]
async fn a_store_that_is_away_for_long_refuses_at_once_and_its_return_is_noticed_by_itself() {
    let (store, mut cable) = on_a_cable().await;
    cable.cut().await;
    said(in_time("a write", store.swap(fresh("first"))).await);
    assert!(store.standing().is_away());
    // If each had patience of its own, these would take minutes.
    in_time("a hundred refusals", async {
        for n in 0..100 {
            said(store.swap(fresh(&format!("later{n}"))).await);
            said(store.append(event("later")).await);
            said(store.read(&id("before")).await);
        }
    })
    .await;
    cable.mend().await;
    // Nobody asks it anything.
    let standing = store.standing();
    in_time("the store to be back", standing.there()).await;
    put(&store, fresh("after")).await;
    assert_eq!(keys(&store, ClaimFilter::default()).await, ["after", "before"]);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_noticed_within_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let silent_at = silent.local_addr().expect("a bound socket has an address");
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let gone_at = gone.local_addr().expect("a bound socket has an address");
    drop(gone);
    for (address, within) in [(gone_at, 1), (silent_at, 6)] {
        let store = serving(&format!("postgres://postgres@{address}/x"), 2).await;
        let begun = Instant::now();
        let (swap, append, read) = tokio::join!(store.swap(fresh("k")), store.append(event("k")), async {
            store.read(&id("k")).await
        });
        assert!(matches!(swap, Err(StoreError::Unavailable(_))), "{swap:?}");
        assert!(matches!(append, Err(StoreError::Unavailable(_))), "{append:?}");
        assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
        assert!(begun.elapsed() < Duration::from_secs(within), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_store_that_was_never_there_is_not_waited_for_and_is_found_when_it_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    drop(listener);
    let (_, place) = store_on(Home::Postgres).await;
    let store = serving(&at(&place.url, address), 2).await;
    let told = said(store.schema().await);
    assert!(told.contains("Postgres cannot be reached"), "{told}");
    assert!(store.standing().is_away());
    let _cable = Cable::at(address, postgres::address()).await;
    in_time("the store to be there", store.standing().there()).await;
    assert_eq!(store.schema().await.expect("the store answers"), Schema::Fits);
}

#[tokio::test]
async fn whoever_is_not_let_in_is_told_why_and_is_in_once_he_may() {
    let (_, place) = store_on(Home::Postgres).await;
    let stranger = format!("stranger_{}", uuid::Uuid::new_v4().simple());
    let store = serving(&place.url.replace("//postgres@", &format!("//{stranger}@")), 2).await;
    let told = said(store.append(event("k")).await);
    assert!(told.contains("lets this user not in") && told.contains(&stranger), "{told}");
    let owner = session(&place.url).await;
    owner.batch_execute(&format!("CREATE ROLE {stranger} LOGIN SUPERUSER")).await.expect("a role");
    in_time("the store to be there", store.standing().there()).await;
    store.append(event("k")).await.expect("it is written");

    let nowhere = serving(&format!("{}_gone", place.url), 2).await;
    let told = said(nowhere.append(event("k")).await);
    assert!(told.contains("no such database") && told.contains("_gone"), "{told}");
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_away_until_it_does() {
    let (store, place) = store_on(Home::Postgres).await;
    put(&store, fresh("before")).await;
    let beside = session(&postgres::cluster()).await;
    let name = place.url.rsplit('/').next().expect("a URL with a database");
    let all = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    let setting = |to: &str| format!("ALTER DATABASE {name} SET default_transaction_read_only = {to}");
    beside.batch_execute(&setting("on")).await.expect("a setting");
    beside.batch_execute(&all).await.expect("sessions end");
    let told = said(in_time("a question", store.read(&id("before"))).await);
    assert!(told.contains("takes no writes"), "{told}");
    assert!(store.standing().is_away());
    said(store.swap(fresh("during")).await);
    beside.batch_execute(&setting("off")).await.expect("a setting");
    in_time("the store to be back", store.standing().there()).await;
    put(&store, fresh("after")).await;
}

#[tokio::test]
async fn a_pool_without_a_free_connection_says_so_and_is_no_outage() {
    let (_, place) = store_on(Home::Postgres).await;
    let store = serving(&place.url, 1).await;
    let beside = session(&place.url).await;
    beside.batch_execute("BEGIN; LOCK TABLE oncegate.idempotency_claims").await.expect("a lock");
    let listing = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.claims(&ClaimFilter { limit: 1, ..ClaimFilter::default() }).await })
    };
    let question =
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let other = session(&place.url).await;
    eventually("the list to wait for the lock", async || {
        (!other.query(question, &[]).await.expect("the server answers").is_empty()).then_some(())
    })
    .await;
    let told = said(in_time("a row", store.append(event("k"))).await);
    assert!(told.contains("all connections to Postgres were in use"), "{told}");
    assert!(!store.standing().is_away());
    beside.batch_execute("COMMIT").await.expect("the lock is given back");
    in_time("the list", listing).await.expect("it does not panic").expect("the store answers");
    store.append(event("k")).await.expect("it is written");
}

#[tokio::test]
async fn a_file_that_somebody_else_keeps_locked_is_away_until_he_gives_it_back() {
    let (store, place) = store_on(Home::Sqlite).await;
    let path = place.url.strip_prefix("sqlite:").expect("a path");
    let other = Connection::open(path).expect("the same file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let told = said(in_time("a write", store.swap(fresh("during"))).await);
    assert!(told.contains("locked"), "{told}");
    assert!(store.standing().is_away());
    in_time("a hundred refusals", async {
        for n in 0..100 {
            said(store.swap(fresh(&format!("later{n}"))).await);
        }
    })
    .await;
    assert_eq!(row(&store, &id("during")).await, None, "whoever only looks is answered");
    other.execute_batch("ROLLBACK").expect("the lock is given back");
    in_time("the store to be back", store.standing().there()).await;
    put(&store, fresh("after")).await;
    assert_eq!(keys(&store, ClaimFilter::default()).await, ["after"]);
}

#[tokio::test]
async fn rows_that_are_written_together_keep_their_order_and_are_written_once() {
    on_every_store(async |site| {
        let (store, _place) = store_on(site).await;
        let events: Vec<_> = (0..50)
            .map(|n| {
                let mut event = event("k");
                event.facts.args = Some(format!("{n}"));
                event
            })
            .collect();
        store.append_all(events.clone()).await.expect("they are written");
        store.append_all(events.clone()).await.expect("they are there");
        let rows: Vec<_> = told(&store, "k").await.into_iter().map(|row| row.event).collect();
        assert_eq!(rows, events);
    })
    .await;
}

//! What a claim costs in a small table and in a large one, side by side: `make scale`.
//!
//! Promises: both databases are on one server and are asked in turn, one caller at a time, so that whatever else the
//! machine does meets both alike; the ratio is taken round by round, and its median is what to read. Databases that are
//! there from an earlier run that was broken off are taken as they are; all are removed afterwards.
//!
//! Absent on purpose: a verdict, and throughput. It shows whether cost grows with rows.

mod asks;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use oncegate::store::{Role, Store, StoreOptions, open};
use tokio_postgres::{Client, NoTls};

use asks::{Ask, Site};

/// How often both are asked everything.
const ROUNDS: usize = 9;

type Fault = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let server = std::env::var("ONCEGATE_TEST_POSTGRES")
        .map_err(|_| "ONCEGATE_TEST_POSTGRES names no server; `make scale` starts one")?;
    let rows = |at, usual: u64| std::env::args().nth(at).map_or(Ok(usual), |text| text.parse());
    let (few, many) = (rows(1, 10_000)?, rows(2, 10_000_000)?);
    let small = made(&server, "oncegate_scale_small", few).await?;
    let large = made(&server, "oncegate_scale_large", many).await?;
    let sites = [&small, &large];

    let mut told = Vec::new();
    for ask in Ask::ALL {
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            // Who is asked first changes each time.
            let mut pair = [Duration::ZERO; 2];
            for at in [round % 2, 1 - round % 2] {
                let site: &Site = sites.get(at).ok_or("two sites")?;
                let cost = ask.cost(site, round).await?;
                if let Some(place) = pair.get_mut(at) {
                    *place = cost;
                }
            }
            times.push(pair);
        }
        told.push((ask, times));
    }
    println!("\n| asked | {few} rows, µs | {many} rows, µs | ratio, median (least to most) |");
    println!("|---|---:|---:|---:|");
    for (ask, times) in told {
        let of = |at: usize| median(times.iter().filter_map(|pair| pair.get(at)).map(micros).collect());
        let ratios: Vec<f64> = times.iter().map(|[small, large]| micros(large) / micros(small)).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let (small, large, ratio) = (of(0), of(1), median(ratios));
        println!("| {} | {small:.0} | {large:.0} | {ratio:.2} ({least:.2} to {most:.2}) |", ask.name());
    }
    println!("\n| in the large one | bytes a row | of these in indexes |\n|---|---:|---:|");
    for (table, question) in [("claim", SIZE_OF_CLAIMS), ("audit row", SIZE_OF_AUDIT)] {
        let row = large.owner.query_one(question, &[]).await?;
        let (whole, heap) = (row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?);
        let count = i64::try_from(many)?.max(1);
        println!("| {table} | {} | {} |", whole / count, (whole - heap) / count);
    }
    for site in sites {
        site.store.close().await;
    }
    for name in ["oncegate_scale_small", "oncegate_scale_large"] {
        removed(&server, name).await?;
    }
    Ok(())
}

const SIZE_OF_CLAIMS: &str = "SELECT pg_total_relation_size('oncegate.idempotency_claims'),
    pg_table_size('oncegate.idempotency_claims')";
const SIZE_OF_AUDIT: &str =
    "SELECT sum(pg_total_relation_size(inhrelid))::bigint, sum(pg_table_size(inhrelid))::bigint
    FROM pg_inherits WHERE inhparent = 'oncegate.audit_events'::regclass";

/// A database with so many claims and audit rows.
async fn made(server: &str, name: &str, rows: u64) -> Result<Site, Fault> {
    let (base, _) = server.rsplit_once('/').ok_or("the server's URL names no database")?;
    let url = format!("{base}/{name}");
    let there = "SELECT FROM pg_database WHERE datname = $1";
    let is_there = !session(server).await?.query(there, &[&name]).await?.is_empty();
    if !is_there {
        session(server).await?.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    }
    let store: Arc<dyn Store> = open(&url, StoreOptions::new(Role::Serve)).await?;
    store.migrate().await?;
    let owner = session(&url).await?;
    if is_there {
        return Ok(Site { store, owner, rows });
    }
    eprintln!("Filling {name} with {rows} claims and as many audit rows.");
    for statement in include_str!("fill.sql").replace("ROWS", &rows.to_string()).split_inclusive(";\n") {
        owner.batch_execute(statement).await?;
    }
    // As the server would by itself, sooner or later.
    for table in ["idempotency_claims", "audit_events"] {
        owner.batch_execute(&format!("VACUUM (ANALYZE) oncegate.{table}")).await?;
    }
    owner.batch_execute("CHECKPOINT").await?;
    Ok(Site { store, owner, rows })
}

async fn removed(server: &str, name: &str) -> Result<(), Fault> {
    let gone = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    Ok(session(server).await?.batch_execute(&gone).await?)
}

async fn session(url: &str) -> Result<Client, Fault> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn micros(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

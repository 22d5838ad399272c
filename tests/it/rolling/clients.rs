//! Clients of a service that is being deployed: MCP in both eras, plain HTTP, one that keeps its connections, one that
//! loses patience. Each makes one call after the other, and sends it again with the same key until it is answered.
//!
//! Promises: a refusal that a retry with the same key does not cure ends the test, with its words.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::service::Service;
use crate::harness::answer::Answer;
use crate::harness::client::{Client, Era, Reply};
use crate::harness::in_time;
use crate::harness::setup::token;
use crate::harness::upstream::Upstream;

/// How many there are of each kind.
const OF_A_KIND: usize = 3;

/// How long each call takes upstream: some run whenever a gate begins to drain.
const TAKES: Duration = Duration::from_millis(30);

/// Between two calls, and before a retry.
const PAUSE: Duration = Duration::from_millis(10);

/// How long an impatient client waits for its first answer: often too short, always longer than nothing.
const PATIENCE: Duration = Duration::from_millis(25);

/// What a client is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Modern,
    Kept,
    Plain,
    Impatient,
}

/// What became of one key.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// What the upstream said, without the marks of the gate.
    pub(super) answer: Value,
    /// What each try met.
    pub(super) met: Vec<String>,
    /// How many tries got no answer: the gate was gone, or the client went.
    pub(super) lost: usize,
    /// Whether it was a plain request.
    pub(super) plain: bool,
}

/// Clients at work.
pub(super) struct Clients {
    working: Vec<JoinHandle<Vec<(String, Story)>>>,
    answered: watch::Receiver<usize>,
    ended: CancellationToken,
}

impl Clients {
    /// Sets them to work.
    pub(super) fn start(service: &Service, upstream: &Arc<Upstream>) -> Self {
        let (count, answered) = watch::channel(0);
        let (count, ended) = (Arc::new(count), CancellationToken::new());
        let kinds = [Kind::Modern, Kind::Kept, Kind::Plain, Kind::Impatient];
        let work = |(number, kind): (usize, Kind)| {
            let mut one = One { kind, service: service.clone(), token: token(), kept: HashMap::new() };
            let (upstream, count, ended) = (Arc::clone(upstream), Arc::clone(&count), ended.clone());
            tokio::spawn(async move {
                let mut stories = Vec::new();
                while !ended.is_cancelled() {
                    let key = format!("{kind:?}-{number}-{}", stories.len());
                    upstream.script(&key, [answer_to(&key, kind).after(TAKES)]);
                    let story = in_time(&format!("an answer to {key}"), one.call(&key)).await;
                    stories.push((key, story));
                    count.send_modify(|count| *count += 1);
                    tokio::time::sleep(PAUSE).await;
                }
                stories
            })
        };
        let all = (0..OF_A_KIND).flat_map(|number| kinds.map(|kind| (number, kind)));
        Self { working: all.map(work).collect(), answered, ended }
    }

    /// Waits until so many further calls were answered.
    pub(super) async fn answered(&mut self, more: usize) {
        let enough = *self.answered.borrow_and_update() + more;
        let answered = self.answered.wait_for(|count| *count >= enough);
        in_time(&format!("{more} further answers"), answered).await.expect("the clients work on");
    }

    /// Has them end with the call that each is at, and tells what became of each key.
    pub(super) async fn end(self) -> BTreeMap<String, Story> {
        self.ended.cancel();
        let mut stories = BTreeMap::new();
        for client in self.working {
            stories.extend(client.await.expect("no client gives up"));
        }
        stories
    }
}

/// An answer that only this key gets: a replay of another's would be seen.
fn answer_to(key: &str, kind: Kind) -> Answer {
    let told = json!({ "of": key });
    if kind == Kind::Plain {
        Answer::http(200, "application/json", &told.to_string())
    } else {
        Answer::tool("refunded", &told)
    }
}

struct One {
    kind: Kind,
    service: Service,
    token: String,
    kept: HashMap<SocketAddr, TcpStream>,
}

impl One {
    /// Sends a call until it is answered.
    async fn call(&mut self, key: &str) -> Story {
        let mut story = Story { plain: self.kind == Kind::Plain, ..Story::default() };
        loop {
            let impatient = self.kind == Kind::Impatient && story.lost == 0;
            let reply = if impatient {
                tokio::time::timeout(PATIENCE, self.try_once(key)).await.unwrap_or_default()
            } else {
                self.try_once(key).await
            };
            let Some(reply) = reply else {
                story.lost += 1;
                continue;
            };
            let met = met(&reply, story.plain);
            story.met.push(met.clone());
            match met.as_str() {
                "first" | "replay" => {
                    story.answer = told(&reply, story.plain);
                    return story;
                }
                "overloaded" => self.service.refuses(),
                "request_in_flight" => {}
                other => panic!("{key} met {other}: {}", reply.json()),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_once(&mut self, key: &str) -> Option<Reply> {
        let address = self.service.next();
        let era = if self.kind == Kind::Kept { Era::Legacy } else { Era::Modern };
        let client = Client::new(address, era).bearing(&self.token);
        match self.kind {
            Kind::Modern | Kind::Impatient => refund(&client, key).try_send().await,
            Kind::Plain => {
                let ask = client.plain(&format!("POST /api/orders/{key}/refunds"));
                ask.json(&json!({ "amount": 5 })).header("Idempotency-Key", key).try_send().await
            }
            Kind::Kept => {
                let socket = match self.kept.remove(&address) {
                    Some(socket) => socket,
                    None => TcpStream::connect(address).await.ok()?,
                };
                let (reply, kept) = refund(&client, key).try_send_on(socket).await?;
                self.kept.extend(kept.map(|socket| (address, socket)));
                Some(reply)
            }
        }
    }
}

fn refund(client: &Client, key: &str) -> crate::harness::client::Ask {
    client.tool("refund_order", &json!({ "order_id": key })).key(key)
}

/// What a reply says of its call, in one word.
pub(super) fn met(reply: &Reply, plain: bool) -> String {
    if !plain {
        return reply.met();
    }
    let code = reply.json()["code"].as_str().map(str::to_owned);
    let replayed = reply.http.header("idempotent-replayed") == Some("true");
    code.unwrap_or_else(|| if replayed { "replay".to_owned() } else { "first".to_owned() })
}

/// What the upstream said.
pub(super) fn told(reply: &Reply, plain: bool) -> Value {
    if plain { reply.json() } else { reply.result()["structuredContent"].clone() }
}

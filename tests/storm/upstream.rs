//! The upstream: an MCP server that does everything an upstream can do to a gate.
//!
//! Promises: what it did stands in the history before anybody hears of it, and is the truth; it honours the forwarded
//! key where its tool says so. A crash of it ends connections and forgets nothing.

mod answer;
mod whim;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use self::answer::Asked;
use self::whim::{Says, Whim};
use crate::Fallible;
use crate::call::sent_at;
use crate::history::{Deed, History};
use crate::http::{Message, Reader};
use crate::intents::{ASKED_ABOUT, QUESTION, is_idempotent, is_read};

/// Within what time of its call something is shipped, or never: an app that says that it did not run a call must not run
/// it later, and an attempt's time is not over before this.
const IN_TIME: Duration = Duration::from_millis(1900);

/// The upstream; it listens, or is down.
pub(crate) struct Upstream {
    address: SocketAddr,
    app: Arc<App>,
    listening: Mutex<Option<JoinHandle<()>>>,
}

/// What outlives its crashes.
struct App {
    history: Arc<History>,
    whims: Mutex<Rng>,
    calm: AtomicBool,
    runs: AtomicU64,
    /// What the forwarded keys of idempotent tools ran as, and for which order.
    kept: Mutex<HashMap<String, (String, String)>>,
    /// What a tenant's keys ran as, where the gate may ask about them.
    shipped: Mutex<HashMap<(String, String), String>>,
}

impl Upstream {
    /// One that listens.
    pub(crate) async fn start(history: Arc<History>, rng: Rng) -> Fallible<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let app = Arc::new(App {
            history,
            whims: Mutex::new(rng),
            calm: AtomicBool::new(false),
            runs: AtomicU64::new(0),
            kept: Mutex::default(),
            shipped: Mutex::default(),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&app)));
        Ok(Self { address, app, listening: Mutex::new(Some(listening)) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, with everything that it was about to do.
    pub(crate) async fn crash(&self) {
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listening) = listening {
            listening.abort();
            drop(listening.await);
        }
    }

    /// Starts it again.
    pub(crate) async fn recover(&self) -> Fallible<()> {
        let listener = TcpListener::bind(self.address).await?;
        let listening = tokio::spawn(listen(listener, Arc::clone(&self.app)));
        self.listening.lock().unwrap_or_else(PoisonError::into_inner).replace(listening);
        Ok(())
    }

    /// From here on it answers, and at once.
    pub(crate) fn calm_down(&self) {
        self.app.calm.store(true, Ordering::SeqCst);
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listening) = listening {
            listening.abort();
        }
    }
}

async fn listen(listener: TcpListener, app: Arc<App>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                connections.spawn(serve(socket, Arc::clone(&app)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves a connection until a whim or its client ends it.
async fn serve(mut socket: TcpStream, app: Arc<App>) {
    let mut reader = Reader::new();
    while let Some(request) = reader.next(&mut socket).await.filter(|request| request.whole) {
        match app.answer(&request).await {
            Some(bytes) if socket.write_all(&bytes.text).await.is_ok() && !bytes.ends => {}
            Some(bytes) => {
                if bytes.resets {
                    drop(socket.set_zero_linger());
                }
                return;
            }
            None => {
                drop(socket.set_zero_linger());
                return;
            }
        }
    }
}

impl App {
    /// Lives a whim out; what comes of it is to be written, or the connection to be reset.
    async fn answer(&self, request: &Message) -> Option<answer::Bytes> {
        if let Some(greeting) = answer::greeting(request) {
            return Some(greeting);
        }
        let asked = Asked::read(request)?;
        let whim = if self.calm.load(Ordering::SeqCst) { Whim::CALM } else { self.draw(&asked) };
        sleep(whim.before).await;
        let run = self.decide(&asked, &whim);
        let found = self.find(&asked);
        sleep(whim.after).await;
        if whim.says == Says::Hang {
            std::future::pending::<()>().await;
        }
        if asked.tool == QUESTION {
            return answer::found(&asked, found.as_deref(), whim.says);
        }
        answer::bytes(&asked, &run, whim.says)
    }

    fn draw(&self, asked: &Asked) -> Whim {
        let mut rng = self.whims.lock().unwrap_or_else(PoisonError::into_inner);
        Whim::draw(&mut rng, &asked.tool)
    }

    /// Does it, or does not, and writes that down. Returns the run that an answer names.
    fn decide(&self, asked: &Asked, whim: &Whim) -> String {
        let run = format!("run-{}", self.runs.fetch_add(1, Ordering::SeqCst));
        let late = self.history.now().saturating_sub(sent_at(&asked.trace)) > IN_TIME;
        let may = whim.effect && !is_read(&asked.tool) && !(asked.tool == ASKED_ABOUT && late);
        let honoured = asked.forwarded.clone().filter(|_| is_idempotent(&asked.tool));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = honoured.as_ref().and_then(|key| kept.get(key)).cloned();
        let (run, effect) = match (first, honoured) {
            // It knows the key: it gives its first answer, whatever it was about to do.
            (Some((first, order)), _) if order == asked.order => (first, false),
            (None, Some(key)) if may => {
                kept.insert(key, (run.clone(), asked.order.clone()));
                (run, true)
            }
            _ => (run, may),
        };
        if effect && asked.tool == ASKED_ABOUT {
            let name = (asked.tenant.clone(), asked.forwarded.clone().unwrap_or_default());
            self.shipped().insert(name, run.clone());
        }
        self.history.open().deeds.push(Deed {
            at: self.history.now(),
            trace: asked.trace.clone(),
            tenant: asked.tenant.clone(),
            user: asked.user.clone(),
            tool: asked.tool.clone(),
            forwarded: asked.forwarded.clone(),
            order: asked.order.clone(),
            run: run.clone(),
            effect,
            did: whim.name,
        });
        run
    }
}

impl App {
    /// What the call that is asked about ran as, if it did.
    fn find(&self, asked: &Asked) -> Option<String> {
        self.shipped().get(&(asked.tenant.clone(), asked.key.clone())).cloned()
    }

    fn shipped(&self) -> MutexGuard<'_, HashMap<(String, String), String>> {
        self.shipped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A member of a JSON value, as text.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

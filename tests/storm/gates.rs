//! The gates: processes of the built `oncegate`, each behind links that can be broken.
//!
//! Promises: all of them have one configuration but for their addresses; a gate that was killed comes back where it
//! was; a gate that ends by itself is noticed, and started again.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::Fallible;
use crate::ground::{Ground, signal};
use crate::history::{Death, History, How};
use crate::options::Plan;
use crate::proxy::Link;

/// Whom tokens are from.
pub(crate) const ISSUER: &str = "https://id.example.com";

/// Whom they are for.
pub(crate) const AUDIENCE: &str = "https://api.example.com/mcp";

/// What they are signed with.
pub(crate) const JWT_SECRET: &str = "a-secret-of-the-storm-that-is-long-enough";

/// How long a gate may take to be ready once everything around it is well.
const READY: Duration = Duration::from_secs(30);

/// How long a gate may take to stop.
const STOPPING: Duration = Duration::from_secs(20);

/// One gate.
pub(crate) struct Gate {
    pub(crate) number: usize,
    /// From clients to it.
    pub(crate) front: Link,
    /// From it to the upstream.
    pub(crate) back: Link,
    /// From it to Postgres.
    pub(crate) to_store: Option<Link>,
    /// Held by whoever does something to its process.
    pub(crate) process: Mutex<Process>,
}

/// A gate's process.
pub(crate) struct Process {
    number: usize,
    binary: std::path::PathBuf,
    health: SocketAddr,
    ground: Arc<Ground>,
    history: Arc<History>,
    child: Option<Child>,
}

/// What a gate is put up with.
pub(crate) struct Site<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) ground: &'a Arc<Ground>,
    pub(crate) history: &'a Arc<History>,
    pub(crate) upstream: SocketAddr,
    /// The cluster, if there is one.
    pub(crate) postgres: Option<SocketAddr>,
}

impl Gate {
    /// Puts a gate up; it is not started.
    pub(crate) async fn put_up(site: &Site<'_>, number: usize) -> Fallible<Self> {
        let (listen, health, admin) = (free_port()?, free_port()?, free_port()?);
        let back = Link::to(site.upstream).await?;
        let to_store = match site.postgres {
            Some(cluster) => Some(Link::to(cluster).await?),
            None => None,
        };
        let store = match &to_store {
            Some(link) => format!("postgres://postgres@{}/postgres?connect_timeout=1", link.address()),
            None => format!("sqlite:{}", site.ground.path("disk/oncegate.db").display()),
        };
        let ground = site.ground;
        let (secret, jwt, policies) = (ground.path("secret"), ground.path("jwt"), ground.path("policies"));
        let (secret, jwt, policies) = (secret.display(), jwt.display(), policies.display());
        let text = format!(
            r#"
service = "storm"
secret_file = "{secret}"
listen = "{listen}"
health_listen = "{health}"
admin_listen = "{admin}"
admin_token_file = "{secret}"
public_url = "{AUDIENCE}"
[upstream]
url = "http://{upstream}"
timeout = "2s"
connect_timeout = "1s"
[auth]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
hs256_secret_file = "{jwt}"
max_session_age = "24h"
[store]
url = "{store}"
connections = 3
[audit]
spool_file = "{spool}"
when_store_down = "spool"
[policy]
dir = "{policies}"
"#,
            spool = ground.path(&format!("spool-{number}")).display(),
            upstream = back.address(),
        );
        fs::write(ground.path(&format!("gate-{number}.toml")), text)?;
        let process = Process {
            number,
            binary: fs::canonicalize(&site.plan.gate).map_err(|fault| {
                format!("{}: {fault}; cargo build --bin oncegate", site.plan.gate.display())
            })?,
            health,
            ground: Arc::clone(ground),
            history: Arc::clone(site.history),
            child: None,
        };
        Ok(Self { number, front: Link::to(listen).await?, back, to_store, process: Mutex::new(process) })
    }

    /// Its process, where nobody else is busy with it.
    pub(crate) fn spare(&self) -> Option<MutexGuard<'_, Process>> {
        self.process.try_lock().ok()
    }
}

impl Process {
    /// Runs a command of the gate's to its end.
    pub(crate) async fn run(&self, command: &str) -> Fallible<()> {
        let ended = self.command(command).stdin(Stdio::null()).output().await?;
        let told = String::from_utf8_lossy(&ended.stderr);
        if ended.status.success() { Ok(()) } else { Err(format!("oncegate {command}: {told}").into()) }
    }

    /// Starts it.
    pub(crate) fn start(&mut self) -> Fallible<()> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = self.command("serve");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let child = command.spawn()?;
        self.ground.started(&self.name(), child.id().unwrap_or_default())?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until it is ready. Where it ends meanwhile, as it does on a full disk, it is started again.
    pub(crate) async fn ready(&mut self) -> Fallible<()> {
        let until = Instant::now() + READY;
        while Instant::now() < until {
            if self.pid().is_none() {
                self.start()?;
            }
            if timeout(Duration::from_secs(1), says_ready(self.health)).await == Ok(Some(())) {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(12).collect();
        Err(format!("gate {} is not ready; its last lines, newest first:\n{}", self.number, lines.join("\n"))
            .into())
    }

    /// Kills it.
    pub(crate) async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill().await);
            self.died(How::Killed);
        }
    }

    /// Asks it to stop, and waits; whoever takes too long is killed.
    pub(crate) async fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        signal(child.id().unwrap_or_default(), Signal::TERM);
        let ended = timeout(STOPPING, child.wait()).await;
        if ended.is_err() {
            drop(child.kill().await);
        }
        let orderly = ended.is_ok_and(|ended| ended.is_ok_and(|status| status.success()));
        self.died(if orderly { How::Stopped } else { How::Killed });
    }

    /// Takes it out of service. Where it says that nothing runs in it any more it is believed, and killed; else it is
    /// asked to stop.
    pub(crate) async fn drain(&mut self) {
        let mut command = self.command("drain");
        command.args(["--settle", "300ms", "--wait", "8s"]).stdin(Stdio::null()).kill_on_drop(true);
        match (command.output().await, self.child.take()) {
            (Ok(told), Some(mut child)) if told.status.success() => {
                drop(child.kill().await);
                self.died(How::Drained);
            }
            (_, child) => {
                self.child = child;
                self.stop().await;
            }
        }
    }

    /// Lets it stand still for a while.
    pub(crate) async fn freeze(&self, time: Duration) -> Fallible<()> {
        let Some(pid) = self.child.as_ref().and_then(Child::id) else { return Ok(()) };
        self.ground.stop(&self.name(), &[pid])?;
        sleep(time).await;
        self.ground.go_on(&self.name(), &[pid]);
        Ok(())
    }

    /// Its process id while it runs. That it has ended by itself is written down.
    pub(crate) fn pid(&mut self) -> Option<u32> {
        let child = self.child.as_mut()?;
        if matches!(child.try_wait(), Ok(Some(_))) {
            self.child = None;
            self.died(How::Itself);
            return None;
        }
        child.id()
    }

    fn died(&self, how: How) {
        self.ground.ended(&self.name());
        let at = self.history.now();
        self.history.open().deaths.push(Death { gate: self.number, at, how });
    }

    fn command(&self, word: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg(word).arg("--config").arg(self.ground.path(&format!("gate-{}.toml", self.number)));
        command.env_clear().current_dir(self.ground.path("."));
        command
    }

    fn name(&self) -> String {
        format!("gate-{}", self.number)
    }

    fn log(&self) -> std::path::PathBuf {
        self.ground.path(&format!("gate-{}.log", self.number))
    }
}

async fn says_ready(health: SocketAddr) -> Option<()> {
    let mut socket = TcpStream::connect(health).await.ok()?;
    socket.write_all(b"GET /readyz HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut told = String::new();
    socket.read_to_string(&mut told).await.ok()?;
    told.starts_with("HTTP/1.1 200").then_some(())
}

/// Below those that the kernel hands out by itself, so that nobody's connection takes it while the gate is down.
fn free_port() -> Fallible<SocketAddr> {
    for _ in 0..100 {
        let address = SocketAddr::from(([127, 0, 0, 1], fastrand::u16(10_000..30_000)));
        if std::net::TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err("no free port".into())
}

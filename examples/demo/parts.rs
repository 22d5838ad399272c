//! What the demo runs: two servers, a folder for the gate, and the gate's command line.
//!
//! Promises: both servers answer when this value is there, and are gone with it; the folder is fresh, and its
//! secrets were made for it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::{Fallible, Options, agent};

const POLICY: &str = include_str!("../../policies/billing.toml");

/// How long a refund takes once the money has moved: long enough for impatience.
const REFUND_TAKES: &str = "400ms";

const PATIENCE: Duration = Duration::from_secs(20);

/// The running demo.
pub(crate) struct Parts {
    /// Where agents call.
    pub(crate) gate: SocketAddr,
    /// Where the billing server tells the truth.
    pub(crate) billing: SocketAddr,
    /// The gate's binary, as a user would call it from here.
    pub(crate) oncegate: PathBuf,
    /// The gate's configuration.
    pub(crate) config: PathBuf,
    gate_process: Child,
    billing_process: Child,
    _temporary: Option<TempDir>,
}

impl Parts {
    /// Starts both servers and waits until they answer.
    pub(crate) async fn start(options: &Options) -> Fallible<Self> {
        let oncegate = built("oncegate", "oncegate")?;
        let billing_binary = built("examples/billing", "billing")?;
        let [gate, health, billing] = addresses(options).await?;
        let temporary = options.oneshot.then(tempfile::tempdir).transpose()?;
        let folder = match &temporary {
            Some(folder) => folder.path().to_owned(),
            None => fresh_folder(&oncegate)?,
        };

        let (billing_process, billing) = start_billing(&billing_binary, billing).await?;
        let config = configure(&folder, gate, health, billing)?;
        let log = folder.join("gate.log");
        let gate_process = start_gate(&oncegate, &config, &log, health).await?;
        Ok(Self { gate, billing, oncegate, config, gate_process, billing_process, _temporary: temporary })
    }

    /// Runs a command of the gate and returns what it printed.
    pub(crate) async fn command(&self, arguments: &[&str]) -> Fallible<String> {
        let mut command = gate_command(&self.oncegate);
        let output = command.args(arguments).arg("--config").arg(&self.config).output().await?;
        if !output.status.success() {
            let complaints = String::from_utf8_lossy(&output.stderr);
            return Err(format!("oncegate {} failed: {complaints}", arguments.join(" ")).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A token for a user of `acme`, with these scopes.
    pub(crate) async fn token(&self, session: &str, scopes: &str) -> Fallible<String> {
        let actor = ["--tenant", "acme", "--user", "u1", "--session", session, "--scope", scopes];
        let printed = self.command(&[&["token"], actor.as_slice()].concat()).await?;
        Ok(printed.trim().to_owned())
    }

    /// The audit rows of a session, once there are as many as calls were sent: rows of reads may come late.
    pub(crate) async fn audit(&self, session: &str, calls: usize) -> Fallible<Vec<Value>> {
        let begun = Instant::now();
        loop {
            let printed = self.command(&["audit", "--session", session, "--json"]).await?;
            let rows: Vec<Value> = printed.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
            if rows.len() >= calls || begun.elapsed() > PATIENCE {
                return Ok(rows);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the billing server really did, in order.
    pub(crate) async fn effects(&self) -> Fallible<Vec<Value>> {
        let (_, _, body) = agent::get(self.billing, "/effects").await?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Returns when one of the servers has ended, which neither should.
    pub(crate) async fn stay(&mut self) -> Fallible<()> {
        let (name, status) = tokio::select! {
            status = self.gate_process.wait() => ("gate", status?),
            status = self.billing_process.wait() => ("billing server", status?),
        };
        Err(format!("the {name} has ended with {status}").into())
    }
}

/// A binary of this build: cargo puts examples in a folder beside the binaries.
fn built(path: &str, name: &str) -> Fallible<PathBuf> {
    let own = std::env::current_exe()?;
    let profile = own.parent().and_then(Path::parent).ok_or("the demo was moved out of its target folder")?;
    let path = profile.join(path);
    if !path.exists() {
        return Err(
            format!("{name} is not built; run `make demo`, or `cargo build --bins --examples`").into()
        );
    }
    Ok(shown(&path))
}

/// Gate, health, billing: those that were asked for, or free ones.
async fn addresses(options: &Options) -> Fallible<[SocketAddr; 3]> {
    let mut held = Vec::new();
    for (name, wanted) in [("gate", options.gate), ("health", options.health), ("billing", options.billing)] {
        let wanted = if options.oneshot { SocketAddr::new(wanted.ip(), 0) } else { wanted };
        let listener = TcpListener::bind(wanted).await.map_err(|fault| {
            format!(
                "{wanted} cannot be had ({fault}); stop what listens there, or choose another address: \
                 target/debug/examples/demo --{name} HOST:PORT"
            )
        })?;
        held.push(listener);
    }
    // Only now are they let go, so that no two are the same.
    match held.as_slice() {
        [gate, health, billing] => Ok([gate.local_addr()?, health.local_addr()?, billing.local_addr()?]),
        _ => Err("three addresses were asked for".into()),
    }
}

/// `demo` in the target folder, emptied: it can be looked at while the demo stays up.
fn fresh_folder(oncegate: &Path) -> Fallible<PathBuf> {
    let target = oncegate.parent().and_then(Path::parent).ok_or("the binary has no target folder")?;
    let folder = target.join("demo");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    Ok(folder)
}

async fn start_billing(binary: &Path, listen: SocketAddr) -> Fallible<(Child, SocketAddr)> {
    let mut process = Command::new(binary)
        .args(["--listen", &listen.to_string(), "--refund-takes", REFUND_TAKES])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = process.stdout.take().ok_or("the billing server has no output")?;
    let line = BufReader::new(output).lines().next_line().await?;
    let line = line.ok_or("the billing server ended before it listened")?;
    let address =
        line.strip_prefix("billing listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
    let address = address.ok_or_else(|| format!("the billing server said {line:?}"))?.parse()?;
    Ok((process, address))
}

/// Writes what the gate reads: two secrets, the shipped billing policy, a configuration.
fn configure(folder: &Path, gate: SocketAddr, health: SocketAddr, billing: SocketAddr) -> Fallible<PathBuf> {
    let folder = folder.canonicalize()?;
    write_secret(&folder.join("secret"))?;
    write_secret(&folder.join("jwt"))?;
    fs::create_dir(folder.join("policies"))?;
    fs::write(folder.join("policies/billing.toml"), POLICY)?;
    let path = |name| folder.join(name).display().to_string();
    let (secret, jwt, policies, store) = (path("secret"), path("jwt"), path("policies"), path("oncegate.db"));
    let config = format!(
        r#"# Written by the demo.
service = "billing"
secret_file = "{secret}"
listen = "{gate}"
health_listen = "{health}"
public_url = "http://{gate}/mcp"

[upstream]
url = "http://{billing}"
mcp_path = "/mcp"
timeout = "30s"

[auth]
issuer = "http://demo.invalid"
audience = ["http://{gate}/mcp"]
authorization_servers = ["http://demo.invalid"]
hs256_secret_file = "{jwt}"
max_session_age = "12h"

[store]
url = "sqlite:{store}"

[policy]
dir = "{policies}"
"#
    );
    fs::write(folder.join("oncegate.toml"), config)?;
    Ok(shown(&folder.join("oncegate.toml")))
}

/// A path as it can be pasted, and is short, where the demo was started.
fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    path.strip_prefix(here).map_or(path.to_owned(), |rest| Path::new(".").join(rest))
}

/// Random, for the owner's eyes.
fn write_secret(path: &Path) -> Fallible<()> {
    let random = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    Ok(file.write_all(random.as_bytes())?)
}

/// The gate's binary, without what the shell may hold for another gate: the environment beats the file.
fn gate_command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ONCEGATE_") {
            command.env_remove(name);
        }
    }
    command
}

async fn start_gate(binary: &Path, config: &Path, log: &Path, health: SocketAddr) -> Fallible<Child> {
    let output = File::create(log)?;
    let mut process = gate_command(binary)
        .args(["serve", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()?;
    let begun = Instant::now();
    loop {
        if let Ok((status, _, _)) = agent::get(health, "/readyz").await
            && status == 200
        {
            return Ok(process);
        }
        let ended = process.try_wait()?;
        if ended.is_some() || begun.elapsed() > PATIENCE {
            let said = fs::read_to_string(log).unwrap_or_default();
            return Err(format!("the gate did not become ready ({ended:?}); it said:\n{said}").into());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

//! The real gate: the `oncegate` binary with a configuration of its own, its claims in a home of its own.
//!
//! Promises: a gate is ready when a test gets it, and is gone with its value; what it logged is shown where its test
//! fails; a second start finds the same configuration, ports and claims.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{Client, Era};
use super::eventually;
use super::postgres;
use super::setup::{Home, JWT_SECRET, Setup, claims_with, sign, token};

/// What operators' requests must carry.
pub(crate) const ADMIN_TOKEN: &str = "the-token-of-the-operators";

/// What requests of the service `worker` must carry.
pub(crate) const WORKER_TOKEN: &str = "the-token-of-the-workers-which-is-long";

/// What those of the service `other` must.
pub(crate) const OTHER_TOKEN: &str = "the-token-of-other-workers-as-long-as-it";

/// A gate, running or killed.
pub(crate) struct Gate {
    // Shared by the gates of one service, and gone with the last of them.
    folder: Arc<TempDir>,
    config: PathBuf,
    log: PathBuf,
    setup: Setup,
    address: SocketAddr,
    health: SocketAddr,
    admin: SocketAddr,
    /// Other tests leave these ports alone, while the gate is down too.
    _ports: [File; 3],
    process: Option<Child>,
}

impl Gate {
    /// A gate that is ready.
    pub(crate) async fn start(setup: Setup) -> Self {
        let url = match setup.home {
            Home::Sqlite => None,
            Home::Postgres => Some(postgres::database().await),
        };
        Self::start_on(setup, url).await
    }

    /// A gate whose setup says itself what tokens are checked with.
    pub(crate) async fn start_with_keys_of_its_own(setup: Setup) -> Self {
        Self::start_in(setup, None).await
    }

    /// A gate on this database.
    pub(crate) async fn start_on(setup: Setup, store_url: Option<String>) -> Self {
        Self::start_in(setup.set("auth.hs256_secret_file", "jwt"), store_url).await
    }

    async fn start_in(setup: Setup, store_url: Option<String>) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let file = folder.path().join("oncegate.db");
        let url = store_url.unwrap_or_else(|| format!("sqlite:{}", file.display()));
        fs::write(folder.path().join("secret"), "0123456789abcdef0123456789abcdef").expect("the secret");
        fs::write(folder.path().join("jwt"), JWT_SECRET).expect("the tokens' secret");
        fs::write(folder.path().join("admin"), ADMIN_TOKEN).expect("the operators' token");
        fs::write(folder.path().join("worker"), WORKER_TOKEN).expect("a service's token");
        fs::write(folder.path().join("other"), OTHER_TOKEN).expect("another service's token");
        fs::create_dir(folder.path().join("policies")).expect("the policies' folder");
        fs::write(folder.path().join("policies/tests.toml"), &setup.policy).expect("the policy");
        let setup = setup.set("store.url", url).set("secret_file", text(&folder.path().join("secret")));
        // Unless a test has a folder of its own for it.
        let own = setup.get("policy.dir") == "policies";
        let setup = if own { setup.set("policy.dir", text(&folder.path().join("policies"))) } else { setup };
        let mut gate = Self::in_folder(folder, "one", setup);
        if gate.setup.home == Home::Postgres {
            let migrated = gate.run(&["migrate"]).await;
            assert!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        }
        gate.restart().await;
        gate
    }

    /// Another gate of the same service, with the same secrets, policy and claims.
    pub(crate) async fn another(&self) -> Self {
        self.another_as("two").await
    }

    /// Another one under this name: its files are its own.
    pub(crate) async fn another_as(&self, name: &str) -> Self {
        let mut gate = Self::in_folder(self.folder.clone(), name, self.setup.clone());
        gate.restart().await;
        gate
    }

    /// Another one under this name, with a configuration changed by this.
    pub(crate) async fn another_with(&self, name: &str, change: impl FnOnce(Setup) -> Setup) -> Self {
        let mut gate = Self::in_folder(self.folder.clone(), name, change(self.setup.clone()));
        gate.restart().await;
        gate
    }

    /// From the next start on, and for commands from now on, it is this run's own build.
    pub(crate) fn upgrade(&mut self) {
        self.setup.program = None;
    }

    /// A folder of this name with a policy of its own: the gate's, with a text of it replaced.
    pub(crate) fn policy_folder(&self, name: &str, old: &str, new: &str) -> String {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).expect("a policy's folder");
        let policy = self.setup.clone().policy(old, new).policy;
        fs::write(folder.join("tests.toml"), policy).expect("the policy");
        text(&folder)
    }

    fn in_folder(folder: Arc<TempDir>, name: &str, setup: Setup) -> Self {
        let ((address, lock), (health, health_lock), (admin, admin_lock)) =
            (free_port(), free_port(), free_port());
        let setup = setup
            .set("listen", address.to_string())
            .set("health_listen", health.to_string())
            .set("admin_listen", admin.to_string());
        let config = folder.path().join(format!("{name}.toml"));
        fs::write(&config, setup.to_toml()).expect("the configuration");
        let log = folder.path().join(format!("{name}.log"));
        Self {
            folder,
            config,
            log,
            setup,
            address,
            health,
            admin,
            _ports: [lock, health_lock, admin_lock],
            process: None,
        }
    }

    /// Starts it where it is down, and waits until it is ready.
    pub(crate) async fn restart(&mut self) {
        assert!(self.process.is_none(), "the gate is running");
        let log = File::options().create(true).append(true).open(&self.log).expect("the log");
        let errors = log.try_clone().expect("the log once more");
        let mut command = self.command(&["serve"]);
        let process = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        self.process = Some(process.expect("the gate's binary"));
        let probe = Client::new(self.health, Era::Legacy).rpc("", &json!({})).line("GET /readyz");
        eventually("the gate to be ready", async || {
            let process = self.process.as_mut().expect("it was just started");
            if let Some(status) = process.try_wait().expect("its status") {
                panic!("the gate ended with {status}:\n{}", self.logged());
            }
            let reply = probe.clone().try_send().await?;
            (reply.status() == 200).then_some(())
        })
        .await;
    }

    /// Kills it as a machine does that loses power: no handler runs.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("the gate is running");
        process.kill().expect("it can be killed");
        process.wait().expect("it has ended");
    }

    /// Stops it in its tracks: it runs no further, and its connections stand.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it run on.
    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.process.as_ref().expect("the gate is running").id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
    }

    /// Asks it to stop, waits until it has, and returns its exit code.
    pub(crate) async fn stop(&mut self) -> Option<i32> {
        self.signal("-TERM");
        self.ended().await
    }

    /// A file of the gate's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets a key of the configuration: a gate that runs reloads it.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.setup = self.setup.clone().set(key, value);
        fs::write(&self.config, self.setup.to_toml()).expect("the configuration");
    }

    /// The same with a value of any kind.
    pub(crate) fn set_value(&mut self, key: &str, value: toml::Value) {
        self.setup = self.setup.clone().set(key, value);
        fs::write(&self.config, self.setup.to_toml()).expect("the configuration");
    }

    /// Replaces a text of the policy: a gate that runs reloads it.
    pub(crate) fn set_policy(&mut self, old: &str, new: &str) {
        self.setup = self.setup.clone().policy(old, new);
        fs::write(self.folder.path().join("policies/tests.toml"), &self.setup.policy).expect("the policy");
    }

    /// A text of the configuration, named as in `store.url`.
    pub(crate) fn setting(&self, key: &str) -> String {
        self.setup.get(key)
    }

    /// From the next start on, its standard output and error take nothing.
    pub(crate) fn mute(&mut self) {
        self.log = PathBuf::from("/dev/full");
    }

    /// Where it takes calls.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where operators ask, if its setup says `admin_token_file = "admin"`.
    pub(crate) fn admin(&self) -> Client {
        Client::new(self.admin, Era::Legacy).bearing(ADMIN_TOKEN)
    }

    /// The same address, for whoever has no token.
    pub(crate) fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// What it says about its health.
    pub(crate) async fn healthy(&self, line: &str) -> u16 {
        Client::new(self.health, Era::Legacy).rpc("", &json!({})).line(line).send().await.status()
    }

    /// Waits until it has ended, and returns its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let mut process = self.process.take().expect("the gate is running");
        eventually("the gate to end", async || process.try_wait().expect("its status")).await.code()
    }

    /// The largest that it has been in memory, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// How much memory it takes, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    fn status(&self, line: &str) -> u64 {
        let pid = self.process.as_ref().expect("the gate is running").id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
        let value = status.lines().find_map(|one| one.strip_prefix(line)).expect("the line");
        value.trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
    }

    /// What it logged so far.
    pub(crate) fn logged(&self) -> String {
        // Devices can be read for ever.
        if self.log.is_file() { fs::read_to_string(&self.log).unwrap_or_default() } else { String::new() }
    }

    /// A client with a good token: user `u1` of `acme`, all scopes.
    pub(crate) fn client(&self, era: Era) -> Client {
        Client::new(self.address, era).bearing(&token())
    }

    /// A client whose token has some claims set; null takes one out.
    pub(crate) fn client_with(&self, era: Era, changes: &Value) -> Client {
        Client::new(self.address, era).bearing(&sign(&claims_with(changes)))
    }

    /// What it has counted, as Prometheus reads it.
    pub(crate) async fn scrape(&self) -> String {
        let ask = Client::new(self.health, Era::Legacy).rpc("", &json!({})).line("GET /metrics");
        let reply = ask.send().await;
        let kind = reply.http.header("content-type").unwrap_or_default().to_owned();
        assert!(reply.status() == 200 && kind.starts_with("text/plain; version=0.0.4"), "{reply:?}");
        String::from_utf8(reply.http.body.to_vec()).expect("UTF-8")
    }

    /// A count of its, by the name and labels that `/metrics` shows; nought where it was never raised.
    pub(crate) async fn count(&self, series: &str) -> u64 {
        let text = self.scrape().await;
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }

    /// Where its health is asked about.
    pub(crate) fn health_address(&self) -> SocketAddr {
        self.health
    }

    /// Its audit rows, oldest first, once there are at least `count`.
    pub(crate) async fn audit(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} audit rows"), async || {
            let rows = self.rows(&["audit", "--json", "--limit", "1000"]).await;
            (rows.len() >= count).then_some(rows)
        })
        .await
    }

    /// The claim with this key.
    pub(crate) async fn claim(&self, key: &str) -> Value {
        let mut claims = self.rows(&["claims", "list", "--key", key, "--json"]).await;
        assert_eq!(claims.len(), 1, "claims with the key {key}: {claims:?}");
        claims.remove(0)
    }

    /// Every claim.
    pub(crate) async fn claims(&self) -> Vec<Value> {
        self.rows(&["claims", "list", "--json", "--limit", "1000"]).await
    }

    async fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("it prints UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
    }

    /// Runs a command of the binary with the gate's configuration.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        // Not waited for in this thread: what the command talks to may run in it.
        let mut command = tokio::process::Command::from(self.command(arguments));
        command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the gate's binary")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let own = env!("CARGO_BIN_EXE_oncegate").as_ref();
        let mut command = without_settings(self.setup.program.as_deref().unwrap_or(own));
        command.args(arguments).arg("--config").arg(&self.config).current_dir(self.folder.path());
        command
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _gone_already = process.kill().is_err() || process.wait().is_err();
        }
        if std::thread::panicking() {
            eprintln!("--- what the gate at {} logged ---\n{}", self.address, self.logged());
        }
    }
}

/// The binary, in an environment without settings for it.
pub(crate) fn binary() -> Command {
    without_settings(env!("CARGO_BIN_EXE_oncegate").as_ref())
}

fn without_settings(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ONCEGATE_") {
            command.env_remove(name);
        }
    }
    command
}

fn text(path: &Path) -> String {
    path.to_str().expect("temporary folders have plain names").to_owned()
}

/// A port that nobody has and no other test takes while this one keeps the lock: below those that the kernel hands out
/// by itself, so that no outgoing connection takes it either.
pub(crate) fn free_port() -> (SocketAddr, File) {
    let folder = std::env::temp_dir().join("oncegate-test-ports");
    fs::create_dir_all(&folder).expect("a folder for the locks of ports");
    loop {
        let random = uuid::Uuid::new_v4().as_u128() % 20_000;
        let port = 10_000 + u16::try_from(random).expect("below 20000");
        let lock = File::create(folder.join(port.to_string())).expect("the lock of a port");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if lock.try_lock().is_ok() && TcpListener::bind(address).is_ok() {
            return (address, lock);
        }
    }
}

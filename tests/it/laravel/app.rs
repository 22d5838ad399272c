//! The example's Laravel app, with PHP running: its web server, and workers of its queue.
//!
//! Promises: an app listens when a test gets it; it and its workers are gone with their values, a worker by SIGKILL; what
//! they logged is shown where their test fails.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::harness::eventually;
use crate::harness::gate::free_port;
use crate::harness::redis::Redis;

/// Seconds after which the queue gives a job to the next worker. (Whole ones, and more than the tests' lease.)
const RETRY_AFTER: u32 = 3;

/// What the provider knows the app by.
pub(super) const PROVIDER_SECRET: &str = "sk_test_of_the_app";

/// The package's own folder.
pub(super) fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy/laravel")
}

/// A running app. Its gate may be started after it: only workers call that.
pub(super) struct App {
    address: SocketAddr,
    folder: TempDir,
    environment: Vec<(String, String)>,
    _port: File,
    web: Child,
    _redis: Redis,
}

impl App {
    /// An app with an empty queue.
    pub(super) async fn start() -> Self {
        let redis = Redis::start().await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inside = |name: &str| folder.path().join(name).to_str().expect("a plain name").to_owned();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment = vec![
            set("APP_STORAGE", &inside("")),
            set("APP_SERVICES_CACHE", &inside("services.php")),
            set("APP_PACKAGES_CACHE", &inside("packages.php")),
            set("REDIS_PORT", redis.url().rsplit(':').next().expect("a port")),
            set("QUEUE_RETRY_AFTER", &RETRY_AFTER.to_string()),
            set("GATE_JOBS_RETRY_AFTER", "1"),
            set("PROVIDER_SECRET", PROVIDER_SECRET),
        ];
        let (address, port) = free_port();
        let listen = address.to_string();
        let web = php(&environment, folder.path().join("web.log"), &["-S", &listen, "public/index.php"]);
        let mut app = Self { address, folder, environment, _port: port, web, _redis: redis };
        eventually("PHP to listen", async || {
            let ended = app.web.try_wait().expect("its status");
            assert!(ended.is_none(), "php -S ended with {ended:?}:\n{}", app.logged("web"));
            TcpStream::connect(address).await.ok()
        })
        .await;
        app
    }

    /// Tells its workers, from now on, where they claim jobs and call the provider, with the token in this file.
    pub(super) fn knows(&mut self, jobs: SocketAddr, egress: SocketAddr, token_file: &Path) {
        let token_file = token_file.to_str().expect("a plain name");
        for (name, value) in [
            ("GATE_JOBS_URL", format!("http://{jobs}").as_str()),
            ("GATE_JOBS_TOKEN_FILE", token_file),
            ("GATE_EGRESS_URL", format!("http://{egress}").as_str()),
            ("GATE_EGRESS_TOKEN_FILE", token_file),
        ] {
            self.environment.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A worker of its queue; its log has this name.
    pub(super) fn worker(&self, name: &str) -> Worker {
        let log = self.folder.path().join(format!("{name}.log"));
        let work = ["artisan", "queue:work", "--sleep=0.1"];
        Worker { process: php(&self.environment, log, &work) }
    }

    /// What a worker logged so far, or the web server.
    pub(super) fn logged(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Waits until a worker has logged this.
    pub(super) async fn says(&self, name: &str, text: &str) -> String {
        let begun = tokio::time::Instant::now();
        loop {
            let logged = self.logged(name);
            if let Some(line) = logged.lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            assert!(begun.elapsed() < Duration::from_secs(40), "{name} never logged {text:?}:\n{logged}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        end(&mut self.web);
        if std::thread::panicking() {
            for entry in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|end| end == "log") {
                    let log = fs::read_to_string(entry.path()).unwrap_or_default();
                    eprintln!("--- {} ---\n{log}", entry.path().display());
                }
            }
        }
    }
}

/// A worker of the queue.
pub(super) struct Worker {
    process: Child,
}

impl Worker {
    /// SIGKILL: no handler runs, nothing is told to anybody.
    pub(super) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it has ended");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn php(environment: &[(String, String)], log: PathBuf, arguments: &[&str]) -> Child {
    let log = File::create(log).expect("a log");
    let errors = log.try_clone().expect("the log once more");
    let mut command = Command::new("php");
    command.args(arguments).current_dir(package().join("example"));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let process = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
    process.expect("php (`tests/parts` installs it)")
}

fn end(process: &mut Child) {
    let _gone_already = process.kill().is_err() || process.wait().is_err();
}

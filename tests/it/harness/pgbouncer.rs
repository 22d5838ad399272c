//! A PgBouncer of a test's own, in transaction mode, to be killed.
//!
//! Promises: it listens on 127.0.0.1, has fewer connections to its server than come to it, and is gone with its value;
//! a second start finds the same port and server; what it logged is shown where its test fails.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_postgres::Config;

use super::cluster::{give, is_root};
use super::gate::free_port;
use super::{eventually, postgres};

/// A PgBouncer, running or killed.
pub(crate) struct PgBouncer {
    folder: TempDir,
    address: SocketAddr,
    /// Other tests leave the port alone, while it is down too.
    _lock: File,
    process: Option<Child>,
}

impl PgBouncer {
    /// One before the run's cluster.
    pub(crate) async fn start() -> Self {
        Self::before(&postgres::cluster(), postgres::address()).await
    }

    /// One before this server, for the user of its URL.
    pub(crate) async fn before(url: &str, server: SocketAddr) -> Self {
        let folder = tempfile::Builder::new().prefix("oncegate-pgbouncer").tempdir().expect("a folder");
        let (address, lock) = free_port();
        let config: Config = url.parse().expect("the server's URL");
        let password = String::from_utf8_lossy(config.get_password().unwrap_or_default()).into_owned();
        let user = config.get_user().expect("a URL with a user");
        fs::write(folder.path().join("users"), format!("\"{user}\" \"{password}\"\n")).expect("its users");
        let settings = format!(
            "[databases]
            * = host={} port={}
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {}
            unix_socket_dir =
            logfile = {}
            auth_type = trust
            auth_file = {}
            pool_mode = transaction
            default_pool_size = 2
            server_login_retry = 1
            ",
            server.ip(),
            server.port(),
            address.port(),
            log(folder.path()).display(),
            folder.path().join("users").display(),
        );
        // It takes no line that begins with a blank.
        let settings: Vec<_> = settings.lines().map(str::trim_start).collect();
        fs::write(folder.path().join("pgbouncer.ini"), settings.join("\n")).expect("its settings");
        give(folder.path());
        let mut pooler = Self { folder, address, _lock: lock, process: None };
        pooler.restart().await;
        pooler
    }

    /// This database, through it.
    pub(crate) fn url(&self, database: &str) -> String {
        let (credentials, rest) = database.split_once('@').expect("a URL with a user");
        let (_server, name) = rest.split_once('/').expect("a URL with a database");
        format!("{credentials}@{}/{name}", self.address)
    }

    /// Starts it where it is down.
    pub(crate) async fn restart(&mut self) {
        assert!(self.process.is_none(), "PgBouncer is running");
        let mut command = Command::new(binary());
        if is_root() {
            command.args(["-u", "postgres"]);
        }
        command.arg("-q").arg(self.folder.path().join("pgbouncer.ini")).current_dir("/");
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.expect("pgbouncer (`tests/parts` installs it, or `apt-get install pgbouncer`)");
        let process = self.process.insert(process);
        eventually("PgBouncer to listen", async || {
            if let Some(status) = process.try_wait().expect("its status") {
                panic!("PgBouncer ended with {status}");
            }
            TcpStream::connect(self.address).await.ok()
        })
        .await;
    }

    /// Kills it: its clients and its server see their connections break.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("PgBouncer is running");
        process.kill().expect("it can be killed");
        process.wait().expect("it has ended");
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _gone_already = process.kill().is_err() || process.wait().is_err();
        }
        if std::thread::panicking() {
            let logged = fs::read_to_string(log(self.folder.path())).unwrap_or_default();
            eprintln!("--- what the PgBouncer at {} logged ---\n{logged}", self.address);
        }
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

/// Debian has it where only root looks.
fn binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join("pgbouncer")).find(|file| file.is_file());
    found.unwrap_or_else(|| PathBuf::from("pgbouncer"))
}

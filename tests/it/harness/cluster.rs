//! A PostgreSQL cluster of a test's own: to be killed, or to be set up otherwise than the run's.
//!
//! Promises: it listens on 127.0.0.1, keeps its data on disk (fsync on), and is gone when its value is dropped or the
//! test's process ends, however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A running cluster.
pub(crate) struct Cluster {
    folder: TempDir,
    port: u16,
    /// Waits for our end of its pipe to close, then stops the cluster.
    watch: Option<Child>,
}

/// A server's certificate, and the authority it is from, in PEM.
pub(crate) struct Certificate<'a> {
    pub(crate) chain: &'a str,
    pub(crate) key: &'a str,
}

impl Cluster {
    /// A new cluster. With a certificate it speaks TLS, and nothing else.
    pub(crate) fn start(certificate: Option<&Certificate<'_>>) -> Self {
        let folder = tempfile::Builder::new().prefix("oncegate-cluster").tempdir().expect("a folder");
        give(folder.path());
        let data = folder.path().join("data");
        run(as_postgres("initdb")
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])
            .arg("-D")
            .arg(&data));
        let sockets = folder.path().display();
        let mut settings = format!("listen_addresses = '127.0.0.1'\nunix_socket_directories = '{sockets}'\n");
        if let Some(certificate) = certificate {
            for (name, pem) in [("server.crt", certificate.chain), ("server.key", certificate.key)] {
                let file = data.join(name);
                fs::write(&file, pem).expect("a file in the cluster's folder");
                give(&file);
            }
            settings += "ssl = on\n";
            fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust\nlocal all all trust\n")
                .expect("the cluster's own rules");
        }
        let mut whole = fs::read_to_string(data.join("postgresql.conf")).expect("initdb wrote it");
        whole += &settings;
        fs::write(data.join("postgresql.conf"), whole).expect("the cluster's own settings");
        let watch = watch(folder.path(), &data);
        let mut cluster = Self { folder, port: 0, watch: Some(watch) };
        // Somebody else may take a free port first.
        let started = (0..5).any(|_| {
            cluster.port = free_port();
            cluster.control(&["start", "-w", "-s"])
        });
        assert!(started, "no start: {}", fs::read_to_string(cluster.log()).unwrap_or_default());
        cluster
    }

    /// The URL of its only database, by this name of the host.
    pub(crate) fn url(&self, host: &str) -> String {
        format!("postgres://postgres@{host}:{}/postgres", self.port)
    }

    /// Takes it down as a crash does: nothing is finished, nothing is flushed.
    pub(crate) fn crash(&self) {
        assert!(self.control(&["stop", "-m", "immediate", "-w", "-s"]), "it was running");
    }

    /// Starts it again after a crash, on the same port.
    pub(crate) fn recover(&self) {
        assert!(
            self.control(&["start", "-w", "-s"]),
            "no start: {}",
            fs::read_to_string(self.log()).unwrap_or_default()
        );
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("data/server.log")
    }

    fn control(&self, command: &[&str]) -> bool {
        let mut control = as_postgres("pg_ctl");
        control.arg("-D").arg(self.folder.path().join("data")).arg("-l").arg(self.log());
        control.arg("-o").arg(format!("-p {}", self.port)).args(command);
        // The server inherits what it is given: a pipe of ours would stay open as long as it lives.
        let quiet = control.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().expect("pg_ctl runs").success()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            drop(watch.stdin.take());
            let ended = watch.wait().is_ok_and(|status| status.success());
            assert!(ended || std::thread::panicking(), "the cluster did not stop");
        }
    }
}

fn watch(folder: &Path, data: &Path) -> Child {
    let stop =
        r#"trap '' HUP INT TERM; cat >/dev/null; "$1" -D "$2" -m immediate -s stop 2>/dev/null; rm -rf "$3""#;
    let mut watch = if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    watch.args(["-c", stop, "sh"]).arg(binary("pg_ctl")).arg(data).arg(folder);
    watch.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a shell")
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// PostgreSQL refuses to run as root, and so does whatever stands before it.
pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.starts_with(b"0")
}

fn as_postgres(name: &str) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(binary(name));
        command
    } else {
        Command::new(binary(name))
    };
    command.current_dir("/");
    command
}

/// Makes it the server's, where we are root.
pub(crate) fn give(path: &Path) {
    if is_root() {
        run(Command::new("chown").arg("-R").arg("postgres").arg(path));
        run(Command::new("chmod").arg("-R").arg("go=").arg(path));
    }
}

fn run(command: &mut Command) {
    let ended = command.output().expect("it runs");
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// The newest PostgreSQL of the machine.
fn binary(name: &str) -> PathBuf {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = installed.map(|entry| entry.path().join("bin")).collect();
    folders.sort_by_key(|folder| version_of(folder));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let everywhere = folders.into_iter().rev().chain(std::env::split_paths(&path));
    everywhere.map(|folder| folder.join(name)).find(|file| file.is_file()).unwrap_or_else(|| {
        panic!(
            "no {name} here. `tests/with-postgres` installs PostgreSQL; so does apt-get install postgresql."
        )
    })
}

fn version_of(folder: &Path) -> u32 {
    let name = folder.parent().and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().parse().unwrap_or(0)
}

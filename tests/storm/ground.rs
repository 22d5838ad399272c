//! The ground that a storm stands on: its folder, and whoever clears it away.
//!
//! Promises: however this process ends, what was started and written down here is killed, unmounted and deleted by a
//! shell that only waits for that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::Fallible;

/// Kills what `pids/` names (waking first whom `stopped` names, for a stopped database cannot be told to end), then
/// clears the folder.
const SWEEP: &str = r#"
trap '' HUP INT TERM
cat >/dev/null
cd /
for file in "$1"/stopped/*; do [ -s "$file" ] && kill -CONT $(cat "$file") 2>/dev/null; done
for file in "$1"/pids/*; do [ -s "$file" ] && kill -KILL $(cat "$file") 2>/dev/null; done
umount -l "$1/disk" 2>/dev/null
rm -rf "$1"
"#;

/// A folder that is gone with its value.
pub(crate) struct Ground {
    folder: PathBuf,
    sweep: Option<Child>,
}

impl Ground {
    /// A new one.
    pub(crate) fn lay() -> Fallible<Self> {
        let folder = tempfile::Builder::new().prefix("oncegate-storm").tempdir()?.keep();
        for inner in ["pids", "stopped", "disk", "policies"] {
            fs::create_dir(folder.join(inner))?;
        }
        let sweep = Command::new("sh")
            .args(["-c", SWEEP, "sh"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { folder, sweep: Some(sweep) })
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes down who must not outlive us.
    pub(crate) fn started(&self, name: &str, pid: u32) -> Fallible<()> {
        Ok(fs::write(self.folder.join("pids").join(name), pid.to_string())?)
    }

    /// He has ended.
    pub(crate) fn ended(&self, name: &str) {
        // Without the file there is nobody to kill.
        drop(fs::remove_file(self.folder.join("pids").join(name)));
    }

    /// Stops processes where they stand, after writing that down.
    pub(crate) fn stop(&self, name: &str, pids: &[u32]) -> Fallible<()> {
        let listed: Vec<_> = pids.iter().map(u32::to_string).collect();
        fs::write(self.folder.join("stopped").join(name), listed.join(" "))?;
        for pid in pids {
            signal(*pid, Signal::STOP);
        }
        Ok(())
    }

    /// Lets everybody go on whom somebody stopped who is not there any more.
    pub(crate) fn wake_all(&self) {
        for file in fs::read_dir(self.folder.join("stopped")).into_iter().flatten().flatten() {
            let listed = fs::read_to_string(file.path()).unwrap_or_default();
            let pids: Vec<u32> = listed.split(' ').filter_map(|pid| pid.parse().ok()).collect();
            self.go_on(&file.file_name().to_string_lossy(), &pids);
        }
    }

    /// Lets them go on.
    pub(crate) fn go_on(&self, name: &str, pids: &[u32]) {
        for pid in pids {
            signal(*pid, Signal::CONT);
        }
        drop(fs::remove_file(self.folder.join("stopped").join(name)));
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(mut sweep) = self.sweep.take() {
            drop(sweep.stdin.take());
            drop(sweep.wait());
        }
    }
}

/// Signals a process that may have ended meanwhile.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone_already = kill_process(pid, signal).is_err();
    }
}

/// A process and its children.
pub(crate) fn family(of: u32) -> Vec<u32> {
    let parent = |folder: &Path| {
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let children = processes.filter(|entry| parent(&entry.path()) == Some(of));
    let pids = children.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    std::iter::once(of).chain(pids).collect()
}

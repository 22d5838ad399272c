//! A disk that can be full: a tmpfs, made as small as what is on it.
//!
//! Promises: whoever may not mount one is told so, and nothing is skipped in silence. Absent on purpose: durability; what is
//! tried on it is a process that dies, not a machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Fallible;

/// How large it is while it is not full. It takes memory only for what is on it.
const WIDE: &str = "size=2g";

/// How often its size is set anew, because somebody wrote meanwhile.
const TRIES: usize = 20;

/// A disk.
#[derive(Clone, Debug)]
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Makes this folder one, if the machine lets us.
    pub(crate) fn mount(folder: &Path) -> Option<Self> {
        let disk = Self(folder.to_owned());
        disk.set(&["-t", "tmpfs", "-o", WIDE, "oncegate-storm"]).then_some(disk)
    }

    /// Leaves no room on it.
    pub(crate) fn fill(&self) -> Fallible<()> {
        for _ in 0..TRIES {
            let told = Command::new("df").args(["--output=used", "-k"]).arg(&self.0).output()?;
            let told = String::from_utf8(told.stdout)?;
            let used: u64 = told.lines().last().unwrap_or_default().trim().parse()?;
            if self.set(&["-o", &format!("remount,size={used}k")]) {
                return Ok(());
            }
        }
        Err("the disk did not become full".into())
    }

    /// Makes room again.
    pub(crate) fn widen(&self) -> Fallible<()> {
        let set = self.set(&["-o", &format!("remount,{WIDE}")]);
        set.then_some(()).ok_or_else(|| "the disk stays full".into())
    }

    fn set(&self, options: &[&str]) -> bool {
        let mut mount = Command::new("mount");
        mount.args(options).arg(&self.0).stdout(Stdio::null()).stderr(Stdio::null());
        mount.status().is_ok_and(|ended| ended.success())
    }
}

//! A reader who pastes a page's commands into a shell, one block after the other.
//!
//! Promises: one shell for the whole page, so that a folder or a variable of one block is there in the next; a fresh
//! folder; the binary of this run under its name. A command that fails ends the page, but where the page says that it
//! does. What the page shows is compared. Whatever was started is gone afterwards.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::ground::Ground;
use super::page::{Block, Kind, Note, Page};
use super::ports::Ports;
use super::shown::{Shows, missing};
use crate::harness::gate::binary;
use crate::harness::{eventually, postgres};

/// The database of the pages.
const DATABASE: &str = "postgres://oncegate@db/oncegate";

/// Folders of the machine that the pages speak of.
const THERE: [&str; 3] = ["/run/secrets/", "/etc/oncegate/", "/var/lib/oncegate/"];

struct Shell {
    process: Child,
    input: ChildStdin,
    /// One line for every block that is done: its code.
    done: Lines<BufReader<ChildStdout>>,
    folder: TempDir,
    ports: Ports,
    database: Option<String>,
    ground: Option<Ground>,
}

/// Runs a page, and says what did not come out as it shows. The first fault ends it: what follows leans on it.
pub(super) async fn run(page: Page) -> Vec<String> {
    let mut shell = Shell::open(&page).await;
    let blocks: Vec<_> = page.blocks.iter().collect();
    for (number, block) in blocks.iter().enumerate().filter(|(_, block)| block.is_run()) {
        let shown = blocks.get(number + 1).filter(|next| {
            next.kind == Kind::Output
                && !next.notes.iter().any(|note| matches!(note, Note::Example(_) | Note::Drawing))
        });
        if let Err(told) = shell.paste(&page, number, block, shown.map(|shown| shown.text.as_str())).await {
            return vec![format!("{}:{}: {told}", page.name, block.line)];
        }
    }
    Vec::new()
}

impl Shell {
    async fn open(page: &Page) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = if page.text.contains(DATABASE) { Some(postgres::database().await) } else { None };
        let gate = binary();
        let beside = PathBuf::from(gate.get_program());
        let beside = beside.parent().expect("it stands in a target folder").to_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONCEGATE_"))
        {
            command.env_remove(name);
        }
        let mut process = command
            .current_dir(folder.path())
            .env("PATH", format!("{}:{}:{path}", beside.display(), beside.join("examples").display()))
            .env("USER", "ada")
            // A reader has a terminal.
            .env("ONCEGATE_LOG_FORMAT", "text")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .expect("sh");
        let input = process.stdin.take().expect("it was piped");
        let done = BufReader::new(process.stdout.take().expect("it was piped")).lines();
        Self { process, input, done, folder, ports: Ports::of(page), database, ground: None }
    }

    /// Runs a block, and holds what it printed against what the page shows.
    async fn paste(
        &mut self,
        page: &Page,
        number: usize,
        block: &Block,
        shown: Option<&str>,
    ) -> Result<(), String> {
        if block.has(&Note::BesideAGate) {
            self.ground = Some(Ground::open(page, self.folder.path(), &self.ports).await?);
        }
        let (script, output) = (self.own(&format!("{number}.sh")), self.own(&format!("{number}.out")));
        std::fs::write(&script, self.here(&block.text)).expect("the block's script");
        let (script, output) = (script.display(), output.display());
        let code = block.notes.iter().find_map(|note| match note {
            Note::Exits(code) => Some(*code),
            Note::NotRun(_) | Note::Example(_) | Note::Terminal | Note::Drawing | Note::BesideAGate => None,
        });
        let line = match code {
            _ if block.has(&Note::Terminal) => format!("( . {script} ) </dev/null >{output} 2>&1 & echo 0\n"),
            Some(_) => format!("set +e; . {script} </dev/null >{output} 2>&1; echo $?; set -e\n"),
            None => format!("set -e; . {script} </dev/null >{output} 2>&1; echo 0\n"),
        };
        self.input.write_all(line.as_bytes()).await.map_err(|_| "the shell has ended".to_owned())?;
        if block.has(&Note::Terminal) {
            let (own, ports) = (self.own(&format!("{number}.out")), &self.ports);
            let shown = shown.unwrap_or_default();
            eventually(&format!("{}:{}: to show what the page says", page.name, block.line), async || {
                missing(shown, &ports.paged(&came(&own)), Shows::Some).is_none().then_some(())
            })
            .await;
        }
        let ended = tokio::time::timeout(super::LONGEST, self.done.next_line()).await;
        let printed = self.ports.paged(&came(&self.own(&format!("{number}.out"))));
        let Ok(ended) = ended else { return Err(format!("it does not end; it printed\n{printed}")) };
        let expected = code.unwrap_or_default().to_string();
        match ended.map_err(|error| error.to_string())? {
            Some(code) if code == expected => {}
            Some(code) => return Err(format!("it ended with {code}, and printed\n{printed}")),
            None => return Err(format!("it failed, and printed\n{printed}")),
        }
        match shown
            .filter(|_| !block.has(&Note::Terminal))
            .and_then(|shown| missing(shown, &printed, Shows::All))
        {
            Some(line) => Err(format!("the page shows\n{line}\n--- it printed\n{printed}")),
            None => Ok(()),
        }
    }

    /// A file of the run's own, outside of the page's folder.
    fn own(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(".told");
        std::fs::create_dir_all(&folder).expect("a folder of its own");
        folder.join(name)
    }

    /// A block with the ports, the database and the folders of this run.
    fn here(&self, text: &str) -> String {
        let mut text = self.ports.real(text);
        if let Some(database) = &self.database {
            text = text.replace(DATABASE, database);
        }
        for there in THERE {
            let here = format!("{}{there}", self.folder.path().display());
            text = text.replace(there, &here);
        }
        text
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let _gone_already = group.is_none_or(|group| kill_process_group(group, Signal::KILL).is_err());
    }
}

fn came(output: &Path) -> String {
    std::fs::read_to_string(output).unwrap_or_default()
}

//! Reloading: what the files say is put into force while calls go on.
//!
//! Promises: all or nothing. One reload reads everything anew by what a start reads it with, and puts it into force only
//! if there is no mistake in any of it; else what was in force stays, and every mistake is told wherever anybody looks:
//! log, counts, `/readyz`, `GET /policy`. What a start only can take is told until there was one, or until the files say
//! again what they said then. Files that say the same change nothing, and nothing is told of them.
//!
//! A call takes the policy once, as one value, and keeps it; an exchange of policies is the exchange of that value. So no
//! call is decided by half of an old one and half of a new one.
//!
//! Absent on purpose: `notifications/tools/list_changed` to MCP clients. Each actor sees lists of its own, gates hold no
//! register of who listens, and a client that calls what it may not any more is told so: it lists again.

mod files;
mod held;
mod reading;
mod watch;

pub(super) use self::held::{Held, Ruling};

use std::convert::Infallible;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tracing::{debug, error, info, warn};

use self::files::{Seen, look};
use self::held::now;
use self::reading::{Read, read};
use self::watch::Watch;
use crate::admin::policy::{Attempt, InForce, PolicyStatus};
use crate::config::{ConfigFlags, Fixed, NamedFiles};
use crate::domain::mistake::Mistakes;

/// How long files must stand still before they are read: editors empty them first, and tools write several.
const STILL: Duration = Duration::from_millis(100);

/// How often that is waited for, at most: files that never stand still are read as they are.
const MOST_WAITS: u32 = 20;

/// How often files are looked at where nothing told of a change: some file systems tell nothing.
const LOOK: Duration = Duration::from_secs(3);

/// How long after a reading that found mistakes the files are read once more, before the mistakes are told.
const ONCE_MORE: Duration = Duration::from_millis(400);

/// How often files may change while they are read.
const MOST_READINGS: u32 = 10;

/// Puts into force what the files say.
pub(super) struct Reloader {
    flags: ConfigFlags,
    held: Held,
    in_force: InForce,
    /// What this process was started with.
    fixed: Fixed,
    named: NamedFiles,
    /// What was read last.
    seen: Option<Seen>,
    /// Whether tokens are judged by keys that nobody keeps fresh yet.
    has_other_keys: bool,
}

/// Why the files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// They may have changed.
    Changed,
    /// Somebody wants it.
    Asked,
}

impl Reloader {
    /// Begins to keep in force what the files say, in a process that was started with these flags; `hangup` asks for it at
    /// once. What is in force is told by what this returns. The task may be aborted: what is put into force is put into
    /// force whole, without a pause in between.
    pub(super) fn begin(
        flags: ConfigFlags,
        held: Held,
        fixed: Fixed,
        hangup: Signal,
    ) -> (InForce, JoinHandle<Infallible>) {
        let in_force = InForce::new(held.status(&now()));
        let named = NamedFiles::of(flags.config_file().as_deref());
        let reloader =
            Self { flags, held, in_force: in_force.clone(), fixed, named, seen: None, has_other_keys: true };
        (in_force, tokio::spawn(reloader.keep(hangup)))
    }

    async fn keep(mut self, mut hangup: Signal) -> Infallible {
        let mut watch = Watch::begin();
        let mut refreshing = JoinSet::new();
        loop {
            if self.has_other_keys {
                self.has_other_keys = false;
                refreshing.abort_all();
                refreshing.spawn(self.held.verifier.keep_fresh());
            }
            // At first too: what changed since the start read it is found here, and nothing is told otherwise.
            self.go_on(Why::Changed).await;
            if watch.over(&self.named) {
                // What changed before it was watched is found by looking once more.
                continue;
            }
            let asked = tokio::select! {
                asked = hangup.recv() => asked.is_some(),
                () = watch.stirred() => false,
                () = sleep(LOOK) => false,
            };
            if asked {
                info!("Asked to reload.");
                // Whoever asks means the keys of a server, too: no file tells of those.
                drop(tokio::spawn(self.held.verifier.refresh()));
                self.go_on(Why::Asked).await;
            }
        }
    }

    /// Reads the files where there is reason to, and puts them into force or tells why not.
    async fn go_on(&mut self, why: Why) {
        let failed = self.in_force.status().last_attempt.has_failed();
        if why == Why::Changed && !failed && self.seen.as_ref() == Some(&look(&self.named).await) {
            return;
        }
        match self.whole().await {
            Ok(read) => self.put_into_force(*read, why),
            Err(mistakes) => self.tell(&mistakes, why),
        }
    }

    /// What the files say, all of them at one moment. Mistakes are what stands in them, not what was half written.
    async fn whole(&mut self) -> Result<Box<Read>, Mistakes> {
        let mut had_mistakes = false;
        let mut readings = 0;
        loop {
            readings += 1;
            let before = self.still().await;
            let (named, found) = read(&self.flags, &self.held.verifier).await;
            let other_files = named.as_ref().is_some_and(|named| *named != self.named);
            if let Some(named) = named {
                self.named = named;
            }
            if readings < MOST_READINGS && (other_files || look(&self.named).await != before) {
                continue;
            }
            if self.seen.as_ref() != Some(&before) {
                // A key set in a file looks after itself; this tells it to look now.
                self.held.verifier.reread().await;
            }
            self.seen = Some(before);
            match found {
                Err(_) if !had_mistakes && readings < MOST_READINGS => {
                    had_mistakes = true;
                    sleep(ONCE_MORE).await;
                }
                Err(mistakes) => return Err(mistakes),
                Ok(read) => return Ok(Box::new(read)),
            }
        }
    }

    /// The files, once they stand still.
    async fn still(&self) -> Seen {
        let mut seen = look(&self.named).await;
        for _ in 0..MOST_WAITS {
            sleep(STILL).await;
            let again = look(&self.named).await;
            if again == seen {
                break;
            }
            seen = again;
        }
        seen
    }

    fn put_into_force(&mut self, mut read: Read, why: Why) {
        let was = self.in_force.status();
        let waits_for_restart = self.fixed.changed(&read.fixed);
        let is_news = waits_for_restart != was.waits_for_restart;
        let warnings = std::mem::take(&mut read.config.warnings);
        self.has_other_keys |= read.auth.is_some();
        let changed = self.held.take(read);
        if changed.is_empty() && !is_news && why == Why::Changed && !was.last_attempt.has_failed() {
            return debug!("The files say what is in force.");
        }
        for warning in &warnings {
            warn!("{warning} (warning)");
        }
        let status = self.status(&was, waits_for_restart);
        let (version, changed) = (status.front.version.clone(), changed.join(", "));
        if changed.is_empty() {
            info!(version, "Reloaded: the files say what is in force.");
        } else {
            info!(version, was = was.front.version, changed, "Reloaded.");
        }
        if is_news && status.waits_for_restart.is_empty() {
            info!("No setting waits for a restart any more.");
        } else if is_news {
            let settings = status.waits_for_restart.join(", ");
            warn!(
                settings,
                "These settings were changed and take effect with the next start; all others are in force."
            );
        }
        self.held.meter.reloads().told(true);
        self.held.meter.reloads().wait(status.waits_for_restart.len());
        self.in_force.tell(status);
    }

    fn status(&self, was: &PolicyStatus, waits_for_restart: Vec<String>) -> PolicyStatus {
        let at = now();
        let mut status = self.held.status(&at);
        if status.front.version == was.front.version {
            status.front.since.clone_from(&was.front.since);
        }
        for listener in &mut status.listeners {
            let old = was.listeners.iter().find(|old| old.name == listener.name);
            if let Some(old) = old.filter(|old| old.policy.version == listener.policy.version) {
                listener.policy.since.clone_from(&old.policy.since);
            }
        }
        PolicyStatus { waits_for_restart, last_attempt: Attempt::ok(at), ..status }
    }

    /// Says what is wrong, unless it was said.
    fn tell(&self, mistakes: &Mistakes, why: Why) {
        let was = self.in_force.status();
        let attempt = Attempt::failed(now(), mistakes);
        if why == Why::Changed && was.last_attempt.mistakes == attempt.mistakes {
            return debug!("The files have the same mistakes.");
        }
        for mistake in mistakes {
            error!("{mistake}");
        }
        let (version, mistakes) = (&was.front.version, attempt.mistakes.len());
        error!(version, mistakes, "Not reloaded: what was in force stays in force.");
        self.held.meter.reloads().told(false);
        self.in_force.tell(PolicyStatus { last_attempt: attempt, ..(*was).clone() });
    }
}

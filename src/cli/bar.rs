//! How far a long command is, for whoever watches it, and how it is told to stop.
//!
//! Promises: drawn on standard error where that is a terminal, and nowhere else: a log or a pipe has nothing of it.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::store::MigrationNews;

const COUNTED: &str = "{msg}: {pos} of {len} [{bar:40}] {percent} %";
const UNCOUNTED: &str = "{msg}";

/// How far it is.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// Of something that has not said yet what it does.
    pub(super) fn new() -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style(UNCOUNTED));
        Self(bar)
    }

    /// Of so many things.
    pub(super) fn of(what: &'static str, total: u64) -> Self {
        let bar = Self::new();
        bar.0.set_style(style(COUNTED));
        bar.0.set_message(what);
        bar.0.set_length(total);
        bar
    }

    /// So many are done.
    pub(super) fn at(&self, done: u64) {
        // More may have come meanwhile.
        self.0.set_length(self.0.length().unwrap_or_default().max(done));
        self.0.set_position(done);
    }

    /// Says what a migration does.
    pub(super) fn news(&self, news: MigrationNews) {
        match news {
            MigrationNews::Step(version) => self.say(format!("step {version} is taken")),
            MigrationNews::Indexing { done, total } => {
                self.0.set_style(style(COUNTED));
                self.0.set_message("index over audit rows");
                self.0.set_length(total.max(done));
                self.0.set_position(done);
            }
            MigrationNews::Checking => self.say("audit rows are looked through, beside whoever writes"),
            MigrationNews::Waiting => self.say("somebody reads the audit; its turn is waited for"),
        }
    }

    fn say(&self, what: impl Into<std::borrow::Cow<'static, str>>) {
        self.0.set_style(style(UNCOUNTED));
        self.0.set_message(what);
        self.0.tick();
    }

    /// Takes it off the screen.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Cancelled when somebody stops the command: Ctrl-C, or SIGTERM from whoever runs it.
pub(super) fn interrupted() -> io::Result<CancellationToken> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}

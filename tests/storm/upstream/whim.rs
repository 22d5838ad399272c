//! What the upstream may do with a request.
//!
//! Promises: a whim that says that nothing was run does nothing; every other may have done it, and may not.

use std::time::Duration;

use fastrand::Rng;

use crate::intents::is_read;

/// One way to treat a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whim {
    pub(super) name: &'static str,
    /// How long it takes to do it.
    pub(super) before: Duration,
    /// Whether it does it.
    pub(super) effect: bool,
    /// How long it takes to say so.
    pub(super) after: Duration,
    pub(super) says: Says,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// A result.
    Result,
    /// A result, as an event.
    Event,
    /// A result that is an error.
    ToolError,
    /// An error that only something which ran can raise.
    RpcError,
    /// A JSON-RPC error that servers raise before they run anything.
    NoSuchTool,
    /// A status, without a word of JSON-RPC.
    Status(u16),
    /// A page where a result was due.
    Page,
    /// The first half of a result.
    Half,
    /// A stream that ends before its result.
    EmptyStream,
    /// A reset.
    Nothing,
    /// Not a word, for ever.
    Hang,
}

const NO: bool = false;
const YES: bool = true;

/// How often, what, whether it does it, and what it says. Where both may be, both stand here.
const WHIMS: [(u32, &str, bool, Says); 24] = [
    (380, "answers", YES, Says::Result),
    (60, "answers on a stream", YES, Says::Event),
    (40, "says that it failed, and did nothing", NO, Says::ToolError),
    (15, "does it and says that it failed", YES, Says::RpcError),
    (20, "does it and hangs", YES, Says::Hang),
    (20, "hangs", NO, Says::Hang),
    (40, "does it and resets", YES, Says::Nothing),
    (30, "resets", NO, Says::Nothing),
    (35, "does it and cuts its answer", YES, Says::Half),
    (15, "cuts an answer that means nothing", NO, Says::Half),
    (12, "does it and answers 500", YES, Says::Status(500)),
    (12, "answers 500", NO, Says::Status(500)),
    (12, "does it and answers 502", YES, Says::Status(502)),
    (12, "answers 502", NO, Says::Status(502)),
    (12, "does it and answers 503", YES, Says::Status(503)),
    (12, "answers 503", NO, Says::Status(503)),
    (12, "does it and shows a page", YES, Says::Page),
    (10, "does it and ends its stream", YES, Says::EmptyStream),
    (10, "ends its stream", NO, Says::EmptyStream),
    (25, "turns it away: 429", NO, Says::Status(429)),
    (25, "turns it away: 404", NO, Says::Status(404)),
    (15, "turns it away: 401", NO, Says::Status(401)),
    (25, "turns it away: no such tool", NO, Says::NoSuchTool),
    (10, "does it and answers 202", YES, Says::Status(202)),
];

impl Whim {
    /// What it does after the storm.
    pub(super) const CALM: Self = Self {
        name: "answers",
        before: Duration::ZERO,
        effect: true,
        after: Duration::ZERO,
        says: Says::Result,
    };

    /// One for this tool, by chance.
    pub(super) fn draw(rng: &mut Rng, tool: &str) -> Self {
        let all: u32 = WHIMS.iter().map(|(weight, ..)| weight).sum();
        let mut left = rng.u32(..all);
        let drawn = WHIMS.iter().find(|(weight, ..)| {
            let here = left < *weight;
            left = left.saturating_sub(*weight);
            here
        });
        let Some((_, name, effect, says)) = drawn.copied() else { return Self::CALM };
        let (before, after) = (wait(rng), wait(rng));
        Self { name, before, effect: effect && !is_read(tool), after, says }
    }
}

/// Mostly at once; now and then late, and now and then later than anybody waits.
fn wait(rng: &mut Rng) -> Duration {
    let millis = match rng.u32(..100) {
        0..70 => rng.u64(..8),
        70..92 => rng.u64(8..250),
        92..97 => rng.u64(250..1500),
        _ => rng.u64(1500..4000),
    };
    Duration::from_millis(millis)
}

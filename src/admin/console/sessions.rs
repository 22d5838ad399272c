//! Who is signed in, and how often the token may be guessed.
//!
//! Promises: pure, with the time as an argument, and of a bounded size. A session is known by the hash of its id only, ends
//! by its time, by signing out, with the token by which it began and with the process; where there are too many, the
//! oldest one ends. Only wrong tokens count as guesses, and after a few of them one more is heard every few seconds.
//!
//! Absent on purpose: who it is. There is one token, and whoever has it is an operator.

use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

/// How long a session lasts: a night's watch.
pub(super) const LASTS: Duration = Duration::from_hours(8);

/// How many there are at most.
const MOST: usize = 64;

/// How many wrong tokens are heard at once, and how long until one more is.
const GUESSES: u32 = 10;
const NEXT_GUESS: Duration = Duration::from_secs(6);

type Hash = [u8; 32];

/// Everybody who is signed in, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Sessions(Vec<Session>);

#[derive(Debug)]
struct Session {
    id: Hash,
    /// The token that it began with.
    token: Hash,
    until: Instant,
}

impl Sessions {
    /// Begins one under this id, which nobody can guess.
    pub(super) fn begin(&mut self, id: &str, token: &str, now: Instant) {
        self.0.retain(|session| session.until > now);
        let over = (self.0.len() + 1).saturating_sub(MOST);
        self.0.drain(..over);
        self.0.push(Session { id: hash(id), token: hash(token), until: now + LASTS });
    }

    /// Whether this is one that lasts, under the token that is in force.
    pub(super) fn holds(&self, id: &str, token: &str, now: Instant) -> bool {
        let (id, token) = (hash(id), hash(token));
        let found = self.0.iter().fold(Choice::from(0), |found, session| {
            let alive = Choice::from(u8::from(session.until > now));
            found | (session.id.ct_eq(&id) & session.token.ct_eq(&token) & alive)
        });
        bool::from(found)
    }

    /// Ends it.
    pub(super) fn end(&mut self, id: &str) {
        let id = hash(id);
        self.0.retain(|session| !bool::from(session.id.ct_eq(&id)));
    }
}

/// How many more wrong tokens are heard.
#[derive(Debug)]
pub(super) struct Guesses {
    left: u32,
    /// From then on the next one comes back.
    since: Instant,
}

impl Guesses {
    /// All of them.
    pub(super) fn new(now: Instant) -> Self {
        Self { left: GUESSES, since: now }
    }

    /// Whether a token is looked at; otherwise how long to wait.
    pub(super) fn may(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.since);
        let back = u32::try_from(passed.as_secs() / NEXT_GUESS.as_secs()).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(back).min(GUESSES);
        self.since = if self.left == GUESSES { now } else { self.since + NEXT_GUESS * back };
        if self.left > 0 {
            return Ok(());
        }
        Err(NEXT_GUESS.saturating_sub(now.saturating_duration_since(self.since)))
    }

    /// It was wrong.
    pub(super) fn wrong(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

fn hash(text: &str) -> Hash {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_session_ends_by_its_time_by_signing_out_and_with_its_token() {
        let now = Instant::now();
        let mut sessions = Sessions::default();
        sessions.begin("one", "token", now);
        sessions.begin("two", "token", now);
        assert!(sessions.holds("one", "token", now + Duration::from_hours(7)));
        assert!(!sessions.holds("one", "token", now + LASTS));
        assert!(!sessions.holds("one", "another", now));
        assert!(!sessions.holds("", "token", now) && !sessions.holds("three", "token", now));
        sessions.end("one");
        assert!(!sessions.holds("one", "token", now) && sessions.holds("two", "token", now));
    }

    #[test]
    fn sessions_are_bounded_and_the_oldest_gives_way() {
        let now = Instant::now();
        let mut sessions = Sessions::default();
        for number in 0..=MOST {
            sessions.begin(&number.to_string(), "token", now);
        }
        assert_eq!(sessions.0.len(), MOST);
        assert!(!sessions.holds("0", "token", now) && sessions.holds("1", "token", now));
        sessions.begin("late", "token", now + LASTS);
        assert_eq!(sessions.0.len(), 1, "what is over takes no room");
    }

    #[test]
    fn guesses_run_out_and_come_back_one_by_one() {
        let now = Instant::now();
        let mut guesses = Guesses::new(now);
        for _ in 0..GUESSES {
            assert_eq!(guesses.may(now), Ok(()));
            guesses.wrong();
        }
        assert_eq!(guesses.may(now + SECOND), Err(Duration::from_secs(5)));
        assert_eq!(guesses.may(now + NEXT_GUESS), Ok(()));
        guesses.wrong();
        assert_eq!(guesses.may(now + NEXT_GUESS + SECOND), Err(Duration::from_secs(5)));
        let later = now + NEXT_GUESS * (GUESSES * 3);
        for _ in 0..GUESSES {
            assert_eq!(guesses.may(later), Ok(()));
            guesses.wrong();
        }
        assert!(guesses.may(later).is_err(), "no more than the first few come back");
    }
}

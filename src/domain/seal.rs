//! Seals on the upstream's own handles: sessions, tasks, places in a stream.
//!
//! Promises: a handle that was sealed for one actor opens for that actor, at this service, as this kind of handle, and
//! for nothing else: not for another user or tenant, not with a byte changed, not with a note added, moved or cut. What
//! was noted at the sealing comes back at the opening. Whoever has no secret can make no seal; nothing is stored, so
//! every pod opens what any pod sealed, before a restart and after it.
//!
//! The form is the handle, then `~`, then the tag and the notes, each in base64url with a dot between: `RAW~TAG`,
//! `RAW~TAG.NOTE.NOTE`. The handle stays legible, and a seal is visible ASCII wherever the handle is.
//!
//! Absent on purpose: a clock (what may be sealed for how long is the upstream's business: it knows its own handles),
//! and `Debug` on whatever holds a secret.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::actor::Actor;
use super::fingerprint::{Purpose, Secrets};

/// Stands between a handle and its seal.
const SEAM: char = '~';

/// Stands between the parts of a seal. Base64url has neither.
const DOT: char = '.';

/// How many bytes of the keyed hash are the tag.
const TAG_BYTES: usize = 16;

/// What a sealed handle is. A seal for one is none for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// A legacy session.
    Session,
    /// A task.
    Task,
    /// A place in an event stream.
    Event,
}

impl Handle {
    const fn purpose(self) -> Purpose {
        match self {
            Self::Session => Purpose::Session,
            Self::Task => Purpose::Task,
            Self::Event => Purpose::Event,
        }
    }
}

/// What a seal held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The upstream's own handle.
    pub raw: String,
    /// What was noted when it was sealed.
    pub note: Vec<String>,
}

/// Seals and opens handles of one service. Cheap to clone.
#[derive(Clone)]
pub struct Seal {
    secrets: Secrets,
    service: Arc<str>,
}

impl Seal {
    /// Seals of this service, under these secrets: the first seals, every one opens.
    pub fn new(secrets: Secrets, service: &str) -> Self {
        Self { secrets, service: service.into() }
    }

    /// `raw` as this actor's clients see it.
    pub fn seal(&self, handle: Handle, actor: &Actor, raw: &str, note: &[&str]) -> String {
        let parts = self.parts(actor, raw, note.iter().copied());
        let tag = self.secrets.signed(handle.purpose(), &parts);
        let mut sealed = format!("{raw}{SEAM}");
        URL_SAFE_NO_PAD.encode_string(tag.get(..TAG_BYTES).unwrap_or(&tag), &mut sealed);
        for text in note {
            sealed.push(DOT);
            URL_SAFE_NO_PAD.encode_string(text, &mut sealed);
        }
        sealed
    }

    /// What was sealed for this actor; none where it was sealed for somebody else, or as something else, or not at all.
    pub fn open(&self, handle: Handle, actor: &Actor, sealed: &str) -> Option<Opened> {
        let (raw, seal) = sealed.rsplit_once(SEAM)?;
        let mut parts = seal.split(DOT).map(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let tag = parts.next().flatten().filter(|tag| tag.len() == TAG_BYTES)?;
        let note: Vec<String> = parts.map(|part| String::from_utf8(part?).ok()).collect::<Option<_>>()?;
        let signed = self.parts(actor, raw, note.iter().map(String::as_str));
        self.secrets.has_signed(handle.purpose(), &signed, &tag).then(|| Opened { raw: raw.to_owned(), note })
    }

    /// What a tag covers. Each goes in with its length, so no two lists of parts are hashed alike.
    fn parts<'a>(
        &'a self,
        actor: &'a Actor,
        raw: &'a str,
        note: impl Iterator<Item = &'a str>,
    ) -> Vec<&'a [u8]> {
        let fixed = [&*self.service, actor.tenant(), actor.user(), raw];
        fixed.into_iter().chain(note).map(str::as_bytes).collect()
    }
}

//! Legacy sessions, bound to who opened them.
//!
//! Promises: a session id of the upstream's reaches a client only under a seal for its own actor, and reaches the
//! upstream only if it comes under that seal: another user's, another tenant's, a forged and a bare one are all told
//! alike that there is no such session, before anything is forwarded. Nothing is stored for it.
//!
//! Absent on purpose: sessions in the modern era, which has none: the header crosses in neither direction.

use http::HeaderMap;

use super::parse::Head;
use super::resume::LAST_EVENT_ID;
use crate::domain::actor::Actor;
use crate::domain::refusal::Refusal;
use crate::domain::seal::{Handle, Seal};
use crate::mcp::message::Era;
use crate::upstream::headers::SESSION_ID;

/// Puts the upstream's own id in place of the sealed one that the client sent.
pub(super) fn bind_session(head: &mut Head, seal: &Seal) -> Result<(), Refusal> {
    if head.era == Era::Modern {
        head.headers.remove(SESSION_ID);
        return Ok(());
    }
    let mut sent = head.headers.get_all(SESSION_ID).iter();
    let Some(sealed) = sent.next() else { return Ok(()) };
    if sent.next().is_some() {
        let (header, detail) = (SESSION_ID.to_string(), "the header is repeated".to_owned());
        return Err(Refusal::HeaderMismatch { header, detail });
    }
    let actor = head.caller.actor();
    let opened = sealed.to_str().ok().and_then(|sealed| seal.open(Handle::Session, actor, sealed));
    let raw = opened.and_then(|opened| opened.raw.parse().ok()).ok_or(Refusal::NoSuchSession)?;
    head.headers.insert(SESSION_ID, raw);
    Ok(())
}

/// Whether the request stands in a session, whose end the client must hear as such.
pub(super) fn in_session(head: &Head) -> bool {
    head.era == Era::Legacy && head.headers.contains_key(SESSION_ID)
}

/// The upstream's own id of the session that the request stands in.
pub(super) fn session_of(head: &Head) -> Option<&str> {
    head.headers.get(SESSION_ID).filter(|_| head.era == Era::Legacy)?.to_str().ok()
}

/// Puts the upstream's own ids in place of sealed ones, where they open; all else stays as it came.
pub(super) fn open_where_sealed(headers: &mut HeaderMap, seal: &Seal, actor: &Actor) {
    for (name, handle) in [(SESSION_ID, Handle::Session), (LAST_EVENT_ID, Handle::Event)] {
        let sealed = headers.get(&name).and_then(|value| value.to_str().ok());
        let opened = sealed.and_then(|sealed| seal.open(handle, actor, sealed));
        if let Some(raw) = opened.and_then(|opened| opened.raw.parse().ok()) {
            headers.insert(name, raw);
        }
    }
}

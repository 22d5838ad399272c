//! From what a token claims to an actor, and until when.
//!
//! Promises: a pure function of claims, settings and the time. Every check that names a guard (`iss`, `aud`, `exp`,
//! the session's age, tenant and user) refuses a token that lacks it. A claim that is `null` counts as absent.
//!
//! Absent on purpose: signatures. A [`Judged`] is what the token would mean if it were genuine.

use std::collections::BTreeSet;

use super::clock::UnixSeconds;
use super::settings::Settings;
use super::token::TokenFault;
use crate::domain::actor::Actor;
use crate::domain::json::{Json, Number, Object};

/// What a token means.
pub(super) struct Judged {
    /// Who calls.
    pub(super) actor: Actor,
    /// The first second at which it does not hold any more.
    pub(super) until: UnixSeconds,
}

/// Judges what a token claims.
pub(super) fn judge(claims: &Object, settings: &Settings, now: UnixSeconds) -> Result<Judged, TokenFault> {
    if find(claims, "iss").and_then(Json::as_str) != Some(settings.issuer.as_str()) {
        return Err(TokenFault::Issuer);
    }
    if !is_meant_for(find(claims, "aud"), &settings.audiences) {
        return Err(TokenFault::Audience);
    }
    let until = lifetime(claims, settings, now)?;
    Ok(Judged { actor: actor(claims, settings)?, until })
}

/// `aud` is one string or an array of strings, of which one must be ours. An array that holds anything else is not
/// an audience.
fn is_meant_for(aud: Option<&Json>, audiences: &[String]) -> bool {
    let is_ours = |name: &str| audiences.iter().any(|audience| audience == name);
    match aud {
        Some(Json::String(name)) => is_ours(name),
        Some(Json::Array(names)) => {
            names.iter().all(|name| name.as_str().is_some())
                && names.iter().filter_map(Json::as_str).any(is_ours)
        }
        _ => false,
    }
}

/// Checks every time in the token; returns when it ends.
fn lifetime(claims: &Object, settings: &Settings, now: UnixSeconds) -> Result<UnixSeconds, TokenFault> {
    let leeway = seconds(settings.leeway);
    let expiry = time(claims, "exp")?.ok_or(TokenFault::NoExpiry)?.saturating_add(leeway);
    if now >= expiry {
        return Err(TokenFault::Expired);
    }
    let (not_before, issued, signed_in) =
        (time(claims, "nbf")?, time(claims, "iat")?, time(claims, "auth_time")?);
    if [not_before, issued, signed_in].into_iter().flatten().any(|start| start > now.saturating_add(leeway)) {
        return Err(TokenFault::NotYet);
    }
    let start = signed_in.or(issued).ok_or(TokenFault::NoAge)?;
    let old_at = start.saturating_add(seconds(settings.max_session_age));
    if now >= old_at {
        return Err(TokenFault::SessionTooOld);
    }
    Ok(expiry.min(old_at))
}

fn actor(claims: &Object, settings: &Settings) -> Result<Actor, TokenFault> {
    let names = &settings.claims;
    let tenant = identifier(find(claims, &names.tenant), "tenant")?.unwrap_or_default();
    let user = identifier(find(claims, &names.user), "user")?.unwrap_or_default();
    let session = find(claims, &names.session).or_else(|| find(claims, "jti"));
    let session = identifier(session, "session")?;
    let mut scopes = match find(claims, &names.scopes).or_else(|| find(claims, "scp")) {
        None => BTreeSet::new(),
        Some(Json::String(text)) => {
            text.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
        }
        Some(list) => strings(list, "scopes")?,
    };
    if !settings.roles.is_empty() {
        let roles = match find(claims, &names.roles) {
            None => BTreeSet::new(),
            Some(Json::String(role)) => BTreeSet::from([role.clone()]),
            Some(list) => strings(list, "roles")?,
        };
        let brought = roles.iter().filter_map(|role| settings.roles.get(role)).flatten();
        scopes.extend(brought.cloned());
    }
    Actor::new(&tenant, &user, session.as_deref(), scopes).map_err(TokenFault::Actor)
}

/// The claim of this name as it stands; else the one at the end of this path.
fn find<'a>(claims: &'a Object, name: &str) -> Option<&'a Json> {
    let found = claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        claims.get(first)?.path(&rest.split('.').collect::<Vec<_>>())
    });
    found.filter(|value| !value.is_null())
}

/// An identifier is a string, or an integer, which becomes its decimal digits. Other numbers are refused: what `1e2`
/// or `-0` prints as depends on who prints it.
fn identifier(claim: Option<&Json>, part: &'static str) -> Result<Option<String>, TokenFault> {
    let is_integer = |number: &Number| {
        let text = number.as_str();
        text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && text != "-0"
    };
    match claim {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(Json::Number(number)) if is_integer(number) => Ok(Some(number.as_str().to_owned())),
        Some(_) => Err(TokenFault::Claim { part }),
    }
}

fn strings(list: &Json, part: &'static str) -> Result<BTreeSet<String>, TokenFault> {
    let items = list.as_array().ok_or(TokenFault::Claim { part })?;
    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or(TokenFault::Claim { part })).collect()
}

/// A `NumericDate`: seconds since the epoch, which may have a fraction (RFC 7519, section 2).
fn time(claims: &Object, name: &'static str) -> Result<Option<UnixSeconds>, TokenFault> {
    let Some(claim) = find(claims, name) else {
        return Ok(None);
    };
    let fraction = || claim.as_number()?.as_str().parse().ok().and_then(whole_seconds);
    let whole = claim.as_i64().or_else(fraction);
    whole.map(Some).ok_or(TokenFault::Claim { part: name })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the range was checked; the fraction is dropped on purpose"
)]
fn whole_seconds(number: f64) -> Option<UnixSeconds> {
    (number.abs() < 1e15).then(|| number.floor() as UnixSeconds)
}

fn seconds(duration: std::time::Duration) -> UnixSeconds {
    UnixSeconds::try_from(duration.as_secs()).unwrap_or(UnixSeconds::MAX)
}

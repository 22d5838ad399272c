//! A call's parameters: the key taken out, the tenant taken out, what remains to be fingerprinted and forwarded.
//!
//! Promises: a key is looked for in every place that a client may use, and two places that disagree are refused; after
//! [`take_key`] and [`drop_tenant`] nothing of either is left for the upstream to see, unless the operation says so.
//!
//! Absent on purpose: knowledge of who calls. The tenant comes from the token.

use super::json::{Json, Object, folded};
use super::key::{Key, KeyFault};
use super::refusal::Refusal;

/// The `_meta` member that is ours.
pub const META_KEY: &str = "oncegate/idempotency-key";

/// The names that others use for it, in `_meta` and in `params`.
pub const OTHER_KEY: &str = "idempotencyKey";

/// Takes the idempotency key out of a call's `params`.
///
/// Looked for in this order: `params.arguments.<argument>` (tools only: `argument` is none for methods),
/// `params._meta["oncegate/idempotency-key"]`, `params._meta.idempotencyKey`, `params.idempotencyKey`, the
/// `Idempotency-Key` header. Wherever one stands it is removed. Empty (after trimming) and `null` count as missing.
pub fn take_key(
    params: &mut Object,
    headers: &[&str],
    argument: Option<&str>,
) -> Result<Option<Key>, Refusal> {
    // All are taken before one is read: a key that is no good must not leave the others in what a read forwards.
    let mut taken = Vec::new();
    if let Some(argument) = argument {
        let arguments = params.get_mut("arguments").and_then(Json::as_object_mut);
        taken.push((format!("arguments.{argument}"), arguments.and_then(|inner| inner.remove(argument))));
    }
    for name in [META_KEY, OTHER_KEY] {
        let meta = params.get_mut("_meta").and_then(Json::as_object_mut);
        taken.push((format!("_meta.{name}"), meta.and_then(|inner| inner.remove(name))));
    }
    taken.push((OTHER_KEY.to_owned(), params.remove(OTHER_KEY)));
    let mut found = Found::default();
    for (place, value) in taken {
        found.member(&place, value)?;
    }
    if headers.len() > 1 {
        return Err(Refusal::KeyAmbiguous { detail: "the Idempotency-Key header is repeated".to_owned() });
    }
    for text in headers {
        found.key("the Idempotency-Key header", Key::from_header(text))?;
    }
    Ok(found.key.map(|(key, _)| key))
}

#[derive(Default)]
struct Found {
    key: Option<(Key, String)>,
}

impl Found {
    fn member(&mut self, place: &str, value: Option<Json>) -> Result<(), Refusal> {
        match value {
            None | Some(Json::Null) => Ok(()),
            Some(Json::String(text)) => self.key(place, Key::parse(&text)),
            Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
                Err(Refusal::KeyInvalid { detail: format!("{place} is not a string") })
            }
        }
    }

    fn key(&mut self, place: &str, read: Result<Key, KeyFault>) -> Result<(), Refusal> {
        let key = match read {
            Ok(key) => key,
            Err(KeyFault::Missing) => return Ok(()),
            Err(fault) => return Err(Refusal::KeyInvalid { detail: format!("{place}: {fault}") }),
        };
        match &self.key {
            Some((first, other)) if *first != key => {
                Err(Refusal::KeyAmbiguous { detail: format!("{other} and {place} differ") })
            }
            Some(_) => Ok(()),
            None => {
                self.key = Some((key, place.to_owned()));
                Ok(())
            }
        }
    }
}

/// Takes the arguments out that would name a tenant: those too that differ from such a name in case only, since some
/// backends read names so.
pub fn drop_tenant(arguments: &mut Object, tenant_arguments: &[String]) {
    let tenants: Vec<String> = tenant_arguments.iter().map(|name| folded(name)).collect();
    if !tenants.is_empty() {
        arguments.retain(|name| !tenants.contains(&folded(name)));
    }
}

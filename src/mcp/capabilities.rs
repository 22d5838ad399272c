//! What a server can do, and what the gate before it adds.
//!
//! Promises: where a server offers tools, the result of `initialize` or `server/discover` also says that a call may
//! carry an idempotency key, and under which `_meta` name. What the server says of itself stays.
//!
//! It is said in two places. `tools.idempotency` is where the proposals for MCP have put it, and the schemas of both
//! eras let members be there that they do not know; but SDKs that read a capability into a type of their own drop
//! such members. `experimental` is the schemas' place for what they do not know: an object under a name, which SDKs keep.

use crate::domain::call::META_KEY;
use crate::domain::json::{Json, Object};

/// The name of the capability among the experimental ones.
const OURS: &str = "oncegate/idempotency";

/// Says in the result of `initialize` or `server/discover` what the gate adds.
pub fn advertise(result: &mut Object) {
    let Some(can) = result.get_mut("capabilities").and_then(Json::as_object_mut) else { return };
    if !put(can, "tools", "idempotency") {
        return;
    }
    if !can.contains("experimental") {
        can.insert("experimental", Json::Object(Object::default()));
    }
    put(can, "experimental", OURS);
}

/// Puts what we say under `name` into the object `group`; says whether there is one.
fn put(can: &mut Object, group: &str, name: &str) -> bool {
    // PHP writes an empty object as an empty array.
    if can.get(group).and_then(Json::as_array).is_some_and(<[Json]>::is_empty) {
        can.insert(group, Json::Object(Object::default()));
    }
    let Some(group) = can.get_mut(group).and_then(Json::as_object_mut) else { return false };
    group.insert(name, Json::object([("metaKey", Json::from(META_KEY))]));
    true
}

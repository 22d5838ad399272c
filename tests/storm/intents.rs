//! What clients want: intents, drawn from the seed, and the policy under which they want it.
//!
//! Promises: an intent's name and arguments follow from its number alone, so that the upstream's record can be read
//! without believing what the gate forwarded. The same key's text is used in every tenant and for every tool.

use fastrand::Rng;

use crate::history::Name;

/// The policy of every gate in a storm. Leases are as short as they may be.
pub(crate) const POLICY: &str = r#"
[defaults]
ttl = "24h"
lease = "1s"

[tools.look]
effect = "read"
scopes = ["storm:read"]

[tools.pay]
effect = "mutation"
scopes = ["storm:write"]

[tools.send]
effect = "mutation"
scopes = ["storm:write"]
in_flight = "wait"
wait_up_to = "4s"

[tools.book]
effect = "mutation"
scopes = ["storm:write"]
on_tool_error = "release"

[tools.charge]
effect = "mutation"
scopes = ["storm:write"]
downstream = "idempotent"
downstream_retention = "24h"
forward_key = "{tenant}/{tool}/{key}"

[tools.ship]
effect = "mutation"
scopes = ["storm:write"]
[tools.ship.reconcile]
tool = "find"
arguments = { key = "{forwarded_key}", order = "{args.order}" }
completed = { shipment = "*" }
absent_errors = ["not_shipped"]
result = "shipment"
every = "1s"
timeout = "1s"

[tools.find]
effect = "read"
scopes = ["storm:read"]
"#;

/// The tenants.
pub(crate) const TENANTS: [&str; 2] = ["acme", "beta"];

/// The users of each.
pub(crate) const USERS: [&str; 2] = ["ann", "bob"];

/// The tools that change something.
pub(crate) const MUTATIONS: [&str; 5] = ["pay", "send", "book", "charge", "ship"];

/// The one that clients read with.
pub(crate) const READ: &str = "look";

/// The one by which a gate asks what became of a call.
pub(crate) const QUESTION: &str = "find";

/// What a call is asked about by [`QUESTION`].
pub(crate) const ASKED_ABOUT: &str = "ship";

/// Whether the upstream honours the key that is forwarded for a tool.
pub(crate) fn is_idempotent(tool: &str) -> bool {
    tool == "charge"
}

/// Whether the gate can find out by itself what became of a call of a tool, and so bring every key of it to an end.
pub(crate) fn is_resolved(tool: &str) -> bool {
    is_idempotent(tool) || tool == ASKED_ABOUT
}

/// Whether a tool changes nothing.
pub(crate) fn is_read(tool: &str) -> bool {
    [READ, QUESTION].contains(&tool)
}

/// The key that the upstream must hear for a claim.
pub(crate) fn forwarded(name: &Name) -> String {
    if is_idempotent(&name.tool) {
        format!("{}/{}/{}", name.tenant, name.tool, name.key)
    } else {
        name.key.clone()
    }
}

/// The key of whoever asks for this order: `17` and `17-other` are the right and the wrong use of one key.
pub(crate) fn key_of_order(order: &str) -> String {
    format!("k-{}", order.trim_end_matches("-other"))
}

/// Something that a client wants done.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) tenant: &'static str,
    pub(crate) user: &'static str,
    pub(crate) tool: &'static str,
    pub(crate) order: String,
    pub(crate) manner: Manner,
}

/// How the client goes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// A mutation with a key, tried so often at most, by so many at a time.
    Keyed { patience: u32, herd: usize, misuse: Option<Misuse> },
    /// A mutation without a key.
    Keyless,
    /// A mutation whose token lacks the scope.
    Unscoped,
    /// A read.
    Read,
}

/// A wrong use of the intent's key, beside the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misuse {
    OtherArguments,
    OtherUser,
}

impl Intent {
    /// The intent of this number.
    pub(crate) fn draw(number: usize, rng: &mut Rng) -> Self {
        let (tool, rest) = (MUTATIONS[number % MUTATIONS.len()], number / MUTATIONS.len());
        let (tenant, rest) = (TENANTS[rest % TENANTS.len()], rest / TENANTS.len());
        let manner = match rng.u32(..100) {
            0..5 => Manner::Read,
            5..7 => Manner::Keyless,
            7..9 => Manner::Unscoped,
            _ => Manner::Keyed { patience: patience(rng), herd: herd(rng), misuse: misuse(rng) },
        };
        let tool = if manner == Manner::Read { READ } else { tool };
        Self { tenant, user: USERS[rng.usize(..USERS.len())], tool, order: rest.to_string(), manner }
    }
}

/// Most clients try a few times, some never stop: the chance of n tries falls with 1/n.
fn patience(rng: &mut Rng) -> u32 {
    let share = rng.f64().max(0.02);
    (2.0 / share).clamp(2.0, 40.0).round().to_string().parse().unwrap_or(2)
}

fn herd(rng: &mut Rng) -> usize {
    if rng.u32(..100) < 8 { rng.usize(3..9) } else { 1 }
}

fn misuse(rng: &mut Rng) -> Option<Misuse> {
    match rng.u32(..100) {
        0..3 => Some(Misuse::OtherArguments),
        3..6 => Some(Misuse::OtherUser),
        _ => None,
    }
}

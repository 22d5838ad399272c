//! What the gate may answer instead of the upstream: a closed list.
//!
//! Promises: every reason to refuse a call is a variant here; [`crate::wire`] has the one table that says how each
//! looks to a client, whether the call ran, and whether the same key may be sent again.
//!
//! Absent on purpose: status codes and sentences for the client. They stand in that table.

use std::time::Duration;

use crate::domain::time::Timestamp;

/// Why the gate, and not the upstream, answers a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The body is not one well-formed JSON text. `detail` says where it fails.
    NotJson {
        /// For the client.
        detail: String,
    },
    /// The JSON is not one JSON-RPC 2.0 message: a batch, duplicate members, a bad id.
    NotOneMessage {
        /// For the client.
        detail: String,
    },
    /// The body is larger than `limits.request_body`.
    BodyTooLarge {
        /// In bytes.
        limit: u64,
    },
    /// The body's media type or encoding is not one that the gate can check.
    UnsupportedMedia {
        /// For the client.
        detail: String,
    },
    /// The body did not come whole: the client stopped sending.
    BodyCut,
    /// The headers speak of the modern era, and the request does not name its version.
    VersionMissing,
    /// The place in a stream that a client wants to go on from is none that it was given.
    NoSuchEvent,
    /// A header that mirrors the body disagrees with it.
    HeaderMismatch {
        /// The header.
        header: String,
        /// For the client.
        detail: String,
    },
    /// The session that the request names is none of this actor's: forged, somebody else's, or over.
    NoSuchSession,
    /// The request is for a host that is not this gate.
    ForeignHost,
    /// The request comes from a web page that may not call the gate.
    ForeignOrigin,
    /// A task that the request names is none of this actor's: forged, somebody else's, or not a task's id at all.
    NoSuchTask,
    /// The same, of a client that did not say that it knows tasks: which the modern era tells first.
    TasksNotDeclared,
    /// The same, by a method that the modern era does not have any more.
    NoSuchMethod,
    /// A request that does something to a task was sent and no trustworthy answer came.
    TaskActLost,
    /// No bearer token.
    NoToken,
    /// The token is not acceptable. `detail` is safe to show.
    BadToken {
        /// For the client.
        detail: String,
    },
    /// The keys that tokens are checked with could not be had.
    KeysUnavailable,
    /// The upstream itself did not accept the forwarded token.
    UpstreamUnauthorized {
        /// The scopes that its challenge named.
        scope: Option<String>,
    },
    /// The upstream itself wants more scopes than the forwarded token has.
    UpstreamForbidden {
        /// The scopes that its challenge named.
        scope: Option<String>,
    },
    /// The actor lacks scopes.
    MissingScope {
        /// All scopes that the call needs.
        needed: Vec<String>,
        /// Whether the policy wants a tool error rather than a challenge.
        as_tool_error: bool,
    },
    /// The policy does not name the operation.
    NotInPolicy,
    /// The policy names the operation and denies it.
    DeniedByPolicy,
    /// The operation's rule does not allow these arguments.
    ArgumentRule,
    /// The calls inside a call that runs others cannot be read in one way only.
    InnerCalls {
        /// For the client.
        detail: String,
    },
    /// A path that is not in its normal form: a backend may read another one in it.
    PathNotNormal {
        /// For the client.
        detail: String,
    },
    /// The request asks for another method than its request line says.
    MethodOverride,
    /// The request names a tenant that is not the actor's, where nothing can be taken out of it.
    ForeignTenant,
    /// A request towards somebody else's API does not say who calls, or says it in a way that is not known.
    CallerUnknown {
        /// For the client.
        detail: String,
    },
    /// A body that does not follow its own media type, so that a backend may read something else in it.
    BodyUnreadable {
        /// For the client.
        detail: String,
    },
    /// No such endpoint.
    NoSuchEndpoint,
    /// The endpoint does not take this HTTP method.
    MethodNotAllowed {
        /// The methods that it takes, as `Allow` lists them.
        allow: String,
    },
    /// A mutation without a key.
    KeyRequired {
        /// Where it belongs, in words.
        place: String,
    },
    /// The key is not 1 to 128 printable ASCII characters.
    KeyInvalid {
        /// For the client.
        detail: String,
    },
    /// Two places name different keys.
    KeyAmbiguous {
        /// For the client.
        detail: String,
    },
    /// The key was used with other arguments.
    PayloadMismatch {
        /// When the key was first seen.
        first_seen: Timestamp,
    },
    /// The key is another user's. On the wire it reads as [`Refusal::PayloadMismatch`] does.
    KeyOfAnotherUser {
        /// When the key was first seen.
        first_seen: Timestamp,
    },
    /// The first call is still running.
    InFlight {
        /// When it began.
        first_seen: Timestamp,
        /// When a retry may find its answer.
        retry_after: Duration,
    },
    /// An attempt may have run and its answer got lost.
    OutcomeUnknown {
        /// When the key was first seen.
        first_seen: Option<Timestamp>,
        /// When a retry would run again, where the backend honours the key.
        retry_after: Option<Duration>,
    },
    /// It ran, and its answer was not kept.
    AnswerNotKept {
        /// When the key was first seen.
        first_seen: Timestamp,
    },
    /// The first answer is there, and its being given again could not be written down.
    ReplayNotRecorded {
        /// When the key was first seen.
        first_seen: Timestamp,
    },
    /// The stored answer is of a kind that this client cannot take.
    AnswerNotForClient {
        /// When the key was first seen.
        first_seen: Timestamp,
    },
    /// Another key carried the same arguments a moment ago.
    PossibleDuplicate {
        /// The earlier key.
        earlier_key: String,
        /// When it was first seen.
        first_seen: Timestamp,
    },
    /// The upstream could not be reached: nothing was sent.
    UpstreamUnreachable,
    /// A request that is no call could not be carried to the upstream, or no response came.
    NoGateway,
    /// The upstream answered that it did not run the call.
    ExecutionFailed {
        /// For the client: the upstream's own short reason, redacted.
        detail: Option<String>,
    },
    /// A read was sent and no trustworthy answer came. Nothing was changed by it.
    ReadFailed,
    /// The claim could not be stored; nothing was sent.
    StoreUnavailable,
    /// A worker's sign of life comes too late: its lease has lapsed, or its time is over.
    LeaseLost,
    /// A worker reports by an attempt that does not have the claim.
    AttemptOver,
    /// What a worker reported could not be stored: it must report again.
    ReportNotStored,
    /// The gate has no room for another call.
    Overloaded,
    /// The gate is about to stop, and takes no new calls.
    Draining,
    /// The gate itself failed.
    Internal,
}

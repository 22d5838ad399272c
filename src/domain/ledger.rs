//! The ledger of claims: who may run a call, and what came of it. **The only place that decides this.**
//!
//! Promises: within one retention window the upstream is called at most once for one claim, unless the earlier
//! attempt certainly did not run, or the operation says that the backend itself honours the key. A claim whose
//! earlier attempt may have run never becomes failed.
//!
//! Absent on purpose: clocks, storage, transport. [`admit`], [`settle`], [`renew`], [`report`] and [`resolve`] take the
//! row as it stands and say what to write; the store only inserts if absent, reads, and compares-and-swaps.

mod admit;
mod claim;
mod inquiry;
mod settle;
mod terms;
mod worker;

pub use admit::{Admission, Ask, AskedRound, Conflict, abandon, admit};
pub use claim::{Claim, ClaimId, Draft, Expect, Expects, Round, RoundId, Status};
pub use inquiry::{may_ask_in, take_turn};
pub use settle::{Came, Held, Resolution, ResolveFault, Settling, comes_to, proven, renew, resolve, settle};
pub use terms::{Attempt, AttemptKind, Downstream, Terms};
pub use worker::{Report, Sign, hand_out, report, sign};

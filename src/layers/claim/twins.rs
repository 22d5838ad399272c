//! The look-out for the same arguments under another key.
//!
//! Promises: what the policy says of a twin is carried out, for calls and for jobs alike: it is told of, or refused with
//! the earlier key.
//!
//! Absent on purpose: certainty. Two that come at the same moment over two gates may both be the first.

use tracing::error;

use super::Clerk;
use crate::domain::chain::Chain;
use crate::domain::ledger::{Ask, ClaimId};
use crate::domain::policy::{Duplicate, Mutation as MutationRule};
use crate::domain::refusal::Refusal;
use crate::store::TwinOf;

impl Clerk {
    /// The earlier key of a twin, where the policy looks out for one.
    pub(super) async fn look_out(
        &self,
        id: &ClaimId,
        ask: &Ask,
        rule: &MutationRule,
    ) -> Result<Option<String>, Refusal> {
        let Some(twin) = rule.twin() else { return Ok(None) };
        let of = TwinOf {
            id: id.clone(),
            user: ask.facts.user_id.clone(),
            args_hashes: ask.accepted_hashes.clone(),
            window: twin.window,
        };
        let found = self.store.twin(&of).await.map_err(|fault| {
            error!(error = %Chain(&fault), "The store failed.");
            Refusal::StoreUnavailable
        })?;
        match (found, twin.then) {
            (None, _) => Ok(None),
            (Some(earlier), Duplicate::Flag) => Ok(Some(earlier.key)),
            (Some(earlier), Duplicate::Refuse) => {
                Err(Refusal::PossibleDuplicate { earlier_key: earlier.key, first_seen: earlier.created_at })
            }
        }
    }
}

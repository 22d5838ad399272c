//! The rules that are explored: the ledger's own, and each of them broken in one way.
//!
//! Promises: [`Real`] adds nothing of its own, so that what holds of it holds of `domain/ledger` and of what `Store` and
//! the exchange promise around it.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a broken rule changes one case and leaves the others as they are"
)]

use oncegate::domain::ledger::{
    Admission, Ask, Attempt, Came, Claim, Draft, Expect, Held, Resolution, ResolveFault, Settling, Terms,
    abandon, admit, renew, resolve, settle,
};
use oncegate::domain::time::Timestamp;

/// Who may run, what may be written, what the store applies, what the gate sends.
pub(super) trait Rules {
    fn admit(&self, seen: Option<&Claim>, ask: &Ask, now: Timestamp, terms: &Terms) -> Admission {
        admit(seen, ask, now, terms)
    }

    fn settle(&self, seen: Option<&Claim>, held: &Held, came: &Came, terms: &Terms) -> Settling {
        settle(seen, held, came, terms)
    }

    fn renew(&self, seen: &Claim, attempt: &Attempt, terms: &Terms) -> Option<(Expect, Draft)> {
        renew(seen, attempt, terms.lease)
    }

    fn abandon(&self, row: &Claim, now: Timestamp, _terms: &Terms) -> Option<(Expect, Draft)> {
        abandon(row, now)
    }

    fn resolve(
        &self,
        row: &Claim,
        resolution: &Resolution,
        now: Timestamp,
        terms: &Terms,
    ) -> Result<(Expect, Draft), ResolveFault> {
        resolve(row, resolution, now, terms.ttl)
    }

    /// Whether the store applies a write over `row`.
    fn applies(&self, row: Option<&Claim>, expect: Expect) -> bool {
        row.map_or(Expect::Absent, |row| Expect::Revision(row.revision)) == expect
    }

    /// The row that it makes.
    fn row(&self, draft: &Draft, now: Timestamp, expect: Expect) -> Claim {
        draft.at(now, expect)
    }

    /// Whether an attempt whose time ends at `deadline` is sent.
    fn sends(&self, now: Timestamp, deadline: Timestamp) -> bool {
        now < deadline
    }

    /// Whether an attempt is sent whose claim was not confirmed.
    fn sends_unconfirmed(&self) -> bool {
        false
    }

    /// Whether a revision that was written over never comes back.
    fn forgets_no_revision(&self) -> bool {
        true
    }

    /// The row that an attempt settles over which was not confirmed and of which nothing is found.
    fn unwritten(&self, claim: Claim) -> Claim {
        Claim { revision: -1, ..claim }
    }
}

/// The ledger as it is.
pub(super) struct Real;

impl Rules for Real {}

/// The ledger, broken on purpose.
pub(super) mod broken {
    use oncegate::domain::ledger::{AttemptKind, Status};
    use oncegate::domain::time::When;

    use super::{
        Admission, Ask, Attempt, Came, Claim, Draft, Expect, Held, Resolution, ResolveFault, Rules, Settling,
        Terms, Timestamp, abandon, admit, renew, resolve, settle,
    };

    /// The store writes over whatever stands there.
    pub(in super::super) struct IgnoresTheRevision;
    impl Rules for IgnoresTheRevision {
        fn applies(&self, _: Option<&Claim>, _: Expect) -> bool {
            true
        }

        fn forgets_no_revision(&self) -> bool {
            false
        }
    }

    /// A call that was not answered in time is taken for one that did not run.
    pub(in super::super) struct ReleasesOnTimeout;
    impl Rules for ReleasesOnTimeout {
        fn settle(&self, seen: Option<&Claim>, held: &Held, came: &Came, terms: &Terms) -> Settling {
            settle(seen, held, if *came == Came::Unknown { &Came::NotRun } else { came }, terms)
        }
    }

    /// A lapsed lease frees the key.
    pub(in super::super) struct TakesALapsedLeaseForFree;
    impl Rules for TakesALapsedLeaseForFree {
        fn abandon(&self, row: &Claim, now: Timestamp, terms: &Terms) -> Option<(Expect, Draft)> {
            let freed = |draft| Draft { status: Status::Failed, expires_at: When::In(terms.ttl), ..draft };
            abandon(row, now).map(|(expect, draft)| (expect, freed(draft)))
        }
    }

    /// Whoever meets a lapsed lease takes the claim over.
    pub(in super::super) struct TakesOverByAge;
    impl Rules for TakesOverByAge {
        fn admit(&self, seen: Option<&Claim>, ask: &Ask, now: Timestamp, terms: &Terms) -> Admission {
            let met = admit(seen, ask, now, terms);
            let (Admission::Abandon { expect, .. }, Some(row)) = (&met, seen) else { return met };
            match admit(None, ask, now, terms) {
                Admission::Run { mut draft, attempt, .. } => {
                    draft.created_at = Some(row.created_at);
                    Admission::Run { expect: *expect, draft, attempt }
                }
                other => other,
            }
        }
    }

    /// Whoever once owned the claim settles it.
    pub(in super::super) struct SettlesAnothersClaim;
    impl Rules for SettlesAnothersClaim {
        fn settle(&self, seen: Option<&Claim>, held: &Held, came: &Came, terms: &Terms) -> Settling {
            let Some(row) = seen else { return settle(seen, held, came, terms) };
            let own = Claim { attempt_id: held.attempt.id, status: Status::InFlight, ..row.clone() };
            settle(Some(&own), held, came, terms)
        }
    }

    /// What the backend says of a re-run is taken for the first attempt's.
    pub(in super::super) struct BelievesARerun;
    impl Rules for BelievesARerun {
        fn settle(&self, seen: Option<&Claim>, held: &Held, came: &Came, terms: &Terms) -> Settling {
            let attempt = Attempt { kind: AttemptKind::First, ..held.attempt.clone() };
            settle(seen, &Held { attempt, ..held.clone() }, came, terms)
        }
    }

    /// A retry takes over long after the backend forgot the key.
    pub(in super::super) struct ForgetsTheRetention;
    impl Rules for ForgetsTheRetention {
        fn admit(&self, seen: Option<&Claim>, ask: &Ask, now: Timestamp, terms: &Terms) -> Admission {
            let young =
                seen.map(|row| Claim { first_sent_at: row.first_sent_at.map(|_| now), ..row.clone() });
            admit(young.as_ref(), ask, now, terms)
        }
    }

    /// A new row begins at revision 1.
    pub(in super::super) struct CountsFromOne;
    impl Rules for CountsFromOne {
        fn row(&self, draft: &Draft, now: Timestamp, expect: Expect) -> Claim {
            let row = draft.at(now, expect);
            if expect == Expect::Absent { Claim { revision: 1, ..row } } else { row }
        }

        fn forgets_no_revision(&self) -> bool {
            false
        }
    }

    /// An attempt is sent however late it is.
    pub(in super::super) struct SendsTooLate;
    impl Rules for SendsTooLate {
        fn sends(&self, _: Timestamp, _: Timestamp) -> bool {
            true
        }
    }

    /// A claim that was not confirmed is taken for one that is committed.
    pub(in super::super) struct SendsUnconfirmed;
    impl Rules for SendsUnconfirmed {
        fn sends_unconfirmed(&self) -> bool {
            true
        }
    }

    /// A claim of which nothing is found is settled over the revision that it would have had.
    pub(in super::super) struct GuessesARevision;
    impl Rules for GuessesARevision {
        fn unwritten(&self, claim: Claim) -> Claim {
            claim
        }
    }

    /// A person may release what may still be running.
    pub(in super::super) struct ReleasesTooEarly;
    impl Rules for ReleasesTooEarly {
        fn resolve(
            &self,
            row: &Claim,
            resolution: &Resolution,
            now: Timestamp,
            terms: &Terms,
        ) -> Result<(Expect, Draft), ResolveFault> {
            let forced = Resolution::Released { force: true };
            let released = matches!(resolution, Resolution::Released { .. });
            resolve(row, if released { &forced } else { resolution }, now, terms.ttl)
        }
    }

    /// An unknown outcome is forgotten with everything else.
    pub(in super::super) struct LetsTheUnknownExpire;
    impl Rules for LetsTheUnknownExpire {
        fn settle(&self, seen: Option<&Claim>, held: &Held, came: &Came, terms: &Terms) -> Settling {
            match settle(seen, held, came, terms) {
                Settling::Write { expect, mut draft } if draft.status == Status::Unknown => {
                    draft.expires_at = When::In(terms.ttl);
                    Settling::Write { expect, draft }
                }
                other => other,
            }
        }
    }

    /// A renewal claims back what was settled.
    pub(in super::super) struct RenewsWhatIsSettled;
    impl Rules for RenewsWhatIsSettled {
        fn renew(&self, seen: &Claim, attempt: &Attempt, terms: &Terms) -> Option<(Expect, Draft)> {
            let own = Claim { status: Status::InFlight, attempt_id: attempt.id, ..seen.clone() };
            renew(&own, attempt, terms.lease)
        }
    }

    /// A claim that nobody owns any more is left as it is.
    pub(in super::super) struct LeavesTheDead;
    impl Rules for LeavesTheDead {
        fn abandon(&self, _: &Claim, _: Timestamp, _: &Terms) -> Option<(Expect, Draft)> {
            None
        }

        fn admit(&self, seen: Option<&Claim>, ask: &Ask, now: Timestamp, terms: &Terms) -> Admission {
            match admit(seen, ask, now, terms) {
                Admission::Abandon { .. } => Admission::Unknown { take_over_in: None },
                other => other,
            }
        }

        fn resolve(
            &self,
            row: &Claim,
            resolution: &Resolution,
            now: Timestamp,
            terms: &Terms,
        ) -> Result<(Expect, Draft), ResolveFault> {
            if row.status == Status::InFlight {
                return Err(ResolveFault::NotUnknown(row.status));
            }
            resolve(row, resolution, now, terms.ttl)
        }
    }
}

//! The table of refusals, row by row: what must hold of each, whichever it is.

use std::time::Duration;

use oncegate::domain::audit::Executed;
use oncegate::domain::policy::GATE_REASONS;
use oncegate::domain::refusal::Refusal;
use oncegate::domain::time::Timestamp;
use oncegate::wire::{Retry, Shape, row};

const THEN: Timestamp = Timestamp::from_micros(1);

pub(crate) fn every_refusal() -> Vec<Refusal> {
    let detail = || "a detail".to_owned();
    let (first_seen, wait) = (THEN, Duration::from_secs(1));
    vec![
        Refusal::NotJson { detail: detail() },
        Refusal::NotOneMessage { detail: detail() },
        Refusal::BodyTooLarge { limit: 1 },
        Refusal::UnsupportedMedia { detail: detail() },
        Refusal::BodyCut,
        Refusal::VersionMissing,
        Refusal::HeaderMismatch { header: detail(), detail: detail() },
        Refusal::NoSuchSession,
        Refusal::ForeignHost,
        Refusal::ForeignOrigin,
        Refusal::NoSuchTask,
        Refusal::TasksNotDeclared,
        Refusal::NoSuchMethod,
        Refusal::TaskActLost,
        Refusal::NoSuchEvent,
        Refusal::NoToken,
        Refusal::BadToken { detail: detail() },
        Refusal::KeysUnavailable,
        Refusal::UpstreamUnauthorized { scope: None },
        Refusal::UpstreamForbidden { scope: None },
        Refusal::MissingScope { needed: vec!["a".into(), "b".into()], as_tool_error: false },
        Refusal::MissingScope { needed: vec!["a".into(), "b".into()], as_tool_error: true },
        Refusal::NotInPolicy,
        Refusal::DeniedByPolicy,
        Refusal::ArgumentRule,
        Refusal::InnerCalls { detail: detail() },
        Refusal::NoSuchEndpoint,
        Refusal::MethodNotAllowed { allow: "POST".into() },
        Refusal::PathNotNormal { detail: detail() },
        Refusal::MethodOverride,
        Refusal::ForeignTenant,
        Refusal::CallerUnknown { detail: detail() },
        Refusal::BodyUnreadable { detail: detail() },
        Refusal::KeyRequired { place: detail() },
        Refusal::KeyInvalid { detail: detail() },
        Refusal::KeyAmbiguous { detail: detail() },
        Refusal::PayloadMismatch { first_seen },
        Refusal::KeyOfAnotherUser { first_seen },
        Refusal::InFlight { first_seen, retry_after: wait },
        Refusal::OutcomeUnknown { first_seen: Some(first_seen), retry_after: None },
        Refusal::OutcomeUnknown { first_seen: Some(first_seen), retry_after: Some(wait) },
        Refusal::AnswerNotKept { first_seen },
        Refusal::ReplayNotRecorded { first_seen },
        Refusal::AnswerNotForClient { first_seen },
        Refusal::PossibleDuplicate { earlier_key: detail(), first_seen },
        Refusal::UpstreamUnreachable,
        Refusal::NoGateway,
        Refusal::ExecutionFailed { detail: None },
        Refusal::ReadFailed,
        Refusal::StoreUnavailable,
        Refusal::LeaseLost,
        Refusal::AttemptOver,
        Refusal::ReportNotStored,
        Refusal::Overloaded,
        Refusal::Draining,
        Refusal::Internal,
    ]
}

#[track_caller]
fn check(holds: impl Fn(&Refusal) -> bool) {
    let broken: Vec<_> = every_refusal().into_iter().filter(|refusal| !holds(refusal)).collect();
    assert!(broken.is_empty(), "it does not hold of {broken:?}");
}

#[test]
fn no_policy_can_use_the_word_that_the_audit_has_for_a_refusal() {
    check(|refusal| GATE_REASONS.contains(&row(refusal).reason));
}

#[test]
fn whoever_may_have_run_is_never_told_to_try_under_a_new_key() {
    check(|refusal| row(refusal).executed == Executed::No || row(refusal).retry != Retry::NewKey);
}

#[test]
fn only_what_is_no_models_problem_has_a_status_of_its_own() {
    check(|refusal| match row(refusal).shape {
        Shape::Told { .. } | Shape::Fault => true,
        // What is no call has nobody who would call again because of a status.
        Shape::Http { .. } if *refusal == Refusal::NoGateway => true,
        Shape::Http { .. } | Shape::Challenge { .. } => row(refusal).executed == Executed::No,
    });
}

#[test]
fn another_users_key_reads_like_other_arguments() {
    let (mine, anothers) = (
        row(&Refusal::PayloadMismatch { first_seen: THEN }),
        row(&Refusal::KeyOfAnotherUser { first_seen: THEN }),
    );
    assert_ne!(mine.reason, anothers.reason);
    assert_eq!(oncegate::wire::Row { reason: mine.reason, ..anothers }, mine);
}

#[test]
fn every_sentence_ends_and_every_challenge_asks_for_all_scopes() {
    check(|refusal| row(refusal).text.ends_with('.'));
    let asked = row(&Refusal::MissingScope { needed: vec!["a".into(), "b".into()], as_tool_error: false });
    assert_eq!(
        (asked.shape, asked.scopes),
        (Shape::Challenge { status: 403 }, vec!["a".to_owned(), "b".to_owned()])
    );
}

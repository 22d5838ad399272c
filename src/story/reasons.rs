//! What each reason of the audit says, in plain words.
//!
//! Promises: every reason that the gate itself writes stands here, for each decision that it may come with.
//!
//! Absent on purpose: what only the rows around it can tell (what differs, who was first). [`super::sentence`] adds that.

/// What a call was refused for.
pub(super) fn refused(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "missing_idempotency_key" => {
            "Refused: it changes something, and came without an idempotency key. Nothing ran."
        }
        "idempotency_key_invalid" => "Refused: its idempotency key is none that can be used. Nothing ran.",
        "idempotency_key_ambiguous" => "Refused: it named more than one idempotency key. Nothing ran.",
        "missing_scope" => "Refused: the token lacks a scope that this needs. Nothing ran.",
        "not_in_policy" => "Refused: no policy names this operation. Nothing ran.",
        "denied_by_policy" => "Refused: the policy denies this operation. Nothing ran.",
        "argument_rule" => "Refused: the policy does not allow it with these arguments. Nothing ran.",
        "inner_calls_unreadable" => {
            "Refused: what this tool would have run could not be read in one way only. Nothing ran."
        }
        "idempotency_payload_mismatch" => {
            "Refused: the key was already used with other arguments. Nothing ran."
        }
        "idempotency_key_of_another_user" => {
            "Refused: the key is another user's of the same tenant. Nothing ran."
        }
        "idempotency_in_flight" => {
            "Refused: the first call under this key was still running. It was not started again."
        }
        "outcome_unknown" => {
            "Refused: nobody knew whether an earlier attempt under this key ran. It was not started again."
        }
        "answer_not_kept" => "Refused: it ran before, and its answer was not kept. It was not started again.",
        "answer_not_for_client" => {
            "Refused: the first answer is a question or a task, which this client cannot take. It was not started again."
        }
        "possible_duplicate" => {
            "Refused: the same call had come a moment before under another key. Nothing ran."
        }
        "upstream_unreachable" => "Refused: no connection to the app; nothing was sent.",
        "store_unavailable" => {
            "Refused: the store was away, so that it could not be written down first. Nothing was sent."
        }
        "overloaded" => "Refused: the gate had no room for another call. Nothing ran.",
        "draining" => "Refused: the gate was about to stop. Nothing ran.",
        "execution_failed" => "Refused: the app said that it did not run it.",
        "lease_lost" => {
            "Refused: this sign of life of the worker came after its lease, or its time, was over."
        }
        "attempt_over" => "Refused: the worker reported by an attempt that does not have the claim any more.",
        "internal_error" => "The gate itself failed. Whether it ran is not known.",
        "malformed_request" => "Refused: the request could not be read. Nothing ran.",
        "body_too_large" => "Refused: the body was too large. Nothing ran.",
        "unsupported_media_type" => "Refused: a body of this type cannot be checked. Nothing ran.",
        "header_mismatch" => {
            "Refused: a header that mirrors the body said something else than the body. Nothing ran."
        }
        "no_such_session" => "Refused: the session is none of this caller's, or is over. Nothing ran.",
        "no_such_task" => "Refused: the task is none of this caller's. Nothing ran.",
        "host_not_allowed" => "Refused: it was sent to another host. Nothing ran.",
        "origin_not_allowed" => "Refused: it came from a web page that may not call here. Nothing ran.",
        "no_such_event" => {
            "Refused: it wanted to go on with a stream that this caller never had. Nothing ran."
        }
        "unauthenticated" => "Refused: it came without a token. Nothing ran.",
        "invalid_token" => "Refused: its token was not accepted. Nothing ran.",
        "keys_unavailable" => "Refused: the keys that tokens are checked with could not be had. Nothing ran.",
        "upstream_unauthorized" => "Refused: the app did not accept the token. Nothing ran.",
        "upstream_forbidden" => "Refused: the app wants more scopes than the token has. Nothing ran.",
        "no_such_endpoint" => "Refused: there is nothing at this path. Nothing ran.",
        "method_not_allowed" => "Refused: the path does not take this HTTP method. Nothing ran.",
        "path_not_normal" => "Refused: the path could be read in more than one way. Nothing ran.",
        "method_override" => "Refused: it asked for another HTTP method than its own. Nothing ran.",
        "foreign_tenant" => "Refused: it named a tenant that the token is not for. Nothing ran.",
        "caller_unknown" => "Refused: it was not known who called. Nothing ran.",
        "read_failed" => "Refused: the app gave no usable answer to this read.",
        "no_gateway" => "Refused: the app gave no response.",
        _ => return None,
    })
}

/// What came of a call that was let go.
pub(super) fn let_go(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "outcome_unknown" => {
            "It was sent to the app, and no answer came that can be trusted: nobody knew then whether it ran."
        }
        "abandoned" => {
            "The gate that ran it was gone, or was paused for too long: nobody knew then whether it ran. Whoever found its \
             claim wrote this."
        }
        "late_answer" => {
            "The answer of an attempt came after its claim had moved on. The claim stayed as it was."
        }
        "lease_lost" => "The worker's lease was over before it reported.",
        "attempt_over" => "The worker reported after the claim had moved on.",
        "resolved_completed" => "A person said that it ran.",
        "resolved_released" => "A person said that it did not run. The key was free to try again.",
        "reconciled_completed" => "The app was asked, and said that it ran.",
        "reconciled_released" => {
            "The app was asked, and said that it did not run. The key was free to try again."
        }
        "possible_duplicate" => "It ran, and looked like the same call of a moment before under another key.",
        "input_required" => "The app asked the caller for something first. The call goes on with the answer.",
        "unkeyed" => "It ran without a key, and so without a claim.",
        "client_gone" => "The caller hung up before it had its answer.",
        "upstream_unreachable" => {
            "No connection to the app: nothing was sent. The key was free to try again."
        }
        "execution_failed" => "The app said that it did not run it. The key was free to try again.",
        "store_unavailable" => {
            "The store did not confirm the claim, so nothing was sent. The key was free to try again."
        }
        "upstream_unauthorized" => {
            "The app did not accept the token, and did not run it. The key was free to try again."
        }
        "upstream_forbidden" => {
            "The app wants more scopes than the token has, and did not run it. The key was free to try again."
        }
        "no_such_session" => {
            "The app does not know the session any more, and did not run it. The key was free to try again."
        }
        "method_override" => {
            "While it went out it was seen to ask for another HTTP method than its own. It was cut before it was whole."
        }
        "foreign_tenant" => {
            "While it went out it was seen to name a tenant that the token is not for. It was cut before it was whole."
        }
        "malformed_request" => {
            "While it went out its body was seen to be unreadable. It was cut before it was whole."
        }
        "read_failed" => "It was sent to the app, which gave no usable answer. It only reads.",
        "no_gateway" => "It was sent to the app, and no response came: nobody knows whether it ran.",
        "answer_not_kept" => "It ran. Its answer was not kept.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{let_go, refused};
    use crate::domain::policy::GATE_REASONS;

    #[test]
    fn every_reason_that_the_gate_writes_has_its_sentence() {
        for reason in GATE_REASONS {
            assert!(refused(reason).or_else(|| let_go(reason)).is_some(), "{reason} has no sentence");
        }
    }

    #[test]
    fn a_word_that_the_policy_made_has_none() {
        assert_eq!((refused("not_found_or_foreign"), let_go("not_found_or_foreign")), (None, None));
    }
}

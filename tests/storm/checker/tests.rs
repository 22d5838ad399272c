//! The checker, tried on histories that are written by hand: one in which all is well, and the same with one thing wrong.

use std::time::Duration;

use super::check;
use crate::history::{Call, Came, Death, Deed, Events, How, Name, Row, Sample, Told};

const ANSWER: &str = r#"{"content":[{"text":"run-1","type":"text"}],"isError":false}"#;

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn name(tool: &str) -> Name {
    Name { tenant: "acme".into(), tool: tool.into(), key: "k-7".into() }
}

fn call(tool: &str, trace: &str, sent: u64, came: Came) -> Call {
    Call {
        trace: trace.into(),
        tenant: "acme".into(),
        user: "ann".into(),
        tool: tool.into(),
        key: Some("k-7".into()),
        order: "7".into(),
        scoped: true,
        gate: 0,
        sent: at(sent),
        heard: at(sent + 50),
        came,
        last: false,
    }
}

fn deed(tool: &str, trace: &str, millis: u64, run: &str) -> Deed {
    let forwarded = if tool == "charge" { "acme/charge/k-7" } else { "k-7" };
    Deed {
        at: at(millis),
        trace: trace.into(),
        tenant: "acme".into(),
        user: "ann".into(),
        tool: tool.into(),
        forwarded: Some(forwarded.into()),
        order: "7".into(),
        run: run.into(),
        effect: true,
        did: "answers",
    }
}

fn answer(replayed: bool) -> Came {
    Came::Answer { run: "run-1".into(), body: ANSWER.into(), replayed, recorded: true }
}

fn refusal(code: &str, executed: &str) -> Came {
    Came::Refusal { code: code.into(), executed: executed.into(), retry_after: None }
}

fn row(tool: &str, status: &str, revision: i64, attempt: &str) -> Row {
    let response = (status == "completed").then(|| format!("head\n{ANSWER}"));
    Row { name: name(tool), status: status.into(), revision, attempt: attempt.into(), response }
}

fn sample(millis: u64, row: Row) -> Sample {
    Sample { asked: at(millis), at: at(millis + 5), row }
}

fn told(tool: &str, trace: &str, decision: &str) -> Told {
    Told {
        tenant: "acme".into(),
        tool: tool.into(),
        key: Some("k-7".into()),
        trace: trace.into(),
        decision: decision.into(),
        reason: String::new(),
        executed: "yes".into(),
        attempt: "a".into(),
    }
}

/// A call, its answer, and its replay.
fn well(tool: &str) -> Events {
    Events {
        intents: 1,
        calls: vec![call(tool, "t1", 100, answer(false)), call(tool, "t2", 300, answer(true))],
        deeds: vec![deed(tool, "t1", 120, "run-1")],
        samples: vec![
            sample(110, row(tool, "in_flight", 1, "a")),
            sample(200, row(tool, "completed", 2, "a")),
        ],
        claims: vec![row(tool, "completed", 2, "a")],
        audit: vec![told(tool, "t1", "allowed"), told(tool, "t2", "replayed")],
        ended: true,
        ..Events::default()
    }
}

/// What the checker says once this is done to a history in which all is well.
fn rules(tool: &str, change: impl FnOnce(&mut Events)) -> Vec<&'static str> {
    let mut events = well(tool);
    change(&mut events);
    let mut rules: Vec<_> = check(&events).violations.into_iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

fn breaks(rule: &str, tool: &str, change: impl FnOnce(&mut Events)) {
    let found = rules(tool, change);
    assert!(found.contains(&rule), "{rule:?} is not among {found:?}");
}

#[test]
fn a_history_in_which_all_is_well_is_clean() {
    for tool in ["pay", "charge"] {
        assert_eq!(rules(tool, |_| ()), Vec::<&str>::new());
    }
}

#[test]
fn a_second_effect_is_found_for_every_kind_of_tool() {
    for tool in ["pay", "charge"] {
        breaks("an intent has one effect at most", tool, |events| {
            events.deeds.push(deed(tool, "t2", 320, "run-2"));
        });
    }
}

#[test]
fn another_forwarded_key_is_found() {
    breaks("all of an intent goes out with its one key", "charge", |events| {
        events.deeds[0].forwarded = Some("acme/charge/k-8".into());
    });
}

#[test]
fn a_call_that_was_done_and_said_not_to_have_run_is_found() {
    breaks("what did not run was not done", "pay", |events| {
        events.calls[0].came = refusal("upstream_unreachable", "no");
    });
}

#[test]
fn an_execution_that_never_was_is_found() {
    breaks("what ran was done", "pay", |events| {
        events.deeds.clear();
        events.calls[1].came = refusal("answer_not_kept", "yes");
    });
}

#[test]
fn whatever_is_forwarded_without_scope_or_key_is_found() {
    breaks("what is not allowed is not forwarded", "pay", |events| events.calls[0].scoped = false);
    breaks("what is not allowed is not forwarded", "pay", |events| events.calls[0].key = None);
}

#[test]
fn an_answer_to_other_arguments_or_another_user_is_found() {
    let rule = "an answer is to this key, these arguments, this user";
    breaks(rule, "pay", |events| events.calls[1].order = "7-other".into());
    breaks(rule, "pay", |events| events.calls[1].user = "bob".into());
    breaks(rule, "pay", |events| events.deeds[0].order = "8".into());
}

#[test]
fn an_answer_in_other_words_is_found() {
    breaks("every answer of a key is the same", "pay", |events| {
        events.calls[1].came =
            Came::Answer { run: "run-1".into(), body: "{}".into(), replayed: true, recorded: true };
    });
}

#[test]
fn a_replay_without_its_mark_is_found() {
    breaks("an answer that is not the call's own is marked as replayed", "pay", |events| {
        events.calls[1].came = answer(false);
    });
}

#[test]
fn a_refusal_after_the_answer_was_heard_is_found_unless_the_store_was_away() {
    let rule = "once an answer was heard, nobody hears anything else";
    breaks(rule, "pay", |events| events.calls[1].came = refusal("outcome_unknown", "maybe"));
    let away = rules("pay", |events| events.calls[1].came = refusal("store_unavailable", "maybe"));
    assert_eq!(away, Vec::<&str>::new());
}

#[test]
fn a_response_that_is_neither_answer_nor_refusal_is_found() {
    breaks("a whole response is an answer or a refusal", "pay", |events| {
        events.calls[1].came = Came::Garbled("<p>".into());
    });
}

#[test]
fn arrows_that_do_not_exist_are_found() {
    let rule = "a claim moves only along the arrows";
    for status in ["in_flight", "unknown", "failed", "completed"] {
        breaks(rule, "pay", |events| events.samples.push(sample(400, row("pay", status, 3, "a"))));
    }
    breaks(rule, "pay", |events| events.samples.push(sample(400, row("pay", "completed", 3, "b"))));
    // Another attempt begins with a write of its own.
    breaks(rule, "pay", |events| events.samples[0].row.attempt = "z".into());
}

#[test]
fn as_many_arrows_lie_between_as_the_revision_has_risen_by() {
    let from_unknown = |tool: &str, writes: i64| {
        rules(tool, |events| {
            events.samples[0].row = row(tool, "unknown", 2 - writes, "z");
        })
    };
    // Own answer of another attempt; then by way of in flight, where the tool is idempotent; then by way of failed.
    assert_ne!(from_unknown("charge", 1), Vec::<&str>::new());
    assert_eq!(from_unknown("charge", 2), Vec::<&str>::new());
    assert_ne!(from_unknown("pay", 2), Vec::<&str>::new());
    assert_eq!(from_unknown("pay", 3), Vec::<&str>::new());
}

#[test]
fn a_row_that_changes_without_a_higher_revision_is_found() {
    breaks("a row that changes has a higher revision", "pay", |events| {
        events.samples[1].row.revision = 1;
    });
}

#[test]
fn an_answer_that_is_not_stored_when_it_is_heard_is_found() {
    breaks("the answer is stored before the client hears it", "pay", |events| {
        events.samples[1] = sample(200, row("pay", "in_flight", 2, "a"));
    });
    breaks("the answer is stored before the client hears it", "pay", |events| events.claims.clear());
}

#[test]
fn a_claim_that_failed_although_it_was_done_is_found() {
    breaks("what is failed was not done", "pay", |events| {
        events.calls.clear();
        events.samples = vec![sample(200, row("pay", "failed", 2, "a"))];
    });
}

#[test]
fn what_stays_in_flight_is_found() {
    breaks("nothing stays in flight for ever", "pay", |events| {
        events.claims[0].status = "in_flight".into();
    });
    breaks("nothing stays in flight for ever", "pay", |events| events.stranded.push(name("pay")));
}

#[test]
fn a_stored_answer_that_the_upstream_never_gave_is_found() {
    breaks("a stored answer is the upstream's, to that key", "pay", |events| {
        events.claims[0].response = Some("head\n\"run-12\"".into());
    });
}

#[test]
fn a_key_that_cannot_be_brought_to_an_end_is_found() {
    let last = |came| Call { last: true, ..call("charge", "t3", 900, came) };
    for came in [refusal("request_in_flight", "maybe"), refusal("outcome_unknown", "maybe")] {
        breaks("every key can be brought to an end", "charge", |events| events.calls.push(last(came)));
    }
    breaks("every key can be brought to an end", "charge", |events| {
        events.calls.push(last(Came::Nothing("broken")));
    });
}

#[test]
fn an_answer_without_its_row_is_found_before_the_end_too() {
    for missing in [0, 1] {
        breaks("what was answered has its row", "pay", |events| {
            events.ended = false;
            events.audit.remove(missing);
        });
    }
}

#[test]
fn a_refusal_without_its_row_is_found() {
    breaks("what was answered has its row", "pay", |events| {
        events.calls.push(call("pay", "t0", 20, refusal("request_in_flight", "maybe")));
    });
}

#[test]
fn only_a_read_may_lose_its_row_and_only_with_its_gate() {
    let read = |events: &mut Events| events.calls.push(call("look", "t0", 20, answer(false)));
    breaks("what was answered has its row", "pay", read);
    let killed = rules("pay", |events| {
        read(events);
        events.deaths.push(Death { gate: 0, at: at(90), how: How::Killed });
    });
    assert_eq!(killed, Vec::<&str>::new());
}

#[test]
fn an_answer_that_was_not_recorded_and_is_not_stored_later_is_found() {
    let unrecorded = |events: &mut Events, status: &str| {
        events.calls.truncate(1);
        events.audit.truncate(1);
        if let Came::Answer { recorded, .. } = &mut events.calls[0].came {
            *recorded = false;
        }
        events.samples.truncate(1);
        events.claims[0] = row("pay", status, 2, "a");
    };
    assert_eq!(rules("pay", |events| unrecorded(events, "completed")), Vec::<&str>::new());
    breaks("what was answered is stored in the end", "pay", |events| unrecorded(events, "unknown"));
}

#[test]
fn an_attempt_that_nobody_wrote_down_is_found() {
    breaks("every attempt has its row", "pay", |events| {
        events.calls.remove(0);
        events.audit.remove(0);
    });
}

#[test]
fn a_decision_that_is_written_down_twice_is_found() {
    breaks("one row for one decision", "pay", |events| events.audit.push(told("pay", "t2", "replayed")));
}

#[test]
fn a_row_under_another_tenant_is_found() {
    breaks("a row is its call's", "pay", |events| events.audit[1].tenant = "beta".into());
}

#[test]
fn a_gate_that_calls_itself_drained_and_leaves_a_call_in_flight_is_found() {
    breaks("a drained gate leaves nothing in flight", "pay", |events| {
        let running = events.samples.iter().find(|sample| sample.row.status == "in_flight");
        let row = running.expect("the call was seen while it ran").row.clone();
        events.samples.push(Sample { asked: at(100), at: at(101), row });
        events.deaths.push(Death { gate: 0, at: at(105), how: How::Drained });
    });
}

#[test]
fn a_gate_that_ends_by_itself_is_found() {
    breaks("no gate ends by itself", "pay", |events| {
        events.deaths.push(Death { gate: 0, at: at(10), how: How::Itself });
    });
}

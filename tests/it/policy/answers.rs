//! What a plain answer says about whether a mutation ran; what a known provider, and a job, are taken for.

use std::time::Duration;

use oncegate::domain::ledger::Downstream;
use oncegate::domain::policy::{InFlight, Kind, Meaning, Mutation, Policy};

use super::mistakes::check as check_mistake;
use super::{mistakes, policy};

use Meaning::{Completes, Releases, Unknown};

fn with(lines: &str) -> Policy {
    policy(&table(lines))
}

fn table(lines: &str) -> String {
    format!(
        "[routes.r]\nmethod = \"POST\"\npath = \"/r\"\neffect = \"mutation\"\nscopes = [\"s\"]\n{lines}\n"
    )
}

fn mutation<'a>(policy: &'a Policy, kind: Kind, name: &str) -> &'a Mutation {
    policy.named(kind, name).and_then(|operation| operation.mutation()).expect("a mutation")
}

#[track_caller]
fn check(lines: &str, expected: &[(u16, Meaning)]) {
    let policy = with(lines);
    let answers = mutation(&policy, Kind::Route, "r").answers();
    for (status, meaning) in expected {
        assert_eq!(answers.of(*status), *meaning, "{status} with {lines:?}");
    }
}

#[test]
fn without_a_word_only_what_comes_before_the_work_releases() {
    let usual = [
        (200, Completes),
        (204, Completes),
        (303, Completes),
        (400, Completes),
        (403, Completes),
        (404, Completes),
        (409, Completes),
        (422, Completes),
        (429, Completes),
        (401, Releases),
        (405, Releases),
        (413, Releases),
        (415, Releases),
        (408, Unknown),
        (500, Unknown),
        (502, Unknown),
        (503, Unknown),
        (504, Unknown),
        (100, Unknown),
        (600, Unknown),
    ];
    check("", &usual);
}

#[test]
fn a_status_beats_a_class_and_what_is_said_beats_what_is_assumed() {
    check(
        "completes = [\"2xx\", \"4xx\"]\nreleases = [\"404\", \"429\"]",
        &[
            (200, Completes),
            (302, Unknown),
            (404, Releases),
            (429, Releases),
            (401, Releases),
            (408, Unknown),
            (410, Completes),
        ],
    );
    check("completes = [\"2xx\"]", &[(204, Completes), (302, Unknown), (400, Unknown), (401, Releases)]);
    check(
        "completes = [\"401\", \"408\", \"500\"]",
        &[(401, Completes), (408, Completes), (500, Completes), (200, Unknown)],
    );
    check("releases = [\"404\"]", &[(404, Releases), (200, Completes), (403, Completes), (415, Releases)]);
    check("releases = [\"4xx\"]", &[(404, Releases), (408, Unknown), (200, Completes), (302, Completes)]);
    check(
        "completes = [\"5xx\"]\nreleases = [\"503\"]",
        &[(500, Completes), (503, Releases), (200, Unknown)],
    );
}

#[test]
fn a_release_that_could_double_a_mutation_is_a_mistake() {
    for status in ["200", "2xx", "302", "3xx", "500", "502", "5xx"] {
        check_mistake(
            &table(&format!("releases = [\"{status}\"]")),
            &format!(
                "p.toml:6:1: \"{status}\" does not say that nothing was done, so the call could run twice; \
                 a 4xx may say so, or a 503 of an app that turns calls away before it begins"
            ),
        );
    }
    let told = mistakes::warnings(&table("releases = [\"503\"]"));
    assert_eq!(
        told,
        ["p.toml:6:1: a 503 may also come from a proxy that has sent the call on; \
          let it release only where the app alone answers so, before it begins anything (warning)"]
    );
}

#[test]
fn a_list_that_says_nothing_or_two_things_is_a_mistake() {
    check_mistake(
        &table("completes = [\"200\", \"404\"]\nreleases = [\"404\"]"),
        "p.toml:7:1: \"404\" both completes and releases; a status says one of the two",
    );
    check_mistake(
        &table("releases = []"),
        "p.toml:6:1: an empty list is easily misread; leave it out, or name a status",
    );
    for text in ["20x", "xx", "2", "2XX", "+04", "099", "1xx", "600", "22xx", ""] {
        check_mistake(
            &table(&format!("completes = [\"{text}\"]")),
            &format!(
                "p.toml:6:1: \"{text}\" is no answer's status; write \"404\" for one, \"4xx\" for all that begin so"
            ),
        );
    }
}

#[test]
fn stripe_is_taken_at_its_word_and_no_further() {
    let stripe = "provider = \"stripe\"\nforward_key = \"{digest}\"";
    check(
        stripe,
        &[
            (200, Completes),
            (400, Completes),
            (402, Completes),
            (404, Completes),
            (401, Releases),
            (409, Releases),
            (429, Releases),
            (408, Unknown),
            (500, Unknown),
            (503, Unknown),
        ],
    );
    check(&format!("{stripe}\ncompletes = [\"409\"]"), &[(409, Completes), (429, Releases), (200, Unknown)]);
    let downstream = |lines: &str| {
        let policy = with(lines);
        mutation(&policy, Kind::Route, "r").terms(Duration::ZERO).downstream
    };
    let hours = |hours| Downstream::Idempotent { retention: Duration::from_hours(hours) };
    assert_eq!(downstream(stripe), hours(24));
    assert_eq!(downstream(&format!("{stripe}\nttl = \"1h\"")), hours(1));
    assert_eq!(downstream(&format!("{stripe}\nttl = \"96h\"\ndownstream_retention = \"72h\"")), hours(72));
    assert_eq!(downstream(&format!("{stripe}\ndownstream = \"unsafe\"")), Downstream::Unsafe);
    check_mistake(
        &table("provider = \"stripe\""),
        "p.toml:6:1: an idempotent downstream needs an explicit forward_key; \
         say what the backend hears: forward_key = \"{tenant}/{tool}/{key}\"",
    );
    check_mistake(
        &table(stripe).replace("\"POST\"", "[\"POST\", \"DELETE\"]"),
        "p.toml:6:1: Stripe looks at the key of a POST only; give the other methods a route of their own, without provider",
    );
    check_mistake(
        &table("provider = \"strip\""),
        "p.toml:6:12: unknown value \"strip\"; did you mean \"stripe\"?",
    );
}

#[test]
fn a_job_has_the_terms_of_a_mutation_and_a_time_of_its_own() {
    let job = "[defaults]\nmode = \"observe\"\nin_flight = \"wait\"\n[jobs.j]\neffect = \"mutation\"\nscopes = [\"s\"]\n";
    let policy = policy(job);
    let own = mutation(&policy, Kind::Job, "j");
    assert_eq!(own.timeout(), Some(Duration::from_mins(15)));
    assert_eq!(own.in_flight(), InFlight::Refuse);
    assert!(policy.named(Kind::Job, "j").is_some_and(|job| !job.is_observed()));
    let policy = super::policy(&format!("{job}timeout = \"2h\"\nlease = \"30s\"\n"));
    let own = mutation(&policy, Kind::Job, "j");
    assert_eq!((own.timeout(), own.lease()), (Some(Duration::from_hours(2)), Duration::from_secs(30)));
    assert_eq!(mutation(&with(""), Kind::Route, "r").timeout(), None);
    check_mistake(
        "[jobs.j]\neffect = \"read\"\n",
        "p.toml:2:1: a job is a mutation; a job that changes nothing claims nothing: leave it out",
    );
    check_mistake(
        "[jobs.j]\neffect = \"mutation\"\nscopes = [\"s\"]\ntimeout = \"8d\"\n",
        "p.toml:4:1: timeout = \"8d\" makes no sense; it may be 1s to 7d",
    );
    check_mistake(
        "[jobs.j]\neffect = \"mutation\"\nscopes = [\"s\"]\nmode = \"enforce\"\n",
        "p.toml:4:1: \"mode\" has a meaning for tools, methods and routes only",
    );
}

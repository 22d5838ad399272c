//! What the policy says of files that cannot be used, word for word.

use oncegate::domain::policy::{Policy, Warning};

use super::sources;

pub(super) fn warnings(text: &str) -> Vec<String> {
    let (_, warnings) = Policy::from_sources(&sources(&[("p.toml", text)])).expect("no mistakes");
    warnings.iter().map(Warning::to_string).collect()
}

pub(super) fn mistakes(files: &[(&str, &str)]) -> Vec<String> {
    match Policy::from_sources(&sources(files)) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    }
}

/// The one mistake in a file, as the operator reads it.
#[track_caller]
pub(super) fn check(text: &str, expected: &str) {
    assert_eq!(mistakes(&[("p.toml", text)]), [expected]);
}

/// The one mistake in a mutation that has everything else it needs.
#[track_caller]
fn check_mutation(lines: &str, expected: &str) {
    check(&format!("[tools.t]\neffect = \"mutation\"\nscopes = [\"s\"]\n{lines}\n"), expected);
}

#[test]
fn an_unknown_key_is_a_mistake_with_its_place_and_the_nearest_word() {
    check(
        "[tools.t]\neffect = \"read\"\n  scope = [\"a\"]\n",
        "p.toml:3:3: unknown key \"scope\"; did you mean \"scopes\"?",
    );
}

#[test]
fn columns_count_characters() {
    check(
        "[tools]\n\"tür\" = { effect = \"read\", scpes = [\"a\"] }\n",
        "p.toml:2:28: unknown key \"scpes\"; did you mean \"scopes\"?",
    );
}

#[test]
fn an_unknown_effect_is_a_mistake_that_names_the_nearest_one() {
    check(
        "[tools.t]\neffect = \"mutate\"\nscopes = [\"a\"]\n",
        "p.toml:2:10: unknown value \"mutate\"; did you mean \"mutation\"?",
    );
}

#[test]
fn an_operation_without_an_effect_is_a_mistake() {
    check(
        "[tools.t]\nscopes = [\"a\"]\n",
        "p.toml:1:1: the key \"effect\" is missing; it may be \"read\", \"mutation\" or \"deny\"",
    );
}

#[test]
fn text_that_is_not_toml_is_a_mistake_with_its_place() {
    check("[tools.t\neffect = \"read\"\n", "p.toml:1:9: unclosed table, expected `]`");
    check(
        "[tools.t]\neffect = \"read\"\neffect = \"deny\"\n",
        "p.toml:3:1: it stands in the file twice; write what it says in one place",
    );
}

#[test]
fn a_wrong_type_is_a_mistake() {
    check_mutation("ttl = 60", "p.toml:4:7: wrong type: integer 60, where a duration like \"90s\" is due");
    check(
        "[tools.t]\neffect = \"read\"\nscopes = \"a\"\n",
        "p.toml:3:10: wrong type: string \"a\", where a list is due",
    );
    check("[tools.t]\neffect = 3\n", "p.toml:2:10: wrong type, where a string is due");
    check("[tools]\nt = 3\n", "p.toml:2:5: wrong type: integer 3, where a table is due");
    check("tools = 3\n", "p.toml:1:9: [tools.NAME] tables are due here, one for each of the tools");
}

#[test]
fn a_bad_duration_is_a_mistake_that_shows_good_ones() {
    for text in ["5", "5 m", "m", "", "-5m", "5x", "30m1h", "1m1m", "1.5h", "99999999999999999999d"] {
        check_mutation(
            &format!("ttl = \"{text}\""),
            &format!(
                "p.toml:4:7: \"{text}\" is not a duration; write it like \"90s\", \"5m\", \"48h\", \"7d\" or \"1h30m\""
            ),
        );
    }
}

#[test]
fn a_duration_that_makes_no_sense_is_a_mistake() {
    check_mutation("lease = \"0s\"", "p.toml:4:1: lease = \"0s\" makes no sense; it may be 1s to 1h");
    check_mutation("lease = \"500ms\"", "p.toml:4:1: lease = \"500ms\" makes no sense; it may be 1s to 1h");
    check_mutation("ttl = \"4000d\"", "p.toml:4:1: ttl = \"4000d\" makes no sense; it may be 1s to 366d");
    check("[defaults]\nlease = \"0s\"\n", "p.toml:2:1: lease = \"0s\" makes no sense; it may be 1s to 1h");
    check_mutation(
        "ttl = \"1h\"\nduplicate_window = \"2h\"",
        "p.toml:5:1: duplicate_window = \"2h\" makes no sense; it may be 1s to 1h",
    );
}

#[test]
fn a_mutation_without_scopes_is_a_mistake() {
    check(
        "[tools.t]\neffect = \"mutation\"\n",
        "p.toml:1:1: a mutation needs scopes; say which ones a caller must hold: scopes = [\"…\"]",
    );
    check(
        "[tools.t]\neffect = \"mutation\"\nscopes = []\n",
        "p.toml:3:1: a mutation needs at least one scope; name what a caller must hold",
    );
}

#[test]
fn only_a_tool_that_changes_something_can_destroy_something() {
    check(
        "[tools.t]\neffect = \"read\"\ndestructive = false\n",
        "p.toml:3:1: \"destructive\" has no meaning with effect = \"read\"",
    );
    check(
        "[methods.\"a/b\"]\neffect = \"mutation\"\nscopes = [\"s\"]\ndestructive = true\n",
        "p.toml:4:1: \"destructive\" has a meaning for tools only",
    );
    check_mutation("destructive = \"no\"", "p.toml:4:15: wrong type: string \"no\", where a boolean is due");
}

#[test]
fn a_tool_that_runs_others_says_where_its_calls_stand_and_nothing_of_their_effects() {
    let tool = "[tools.t]\nruns = \"tools\"\n";
    assert_eq!(mistakes(&[("p.toml", tool)]), Vec::<String>::new());
    check(
        &format!("{tool}effect = \"read\"\n"),
        "p.toml:3:1: a tool that runs others has no effect of its own; leave effect out: each tool that it runs has its own",
    );
    check("[tools.t]\nruns = \"tool\"\n", "p.toml:2:8: unknown value \"tool\"; did you mean \"tools\"?");
    check("[methods.\"a/b\"]\nruns = \"tools\"\n", "p.toml:2:1: \"runs\" has a meaning for tools only");
    for key in [
        "redact = [\"a\"]",
        "summary = [\"a\"]",
        "ttl = \"1h\"",
        "forward_argument = true",
        "destructive = true",
    ] {
        let name = key.split(' ').next().expect("a key");
        check(
            &format!("{tool}{key}\n"),
            &format!("p.toml:3:1: \"{name}\" has no meaning with runs = \"tools\""),
        );
    }
    check(
        "[tools.t]\neffect = \"read\"\nmembers = { calls = \"jobs\" }\n",
        "p.toml:3:1: \"members\" has no meaning with effect = \"read\"",
    );
    check_mutation("members = {}", "p.toml:4:1: \"members\" has no meaning with effect = \"mutation\"");
    check(
        &format!("{tool}members = {{ call = \"jobs\" }}\n"),
        "p.toml:3:13: unknown key \"call\"; did you mean \"calls\"?",
    );
    check(
        &format!("{tool}members = {{ calls = \" jobs\" }}\n"),
        "p.toml:3:1: a member needs a name; the usual ones are calls, name, arguments, results",
    );
    check(
        &format!("{tool}members = {{ name = \"Do\", arguments = \"do\" }}\n"),
        "p.toml:3:1: \"Do\" cannot be both a call's name and its arguments; look at the tool's input schema",
    );
}

#[test]
fn scopes_that_no_token_can_carry_are_mistakes() {
    check(
        "[tools.t]\neffect = \"read\"\nscopes = []\n",
        "p.toml:3:1: an empty list of scopes is easily misread; \
         leave it out of a read that every authenticated actor may call",
    );
    check(
        "[tools.t]\neffect = \"read\"\nscopes = [\"a b\"]\n",
        "p.toml:3:1: \"a b\" cannot be a scope; one scope has no blank and no quote inside",
    );
}

#[test]
fn a_key_without_meaning_for_the_effect_is_a_mistake() {
    check(
        "[tools.t]\neffect = \"read\"\nttl = \"1h\"\n",
        "p.toml:3:1: \"ttl\" has no meaning with effect = \"read\"",
    );
    check(
        "[tools.t]\neffect = \"deny\"\nscopes = [\"a\"]\n",
        "p.toml:3:1: \"scopes\" has no meaning with effect = \"deny\"",
    );
    check(
        "[methods.m]\neffect = \"read\"\nreasons = { a = \"b\" }\n",
        "p.toml:3:1: \"reasons\" has a meaning for tools only",
    );
    check_mutation("wait_up_to = \"5s\"", "p.toml:4:1: nothing waits here; say in_flight = \"wait\" as well");
    check_mutation(
        "duplicate = \"refuse\"",
        "p.toml:4:1: nothing is looked for; say duplicate_window = \"5m\" as well",
    );
}

#[test]
fn an_unknown_table_is_a_mistake() {
    check("[tool.t]\n", "p.toml:1:2: unknown table or key \"tool\"; did you mean \"tools\"?");
}

#[test]
fn what_passes_for_everyone_cannot_be_named_as_if_it_were_ruled() {
    check(
        "[methods.\"tools/list\"]\neffect = \"deny\"\n",
        "p.toml:1:10: \"tools/list\" passes for every authenticated actor; the policy cannot rule it",
    );
    check(
        "[methods.\"tools/call\"]\neffect = \"deny\"\n",
        "p.toml:1:10: tools/call is ruled tool by tool, under [tools.NAME]",
    );
}

#[test]
fn one_name_in_two_files_is_a_mistake_that_names_both_places() {
    let tool = "[tools.t]\neffect = \"deny\"\n";
    let method = "\n[methods.t]\neffect = \"deny\"\n";
    assert_eq!(
        mistakes(&[("a.toml", tool), ("b.toml", method)]),
        [
            "b.toml:2:10: \"t\" is named already at a.toml:1:8; tools, methods, routes and jobs of all files share one name space"
        ],
    );
}

#[test]
fn every_mistake_of_every_file_is_told_at_once() {
    let told = mistakes(&[
        ("b.toml", "[tools.x]\neffect = \"mutation\"\nttl = \"0s\"\n[tools.y]\neffect = \"reed\"\n"),
        ("a.toml", "[tools.z]\neffect = \n"),
    ]);
    let places: Vec<&str> = told.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, ["a.toml:2:10", "b.toml:1:1", "b.toml:3:1", "b.toml:5:10"]);
}

#[test]
fn an_idempotent_downstream_must_say_what_it_hears_and_how_long_it_remembers() {
    assert_eq!(
        mistakes(&[(
            "p.toml",
            "[tools.t]\neffect = \"mutation\"\nscopes = [\"s\"]\ndownstream = \"idempotent\"\n"
        )]),
        [
            "p.toml:4:1: an idempotent downstream needs an explicit forward_key; \
             say what the backend hears: forward_key = \"{tenant}/{tool}/{key}\"",
            "p.toml:4:1: an idempotent downstream needs downstream_retention; say how long the backend remembers a key",
        ],
    );
    check_mutation(
        "downstream = \"idempotent\"\nforward_key = \"{digest}\"\ndownstream_retention = \"48h\"",
        "p.toml:6:1: downstream_retention (2d) is longer than ttl (1d); \
         the gate may not forget a key before the backend does",
    );
    check_mutation(
        "downstream_retention = \"1h\"",
        "p.toml:4:1: nothing runs again here; say downstream = \"idempotent\" as well",
    );
}

fn two_idempotent(forward_key: &str) -> String {
    ["a", "b"]
        .map(|name| {
            format!(
                "[tools.{name}]\neffect = \"mutation\"\nscopes = [\"s\"]\ndownstream = \"idempotent\"\n\
                 downstream_retention = \"1h\"\nforward_key = \"{forward_key}\"\n"
            )
        })
        .concat()
}

#[test]
fn two_idempotent_operations_may_not_forward_the_same_key() {
    check(
        &two_idempotent("{key}"),
        "p.toml:12:1: \"b\" and \"a\" would forward the same key, and the backend would take one for the other; \
         put {tool} into forward_key, or use {digest}",
    );
    assert_eq!(mistakes(&[("p.toml", &two_idempotent("{tenant}/{tool}/{key}"))]), [""; 0]);
    assert_eq!(mistakes(&[("p.toml", &two_idempotent("{digest}"))]), [""; 0]);
}

#[test]
fn a_forwarded_key_that_does_not_tell_tenants_apart_is_warned_of() {
    let told = warnings(&two_idempotent("{tool}/{key}"));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains("two tenants")), "{told:?}");
    assert_eq!(warnings(&two_idempotent("{tenant}/{tool}/{key}")), [""; 0]);
}

#[test]
fn a_policy_that_names_nothing_is_warned_of() {
    assert_eq!(warnings("").len(), 1);
}

#[test]
fn what_is_only_observed_is_warned_of() {
    let told = warnings("[tools.t]\neffect = \"deny\"\nmode = \"observe\"\n");
    let help = "it is written down what would be refused; take the line out to refuse it";
    assert_eq!(
        told,
        [format!(
            "p.toml:3:1: \"t\" is only observed: no call of it that has a token is refused, unless another tool runs it; {help} (warning)"
        )]
    );
    let told =
        warnings("[defaults]\nmode = \"observe\"\n\n[tools.t]\neffect = \"read\"\nmode = \"enforce\"\n");
    let what = "what says nothing else in this file is only observed: no call of it that has a token is refused, unless another tool runs it";
    assert_eq!(told, [format!("p.toml:2:1: {what}; {help} (warning)")]);
    check(
        "[tools.t]\neffect = \"read\"\nmode = \"watch\"\n",
        "p.toml:3:8: unknown value \"watch\"; it may be \"enforce\" or \"observe\"",
    );
}

#[test]
fn a_reason_cannot_pass_for_what_would_have_been_refused() {
    check(
        "[tools.t]\neffect = \"read\"\nreasons = { gone = \"would_missing_scope\" }\n",
        "p.toml:3:1: \"would_missing_scope\" is what the gate writes for its own decisions; choose a word that the audit \
         can tell from them",
    );
}

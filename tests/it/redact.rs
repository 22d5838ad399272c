//! Redaction: what the client, the ledger and the audit may see.

use oncegate::domain::json::{Json, MAX_DEPTH};
use oncegate::domain::redact::{MAX_AUDIT_BYTES, Redactor, has_secret, mask_text, omitted, short};
use proptest::prelude::*;

const JWT: &str =
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1MSIsInRlbmFudF9pZCI6ImFjbWUifQ.c2lnbmF0dXJlLW9mLXNvbWU";

/// One number of every issuer.
const CARDS: [&str; 14] = [
    "4111111111111111",
    "4000000000000000006",
    "5555555555554444",
    "2223003122003222",
    "378282246310005",
    "371449635398431",
    "6011111111111117",
    "6500000000000002",
    "30569309025904",
    "38520000023237",
    "3530111333300000",
    "6200000000000005",
    "6759649826438453",
    "2200000000000004",
];

const KEYS: [&str; 16] = [
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "sk_test_4eC39HqLyjWDarjtT1zdp7dc",
    "rk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "gho_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",
    "xoxp-17653672481-19874698323",
    "AIzaSyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe",
    "glpat-abcDEF123456ghiJKL78",
    "sk-ant-api03-abcdefghij",
    "whsec_abcdefghij0123456789",
    "ya29.a0AfH6SMBx-abcdefghij_0123456789",
    JWT,
];

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), MAX_DEPTH).unwrap()
}

#[track_caller]
fn check(text: &str, masked: &str) {
    assert_eq!(mask_text(text), masked);
    assert_eq!(has_secret(&Json::from(text)), text != masked);
}

#[track_caller]
fn check_left_alone(text: &str) {
    check(text, text);
}

#[track_caller]
fn check_result(paths: &[&str], result: &str, masked: &str) {
    let mut value = json(result);
    let found = Redactor::new(paths).mask_result(&mut value);
    assert_eq!(value.to_string(), json(masked).to_string());
    assert_eq!(found, json(result) != json(masked));
}

#[track_caller]
fn check_audit(arguments: &str, written: &str) {
    assert_eq!(Redactor::default().audit_arguments(&json(arguments)), written);
}

#[test]
fn cards_of_every_issuer_are_masked_however_they_are_grouped() {
    for card in CARDS {
        check(card, "***");
        check(&format!("PAN{card}, exp 12/29"), "PAN***, exp 12/29");
        check(&format!("line\\n{card}\\n"), "line\\n***\\n");
        check(&format!("?card=%22{card}%22"), "?card=%22***%22");
        check(&format!("100%{card}"), "100%***");
        check(&format!("2026-11-30 {card} 123"), "2026-11-30 *** 123");
        let grouped = |gap: &str| match card.len() {
            14 | 15 => [&card[..4], &card[4..10], &card[10..]].join(gap),
            16 => [&card[..4], &card[4..8], &card[8..12], &card[12..]].join(gap),
            _ => [&card[..4], &card[4..8], &card[8..12], &card[12..16], &card[16..]].join(gap),
        };
        check(&format!("card {}.", grouped(" ")), "card ***.");
        check(&format!("card {}.", grouped("-")), "card ***.");
        assert!(has_secret(&json(card)), "{card} as a number");
        assert!(has_secret(&json(&format!("{card}.0"))), "{card}.0 as a number");
        assert!(has_secret(&json(&format!("{{\"{card}\":1}}"))), "{card} as a name");
    }
    assert!(has_secret(&json("4.111111111111111E15")));
    check("%B4111111111111111^DOE/JANE^2912?", "%B***^DOE/JANE^2912?");
}

#[test]
fn digits_that_only_look_long_are_left_alone() {
    for text in [
        "1764460800000",
        "1764460800000000",
        "1764460800000000000",
        "4006381333931",
        "4222222222222",
        "4111111111111112",
        "9111111111111111",
        "41111111111111111111",
        "0.4111111111111111",
        "order 20261130-000417, ord_9f2",
        "+49 151 2345 6789",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "sha256:d4111111111111111f0",
        "4111 1111 1111 1112",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "12:30 45.67 89",
    ] {
        check_left_alone(text);
    }
    for number in
        ["1764460800000", "0.4111111111111111", "4111111111111112", "4.1e15", "4e999999999999999999999", "0"]
    {
        assert!(!has_secret(&json(number)), "{number}");
    }
}

#[test]
fn tokens_and_keys_are_masked_wherever_they_stand() {
    for key in KEYS {
        check(key, "***");
        check(&format!("key={key}"), "key=***");
        check(&format!("{{\\\"log\\\":\\\"\\n{key}\\\"}}"), "{\\\"log\\\":\\\"\\n***\\\"}");
        check(&format!("({key})"), "(***)");
    }
    check("Authorization: Bearer abc123def456", "Authorization: Bearer ***");
    check("authorization: bearer dGhpcyBpcyBhIHRva2Vu", "authorization: bearer ***");
    check("BEARER  secret-token-value", "BEARER  ***");
    check("Bearer%20abc123def456&x=1", "Bearer%20***&x=1");
    check(&format!("Bearer {JWT}"), "Bearer ***");
    check("a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b", "a *** b");
    check("-----BEGIN PRIVATE KEY-----\nMIIE", "***");
    check("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----", "***");
    check("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1MSJ9.", "***");
    check("eyJhbGciOiJkaXIifQ..aXY.Y2lwaGVy.dGFn", "***");
}

#[test]
fn ordinary_words_are_left_alone() {
    for text in [
        "Bearer of bad news",
        "the bearer token is missing",
        "forbearer abc123def456",
        "Bearer realm=",
        "bearer",
        "task_list_something",
        "risk-assessment-of-the-whole-thing",
        "sk-learn-tutorial-for-beginners",
        "AKIA is a prefix",
        "AKIAIOSFODNN7EXAMPLEE",
        "xAKIAIOSFODNN7EXAMPLE",
        "ghp_short",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "eyJ.eyJ.eyJ",
        "eyJhbGciOiJIUzI1NiJ9",
        "größer als 5 €",
        "",
    ] {
        check_left_alone(text);
    }
}

#[test]
fn policy_paths_are_masked_with_their_types_kept() {
    let mut arguments = json(
        r#"{"customer":{"email":"a@b.c","id":7},"card":{"pan":"x","cvc":123,"ok":true,"n":null},"items":[{"sku":"s","note":["a","b"]},{"sku":"t"}]}"#,
    );
    assert!(Redactor::new(["customer.email", "card", "items.note", "absent.too"]).mask(&mut arguments));
    assert_eq!(
        arguments.to_string(),
        r#"{"customer":{"email":"***","id":7},"card":{"pan":"***","cvc":0,"ok":false,"n":null},"items":[{"sku":"s","note":["***","***"]},{"sku":"t"}]}"#
    );
    assert!(!Redactor::new(["card.pan.deeper", "email"]).mask(&mut arguments));
}

#[test]
fn results_are_masked_in_their_structure_and_in_texts_that_are_json() {
    check_result(
        &["customer.email"],
        r#"{"structuredContent":{"customer":[{"email":"a@b.c"}]},"content":[{"type":"text","text":"{ \"customer\": {\"email\": \"a@b.c\", \"n\": 1.0} }"},{"type":"resource","resource":{"uri":"x","text":"{\"customer\":{\"email\":\"a\"}}"}}],"isError":false}"#,
        r#"{"structuredContent":{"customer":[{"email":"***"}]},"content":[{"type":"text","text":"{\"customer\":{\"email\":\"***\",\"n\":1.0}}"},{"type":"resource","resource":{"uri":"x","text":"{\"customer\":{\"email\":\"***\"}}"}}],"isError":false}"#,
    );
    let alone = r#"{"content":[{"type":"text","text":"{ \"other\": 1 }"},{"type":"text","text":"[a@b.c] wrote"},{"text":7},8],"structuredContent":"x"}"#;
    check_result(&["customer.email"], alone, alone);
    check_result(&[], r#"{"structuredContent":{"email":"a"}}"#, r#"{"structuredContent":{"email":"a"}}"#);
}

#[test]
fn a_text_that_is_json_to_some_readers_only_is_masked_whole() {
    check_result(
        &["email"],
        r#"{"content":[{"text":"{\"email\":\"a\",\"email\":\"b\"}"}]}"#,
        r#"{"content":[{"text":"***"}]}"#,
    );
}

#[test]
fn errors_are_masked_in_their_data() {
    let mut error = json(r#"{"code":-32000,"message":"no","data":{"email":"a@b.c"}}"#);
    assert!(Redactor::new(["email"]).mask_error(&mut error));
    assert_eq!(error.path(&["data", "email"]), Some(&Json::from("***")));
}

#[test]
fn the_audit_gets_arguments_without_secrets_and_without_long_texts() {
    check_audit(
        r#"{"order_id":"ord_9f2","card":"4111 1111 1111 1111","pan":4111111111111111,"note":"use sk_live_abc123def"}"#,
        r#"{"order_id":"ord_9f2","card":"***","pan":0,"note":"use ***"}"#,
    );
    check_audit(
        r#"{"password":"hunter2","Api-Key":"x","client_secret":["a",1],"page_token":"p2"}"#,
        r#"{"password":"***","Api-Key":"***","client_secret":["***",0],"page_token":"p2"}"#,
    );
    check_audit(
        r#"{"to":"a@b.c","body":"Dear Jane, we have refunded your order.","note":"one\ntwo and three and four and five"}"#,
        r#"{"to":"a@b.c","body":"Dear Jane, we have refun… (39 characters)","note":"one\ntwo and three and fo… (35 characters)"}"#,
    );
    let long = "é".repeat(200);
    check_audit(
        &format!("{{\"q\":\"{long}\"}}"),
        &format!("{{\"q\":\"{}… (200 characters)\"}}", "é".repeat(128)),
    );
    // A NUL is a character that no database takes: JSON escapes it.
    check_audit(r#"{"q":"\u0000"}"#, r#"{"q":"\u0000"}"#);
    let written = Redactor::new(["customer"]).audit_arguments(&json(r#"{"customer":{"email":"a"}}"#));
    assert_eq!(written, r#"{"customer":{"email":"***"}}"#);
}

#[test]
fn a_secret_at_the_place_of_the_cut_is_masked_first() {
    let text = format!("{} 4111111111111111", "x".repeat(120));
    check_audit(&format!("{{\"q\":\"{text}\"}}"), &format!("{{\"q\":\"{} ***\"}}", "x".repeat(120)));
}

#[test]
fn very_large_arguments_are_written_as_size_and_hash() {
    let numbers = Json::from((0..5000).map(Json::from).collect::<Vec<_>>());
    let written = Redactor::default().audit_arguments(&numbers);
    let omitted_as = json(&written);
    assert_eq!(omitted_as.path(&["omitted", "bytes"]), Some(&Json::from(23_891)));
    assert_eq!(omitted_as.path(&["omitted", "hash"]).and_then(Json::as_str).unwrap().len(), 7 + 64);
    assert!(written.len() < MAX_AUDIT_BYTES);
    assert_eq!(omitted(12, "k:h"), r#"{"omitted":{"bytes":12,"hash":"k:h"}}"#);
}

#[test]
fn a_summary_holds_the_named_fields_only() {
    let redactor = Redactor::new(["refund.customer.email", "refund.note"]);
    let fields =
        ["refund.id", "refund.amount_cents", "refund.note", "refund.customer", "refund.absent", "lines.sku"];
    let inner = r#"{"refund":{"id":"re_1","amount_cents":1250,"note":"n","customer":{"email":"a@b.c","id":3},"other":1},"lines":[{"sku":"s"},{"sku":"t"},{}]}"#;
    let summary = r#"{"refund.id":"re_1","refund.amount_cents":1250,"refund.note":"***","refund.customer":{"email":"***","id":3},"lines.sku":["s","t"]}"#;
    let structured = json(&format!("{{\"structuredContent\":{inner}}}"));
    assert_eq!(redactor.summary(&structured, &fields).as_deref(), Some(summary));
    let text = Json::object([(
        "content",
        vec![Json::object([("text", "done".into())]), Json::object([("text", inner.into())])].into(),
    )]);
    assert_eq!(redactor.summary(&text, &fields).as_deref(), Some(summary));
    assert_eq!(redactor.summary(&json(inner), &fields).as_deref(), Some(summary));
    assert_eq!(redactor.summary(&structured, &["nothing"]), None);
    assert_eq!(redactor.summary::<&str>(&structured, &[]), None);
    let leaking = json(r#"{"structuredContent":{"refund":{"id":"4111111111111111"}}}"#);
    assert_eq!(redactor.summary(&leaking, &fields).as_deref(), Some(r#"{"refund.id":"***"}"#));
}

#[test]
fn a_short_text_is_one_line_without_secrets() {
    assert_eq!(short("declined:\r\n card 4111111111111111\0", 40), "declined:  card ***");
    assert_eq!(short("abcdef", 3), "abc… (6 characters)");
}

#[test]
fn hostile_texts_are_scanned_in_linear_time() {
    for piece in [
        "eyJ",
        "eyJaaaaaaaaa.",
        "eyJaaaaaaaaa..",
        "Bearer ",
        "bearer:bearer",
        "4111 ",
        "4111-",
        "411111111111",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "AKIA",
        "sk_live_",
        "ghp_aaaaaaaaa",
        "AIza",
        "%4",
        "\\u0",
        "ya29.",
        "b",
        "1",
    ] {
        let text = piece.repeat(300_000 / piece.len());
        let masked = mask_text(&text);
        assert!(masked.len() <= text.len());
    }
}

/// Ordinary text: words, identifiers, times, numbers that are no cards.
fn ordinary() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z]{1,10}",
        "ord_[a-z0-9]{3,6}",
        "1[67][0-9]{11}",
        "20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z",
        "[0-9]{1,6}\\.[0-9]{2}",
        "[a-z]{3,8}@example\\.com",
        Just("€".to_owned()),
        Just("Bearer of".to_owned()),
    ];
    prop::collection::vec(word, 0..8).prop_map(|words| words.join(" "))
}

fn secret() -> impl Strategy<Value = String> {
    let token = "[A-Za-z0-9._~+/-]{20,60}".prop_map(|token| format!("Bearer {token}"));
    prop_oneof![
        prop::sample::select(CARDS.to_vec()).prop_map(str::to_owned),
        prop::sample::select(KEYS.to_vec()).prop_map(str::to_owned),
        token,
    ]
}

fn planted() -> impl Strategy<Value = (String, String)> {
    let gap = prop::sample::select(vec![" ", "\n", "\"", "=", "(", "\\n", "\\\"", ",", ":", "/", "€", "_"]);
    (ordinary(), secret(), ordinary(), gap.clone(), gap).prop_map(|(before, secret, after, left, right)| {
        (secret.clone(), format!("{before}{left}{secret}{right}{after}"))
    })
}

proptest! {
    #[test]
    fn a_planted_secret_never_comes_out((secret, text) in planted()) {
        let hidden = secret.strip_prefix("Bearer ").unwrap_or(&secret);
        let masked = mask_text(&text);
        prop_assert!(!masked.contains(hidden), "{} in {}", hidden, masked);
        let value = Json::object([("a", vec![Json::from(text.as_str())].into()), (text.as_str(), true.into())]);
        prop_assert!(has_secret(&value));
        let written = Redactor::default().audit_arguments(&value);
        prop_assert!(!written.contains(hidden), "{} in {}", hidden, written);
        prop_assert!(!has_secret(&json(&written)), "{}", written);
    }

    #[test]
    fn ordinary_text_is_left_alone(text in ordinary()) {
        prop_assert_eq!(mask_text(&text), text.as_str());
    }

    #[test]
    fn what_was_masked_holds_no_secret(text in "[ a-z0-9._\\\\-]{0,40}|\\PC{0,40}", (_, other) in planted()) {
        let masked = mask_text(&format!("{text}{other}{text}")).into_owned();
        prop_assert_eq!(mask_text(&masked), masked.as_str());
    }
}

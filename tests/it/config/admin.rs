//! The listener for operators, as it is configured.

use std::fs;

use super::{Sources, check};

#[test]
fn operators_are_listened_to_only_with_a_token_that_cannot_be_guessed() {
    let sources = Sources::new();
    assert!(sources.serve().admin.is_none());
    fs::write(sources.path("token"), "0123456789abcdef\n").expect("a token");
    let line = |file: &str| format!("admin_token_file = \"{}\"\nservice =", sources.path(file));
    let with = |file: &str| Sources::new().file("service =", &line(file));
    let admin = with("token").serve().admin.expect("a listener");
    assert_eq!(
        (admin.listen.to_string().as_str(), admin.token.text()),
        ("127.0.0.1:9090", "0123456789abcdef")
    );
    for (text, fault) in
        [("0123456789abcde", "has 15 bytes, and needs 16 or more"), ("0123456789 abcdef", "is not one word")]
    {
        fs::write(sources.path("bad"), text).expect("a token");
        let mistakes = with("bad").mistakes().join("\n");
        assert!(mistakes.contains(fault), "{mistakes}");
    }
    let taken = with("token").flags(&["--admin-listen", "0.0.0.0:8080"]);
    check(&taken, "--admin-listen: admin_listen is the address of another listener");
    let asked = Sources::new().layers().and_then(|layers| layers.admin()).err().expect("no token is named");
    assert!(asked.to_string().contains("admin_token_file is missing"), "{asked}");
}

//! Settings that are lists or tables.

use super::Sources;

#[test]
fn hosts_and_origins_are_listed_in_every_source_and_checked() {
    let sources = Sources::new().file("public_url", "allowed_hosts = \"a.example.com\"\npublic_url");
    assert_eq!(sources.serve().allowed_hosts.len(), 1);
    assert_eq!(sources.serve().allowed_origins, []);
    let sources = sources
        .variable("ONCEGATE_ALLOWED_ORIGINS", "[\"https://a.example.com\", \"app://desk\"]")
        .flags(&["--allowed-hosts", "b.example.com:8443", "--allowed-hosts", "*"]);
    assert_eq!((sources.serve().allowed_hosts.len(), sources.serve().allowed_origins.len()), (2, 2));
    let broken = Sources::new()
        .flags(&["--allowed-hosts", "https://a.example.com", "--allowed-hosts", "a/b"])
        .variable("ONCEGATE_ALLOWED_ORIGINS", "null");
    let told = broken.mistakes();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("ONCEGATE_ALLOWED_ORIGINS: \"null\" is not an origin"), "{told:?}");
    assert!(told[1].starts_with("--allowed-hosts: \"a/b\" is not a host"), "{told:?}");
    assert!(told[2].starts_with("--allowed-hosts: \"https://a.example.com\" is not a host"), "{told:?}");
}

#[test]
fn lists_and_tables_come_from_every_source() {
    let sources = Sources::new().variable("ONCEGATE_AUTH__AUDIENCE", "[\"a\", \"b\"]");
    assert_eq!(sources.serve().auth.audiences, ["a", "b"]);
    let sources = sources.flags(&["--auth-audience", "c", "--auth-audience", "d"]);
    assert_eq!(sources.serve().auth.audiences, ["c", "d"]);
    let sources = sources
        .file("[store]", "[auth.roles]\nclerk = [\"a\"]\n[store]")
        .variable("ONCEGATE_AUTH__ROLES", "{ ops = [\"x\", \"y\"] }");
    let roles = sources.serve().auth.roles;
    assert_eq!(
        roles.into_iter().collect::<Vec<_>>(),
        [("ops".to_owned(), vec!["x".to_owned(), "y".to_owned()])]
    );
}

//! The Redis before the ledger.

use super::{Sources, check};

#[test]
fn a_redis_is_named_by_its_url_or_a_file_that_holds_it_and_its_password_is_never_said() {
    let serve = |sources: Sources| sources.serve().herd;
    assert_eq!(serve(Sources::new()), None, "there is none by default");
    let url = "rediss://:hunter2@cache:6380/1";
    assert_eq!(serve(Sources::new().flags(&["--herd-redis-url", url])).as_deref(), Some(url));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("{url}\n")).expect("its text");
    let path = file.path().to_str().expect("a plain path");
    let from_file = Sources::new().variable("ONCEGATE_HERD__REDIS_URL_FILE", path);
    assert_eq!(serve(from_file).as_deref(), Some(url));
    check(
        &Sources::new().variable("ONCEGATE_HERD__REDIS_URL", "http://:hunter2@cache"),
        "ONCEGATE_HERD__REDIS_URL: the URL is none of a Redis; it begins with redis:// or rediss://",
    );
}
